"""The result of a comparison: numbers, deviation map and their files (VTP, PNG and HTML maps, a table, a report)."""

from __future__ import annotations

import csv
import html
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from geosim.apps.compare.surface import ComparedSurface
from geosim.arguments import guarded
from geosim.arrays import Bools, Floats, Ints, shown
from geosim.errors import InputError
from geosim.model.robot import VolumetricRobot
from geosim.result import Result
from geosim.show.colors import OBSTACLE
from geosim.show.page import STILL_VIEW, packed, page_text, ramp, whole
from geosim.writing import checked_target, figure_and_text, replacing, write_vtp

MANY_POINTS = 500  # drawn: more are drawn small
FOREIGN_DISTANCE_REL = 0.5  # of the robot's size, from which on what was measured is no part of it, or of another robot


@guarded
@dataclass(frozen=True)
class Comparison:
    """A result against a measurement; all lengths in metres.

    Parameters
    ----------
    kind
        "markers" or "scan".
    rms, mean, max, percentile95
        Of the absolute distances of the points that count (markers compared; scan points that are no outliers).
    mean_signed
        Mean of the signed distances of a scan (positive: measured outside the model); nan for markers.
    size
        Bounding-box diagonal of the robot at rest, to which percentages refer.
    transform
        Rigid transform from measured to robot, (4, 4).
    points
        Measured points in the robot's frame, (p, 3).
    distances
        Of every point: signed for a scan, absolute for markers, (p,).
    outliers
        Points that do not count, (p,).
    per_vertex
        Mean signed distance (scan) near every robot vertex, or the distance of the markers attached there, (n,); nan
        where nothing was measured.
    names
        Of the markers.
    regions
        Rows (name, count, mean, rms, max) along the robot from its base to its tip, or per marker.
    noise, systematic
        Split of the rms of a scan: the scatter of neighbouring points about their mean, and what remains between
        patches; a right model has systematic near 0. nan for markers.
    pose_error
        Standard errors of the registration (position [m], rotation [rad]).
    pose_systematic
        What these alone do to `systematic`: rms distance [m] of a right model from a scan in a pose that is one standard
        error off; nan for markers.
    notes
        What was detected and assumed, one sentence each.
    doubts
        Which of the notes are probably mistakes, or a pose that is not the only one.
    surface
        The model's skin; values per skin vertex of a scan in `surface_values`.
    predicted
        Where the model has the markers, (p, 3); None for a scan.
    """

    kind: str
    rms: float
    mean: float
    max: float
    percentile95: float
    mean_signed: float
    size: float
    transform: Floats
    points: Floats
    distances: Floats
    outliers: Bools
    per_vertex: Floats
    names: tuple[str, ...] = ()
    regions: tuple[tuple[str, int, float, float, float], ...] = ()
    noise: float = np.nan
    systematic: float = np.nan
    pose_error: tuple[float, float] = (np.nan, np.nan)
    pose_systematic: float = np.nan
    notes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    surface: ComparedSurface | None = field(default=None, repr=False)
    surface_values: Floats | None = field(default=None, repr=False)
    predicted: Floats | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        counted, left = int((~self.outliers).sum()), int(self.outliers.sum())
        doubts = f", {len(self.doubts)} to check" if self.doubts else ""
        return (
            f"Comparison({self.kind}, rms {1e3 * self.rms:.3f} mm ({self.percent['rms']:.2f} % of size), largest "
            f"{1e3 * self.max:.3f} mm, {counted} points compared, {left} left out{doubts})"
        )

    @property
    def percent(self) -> Mapping[str, float]:
        """Errors in percent of the robot's size, as [Fang2022, Fig. 12] states them."""
        return {k: 100.0 * getattr(self, k) / self.size for k in ("rms", "mean", "max", "percentile95")}

    @property
    def disagrees(self) -> bool:
        """Whether a scan departs from the model by more than its own noise and the error of its pose explain."""
        # systematic part over noise of a scan from which on the model departs from it
        systematic_noise_ratio = 0.3
        exact_scan_rel = 1e-9  # part of the robot's size below which a scan without noise is exact: rounding
        explained = float(np.hypot(systematic_noise_ratio * self.noise, self._pose_share))
        return bool(self.systematic > max(explained, exact_scan_rel * self.size))

    @property
    def _pose_share(self) -> float:
        """Systematic part [m] that the pose of a right model stays below: at three standard errors in 99.7 % of the scans."""
        pose_standard_errors = 3.0
        return pose_standard_errors * float(np.nan_to_num(self.pose_systematic))

    def lines(self) -> list[str]:
        """Return the comparison as lines of text."""
        mm = 1e3
        out = [
            f"{self.kind}: {int((~self.outliers).sum())} points compared, {int(self.outliers.sum())} left out",
            "            mm      % of size",
        ]
        for key, label in (("mean", "mean"), ("rms", "rms"), ("percentile95", "95 %"), ("max", "max")):
            out.append(f"  {label:6s} {mm * getattr(self, key):8.3f}   {self.percent[key]:8.3f}")
        if self.kind == "scan":
            out.append(f"  mean signed {mm * self.mean_signed:.3f} mm (positive: measured outside the model)")
            bound = "at most " if self.disagrees else ""  # a wrong model scatters neighbours, too
            out.append(
                f"  noise {bound}{mm * self.noise:.3f} mm, systematic {mm * self.systematic:.3f} mm "
                f"(the pose alone: up to {mm * self._pose_share:.3f} mm): the model "
                + ("departs from the scan" if self.disagrees else "agrees with the scan within its noise and pose")
                + (", in a pose that is doubtful (check below)" if self.doubts else "")
            )
        if np.isfinite(self.pose_error[0]):
            out.append(
                f"  pose known to {mm * self.pose_error[0]:.3f} mm, {np.degrees(self.pose_error[1]):.3f} deg "
                f"(standard error)"
            )
        out.append(f"  {'region':20s} {'count':>7s} {'mean mm':>9s} {'rms mm':>9s} {'max mm':>9s}")
        for name, count, mean, rms, largest in self.regions:
            out.append(f"  {name:20s} {count:7d} {mm * mean:9.3f} {mm * rms:9.3f} {mm * largest:9.3f}")
        return out + [f"  {'check' if n in self.doubts else 'note'}: {n}" for n in self.notes]

    def _repr_html_(self) -> str:
        with tempfile.TemporaryDirectory(prefix="geosim-picture-") as folder:
            return figure_and_text(_picture(self, Path(folder) / "p.png"), "map of distances", self.lines())

    def plot(self, path: str | Path) -> Path:
        """Write a PNG of the points, coloured by their distance, on the model; the path is returned.

        Raises
        ------
        InputError
            The suffix or the folder is wrong.
        """
        path = checked_target(path, ".png")
        with replacing(path) as beside:
            _picture(self, beside)
        return path

    def save(self, folder: str | Path) -> list[Path]:
        """Write map.vtp, points.vtp, map.png, map.html, report.html and regions.csv; the paths are returned.

        Raises
        ------
        InputError
            The folder's parent does not exist.
        """
        folder = Path(folder)
        if not folder.parent.is_dir():
            raise InputError(f"{folder}: the folder {folder.parent} does not exist; create it first")
        folder.mkdir(exist_ok=True)
        known = np.isfinite(self.points).all(axis=1)
        fields = {"distance_m": self.distances[known], "outlier": self.outliers[known].astype(float)}
        paths = [write_vtp(folder / "points.vtp", self.points[known], None, fields)]
        if self.surface is not None:
            fields = {} if self.surface_values is None else {"distance_m": self.surface_values}
            paths.append(write_vtp(folder / "map.vtp", self.surface.vertices, self.surface.faces, fields))
        with (folder / "regions.csv").open("w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerow(["region", "count", "mean_mm", "rms_mm", "max_mm"])
            table.writerows([n, c, *(f"{1e3 * v:.6g}" for v in rest)] for n, c, *rest in self.regions)
        picture = _picture(self, folder / "map.png")
        page = _page(self, folder / "map.html")
        return [*paths, folder / "regions.csv", picture, page, _report(self, picture, folder)]


def compared(
    result: Result, transform: Floats, points: Floats, distances: Floats, outliers: Bools, **others: Any
) -> Comparison:
    """Return the comparison of points with their distances, statistics of those that are no outliers; arguments as there."""
    used = distances[~outliers]
    size = np.abs(used)
    return Comparison(
        rms=float(np.sqrt(np.mean(size**2))),
        mean=float(size.mean()),
        max=float(size.max()),
        percentile95=float(np.quantile(size, 0.95)),
        size=robot_size(result),
        transform=transform,
        points=points,
        distances=distances,
        outliers=outliers,
        **others,
    )


def robot_size(result: Result) -> float:
    """Return the diagonal of the bounding box of a robot at rest [m]."""
    return float(np.linalg.norm(np.ptp(result.robot.vertices, axis=0)))


def fixed_vertices(result: Result) -> Ints:
    """Return the vertex ids at which a robot is held, none where it has no tets."""
    robot = result.robot
    return robot.fixed if isinstance(robot, VolumetricRobot) else np.empty(0, dtype=np.int64)


def load_surface(result: Result, frame: int) -> tuple[ComparedSurface, Ints]:
    """Return the skin of a frame and its robot vertex ids (-1 between vertices).

    Raises
    ------
    InputError
        There is no such frame.
    """
    if not isinstance(result, Result):
        raise InputError(f"compare: {shown(result)} is not a Result; load one with geosim.load_result")
    mesh = result.surface(result.checked_frame(frame), subdivide=1)
    vertices, faces = np.asarray(mesh.vertices), np.asarray(mesh.faces)
    ids = np.asarray(mesh.metadata.get("vertex", np.arange(len(vertices))))
    return ComparedSurface(vertices, faces), ids


def _limits(c: Comparison) -> tuple[float, float]:
    """Distances [mm] at the ends of the colours: 95 % of the points lie between."""
    top = 1e3 * c.percentile95
    return (-top, top) if c.kind == "scan" else (0.0, max(top, 1e-9))


def _drawn(c: Comparison) -> Any:
    """Points to draw: of a scan those that count, thinned out; of markers all that were seen."""
    known = np.flatnonzero(np.isfinite(c.distances) & (~c.outliers | (c.predicted is not None)))
    max_drawn_points = 20000  # points drawn in pictures
    return known[:: max(len(known) // max_drawn_points, 1)]


def _picture(c: Comparison, path: Path) -> Path:
    """Draw the points, coloured by distance, seen from two sides, and the distances."""
    from matplotlib.figure import Figure

    figure, show = Figure(figsize=(15.0, 5.0), layout="constrained"), _drawn(c)
    for place, azimuth in enumerate((-60, 30)):
        axis: Any = figure.add_subplot(1, 3, place + 1, projection="3d", computed_zorder=False)
        drawn = _view(axis, c, show)
        axis.view_init(20, azimuth)
    if c.predicted is not None:
        axis.legend(fontsize=7, loc="upper left")
    figure.colorbar(drawn, ax=axis, label="distance [mm]", extend="both")
    _chart(figure.add_subplot(1, 3, 3), c, show)
    figure.savefig(path, format="png", dpi=130)
    return path


def _view(axis: Any, c: Comparison, show: Ints) -> Any:
    """Draw the skin, the places of the model and the points shown (k,), which are returned, in three dimensions."""
    low, high = _limits(c)
    points = c.points[show] * 1e3
    if c.surface is not None:
        axis.plot_trisurf(
            *(c.surface.vertices.T * 1e3), triangles=c.surface.faces, color="0.8", alpha=0.25, linewidth=0
        )
    if c.predicted is not None:
        axis.scatter(*(c.predicted[show] * 1e3).T, s=40, facecolors="none", edgecolors="black", label="model")
        for one, two in zip(points, c.predicted[show] * 1e3):
            axis.plot(*np.stack([one, two]).T, color="black")
    drawn = axis.scatter(
        *points.T,
        c=c.distances[show] * 1e3,
        cmap="coolwarm" if low < 0 else "viridis",
        vmin=low,
        vmax=high,
        s=2 if len(show) > MANY_POINTS else 20,
        label="measured",
    )
    axis.set_aspect("equal")
    spans = np.array([np.ptp(limits) for limits in (axis.get_xlim(), axis.get_ylim(), axis.get_zlim())])
    for name, span in zip("xyz", spans):  # a short side has room for two numbers
        axis.locator_params(axis=name, nbins=max(1, round(4 * span / spans.max())))
    axis.tick_params(labelsize=7, pad=0)
    axis.set(xlabel="x [mm]", ylabel="y [mm]", zlabel="z [mm]")
    return drawn


def _chart(axis: Any, c: Comparison, show: Ints) -> None:
    """Draw the distances: of few markers a bar each, else a histogram."""
    title = f"rms {1e3 * c.rms:.3f} mm ({c.percent['rms']:.2f} % of size)"
    max_marker_bars = 30  # markers of which each gets a bar
    if c.predicted is not None and len(show) <= max_marker_bars:
        colors = ["0.7" if c.outliers[i] else "C0" for i in show]
        axis.barh([c.names[i] for i in show], c.distances[show] * 1e3, color=colors)
        axis.invert_yaxis()
        axis.set(xlabel="distance [mm] (grey: not counted)", title=title)
    else:
        axis.hist(c.distances[np.isfinite(c.distances) & ~c.outliers] * 1e3, bins=60)
        axis.set(xlabel="distance [mm]", ylabel="points", title=title)


def _page(c: Comparison, path: Path) -> Path:
    """Write an interactive map: points as octahedra in the colours of their distances, the skin of a scan likewise."""
    low, high = _limits(c)
    show, skin = _drawn(c), c.surface
    mark = 1e3 * c.size * (0.004 if len(show) > MANY_POINTS else 0.008)
    marks, faces = _octahedra(1e3 * c.points[show], mark)
    points, triangles, values = [marks], [faces], [np.repeat(1e3 * c.distances[show], 6)]
    around = [] if c.predicted is None else [("#222222", 0.5, *_octahedra(1e3 * c.predicted[show], mark))]
    if skin is not None and c.surface_values is None:
        around.append((OBSTACLE, 0.3, 1e3 * skin.vertices, skin.faces))
    elif skin is not None and c.surface_values is not None:
        points.append(1e3 * skin.vertices)
        triangles.append(skin.faces + len(marks))
        values.append(1e3 * np.nan_to_num(c.surface_values))
    shown, every = np.vstack(points), np.vstack([*points, *(part[2] for part in around)])
    box = every.min(axis=0), every.max(axis=0)
    drawn = packed(whole(shown, *box))
    colors = packed(whole(np.clip(np.concatenate(values), low, high), low, high))
    data = {
        "name": f"{c.kind}: rms {1e3 * c.rms:.3f} mm",
        "status": f"{100.0 * c.rms / c.size:.2f} % of the size",
        "message": "; ".join(c.notes),
        "trust": list(c.doubts),
        "converged": not c.doubts,
        "note": "",
        "colors": {"distance": ramp("coolwarm" if low < 0.0 else "viridis")},
        "keys": ["distance"],
        "solid": False,
        "still": True,
        "table": "Regions",
        "ranges": {"distance": [low, high]},
        "box": [side.tolist() for side in box],
        "body": {
            "triangles": packed(np.vstack(triangles).astype("<u4")),
            "rest": drawn,
            "frames": [{"points": drawn, "distance": colors}],
        },
        "around": {
            "surfaces": [(k, o, packed(p.astype("<f4")), packed(f.astype("<u4"))) for k, o, p, f in around],
            "frames": [list(range(len(around)))],
            "newtons": 0.0,
            "arrow_mm": 0.0,
        },
        "chosen": [0],
        "times": [0.0],
        "command": "",
        "did": [],
        "chambers": [],
        "columns": ["region", "count", "mean_mm", "rms_mm", "max_mm"],
        "rows": [[name, str(count), *(f"{1e3 * v:.4g}" for v in rest)] for name, count, *rest in c.regions],
        "residuals": [],
        **STILL_VIEW,
    }
    path.write_text(page_text(data), encoding="utf-8")
    return path


def _octahedra(points: Floats, radius: float) -> tuple[Floats, Ints]:
    """Octahedra about points (p, 3): corners (6 p, 3) and triangles (8 p, 3)."""
    corners = radius * np.vstack([np.eye(3), -np.eye(3)])
    faces = np.array([[x, y, z] if (x + y + z) % 2 else [x, z, y] for x in (0, 3) for y in (1, 4) for z in (2, 5)])
    starts = 6 * np.arange(len(points))[:, None, None]
    return (points[:, None] + corners).reshape(-1, 3), (starts + faces).reshape(-1, 3)


def _report(c: Comparison, picture: Path, folder: Path) -> Path:
    """Write the one-page report with the picture inside."""
    path = folder / "report.html"
    path.write_text(
        f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Comparison</title>
<style>body{{font-family:sans-serif;max-width:76em;margin:2em auto;padding:0 1em}}</style></head>
<body><h1>Model against {html.escape(c.kind)}</h1>
{figure_and_text(picture, "map of distances", c.lines())}</body></html>
""",
        encoding="utf-8",
    )
    return path
