"""The soft snake of section V of [Gasoto2019]: soft links with two chambers between carriages on passive wheels.

The paper gives the counts of Table I, E = 66 kPa and 13 cross-sections along a link; the rest is chosen here, and
every choice is an argument of `make_snake`. Counts of one snake of four links beside Table I:

    rigid bodies 15 (15), joints 10 (10), particles 1508 (1504), tets 4608 (4536), distance constraints
    2448 (1460), attachments 232 (217).

A link of the paper has 376 particles, one less than 13 sections of 29: its mesh is not made of equal sections, and
its counts can be approached but not met. Attachments: 8 end sections of 29 are held here, all but one had 27 there
(7 x 27 + 28 = 217). Distance constraints of a link: 36 of the layer, 264 of the rings, and 12 for every
actuation line. The paper's 365 leave 65 for lines, between two and three a chamber. With `lines=3` there are 1488.
The default of 13 a chamber spreads the push over the section, and the bend is linear to a higher pressure (R^2 0.9995
instead of 0.997 to 8 psi).

As in the paper the cavities are not represented by the tets: a section is solid. (A hollow section was tried: it
folds at 30 degrees, long before the 8 psi up to which the curvature is linear. Three lines on the outline buckle
sideways through the soft body at 40 degrees; three through the core of the chamber do not.) A section is its own
mirror image in the mid-plane y = 0, with its tets, so a mirrored gait has the mirrored path. The three particles in
the mid-plane carry the inextensible layer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, cast

import numpy as np

from geosim.arguments import guarded
from geosim.arrays import Floats, Ints, choice, number, whole
from geosim.errors import InputError
from geosim.geometry import topology
from geosim.material.materials import LinearElastic
from geosim.snake.builder import ATTACHMENT_STIFFNESS, FRICTION, MultibodyBuilder, box_inertia, disc_inertia
from geosim.snake.model import SnakeRobot

_ARC = 13  # particles of the outline of one half, both ends in the mid-plane
# Particles of a half that actuation lines run through: by their number.
_LINES = {13: (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 14, 15), 3: (6, 14, 15)}


def _half_section(width: float, height: float) -> tuple[Floats, Ints]:
    """Particles (y, z) [m] and triangles of the left half of a section.

    Particles 0 .. 12 are the outline from the bottom of the mid-plane to its top, 13 the centre of the mid-plane, 14
    and 15 the core of the chamber. The half is its own mirror image in z = 0.
    """
    angle = np.linspace(-0.5 * np.pi, 0.5 * np.pi, _ARC)
    rounded: Callable[[Floats], Floats] = lambda v: np.sign(v) * np.maximum(abs(v), 1e-12) ** 0.7  # noqa: E731 (between an ellipse and a box)
    outline = np.column_stack([0.5 * width * rounded(np.cos(angle)), 0.5 * height * rounded(np.sin(angle))])
    outline[[0, -1], 0] = 0.0
    core = np.array([[0.0, 0.0], [0.15 * width, 0.0], [0.325 * width, 0.0]])
    fans = [(13, 0, 14), (13, 14, 12), (14, 3, 15), (15, 9, 14)]
    fans += [(14, k, k + 1) for k in (0, 1, 2, 9, 10, 11)] + [(15, k, k + 1) for k in range(3, 9)]
    return np.vstack([outline, core]), np.array(fans, dtype=np.int64)


def link_mesh(
    length: float, width: float, height: float, sections: int, lines: int = max(_LINES)
) -> tuple[Floats, Ints, dict[str, Any]]:
    """Mesh a soft link along x from 0 to `length`.

    Returns
    -------
    vertices, tets
        [m] (29 sections, 3), section by section; (96 (sections - 1), 4).
    parts
        Ids in a section: `middle` (3,), `outlines` (2, 13) and `lines` (2, lines) of the left and the right chamber.
    """
    half, fans = _half_section(width, height)
    middle = np.array([0, _ARC - 1, _ARC])
    own = np.setdiff1d(np.arange(len(half)), middle)
    number = np.empty((2, len(half)), dtype=np.int64)  # of the particles of the left and right half in the section
    number[:, middle] = np.arange(len(middle))
    number[:, own] = len(middle) + np.arange(len(own)) + np.array([[0], [len(own)]])
    points = np.empty((len(middle) + 2 * len(own), 2))
    points[number[0]], points[number[1]] = half, half * [-1.0, 1.0]
    triangles = [tuple(number[side][fan]) for side in (0, 1) for fan in fans]
    per = len(points)
    x = np.linspace(0.0, length, sections)
    vertices = np.concatenate([np.column_stack([np.full(per, s), points]) for s in x])
    tets = []
    # Numbers that rise with the distance from the mid-plane split neighbouring prisms consistently on both sides.
    order = _mirror_labels(points)
    for s in range(sections - 1):
        for triangle in triangles:
            a, b, c = sorted(triangle, key=lambda p: order[p])
            low, high = s * per, (s + 1) * per
            for t in (
                (a + low, b + low, c + low, c + high),
                (a + low, b + low, b + high, c + high),
                (a + low, a + high, b + high, c + high),
            ):
                tets.append(t)
    tets_array = np.array(tets, dtype=np.int64)
    negative = topology.tet_volumes(vertices, tets_array) < 0
    tets_array[negative] = tets_array[negative][:, [0, 1, 3, 2]]
    parts = {"middle": np.arange(len(middle)), "outlines": number[:, :_ARC], "lines": number[:, list(_LINES[lines])]}
    return vertices, tets_array, parts


def _mirror_labels(points: Floats) -> Ints:
    """Number the particles of a section so that mirror images in y = 0 have the same number."""
    key = np.round(np.column_stack([abs(points[:, 0]), points[:, 1]]), 9)
    _, label = np.unique(key, axis=0, return_inverse=True)
    return label.ravel()


SOFT_LINK_MATERIAL = LinearElastic(66e3, 0.45, 1070.0)  # Ecoflex 00-30 at small strains


@dataclass(frozen=True)
class Link:
    """A soft link.

    Parameters
    ----------
    material
        E = 66 kPa [Gasoto2019], nu = 0.45, 1070 kg/m^3 (chosen).
    sections
        Cross-sections along the link [Gasoto2019].
    length, width, height
        [m] (chosen); the two chambers lie side by side.
    layer_stiffness, ring_stiffness
        Of the distance constraints of the inextensible layer and of the fibre rings [N/m] (chosen).
    line_rigidity
        Force per strain of an actuation line [N] (stiffness of a segment times its length, so that it does not depend on
        the number of sections); it sets the bend angle at a pressure: calibrate it.
    line_modulus
        E of Eq. (4) [Pa].
    lines
        Actuation lines of a chamber: 13, or 3, which is nearer to Table I; they share the force of 13 of
        `line_rigidity`.
    attachment_stiffness
        Of a particle to its plate [N/m] (chosen).
    particle_contact
        Whether the particles touch the surroundings.
    """

    material: LinearElastic = SOFT_LINK_MATERIAL
    sections: int = 13
    length: float = 0.1
    width: float = 0.04
    height: float = 0.03
    layer_stiffness: float = 1e5
    ring_stiffness: float = 2e3
    line_rigidity: float = 1.0
    line_modulus: float = SOFT_LINK_MATERIAL.youngs_modulus
    lines: int = max(_LINES)
    attachment_stiffness: float = ATTACHMENT_STIFFNESS
    particle_contact: bool = True

    def __post_init__(self) -> None:
        whole(self.sections, "make_snake: sections", least=2)
        if self.lines not in _LINES:
            raise InputError(f"make_snake: lines = {self.lines!r} is not possible; use 13, or 3 as in Table I")


@dataclass(frozen=True)
class Carriage:
    """A rigid plate between two links, as wide and as high as they are: length [m], mass [kg] (chosen)."""

    length: float = 0.04
    mass: float = 0.12


@dataclass(frozen=True)
class Wheel:
    """A passive wheel, two a carriage (all chosen).

    Parameters
    ----------
    radius, width, mass
        [m], [m], [kg].
    track
        Between the two wheels of a carriage [m].
    mounting
        "free" on a hinge, or "locked" (welded): then friction is the same in every direction.
    damping
        Of the bearing [N m s/rad].
    """

    radius: float = 0.025
    width: float = 0.006
    mass: float = 0.008
    track: float = 0.06
    mounting: str = "free"
    damping: float = 1e-5

    def __post_init__(self) -> None:
        choice(self.mounting, "make_snake: wheels", ("free", "locked"))


# Keyword of `make_snake` -> part and field of it.
KEYWORDS: dict[str, tuple[type[Link | Carriage | Wheel], str]] = {
    **{name: (Link, name) for name in ("material", "sections", "layer_stiffness", "ring_stiffness", "line_rigidity")},
    **{name: (Link, name) for name in ("line_modulus", "lines", "attachment_stiffness", "particle_contact")},
    **{f"link_{name}": (Link, name) for name in ("length", "width", "height")},
    **{f"carriage_{name}": (Carriage, name) for name in ("length", "mass")},
    **{f"wheel_{name}": (Wheel, name) for name in ("radius", "width", "mass", "damping")},
    "track": (Wheel, "track"),
    "wheels": (Wheel, "mounting"),
}


@guarded
def make_snake(
    links: int = 4,
    count: int = 1,
    *,
    link: Link | None = None,
    carriage: Carriage | None = None,
    wheel: Wheel | None = None,
    friction: float = FRICTION,
    spacing: float = 0.3,
    hold_tail: bool = False,
    **fields: LinearElastic | float | str | None,
) -> SnakeRobot:
    """Build one or more soft snakes on the plane z = 0, each along x with its head at the greater x.

    Parameters
    ----------
    links, count
        Soft links of a snake; number of snakes, side by side.
    link, carriage, wheel
        What they are made of.
    friction
        Coefficient of wheels and links; a contact has the geometric mean of it and the obstacle's.
    spacing
        Between neighbouring snakes [m].
    hold_tail
        Hold the first carriage in place and leave out the wheels, as on a test bench.
    fields
        Fields of the parts by name: material, sections, layer_stiffness, ring_stiffness, line_rigidity, line_modulus, lines,
        attachment_stiffness, particle_contact, link_length, link_width, link_height of `Link`; carriage_length,
        carriage_mass of `Carriage`; wheel_radius, wheel_width, wheel_mass, wheel_damping, track and wheels (its mounting) of
        `Wheel`.

    Raises
    ------
    InputError
        A count, a length or a name is impossible.
    """
    max_links = 1000  # of all snakes: more take minutes to build, and gigabytes
    whole(links, "make_snake: links", least=1, most=max_links)
    whole(count, "make_snake: count", least=1, most=max_links // links)
    spacing = number(spacing, "make_snake: spacing [m]")
    parts: dict[type, Any] = {Link: link or Link(), Carriage: carriage or Carriage(), Wheel: wheel or Wheel()}
    for name, value in fields.items():
        part, field = KEYWORDS[choice(name, "make_snake: argument", KEYWORDS)]
        parts[part] = parts[part] if value is None else replace(parts[part], **{field: value})
    build = MultibodyBuilder(f"snake of {links} link{'s' if links > 1 else ''}" + (f" x {count}" if count > 1 else ""))
    made = (parts[Link], parts[Carriage], parts[Wheel], friction, hold_tail)
    chains = [_add_snake(build, np.array([0.0, k * spacing, parts[Wheel].radius]), links, *made) for k in range(count)]
    return cast(SnakeRobot, build.build(SnakeRobot, links=links, count=count, carriages=np.array(chains)))


def _add_snake(
    build: MultibodyBuilder,
    tail: Floats,
    links: int,
    link: Link,
    carriage: Carriage,
    wheel: Wheel,
    friction: float,
    bench: bool,
) -> list[int]:
    """Add a snake whose first carriage is at `tail`; return its carriages."""
    mesh = link_mesh(link.length, link.width, link.height, link.sections, link.lines)
    places = tail + np.outer(np.arange(links + 1) * (link.length + carriage.length), [1.0, 0.0, 0.0])
    size = (carriage.length, link.width, link.height)
    chain: list[int] = []
    for place in places:
        chain.append(build.add_body(carriage.mass, box_inertia(carriage.mass, size), place, size=size))
        if not bench:
            _add_wheels(build, chain[-1], place, wheel, friction)
    for place, ends in zip(places, pairwise(chain)):
        _add_link(build, place + [0.5 * carriage.length, 0, 0], ends, link, mesh, friction)
    if bench:
        build.fix_body(chain[0])
    return chain


def _add_wheels(build: MultibodyBuilder, body: int, place: Floats, wheel: Wheel, friction: float) -> None:
    for side in (1.0, -1.0):
        centre = place + np.array([0.0, side * 0.5 * wheel.track, 0.0])
        inertia = disc_inertia(wheel.mass, wheel.radius, wheel.width)
        disc = build.add_body(wheel.mass, inertia, centre, disc=(wheel.radius, wheel.width))
        build.add_wheel(disc, wheel.radius, friction)
        if wheel.mounting == "free":
            build.add_hinge(body, disc, centre, (0.0, 1.0, 0.0), damping=wheel.damping)
        else:
            build.add_fixed_joint(body, disc, centre)


def _add_link(
    build: MultibodyBuilder,
    start: Floats,
    ends: tuple[int, int],
    link: Link,
    mesh: tuple[Floats, Ints, dict[str, Any]],
    friction: float,
) -> None:
    """Add a link from `start` [m] between two bodies."""
    vertices, tets, parts = mesh
    ids = build.add_tets(vertices + start, tets, link.material).reshape(link.sections, -1)
    _add_fibres(build, ids, parts, link.layer_stiffness, link.ring_stiffness)
    stiffness = link.line_rigidity * max(_LINES) / link.lines * (link.sections - 1) / link.length
    for side in parts["lines"]:
        chamber = build.add_chamber()
        for line in side:
            build.add_line(ids[:, line], chamber, stiffness, link.line_modulus)
    for section, body in zip(ids[[0, -1]], ends):
        build.attach(section, body, link.attachment_stiffness)
    if link.particle_contact:
        build.add_particle_contact(ids[1:-1].ravel(), friction)


def _add_fibres(build: MultibodyBuilder, ids: Ints, parts: dict[str, Any], layer: float, ring: float) -> None:
    """Inextensible layer along the mid-plane; fibre rings: the outlines of both chambers between the end plates."""
    mid = ids[:, parts["middle"]]
    build.add_distances(np.column_stack([mid[:-1].ravel(), mid[1:].ravel()]), layer)
    for outline in parts["outlines"]:
        loop = ids[1:-1, outline]
        build.add_distances(np.column_stack([loop[:, :-1].ravel(), loop[:, 1:].ravel()]), ring)
