"""The balance of forces of one increment: residual and Jacobian, Eqs. (4) and (7) of [Lahoti]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from geosim.arrays import MIN_DIVISOR, Floats
from geosim.kernels import kernel
from geosim.linear.sparse import Blocks
from geosim.rods.elastic import bend_twist_hessian, stretch_hessian
from geosim.rods.membrane import membrane_hessian
from geosim.rods.midedge import midedge_hessian
from geosim.rods.shells import hinge_hessian
from geosim.rods.state import RodState, Trial, evaluate
from geosim.rods.system import RodSystem
from geosim.rods.terms import Term

STRAIN_ROUNDING = (
    8 * np.finfo(float).eps
)  # of a strain |e| / l - 1 from positions: three subtractions, a root and a quotient
TURN_ROUNDING = 10 * STRAIN_ROUNDING  # of a curvature or a twist, through frames and a tangent of half an angle
NO_TENSION = np.zeros(0)  # those of the springs


@kernel
def largest_free(f, free, turns):
    """Return the largest free residual of the translations and of the turns; nan becomes inf."""
    force, moment = 0.0, 0.0
    for i in range(f.shape[0]):
        if free[i]:
            value = abs(f[i])
            if not value < np.inf:
                return np.inf, np.inf
            if i < turns:
                force = max(force, value)
            else:
                moment = max(moment, value)
    return force, moment


@kernel
def step_size(dq, springs, rest, turns):
    """Return the largest relative motion of a spring (dofs (S, 6), rest lengths), translation and turn in a step."""
    edge, move, turn = 0.0, 0.0, 0.0
    for i in range(springs.shape[0]):
        s = 0.0
        for j in range(3):
            s += (dq[springs[i, 3 + j]] - dq[springs[i, j]]) ** 2
        edge = max(edge, s / rest[i] ** 2)
    for i in range(turns):
        move = max(move, abs(dq[i]))
    for i in range(turns, dq.shape[0]):
        turn = max(turn, abs(dq[i]))
    return np.sqrt(edge), move, turn


class Scales(NamedTuple):
    """What a residual is measured against: largest load [N], round-off of forces [N] and moments [N m], largest radius [m]."""

    load: float
    noise: float
    turn_noise: float
    radius: float


@kernel
def relative_residual(left, turning, force, moment, scales):
    """Return a residual [N], [N m] over the largest internal force or moment, above round-off; see `Scales`."""
    force_scale = max(force, scales.load) + MIN_DIVISOR
    moment_scale = max(moment, force_scale * scales.radius) + MIN_DIVISOR
    return max(max(left - scales.noise, 0.0) / force_scale, max(turning - scales.turn_noise, 0.0) / moment_scale)


class Inertia(NamedTuple):
    """Inertia, damping and loads of an increment, a (q - q0) - b, and its velocities (q - q0 + lag) / pace.

    `a` [N/m] and `b` [N] (dofs,); `pace` [s]; `lag` [m, rad] (dofs,).
    """

    a: Floats
    b: Floats
    pace: float
    lag: Floats


def euler_inertia(system: RodSystem, u: Floats, external: Floats, h: float, damping: float) -> Inertia:
    """Return the inertia of backward Euler from velocities u over h; without inertia where h is 0 (statics)."""
    none = np.zeros(system.dofs)
    if h == 0:
        return Inertia(none, external, h, none)
    a = system.mass * (1.0 / h**2 + damping / h) + system.viscous / h
    return Inertia(a, system.mass * (u / h) + external, h, none)


@dataclass
class Balance:
    """f(q) = a (q - q0) - b + dE/dq + terms, with a and b of one increment.

    Parameters
    ----------
    state
        Start of the increment; its frames are carried to every trial.
    natural
        Natural strains of the increment, shape (S + H, 3) or (S + H + T, 3).
    external
        Dead forces with the weight [N], shape (dofs,).
    step
        h [s]; 0 = static.
    damping
        Mass-proportional damping [1/s].
    terms
        Contact, obstacles, user forces.
    inertia
        a and b; None: those of backward Euler.
    """

    system: RodSystem
    state: RodState
    natural: Floats
    external: Floats
    step: float
    damping: float = 0.0
    terms: Sequence[Term] = ()
    inertia: Inertia | None = None

    def __post_init__(self) -> None:
        system = self.system
        rule = self.inertia or euler_inertia(system, self.state.u, self.external, self.step, self.damping)
        self.a, self.b, self.rest = rule.a, rule.b, system.rest_lengths(self.natural)
        self.order = system.pattern.order
        turns = system.turns
        load = float(np.abs(self.b[:turns]).max())
        # below this the residual is round-off of strains and of positions
        size = float(np.abs(self.state.q[:turns]).max()) + MIN_DIVISOR
        stiffest, stiff = system.stiffest
        noise = STRAIN_ROUNDING * (stiffest + float(self.a[:turns].max(initial=0.0))) * size
        self.scales = Scales(load, noise, TURN_ROUNDING * stiff, system.thickest)

    def residual(self, q: Floats) -> tuple[Trial, Floats]:
        """Return the elastic trial and f of all degrees of freedom at q."""
        trial = evaluate(self.system, self.state, q, self.natural, self.rest)
        f = trial.gradient + self.a * (q - self.state.q) - self.b
        for term in self.terms:
            if term.idle:
                continue
            before = f.copy()
            energy, force = term.add_force(q, f)
            trial.pushes[term.kind] += before - f
            trial.energy += energy
            trial.stored += energy
            trial.force = max(trial.force, force)
        return trial, f

    def jacobian(
        self, q: Floats, trial: Trial, tension: Floats = NO_TENSION, *, far: bool = False
    ) -> tuple[Floats, Blocks | None]:
        """Return the flat values of the symmetric part and the unsymmetric rest, perhaps at other tensions [N] of the springs.

        `far` as in `Term`.
        """
        system, bends = self.system, self.system.robot.bends
        dofs, slots, natural = system.stencils, system.slots, self.natural
        values = np.zeros(system.pattern.size)
        stretch_hessian(q, dofs.springs, system.stretch, self.rest, tension, slots.springs, values)
        bend_twist_hessian(
            q,
            dofs.bends,
            bends.edges,
            bends.signs,
            system.bending,
            natural,
            trial.t,
            trial.length,
            trial.m1,
            trial.m2,
            trial.twist,
            slots.bends,
            values,
        )
        if len(dofs.membranes):
            membrane_hessian(q, dofs.membranes, system.membrane, system.squares, slots.membranes, values)
        if len(dofs.hinges):
            hinge_hessian(q, dofs.hinges, system.hinge_bending, natural[len(trial.twist) :, 0], slots.hinges, values)
        if len(dofs.faces):
            own = natural[system.faces_at :]
            sides, signs, normals = system.sides, system.signs, trial.normals
            midedge_hessian(q, dofs.faces, sides, signs, normals, system.plates, own, slots.faces, values)
        if self.step > 0:
            values[system.pattern.diagonal] += self.a[self.order]
        for term in self.terms:
            term.far = far
        extras = [extra for term in self.terms if (extra := term.add_stiffness(q, values)) is not None]
        return values, Blocks.joined(extras) if extras else None

    def relative(self, trial: Trial, f: Floats) -> float:
        """Return the relative residual of f, see `relative_residual`."""
        left, turning = largest_free(f, self.system.free, self.system.turns)
        return float(relative_residual(left, turning, trial.force, trial.moment, self.scales))

    def longest(self, q: Floats, dq: Floats, share: float, move: float) -> float:
        """Return the part of a share of a step that nothing crosses; the step moves a vertex by `move` [m] at most."""
        share = min([share, *(term.reach / max(move, MIN_DIVISOR) for term in self.terms)])
        for term in self.terms:
            share *= term.safe_share(q, share * dq)
        return share

    def escaped(self, q: Floats) -> bool:
        """Whether a term is not complete at q, so that all must be bound anew."""
        return any(term.escaped(q) for term in self.terms)
