"""The paper's route to Newton's direction: the Schur complement by preconditioned conjugate residuals.

With the mass blocks Mh = M / h^2 and the compliances E,

    (J Mh^-1 J^T + E) dlambda = -(c + E lambda) + J Mh^-1 g,     dq = Mh^-1 (J^T dlambda - g),   g = Mh-row - J^T lambda,

solved from the multipliers of the step before within a budget. Rows: six corotational strains a tet, one a distance, three a
point pair, one an axis or hinge spring, and for a closed contact the normal (compliance 1/k, the root of the Fischer-Burmeister
function) and two of friction with compliance W; three more of every distance for its tension, which resists sideways and which no
multiplier keeps.

The paper's preconditioner is Jacobi's. There are seven rows for every unknown, so that J Mh^-1 J^T is singular, and along what is
left E alone resists, by 1e-5 m/N of a fibre to 1e3 m/N of a tet's shear: it cannot converge. What does is the inverse of
E + J X^-1 J^T by Woodbury's formula, X being Mh with what of the stiffness no row holds,

    E^-1 - E^-1 J K^-1 J^T E^-1,      K = X + J^T E^-1 J:

the matrix of the primal route, which is factored once a direction. The system is symmetric and cannot know how friction follows
the normal force: where wheels slip Newton's method ends some hundredths of a newton short; without friction it converges.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from geosim.arrays import Bools, Floats, Ints, einsum
from geosim.linear.krylov import conjugate_residuals
from geosim.snake import joints
from geosim.snake.condensed import NewtonDirection
from geosim.snake.problem import MultibodyConfiguration, MultibodyEvaluation, Substep
from geosim.snake.system import Workspace


class DualDirection(NewtonDirection):
    """Newton directions of one substep by the dual route; keeps the multipliers between its iterations."""

    def __init__(
        self,
        problem: Substep,
        workspace: Workspace,
        multipliers: Floats | None,
        iterations: int,
        tolerance: float,
        jacobi: bool,
    ) -> None:
        self.problem, self.workspace, self.jacobi = problem, workspace, jacobi
        self.iterations = iterations
        self.tolerance = tolerance
        system = problem.system
        kept = 3 * np.count_nonzero(system.robot.pair_stiffness) + np.count_nonzero(system.robot.axis_stiffness)
        self._smooth = 6 * len(system.soft.corners) + len(system.springs) + kept
        self.multipliers = np.zeros(self._smooth) if multipliers is None else np.array(multipliers)
        self._change = np.zeros(self._smooth)

    def accept(self, alpha: float) -> None:
        """Take the multipliers along by the step length of the line search."""
        self.multipliers = self.multipliers + alpha * self._change

    def solve(self, now: MultibodyEvaluation, rough: bool = False, fresh: bool = False) -> tuple[Floats, int]:
        """Return the direction (slots, 3) at a configuration and the number of iterations it took."""
        system = self.problem.system
        J, c, E = self._rows(now)
        smooth = self._smooth
        # Rows of hinge springs and contacts start from their consistent multipliers, -c / E.
        start = np.concatenate([self.multipliers, -c[smooth:] / E[smooth:]])
        masses = self._mass_blocks(now.place)
        JT = J.T.tocsr()
        inertia = now.gradient - (JT @ self._stiffness(E, c)).reshape(-1, 3)
        inertia[~system.free] = 0.0
        g = inertia - (JT @ start).reshape(-1, 3)

        def through_mass(force: Floats) -> Floats:
            return einsum("sij,sj->si", masses, force)

        def apply(v: Floats) -> Floats:
            return np.asarray(J @ through_mass((JT @ v).reshape(-1, 3)).ravel() + self._compliance(E, v))

        right = -(c + self._compliance(E, start)) + J @ through_mass(g).ravel()
        if self.jacobi:
            # row k of J times its own mass-weighted transpose: the diagonal of the Schur complement
            own = (J @ _block_diagonal(masses)).multiply(J).sum(axis=1)
            inverse_diagonal = 1.0 / (np.asarray(own).ravel() + self._compliance_diagonal(E))
            precondition = lambda v: inverse_diagonal * v  # noqa: E731
        else:
            factor = self.workspace.factor
            self.workspace.held = None
            factor.factor(self.problem.assemble(now, True), True)

            def precondition(v: Floats) -> Floats:
                pushed = self._stiffness(E, v)
                moved = factor.solve((JT @ pushed).reshape(-1, 3))
                return pushed - self._stiffness(E, np.asarray(J @ moved.ravel()))

        change, count = conjugate_residuals(apply, right, precondition, self.iterations, self.tolerance)
        self._change = change[:smooth]
        return through_mass((JT @ change).reshape(-1, 3) - g), count

    @property
    def _coupling(self) -> Floats:
        """What K^-1 / V of the isotropic K couples the normal strains of tets by."""
        soft = self.problem.system.soft
        return soft.lam / (2 * soft.mu * (3 * soft.lam + 2 * soft.mu)) / soft.volumes

    def _compliance(self, E: Floats, v: Floats) -> Floats:
        """E v, with the coupled normal strains of tets."""
        out, m = E * v, len(self._coupling)
        s = v[: 6 * m].reshape(m, 6)
        out[: 6 * m].reshape(m, 6)[:, :3] -= (self._coupling * s[:, :3].sum(axis=1))[:, None]
        return out

    def _compliance_diagonal(self, E: Floats) -> Floats:
        out, m = E.copy(), len(self._coupling)
        out[: 6 * m].reshape(m, 6)[:, :3] -= self._coupling[:, None]
        return out

    def _stiffness(self, E: Floats, v: Floats) -> Floats:
        """E^-1 v, of the tets volume times stress."""
        out, soft = v / E, self.problem.system.soft
        strain = v[: 6 * len(soft.mu)].reshape(-1, 6)
        stress = strain * (soft.mu[:, None] * np.array([2, 2, 2, 1, 1, 1]))
        stress[:, :3] += (soft.lam * strain[:, :3].sum(axis=1))[:, None]
        out[: strain.size] = (soft.volumes[:, None] * stress).ravel()
        return np.asarray(out)

    def _mass_blocks(self, here: MultibodyConfiguration) -> Floats:
        """Inverse mass blocks (slots, 3, 3), zero where held."""
        problem, system = self.problem, self.problem.system
        blocks = (system.masses / problem.h**2)[:, None, None] * np.eye(3)
        turning = joints.turning_stiffness(here.R, system.second_moments, problem.start.R, problem.h)
        blocks[system.particles + 1 :: 2] = turning
        inverse: Floats = np.linalg.inv(blocks).astype(np.float64)
        inverse[~system.free] = 0.0
        return inverse

    def _rows(self, now: MultibodyEvaluation) -> tuple[Any, Floats, Floats]:
        """Jacobian (csr), constraints c and diagonal compliances E; those of contacts are symmetric."""
        system, problem, x = self.problem.system, self.problem, now.place.x
        soft = system.soft
        tets, strain = _tet_rows(x, soft.corners, *(a.T.reshape(-1, 3, 3) for a in (soft.shapes, now.rotations)))
        # K^-1 has (1 + nu)/E - nu/E on the normal strains (the second part in `_compliance`), 1/mu on shear.
        compliance = np.array([0.5, 0.5, 0.5, 1.0, 1.0, 1.0]) / (soft.mu * soft.volumes)[:, None]
        d = x[system.springs[:, 0]] - x[system.springs[:, 1]]
        length = np.linalg.norm(d, axis=1)
        normal = d / length[:, None]
        # stiffness [N/m] that a line without pressure keeps: its row, of a huge compliance, does nothing
        min_line_stiffness = 1e-9
        across = np.maximum(problem.stiffness * (1.0 - problem.rest / length), min_line_stiffness)
        sideways = np.eye(3) - normal[:, :, None] * normal[:, None]
        parts = [(soft.corners, tets), (system.springs, np.stack([normal, -normal], axis=1)[:, None])]
        cs, Es = (
            [strain.ravel(), length - problem.rest],
            [compliance.ravel(), 1.0 / np.maximum(problem.stiffness, min_line_stiffness)],
        )
        for rows in (*now.rigid, now.contact):
            stiffness = problem.friction_stiffness(rows, True) if rows is now.contact else rows.stiffness
            k = np.diagonal(stiffness, axis1=1, axis2=2)
            kept = k > 0  # a row without stiffness is no constraint: an open contact, a hinge without spring
            slots = np.broadcast_to(rows.slots[:, None], rows.jacobian.shape[:3])
            parts.append((slots[kept], rows.jacobian[kept][:, None]))
            cs.append(rows.forces[kept] / k[kept])
            Es.append(1.0 / k[kept])
        parts.append((system.springs, np.stack([sideways, -sideways], axis=2)))
        cs.append(np.zeros(3 * len(across)))
        Es.append(np.repeat(1.0 / across, 3))
        return _assemble(parts, system.slots, system.free), np.concatenate(cs), np.concatenate(Es)


def _tet_rows(x: Floats, tets: Ints, B: Floats, R: Floats) -> tuple[Floats, Floats]:
    """Derivatives (m, 6, 4, 3) and values (m, 6) of the corotational strains, Voigt order xx yy zz yz xz xy."""
    edges = np.stack([x[tets[:, a]] - x[tets[:, 0]] for a in (1, 2, 3)], axis=2)
    S = np.einsum("eji,ejk->eik", R, edges @ B) - np.eye(3)
    strain = np.stack(
        [S[:, 0, 0], S[:, 1, 1], S[:, 2, 2], S[:, 1, 2] + S[:, 2, 1], S[:, 0, 2] + S[:, 2, 0], S[:, 0, 1] + S[:, 1, 0]],
        axis=1,
    )
    grad = np.concatenate([-B.sum(axis=1, keepdims=True), B], axis=1)  # (m, 4, 3), rows of shape gradients
    rows = np.empty((len(tets), 6, 4, 3))
    RT = R.transpose(0, 2, 1)  # row i of R^T is the derivative of the body's i-th coordinate
    for k, (i, j) in enumerate(((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1))):
        value = grad[:, :, j, None] * RT[:, None, i]
        rows[:, k] = value if i == j else value + grad[:, :, i, None] * RT[:, None, j]
    return rows, strain


def _assemble(parts: list[tuple[Ints, Floats]], slots: int, free: Bools) -> scipy.sparse.csr_matrix:
    """Stack row groups, slots (k, s) with values (k, r, s, 3), into one Jacobian; held and missing slots are left out."""
    rows, columns, values, first = [], [], [], 0
    for group, value in parts:
        k, r = value.shape[:2]
        row = (first + np.arange(k * r)).reshape(k, r, 1, 1)
        kept = np.broadcast_to(((group >= 0) & free[group])[:, None, :, None], value.shape)
        rows.append(np.broadcast_to(row, value.shape)[kept])
        columns.append(np.broadcast_to(3 * group[:, None, :, None] + np.arange(3), value.shape)[kept])
        values.append(value[kept])
        first += k * r
    places = (np.concatenate(rows), np.concatenate(columns))
    return scipy.sparse.csr_matrix((np.concatenate(values), places), shape=(first, 3 * slots))


def _block_diagonal(blocks: Floats) -> Any:
    """Sparse matrix with 3x3 blocks on its diagonal."""
    k = len(blocks)
    return scipy.sparse.bsr_matrix((blocks, np.arange(k), np.arange(k + 1)), shape=(3 * k, 3 * k)).tocsr()
