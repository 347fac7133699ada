"""A configuration, what it shall balance, what is out of balance there, and how the search for balance ended."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from geosim.arrays import Bools, Floats
from geosim.collision.shapes import poses_between
from geosim.contract import Status
from geosim.linear.patterns import Sparsity
from geosim.shape.energy.grip import ContactForces, Grip
from geosim.shape.energy.rigid import RigidState

__all__ = ["Aim", "Drag", "Evaluation", "Outcome", "Point", "Target"]


@dataclass(frozen=True)
class Drag:
    """Springs to the places of the nodes before: positions (nodes, 3), stiffness (nodes,) (see `relaxation`)."""

    before: Floats
    stiffness: Floats


@dataclass(frozen=True)
class Target:
    """Where a load path stands: chamber volumes or pressures, dead loads, held positions, obstacles (all scaled).

    Parameters
    ----------
    by_volume
        Chambers whose volume is prescribed, bool (c,).
    volumes, pressures
        (c,); only the prescribed one of the two is read.
    external
        Dead loads on the nodes, then forces and moments on rigid groups (nodes + 2 g, 3).
    positions
        Goal of which the held components are read: positions of the nodes, then displacements and rotations of rigid
        groups (nodes + 2 g, 3).
    grip
        Where the obstacles stand and what the robot holds on to; None where nothing can touch.
    drag
        What holds the nodes back; None where the target is one of the user.
    """

    by_volume: Bools
    volumes: Floats
    pressures: Floats
    external: Floats
    positions: Floats
    grip: Grip | None = None
    drag: Drag | None = None

    def towards(self, end: Target, share: float, grip: Grip | None) -> Target:
        """Return the target a share of the way to another, for a robot with a grip."""
        mix = lambda a, b: (1.0 - share) * a + share * b if share < 1.0 else b  # noqa: E731
        if grip is not None and self.grip is not None and end.grip is not None:
            grip = grip.at(poses_between(self.grip.poses, end.grip.poses, share))
        return Target(
            end.by_volume,
            mix(self.volumes, end.volumes),
            mix(self.pressures, end.pressures),
            mix(self.external, end.external),
            mix(self.positions, end.positions),
            grip,
        )


@dataclass(frozen=True)
class Point:
    """A configuration: positions (nodes, 3), pressures (v,), chamber pressures (c,), scaled; share of the command."""

    x: Floats
    p: Floats
    chamber_pressures: Floats
    share: float = 0.0

    def less(self, other: Point) -> Point:
        """Return the way from another point to this one."""
        return self.stepped(other, -1.0)

    def stepped(self, step: Point, length: float) -> Point:
        """Return this point moved by a step times a length."""
        return Point(
            self.x + length * step.x,
            self.p + length * step.p,
            self.chamber_pressures + length * step.chamber_pressures,
            self.share + length * step.share,
        )


@dataclass(frozen=True)
class Aim:
    """What Newton looks for on the way from one target to another: the equilibrium at a share of it, or one on an arc.

    On an arc the share s is unknown as well. With g the quantity conjugate to it (the work rate of the controls: volumes of
    chambers under pressure, places of loads, pressures of chambers of prescribed volume) the equilibrium is sought where

        weights[0] g / scale + weights[1] s = level,

    a line in the plane of g and s that crosses the path steeply: at a limit point of s the path runs along g, where
    walls have closed on each other along s. As g is conjugate to s, the bordered tangent stays symmetric.

    Parameters
    ----------
    origin, end
        Targets at the shares 0 and 1, in the same controls.
    share
        The share sought, where there is no arc.
    grip
        What the robot holds on to.
    bends
        Whether the share becomes unknown after the first step from an equilibrium, which goes along the tangent.
    weights, scale, level
        Of the arc; None where the share is prescribed.
    drag
        See `Target`.
    """

    origin: Target
    end: Target
    share: float
    grip: Grip | None
    bends: bool = False
    weights: tuple[float, float] | None = None
    scale: float = 1.0
    level: float = 0.0
    drag: Drag | None = None

    def at(self, point: Point) -> Target:
        """Return the target for a point."""
        target = self.origin.towards(self.end, self.share if self.weights is None else point.share, self.grip)
        return target if self.drag is None else replace(target, drag=self.drag)

    @property
    def pressure_rates(self) -> Floats:
        """Change of the prescribed chamber pressures over the whole way, (c,)."""
        return np.where(self.end.by_volume, 0.0, self.end.pressures - self.origin.pressures)

    @property
    def volume_rates(self) -> Floats:
        """Change of the prescribed chamber volumes over the whole way, (c,)."""
        return np.where(self.end.by_volume, self.end.volumes - self.origin.volumes, 0.0)

    def load(self, gradients: Floats) -> Floats:
        """Force on the nodes that comes with the whole way, (nodes, 3); `gradients` of the chamber volumes (c, nodes, 3)."""
        nodes = gradients.shape[1]
        out = (self.end.external - self.origin.external)[:nodes]
        return out + np.einsum("c,cni->ni", self.pressure_rates, gradients)

    def conjugate(self, point: Point, volumes: Floats) -> float:
        """Return g, what the share is conjugate to, at a point with chamber volumes (c,)."""
        work = float(self.pressure_rates @ volumes - self.volume_rates @ point.chamber_pressures)
        return work + float(np.sum((self.end.external - self.origin.external)[: len(point.x)] * point.x))

    def onto(self, point: Point, volumes: Floats, weights: tuple[float, float], scale: float) -> Aim:
        """Return the arc through a point (which need not balance)."""
        norm = np.hypot(*weights)
        a, b = weights[0] / norm, weights[1] / norm
        level = a * self.conjugate(point, volumes) / scale + b * point.share
        return replace(self, weights=(a, b), scale=scale, level=level, bends=False)


@dataclass(frozen=True)
class Evaluation:
    """Residuals (and, if asked for, the matrix) at one configuration, in scaled units.

    Parameters
    ----------
    force
        Out-of-balance force on every node, f_int - P grad v - f_ext, (nodes, 3).
    constraint
        integral q (J - 1 - p / kappa), (pressures,).
    volumes
        Chamber volumes (c,).
    gradients
        Their gradients (c, nodes, 3).
    scale
        Largest nodal sum of the norms of element forces, with pressure and loads.
    energy, smallest
        Elastic energy, and the smallest J at the quadrature points (<= 0: inverted, all else is meaningless).
    body_volume
        Volume of the body.
    data, sparsity
        CSR values of the tangent, or None, and their pattern.
    contact
        Forces of contact, or None.
    rigid
        State of the rigid groups, or None. `force` holds on their nodes only what is out of balance.
    """

    force: Floats
    constraint: Floats
    volumes: Floats
    gradients: Floats
    scale: float
    energy: float
    smallest: float
    body_volume: float
    data: Floats | None
    sparsity: Sparsity
    contact: ContactForces | None = None
    rigid: RigidState | None = None


@dataclass(frozen=True)
class Outcome:
    """How a Newton solve ended; `start` is the point on the tangent or secant that Newton corrected."""

    status: Status
    point: Point
    evaluation: Evaluation
    residual: float
    iterations: int
    records: tuple[dict[str, Any], ...]
    target: Target
    start: Point | None = None
