"""Pictures of results: PNG off-screen.

The surface is drawn by `geosim.show.raster`, which needs no display; `geosim.show.sheet` adds title, colour bar and scale.
"""

from __future__ import annotations

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
from geosim.show.colors import BRIGHTEST, FORCE, colored, rgb
from geosim.show.contact import ARROW_REL, largest_force, surroundings
from geosim.show.raster import Camera, RasterLayer, camera_for, draw
from geosim.show.sheet import POINTS_AN_INCH, THEMES, Sheet, ticks
from geosim.show.summary import LEAST_TURN_DEG
from geosim.writing import checked_target

if TYPE_CHECKING:
    from matplotlib.figure import Figure  # slow to import


# Of a drawing in a picture of 11 x 7: each of its pixels is one of the picture. What explains it lies around it, never on it.
DRAWING_INCHES, LEFT_INCHES, BELOW_INCHES, PAGE_INCHES = (9, 5.4), 0.4, 0.6, (11.0, 7.0)
LEGEND_INCHES = 9.55  # where the right column begins: axes, colours, arrows, scale
LABEL_INCHES, LONGEST_INCHES = (
    0.09,
    1.25,
)  # between what is explained and its words; of the scales of lengths and forces
DPI = 125  # pixels in an inch
UNNAMED = "robot"  # the name of a robot that was given none


def plot(
    result: Result,
    path: str | Path,
    frame: int = -1,
    *,
    color: str = "displacement",
    theme: str = "light",
    dpi: int = DPI,
) -> Path:
    """Write a PNG of one frame, coloured, with the rest shape behind it.

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
    theme
        "light" or "dark".
    dpi
        Pixels in an inch of the 11 x 7 inches.

    Returns
    -------
    Path
        The file written.

    Raises
    ------
    InputError
        The suffix, folder, frame, colour or theme is wrong.
    """
    path = checked_target(path, ".png")
    return picture_of(result, frame, color, theme, dpi).save(path)


def figure(
    result: Result, frame: int = -1, *, color: str = "displacement", theme: str = "light", dpi: int = DPI
) -> Figure:
    """Return the picture of one frame as a matplotlib figure; arguments and errors as in `plot`."""
    return picture_of(result, frame, color, theme, dpi).figure()


def picture_of(result: Result, frame: int, color: str, theme: str, dpi: int) -> Sheet:
    """Return the picture of one frame; arguments and errors as in `plot`."""
    index = result.checked_frame(frame)
    color = choice(color, "plot: color", fields.COLORS)
    return draw_frame(result, index, look_of(result, [index], color, dpi, theme))


def pixels(dpi: int) -> tuple[int, int]:
    """Width and height of the drawing with this many pixels in an inch."""
    return round(DRAWING_INCHES[0] * dpi), round(DRAWING_INCHES[1] * dpi)


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
    theme
        A key of `THEMES`.
    newtons, size
        Force [N] of the longest arrow, 0 where nothing touches; size of the robot in all frames [m], of which that is a share.
    doubts
        Sentences of the result whose film it is; None for a picture of one frame, which has the sentences of its own result.
    """

    color: str
    limits: tuple[float, float]
    camera: Camera
    level: int
    dpi: int
    theme: str
    newtons: float
    size: float
    doubts: tuple[str, ...] | None = None


def look_of(result: Result, frames: Sequence[int], color: str, dpi: int = DPI, theme: str = "light") -> Look:
    """Return the look that suits all of some frames; where nothing is stretched, displacements are shown instead.

    The camera shows the robot in all of them and at rest, obstacles and arrows; of an obstacle it shows what lies within a
    length of the robot.
    """
    triangle_pixels = 8  # of the drawing, for each of 16 triangles of a curved face; where there are fewer it is four
    width, height = pixels(dpi)
    finest = 2 if 16 * triangle_pixels * len(result.robot.skin) < width * height else 1
    level = finest if result.mid_edge_frames.shape[1] else 0
    shown = [fields.shown_surface(result, index, level) for index in frames]
    if color in ("stretch", "stress") and all(np.isnan(s.stretch).all() for s in shown):
        color = "displacement"
    values = [s.in_units(color) for s in shown]
    low = min(1.0, *(float(np.min(v)) for v in values)) if color == "stretch" else 0.0
    high = max(float(np.max(v)) for v in values)
    moving = np.vstack([shown[0].rest, *(s.points for s in shown)])
    size, newtons = _size(moving), max(largest_force(result, index) for index in frames)
    beside = [part[2] for index in frames for part in surroundings(result, index, moving, size, newtons)]
    around = [np.clip(points, moving.min(axis=0) - size, moving.max(axis=0) + size) for points in beside]
    camera, _ = camera_of(result, moving, np.vstack([moving, *around]))
    theme = choice(theme, "plot: theme", THEMES)
    return Look(color, (low, max(high, low + 1e-9)), camera, level, dpi, theme, newtons, size)


def _size(points: Floats) -> float:
    """Diagonal of the bounding box [m]."""
    return float(np.linalg.norm(np.ptp(points, axis=0)))


def draw_frame(result: Result, index: int, look: Look) -> Sheet:
    """Return the picture of a frame: the robot in colours, its rest shape, obstacles, arrows of their forces, legends."""
    shown, theme = fields.shown_surface(result, index, look.level), THEMES[look.theme]
    moving = np.vstack([shown.points, shown.rest])
    shares = (shown.in_units(look.color) - look.limits[0]) / (look.limits[1] - look.limits[0])
    colors = colored(shares, fields.COLORS[look.color][1])
    layers = [RasterLayer(shown.points, shown.triangles, colors)]
    if look.limits[1] > fields.UNMOVED_MM:
        layers.append(RasterLayer(shown.rest, shown.triangles, theme.rgb("rest"), 0.28, ghost=True))
    layers += [
        RasterLayer(points, triangles, rgb(color), opacity)
        for color, opacity, points, triangles in surroundings(result, index, moving, look.size, look.newtons)
    ]
    image = draw(layers, look.camera, pixels(look.dpi), theme.rgb("paper"), theme.rgb("ink"))
    return _composed(result, index, image, look)


def camera_of(result: Result, moving: Floats, shown: Floats | None = None) -> tuple[Camera, Floats]:
    """Return the camera that shows positions (n, 3) of a robot, and the direction upwards: against gravity, else z.

    `shown` are the positions that it shows, if they are more than those of the robot.
    """
    gravity = result.environment.gravity
    up = -gravity / np.linalg.norm(gravity) if gravity.any() else np.array([0.0, 0.0, 1.0])
    return camera_for(moving if shown is None else shown, moving, DRAWING_INCHES[0] / DRAWING_INCHES[1], up), up


def framed(image: Floats, camera: Camera, dpi: int = DPI, theme: str = "light") -> Sheet:
    """Return a drawing with axes and a scale bar beside it, and room for a title above and sentences below."""
    colors = THEMES[theme]
    width, height = (round(inches * dpi) for inches in PAGE_INCHES)
    page = np.tile(np.round(BRIGHTEST * colors.rgb("paper")).astype(np.uint8), (height, width, 1))
    corner, bottom = round(LEFT_INCHES * dpi), height - round(BELOW_INCHES * dpi)
    page[bottom - image.shape[0] : bottom, corner : corner + image.shape[1]] = np.round(BRIGHTEST * image)
    middle = corner + 0.5 * image.shape[1], bottom - 0.5 * image.shape[0]
    sheet = Sheet(page, middle, 1e3 * camera.extent[0] / image.shape[1], dpi, colors)
    _scale_bar(sheet)
    _triad(sheet, camera)
    return sheet


def titled(sheet: Sheet, said: str) -> None:
    """Write a title above the drawing, smaller where it is long."""
    sheet.across(0.957, said, 15, anchor="lm", bold=True)


def _composed(result: Result, frame: int, image: Floats, look: Look) -> Sheet:
    """Put title and colour bar around the drawing."""
    sheet = framed(image, look.camera, look.dpi, look.theme)
    _ring(sheet, result, frame, look)
    _color_bar(sheet, look)
    _arrow_scale(sheet, look)
    titled(sheet, named(result, title(result, frame)))
    is_one = look.doubts is None and len(result.frames) > 1
    doubts = result.trust() if look.doubts is None else look.doubts
    theme = sheet.theme
    grey = f"frame {frame} of 0 .. {len(result.frames) - 1}, " if is_one else ""
    grey += f"{headline(result.status, doubts)}: {without(result.message, doubts)}"
    sheet.across(0.93, grey, 9, theme.doubt if doubts else theme.soft, "la", lines=2)
    sheet.across(0.012, " ".join(doubts), 8, theme.doubt, "ld", lines=3)
    return sheet


def _color_bar(sheet: Sheet, look: Look) -> None:
    """What the colours mean: the map in a frame, ticks at round numbers, and the label read from below."""
    label, colormap = fields.COLORS[look.color]
    left, bottom, right, top = (round(v * sheet.dpi) for v in (LEGEND_INCHES + 0.35, 5.05, LEGEND_INCHES + 0.55, 1.85))
    ink, edge = sheet.theme.ink, round(sheet.dpi / POINTS_AN_INCH)  # of its frame, a point [pixels]
    sheet.pixels[top - edge : bottom + edge, left - edge : right + edge] = np.round(BRIGHTEST * rgb(ink))
    shares = (np.arange(bottom - top, 0, -1) - 0.5) / (bottom - top)
    sheet.pixels[top:bottom, left:right] = np.round(BRIGHTEST * colored(shares, colormap))[:, None]
    low, high = look.limits
    gap = LABEL_INCHES * sheet.dpi
    widest = 0.0
    for value in ticks(low, high):
        y = bottom - (value - low) / (high - low) * (bottom - top)
        sheet.line((right, y), (right + 0.5 * gap, y), ink, 1.0)
        sheet.text((right + gap, y), f"{value:.7g}", 10, anchor="lm")
        widest = max(widest, sheet.width_of(sheet.texts[-1]))
    beside = min(right + 3.0 * gap + widest, sheet.pixels.shape[1] - gap)
    sheet.text((beside, 0.5 * (top + bottom)), label, 10, anchor="mm", upright=True)


def _arrow_scale(sheet: Sheet, look: Look) -> None:
    """An arrow beside the drawing with the force that it stands for."""
    if look.newtons <= 0.0:
        return
    pixels_a_newton = 1e3 * ARROW_REL * look.size / look.newtons / sheet.pixel_mm
    force = _round_below(min(look.newtons, LONGEST_INCHES * sheet.dpi / pixels_a_newton))
    left, y = LEGEND_INCHES * sheet.dpi, 5.85 * sheet.dpi
    sheet.arrow((left, y), (left + force * pixels_a_newton, y), FORCE)
    sheet.text((left, y - LABEL_INCHES * sheet.dpi), f"contact {force:g} N", 10, anchor="ls")


def _ring(sheet: Sheet, result: Result, frame: int, look: Look) -> None:
    """Ring the place where the margin to what the material is known to is least: where it is used up, or stretch is shown."""
    if not isinstance(result.robot, VolumetricRobot):
        return
    if look.color not in ("stretch", "stress") and not any(BEYOND_KNOWN in said for said in result.trust()):
        return
    place, stretch, known = result.stretch_place(frame)
    x, y = sheet.on(*(1e3 * look.camera.project(place[None])[0, :2]))
    ring_color = "#c2185b"
    sheet.ring((x, y), 7.5, ring_color)
    text = f"stretch {stretch:.3g}" + (f", known to {known:.3g}" if np.isfinite(known) else "")
    is_right = x > sheet.middle[0]
    unit = sheet.dpi / POINTS_AN_INCH
    place_of_text = (x - 14 * unit, y - 12 * unit) if is_right else (x + 14 * unit, y - 12 * unit)
    sheet.text(place_of_text, text, 10, ring_color, "rs" if is_right else "ls", backing=True)


def named(result: Result, text: str) -> str:
    """A text behind the robot's name, where it was given one."""
    return text if result.robot.name == UNNAMED else f"{result.robot.name}: {text}"


def title(result: Result, frame: int) -> str:
    """V/V0 and pressure of the chambers, and what the robot did: force on obstacles, bend with its error bar, or twist.

    Of more than two chambers without names, ranges. Where it does none of it, the largest displacement.
    """
    names, count = getattr(result.robot, "chamber_names", ()), result.volume_ratios.shape[1]
    parts = _said_of_chambers("V/V0", result.volume_ratios[frame], "", names)
    parts += _said_of_chambers("p", result.chamber_pressures[frame] * 1e-3, " kPa", names)
    if parts and count > 2 and not names:
        parts[0] = f"{count} chambers, {parts[0]}"
    pressed = [f"{f:.3g}" for f in sorted(result.grip_force[frame]) if np.isfinite(f) and f > 0.0]
    parts += [f"grip force {' .. '.join(dict.fromkeys((pressed[0], pressed[-1])))} N"] if pressed else []
    turned = _said_of_turning(result, frame) if parts else ""
    if turned:
        parts.append(turned)
    elif not pressed:
        parts.append(f"largest displacement {fields.max_displacement(result, frame) * 1e3:.4g} mm")
    return ", ".join(parts)


def _said_of_chambers(name: str, values: Floats, unit: str, names: Sequence[str]) -> list[str]:
    """A value of every chamber; of more than two without names the least and the largest."""
    pressure_rounding_rel = 1e-9  # share of the largest of several chambers below which a pressure is rounding
    values = np.where(np.abs(values) < pressure_rounding_rel * np.nanmax(np.abs(values), initial=0.0), 0.0, values)
    known = [f"{v:.4g}" for v in sorted(values[np.isfinite(values)])]
    if len(values) > 2 and not names and known:
        return [f"{name} = {' .. '.join(dict.fromkeys((known[0], known[-1])))}{unit}"]
    marks = [f" {n}" for n in names] or ([f"_{c + 1}" for c in range(len(values))] if len(values) > 1 else [""])
    return [f"{name}{mark} = {v:.4g}{unit}" for mark, v in zip(marks, values) if np.isfinite(v)]


def _said_of_turning(result: Result, frame: int) -> str:
    """The twist, or the bend with its error bar, whichever is larger; "" of a robot that hardly turns."""
    bend, twist = (float(np.degrees(angle[frame])) for angle in (result.bend_angle, result.twist_angle))
    if abs(twist) >= max(LEAST_TURN_DEG, bend):
        return f"twist = {twist:.4g} degrees"
    if not bend >= LEAST_TURN_DEG:
        return ""
    bars = (result.extra.get(f"bend_angle_error_{part}") for part in ("total", "mesh"))
    found = [float(np.degrees(b[frame])) for b in bars if b is not None and np.isfinite(b[frame])]
    bar = f" \u00b1 {found[0]:.2g}" if found else ""
    return f"bend = {bend:.4g}{bar} degrees"


def _round_below(value: float) -> float:
    """The largest of 1, 2, 5 times a power of ten that is not above a value."""
    power = 10.0 ** np.floor(np.log10(value))
    return float(power * max(m for m in (1.0, 2.0, 5.0) if m * power <= value * (1.0 + 1e-9)))


def _scale_bar(sheet: Sheet) -> None:
    """A bar of a round length [mm] beside the drawing."""
    length = _round_below(LONGEST_INCHES * sheet.dpi * sheet.pixel_mm)
    left, y = LEGEND_INCHES * sheet.dpi, 6.4 * sheet.dpi
    sheet.line((left, y), (left + length / sheet.pixel_mm, y), sheet.theme.ink, 2.5)
    sheet.text((left, y - LABEL_INCHES * sheet.dpi), f"{length:g} mm", 10, anchor="ls")


def _triad(sheet: Sheet, camera: Camera) -> None:
    """The directions x, y, z beside the drawing."""
    size, origin = 0.42 * sheet.dpi, np.array([LEGEND_INCHES + 0.5, 1.2]) * sheet.dpi
    for i in np.argsort(camera.axes[2]):
        way = size * camera.axes[:2, i] * (1.0, -1.0)
        sheet.arrow(origin, origin + way, ("#d0453a", "#2f9a5c", "#3f7fd0")[i])
        sheet.text(tuple(origin + 1.35 * way), "xyz"[i], 10, anchor="mm")
