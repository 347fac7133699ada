"""Step limits of contact: the largest step of nodes or obstacles in which nothing passes through anything.

Points and triangles of the skin are followed in the frame of every obstacle, so that it does not matter which of the two moves.
A feature that is d away from an obstacle and travels l cannot have passed it as long as l <= d + (the depth to which the
surface that is nearest is the one that was entered).
"""

from __future__ import annotations

import numpy as np

from geosim.arrays import MIN_DIVISOR, Floats, Ints
from geosim.collision.shapes import signed_distances
from geosim.shape.energy.contact.contact_state import ContactState
from geosim.shape.energy.contact.potential import ContactPotential


def max_safe_step(
    contact: ContactPotential,
    x: Floats,
    step: Floats,
    contact_state: ContactState,
    after: ContactState | None = None,
    apart: float | None = None,
) -> float:
    """Return the largest share of a step of the nodes in which no surface can have passed through another.

    `after` says where the obstacles stand at its end, default where they stand; `apart` is `max_self_contact_step` where
    that is known.
    """
    poses = zip(contact_state.poses, (after or contact_state).poses)
    shares = [_Way(contact, o, x, x + step, pose, then).share() for o, (pose, then) in enumerate(poses)]
    return min([*shares, max_self_contact_step(contact, x, step) if apart is None else apart])


def max_self_contact_step(contact: ContactPotential, x: Floats, step: Floats) -> float:
    """Return the largest share of a step of the nodes in which no part of the robot meets another."""
    if contact.neighbourhood is None:
        return 1.0
    return contact.neighbourhood.safe_share(x, step)


def max_obstacle_step(contact: ContactPotential, x: Floats, poses: Floats, goal: Floats) -> float:
    """Return the share of the way of the obstacles from poses to others (o, 4, 4) that one increment may go."""
    # An obstacle goes at most so many edges of the skin into it in one increment: farther, it would push points out sideways.
    max_obstacle_travel_edges = 0.25
    share = 1.0
    for o in range(len(poses)):
        if not np.array_equal(poses[o], goal[o]):
            way = _Way(contact, o, x, x, poses[o], goal[o])
            share = min(
                share, way.bound(min(max_obstacle_travel_edges * float(np.median(contact.surface.edges)), way.depth))
            )
    return share


class _Way:
    """The way of all points and triangles relative to one obstacle, in its frame."""

    def __init__(self, contact: ContactPotential, o: int, x: Floats, end: Floats, pose: Floats, then: Floats) -> None:
        self.contact, self.o, self.solid = contact, o, contact.obstacles.solid(o)
        self.start, goal = (
            (contact.metres(contact.surface.points(at)) - p[:3, 3]) @ p[:3, :3] for at, p in ((x, pose), (end, then))
        )
        self.move = goal - self.start
        thickness = float(contact.obstacles.thickness[o])
        self.depth = thickness / contact.length
        faces = contact.faces
        travel, before = np.linalg.norm(self.move, axis=1) / contact.length, self._of_points(slice(None), self.start)
        by_face = travel[faces.triangles].max(axis=1)
        limit = np.where(faces.feels, by_face, -np.inf)  # what is farther away cannot come into contact
        self.near = faces.within(thickness, self.start, before, limit, contact.length)
        self.counts = np.concatenate([contact.feels, np.ones(len(self.near), dtype=bool)])
        self.thickness = np.concatenate([contact.thickness, faces.thickness[self.near]])
        self.travel = np.maximum(np.concatenate([travel, by_face[self.near]]), MIN_DIVISOR)
        self.distance = np.concatenate([before, self._of_faces(self.near, self.start)])

    def _of_points(self, ids: Ints | slice, places: Floats) -> Floats:
        """Scaled distances of points; those that a mesh is not asked for are its reach away."""
        reach = self.contact.reach(self.o)
        distance = signed_distances(self.solid, places[ids], None, reach)[0]
        return np.where(np.isfinite(distance), distance, reach) / self.contact.length

    def _of_faces(self, ids: Ints, places: Floats) -> Floats:
        """Scaled distances of triangles."""
        faces = self.contact.faces
        return np.asarray(faces.lowest(ids, self.solid, places[faces.triangles[ids]], self.contact.length).distance)

    def _at(self, share: float) -> Floats:
        """Scaled distances of points and triangles at a share of the way; of what cannot arrive, the least they can be."""
        places, distance = self.start + share * self.move, np.asarray(self.distance - self.travel)
        count, arrives = len(self.start), self.distance <= self.travel
        points, faces = np.flatnonzero(arrives[:count]), np.flatnonzero(arrives[count:])
        distance[points] = self._of_points(points, places)
        distance[count + faces] = self._of_faces(self.near[faces], places)
        return distance

    def bound(self, deeper: float) -> float:
        """Share of the way in which no feature can be deeper than it was outside, by a scaled depth."""
        # Share of its own thickness by which a point inside an obstacle may always move: else it would never come out.
        min_escape_thicknesses = 0.1
        allowed = np.maximum(self.distance + deeper, min_escape_thicknesses * deeper) / self.travel
        return float(np.min(allowed, initial=1.0, where=self.counts))

    def share(self) -> float:
        """Share of the way in which nothing goes through the obstacle, nor much deeper than it is."""
        # Where a step must be cut, the distance is not linear along it; so many cuts come near enough.
        max_step_cuts = 3
        # Thicknesses by which a Newton step may push a point deeper into an obstacle: the law is nearly linear so far.
        max_deeper_thicknesses = 0.6
        share = self.bound(self.depth)
        bound = np.minimum(self.distance, 0.0) - max_deeper_thicknesses * self.thickness
        for _ in range(max_step_cuts):
            end = self._at(share)
            deep = (end < bound) & self.counts
            if not deep.any():
                break
            share *= float(np.min((self.distance[deep] - bound[deep]) / (self.distance[deep] - end[deep])))
        return share
