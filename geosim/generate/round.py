"""Designs of round section: finger and tapered arm of sector chambers, tubes wound with fibres, twister, bellows, folded tube.

Circles are polygons of the same area, so volumes are those of the round bodies.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from geosim.arrays import Floats, number
from geosim.generate import limits
from geosim.generate.design import THREAD, Design, face_box, generator, paper
from geosim.generate.surfaces import SEGMENTS, circle, sector, tube
from geosim.model.fabric import Fibre

# What a design is like where nothing is said [m]: fingers as long as those of a hand, walls and caps that are cast easily.
FINGER_LENGTH, TUBE_LENGTH, WALL, CAP, THIN_CAP = 100e-3, 80e-3, 2e-3, 5e-3, 3e-3
WOUND_RADIUS, PITCH, FIBRE_RADIUS = 8e-3, 3e-3, 0.1e-3  # of what is wound with polyester thread


def _prism(section: Floats, start: float, end: float, scales: tuple[float, float] = (1.0, 1.0)) -> Any:
    """A section (m, 2) in the plane (y, z) from x = start to end [m], scaled about the x axis at both: a prism or a frustum."""
    return tube(_sections(np.array([start, end]), np.multiply.outer(scales, section)))


def _sections(along: Floats, sections: Floats) -> Floats:
    """Rings (s, m, 3) of sections (s, m, 2) across the x axis."""
    return np.insert(sections, 0, along[:, None], axis=2)


def _winding(outline: Floats, start: float, pitch: float, corners: int, radius: float, first: int = 0) -> Fibre:
    """A fibre on a prism, from x = start [m] over corners of its outline (m, 2); a negative pitch [m] winds the other way."""
    passed = np.arange(corners + 1)
    along = start + abs(pitch) * passed / len(outline)
    places = outline[(first + int(np.sign(pitch)) * passed) % len(outline)]
    return Fibre(np.insert(places, 0, along, axis=1), radius, THREAD)


def _crossed(outline: Floats, length: float, cap: float, pitch: float, radius: float) -> tuple[Fibre, ...]:
    """Two opposite fibres [m] on a prism, between its caps."""
    limits.less("pitch", pitch, length - 2 * cap, "the length between the caps")
    corners = int((length - 2 * cap) / pitch) * len(outline)
    return tuple(_winding(outline, cap, way * pitch, corners, radius) for way in (1, -1))


def _ends(body: Any) -> tuple[Floats, Floats]:
    """What is held at x = 0, and the tip at the other end."""
    return face_box(body, 0, 0), face_box(body, 0, -1)


@generator
def round_finger(
    chambers: int = 1,
    length: float = FINGER_LENGTH,
    radius: float = 10e-3,
    wall: float = WALL,
    cap: float = CAP,
    tip_radius: float | None = None,
) -> Design:
    """Make a round finger about the x axis, clamped at x = 0, with equal sector chambers.

    Chamber 1 lies towards +z, the others counter-clockwise seen from +x. With a tip radius it is a tapered arm, like that
    of an octopus: every section is the first one, smaller.

    Parameters
    ----------
    chambers
        1 to 4.
    length, radius
        Outer size [m].
    wall
        Thickness of the skin and of the walls between chambers [m], across the axis; of a tapered arm at x = 0.
    cap
        Thickness of the ends [m].
    tip_radius
        Outer radius at the far end [m]; None: as at x = 0.

    Raises
    ------
    InputError
        A dimension cannot be.
    """
    limits.count(most=4, chambers=chambers)
    end = radius if tip_radius is None else tip_radius
    limits.length(length=length, radius=radius, wall=wall, cap=cap, tip_radius=end)
    limits.less("cap", cap, 0.5 * length, "half the length")
    limits.less("wall", wall, radius, "the radius")

    def frustum(section: Floats, x: float) -> Any:
        """The part from x to as far from the other end."""
        scales = 1.0 + (end / radius - 1.0) * np.array([x, length - x]) / length
        return _prism(section, x, length - x, tuple(scales))

    body = frustum(circle(radius), 0.0)
    if chambers == 1:
        sections = [circle(radius - wall)]
    else:
        sine = np.sin(np.pi / chambers)
        limits.less("wall", wall, radius * 2 * sine / (1 + 2 * sine), f"what leaves room for {chambers} sectors")
        middles = 0.5 * np.pi + 2 * np.pi * np.arange(chambers) / chambers  # of (y, z): +z first
        sections = [sector(radius - wall, chambers, 0.5 * wall, angle) for angle in middles]
    return Design(body, tuple(frustum(section, cap) for section in sections), *_ends(body))


@generator
def fiber_bender(
    length: float = FINGER_LENGTH,
    radius: float = WOUND_RADIUS,
    wall: float = WALL,
    cap: float = CAP,
    pitch: float = PITCH,
    fibre_radius: float = FIBRE_RADIUS,
    layer: float | None = None,
) -> Design:
    """Make a finger of half-round section on a flat base, wound with two opposite fibres.

    Along +x from its clamped face x = 0, base at z = 0, width 2 radius along y from 0.

    Parameters
    ----------
    length, radius
        Outer size [m].
    wall, cap
        Thickness of skin and base, and of the ends [m].
    pitch, fibre_radius
        Of both fibres, which lie on the skin between the caps [m].
    layer
        Thickness [m] of paper on the face z = 0, which lets the finger bend but not lengthen there; None: no paper.

    Raises
    ------
    InputError
        A dimension cannot be.
    """
    limits.length(length=length, radius=radius, wall=wall, cap=cap, pitch=pitch, fibre_radius=fibre_radius)
    limits.less("cap", cap, 0.5 * length, "half the length")
    limits.less("wall", wall, 0.5 * radius, "half the radius")
    limits.less("fibre_radius", fibre_radius, 0.5 * wall, "half the wall")
    aside = np.array([radius, 0.0])
    outline = sector(radius, 2, 0.0, 0.5 * np.pi) + aside
    body = _prism(outline, 0.0, length)
    cavity = _prism(sector(radius - wall, 2, wall, 0.5 * np.pi) + aside, cap, length - cap)
    fibres = _crossed(outline, length, cap, pitch, fibre_radius)
    return Design(body, (cavity,), *_ends(body), fibres=fibres, layers=paper(layer))


def _tube(length: float, radius: float, wall: float, cap: float, fibre_radius: float) -> tuple[Floats, Any, Any]:
    """Outline (m, 2), body and cavity of a round tube with closed ends that fibres are to be wound on."""
    limits.length(length=length, radius=radius, wall=wall, cap=cap, fibre_radius=fibre_radius)
    limits.less("cap", cap, 0.5 * length, "half the length")
    limits.less("wall", wall, radius, "the radius")
    limits.less("fibre_radius", fibre_radius, 0.5 * wall, "half the wall")
    return circle(radius), _prism(circle(radius), 0.0, length), _prism(circle(radius - wall), cap, length - cap)


@generator
def fiber_extender(
    length: float = TUBE_LENGTH,
    radius: float = WOUND_RADIUS,
    wall: float = WALL,
    cap: float = CAP,
    pitch: float = PITCH,
    fibre_radius: float = FIBRE_RADIUS,
) -> Design:
    """Make a round tube about the x axis, clamped at x = 0, wound with two opposite fibres: it lengthens and stays as wide.

    Fibres that lie more along the axis than at 54.7 degrees (a pitch of more than 4.44 radii) shorten it instead
    [Connolly 2015, Soft Robotics 2].

    Parameters
    ----------
    length, radius
        Outer size [m].
    wall, cap
        Thickness of the skin and of the ends [m].
    pitch, fibre_radius
        Of both fibres, which lie on the skin between the caps [m].

    Raises
    ------
    InputError
        A dimension cannot be.
    """
    outline, body, cavity = _tube(length, radius, wall, cap, fibre_radius)
    limits.length(pitch=pitch)
    return Design(body, (cavity,), *_ends(body), fibres=_crossed(outline, length, cap, pitch, fibre_radius))


@generator
def fiber_twister(
    length: float = TUBE_LENGTH,
    radius: float = WOUND_RADIUS,
    wall: float = WALL,
    cap: float = CAP,
    turns: float = 1.5,
    strands: int = 8,
    fibre_radius: float = FIBRE_RADIUS,
) -> Design:
    """Make a round tube about the x axis, clamped at x = 0, wound with one family of fibres: its tip turns when it is inflated.

    Fibres in one sense alone are not balanced by others in the opposite sense [Connolly 2015, Soft Robotics 2].

    Parameters
    ----------
    length, radius
        Outer size [m].
    wall, cap
        Thickness of the skin and of the ends [m].
    turns
        Windings of every fibre between the caps; negative winds the other way.
    strands
        Fibres, spread evenly, 1 to 32.
    fibre_radius
        Of every fibre [m].

    Raises
    ------
    InputError
        A dimension cannot be.
    """
    outline, body, cavity = _tube(length, radius, wall, cap, fibre_radius)
    number(abs(number(turns, "turns")), "turns (either sign)", low=1.0 / SEGMENTS, high=limits.MAX_PARTS)
    limits.count(most=SEGMENTS, strands=strands)
    corners, pitch = int(abs(turns) * SEGMENTS + 1e-9), (length - 2 * cap) / turns
    starts = np.arange(strands) * SEGMENTS // strands
    fibres = tuple(_winding(outline, cap, pitch, corners, fibre_radius, int(first)) for first in starts)
    return Design(body, (cavity,), *_ends(body), fibres=fibres)


@generator
def twister(
    length: float = TUBE_LENGTH,
    radius: float = 10e-3,
    wall: float = WALL,
    turns: float = 1.0,
    cap: float = CAP,
    pairs: int | None = None,
    parts: int | None = None,
) -> Design:
    """Make a cylinder about the x axis, clamped at x = 0, with a flat chamber that winds about the axis.

    The chamber's section has the width 2 (radius - wall), the thickness of a wall and round edges; a flat tube that is
    wound turns back when it is inflated.

    Parameters
    ----------
    length, radius
        Outer size [m].
    wall
        Least thickness of the skin, and thickness of the chamber [m].
    turns
        Windings of the chamber; negative winds the other way.
    cap
        Thickness of the ends [m].
    pairs
        Half the number of steps along the chamber's surface; default by its turns and its thickness.
    parts
        Of each flat side of its section; default as wide as the steps are long.

    Raises
    ------
    InputError
        A dimension cannot be.
    """
    # Rings of the twisted chamber to a radian, an even number in all: its surface is then 0.2 % of the radius from the
    # smooth one.
    rings_per_radian = 4
    # Of the slot's thickness along its edge from ring to ring: the mesher cuts longer, sheared triangles into ten times
    # as many tets.
    max_ring_step = 1.5
    limits.length(length=length, radius=radius, wall=wall, cap=cap, **{"turns (either sign)": abs(turns)})
    limits.less("cap", cap, 0.5 * length, "half the length")
    limits.less("wall", wall, radius * 2 / 3, "two thirds of the radius")
    body = _prism(circle(radius), 0.0, length)
    edge = np.hypot(length - 2 * cap, 2 * np.pi * turns * (radius - wall))  # along the slot's rim
    fine = max(np.pi * rings_per_radian * abs(turns), edge / (2 * max_ring_step * wall))
    pairs = int(np.ceil(fine)) if pairs is None else pairs
    limits.count(pairs=pairs)
    steps = 2 * pairs
    flat = 2 * radius - 3 * wall
    parts = max(1, round(flat * steps / edge)) if parts is None else parts
    limits.count(parts=parts)
    angle = np.linspace(0.0, 2 * np.pi * turns, steps + 1)
    section = _slot(flat, wall, parts)
    turned = np.stack(
        [
            np.outer(np.cos(angle), section[:, 0]) - np.outer(np.sin(angle), section[:, 1]),
            np.outer(np.sin(angle), section[:, 0]) + np.outer(np.cos(angle), section[:, 1]),
        ],
        axis=2,
    )
    rings = _sections(np.linspace(cap, length - cap, steps + 1), turned)
    way = int(np.sign(turns))
    # between two rings a twisted surface is a little thinner; its volume is that of the smooth one after this
    area = flat * wall + 0.25 * np.pi * wall**2
    rings[..., 1:] *= np.sqrt(area * (length - 2 * cap) / tube(rings, way).volume)
    return Design(body, (tube(rings, way),), *_ends(body), parameters={"pairs": pairs, "parts": parts})


@generator
def twiner(
    length: float = 120e-3,
    radius: float = 4e-3,
    chamber_radius: float = 2.2e-3,
    offset: float = 1.1e-3,
    turns: float = 0.24,
    cap: float = THIN_CAP,
    tip: float = 3e-3,
    rings: int | None = None,
) -> Design:
    """Make a slender cylinder about the x axis, clamped at x = 0, with a round chamber that winds beside the axis.

    The chamber begins towards +z and winds from +z to -y, or the other way where its turns are negative. The side of the
    chamber lengthens when it is inflated: the cylinder curls towards -z to a helix, and twines round a rod there.

    Parameters
    ----------
    length, radius
        Outer size [m].
    chamber_radius
        Of the chamber's section across the axis [m].
    offset
        Distance of the chamber's middle from the axis [m].
    turns
        Windings of the chamber round the axis; 0 is a straight chamber, whose cylinder curls to a ring.
    cap, tip
        Lengths without a chamber at the clamped and at the far end [m].
    rings
        Sections along the chamber; default by its turns and its radius.

    Raises
    ------
    InputError
        A dimension cannot be.
    """
    # Corners of a section: a slender cylinder is finely enough drawn with fewer than a finger.
    skin_corners, chamber_corners = 12, 8
    # Of the chamber's radius from section to section: as far as its corners are apart, so that its triangles are even.
    section_step = 1.2
    limits.length(length=length, radius=radius, chamber_radius=chamber_radius, offset=offset, cap=cap, tip=tip)
    limits.less("cap", cap, length - tip, "what the tip leaves of the length")
    bore = length - cap - tip
    number(abs(number(turns, "turns")), "turns (either sign)", high=limits.MAX_PARTS)
    skin, section = circle(radius, skin_corners), circle(chamber_radius, chamber_corners)
    wall = np.cos(np.pi / skin_corners) * np.linalg.norm(skin[0])  # the axis from a side of the skin
    farthest = float(wall - offset) * chamber_radius / float(np.linalg.norm(section[0]))
    limits.less("offset", offset, float(wall), "the radius")
    limits.less("chamber_radius", chamber_radius, farthest, "what its offset leaves of the radius")
    if rings is None:
        rings = 2 + int(np.hypot(bore, 2 * np.pi * turns * offset) / (section_step * chamber_radius))
    limits.count(least=2, rings=rings)
    along = np.linspace(cap, length - tip, rings)
    angle = np.linspace(0.0, 2 * np.pi * turns, rings)
    middle = offset * np.stack([-np.sin(angle), np.cos(angle)], axis=1)
    stations = np.concatenate([[0.0], along, [length]])
    body = tube(_sections(stations, np.broadcast_to(skin, (rings + 2, *skin.shape))))
    chamber = tube(_sections(along, middle[:, None] + section))
    return Design(body, (chamber,), *_ends(body), parameters={"rings": rings})


def _slot(flat: float, thickness: float, parts: int) -> Floats:
    """Corners (m, 2) of a slot with round edges, which have the area of half circles, and with flat sides in parts."""
    # Corners of a circle as thick as the slot: more are shorter than the way between two rings, and ask for as small tets.
    edge_segments = 6
    end = sector(0.5 * thickness, 2, 0.0, segments=edge_segments)[1:]  # without the centre
    right = end + [0.5 * flat, 0.0]
    inner = 0.5 * flat * np.linspace(1.0, -1.0, parts + 1)[1:-1]
    top = np.stack([inner, np.full(len(inner), 0.5 * thickness)], axis=1)
    return np.vstack([right, top, -right, -top])


@generator
def bellows(
    convolutions: int = 6,
    outer_radius: float = 12e-3,
    inner_radius: float = 8e-3,
    pitch: float = 8e-3,
    wall: float = 1.5e-3,
    cap: float = THIN_CAP,
) -> Design:
    """Make bellows about the x axis, clamped at x = 0: cones between valleys and peaks, round caps at both ends.

    Its length is convolutions x pitch + 2 cap.

    Parameters
    ----------
    convolutions
        Number of peaks.
    outer_radius, inner_radius
        Of the skin at peaks and valleys [m].
    pitch
        Distance of two peaks [m].
    wall
        Thickness of the cones [m], across them.
    cap
        Thickness of the ends [m], which have the inner radius.

    Raises
    ------
    InputError
        A dimension cannot be.
    """
    limits.count(convolutions=convolutions)
    limits.length(outer_radius=outer_radius, inner_radius=inner_radius, pitch=pitch, wall=wall, cap=cap)
    limits.less("inner_radius", inner_radius, outer_radius, "the outer radius")
    slope = 0.5 * pitch / np.hypot(0.5 * pitch, outer_radius - inner_radius)
    limits.less("wall", wall, slope * inner_radius, "what leaves a bore in the valleys")
    length = convolutions * pitch + 2 * cap
    x: Floats = cap + 0.5 * pitch * np.arange(2.0 * convolutions + 1.0)
    r = np.where(np.arange(len(x)) % 2 == 1, outer_radius, inner_radius)

    def turned(x: Floats, r: Floats) -> Any:
        return tube(_sections(x, np.multiply.outer(r, circle(1.0))))

    body = turned(np.array([0.0, *x, length]), np.array([inner_radius, *r, inner_radius]))
    cavity = turned(x, r - wall / slope)
    return Design(body, (cavity,), *_ends(body))


@generator
def kresling(
    stories: int = 4,
    sides: int = 6,
    radius: float = 15e-3,
    pitch: float = 15e-3,
    turns: float = 1 / 8,
    wall: float = 1e-3,
    cap: float = THIN_CAP,
) -> Design:
    """Make a tube in Kresling's folds about the x axis, clamped at x = 0: polygons turned to and fro, triangles between them.

    A story that is pulled together turns its ends against each other [Kresling 2008]; with an even number of stories the
    tip keeps its direction. Vacuum shortens it, pressure stretches it. Its length is stories x pitch + 2 cap.

    Parameters
    ----------
    stories
        Number of parts between two polygons.
    sides
        Of the polygons, 3 to 32.
    radius
        Of the circle through a polygon's corners [m].
    pitch
        Distance of two polygons [m].
    turns
        By which every other polygon is turned, at most 1 / sides.
    wall
        Thickness at the middle of a polygon's side, across the axis [m]; where triangles lean inwards it is less.
    cap
        Thickness of the ends [m].

    Raises
    ------
    InputError
        A dimension cannot be.
    """
    limits.count(stories=stories)
    limits.count(least=3, most=SEGMENTS, sides=sides)
    limits.length(radius=radius, pitch=pitch, wall=wall, cap=cap)
    number(turns, "turns", above=0.0, high=1.0 / sides)
    apothem = radius * np.cos(np.pi / sides)
    limits.less("wall", wall, 0.9 * apothem, "nine tenths of the polygon's inner radius")
    length = stories * pitch + 2 * cap
    x: Floats = cap + pitch * np.arange(stories + 1.0)
    # every second polygon is turned back, so that quads are split along their shorter diagonal
    turned = 2 * np.pi * turns * -(np.arange(stories + 1) % 2)
    angle = turned[:, None] + 2 * np.pi * np.arange(sides) / sides

    def folded(x: Floats, angle: Floats, radius: float) -> Any:
        return tube(_sections(x, radius * np.stack([np.cos(angle), np.sin(angle)], axis=2)))

    ends = np.array(
        [0.0, 0.5 * cap, *x, length]
    )  # two rings before the first story, so that body and cavity have the same folds
    body = folded(ends, angle[[0, 0, *range(stories + 1), stories]], radius)
    cavity = folded(x, angle, radius * (1.0 - wall / apothem))
    return Design(body, (cavity,), *_ends(body))
