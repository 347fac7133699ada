"""Contact forces at one configuration, and the history that friction keeps between configurations."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.shape.energy.contact.self_friction import PairStickSlip, TouchingPairs

Blocks = tuple[Ints, Floats]  # groups of points (k, g), and a 3x3 block between any two of a group (k, g, g, 3, 3)


@dataclass(frozen=True)
class ContactForces:
    """Forces of contact at one configuration, scaled.

    Parameters
    ----------
    force
        Residual on the nodes (the gradient of the energy, with friction), (nodes, 3).
    on_points
        Force on every point from obstacles (o, p, 3), and the pressures by the law of the points (o, p).
    push, normal
        Contact force on every point, its faces included: force (o, p) and direction out of the obstacle (o, p, 3).
    drag
        The part of the residual that is friction, (o, p, 3).
    gap
        What every point, or one of its faces, still lacks to contact with every obstacle, (o, p).
    by_faces
        How much of what presses comes by the faces around a point, (o, p).
    depth
        Penetration of the points, then of the faces, into the law of contact, over its thickness, (o, p + t); 0 outside.
    count
        Points and pairs in contact.
    energy
        Inf where two surfaces meet.
    pairs, pair_pressure
        Points of the touching pairs (k, 4), and their pressures (k,).
    stiff
        What contact adds to the tangent in any case: symmetric, never negative, and with friction an upper bound.
    bends
        What the turning of the normals adds to it: without friction they make it exact.
    slides
        What makes it exact with friction, unsymmetric if `ContactState.own`; one for every obstacle, one for the pairs.
    touching
        What friction between parts goes by; None without.
    """

    force: Floats
    on_points: Floats
    pressure: Floats
    push: Floats
    normal: Floats
    drag: Floats
    gap: Floats
    by_faces: Floats
    depth: Floats
    count: int
    energy: float
    pairs: Ints
    pair_pressure: Floats
    stiff: tuple[Blocks, ...] = ()
    bends: tuple[Blocks, ...] = ()
    slides: tuple[Blocks, ...] = ()
    touching: TouchingPairs | None = None

    def of_obstacle(self, level: str, o: int, obstacles: int) -> tuple[Blocks, ...]:
        """Return what one of this many obstacles adds to the tangent at the points, and at the triangles."""
        parts: tuple[Blocks, ...] = getattr(self, level)
        return parts[o : o + 1] + (() if level == "slides" else parts[obstacles + o : obstacles + o + 1])


def no_contact(nodes: int) -> ContactForces:
    """Return the forces on this many nodes where there is nothing to touch: no obstacles and no points."""
    scalars, vectors, pairs = np.zeros((0, 0)), np.zeros((0, 0, 3)), np.zeros((0, 4), dtype=np.int64)
    return ContactForces(
        np.zeros((nodes, 3)),
        vectors,
        scalars,
        scalars,
        vectors,
        vectors,
        scalars,
        scalars,
        scalars,
        0,
        0.0,
        pairs,
        np.zeros(0),
    )


@dataclass(frozen=True)
class ContactState:
    """Where the obstacles stand, and what the robot's points hold on to.

    Parameters
    ----------
    poses
        (o, 4, 4), metres.
    anchors
        Where every point sticks on every obstacle, in the obstacle's own frame [m], (o, p, 3).
    before
        What the points lacked to contact at their anchors, scaled (o, p); -inf where they touched already.
    push, normal, share
        What friction goes by: forces (o, p), normals (o, p, 3), and the share of the way from the anchor that was
        made in contact (o, p).
    by_faces
        What presses by the faces around a point (o, p): where it does, friction always goes by the forces above.
    own
        Whether elsewhere it goes by the forces and normals of every configuration itself.
    parts
        What parts of the robot hold on to; None without friction between them.
    """

    poses: Floats
    anchors: Floats
    before: Floats
    push: Floats
    normal: Floats
    share: Floats
    by_faces: Floats
    own: bool = False
    parts: PairStickSlip | None = None

    def at(self, poses: Floats) -> ContactState:
        """Return the same anchors with the obstacles elsewhere."""
        return replace(self, poses=poses)

    def lagged(self, forces: ContactForces) -> ContactState:
        """Return the grip with the forces and normals of a configuration."""
        parts = self.parts
        if parts is not None and forces.touching is not None:
            parts = parts.lagged(forces.touching)
        if self.anchors.shape[1] == 0:
            return replace(self, parts=parts, own=False)
        came = (self.before > 0.0) & (forces.gap < 0.0)
        share = np.where(self.before > 0.0, 0.0, 1.0)
        share[came] = -forces.gap[came] / (self.before[came] - forces.gap[came])
        return replace(self, push=forces.push, normal=forces.normal, share=share, by_faces=forces.by_faces, own=False)
