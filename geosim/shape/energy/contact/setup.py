"""Set-up of contact at rest: which surfaces can touch, thicknesses, and refusal of initial overlap."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from geosim.arrays import Bools, Floats, Ints, frozen
from geosim.collision.proximity import ContactNeighbourhood, make_neighbourhood
from geosim.collision.shapes import signed_distances
from geosim.errors import InputError
from geosim.geometry import topology
from geosim.model.environment import Environment
from geosim.model.robot import VolumetricRobot
from geosim.model.select import selected_ids
from geosim.shape.energy.contact.faces import FACE_CONTACT_THICKNESSES
from geosim.shape.energy.contact.penetration import obstacle_inside
from geosim.shape.energy.contact.potential import ContactPotential
from geosim.shape.energy.contact.surface import ContactSurface, RestSurface, mean_edges, whole_faces
from geosim.shape.energy.discretisation.body import ScaledBody

# default thickness of contact over the local edge length: a penetration of 1 % of it is a fifth of that
DEFAULT_THICKNESS_EDGES = 0.05


def make_contact(
    body: ScaledBody,
    environment: Environment,
    *,
    stiffness: Floats,
    held: Bools,
    thickness_share: float | None,
    around: ContactNeighbourhood | None = None,
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
        Contact thickness over the local edge length; default `DEFAULT_THICKNESS_EDGES`.
    around
        What can meet what, where that is known.

    Raises
    ------
    InputError
        The robot overlaps an obstacle or itself at the start.
    """
    # Radius that contact rounds edges of obstacles to, over the thickness of contact: as deep as skin is ever pressed
    # in, where the distance to a sharp edge has a kink; and at most over the thickness of the obstacle.
    edge_rounding_thicknesses, max_edge_rounding_rel = 1.0, 0.5
    if not environment.obstacles and not environment.self_contact:
        return None
    share = DEFAULT_THICKNESS_EDGES if thickness_share is None else thickness_share
    at_rest = RestSurface(body, held, share)
    if around is None and environment.self_contact:
        around = _neighbourhood(body, environment, at_rest)
    none = frozen(np.zeros((0, 0)))
    contact = ContactPotential(environment, at_rest, around, stiffness, none, none, environment.obstacle_set)
    if not environment.obstacles:
        return contact
    radius = edge_rounding_thicknesses * body.length * float(np.median(at_rest.thickness))
    obstacles = contact.obstacles.rounded(np.minimum(radius, max_edge_rounding_rel * contact.obstacles.thickness))
    contact = replace(contact, obstacles=obstacles)
    begins = [_begins(contact, o) for o in range(len(environment.obstacles))]
    delta, face_delta = (frozen(np.array(of)) for of in zip(*begins))
    return replace(contact, delta=delta, face_delta=face_delta)


def _begins(contact: ContactPotential, o: int) -> tuple[Floats, Floats]:
    """Return the distances of points (p,) and triangles (t,) at which contact with an obstacle begins; refuse overlaps."""
    # thicknesses by which a robot may overlap an obstacle at rest: what meshing makes of a touching surface
    max_rest_overlap_thicknesses = 0.2
    obstacle, solid = contact.environment.obstacles[o], contact.obstacles.solid(o)
    body, surface, faces = contact.at_rest.body, contact.surface, contact.faces
    feels, reach, pose, thick = contact.feels, contact.thickness, obstacle.pose(-1), faces.thickness
    robot, places = body.robot, body.to_metres(surface.points(body.rest))
    cover = float(surface.edges.max() + reach.max()) * body.length  # so far away is a corner of what may touch
    rest = signed_distances(solid, places, pose, cover)[0] / body.length
    ids = faces.within(obstacle.thickness, places, rest, np.where(faces.feels, thick, -np.inf), body.length)
    corners, thick = faces.triangles[ids], thick[ids]
    low = faces.lowest(ids, solid, places[corners], body.length, pose)
    whole, deep = feels[corners].all(axis=1), low.distance < -max_rest_overlap_thicknesses * thick
    overlapping = np.union1d(
        np.flatnonzero(feels & (rest < -max_rest_overlap_thicknesses * reach)), corners[whole & deep]
    )
    if len(overlapping):
        depth = max(-rest[feels].min(initial=0.0), -low.distance[whole].min(initial=0.0)) * body.length
        raise InputError(
            f"obstacles[{o}]: the {obstacle.shape} overlaps the robot at rest by {depth * 1e3:.3g} mm, at vertices "
            f"{_vertices_of(body, surface, overlapping)}; move it away and bring it there by `motion`"
        )
    skin = topology.curved_faces(robot.skin, robot.p2_edges, len(robot.vertices))
    if obstacle_inside(obstacle, pose, topology.with_mid_edges(robot.vertices, robot.p2_edges), skin):
        x, y, z = 1e3 * (pose[:3, :3] @ obstacle.middle + pose[:3, 3])
        raise InputError(
            f"obstacles[{o}]: the {obstacle.shape} lies inside the robot at rest, its middle at "
            f"({x:.4g}, {y:.4g}, {z:.4g}) mm; move it out and bring it there by `motion`"
        )
    delta = np.where(feels, np.clip(rest, -max_rest_overlap_thicknesses * reach, reach), -np.inf)
    begins = np.where(faces.feels, FACE_CONTACT_THICKNESSES * faces.thickness, -np.inf)
    above = (
        np.einsum("ki,ki->k", low.weights, np.where(feels, delta, 0.0)[corners])
        - (1.0 - FACE_CONTACT_THICKNESSES) * thick
    )
    # a triangle at a clamp may stand in its mount
    begins[ids] = np.where(deep, -np.inf, np.minimum(np.minimum(begins[ids], low.distance), above))
    return delta, begins


def _neighbourhood(body: ScaledBody, environment: Environment, at_rest: RestSurface) -> ContactNeighbourhood:
    """Return what can meet what; refuse a robot that touches itself at rest."""
    # distance over the robot's size at which surfaces touch: round-off of scaled positions
    rest_touch_distance_rel = 1e-9
    (nodes, spaces), reach = whole_faces(body), np.zeros(len(body.rest))
    np.maximum.at(reach, nodes[:, :3], at_rest.thickness_edges * mean_edges(body, nodes)[:, None])
    around = make_neighbourhood(body.rest, nodes, spaces, reach, _excluded(body.robot, environment), at_rest.small)
    pierced = np.unique(around.crossings(body.rest))
    touching = pierced if len(pierced) else around.touching(rest_touch_distance_rel)
    if len(touching):
        raise InputError(
            f"self_contact: surfaces {'cross' if len(pierced) else 'touch'} at rest, at vertices "
            f"{_vertices_of(body, at_rest.surface, touching)}; part them a little, bond them in one mesh, or set "
            f"self_contact = False"
        )
    return around


def _vertices_of(body: ScaledBody, surface: ContactSurface, points: Ints) -> list[int]:
    """Robot vertices nearest to points, the first five."""
    nodes = body.nodes[surface.nodes[points, np.argmax(surface.weights[points], axis=1)]]
    ends = np.concatenate([np.arange(len(body.robot.vertices)), body.robot.p2_edges[:, 0]])
    return list(map(int, np.unique(ends[nodes])[:5]))


def _excluded(robot: VolumetricRobot, environment: Environment) -> Ints:
    """Bit masks of skin and chamber walls for the excluded pairs (see `make_neighbourhood`)."""
    max_excluded_pairs = 62  # bits of a signed 64-bit mask
    pairs = environment.exclude_pairs
    if len(pairs) > max_excluded_pairs:
        raise InputError(f"exclude_pairs: {len(pairs)} given; at most {max_excluded_pairs}, join sets instead")
    faces = np.vstack([robot.skin, *robot.chamber_walls])
    masks = np.zeros((len(faces), 2), dtype=np.int64)
    for bit, pair in enumerate(pairs):
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2):
            raise InputError(f"exclude_pairs[{bit}]: {str(pair)[:60]!r} is not a pair; give two names or vertex sets")
        for side, item in enumerate(pair):
            if isinstance(item, str):
                chosen = _named(robot, faces, item, bit)
            else:
                ids = selected_ids(item, robot.vertices, f"exclude_pairs[{bit}]")
                chosen = np.asarray(np.isin(faces, ids).any(axis=1))
            masks[:, side] |= np.where(chosen, 1 << bit, 0)
    return masks


def _named(robot: VolumetricRobot, faces: Ints, name: str, bit: int) -> Bools:
    """Faces of "skin", "chamber c" (from 1) or "body b" (from 0)."""
    kind, _, number = name.partition(" ")
    at = np.arange(len(faces))
    starts = np.cumsum([len(robot.skin), *[len(w) for w in robot.chamber_walls]])
    bodies = int(robot.body_labels.max()) + 1
    if name == "skin":
        return np.asarray(at < starts[0])
    if kind == "chamber" and number.isdigit() and 1 <= int(number) <= robot.chambers:
        return np.asarray((at >= starts[int(number) - 1]) & (at < starts[int(number)]))
    if kind == "body" and number.isdigit() and int(number) < bodies:
        return np.asarray(robot.body_labels[faces[:, 0]] == int(number))
    raise InputError(
        f"exclude_pairs[{bit}]: {name!r} is unknown; use 'skin', 'chamber 1' .. 'chamber {robot.chambers}', "
        f"'body 0' .. 'body {bodies - 1}', or a set of vertices"
    )
