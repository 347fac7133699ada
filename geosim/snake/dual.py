"""The paper's route to Newton's direction: the Schur complement by preconditioned conjugate residuals.

With the mass blocks Mh (M / h^2 plus a bound on the geometric stiffness) and the compliances E,

    (J Mh^-1 J^T + E) dlambda = -(c + E lambda) + J Mh^-1 g,     dq = Mh^-1 (J^T dlambda - g),   g = Mh-row - J^T lambda,

solved from the multipliers of the step before, with a Jacobi preconditioner and a budget. Rows: six corotational
strains a tet, one a distance, three a point pair, one an axis or hinge spring, and for a closed contact the normal
(compliance 1/k, the root of the Fischer-Burmeister function) and two of friction with compliance W.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from geosim.arrays import Floats, Ints
from geosim.snake import joints
from geosim.snake.problem import Configuration, Evaluation, Substep

__all__ = ["DualDirection", "conjugate_residuals"]


def conjugate_residuals(
    apply: Any, right: Floats, preconditioner: Floats, iterations: int, tolerance: float
) -> tuple[Floats, int]:
    """Solve a symmetric positive semi-definite system from zero; `preconditioner` is a diagonal to multiply by.

    Algorithm 6.20 of Saad, Iterative Methods for Sparse Linear Systems, with a diagonal preconditioner.
    """
    x = np.zeros_like(right)
    r = preconditioner * right
    p, Ar = r.copy(), apply(r)
    Ap, rAr = Ar.copy(), float(r @ Ar)
    first = float(right @ r)
    residual = right.copy()
    for k in range(iterations):
        MAp = preconditioner * Ap
        bottom = float(Ap @ MAp)
        if bottom <= 0.0 or rAr <= 0.0:
            return x, k
        a = rAr / bottom
        x += a * p
        residual -= a * Ap
        r -= a * MAp
        if float(residual @ r) <= tolerance**2 * first:
            return x, k + 1
        Ar = apply(r)
        rAr, old = float(r @ Ar), rAr
        b = rAr / old
        p, Ap = r + b * p, Ar + b * Ap
    return x, iterations


def _cross(y: Floats) -> Floats:
    """Matrices [y]x of vectors (k, 3)."""
    out = np.zeros((len(y), 3, 3))
    out[:, 0, 1], out[:, 0, 2], out[:, 1, 2] = -y[:, 2], y[:, 1], -y[:, 0]
    return out - out.transpose(0, 2, 1)


class DualDirection:
    """Newton directions of one substep by the dual route; keeps the multipliers between its iterations."""

    def __init__(self, problem: Substep, multipliers: Floats | None, iterations: int, tolerance: float) -> None:
        self.problem = problem
        self.iterations = iterations
        self.tolerance = tolerance
        system = problem.system
        self._smooth = 6 * len(system.tets) + len(system.springs) + 3 * len(system.robot.pairs) + len(system.robot.axes)
        self.multipliers = np.zeros(self._smooth) if multipliers is None else np.array(multipliers)
        self._change = np.zeros(self._smooth)

    def accept(self, alpha: float) -> None:
        """Take the multipliers along by the step length of the line search."""
        self.multipliers = self.multipliers + alpha * self._change

    def solve(self, here: Configuration, now: Evaluation) -> tuple[Floats, int]:
        """Return the direction (slots, 3) at a configuration and the number of iterations it took."""
        system = self.problem.system
        J, c, E, inverse = self._rows(here, now)
        smooth = self._smooth
        # Rows of hinge springs and contacts start from their consistent multipliers, -c / E.
        start = np.concatenate([self.multipliers, -c[smooth:] / E[smooth:]])
        masses = self._mass_blocks(here, inverse)
        JT = J.T.tocsr()
        consistent = -c / E
        consistent[: 6 * len(system.tets)] = self._tet_multipliers(c)
        inertia = now.gradient + (JT @ consistent).reshape(-1, 3)
        inertia[~system.free] = 0.0
        g = inertia - (JT @ start).reshape(-1, 3)

        def through_mass(force: Floats) -> Floats:
            return np.einsum("sij,sj->si", masses, force)

        def apply(v: Floats) -> Floats:
            return J @ through_mass((JT @ v).reshape(-1, 3)).ravel() + self._compliance(E, v)

        # Row k of J times its own mass-weighted transpose: the diagonal of the Schur complement.
        diagonal = np.asarray(
            (J @ _block_diagonal(masses)).multiply(J).sum(axis=1)
        ).ravel() + self._compliance_diagonal(E)
        right = -(c + self._compliance(E, start)) + J @ through_mass(g).ravel()
        change, count = conjugate_residuals(apply, right, 1.0 / diagonal, self.iterations, self.tolerance)
        self._change = change[:smooth]
        return through_mass((JT @ change).reshape(-1, 3) - g), count

    def _compliance(self, E: Floats, v: Floats) -> Floats:
        """E v; for tets with E = K^-1 / V of the isotropic K, whose normal strains are coupled."""
        system = self.problem.system
        m = len(system.tets)
        out = E * v
        s = v[: 6 * m].reshape(m, 6)
        coupling = system.lam / (2 * system.mu * (3 * system.lam + 2 * system.mu)) / system.tet_volumes
        out[: 6 * m].reshape(m, 6)[:, :3] -= (coupling * s[:, :3].sum(axis=1))[:, None]
        return out

    def _compliance_diagonal(self, E: Floats) -> Floats:
        system = self.problem.system
        m = len(system.tets)
        out = E.copy()
        coupling = system.lam / (2 * system.mu * (3 * system.lam + 2 * system.mu)) / system.tet_volumes
        out[: 6 * m].reshape(m, 6)[:, :3] -= coupling[:, None]
        return out

    def _tet_multipliers(self, c: Floats) -> Floats:
        """-E^-1 c of the tets: minus volume times stress."""
        system = self.problem.system
        m = len(system.tets)
        strain = c[: 6 * m].reshape(m, 6)
        stress = strain * (system.mu[:, None] * np.array([2, 2, 2, 1, 1, 1]))
        stress[:, :3] += (system.lam * strain[:, :3].sum(axis=1))[:, None]
        return -(system.tet_volumes[:, None] * stress).ravel()

    def _mass_blocks(self, here: Configuration, bound: Floats) -> Floats:
        """Inverse mass blocks (slots, 3, 3), zero where held; `bound` (slots,) is added to the diagonal."""
        problem, system = self.problem, self.problem.system
        n, h2 = system.particles, problem.h**2
        blocks = (system.masses / h2)[:, None, None] * np.eye(3)
        for b in range(len(here.X)):
            B = (here.R[b] * system.second_moments[b]) @ problem.start.R[b].T
            blocks[n + 2 * b + 1] = (np.trace(B) * np.eye(3) - 0.5 * (B + B.T)) / h2
        blocks += bound[:, None, None] * np.eye(3)
        inverse = np.linalg.inv(blocks).astype(np.float64)
        inverse[~system.free] = 0.0
        return inverse

    def _rows(self, here: Configuration, now: Evaluation) -> tuple[Any, Floats, Floats, Floats]:
        """Jacobian (csr), constraints c, diagonal compliances E, and the bound on the geometric stiffness."""
        system, robot, problem = self.problem.system, self.problem.system.robot, self.problem
        n = system.particles
        bound = np.zeros(system.slots)
        parts: list[tuple[Ints, Floats]] = []  # (slots (k, a), values (k, r, a, 3)): r rows on a slots each
        cs, Es = [], []
        if len(system.tets):
            shapes, rotations = (a.T.reshape(-1, 3, 3) for a in (system.tet_shapes, now.rotations))
            values, strain = _tet_rows(here.x, system.tets, shapes, rotations)
            parts.append((system.tets, values))
            cs.append(strain.ravel())
            young = system.mu * (3 * system.lam + 2 * system.mu) / (system.lam + system.mu)
            # K^-1 has (1 + nu)/E - nu/E on the normal strains (the second part in `_compliance`), 1/mu on shear.
            normal, shear = 1.0 / (2 * system.mu), 1.0 / system.mu
            Es.append((np.column_stack([normal] * 3 + [shear] * 3) / system.tet_volumes[:, None]).ravel())
            bound += _tet_bound(strain, system, young)
        if len(system.springs):
            d = here.x[system.springs[:, 0]] - here.x[system.springs[:, 1]]
            length = np.linalg.norm(d, axis=1)
            normal = d / length[:, None]
            parts.append((system.springs, np.stack([normal, -normal], axis=1)[:, None]))
            k = problem.stiffness
            # A line at rest pressure has no stiffness: a row with a huge compliance does nothing.
            E = 1.0 / np.maximum(k, 1e-9)
            cs.append(length - problem.rest)
            Es.append(E)
            across = np.maximum(k * (1.0 - problem.rest / length), 0.0)
            np.add.at(bound, system.springs, 2.0 * across[:, None])
        self._point_rows(here, parts, cs, Es)
        for s in range(len(robot.axes)):
            u, w, m = np.empty(3), np.empty(3), np.empty(3)
            c = joints._axis(robot.axes[s], robot.axis_vectors[s], here.R, u, w, m)
            slots = np.where(robot.axes[s] < 0, -1, n + 2 * robot.axes[s] + 1)
            parts.append((slots[None], np.stack([m, -m])[None, None]))
            cs.append(np.array([c]))
            Es.append(1.0 / robot.axis_stiffness[s : s + 1])
        self._hinge_rows(here, parts, cs, Es)
        self._contact_rows(here, parts, cs, Es)
        return (
            _assemble(parts, system.slots, system.free),
            np.concatenate(cs) if cs else np.empty(0),
            np.concatenate(Es) if Es else np.empty(0),
            bound,
        )

    def _point_rows(self, here: Configuration, parts: list, cs: list, Es: list) -> None:
        robot, n = self.problem.system.robot, self.problem.system.particles
        scratch = np.empty((4, 3))
        for s in range(len(robot.pairs)):
            pa, ya, pb, yb = scratch
            joints._point(robot.pairs[s, 0], robot.pair_points[s, 0], here.x, here.X, here.R, n, pa, ya)
            joints._point(robot.pairs[s, 1], robot.pair_points[s, 1], here.x, here.X, here.R, n, pb, yb)
            slots, J = self._point_pair(robot.pairs[s, 0], ya, robot.pairs[s, 1], yb)
            parts.append((slots[None], J[None]))
            cs.append(pa - pb)
            Es.append(np.full(3, 1.0 / robot.pair_stiffness[s]))

    def _point_pair(self, a: int, ya: Floats, b: int, yb: Floats) -> tuple[Ints, Floats]:
        """Slots (4,) and Jacobian (3, 4, 3) of the difference of two points."""
        n = self.problem.system.particles
        slots = np.full(4, -1)
        for i, node in ((0, a), (2, b)):
            if node >= n:
                slots[i : i + 2] = n + 2 * (node - n), n + 2 * (node - n) + 1
            elif node >= 0:
                slots[i] = node
        J = np.zeros((3, 4, 3))
        J[:, 0], J[:, 2] = np.eye(3), -np.eye(3)
        J[:, 1], J[:, 3] = -_cross(ya[None])[0], _cross(yb[None])[0]
        return slots, J

    def _hinge_rows(self, here: Configuration, parts: list, cs: list, Es: list) -> None:
        """Springs, dampers and limits of a hinge as one row: compliance 1/k and c = torque / k."""
        robot, n, h = self.problem.system.robot, self.problem.system.particles, self.problem.h
        for s in range(len(robot.hinges)):
            axis = np.empty(3)
            angle = joints.hinge_angle(robot.hinges[s], robot.hinge_frames[s], here.R, axis)
            kp, target, kd, lower, upper, kl = robot.hinge_gains[s]
            turn = angle - self.problem.hinge_start[s]
            turn -= 2 * np.pi * np.round(turn / (2 * np.pi))
            over = max(angle - upper, 0.0) + min(angle - lower, 0.0)
            k = kp + kd / h + (kl if over != 0 else 0.0)
            if k == 0:
                continue
            slots = np.where(robot.hinges[s] < 0, -1, n + 2 * robot.hinges[s] + 1)
            parts.append((slots[None], np.stack([-axis, axis])[None, None]))
            cs.append(np.array([(kp * (angle - target) + kd / h * turn + kl * over) / k]))
            Es.append(np.array([1.0 / k]))

    def _contact_rows(self, here: Configuration, parts: list, cs: list, Es: list) -> None:
        """Closed contacts: a normal row with compliance 1/k, and two rows of friction with compliance W."""
        problem = self.problem
        slots, rows, values = problem.contact_rows(here)
        for place, row, value, mu in zip(slots, rows, values, problem.contacts.reals[:, 9]):
            if value[0] >= 0:
                continue
            k = 3 if mu > 0 else 1
            parts.append((place[None], row[None, :k]))
            cs.append(value[:k])
            slide = max(float(np.linalg.norm(value[1:])), problem.creep)
            compliance = [1.0, *[slide / (max(mu, 1e-300) * -value[0])] * 2]
            Es.append(np.array(compliance[:k]) / problem.contact_stiffness)


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


def _tet_bound(strain: Floats, system: Any, young: Floats) -> Floats:
    """Bound on the geometric stiffness of tets at their vertices: tension times the squared shape gradients."""
    out = np.zeros(system.slots)
    stretch = np.maximum(strain[:, :3], 0.0).sum(axis=1)
    B = system.tet_shapes.T.reshape(-1, 3, 3)
    grad = np.concatenate([-B.sum(axis=1, keepdims=True), B], axis=1)
    size = (system.tet_volumes * young * stretch)[:, None] * (grad**2).sum(axis=2)
    np.add.at(out, system.tets, size)
    return out


def _assemble(parts: list, slots: int, free: Any) -> Any:
    """Stack row groups into one sparse Jacobian; held and missing slots are left out."""
    rows, columns, values, first = [], [], [], 0
    for group, value in parts:
        k, r = value.shape[:2]
        row = first + (np.arange(k)[:, None] * r + np.arange(r))
        keep = (group >= 0) & free[np.maximum(group, 0)]
        row4 = np.broadcast_to(row[:, :, None, None], value.shape)
        column4 = np.broadcast_to((3 * group[:, None, :, None] + np.arange(3)), value.shape)
        mask = np.broadcast_to(keep[:, None, :, None], value.shape)
        rows.append(row4[mask])
        columns.append(column4[mask])
        values.append(value[mask])
        first += k * r
    if not parts:
        return scipy.sparse.csr_matrix((0, 3 * slots))
    return scipy.sparse.csr_matrix(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=(first, 3 * slots)
    )


def _block_diagonal(blocks: Floats) -> Any:
    """Sparse matrix with 3x3 blocks on its diagonal."""
    k = len(blocks)
    return scipy.sparse.bsr_matrix((blocks, np.arange(k), np.arange(k + 1)), shape=(3 * k, 3 * k)).tocsr()
