"""Pictures of results: PNG off-screen.

The surface is drawn by `geosim.show.raster`, which needs no display; `geosim.show.sheet` adds title, colour bar and scale.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from geosim.arrays import Floats, choice
from geosim.measures.trust import BEYOND_KNOWN, headline, without
from geosim.model.robot import VolumetricRobot
from geosim.result import Result
from geosim.show import fields
from geosim.show.colors import colored
from geosim.show.contact import force_arrows, obstacle_surfaces
from geosim.show.raster import Camera, RasterLayer, camera_for, draw
from geosim.show.sheet import Sheet, ticks
from geosim.writing import checked_target, replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure  # slow to import


DRAWING_INCHES = (9, 6)  # of a drawing in a picture of 11 x 7: each of its pixels is one of the picture
DPI = 125  # pixels in an inch
# Of the status of a result, and of the status and the sentences of one that has doubts.
PLAIN_COLOR, DOUBT_COLOR = "#595959", "#b3541e"
UNNAMED = "robot"  # the name of a robot that was given none
GHOST_RGB, OBSTACLE_RGB, ARROW_RGB = (
    np.array([0.62, 0.66, 0.72]),
    np.array([0.72, 0.70, 0.66]),
    np.array([0.78, 0.16, 0.12]),
)


def plot(result: Result, path: str | Path, frame: int = -1, *, color: str = "displacement", dpi: int = DPI) -> Path:
    """Write a PNG of one frame, coloured, with the rest shape ghosted.

    Parameters
    ----------
    result
        What was solved.
    path
        PNG file; its folder exists.
    frame
        Which frame, -1 is the last.
    color
        "displacement", "stretch", "stress" (von Mises) or "contact" (the pressure of contact).
    dpi
        Pixels in an inch of the 11 x 7 inches.

    Returns
    -------
    Path
        The file written.

    Raises
    ------
    InputError
        The suffix, folder, frame or colour is wrong.
    """
    path = checked_target(path, ".png")
    drawn = _picture(result, frame, color, dpi)
    with replacing(path) as beside:
        drawn.save(beside)
    return path


def figure(result: Result, frame: int = -1, *, color: str = "displacement", dpi: int = DPI) -> Figure:
    """Return the picture of one frame as a matplotlib figure; arguments and errors as in `plot`."""
    return _picture(result, frame, color, dpi).figure()


def _picture(result: Result, frame: int, color: str, dpi: int) -> Sheet:
    index = result.checked_frame(frame)
    color = choice(color, "plot: color", fields.COLORS)
    return draw_frame(result, index, look_of(result, [index], color, dpi))


def pixels(dpi: int) -> tuple[int, int]:
    """Width and height of the drawing with this many pixels in an inch."""
    return DRAWING_INCHES[0] * dpi, DRAWING_INCHES[1] * dpi


@dataclass(frozen=True)
class Look:
    """What pictures of one film share.

    Parameters
    ----------
    color
        A key of `fields.COLORS`.
    limits
        Values at the two ends of the colour bar, in its unit.
    camera
        It shows the robot at rest and in all frames.
    level
        How often curved faces are split.
    dpi
        Pixels in an inch.
    """

    color: str
    limits: tuple[float, float]
    camera: Camera
    level: int
    dpi: int = DPI

    @property
    def size(self) -> tuple[int, int]:
        """Pixels of the drawing."""
        return pixels(self.dpi)


def look_of(result: Result, frames: Sequence[int], color: str, dpi: int = DPI) -> Look:
    """Return the look that suits all of some frames; where nothing is stretched, displacements are shown instead."""
    triangle_pixels = 8  # of the drawing, for each of 16 triangles of a curved face; where there are fewer it is four
    width, height = pixels(dpi)
    finest = 2 if 16 * triangle_pixels * len(result.robot.skin) < width * height else 1
    level = finest if result.mid_edge_frames.shape[1] else 0
    shown = [fields.shown_surface(result, index, level) for index in frames]
    if color in ("stretch", "stress") and all(np.isnan(s.stretch).all() for s in shown):
        color = "displacement"
    values = [_values(s, color) for s in shown]
    low = min(1.0, *(float(np.min(v)) for v in values)) if color == "stretch" else 0.0
    high = max(float(np.max(v)) for v in values)
    camera, _ = camera_of(result, np.vstack([shown[0].rest, *(s.points for s in shown)]))
    return Look(color, (low, max(high, low + 1e-9)), camera, level, dpi)


def _values(shown: fields.Shown, color: str) -> Floats:
    """What is coloured, in the unit of the colour bar (mm, -, kPa)."""
    if color == "stretch":
        return shown.stretch
    if color == "stress":
        return 1e-3 * shown.stress
    if color == "displacement":
        return 1e3 * shown.displacement
    return np.zeros(len(shown.points)) if shown.pressure is None else 1e-3 * shown.pressure


def draw_frame(result: Result, index: int, look: Look) -> Sheet:
    """Return the picture of a frame: the robot in colours, its rest shape, obstacles, arrows of their forces, legends."""
    shown = fields.shown_surface(result, index, look.level)
    moving = np.vstack([shown.points, shown.rest])
    shares = (_values(shown, look.color) - look.limits[0]) / (look.limits[1] - look.limits[0])
    colors = colored(shares, fields.COLORS[look.color][1])
    layers = [RasterLayer(shown.points, shown.triangles, colors)]
    unmoved_mm = 1e-6  # mm: a robot that moved less is not drawn over its rest shape
    if look.limits[1] > unmoved_mm:
        layers.append(RasterLayer(shown.rest, shown.triangles, GHOST_RGB, 0.28))
    layers += [
        RasterLayer(points, triangles, OBSTACLE_RGB, 0.45)
        for points, triangles in obstacle_surfaces(result, index, moving)
    ]
    points, triangles = force_arrows(result, index, float(np.linalg.norm(np.ptp(moving, axis=0))))
    if len(triangles):
        layers.append(RasterLayer(points, triangles, ARROW_RGB))
    return _composed(result, index, draw(layers, look.camera, look.size), look)


def camera_of(result: Result, moving: Floats) -> tuple[Camera, Floats]:
    """Return the camera that shows positions (n, 3) of a robot, and the direction upwards: against gravity, else z."""
    gravity = result.environment.gravity
    up = -gravity / np.linalg.norm(gravity) if gravity.any() else np.array([0.0, 0.0, 1.0])
    return camera_for(moving, moving, up, DRAWING_INCHES[0] / DRAWING_INCHES[1]), up


def framed(image: Floats, camera: Camera, dpi: int = DPI) -> Sheet:
    """Return a drawing with the axes and a scale bar on it, and room for a title."""
    whole, left, below = (11.0, 7.0), 0.4, 0.2  # inches: what is left of the drawing and below it is whole pixels, too
    page = np.full((round(whole[1] * dpi), round(whole[0] * dpi), 3), 255, dtype=np.uint8)
    corner, bottom = round(left * dpi), len(page) - round(below * dpi)
    page[bottom - image.shape[0] : bottom, corner : corner + image.shape[1]] = np.round(255.0 * image)
    width, height = (1e3 * e for e in camera.extent)
    middle = corner + 0.5 * image.shape[1], bottom - 0.5 * image.shape[0]
    sheet = Sheet(page, middle, width / image.shape[1], dpi)
    _scale_bar(sheet, width, height)
    _triad(sheet, camera, width, height)
    return sheet


def _composed(result: Result, frame: int, image: Floats, look: Look) -> Sheet:
    """Put title and colour bar around the drawing."""
    sheet = framed(image, look.camera, look.dpi)
    _ring(sheet, result, frame, look)
    _color_bar(sheet, look)
    sheet.text(sheet.at(0.03, 0.955), named(result, title(result, frame)), 15, anchor="lm", bold=True)
    grey = f"frame {frame} of 0 .. {len(result.frames) - 1}, " if len(result.frames) > 1 else ""
    doubts = result.trust()
    grey += f"{headline(result.status, doubts)}: {without(result.message, doubts)}"
    said = textwrap.fill(grey, 150, max_lines=2)
    sheet.text(sheet.at(0.03, 0.93), said, 9, DOUBT_COLOR if doubts else PLAIN_COLOR, "la")
    sheet.text(sheet.at(0.03, 0.012), textwrap.fill(" ".join(doubts), 128, max_lines=3), 8, DOUBT_COLOR, "ld")
    return sheet


def _color_bar(sheet: Sheet, look: Look) -> None:
    """What the colours mean: the map in a frame, ticks at round numbers, and the label read from below."""
    label, colormap = fields.COLORS[look.color]
    left, bottom = (round(v) for v in sheet.at(0.90, 0.2))
    right, top = (round(v) for v in sheet.at(0.918, 0.7))
    shares = (np.arange(bottom - top, 0, -1) - 0.5) / (bottom - top)
    sheet.pixels[top:bottom, left:right] = np.round(255.0 * colored(shares, colormap))[:, None]
    for start, end in (((left, top), (right, top)), ((left, bottom), (right, bottom))):
        sheet.line(start, end, "#000000", 0.8)
    for x in (left, right):
        sheet.line((x, top - 0.5), (x, bottom + 0.5), "#000000", 0.8)
    low, high = look.limits
    tick, gap = 0.049 * sheet.dpi, 0.1 * sheet.dpi  # pixels
    widest = 0.0
    for value in ticks(low, high):
        y = bottom - (value - low) / (high - low) * (bottom - top)
        sheet.line((right, y), (right + tick, y), "#000000", 0.8)
        sheet.text((right + gap, y), f"{value:.7g}", 10, anchor="lm")
        widest = max(widest, sheet.width_of(sheet.texts[-1]))
    sheet.text(
        (right + 2.0 * gap + widest + 0.07 * sheet.dpi, 0.5 * (top + bottom)), label, 10, anchor="mm", upright=True
    )


def _ring(sheet: Sheet, result: Result, frame: int, look: Look) -> None:
    """Ring the place where the margin to what the material is known to is least: where it is used up, or stretch is shown."""
    if not isinstance(result.robot, VolumetricRobot):
        return
    if look.color not in ("stretch", "stress") and not any(BEYOND_KNOWN in said for said in result.trust()):
        return
    place, stretch, known = result.stretch_place(frame)
    x, y = sheet.on(*(1e3 * look.camera.project(place[None])[0, :2]))
    ring_color = "#c2185b"
    sheet.ring((x, y), 7.5, ring_color, 1.8)
    text = f"stretch {stretch:.3g}" + (f", known to {known:.3g}" if np.isfinite(known) else "")
    is_right = x > sheet.middle[0]
    unit = sheet.dpi / 72.0
    place_of_text = (x - 14 * unit, y - 12 * unit) if is_right else (x + 14 * unit, y - 12 * unit)
    sheet.text(place_of_text, text, 10, ring_color, "rs" if is_right else "ls", backing=0.8)


def named(result: Result, text: str) -> str:
    """A text behind the robot's name, where it was given one."""
    return text if result.robot.name == UNNAMED else f"{result.robot.name}: {text}"


def title(result: Result, frame: int) -> str:
    """V/V0 and pressure of one or two chambers (of more, ranges); what the robot did: bend with its error bar, or twist.

    Where it does neither by a degree, the largest displacement.
    """
    parts = []
    # share of the largest of several chambers below which a pressure is rounding
    pressure_rounding_rel = 1e-9
    chamber = getattr(result.robot, "chamber_names", ())
    for name, values, unit in (
        ("V/V0", result.volume_ratios[frame], ""),
        ("p", result.chamber_pressures[frame] * 1e-3, " kPa"),
    ):
        known = values[np.isfinite(values)]
        known = np.where(np.abs(known) < pressure_rounding_rel * np.abs(known).max(initial=0.0), 0.0, known)
        if len(values) > 2 and len(known):
            parts.append(f"{name} = {known.min():.4g} .. {known.max():.4g}{unit}")
        elif len(values) <= 2:
            parts += [
                f"{name}{_which(chamber, c) if len(values) > 1 else ''} = {v:.4g}{unit}"
                for c, v in enumerate(values)
                if np.isfinite(v)
            ]
    if parts and len(result.volume_ratios[frame]) > 2:
        parts[0] = f"{result.volume_ratios.shape[1]} chambers, {parts[0]}"
    bend, twist = (float(np.degrees(angle[frame])) for angle in (result.bend_angle, result.twist_angle))
    # degrees: a title does not call what bends or twists less bent; meshes are not that symmetric
    min_title_angle_deg = 1.0
    if parts and abs(twist) >= max(min_title_angle_deg, bend):
        parts.append(f"twist = {twist:.4g} degrees")
    elif parts and bend >= min_title_angle_deg:
        bars = (result.extra.get(f"bend_angle_error_{part}") for part in ("total", "mesh"))
        known = [float(np.degrees(b[frame])) for b in bars if b is not None and np.isfinite(b[frame])]
        bar = f" \u00b1 {known[0]:.2g}" if known else ""
        parts.append(f"bend = {bend:.4g}{bar} degrees")
    else:
        parts.append(f"largest displacement {fields.max_displacement(result, frame) * 1e3:.4g} mm")
    return ", ".join(parts)


def _which(names: Sequence[str], c: int) -> str:
    """A chamber behind a symbol: its name, or its number."""
    return f" {names[c]}" if c < len(names) and names[c] else f"_{c + 1}"


def _scale_bar(sheet: Sheet, width: float, height: float) -> None:
    """A bar of a round length (1, 2 or 5 times a power of ten) [mm] in the lower right corner."""
    wanted = 0.18 * width
    power = 10.0 ** np.floor(np.log10(wanted))
    length = power * max(m for m in (1.0, 2.0, 5.0) if m * power <= wanted)
    x, y = 0.48 * width - length, -0.47 * height
    sheet.line(sheet.on(x, y), sheet.on(x + length, y), "#262626", 2.5)
    sheet.text(sheet.on(x + length / 2, y + 0.012 * height), f"{length:g} mm", 10, "#262626", "ms")


def _triad(sheet: Sheet, camera: Camera, width: float, height: float) -> None:
    """The directions x, y, z in the lower left corner."""
    size = 0.065 * height
    origin = np.array([-0.5 * width + 1.7 * size, -0.5 * height + 1.7 * size])
    for i in np.argsort(camera.axes[2]):
        way = size * camera.axes[:2, i]
        sheet.arrow(sheet.on(*origin), sheet.on(*(origin + way)), ("#c0392b", "#27864f", "#2a5fa5")[i], 1.6)
        sheet.text(sheet.on(*(origin + 1.35 * way)), "xyz"[i], 10, anchor="mm")
