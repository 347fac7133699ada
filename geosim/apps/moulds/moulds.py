"""Moulds for casting: halves across a parting plane, cores on a plate or loose, a tray for the lid, pins, a sprue and vents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from geosim.apps.moulds.body import Inlet
from geosim.apps.moulds.parting import AXES, Parting, hold, is_free, lid_planes, partings
from geosim.apps.moulds.solids import arrays, block, cylinder, half_space, place_mm, united, whole
from geosim.arrays import Floats
from geosim.geometry.topology import face_normals

PIN, CLEARANCE = 0.4, 0.15e-3  # diameter of pins over the margin; play of a printed pin in its hole [m]
INTO = 1e-5  # of the margin: planes cut so far beside the floors of cavities and edges of the skin, within the cast
SCRAPES = 0.1e-3  # [m]: an undercut no deeper is within the precision of a printed mould
FIRST_POUR, LEVEL = "mould", 1e-3  # name of what the body is cast in; of the height: places so near are one top


@dataclass(frozen=True)
class Part:
    """Something to print or to pour.

    `name`; `kind`: "print", "mould", "core" or "cast"; `solid` (manifold3d, metres); `note`: what to do with it; `draw`: the way
    (3,) that it leaves by, None for what does not leave; `undercut`: how deep [m] it reaches behind what stays on that way;
    `slides`: the longest wall [m] along that way, without draft.
    """

    name: str
    kind: str
    solid: Any
    note: str
    draw: Floats | None = None
    undercut: float = 0.0
    slides: float = 0.0

    @property
    def volume(self) -> float:
        """Volume [m^3]."""
        return float(self.solid.volume())

    @property
    def size(self) -> Floats:
        """Edges of the bounding box [m], (3,)."""
        low, high = np.reshape(self.solid.bounding_box(), (2, 3))
        return np.asarray(high - low)

    @property
    def leaves(self) -> bool:
        """Whether it comes off without force."""
        return self.undercut <= SCRAPES


def moulds(skin: Any, chambers: Sequence[Any], inlets: Sequence[Inlet]) -> list[Part]:
    """Return the parts that a robot is cast with, and what is cast; undercuts that no plane and no third part frees are named."""
    for plane in lid_planes(chambers) if chambers else ():
        parts = _in_two_pours(skin, chambers, inlets, *plane)
        if all(p.leaves for p in parts):
            break
    else:
        parts = _in_one_pour(skin, chambers, inlets)
    return [replace(p, solid=whole(p.solid)) for p in parts]


def _margin(solid: Any) -> float:
    # Wall of a mould over the diagonal of what is cast, and its bounds [m]: stiff to print, and room for pins.
    margin, thinnest, thickest = 0.06, 4e-3, 12e-3
    low, high = np.reshape(solid.bounding_box(), (2, 3))
    return float(np.clip(margin * np.linalg.norm(high - low), thinnest, thickest))


def _corners(solid: Any, margin: float) -> Floats:
    """Lowest and highest corner [m] (2, 3) of a box round a solid."""
    return np.asarray(np.reshape(solid.bounding_box(), (2, 3)) + np.array([[-margin], [margin]]))


def _drawn(name: str, kind: str, solid: Any, note: str, way: Floats, rest: Any) -> Part:
    """A part that is drawn off the rest; the note names the undercut that holds it."""
    held = hold(solid, way, rest)
    if held.depth > SCRAPES:
        note += (
            f"; undercut {held.depth * 1e3:.3g} mm deep near {place_mm(held.place)}: no parting plane across x, y or z and "
            "no third part frees it. Print this part soluble or flexible, stretch the cast over it, or print the body"
        )
    return Part(name, kind, solid, note, way, held.depth, held.slides)


def _halves(solid: Any, rest: Any, outside: Any, axes: Sequence[int]) -> list[Part]:
    """Two halves of a block round a solid, or three parts; `rest` is all that they must leave without touching."""
    first: list[Part] = []
    for parting in partings(rest, axes):
        parts = _apart(parting, solid, rest, outside)
        if all(p.leaves for p in parts):
            return parts
        first = first or parts
    return first


def _apart(parting: Parting, solid: Any, rest: Any, outside: Any) -> list[Part]:
    axis, height = parting.axis, _beside(rest, parting.axis, parting.height)
    at = f"parts at {AXES[axis]} = {parting.height * 1e3:.4g} mm"
    out = []
    for name, sense in (("lower", -1.0), ("upper", 1.0)):
        half = half_space(outside - rest, axis, height, sense > 0)
        if sense > 0:
            half = _vented(half - _pins(solid, outside, axis, height, CLEARANCE), solid, axis, _margin(solid))
        else:
            half += _pins(solid, outside, axis, height, 0.0) - rest
        out.append(_drawn(f"{FIRST_POUR}_{name}", "mould", half, at, sense * np.eye(3)[axis], rest))
    stuck = [p for p in out if not p.leaves]
    return [q for p in out for q in _in_three(p, rest, parting)] if len(stuck) == 1 else out


def _beside(solid: Any, axis: int, height: float) -> float:
    """A height [m] just below faces of a solid that look up at a height, else above: no film of the mould stays on them."""
    vertices, faces = arrays(solid)
    into = INTO * _margin(solid)
    at = (np.abs(vertices[faces][:, :, axis] - height) < into).all(axis=1)
    return height + (-into if face_normals(vertices, faces[at])[:, axis].sum() > 0.0 else into)


def _in_three(half: Part, rest: Any, parting: Parting) -> list[Part]:
    """The half that an undercut holds in two, drawn sideways once the other half is off, so that its pins are free."""
    if half.leaves or half.draw is None:
        return [half]
    inside = half_space(rest, parting.axis, parting.height, half.draw.sum() > 0)
    for second in partings(inside, [i for i in range(3) if i != parting.axis]):
        cut = _beside(inside, second.axis, second.height)
        at = f"{half.note.split(';')[0]} and {AXES[second.axis]} = {second.height * 1e3:.4g} mm; drawn sideways, last"
        pieces = [
            _drawn(
                f"{half.name}_{k + 1}",
                "mould",
                half_space(half.solid, second.axis, cut, k > 0),
                at,
                (2 * k - 1) * np.eye(3)[second.axis],
                rest,
            )
            for k in (0, 1)
        ]
        if all(p.leaves for p in pieces):
            return pieces
    return [half]


def _pins(solid: Any, outside: Any, axis: int, height: float, play: float) -> Any:
    """Four pins across a plane, so much wider [m] on every side, beside the corners of a solid within the block round it."""
    bounds, far, margin = _corners(solid, 0.0), _corners(outside, 0.0), _margin(solid)
    # where the block ends with the solid a core plate has pins of its own
    beside = np.where(np.abs(far - bounds) < 0.5 * margin, -margin, 0.5 * margin)
    corners = bounds + beside * np.array([[-1.0], [1.0]])
    across = [i for i in range(3) if i != axis]
    way = 0.5 * margin * np.eye(3)[axis]
    pins = []
    for u, v in product((0, 1), (0, 1)):
        point = np.full(3, height)
        point[across] = corners[u, across[0]], corners[v, across[1]]
        pins.append(cylinder(point - way, point + way, PIN * margin + 2.0 * play))
    return united(pins)


def _tops(solid: Any, axis: int, sense: float) -> list[Floats]:
    """Places [m] (k, 3) on each top of a cavity, where air stays, the highest first: middles of flat faces, else vertices."""
    vertices, faces = arrays(solid)
    z = sense * vertices[:, axis]
    a, b = faces.ravel(), np.roll(faces, -1, axis=1).ravel()
    is_level = np.abs(z[a] - z[b]) < LEVEL * np.ptp(z)
    graph = coo_array((is_level[is_level], (a[is_level], b[is_level])), shape=(len(z), len(z)))
    count, label = connected_components(graph, directed=False)
    # the skin looks up there, and no edge leads further up
    up = np.bincount(label[a], np.repeat(sense * face_normals(vertices, faces)[:, axis], 3), count) > 0.0
    up[label[a[~is_level & (z[b] > z[a])]]] = False
    flat = np.where((label[faces] == label[faces[:, :1]]).all(axis=1), label[faces[:, 0]], -1)
    middles = vertices[faces].mean(axis=1)
    tops = [middles[flat == k] if (flat == k).any() else vertices[label == k] for k in np.flatnonzero(up)]
    return sorted(tops, key=lambda top: -float((sense * top[:, axis]).max()))


def _vented(part: Any, solid: Any, axis: int, margin: float, sense: float = 1.0) -> Any:
    """Bore a sprue through a part to the highest top of the cavity, vents to the others, or to the far end of the only one."""
    sprue, vent = 3e-3, 1.5e-3  # diameters [m] of the hole that is poured through, and of those where air leaves
    across = [i for i in range(3) if i != axis]
    low, high = np.sort(sense * _corners(part, 0.0)[:, axis])
    tops = [top for top in _tops(solid, axis, sense) if (sense * top[:, axis]).max() > low + margin * INTO]
    first = tops[0][np.argmin(tops[0][:, across] @ np.array([1.0, 1e-3]))]
    vents = [top[np.argmin(np.linalg.norm(top - top.mean(axis=0), axis=1))] for top in tops[1:]]
    vents = vents or [tops[0][np.argmax(np.linalg.norm(tops[0] - first, axis=1))]]
    middle = _corners(solid, 0.0).mean(axis=0)[across]
    up, bored = sense * np.eye(3)[axis], [first]
    for point in [first, *vents]:
        width = sprue if point is first else vent
        if point is not first and min(np.linalg.norm(point - other) for other in bored) < margin:
            continue  # air finds the way to that one
        bored.append(point)
        at, way = point.copy(), middle - point[across]
        reach = np.linalg.norm(way)
        # not by half of it: the rim would run along an edge of the cavity
        at[across] += way * min(1.0, 0.45 * width / reach) if reach > 0 else 0.0
        at[across] = np.clip(at[across], *(_corners(part, -width)[:, across]))  # and not through a side of the mould
        top = at + (high + margin - sense * at[axis]) * up
        part = part - cylinder(at - 0.5 * width * up, top, width)
    return part


def _in_two_pours(
    skin: Any, chambers: Sequence[Any], inlets: Sequence[Inlet], axis: int, sense: float, height: float
) -> list[Part]:
    """Cores on a plate at the plane; a mould round what stands on it, whole or in halves; a tray for the lid."""
    up, above = sense * np.eye(3)[axis], sense > 0
    cores, margin = united(chambers), _margin(skin)
    height += sense * INTO * margin
    main, lid = half_space(skin, axis, height, above), half_space(skin, axis, height, not above)
    cast = main - cores
    through = {
        k + 1: inlet for k, inlet in enumerate(inlets) if (inlet.bore ^ cast).volume() > (inlet.bore ^ lid).volume()
    }
    cast, lid = (solid - united([inlet.bore for inlet in inlets]) for solid in (cast, lid))
    near, far = (0, 1) if above else (1, 0)
    corners, tray = _corners(main, margin), _corners(lid, margin)
    corners[near, axis] = tray[far, axis] = height
    floor = corners.copy()
    floor[:, axis] = np.sort([height, height - sense * margin])
    outside = block(*corners)
    holes = united(
        [
            _pins(main, outside, axis, height, CLEARANCE),
            *(rod.stem(2.0 * margin, CLEARANCE) for rod in through.values()),
        ]
    )
    plate = block(*floor) + half_space(cores, axis, height, above) + _pins(main, outside, axis, height, 0.0)
    parts = [
        _drawn(
            f"rod_{k}",
            "core",
            rod.stem(2.0 * margin, 0.0) - cores,
            "through the hole in the mould up to the core, for the inlet; drawn first",
            rod.way,
            cast,
        )
        for k, rod in through.items()
    ]
    parts.append(_drawn("core_plate", "core", plate, "holds the cores; drawn off before the mould", -up, cast))
    note = "poured level; the body is laid on it" + (
        "; stems keep the inlets open" if len(through) < len(inlets) else ""
    )
    parts += [
        *_round(main, outside, holes, axis, sense, margin),
        _drawn("lid_tray", "mould", block(*tray) - lid, note, -up, lid),
    ]
    parts.append(Part("cast_body", "cast", cast, "first pour"))
    parts.append(Part("cast_lid", "cast", lid, "second pour, bonded over the cavities while it cures, or glued"))
    return parts


def _round(main: Any, outside: Any, holes: Any, axis: int, sense: float, margin: float) -> list[Part]:
    """The mould round what stands on the core plate, whole or in halves."""
    # a cast this many times as long as it is wide lies in halves; out of one deep mould it is hard to pull
    slender = 3.0
    solid, note = outside - main - holes, "stands on the core plate; drawn off in one piece"
    cup = _drawn(FIRST_POUR, "mould", solid, note, sense * np.eye(3)[axis], main)
    size = np.ptp(_corners(main, 0.0), axis=0)
    across = [i for i in (2, 1, 0) if i != axis]
    if not cup.leaves or size[axis] > slender * size[across].min():
        halves = _halves(main, main, outside, across)
        if not cup.leaves or all(p.leaves for p in halves):
            return [replace(p, solid=p.solid - holes) for p in halves]
    return [replace(cup, solid=_vented(solid, main, axis, margin, sense))]


def _in_one_pour(skin: Any, chambers: Sequence[Any], inlets: Sequence[Inlet]) -> list[Part]:
    """Halves round the whole body; cores that are held by the stems of the inlets and lost."""
    margin, axes = _margin(skin), (2, 1, 0)
    cores = [chamber + inlet.stem(0.5 * margin, 0.0) for chamber, inlet in zip(chambers, inlets)]
    rest = united([skin, *(inlet.stem(0.5 * margin, CLEARANCE) for inlet in inlets)])
    parts = _halves(skin, rest, block(*_corners(skin, margin)), axes)
    note = "its cavity is closed or undercut: print it of soluble material, or cast it of wax; held by its stem in the mould"
    plane = partings(rest, axes)[0]
    if all(is_free(solid, plane.axis, plane.height) for solid in (skin, *chambers)):
        note += f"; or cut core and body at {AXES[plane.axis]} = {plane.height * 1e3:.4g} mm, cast two open halves and bond them"
    parts += [Part(f"core_{k + 1}", "core", core, note) for k, core in enumerate(cores)]
    parts.append(Part("cast_body", "cast", skin - united(cores) if cores else skin, "one pour"))
    return parts
