"""A self-contained interactive page of a result, and what a notebook shows of it."""

from __future__ import annotations

import base64
import html as escaping
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.measures.trust import headline, without
from geosim.model.robot import VolumetricRobot
from geosim.result import Result
from geosim.show import fields
from geosim.show.cables import cable_points, cable_surface
from geosim.show.colors import BRIGHTEST, CABLE, colored
from geosim.show.contact import ARROW_REL, contact_pressures, largest_force, surroundings
from geosim.show.picture import camera_of
from geosim.show.raster import LIGHT_DIRECTION
from geosim.show.summary import cell, known_columns, summary_rows, telling_columns
from geosim.writing import checked_target, filled, in_script, write_whole

VIEWER = Path(__file__).parent / "viewer"
MIN_BOX_SIDE_REL = 1e-3  # of a box that is flat, over its longest side
MAX_PAGE_FRAMES = 60  # with MAX_PAGE_NUMBERS: a page stays below some 10 MB
MAX_PAGE_NUMBERS = 3_000_000
# Directions towards the eye, the light, and upwards, of what has no motion or none that is known yet.
STILL_VIEW = {"eye": [-0.45, -1.0, 0.45], "light": [-0.25, -0.6, 0.75], "up": [0.0, 0.0, 1.0]}


def html(result: Result, path: str | Path) -> Path:
    """Write a page that turns, zooms and plays the frames; it needs no network and no other file.

    Parameters
    ----------
    result
        What was solved.
    path
        .html file; its folder exists. Of very many frames an even selection is shown, which the page says.

    Returns
    -------
    Path
        The file written.

    Raises
    ------
    InputError
        The suffix or the folder is wrong, or there is no frame.
    """
    path = checked_target(path, ".html")
    result.checked_frame(-1)
    return write_whole(path, page_text(_data(result)))


def packed(content: np.ndarray | bytes) -> str:
    """Deflated bytes in base64: a browser unpacks them by itself."""
    raw = content if isinstance(content, bytes) else content.tobytes()
    return base64.b64encode(zlib.compress(raw, 6)).decode("ascii")


def whole(values: Floats, low: Any, high: Any) -> np.ndarray:
    """Values as whole numbers of 16 bits between the least and the largest: a page shows no more of them."""
    number_steps = 65535  # steps of a number: 2 um of 130 mm
    return np.asarray(np.round((values - low) / np.subtract(high, low) * number_steps).astype("<u2"))


def _selected_frames(count: int, points: int) -> list[int]:
    """Frames to show: all, or an even selection that ends with the last."""
    most = max(2, min(MAX_PAGE_FRAMES, MAX_PAGE_NUMBERS // max(4 * points, 1)))
    if count <= most:
        return list(range(count))
    return list(map(int, np.unique(np.linspace(0, count - 1, most).round())))


def _data(result: Result) -> dict[str, Any]:
    """Everything that the page shows, as JSON with packed arrays (lengths in mm)."""
    robot = result.robot
    shown = drawn_surfaces(result)
    body = shown["body"]
    chosen = _selected_frames(len(result.frames), sum(len(part.used) for part in shown.values()))
    frames = {name: [part.frame(i) for i in chosen] for name, part in shown.items()}
    solid = body.solid
    touched = any(contact_pressures(result, i) is not None for i in chosen)
    keys = ["displacement", *(["stretch", "stress"] if solid else []), *(["contact"] if touched else [])]
    everything = [at for part in shown.values() for at in (part.rest, *(frame["points"] for frame in frames["body"]))]
    every = np.vstack(everything)
    low, high = every.min(axis=0), every.max(axis=0)
    high = np.maximum(high, low + MIN_BOX_SIDE_REL * max(float(np.ptp(every, axis=0).max()), fields.UNMOVED_MM))
    ranges = {key: _range(key, frames) for key in keys}
    rows = _rows(result)
    columns = known_columns(rows)
    command, did = telling_columns(result)
    note = "" if len(chosen) == len(rows) else f"{len(chosen)} of {len(rows)} frames are drawn."
    return {
        "name": robot.name,
        "status": headline(result.status, result.trust()),
        "message": without(result.message, result.trust()),
        "trust": list(result.trust()),
        "converged": bool(result.converged),
        "note": note,
        "colors": {key: map for key, map in color_maps().items() if key in keys},
        "keys": keys,
        "solid": solid,
        "ranges": ranges,
        "box": [low.tolist(), high.tolist()],
        **{name: part.packed(frames[name], ranges, low, high) for name, part in shown.items()},
        "around": _around(result, chosen, every),
        "chosen": chosen,
        "times": [float(result.times[i]) for i in chosen],
        "command": command,
        "did": did,
        "chambers": list(getattr(robot, "chamber_names", ())),
        "columns": columns,
        "rows": [[cell(row[c]) for c in columns] for row in rows],
        "residuals": _residuals(result),
        **view_directions(result, every),
    }


def _rows(result: Result) -> list[dict[str, float | int | str]]:
    """The rows of the summary with the sum of the normal forces on every obstacle."""
    forces = result.grip_force
    extra: list[dict[str, float | int | str]] = [
        {f"grip_force_n_{o + 1}": float(f) for o, f in enumerate(row)} for row in forces
    ]
    return [row | more for row, more in zip(summary_rows(result), extra)]


def drawn_surfaces(result: Result) -> dict[str, DrawnSurface]:
    """Return the surfaces that are shown of a robot by name: "body", its skin, and "walls" of chambers, if it has any."""
    robot = result.robot
    curved = len(robot.p2_edges) > 0
    curved_faces_limit = 8000  # of the skin: fewer are shown curved, each as four
    level = 1 if curved and len(robot.skin) < curved_faces_limit else 0
    # turned: like those of the skin they look out of the body
    walls = robot.chamber_walls if isinstance(robot, VolumetricRobot) else ()
    surfaces = {"body": None, "walls": np.vstack(walls)[:, ::-1] if len(walls) else np.empty((0, 3), dtype=np.int64)}
    solid = curved and len(robot.body_tets) > 0
    of_nodes = cache(lambda i: fields.of_nodes(result, i) if solid else None)
    return {
        name: DrawnSurface(result, level, faces, of_nodes)
        for name, faces in surfaces.items()
        if faces is None or len(faces)
    }


class DrawnSurface:
    """A surface of the robot in all frames, without the points that it does not use; lengths in mm."""

    def __init__(
        self, result: Result, level: int, faces: Ints | None, of_nodes: Callable[[int], tuple[Floats, Floats] | None]
    ) -> None:
        self.result, self.level, self.faces, self.of_nodes = result, level, faces, of_nodes
        self.first = fields.shown_surface(result, 0, level, faces, of_nodes(0))
        self.used, triangles = np.unique(self.first.triangles, return_inverse=True)
        self.triangles = triangles.reshape(-1, 3).astype("<u4")
        self.rest = 1e3 * self.first.rest[self.used]

    @property
    def solid(self) -> bool:
        """Whether stretch and stress are known on it."""
        return bool(np.isfinite(self.first.stretch).all())

    def frame(self, i: int) -> dict[str, Floats]:
        """Points [mm] and fields of a frame."""
        shown = self.first if i == 0 else fields.shown_surface(self.result, i, self.level, self.faces, self.of_nodes(i))
        values = {key: shown.in_units(key)[self.used] for key in fields.COLORS}
        return {"points": 1e3 * shown.points[self.used], **values}

    def packed(self, frames: list[dict[str, Floats]], ranges: dict[str, list[float]], low: Floats, high: Floats) -> Any:
        """Triangles, rest shape and frames as text."""
        out = [
            {"points": packed(whole(frame["points"], low, high))}
            | {
                key: packed(whole(np.clip(frame[key], least, most), least, most))
                for key, (least, most) in ranges.items()
                if key != "displacement"  # the page knows it from the points
            }
            for frame in frames
        ]
        return {"triangles": packed(self.triangles), "rest": packed(whole(self.rest, low, high)), "frames": out}


def _range(key: str, frames: dict[str, list[dict[str, Floats]]]) -> list[float]:
    """Least and largest value of a field on the skin over all frames; only a stretch may begin at another value than 0."""
    values = [frame[key] for frame in frames["body"]]
    low = min(1.0, *(float(v.min()) for v in values)) if key == "stretch" else 0.0
    return [low, max(low + fields.UNMOVED_MM, *(float(v.max()) for v in values))]


def _residuals(result: Result) -> list[list[Any]]:
    """[frame, residuals of its iterations] of all frames."""
    found: dict[int, list[float | None]] = {}
    for record in result.trace:
        if "residual" in record and "frame" in record:
            residual = float(record["residual"])
            found.setdefault(int(record["frame"]), []).append(residual if np.isfinite(residual) else None)
    return [[i, found[i]] for i in sorted(found)]


def _around(result: Result, chosen: list[int], everything: Floats) -> dict[str, Any]:
    """Obstacles, contact forces and cables: each surface once, and for every frame and "rest" the numbers of those it shows.

    `everything` are all positions of the robot [mm] (n, 3), under which planes are drawn.
    """
    size = float(np.linalg.norm(np.ptp(everything, axis=0))) * 1e-3
    newtons = max(largest_force(result, i) for i in chosen)
    numbers: dict[tuple[str, float, str, str], int] = {}

    def numbered(surfaces: list[tuple[str, float, Floats, Ints]]) -> list[int]:
        kept = [(c, o, packed((1e3 * x).astype("<f4")), packed(faces.astype("<u4"))) for c, o, x, faces in surfaces]
        return [numbers.setdefault(surface, len(numbers)) for surface in kept]

    frames = [numbered(surroundings(result, i, 1e-3 * everything, size, newtons)) for i in chosen]
    ways = [cable.points for cable in result.robot.cables] if cable_points(result, 0) else []
    points, faces = cable_surface(result.robot, ways)
    rest = numbered([(CABLE, 1.0, points, faces)] if ways else [])
    of_arrows = {"newtons": newtons, "arrow_mm": 1e3 * ARROW_REL * size}
    return {"surfaces": list(numbers), "frames": frames, "rest": rest, "cable": CABLE, **of_arrows}


def color_maps() -> dict[str, list[list[int]]]:
    """64 colours [0..255] of each colour map, the same as in the pictures."""
    return {key: ramp(name) for key, (_, name) in fields.COLORS.items()}


def ramp(name: str) -> list[list[int]]:
    """64 colours [0..255] of a colour map."""
    colors: list[list[int]] = np.round(BRIGHTEST * colored(np.linspace(0.0, 1.0, 64), name)).astype(int).tolist()
    return colors


def view_directions(result: Result, rest: Any) -> dict[str, list[float]]:
    """Directions towards the eye, the light, and upwards; as in the picture."""
    moving = np.vstack([rest, 1e3 * result.frames[-1][result.robot.body_vertices]])
    camera, up = camera_of(result, moving)
    axes = camera.axes
    light = LIGHT_DIRECTION @ axes
    return {"eye": axes[2].tolist(), "light": (light / np.linalg.norm(light)).tolist(), "up": up.tolist()}


def page_text(data: dict[str, Any]) -> str:
    """Return the page of data as `page.js` reads it."""
    files = ("viewer.html", "viewer.js", "page.js")
    template, script, page = ((VIEWER / file).read_text(encoding="utf-8") for file in files)
    drawing = packed((VIEWER / "three.min.js").read_bytes())
    name = escaping.escape(data["name"])
    return filled(template, {"NAME": name, "DATA": in_script(data), "SCRIPT": script, "PAGE": page, "THREE": drawing})
