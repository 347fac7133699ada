"""The contact of a robot as it is found at rest: who can touch whom, and what is refused."""

from __future__ import annotations

import numpy as np

from geosim.arrays import Bools, Floats, Ints, frozen
from geosim.collision.crossings import count_crossings
from geosim.collision.proximity import Neighbourhood, make_neighbourhood
from geosim.collision.shapes import signed_distances
from geosim.environment import Environment
from geosim.errors import InputError
from geosim.robot import VolumetricRobot
from geosim.select import selected_ids
from geosim.shape.energy.body import ScaledBody
from geosim.shape.energy.contact import ContactPotential, contact_stiffness
from geosim.shape.energy.contact_surface import ContactSurface, contact_surface

__all__ = ["make_contact"]

THICKNESS = (
    0.05  # default thickness of contact over the local edge length: a penetration of 1 % of it is a fifth of that
)
OVERLAP = 0.2  # thicknesses by which a robot may overlap an obstacle at rest: what meshing makes of a touching surface
SEEN = 100.0  # thicknesses up to which distances at rest are asked for: penetration is counted from them
TOUCHING = 1e-9  # distance over the robot's size at which surfaces touch: round-off of scaled positions
MOST_PAIRS = 62  # bits of a signed 64-bit mask


def make_contact(
    body: ScaledBody, environment: Environment, *, stiffness: Floats, held: Bools, thickness_share: float | None
) -> ContactPotential | None:
    """Return the contact of a robot, or None where nothing can touch.

    Parameters
    ----------
    body
        Nodes and units of the robot.
    stiffness
        Scaled shear modulus at every node, (nodes,).
    held
        Which nodes are held in all components, (nodes,).
    thickness_share
        Contact thickness over the local edge length; default `THICKNESS`.

    Raises
    ------
    InputError
        The robot overlaps an obstacle or itself at the start.
    """
    if not environment.obstacles and not environment.self_contact:
        return None
    surface = contact_surface(body)
    points = surface.points(body.rest)
    reach = (THICKNESS if thickness_share is None else thickness_share) * surface.edges
    outside = np.zeros(len(points), dtype=bool)
    outside[surface.triangles[surface.spaces == 0]] = True
    feels = outside & ~held[surface.nodes].all(axis=1)
    rest_distance = np.empty((len(environment.obstacles), len(points)))
    for o, obstacle in enumerate(environment.obstacles):
        span = SEEN * float(reach.max()) * body.length
        distance = signed_distances(obstacle.solid, body.to_metres(points), obstacle.pose(-1), span)[0]
        rest_distance[o] = distance / body.length
        inside = np.flatnonzero(feels & (rest_distance[o] < -OVERLAP * reach))
        if len(inside):
            raise InputError(
                f"obstacles[{o}]: the {obstacle.shape} overlaps the robot at rest by "
                f"{-distance[feels].min() * 1e3:.3g} mm, at vertices {_vertices_of(body, surface, inside)}; move it "
                f"away and let it come by `motion`"
            )
    return ContactPotential(
        environment,
        surface,
        _neighbourhood(body, environment, surface, points, reach) if environment.self_contact else None,
        body.length,
        body.center,
        frozen(reach),
        frozen(contact_stiffness(surface, stiffness)),
        frozen(feels),
        frozen(np.clip(rest_distance, -OVERLAP * reach, reach)),
        frozen(rest_distance),
        len(body.rest),
    )


def _neighbourhood(
    body: ScaledBody, environment: Environment, surface: ContactSurface, points: Floats, reach: Floats
) -> Neighbourhood:
    """Return what can meet what; refuse a robot that touches itself at rest."""
    if environment.self_friction > 0:
        raise InputError(
            "Environment: self_friction is not modelled by EnergyShapeSolver; friction acts on obstacles only. "
            "Set self_friction = 0"
        )
    excluded = _excluded(body.robot, environment, surface)
    around = make_neighbourhood(points, surface.triangles, surface.spaces, reach, excluded)
    found = count_crossings(around.rest, surface.triangles, around.tree)
    touching = np.unique(found.edges) if found.count else around.touching(TOUCHING)
    if len(touching):
        raise InputError(
            f"self_contact: surfaces {'cross' if found.count else 'touch'} at rest, at vertices "
            f"{_vertices_of(body, surface, touching)}; part them a little, bond them in one mesh, or set "
            f"self_contact = False"
        )
    return around


def _vertices_of(body: ScaledBody, surface: ContactSurface, points: Ints) -> list[int]:
    """Robot vertices nearest to points, the first five."""
    nodes = body.nodes[surface.nodes[points, np.argmax(surface.weights[points], axis=1)]]
    ends = np.concatenate([np.arange(len(body.robot.vertices)), body.robot.p2_edges[:, 0]])
    return np.unique(ends[nodes])[:5].tolist()


def _excluded(robot: VolumetricRobot, environment: Environment, surface: ContactSurface) -> Ints:
    """Bit masks of the triangles for the excluded pairs (see `Neighbourhood`)."""
    pairs = environment.exclude_pairs
    if len(pairs) > MOST_PAIRS:
        raise InputError(f"exclude_pairs: {len(pairs)} given; at most {MOST_PAIRS}, join sets instead")
    masks = np.zeros((len(surface.triangles), 2), dtype=np.int64)
    faces = np.vstack([robot.skin, *robot.chamber_walls])
    for bit, pair in enumerate(pairs):
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2):
            raise InputError(f"exclude_pairs[{bit}]: {str(pair)[:60]!r} is not a pair; give two names or vertex sets")
        for side, item in enumerate(pair):
            if isinstance(item, str):
                chosen = _named(robot, faces, item, bit)
            else:
                ids = selected_ids(item, robot.vertices, f"exclude_pairs[{bit}]")
                chosen = np.asarray(np.isin(faces, ids).any(axis=1))
            masks[:, side] |= np.where(chosen[surface.face], 1 << bit, 0)
    return masks


def _named(robot: VolumetricRobot, faces: Ints, name: str, bit: int) -> Bools:
    """Faces of "skin", "chamber c" (from 1) or "body b" (from 0)."""
    kind, _, number = name.partition(" ")
    starts = np.cumsum([len(robot.skin), *[len(w) for w in robot.chamber_walls]])
    bodies = int(robot.body_labels.max()) + 1
    if name == "skin":
        return np.arange(len(faces)) < starts[0]
    if kind == "chamber" and number.isdigit() and 1 <= int(number) <= robot.chambers:
        at = np.arange(len(faces))
        return (at >= starts[int(number) - 1]) & (at < starts[int(number)])
    if kind == "body" and number.isdigit() and int(number) < bodies:
        return np.asarray(robot.body_labels[faces[:, 0]] == int(number))
    raise InputError(
        f"exclude_pairs[{bit}]: {name!r} is unknown; use 'skin', 'chamber 1' .. 'chamber {robot.chambers}', "
        f"'body 0' .. 'body {bodies - 1}', or a set of vertices"
    )
