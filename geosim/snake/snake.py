"""The soft snake of section V of [Gasoto2019]: soft links with two chambers between carriages on passive wheels.

The paper gives the counts of Table I, E = 66 kPa and 13 cross-sections along a link; the rest is chosen here, and
every choice is an argument of `make_snake`. Counts of one snake of four links beside Table I:

    rigid bodies 15 (15), joints 10 (10), particles 1508 (1504), tets 4608 (4536), distance constraints
    2448 (1460), attachments 232 (217).

A link of the paper has 376 particles, one less than 13 sections of 29: its mesh is not made of equal sections, and
its counts can be approached but not met. Attachments: 8 end sections of 29 are held here, all but one had 27 there
(7 x 27 + 28 = 217). Distance constraints of a link: 36 of the layer, 264 of the rings, and 12 for every
actuation line; the paper's 365 leave 65 for lines, between two and three a chamber. With `lines=3` there are 1488;
the default of 13 a chamber spreads the push over the section, and the bend is linear to a higher pressure (R^2 0.9995
instead of 0.997 to 8 psi).

As in the paper the cavities are not represented by the tets: a section is solid. (A hollow section was tried: it
folds at 30 degrees, long before the 8 psi up to which the curvature is linear. Three lines on the outline buckle
sideways through the soft body at 40 degrees; three through the core of the chamber do not.) A section is its own
mirror image in the mid-plane y = 0, with its tets, so a mirrored gait has the mirrored path; the three particles in
the mid-plane carry the inextensible layer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.errors import InputError
from geosim.material.materials import LinearElastic
from geosim.snake.builder import MultibodyBuilder, box_inertia, disc_inertia
from geosim.snake.model import SnakeRobot

__all__ = ["link_mesh", "make_snake"]

_ARC = 13  # particles of the outline of one half, both ends in the mid-plane
# Particles of a half that actuation lines run through: by their number.
_LINES = {13: (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 14, 15), 3: (6, 14, 15)}


def _half_section(width: float, height: float) -> tuple[Floats, Ints]:
    """Particles (y, z) [m] and triangles of the left half of a section.

    Particles 0 .. 12 are the outline from the bottom of the mid-plane to its top, 13 the centre of the mid-plane, 14
    and 15 the core of the chamber. The half is its own mirror image in z = 0.
    """
    angle = np.linspace(-0.5 * np.pi, 0.5 * np.pi, _ARC)
    rounded = lambda v: np.sign(v) * np.maximum(abs(v), 1e-12) ** 0.7  # noqa: E731 (between an ellipse and a box)
    outline = np.column_stack([0.5 * width * rounded(np.cos(angle)), 0.5 * height * rounded(np.sin(angle))])
    outline[[0, -1], 0] = 0.0
    core = np.array([[0.0, 0.0], [0.15 * width, 0.0], [0.325 * width, 0.0]])
    fans = [(13, 0, 14), (13, 14, 12), (14, 3, 15), (15, 9, 14)]
    fans += [(14, k, k + 1) for k in (0, 1, 2, 9, 10, 11)] + [(15, k, k + 1) for k in range(3, 9)]
    return np.vstack([outline, core]), np.array(fans, dtype=np.int64)


def link_mesh(
    length: float, width: float, height: float, sections: int, lines: int = 13
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
    from geosim.geometry.topology import tet_volumes

    negative = tet_volumes(vertices, tets_array) < 0
    tets_array[negative] = tets_array[negative][:, [0, 1, 3, 2]]
    parts = {"middle": np.arange(len(middle)), "outlines": number[:, :_ARC], "lines": number[:, list(_LINES[lines])]}
    return vertices, tets_array, parts


def _mirror_labels(points: Floats) -> Ints:
    """Number the particles of a section so that mirror images in y = 0 have the same number."""
    key = np.round(np.column_stack([abs(points[:, 0]), points[:, 1]]), 9)
    _, label = np.unique(key, axis=0, return_inverse=True)
    return label.ravel()


def make_snake(
    links: int = 4,
    count: int = 1,
    *,
    material: LinearElastic | None = None,
    sections: int = 13,
    link_length: float = 0.1,
    link_width: float = 0.04,
    link_height: float = 0.03,
    layer_stiffness: float = 1e5,
    ring_stiffness: float = 2e3,
    line_rigidity: float = 1.0,
    line_modulus: float = 66e3,
    lines: int = 13,
    attachment_stiffness: float = 1e5,
    carriage_length: float = 0.04,
    carriage_mass: float = 0.12,
    wheel_radius: float = 0.025,
    wheel_width: float = 0.006,
    wheel_mass: float = 0.008,
    track: float = 0.06,
    friction: float = 1.0,
    wheels: str = "free",
    wheel_damping: float = 1e-5,
    spacing: float = 0.3,
    particle_contact: bool = True,
    hold_tail: bool = False,
) -> SnakeRobot:
    """Build one or more soft snakes on the plane z = 0, each along x with its head at the greater x.

    Parameters
    ----------
    links, count
        Soft links of a snake; number of snakes, side by side.
    material
        Of the links; default E = 66 kPa [Gasoto2019], nu = 0.45, 1070 kg/m^3 (chosen).
    sections
        Cross-sections along a link [Gasoto2019].
    link_length, link_width, link_height
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
    carriage_length, carriage_mass, wheel_radius, wheel_width, wheel_mass, track
        [m], [kg] (chosen).
    friction
        Coefficient of wheels and links; a contact has the geometric mean of it and the obstacle's.
    wheel_damping
        Of the bearings [N m s/rad] (chosen).
    wheels
        "free" on hinges, or "locked" (welded): then friction is the same in every direction.
    spacing
        Between neighbouring snakes [m].
    particle_contact
        Whether the particles of the links touch the surroundings.
    hold_tail
        Hold the first carriage in place and leave out the wheels, as on a test bench.

    Raises
    ------
    InputError
        A count or a length is impossible.
    """
    if not (isinstance(links, int) and links >= 1 and isinstance(count, int) and count >= 1 and sections >= 2):
        raise InputError(
            f"make_snake: links = {links!r}, count = {count!r}, sections = {sections!r}; whole numbers, at "
            f"least 1, 1 and 2"
        )
    if lines not in _LINES:
        raise InputError(f"make_snake: lines = {lines!r} is not possible; use 13, or 3 as in Table I")
    if wheels not in ("free", "locked"):
        raise InputError(f'make_snake: wheels = {wheels!r} is unknown; use "free" or "locked"')
    material = LinearElastic(66e3, 0.45, 1070.0) if material is None else material
    build = MultibodyBuilder(f"snake of {links} link{'s' if links > 1 else ''}" + (f" x {count}" if count > 1 else ""))
    vertices, tets, parts = link_mesh(link_length, link_width, link_height, sections, lines)
    carriages = []
    for k in range(count):
        places = np.arange(links + 1) * (link_length + carriage_length)
        offset = np.array([0.0, k * spacing, wheel_radius])
        chain = [
            _add_carriage(
                build,
                offset + [x, 0, 0],
                carriage_length,
                carriage_mass,
                link_width,
                link_height,
                wheel_radius,
                wheel_width,
                wheel_mass,
                track,
                friction,
                wheels,
                wheel_damping,
                hold_tail,
            )
            for x in places
        ]
        for i in range(links):
            start = offset + [places[i] + 0.5 * carriage_length, 0, 0]
            ids = build.add_tets(vertices + start, tets, material).reshape(sections, -1)
            _add_fibres(build, ids, parts, layer_stiffness, ring_stiffness)
            for side in parts["lines"]:
                chamber = build.add_chamber()
                stiffness = line_rigidity * 13 / lines * (sections - 1) / link_length
                for line in side:
                    build.add_line(ids[:, line], chamber, stiffness, line_modulus)
            build.attach(ids[0], chain[i], attachment_stiffness)
            build.attach(ids[-1], chain[i + 1], attachment_stiffness)
            if particle_contact:
                build.add_particle_contact(ids[1:-1].ravel(), friction)
        if hold_tail:
            build.fix_body(chain[0])
        carriages.append(chain)
    return build.build(SnakeRobot, links=links, count=count, carriages=np.array(carriages))


def _add_carriage(
    build: MultibodyBuilder,
    place: Floats,
    length: float,
    mass: float,
    width: float,
    height: float,
    wheel_radius: float,
    wheel_width: float,
    wheel_mass: float,
    track: float,
    friction: float,
    wheels: str,
    damping: float,
    bench: bool,
) -> int:
    size = (length, width, height)
    body = build.add_body(mass, box_inertia(mass, size), place, size=size)
    if bench:
        return body
    for side in (1.0, -1.0):
        centre = place + np.array([0.0, side * 0.5 * track, 0.0])
        wheel = build.add_body(
            wheel_mass, disc_inertia(wheel_mass, wheel_radius, wheel_width), centre, disc=(wheel_radius, wheel_width)
        )
        build.add_wheel(wheel, wheel_radius, friction)
        if wheels == "free":
            build.add_hinge(body, wheel, centre, (0.0, 1.0, 0.0), damping=damping)
        else:
            build.add_fixed_joint(body, wheel, centre)
    return body


def _add_fibres(build: MultibodyBuilder, ids: Ints, parts: dict[str, Any], layer: float, ring: float) -> None:
    """Inextensible layer along the mid-plane; fibre rings: the outlines of both chambers between the end plates."""
    mid = ids[:, parts["middle"]]
    build.add_distances(np.column_stack([mid[:-1].ravel(), mid[1:].ravel()]), layer)
    for outline in parts["outlines"]:
        loop = ids[1:-1, outline]
        build.add_distances(np.column_stack([loop[:, :-1].ravel(), loop[:, 1:].ravel()]), ring)
