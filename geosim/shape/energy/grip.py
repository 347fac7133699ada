"""Forces of contact at one configuration, and what the robot holds on to between configurations."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from geosim.arrays import Floats, Ints

__all__ = ["Blocks", "ContactForces", "Grip"]

Blocks = tuple[Ints, Floats]  # groups of points (k, g), and a 3x3 block between any two of a group (k, g, g, 3, 3)


@dataclass(frozen=True)
class ContactForces:
    """Forces of contact at one configuration, scaled.

    Parameters
    ----------
    force
        Residual on the nodes (the gradient of the energy, with friction), (nodes, 3).
    on_points
        Force on every point from obstacles, (o, p, 3), with their pressures (o, p), tractions and normals (o, p, 3).
    distance
        Distance of every point to every obstacle, (o, p).
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
        What makes it exact with friction, unsymmetric if `Grip.own`; one for every obstacle.
    """

    force: Floats
    on_points: Floats
    pressure: Floats
    traction: Floats
    normal: Floats
    distance: Floats
    count: int
    energy: float
    pairs: Ints
    pair_pressure: Floats
    stiff: tuple[Blocks, ...] = ()
    bends: tuple[Blocks, ...] = ()
    slides: tuple[Blocks, ...] = ()


@dataclass(frozen=True)
class Grip:
    """Where the obstacles stand, and what the robot's points hold on to.

    Parameters
    ----------
    poses
        (o, 4, 4), metres.
    anchors
        Where every point sticks on every obstacle, in the obstacle's own frame [m], (o, p, 3).
    before
        Scaled distance of the points at their anchors, (o, p); -inf where they touched already.
    pressure, normal, share
        What friction goes by: pressures (o, p), normals (o, p, 3), and the share of the way from the anchor that was
        made in contact (o, p).
    own
        Whether friction goes by the pressures and normals of every configuration itself instead.
    """

    poses: Floats
    anchors: Floats
    before: Floats
    pressure: Floats
    normal: Floats
    share: Floats
    own: bool = False

    def at(self, poses: Floats) -> Grip:
        """Return the same anchors with the obstacles elsewhere."""
        return replace(self, poses=poses)

    def lagged(self, forces: ContactForces, delta: Floats) -> Grip:
        """Return the grip with the pressures and normals of a configuration."""
        if self.anchors.shape[1] == 0:
            return self
        gone = np.where(np.isfinite(self.before), self.before - forces.distance, 1.0)
        share = np.where(self.before > delta, (delta - forces.distance) / np.where(gone > 0, gone, 1.0), 1.0)
        return replace(self, pressure=forces.pressure, normal=forces.normal, share=np.clip(share, 0.0, 1.0), own=False)
