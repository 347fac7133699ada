"""Data of the nonlinear equations: configuration, load state, arc-length constraint, residuals, outcome of a solve."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from geosim.arrays import Bools, Floats, between, einsum
from geosim.collision.shapes import poses_between
from geosim.linear.patterns import Sparsity
from geosim.model.contract import Status
from geosim.shape.energy.constraints.free_bodies import FreeBodyMotion, motion_between, moved
from geosim.shape.energy.constraints.rigid_groups import RigidState
from geosim.shape.energy.constraints.scalars import Law, Rows, StickSlip
from geosim.shape.energy.contact.contact_state import ContactForces, ContactState
from geosim.shape.energy.discretisation.node_potential import NodePotential


@dataclass(frozen=True)
class ProximalTerm:
    """Springs to the places before (see `relaxation`): of the nodes (nodes, 3), of free objects (f, 6), and their stiffness."""

    before: Floats
    stiffness: Floats
    objects: Floats
    hold: Floats


@dataclass(frozen=True)
class Controls:
    """What Newton solves for the scalars at one configuration (see `scalars`).

    Parameters
    ----------
    members
        1 where a scalar belongs to a sum that is prescribed and whose forces are one unknown, (m, d).
    gap, slope
        What every sum still misses, and how what it shall be changes with the force: not 0 for a gas; (m,).
    fixed, forces
        Scalars whose force is prescribed, and that force; (d,).
    """

    members: Floats
    gap: Floats
    slope: Floats
    fixed: Bools
    forces: Floats


@dataclass(frozen=True)
class LoadState:
    """Where a load path stands: scalars or their forces, dead loads, held positions, obstacles (all scaled).

    Scalars are what constraints measure (see `scalars`): volumes of chambers, whose forces are pressures; minus the lengths of
    cables, with tensions.

    Parameters
    ----------
    by_value
        Scalars that are prescribed, bool (d,); or of which a law says where they stand.
    scalars, scalar_forces
        Values and forces (d,); only the prescribed one of the two is read.
    external
        Dead loads on the nodes, then forces and moments on rigid groups (nodes + 2 g, 3).
    positions
        Goal of which the held components are read: positions of the nodes, then displacements and rotations of rigid
        groups (nodes + 2 g, 3).
    contact_state
        Where the obstacles stand and what the robot holds on to; None where nothing can touch.
    drag
        What holds the nodes back; None where the target is one of the user.
    laws
        What the scalars obey, one a constraint.
    free_bodies
        The free objects; None where there are none.
    inertia
        Potential of inertia and viscosity in an increment of time; None in statics.
    """

    by_value: Bools
    scalars: Floats
    scalar_forces: Floats
    external: Floats
    positions: Floats
    contact_state: ContactState | None = None
    drag: ProximalTerm | None = None
    laws: tuple[Law, ...] = ()
    free_bodies: FreeBodyMotion | None = None
    inertia: NodePotential | None = None

    def at(self, point: Configuration) -> LoadState:
        """Return the target with the free objects where they are at a point."""
        if self.free_bodies is None or self.contact_state is None:
            return self
        free_bodies = self.free_bodies.at(point.objects)
        return replace(self, free_bodies=free_bodies, contact_state=free_bodies.contact_state(self.contact_state))

    def towards(self, end: LoadState, share: float, contact_state: ContactState | None) -> LoadState:
        """Return the target a share of the way to another, for a robot with a grip."""
        if contact_state is not None and self.contact_state is not None and end.contact_state is not None:
            contact_state = contact_state.at(poses_between(self.contact_state.poses, end.contact_state.poses, share))
        return LoadState(
            end.by_value,
            between(self.scalars, end.scalars, share),
            between(self.scalar_forces, end.scalar_forces, share),
            between(self.external, end.external, share),
            between(self.positions, end.positions, share),
            contact_state,
            laws=tuple(law.towards(last, share) for law, last in zip(self.laws, end.laws)),
            free_bodies=end.free_bodies
            if self.free_bodies is None or end.free_bodies is None
            else self.free_bodies.towards(end.free_bodies, share),
            inertia=end.inertia,
        )

    @property
    def _parts(self) -> list[tuple[Law, slice]]:
        """The laws, and which scalars are theirs."""
        ends = np.cumsum([law.count for law in self.laws], dtype=np.int64)
        return [(law, slice(int(end) - law.count, int(end))) for law, end in zip(self.laws, ends)]

    @property
    def closed(self) -> bool:
        """Whether value and force of some scalars depend on each other: of a closed gas."""
        return any(law.closed for law in self.laws)

    @property
    def lawful(self) -> Bools:
        """Scalars of which a law says where they stand, bool (d,)."""
        return np.concatenate([law.lawful for law in self.laws])

    def goals(self, point: Configuration) -> Floats:
        """Return what the scalars shall be at a point, (d,)."""
        goal = self.scalars.copy()
        for law, mine in self._parts:
            goal[mine] = law.goals(goal[mine], point.scalar_forces[mine])
        return goal

    def controls(self, point: Configuration, values: Floats) -> Controls:
        """Return what Newton solves for the scalars at a point where they have values (d,)."""
        count = len(values)
        rows = Rows(np.eye(count), self.scalars - values, np.zeros(count), self.by_value.copy(), ~self.by_value)
        for law, mine in self._parts:
            active = None if point.hold is None else point.hold.part(mine)
            law.write(rows.part(mine), values[mine], point.scalar_forces[mine], active)
        solved, forces = rows.solved, np.where(self.by_value, 0.0, self.scalar_forces)
        return Controls(rows.members[solved], rows.gap[solved], rows.slope[solved], rows.fixed, forces)


@dataclass(frozen=True)
class Configuration:
    """A configuration: positions (nodes, 3), pressures (v,), forces of the scalars (d,), scaled; share of the command.

    `hold` says where cables stick and slide; None without friction of cables. `free_bodies` (f, 6) are the places of free objects
    (see `FreeBodyMotion`); of a step they are motions.
    """

    x: Floats
    p: Floats
    scalar_forces: Floats
    load_factor: float = 0.0
    hold: StickSlip | None = None
    objects: Floats = field(default_factory=lambda: np.zeros((0, 6)))

    def less(self, other: Configuration) -> Configuration:
        """Return the way from another point to this one."""
        way = motion_between(other.objects, self.objects)
        return replace(replace(self, objects=way[:0]).stepped(replace(other, objects=way[:0]), -1.0), objects=way)

    def stepped(self, step: Configuration, length: float) -> Configuration:
        """Return this point moved by a step times a length."""
        return Configuration(
            self.x + length * step.x,
            self.p + length * step.p,
            self.scalar_forces + length * step.scalar_forces,
            self.load_factor + length * step.load_factor,
            self.hold,
            moved(self.objects, length * step.objects),
        )


@dataclass(frozen=True)
class ArcLengthConstraint:
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
    load_factor
        The share sought, where there is no arc.
    contact_state
        What the robot holds on to.
    bends
        Whether the share becomes unknown after the first step from an equilibrium, which goes along the tangent.
    weights, scale, level
        Of the arc; None where the share is prescribed.
    drag
        See `LoadState`.
    longest
        Displacement of a node in one step, at most, over the size of the body: no farther than the path is straight.
    """

    origin: LoadState
    end: LoadState
    load_factor: float
    contact_state: ContactState | None
    bends: bool = False
    weights: tuple[float, float] | None = None
    scale: float = 1.0
    level: float = 0.0
    drag: ProximalTerm | None = None
    longest: float = np.inf

    def at(self, point: Configuration) -> LoadState:
        """Return the target for a point."""
        target = self.origin.towards(
            self.end, self.load_factor if self.weights is None else point.load_factor, self.contact_state
        )
        return (target if self.drag is None else replace(target, drag=self.drag)).at(point)

    def gripped(self, point: Configuration) -> ContactState:
        """Return the grip with the free objects where they are at a point."""
        assert self.contact_state is not None
        return (
            self.contact_state
            if self.end.free_bodies is None
            else self.end.free_bodies.at(point.objects).contact_state(self.contact_state)
        )

    @property
    def force_rates(self) -> Floats:
        """Change of the prescribed forces of scalars over the whole way, (d,)."""
        return np.where(self.end.by_value, 0.0, self.end.scalar_forces - self.origin.scalar_forces)

    @property
    def scalar_rates(self) -> Floats:
        """Change of the prescribed scalars over the whole way, (d,)."""
        return np.where(self.end.by_value, self.end.scalars - self.origin.scalars, 0.0)

    def load(self, gradients: Floats) -> Floats:
        """Force on the nodes that comes with the whole way, (nodes, 3); `gradients` of the scalars (d, nodes, 3)."""
        nodes = gradients.shape[1]
        out = (self.end.external - self.origin.external)[:nodes]
        return out + einsum("c,cni->ni", self.force_rates, gradients)

    def conjugate(self, point: Configuration, scalars: Floats) -> float:
        """Return g, what the share is conjugate to, at a point with scalars (d,)."""
        work = float(self.force_rates @ scalars - self.scalar_rates @ point.scalar_forces)
        return work + float(np.sum((self.end.external - self.origin.external)[: len(point.x)] * point.x))

    def onto(
        self, point: Configuration, scalars: Floats, weights: tuple[float, float], scale: float
    ) -> ArcLengthConstraint:
        """Return the arc through a point (which need not balance)."""
        norm = np.hypot(*weights)
        a, b = weights[0] / norm, weights[1] / norm
        level = a * self.conjugate(point, scalars) / scale + b * point.load_factor
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
    scalars, gradients
        Values of the scalars (d,), and their gradients (d, nodes, 3).
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
    columns
        Minus what the forces on the nodes change by with those of the scalars, (d, nodes, 3); None where they are the
        gradients: without friction of cables.
    levels
        Parts of the tangent of contact that are in the tangent (see `ContactForces`).
    free_bodies, loose_hold
        What is out of balance on the free objects (f, 6), and the stiffness of springs that hold them (f,).
    """

    force: Floats
    constraint: Floats
    scalars: Floats
    gradients: Floats
    scale: float
    energy: float
    smallest: float
    body_volume: float
    data: Floats | None
    sparsity: Sparsity
    contact: ContactForces | None = None
    rigid: RigidState | None = None
    columns: Floats | None = None
    levels: tuple[str, ...] = ("stiff",)
    free_bodies: Floats = field(default_factory=lambda: np.zeros((0, 6)))
    loose_hold: Floats = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True)
class NewtonOutcome:
    """How a Newton solve ended.

    `start` is the point on the tangent or secant that Newton corrected; `first` how many of the iterations were of the first
    round of friction, None where there are none; `far`
    whether the body went too far; `aim` what was looked for in the end.
    """

    status: Status
    point: Configuration
    evaluation: Evaluation
    residual: float
    iterations: int
    target: LoadState
    start: Configuration | None = None
    first: int | None = None
    far: bool = False
    aim: ArcLengthConstraint | None = None

    @property
    def effort(self) -> int:
        """Iterations that tell how straight the path is: further rounds of friction do not get fewer in a shorter increment."""
        return self.iterations if self.first is None else self.first


def longest_displacement(x: Floats) -> float:
    """Longest displacement of a node, of displacements (nodes, 3)."""
    return float(np.sqrt(np.max(np.sum(x**2, axis=1), initial=0.0)))
