"""The paper's route to Newton's direction: the Schur complement of (8) in the multipliers of the constraints.

With X what no row couples, mass and rotational inertia over h^2, and D the stiffness of the rows, inverse of the compliance E,

    (1 + D J X^-1 J^T) dlambda = D J X^-1 g,        dq = X^-1 (J^T dlambda - g),

g being the unbalanced forces of consistent multipliers. The paper solves with E in place of D by conjugate residuals with
Jacobi's preconditioner (`PaperDirection`). A snake has seven rows for every unknown, so that J X^-1 J^T is singular, and along
what is left E alone resists, by 1e-5 m/N of a fibre to 1e3 m/N of a tet's shear: 3000 iterations are not enough for it.
`DualDirection` solves by GMRES, preconditioned with

    1 - D J K^-1 J^T,        K = X + J^T D J,

by Woodbury's formula the inverse, where K is factored once a direction: the matrix of the primal route.

Departures from the paper:
[D1] D is that of Coulomb's law: it vanishes along the slip, and is not symmetric, because friction follows the normal force.
     With the compliance W of the paper, which resists the slip as if the wheel stuck, an iteration of Newton's method leaves 0.4
     to 0.8 of the residual where wheels slip. K has the symmetric part of D: what differs is of rank one a contact.
[D2] The geometric stiffness is part of X and of rows of its own: three of every tet for how its corners turn against its
     rotation, three of every distance for its tension, which resists sideways. So K is the matrix of `Substep.assemble` to
     rounding. Where the matrix had the stiffness of turning tets and the rows had not, a direction took some fifty iterations.
[D3] Strains of tets are those in the current frame, which turn with their rotation: their law is isotropic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from geosim.arrays import Floats, Ints, einsum
from geosim.linear.krylov import conjugate_residuals, flexible_gmres
from geosim.snake import soft
from geosim.snake.condensed import MAX_COUPLING_ITERATIONS, NewtonDirection
from geosim.snake.problem import MultibodyEvaluation, Substep
from geosim.snake.rows import add_forces, row_changes, row_products
from geosim.snake.system import Workspace

_VOIGT_UNIT = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])


class Constraints(NamedTuple):
    """Constraints of one kind at a configuration.

    Parameters
    ----------
    slots
        (k, s), -1 where a slot is missing.
    jacobian
        (k, r, s, 3).
    stiffness
        D, (k, r, r).
    """

    slots: Ints
    jacobian: Floats
    stiffness: Floats


@dataclass(frozen=True)
class DualSystem:
    """Constraints kind by kind; multipliers and values of all their rows are one array, (rows,).

    Parameters
    ----------
    kinds
        Strains of tets, distances, point pairs, axes, hinges, contacts; then those of geometric stiffness, of tets and distances.
    mobility
        X^-1, zero where held, (slots, 3, 3).
    """

    kinds: tuple[Constraints, ...]
    mobility: Floats

    def parts(self, v: Floats) -> list[Floats]:
        """Views of an array of all rows, one of every kind, (k, r)."""
        shapes = [kind.jacobian.shape[:2] for kind in self.kinds]
        ends = np.cumsum([k * r for k, r in shapes])
        return [v[end - k * r : end].reshape(k, r) for end, (k, r) in zip(ends, shapes)]

    def empty(self) -> Floats:
        """Room for all rows."""
        return np.empty(sum(kind.jacobian.shape[0] * kind.jacobian.shape[1] for kind in self.kinds))

    def forces(self, multipliers: Floats) -> Floats:
        """J^T lambda [N], [N m], (slots, 3)."""
        out = np.zeros((len(self.mobility), 3))
        for kind, part in zip(self.kinds, self.parts(multipliers)):
            add_forces(kind.slots, kind.jacobian, part, out)
        return out

    def changes(self, motion: Floats) -> Floats:
        """J dq of a motion (slots, 3)."""
        out = self.empty()
        for kind, part in zip(self.kinds, self.parts(out)):
            row_changes(kind.slots, kind.jacobian, motion, part)
        return out

    def products(self, blocks: Sequence[Floats], v: Floats) -> Floats:
        """Blocks of every kind (k, r, r), of stiffness or of compliance, times v."""
        out = self.empty()
        for block, part, product in zip(blocks, self.parts(v), self.parts(out)):
            row_products(block, part, product)
        return out

    def reactions(self, motion: Floats) -> Floats:
        """D J dq, what a motion (slots, 3) adds to the forces of the rows."""
        return self.products([kind.stiffness for kind in self.kinds], self.changes(motion))

    def moved(self, force: Floats) -> Floats:
        """X^-1 f, (slots, 3)."""
        return einsum("sij,sj->si", self.mobility, force)


class DualDirection(NewtonDirection):
    """Newton directions of one substep, preconditioned with a factor of the primal matrix."""

    def __init__(self, problem: Substep, workspace: Workspace, iterations: int, tolerance: float) -> None:
        self.problem, self.workspace, self.tolerance = problem, workspace, tolerance
        self.iterations = min(iterations, MAX_COUPLING_ITERATIONS)

    def solve(self, now: MultibodyEvaluation, rough: bool, fresh: bool = False) -> tuple[Floats, int]:
        """Return the direction (slots, 3) at a configuration and the iterations it took; if `rough` friction is damped.

        Of a stiffness that is not positive definite the semi-definite part of the geometric one is kept.
        """
        problem, factor = self.problem, self.workspace.factor
        self.workspace.held = None
        for clamp in (True,) if rough else (False, True):
            if factor.factor(problem.assemble(now, clamp, damped=rough), clamp):
                break
        else:
            return problem.steepest(now), 0
        system = symmetric = dual_system(problem, now, clamp, rough)
        if not rough:
            kinds = list(symmetric.kinds)
            kinds[5] = kinds[5]._replace(stiffness=now.contact.stiffness)
            system = DualSystem(tuple(kinds), symmetric.mobility)

        def product(v: Floats) -> Floats:
            return v + system.reactions(system.moved(system.forces(v)))

        def precondition(v: Floats) -> Floats:
            pushed = symmetric.forces(v)
            pushed[problem.system.held] = 0.0
            return v - symmetric.reactions(factor.solve(pushed))

        right = system.reactions(system.moved(now.gradient))
        change, count, _ = flexible_gmres(product, precondition, right, self.tolerance, self.iterations)
        return system.moved(system.forces(change) - now.gradient), count


class PaperDirection(NewtonDirection):
    """Newton directions of one substep by the paper's solver; keeps the multipliers between its iterations."""

    def __init__(self, problem: Substep, multipliers: Floats | None, iterations: int, tolerance: float) -> None:
        self.problem, self.iterations, self.tolerance = problem, iterations, tolerance
        self.multipliers = multipliers
        self._change = np.zeros(0)

    def accept(self, alpha: float) -> None:
        """Take the multipliers along by the step length of the line search."""
        assert self.multipliers is not None
        self.multipliers = self.multipliers + alpha * self._change

    def solve(self, now: MultibodyEvaluation, rough: bool, fresh: bool = False) -> tuple[Floats, int]:
        """Return the direction (slots, 3) at a configuration and the number of iterations it took."""
        problem, every = self.problem, dual_system(self.problem, now, True, True)
        system = DualSystem(every.kinds[:6], every.mobility)  # (8) leaves the geometric stiffness out
        pushes, strains = system.empty(), system.kinds[0]
        tets, lines, *others = system.parts(pushes)
        row_changes(strains.slots, strains.jacobian, now.place.places, tets)
        row_products(strains.stiffness, tets - _VOIGT_UNIT, tets)
        ends = now.place.x[problem.system.springs]
        lines[:, 0] = problem.stiffness * (np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1) - problem.rest)
        for part, rows in zip(others, (*now.rigid, now.contact)):
            part[:] = rows.forces
        # Hinges and contacts start from their consistent multipliers.
        kept = tets.size + lines.size + others[0].size + others[1].size
        if self.multipliers is None:
            self.multipliers = np.zeros(kept)
        start = np.concatenate([self.multipliers, -pushes[kept:]])
        # Stiffness [N/m], [N m] that every row has at least: one of so huge a compliance does nothing.
        min_row_stiffness = 1e-9
        E = [_inverse(kind.stiffness + min_row_stiffness * np.eye(kind.stiffness.shape[1])) for kind in system.kinds]
        inertia = now.gradient - system.forces(pushes)
        inertia[problem.system.held] = 0.0
        g = inertia - system.forces(start)
        # row k of J times its own mass-weighted transpose: the diagonal of the Schur complement
        diagonal = system.empty()
        for kind, block, part in zip(system.kinds, E, system.parts(diagonal)):
            masses = np.where(kind.slots[:, :, None, None] < 0, 0.0, system.mobility[kind.slots])
            part[:] = einsum("krsi,krsi->kr", einsum("krsi,ksij->krsj", kind.jacobian, masses), kind.jacobian)
            part += np.diagonal(block, axis1=1, axis2=2)

        change, count = conjugate_residuals(
            lambda v: system.products(E, v) + system.changes(system.moved(system.forces(v))),
            system.changes(system.moved(g)) - system.products(E, pushes + start),
            lambda v: v / diagonal,
            self.iterations,
            self.tolerance,
        )
        self._change = change[:kept]
        return system.moved(system.forces(change) - g), count


def dual_system(problem: Substep, now: MultibodyEvaluation, clamp: bool, damped: bool) -> DualSystem:
    """Return all rows with the stiffness that `Substep.assemble` adds up, arguments as there."""
    x, system = now.place.x, problem.system
    tets, ends = system.soft, system.springs
    B, R = (a.T.reshape(-1, 3, 3) for a in (tets.shapes, now.rotations))
    strains, twists = _tet_rows(np.concatenate([-B.sum(axis=1, keepdims=True), B], axis=1) @ R.transpose(0, 2, 1))
    elasticity = tets.lam[:, None, None] * np.outer(_VOIGT_UNIT, _VOIGT_UNIT)
    elasticity += tets.mu[:, None, None] * np.diag(1.0 + _VOIGT_UNIT)
    twist_stiffness = np.empty((len(tets.mu), 3, 3))
    soft.tet_twist_stiffness(x, tets, now.rotations, clamp, twist_stiffness)
    d = (x[ends[:, 0]] - x[ends[:, 1]])[:, None]
    length = np.linalg.norm(d, axis=2, keepdims=True)
    along, k = d / length, problem.stiffness[:, None, None]
    tension = k * (1.0 - problem.rest[:, None, None] / length)
    across = (np.maximum(tension, 0.0) if clamp else tension) * (np.eye(3) - along.transpose(0, 2, 1) * along)
    sides = np.broadcast_to(np.eye(3), across.shape)
    mobility = _inverse(problem.inertia_blocks(now, clamp))
    mobility[system.held] = 0.0
    kinds = (
        Constraints(tets.corners, strains, tets.volumes[:, None, None] * elasticity),
        Constraints(ends, np.stack([along, -along], axis=2), k),
        *(Constraints(rows.slots, rows.jacobian, rows.stiffness) for rows in now.rigid),
        Constraints(now.contact.slots, now.contact.jacobian, problem.friction_stiffness(now.contact, damped)),
        Constraints(tets.corners, twists, twist_stiffness),
        Constraints(ends, np.stack([sides, -sides], axis=2), across),
    )
    return DualSystem(kinds, mobility)


def _inverse(blocks: Floats) -> Floats:
    """Inverse of every block, (k, r, r)."""
    inverse: Floats = np.linalg.inv(blocks).astype(np.float64)
    return inverse


def _tet_rows(slopes: Floats) -> tuple[Floats, Floats]:
    """Derivatives of strains in Voigt order (m, 6, 4, 3) and of twists (m, 3, 4, 3) by the corners of tets.

    `slopes` (m, 4, 3) are the derivatives of the barycentric coordinates in the current frame [1/m].
    """
    strains, twists = np.zeros((len(slopes), 6, 4, 3)), np.zeros((len(slopes), 3, 4, 3))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        strains[:, i, :, i] = slopes[:, :, i]
        strains[:, 3 + i, :, j] = slopes[:, :, k]
        strains[:, 3 + i, :, k] = twists[:, i, :, k] = slopes[:, :, j]
        twists[:, i, :, j] = -slopes[:, :, k]
    return strains, twists
