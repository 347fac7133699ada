"""The soft snake of section V of [Gasoto2019]: soft links with two chambers between carriages on passive wheels.

The paper gives the counts of Table I, E = 66 kPa and 13 cross-sections along a link; the rest is chosen here, and
every choice is an argument of `make_snake`. Counts of one snake of four links beside Table I:

    rigid bodies 15 (15), joints 10 (10), particles 1508 (1504), tets 4608 (4536), distance constraints
    1464 (1460), attachments 232 (217: here every particle of an end section is held by its plate).

A cross-section is two rings of eight cells about the two cavities, which share the three particles of the
inextensible layer in the mid-plane y = 0; it is its own mirror image in y = 0 (with its tets), so a mirrored gait
has the mirrored path.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.errors import InputError
from geosim.material import LinearElastic
from geosim.snake.builder import MultibodyBuilder, box_inertia, disc_inertia
from geosim.snake.model import SnakeRobot

__all__ = ["link_mesh", "make_snake"]

_RING = 8  # cells around a chamber
_MIDDLE = 3  # particles of the inextensible layer in a section


def _half_section(width: float, height: float, wall: float) -> tuple[Floats, Floats]:
    """Outer loop and cavity loop of the left chamber (y, z) [m], (8, 2) each; the first three are on y = 0."""
    a, b = 0.5 * width, 0.5 * height
    corner = np.sqrt(0.5)
    outer = np.array([[0, -b], [0, 0], [0, b], [0.5 * a, b], [0.5 * a + 0.5 * a * corner, b * corner], [a, 0],
                      [0.5 * a + 0.5 * a * corner, -b * corner], [0.5 * a, -b]])
    centre = np.array([0.5 * a, 0.0])
    inner = centre + (outer - centre) * np.array([1 - 2 * wall / a, 1 - wall / b])
    return outer, inner


def link_mesh(length: float, width: float, height: float, wall: float, sections: int,
              ) -> tuple[Floats, Ints, dict[str, Any]]:
    """Mesh a soft link along x from 0 to `length`.

    Returns
    -------
    vertices, tets
        [m] (29 sections, 3), section by section; (96 (sections - 1), 4).
    parts
        Ids in a section: `middle` (3,), `cavities` (2, 8), the rings of the left and the right chamber.
    """
    outer, inner = _half_section(width, height, wall)
    mirror = np.array([-1.0, 1.0])
    points = np.vstack([outer[:_MIDDLE], outer[_MIDDLE:], inner, outer[_MIDDLE:] * mirror, inner * mirror])
    side = _RING - _MIDDLE
    per = len(points)
    loops = []
    for first in (_MIDDLE, _MIDDLE + side + _RING):
        loops.append((np.concatenate([np.arange(_MIDDLE), first + np.arange(side)]), first + side + np.arange(_RING)))
    triangles = []
    for out, cavity in loops:
        for i in range(_RING):
            j = (i + 1) % _RING
            # Diagonals mirrored in z = 0 as well: the cells above and below split the other way round.
            upper = outer[i, 1] + outer[j, 1] > 0
            triangles += [(out[i], out[j], cavity[i]), (out[j], cavity[j], cavity[i])] if upper else \
                         [(out[i], out[j], cavity[j]), (out[i], cavity[j], cavity[i])]
    x = np.linspace(0.0, length, sections)
    vertices = np.concatenate([np.column_stack([np.full(per, s), points]) for s in x])
    tets = []
    # Numbers that rise with the distance from the mid-plane split neighbouring prisms consistently on both sides.
    order = _mirror_labels(points)
    for s in range(sections - 1):
        for triangle in triangles:
            a, b, c = sorted(triangle, key=lambda p: order[p])
            low, high = s * per, (s + 1) * per
            for t in ((a + low, b + low, c + low, c + high), (a + low, b + low, b + high, c + high),
                      (a + low, a + high, b + high, c + high)):
                tets.append(t)
    tets_array = np.array(tets, dtype=np.int64)
    from geosim.topology import tet_volumes

    negative = tet_volumes(vertices, tets_array) < 0
    tets_array[negative] = tets_array[negative][:, [0, 1, 3, 2]]
    parts = {"middle": np.arange(_MIDDLE), "cavities": np.array([c for _, c in loops]), "per_section": per}
    return vertices, tets_array, parts


def _mirror_labels(points: Floats) -> Ints:
    """Number the particles of a section so that mirror images in y = 0 have the same number."""
    key = np.round(np.column_stack([abs(points[:, 0]), points[:, 1]]), 9)
    _, label = np.unique(key, axis=0, return_inverse=True)
    return label.ravel()


def make_snake(links: int = 4, count: int = 1, *, material: LinearElastic | None = None, sections: int = 13,
               link_length: float = 0.1, link_width: float = 0.05, link_height: float = 0.035, wall: float = 0.006,
               layer_stiffness: float = 1e5, ring_stiffness: float = 1e5, line_rigidity: float = 12.0,
               line_modulus: float = 66e3, attachment_stiffness: float = 1e5, carriage_length: float = 0.04,
               carriage_mass: float = 0.12, wheel_radius: float = 0.025, wheel_width: float = 0.006,
               wheel_mass: float = 0.008, track: float = 0.07, friction: float = 1.0, wheels: str = "free",
               spacing: float = 0.3, particle_contact: bool = True, hold_tail: bool = False) -> SnakeRobot:
    """Build one or more soft snakes on the plane z = 0, each along x with its head at the greater x.

    Parameters
    ----------
    links, count
        Soft links of a snake; number of snakes, side by side.
    material
        Of the links; default E = 66 kPa [Gasoto2019], nu = 0.45, 1070 kg/m^3 (chosen).
    sections
        Cross-sections along a link [Gasoto2019].
    link_length, link_width, link_height, wall
        [m] (chosen); the two cavities lie side by side.
    layer_stiffness, ring_stiffness
        Of the distance constraints of the inextensible layer and of the fibre rings [N/m] (chosen).
    line_rigidity
        Force per strain of an actuation line [N] (stiffness of a segment times its length, so that it does not depend on
        the number of sections); it sets the bend angle at a pressure: calibrate it.
    line_modulus
        E of Eq. (4) [Pa].
    attachment_stiffness
        Of a particle to its plate [N/m] (chosen).
    carriage_length, carriage_mass, wheel_radius, wheel_width, wheel_mass, track
        [m], [kg] (chosen).
    friction
        Coefficient of wheels and links; a contact has the geometric mean of it and the obstacle's.
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
        raise InputError(f"make_snake: links = {links!r}, count = {count!r}, sections = {sections!r}; whole numbers, at "
                         f"least 1, 1 and 2")
    if wheels not in ("free", "locked"):
        raise InputError(f'make_snake: wheels = {wheels!r} is unknown; use "free" or "locked"')
    if not 0 < wall < min(link_width / 4, link_height / 2):
        raise InputError(f"make_snake: wall = {wall} m leaves no cavity in a {link_width} x {link_height} m link")
    material = LinearElastic(66e3, 0.45, 1070.0) if material is None else material
    build = MultibodyBuilder(f"snake of {links} link{'s' if links > 1 else ''}" + (f" x {count}" if count > 1 else ""))
    vertices, tets, parts = link_mesh(link_length, link_width, link_height, wall, sections)
    carriages = []
    for k in range(count):
        places = np.arange(links + 1) * (link_length + carriage_length)
        offset = np.array([0.0, k * spacing, wheel_radius])
        chain = [_add_carriage(build, offset + [x, 0, 0], carriage_length, carriage_mass, link_width, link_height,
                               wheel_radius, wheel_width, wheel_mass, track, friction, wheels, hold_tail)
                 for x in places]
        for i in range(links):
            start = offset + [places[i] + 0.5 * carriage_length, 0, 0]
            ids = build.add_tets(vertices + start, tets, material).reshape(sections, -1)
            _add_fibres(build, ids, parts, layer_stiffness, ring_stiffness)
            for cavity in parts["cavities"]:
                chamber = build.add_chamber()
                # The two lines run above and below the cavity's centre, at cells 3 and 7 of its ring.
                for cell in (3, 7):
                    build.add_line(ids[:, cavity[cell]], chamber, line_rigidity * (sections - 1) / link_length, line_modulus)
            build.attach(ids[0], chain[i], attachment_stiffness)
            build.attach(ids[-1], chain[i + 1], attachment_stiffness)
            if particle_contact:
                build.add_particle_contact(ids[1:-1].ravel(), friction)
        if hold_tail:
            build.fix_body(chain[0])
        carriages.append(chain)
    return build.build(SnakeRobot, links=links, count=count, carriages=np.array(carriages))


def _add_carriage(build: MultibodyBuilder, place: Floats, length: float, mass: float, width: float, height: float,
                  wheel_radius: float, wheel_width: float, wheel_mass: float, track: float, friction: float,
                  wheels: str, bench: bool) -> int:
    size = (length, width, height)
    body = build.add_body(mass, box_inertia(mass, size), place, size=size)
    if bench:
        return body
    for side in (1.0, -1.0):
        centre = place + np.array([0.0, side * 0.5 * track, 0.0])
        wheel = build.add_body(wheel_mass, disc_inertia(wheel_mass, wheel_radius, wheel_width), centre,
                               disc=(wheel_radius, wheel_width))
        build.add_wheel(wheel, wheel_radius, friction)
        if wheels == "free":
            build.add_hinge(body, wheel, centre, (0.0, 1.0, 0.0))
        else:
            build.add_fixed_joint(body, wheel, centre)
    return body


def _add_fibres(build: MultibodyBuilder, ids: Ints, parts: dict[str, Any], layer: float, ring: float) -> None:
    """Inextensible layer: along, across and both diagonals; fibre rings: the cells of each cavity's ring."""
    mid = ids[:, parts["middle"]]
    for a, b in ((mid[:-1], mid[1:]), (mid[:, :-1], mid[:, 1:]), (mid[:-1, :-1], mid[1:, 1:]), (mid[:-1, 1:], mid[1:, :-1])):
        build.add_distances(np.column_stack([a.ravel(), b.ravel()]), layer)
    for cavity in parts["cavities"]:
        loop = ids[:, cavity]
        build.add_distances(np.column_stack([loop.ravel(), np.roll(loop, -1, axis=1).ravel()]), ring)
