"""Moulds for casting: halves across a parting plane, cores on a plate or loose, a tray for the lid, pins, a sprue and a vent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from geosim.arrays import Floats
from geosim.moulds.body import Inlet
from geosim.moulds.parting import AXES, best_parting, lid_planes
from geosim.moulds.solids import arrays, block, cylinder, half_space, leaves, united, whole

__all__ = ["Part", "moulds"]

# Wall of a mould over the diagonal of what is cast, and its bounds [m]: stiff to print, and room for pins.
MARGIN, THINNEST, THICKEST = 0.06, 4e-3, 12e-3
PIN, CLEARANCE = 0.4, 0.15e-3  # diameter of pins over the margin; play of a printed pin in its hole [m]
SPRUE, VENT = 3e-3, 1.5e-3  # diameters [m] of the hole that is poured through, and of the one where air leaves
INTO = 1e-5  # of the margin: planes cut so far beside the floors of cavities and edges of the skin, not along them
COLLIDES = 2e-3  # of the smaller volume: facets scrape less


@dataclass(frozen=True)
class Part:
    """Something to print or to pour.

    `name`; `kind`: "print", "mould", "core" or "cast"; `solid` (manifold3d, metres); `note`: what to do with it; `draw`: the way
    (3,) that it leaves by, None for what does not leave; `collides`: largest share of its volume in the way of that.
    """

    name: str
    kind: str
    solid: Any
    note: str
    draw: Floats | None = None
    collides: float = 0.0

    @property
    def volume(self) -> float:
        """Volume [m^3]."""
        return float(self.solid.volume())

    @property
    def size(self) -> Floats:
        """Edges of the bounding box [m], (3,)."""
        low, high = np.reshape(self.solid.bounding_box(), (2, 3))
        return np.asarray(high - low)


def moulds(skin: Any, chambers: Sequence[Any], inlets: Sequence[Inlet]) -> list[Part]:
    """Return the parts that a robot is cast with, and what is cast; of an undercut nothing but its name."""
    for plane in lid_planes(chambers) if chambers else ():
        parts = _in_two_pours(skin, chambers, *plane)
        if all(p.collides <= COLLIDES for p in parts):
            break
    else:
        parts = _in_one_pour(skin, chambers, inlets)
    return [replace(p, solid=whole(p.solid)) for p in parts]


def _margin(solid: Any) -> float:
    low, high = np.reshape(solid.bounding_box(), (2, 3))
    return float(np.clip(MARGIN * np.linalg.norm(high - low), THINNEST, THICKEST))


def _halves(solid: Any, outside: Any, rest: Any, axes: Sequence[int], first: str) -> list[Part]:
    """Two halves of a block round a solid; `rest` is all that they must leave without touching."""
    parting = best_parting(solid, axes)
    margin = _margin(solid)
    height = parting.height + INTO * margin
    negative = outside - rest
    low, high = np.reshape(outside.bounding_box(), (2, 3))
    pins = _pins(low, high, parting.axis, height, margin)
    up = np.eye(3)[parting.axis]
    at = f"parts at {AXES[parting.axis]} = {parting.height * 1e3:.4g} mm"
    out = []
    for name, sense in (("lower", -1.0), ("upper", 1.0)):
        half = half_space(negative, parting.axis, height, sense > 0)
        half = half - _rods(pins, CLEARANCE) if sense > 0 else half + (_rods(pins, 0.0) - rest)
        if half.is_empty() or half.volume() <= 0.0:
            continue
        if sense > 0:
            half = _vented(half, solid, parting.axis, margin)
        stuck = leaves(half, sense * up, rest)
        note = (
            at
            if stuck <= COLLIDES
            else (
                f"{at}; undercut of {parting.area * 1e6:.3g} mm^2, the largest near {_place(parting.place)}: "
                "does not leave a stiff cast, so print the body, or cast it of a material that stretches over it"
            )
        )
        out.append(Part(f"{first}_{name}", "mould", half, note, sense * up, stuck))
    return out


def _place(point: Floats) -> str:
    return "({:.4g}, {:.4g}, {:.4g}) mm".format(*(np.asarray(point) * 1e3))


def _pins(low: Floats, high: Floats, axis: int, height: float, margin: float) -> list[tuple[Floats, Floats, float]]:
    """Ends [m] and diameter [m] of four pins across a plane, in the corners of a block."""
    across = [i for i in range(3) if i != axis]
    out = []
    for u in (0, 1):
        for v in (0, 1):
            point = np.empty(3)
            point[across[0]] = (low[across[0]] + 0.5 * margin, high[across[0]] - 0.5 * margin)[u]
            point[across[1]] = (low[across[1]] + 0.5 * margin, high[across[1]] - 0.5 * margin)[v]
            point[axis] = height
            way = 0.5 * margin * np.eye(3)[axis]
            out.append((point - way, point + way, PIN * margin))
    return out


def _rods(pins: Sequence[tuple[Floats, Floats, float]], play: float) -> Any:
    return united([cylinder(a, b, d + 2 * play) for a, b, d in pins])


def _vented(part: Any, solid: Any, axis: int, margin: float, sense: float = 1.0) -> Any:
    """Bore a sprue and a vent through a part, over the highest places of the cavity, as far apart as can be."""
    vertices, _ = arrays(solid)
    z = sense * vertices[:, axis]
    top = vertices[z > z.max() - 0.02 * np.ptp(z)]
    across = np.delete(np.arange(3), axis)
    first = top[np.argmin(top[:, across] @ np.array([1.0, 1e-3]))]
    second = top[np.argmax(np.linalg.norm(top - first, axis=1))]
    middle = vertices[:, across].mean(axis=0)
    for point, width in ((first, SPRUE), (second, VENT)):
        at = point.copy()
        way = middle - at[across]
        reach = np.linalg.norm(way)
        # not by half of it: the rim would run along an edge of the cavity
        at[across] += way * min(1.0, 0.45 * width / reach) if reach > 0 else 0.0
        up = sense * np.eye(3)[axis]
        part = part - cylinder(at - 0.5 * width * up, at + 3.0 * margin * up, width)
    return part


def _in_two_pours(skin: Any, chambers: Sequence[Any], axis: int, sense: float, height: float) -> list[Part]:
    """Cores on a plate at the plane; a mould round what stands on it, whole or in halves; a tray for the lid."""
    up = sense * np.eye(3)[axis]
    above = sense > 0
    cores, margin = united(chambers), _margin(skin)
    height += sense * INTO * margin
    main, lid = half_space(skin, axis, height, above), half_space(skin, axis, height, not above)
    cast = half_space(skin - cores, axis, height, above)
    low, high = np.reshape(main.bounding_box(), (2, 3))
    low, high = low - margin, high + margin
    (low if above else high)[axis] = height
    outside = block(low, high)
    floor_low, floor_high = low.copy(), high.copy()
    (floor_high if above else floor_low)[axis] = height
    (floor_low if above else floor_high)[axis] = height - sense * margin
    pins = _pins(low, high, axis, height, margin)
    holes = _rods(pins, CLEARANCE)
    plate = block(floor_low, floor_high) + cores + _rods(pins, 0.0)
    parts = [Part("core_plate", "core", plate, "holds the cores; drawn off first", -up, leaves(plate, -up, cast))]
    cup = outside - main - holes
    stuck = leaves(cup, up, main)
    if stuck <= COLLIDES:
        cup = _vented(cup, main, axis, margin, sense)
        parts.append(Part("mould", "mould", cup, "stands on the core plate; drawn off in one piece", up, stuck))
    else:
        across = [i for i in range(3) if i != axis]
        parts += [replace(p, solid=p.solid - holes) for p in _halves(main, outside, main, across, "mould")]
    parts += _tray(lid, axis, sense, height, margin)
    parts.append(Part("cast_body", "cast", cast, "first pour"))
    parts.append(Part("cast_lid", "cast", lid, "second pour, bonded over the cavities while it cures, or glued"))
    return parts


def _tray(lid: Any, axis: int, sense: float, height: float, margin: float) -> list[Part]:
    """An open tray that the lid is poured in."""
    low, high = np.reshape(lid.bounding_box(), (2, 3))
    low, high = low - margin, high + margin
    (high if sense > 0 else low)[axis] = height
    tray = block(low, high) - lid
    way = -sense * np.eye(3)[axis]
    stuck = leaves(tray, way, lid)
    note = "poured level; the body is laid on it"
    if stuck > COLLIDES:
        note = "the lid has undercuts: cut the tray open, or print the body"
    return [Part("lid_tray", "mould", tray, note, way, stuck)]


def _in_one_pour(skin: Any, chambers: Sequence[Any], inlets: Sequence[Inlet]) -> list[Part]:
    """Halves round the whole body; cores that are held by the stems of the inlets and lost."""
    margin = _margin(skin)
    low, high = np.reshape(skin.bounding_box(), (2, 3))
    outside = block(low - margin, high + margin)
    parts, cores = [], []
    for k, (chamber, inlet) in enumerate(zip(chambers, inlets)):
        way = (inlet.end - inlet.start) / np.linalg.norm(inlet.end - inlet.start)
        core = chamber + cylinder(inlet.start, inlet.end + 0.5 * margin * way, inlet.diameter)
        cores.append(core)
        note = "its cavity is closed or undercut: print it of soluble material, or cast it of wax; held by its stem in the mould"
        parts.append(Part(f"core_{k + 1}", "core", core, note))
    rest = united([skin, *cores]) if cores else skin
    parts = _halves(skin, outside, rest, (2, 1, 0), "mould") + parts
    parts.append(Part("cast_body", "cast", skin - united(cores) if cores else skin, "one pour"))
    return parts
