"""An increment of backward Euler of rods that touch nothing, backwards: the transposed Jacobian of its balance.

An increment of h [s] finds the unknowns q1 and carries the reference frames. Frames that are carried along a tangent from t0 to
t1 turn about it where either end of that way moves: the angle s [rad] by which they are turned is a state, too::

    R = a (q1 - q0) - m u0 / h - F + g(q1, s1) + gyro(q1, q0) = 0,     a = m / h^2 + (d m + v) / h
    s1 = s0 - c . (dt0 + dt1),    c = t0 x t1 / (1 + t0 . t1)          (first order; as reference twist, [Bergou2008])
    u1 = (q1 - q0) / h

With w and z, what a loss changes by per unit of q1 (with that of u1 over h) and of s1, one solve gives those of the start::

    [ dR/dq1     g,s ]^T [ lambda ]   [ w ]
    [ c . dt1/dq1  1 ]   [   mu   ] = [ z ],      dL/dp = -lambda . dR/dp,    dL/ds0 = mu,    dL/du0 = m lambda / h

g,s is the column of theta, since a turn of the frames adds to theta. dR/dq1 is the Hessian of the elastic energy and a skew part.
The ways a, b and b, a of the end of an edge e leave its frames an angle t . (a x b) / |e|^2 apart. With the moment
M = dE/dtheta this is a further stiffness M / (2 |e|^2) t x of the edge: M is that of held angles and of the inertia of spin.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack
from scipy.sparse import csc_matrix, csr_matrix
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import splu

from geosim.arrays import Bools, Floats, Ints, norm
from geosim.rods.balance import Balance, Inertia
from geosim.rods.elastic import strain_rates
from geosim.rods.gyroscope import Gyroscope
from geosim.rods.slopes import FIVE_POINTS, STEP_REL, constant, five_point_slope, with_constant
from geosim.rods.state import RodState, Trial
from geosim.rods.system import RodSystem, rod_properties, with_free

MAX_HALF_BANDWIDTH = 128  # of the transposed matrix: a wider one is factorised sparsely


class Cotangent(NamedTuple):
    """What a loss changes by per unit of a state: of unknowns and rates (dofs,), and of the turn of the frames [1/rad] (E,)."""

    q: Floats
    u: Floats
    turn: Floats


class Turned(NamedTuple):
    """Edges [m] before and after an increment, their lengths [m], and c of the frames, over them: c / |e| (E, 3) [1/m]."""

    before: Floats
    after: Floats
    length: Floats
    by_before: Floats
    by_after: Floats


def _turned(before: RodState, after: RodState) -> Turned:
    edges = before.robot.edges
    x0, x1 = before.positions, after.positions
    old, new = x0[edges[:, 1]] - x0[edges[:, 0]], x1[edges[:, 1]] - x1[edges[:, 0]]
    t0, t1 = before.tangents, after.tangents
    c = np.cross(t0, t1) / (1.0 + (t0 * t1).sum(axis=1))[:, None]
    length = norm(new, axis=1)
    return Turned(old, new, length, c / norm(old, axis=1)[:, None], c / length[:, None])


def _cross_matrices(v: Floats) -> Floats:
    """Return the matrices (k, 3, 3) of v x for vectors (k, 3)."""
    return np.cross(v[:, None], np.eye(3)).transpose(0, 2, 1)


@dataclass(frozen=True, eq=False, repr=False)
class Transposed:
    """Where entries of the transposed matrix of an increment live, and its solution.

    Parameters
    ----------
    system
        With all degrees of freedom in its pattern.
    unknown
        Number of every unknown, those of q and then the turns, in the matrix; -1 where it is held.
    half
        Half-bandwidth.
    place
        Position of every entry in the flat values: of the elastic stiffness, its columns of theta, blocks of edges (7 x 7), the
        diagonal, and the rows of the turns.
    chosen
        Which of them are of unknowns that are free.
    turning
        Which entries of the stiffness are of columns of theta.
    """

    system: RodSystem
    unknown: Ints
    half: int
    place: Ints
    chosen: Ints
    turning: Ints

    @classmethod
    def of(cls, system: RodSystem, free: Bools) -> Transposed:
        """Return the layout of a system with the degrees of freedom that motions leave free."""
        whole = with_free(system, np.ones(system.dofs, dtype=bool))
        n, count, turns, order = whole.dofs, len(whole.robot.edges), whole.turns, whole.pattern.order
        indptr, indices, _ = whole.pattern.full
        row, column = order[indices], order[np.repeat(np.arange(n), np.diff(indptr))]
        turning = np.flatnonzero((column >= turns) & (column < turns + count))
        ends, edge = whole.stencils.springs[:count], np.arange(count)
        own = np.hstack([ends, (turns + edge)[:, None]])
        rows = [row, row[turning], np.repeat(own, 7, axis=1).ravel(), np.arange(n), n + np.repeat(edge, 6), n + edge]
        columns = [column, column[turning] - turns + n, np.tile(own, 7).ravel(), np.arange(n), ends.ravel(), n + edge]
        i, j = np.concatenate(columns), np.concatenate(rows)  # transposed
        kept = np.concatenate([free, np.ones(count, dtype=bool)])
        chosen = np.flatnonzero(kept[i] & kept[j])
        graph = csr_matrix((np.ones(len(chosen)), (i[chosen], j[chosen])), shape=(n + count, n + count))
        numbered = np.asarray(reverse_cuthill_mckee((graph + graph.T).tocsr(), symmetric_mode=True))
        numbered = numbered[kept[numbered]]
        unknown = np.full(n + count, -1)
        unknown[numbered] = np.arange(len(numbered))
        i, j = unknown[i[chosen]], unknown[j[chosen]]
        half = int(np.abs(i - j).max())
        banded = half <= MAX_HALF_BANDWIDTH
        place = j * (3 * half + 1) + 2 * half + i - j if banded else j * len(numbered) + i
        return cls(whole, unknown, half, place, chosen, turning)

    def solve(self, entries: Floats, right: Floats) -> Floats:
        """Return the solution for right-hand sides of all unknowns, 0 where they are held.

        Raises
        ------
        RuntimeError
            The matrix is singular.
        """
        free = self.unknown >= 0
        n, given = int(free.sum()), entries[self.chosen]
        rhs, out = np.empty(n), np.zeros(len(free))
        rhs[self.unknown[free]] = right[free]
        if self.half <= MAX_HALF_BANDWIDTH:
            width = 3 * self.half + 1
            band = np.bincount(self.place, given, n * width).reshape(n, width)
            _, _, x, info = lapack.dgbsv(self.half, self.half, band.T, rhs, overwrite_ab=True)
            if info:
                raise RuntimeError("the Jacobian of an increment is singular")
        else:
            column, row = np.divmod(self.place, n)
            x = splu(csc_matrix((given, (row, column)), shape=(n, n)), permc_spec="MMD_AT_PLUS_A").solve(rhs)
        out[free] = x[self.unknown[free]]
        return out


@dataclass(frozen=True, eq=False, repr=False)
class Increment:
    """An increment of backward Euler and its multipliers.

    Parameters
    ----------
    before, after
        The states at its ends, `after` with the natural strains and the loads of the increment.
    damping
        Mass-proportional damping [1/s].
    trial
        Frames and elastic gradient at its end.
    multiplier
        lambda, shape (dofs,).
    """

    before: RodState
    after: RodState
    damping: float
    trial: Trial
    multiplier: Floats

    @property
    def step(self) -> float:
        """Its time [s]."""
        return self.after.time - self.before.time

    def by_damping(self) -> float:
        """Return what the loss changes by per unit of the damping [1/s]."""
        system, h = self.after.system, self.step
        return float(-self.multiplier @ (system.mass * (self.after.q - self.before.q) / h))

    def by_curvature(self) -> Floats:
        """Return what the loss changes by per unit of the natural curvatures [1/m] about kappa1 and kappa2 (S, 2)."""
        system, trial = self.after.system, self.trial
        bends, rates = system.robot.bends, np.empty((len(system.robot.bends), 3))
        edges, signs = np.array(bends.edges), np.array(bends.signs)
        strain_rates(
            self.multiplier, system.stencils.bends, edges, signs, trial.t, trial.length, trial.m1, trial.m2, rates
        )
        return np.asarray(system.bending[:, :2] * bends.length[:, None] * rates[:, :2])

    def by_rate(self, rate: RodSystem) -> float:
        """Return what the loss changes by per unit of a constant, with the rates of a system by it (`system_rate`)."""
        before, system = self.before.changed(system=rate), self.after.system
        terms = [Gyroscope(before, self.step)] if system.spins else []
        changed = Balance(rate, before, self.after.natural, rate.weight, self.step, self.damping, terms)
        return float(-self.multiplier @ changed.residual(self.after.q)[1])


def system_rate(system: RodSystem, name: str) -> RodSystem:
    """Return a system whose stiffnesses, masses and weights are the derivatives of those of another by a constant.

    The residual is linear in them. They are polynomials of degree four at most of the radius, the modulus and the density, so
    that differences over five points are exact to round-off.
    """
    robot, step = system.robot, STEP_REL * abs(constant(system.robot, name))
    near = [rod_properties(with_constant(robot, name, k * step, add=True), system.environment) for k in FIVE_POINTS]
    rates: dict[str, Any] = {key: five_point_slope([at[key] for at in near], step) for key in near[0]}
    return replace(system, **rates)


def back(
    layout: Transposed, before: RodState, after: RodState, damping: float, given: Cotangent
) -> tuple[Increment, Cotangent]:
    """Return an increment with its multipliers, and what the loss changes by at its start, from what it does at its end.

    Raises
    ------
    RuntimeError
        The Jacobian of the increment is singular.
    """
    system, h, turns = layout.system, after.time - before.time, layout.system.turns
    count, edges = len(before.tangents), before.robot.edges
    still = np.zeros(system.dofs)
    start = before.changed(system=system)
    elastic = Balance(system, start, after.natural, still, h, inertia=Inertia(still, still, h, still))
    trial, _ = elastic.residual(after.q)
    values, _ = elastic.jacobian(after.q, trial)
    stiffness = values[system.pattern.full[2]]
    a = system.mass * (1.0 / h**2 + damping / h) + system.viscous / h
    turned = _turned(before, after)
    # gyroscopic forces f = -rate (old x e) on the ends, of the spin w: rate = per w
    spinning = after.system.spins
    per = spinning * system.mass[turns : turns + count] / (h * h * turned.length**3)
    spin = (after.q - before.q)[turns : turns + count]
    couple = np.cross(turned.before, turned.after)
    moment = trial.gradient[turns : turns + count]
    block = _cross_matrices((0.5 * moment / turned.length**2)[:, None] * after.tangents)
    block -= _cross_matrices((per * spin)[:, None] * turned.before)
    block += (3.0 * per * spin / turned.length**2)[:, None, None] * couple[:, :, None] * turned.after[:, None]
    blocks, sides = np.zeros((count, 7, 7)), ((slice(0, 3), -1.0), (slice(3, 6), 1.0))
    for rows, sign in sides:
        blocks[:, rows, 6] = -sign * per[:, None] * couple
        for columns, other in sides:
            blocks[:, rows, columns] = sign * other * block
    ways = np.hstack([-turned.by_after, turned.by_after])
    entries = np.concatenate([stiffness, stiffness[layout.turning], blocks.ravel(), a, ways.ravel(), np.ones(count)])
    found = layout.solve(entries, np.concatenate([given.q + given.u / h, given.turn]))
    multiplier, mu = found[: system.dofs], found[system.dofs :]
    along = multiplier[:turns].reshape(-1, 3)
    pulled = along[edges[:, 1]] - along[edges[:, 0]]
    at_edges = (per * spin)[:, None] * np.cross(turned.after, pulled) - mu[:, None] * turned.by_before
    q = a * multiplier - given.u / h
    x = q[:turns].reshape(-1, 3)
    np.add.at(x, edges[:, 1], at_edges)
    np.subtract.at(x, edges[:, 0], at_edges)
    q[turns : turns + count] -= per * (couple * pulled).sum(axis=1)
    return Increment(before, after, damping, trial, multiplier), Cotangent(q, system.mass * multiplier / h, mu)
