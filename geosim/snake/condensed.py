"""Newton directions with the contacts solved exactly in their own unknowns.

All that is stiff, wide and smooth (tets, fibres, joints, inertia) is linearised and factored without the contacts, A.
Their unknowns are few: with g the whole gradient now, z the gaps and slips of c contacts at the end of the step and
J their derivatives,

    z = b - (J A^-1 J^T) p(z),    b = z_now - J A^-1 g + (J A^-1 J^T) p(z_now),
    dq = -A^-1 (g + J^T (p(z) - p(z_now))),

where p(z) is the law of contact and friction itself, with its kinks. (All that A is applied to vanishes at the
solution, so that its precision does not limit that of the step.) These 3 c equations are solved to rounding by
Newton's method, so that no wheel that begins or ceases to slip costs an iteration, or a factorisation, of the whole.
(A factor kept from the substep before was tried: the stiff rows turn with the carriages, the iteration then takes
three steps instead of one, and costs more than the factor.)
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from geosim.arrays import Floats, Ints
from geosim.kernels import kernel
from geosim.linear.block_tridiagonal import BlockTridiagonal
from geosim.snake.contact import contact_law
from geosim.snake.problem import Evaluation, Substep
from geosim.snake.system import Workspace

__all__ = ["CondensedDirection", "solve_contacts"]

_MOST = (
    40  # contacts a chain up to which their dense system is worth it (measured: above, the matrix with them is cheaper)
)
_ITERATIONS = 60  # of these small systems; mostly fewer than ten are taken
_ROUNDED = 1e-14  # what may be left of z [m]: rounding of places of a metre is above it


@kernel
def _eliminate(A, y):
    """Solve A x = y in place by Gaussian elimination with partial pivoting."""
    n = len(y)
    for k in range(n):
        best = k
        for i in range(k + 1, n):
            if abs(A[i, k]) > abs(A[best, k]):
                best = i
        if best != k:
            for j in range(k, n):
                A[k, j], A[best, j] = A[best, j], A[k, j]
            y[k], y[best] = y[best], y[k]
        for i in range(k + 1, n):
            f = A[i, k] / A[k, k]
            if f != 0.0:
                for j in range(k + 1, n):
                    A[i, j] -= f * A[k, j]
                y[i] -= f * y[k]
    for k in range(n - 1, -1, -1):
        for j in range(k + 1, n):
            y[k] -= A[k, j] * y[j]
        y[k] /= A[k, k]


@kernel
def _left(G, b, z, p, F):
    """F = z - b + G p; returns its norm."""
    n, total = len(b), 0.0
    for i in range(n):
        F[i] = z[i // 3, i % 3] - b[i]
        for j in range(n):
            F[i] += G[i, j] * p[j // 3, j % 3]
        total += F[i] ** 2
    return np.sqrt(total)


@kernel
def solve_contacts(G, b, friction, stiffness, creep, iterations, z, p):
    """Solve z = b - G p(z) from the guess z (c, 3) in place, p (c, 3) too; returns (what is left [m], iterations).

    Newton's method. A slip that would turn round is stopped where it comes closest to zero: there the contact sticks,
    and the next step is exact. A step that leaves more than before is halved.
    """
    n, c = len(b), len(z)
    slope, A, F, G_slope = np.empty((c, 3, 3)), np.empty((n, n)), np.empty(n), np.empty(3)
    trial, best = np.empty((c, 3)), z.copy()
    contact_law(z, friction, stiffness, creep, p, slope)
    left = least = _left(G, b, z, p, F)
    for iteration in range(iterations):
        if left <= _ROUNDED:
            return left, iteration
        for i in range(n):
            for k in range(c):
                for j in range(3):
                    G_slope[j] = 0.0
                    for m in range(3):
                        G_slope[j] += G[i, 3 * k + m] * slope[k, m, j]
                for j in range(3):
                    A[i, 3 * k + j] = G_slope[j] + (1.0 if i == 3 * k + j else 0.0)
        step = -F
        _eliminate(A, step)
        alpha, before = 1.0, left
        for _ in range(6):
            for k in range(c):
                for i in range(3):
                    trial[k, i] = z[k, i] + alpha * step[3 * k + i]
                turn = trial[k, 1] * z[k, 1] + trial[k, 2] * z[k, 2]
                if turn < 0.0 and z[k, 1] ** 2 + z[k, 2] ** 2 > creep * creep:
                    dx, dy = trial[k, 1] - z[k, 1], trial[k, 2] - z[k, 2]
                    part = -(dx * z[k, 1] + dy * z[k, 2]) / (dx * dx + dy * dy)
                    trial[k, 1], trial[k, 2] = z[k, 1] + part * dx, z[k, 2] + part * dy
            contact_law(trial, friction, stiffness, creep, p, slope)
            left = _left(G, b, trial, p, F)
            if left < before:
                break
            alpha *= 0.5
        z[:] = trial
        if left < least:
            least = left
            best[:] = z
    z[:] = best
    contact_law(z, friction, stiffness, creep, p, slope)
    return least, iterations


@kernel
def _project(half, row_group, w, out):
    """out[g] = sum of the rows r of group g of half[r] w[r]."""
    out[:] = 0.0
    for r in range(len(w)):
        row, mine, x = half[r], out[row_group[r]], w[r]
        for c in range(len(row)):
            mine[c] += row[c] * x


@kernel(fastmath=True)
def _spread(half, row_group, p, w):
    """w[r] += half[r] . p[g] for the rows r of all groups g."""
    for r in range(len(w)):
        row, mine, total = half[r], p[row_group[r]], w[r]
        for c in range(len(row)):
            total += row[c] * mine[c]
        w[r] = total


class CondensedDirection:
    """Directions of one substep: which contacts belong together, and the solution of their equations."""

    def __init__(self, problem: Substep, workspace: Workspace) -> None:
        assert isinstance(workspace.factor, BlockTridiagonal)
        self.problem, self.factor = problem, workspace.factor
        # Chains that touch each other form a group, whose contacts are solved together.
        count, ends = self.factor.chain_count, self.factor.chains[problem.contact_ends]
        self.group = np.arange(count)
        if (ends[:, 0] != ends[:, 1]).any():
            graph = coo_matrix((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(count, count))
            self.group = connected_components(graph, directed=False)[1].astype(np.int64)
        self.row_group = self.factor.row_groups(self.group)
        self.owner = self.group[ends[:, 0]]

    @staticmethod
    def suits(problem: Substep, workspace: Workspace) -> bool:
        """Whether the contacts are few enough, and the factor one that can be halved."""
        factor = workspace.factor
        return isinstance(factor, BlockTridiagonal) and len(problem.contacts.pair) <= _MOST * factor.chain_count

    def solve(self, now: Evaluation) -> tuple[Floats, int] | None:
        """Return the direction (slots, 3) and the iterations of the contacts; None if nothing could be factored."""
        assembled = lambda clamp: self.problem.assemble(now, clamp, contacts=False)  # noqa: E731
        if not any(self.factor.factor(assembled(clamp), clamp) for clamp in (False, True)):
            return None
        w = self.factor.forward(-now.gradient)
        if not len(self.owner):
            return self.factor.backward(w), 0
        slots, jacobian = np.repeat(now.contact.slots, 3, axis=0), now.contact.jacobian.reshape(-1, 4, 3)
        half, product, column = self.factor.forward_rows(slots, jacobian, self.group)
        free, pushes = (np.zeros((len(product), half.shape[1]), dtype=half.dtype) for _ in range(2))
        _project(half, self.row_group, w, free)
        most = 0
        for g in range(len(product)):
            own = np.flatnonzero(self.owner == g)
            own = own[np.argsort(column[3 * own])]
            if len(own):
                k = 3 * len(own)
                pushes[g, :k], count = self._pushes(now, own, product[g, :k, :k], free[g, :k])
                most = max(most, count)
        _spread(half, self.row_group, pushes, w)
        return self.factor.backward(w), most

    def _pushes(self, now: Evaluation, own: Ints, product: Floats, free: Floats) -> tuple[Floats, int]:
        """p(z_now) - p(z) of the contacts of one group, and the iterations that it took.

        `product` is J A^-1 J^T of these contacts, `free` = -J A^-1 g.
        """
        z, before, p = now.contact.values[own].copy(), now.contact.forces[own].ravel(), np.empty((len(own), 3))
        law = (self.problem.contacts.friction[own], self.problem.contact_stiffness, self.problem.creep)
        G = np.ascontiguousarray(product)
        _, count = solve_contacts(G, z.ravel() + free + G @ before, *law, _ITERATIONS, z, p)
        return before - p.ravel(), count
