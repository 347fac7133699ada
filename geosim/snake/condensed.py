"""Newton directions of the primal route, with few contacts solved exactly in their own unknowns.

All that is stiff, wide and smooth (tets, fibres, joints, inertia) is linearised and factored without the contacts, A.
Their unknowns are few: with g the whole gradient now, z the gaps and slips of c contacts at the end of the step and
J their derivatives,

    z = b - (J A^-1 J^T) p(z),    b = z_now - J A^-1 g + (J A^-1 J^T) p(z_now),
    dq = -A^-1 (g + J^T (p(z) - p(z_now))),

where p(z) is the law of contact and friction itself, with its kinks. (All that A is applied to vanishes at the
solution, so that its precision does not limit that of the step.) These 3 c equations are solved to rounding by
Newton's method, so that no wheel that begins or ceases to slip costs an iteration, or a factorisation, of the whole.

A factor A_0 is kept over iterations, substeps and frames. What changes in A is first of all that stiff rows (fibres,
attachments) turn with the material, and the iteration diverges with a factor that does not. A fibre of stiffness k that
has turned by d resists sideways with k d^2. So it is turned along,

    A ~ Q A_0 Q^T,    Q the rotations of all slots since it was factored (see `turns_since`),

with which it contracts as well after four substeps as after one. It is renewed where it contracts poorly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from geosim.arrays import Floats, Ints
from geosim.kernels import kernel
from geosim.linear.block_tridiagonal import BlockTridiagonal, multiply
from geosim.linear.krylov import flexible_gmres
from geosim.linear.matrix3 import dot, plus, put, row, scaled, tuple3, turned_back
from geosim.snake.contact import add_coupling, contact_law
from geosim.snake.problem import MultibodyEvaluation, Substep
from geosim.snake.rotation import turned_slots, turns_since
from geosim.snake.system import Workspace

_MAX_DENSE_CONTACTS = (
    40  # contacts a chain up to which their dense system is worth it (measured: above, the matrix with them is cheaper)
)
# Iterations of GMRES with the coupling of friction and normal force, of rank one a contact; mostly 3 to 6.
MAX_COUPLING_ITERATIONS = 20


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
    """Solve z = b - G p(z) from the guess z (c, 3) in place, p (c, 3) too; returns (the residual [m], iterations).

    Newton's method. A slip that would turn round is stopped where it comes closest to zero: there the contact sticks,
    and the next step is exact. A step that leaves more than before is halved.
    """
    n, c = len(b), len(z)
    slope, A, F, G_slope = np.empty((c, 3, 3)), np.empty((n, n)), np.empty(n), np.empty(3)
    trial, best = np.empty((c, 3)), z.copy()
    contact_law(z, friction, stiffness, creep, p, slope)
    left = least = _left(G, b, z, p, F)
    rounding_m = 1e-14  # what may be left of z [m]: rounding of places of a metre is above it
    for iteration in range(iterations):
        if not left > rounding_m:  # nan of a motion that has come apart ends here, too
            return left, iteration
        for i in range(n):
            for k in range(c):
                for j in range(3):
                    G_slope[j] = 0.0
                    for m in range(3):
                        G_slope[j] += G[i, 3 * k + m] * slope[k, m, j]
                for j in range(3):
                    A[i, 3 * k + j] = G_slope[j] + (1.0 if i == 3 * k + j else 0.0)
        step = np.linalg.solve(A, -F)
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
def _project(half, filled, row_group, w, out):
    """out[g] = sum of the rows r of group g of half[r] w[r]; row r is zero from column filled[r] on."""
    out[:] = 0.0
    for r in range(len(w)):
        row, mine, x = half[r], out[row_group[r]], w[r]
        for c in range(filled[r]):
            mine[c] += row[c] * x


@kernel(fastmath=True)
def _spread(half, filled, row_group, p, w):
    """w[r] += half[r] . p[g] for the rows r of all groups g; row r of half is zero from column filled[r] on."""
    for r in range(len(w)):
        row, mine, total = half[r], p[row_group[r]], w[r]
        for c in range(filled[r]):
            total += row[c] * mine[c]
        w[r] = total


@kernel
def condensed_pushes(contact, law, owner, turns, columns, product, free, pushes):
    """Solve the contacts of every group and write what they push with, J^T (p(z_now) - p(z)), to `pushes` (groups, w).

    `contact` are slots, Jacobian, values z_now and forces p(z_now), `law` friction, stiffness and creep, `owner` (c,) the
    groups of the contacts; `free` (groups, w) is -E^T A^-1 g for the unit vectors E of the slots, whose columns begin at
    columns[slot], and `product` (groups, w, w) is E^T A^-1 E. Jacobians are turned back by `turns` (slots, 3, 3). Returns the
    most iterations.
    """
    (slots, jacobian, values, forces), (friction, stiffness, creep), most = contact, law, 0
    pushes[:] = 0.0
    for g in range(len(product)):
        own = np.flatnonzero(owner == g)
        k, P = len(own), product[g]
        if k == 0:
            continue
        at, back = np.full((k, 4), -1), np.zeros((k, 4, 3, 3))
        z, p, before = np.empty((k, 3)), np.empty((k, 3)), np.empty(3 * k)
        b, G = np.empty(3 * k), np.zeros((3 * k, 3 * k))
        for c in range(k):
            put(z[c], row(values, own[c]))
            put(before[3 * c :], row(forces, own[c]))
            put(b[3 * c :], row(z, c))
            for s in range(4):
                slot = slots[own[c], s]
                if slot >= 0:
                    at[c, s] = columns[slot]
                    for r in range(3):
                        v = turned_back(turns[slot], row(jacobian[own[c], r], s))
                        put(back[c, s, r], v)
                        b[3 * c + r] += dot(v, free[g, at[c, s] :])
        for c in range(k):
            for s in range(4):
                for d in range(k):
                    for t in range(4):
                        if at[c, s] >= 0 and at[d, t] >= 0:
                            _add_compliance(G[3 * c :, 3 * d :], back[c, s], P[at[c, s] :, at[d, t] :], back[d, t])
        for i in range(3 * k):
            for j in range(3 * k):
                b[i] += G[i, j] * before[j]
        iterations = 60  # of these small systems; mostly fewer than ten are taken
        _, count = solve_contacts(G, b, friction[own], stiffness, creep, iterations, z, p)
        most = max(most, count)
        for c in range(k):
            for s in range(4):
                if at[c, s] >= 0:
                    for r in range(3):
                        change = before[3 * c + r] - p[c, r]
                        for i in range(3):
                            pushes[g, at[c, s] + i] += change * back[c, s, r, i]
    return most


@kernel
def _add_compliance(G, left, P, right):
    """G += left P right^T, all 3x3 (the first three rows and columns of G and P)."""
    for r in range(3):
        v = (0.0, 0.0, 0.0)
        for i in range(3):
            v = plus(v, scaled(left[r, i], tuple3(P[i])))
        for q in range(3):
            G[r, q] += dot(v, right[q])


@dataclass(frozen=True, eq=False)
class Factored:
    """What a kept factor was made of: it can be made again, bit by bit, wherever another has taken its memory."""

    problem: Substep
    now: MultibodyEvaluation
    clamp: bool

    def held_by(self, workspace: Workspace) -> bool:
        """Factor it, if the workspace does not hold it; False if it is not positive definite."""
        if workspace.held is not self:
            blocks = self.problem.assemble(self.now, self.clamp, contacts=False)
            workspace.held = self if workspace.factor.factor(blocks, self.clamp) else None
        return workspace.held is self


@dataclass(frozen=True)
class Kept:
    """A factor that is kept from one substep to the next, and whether it is `worn`: it took many iterations of late."""

    factored: Factored | None = None
    worn: bool = False

    def fits(self, problem: Substep) -> bool:
        """Whether there is one, of a problem of the same robot and step length."""
        then = self.factored
        return then is not None and then.problem.h == problem.h and then.problem.system is problem.system


class NewtonDirection:
    """Finds Newton's directions of one substep; this root keeps no factors.

    `count` is that of the factorisations so far, of those that are kept.
    """

    count = 0

    @property
    def renewable(self) -> bool:
        """Whether the last direction was that of an older factor, and a new one is allowed."""
        return False

    def stale(self, before: MultibodyEvaluation, after: MultibodyEvaluation) -> bool:
        """Whether that factor contracts poorly."""
        return False

    def solve(self, now: MultibodyEvaluation, rough: bool, fresh: bool = False) -> tuple[Floats, int]:
        """Return the direction (slots, 3) and how many linear iterations it took; `rough` asks for damped friction.

        With `fresh` no factor of before is used.
        """
        raise NotImplementedError

    def accept(self, alpha: float) -> None:
        """Take the step length of the line search into account."""

    def keep(self, iterations: int, ended: bool) -> Kept:
        """Return what the next substep may go on with, after one of this many iterations or one that had to be `ended`."""
        return Kept()


class MatrixDirection(NewtonDirection):
    """The multipliers eliminated, the contacts part of the matrix."""

    def __init__(self, problem: Substep, workspace: Workspace, forcing: float) -> None:
        self.problem, self.workspace, self.forcing = problem, workspace, forcing

    def solve(self, now: MultibodyEvaluation, rough: bool, fresh: bool = False) -> tuple[Floats, int]:
        """Return the direction and the iterations that it took."""
        for clamp in (True,) if rough else (False, True):
            found = self._solved(now, clamp)
            if found is not None:
                return found
        # Where even the semi-definite stiffness failed in floating point the mass alone always descends.
        return self.problem.steepest(now), 0

    def _solved(self, now: MultibodyEvaluation, clamp: bool) -> tuple[Floats, int] | None:
        """Solve with one stiffness; None if it cannot be factored."""
        factor, pattern = self.workspace.factor, self.problem.system.pattern
        blocks = self.problem.assemble(now, clamp)
        self.workspace.held = None
        if not factor.factor(blocks, clamp):
            return None
        slots, rows = self.problem.coupling(now.contact)
        # The clamped system leaves out how friction follows the normal force: it is symmetric and always descends.
        if clamp or not len(slots):
            return factor.solve(-now.gradient), 1

        def product(v: Floats) -> Floats:
            out = np.empty_like(v)
            multiply(blocks, pattern.rows, pattern.columns, v, out)
            add_coupling(slots, rows, v, out)
            return out

        direction, count, _ = flexible_gmres(
            product, factor.solve, -now.gradient, self.forcing, MAX_COUPLING_ITERATIONS
        )
        return direction, count


class CondensedDirection(NewtonDirection):
    """The multipliers eliminated, the contacts solved in their own unknowns; `plain` solves where nothing can be factored.

    Parameters
    ----------
    kept
        Factor of a substep before.
    most
        Factorisations that are allowed; None: any number.
    """

    def __init__(
        self, problem: Substep, workspace: Workspace, plain: MatrixDirection, kept: Kept, most: int | None
    ) -> None:
        assert isinstance(workspace.factor, BlockTridiagonal)
        self.problem, self.workspace, self.factor, self.plain = problem, workspace, workspace.factor, plain
        self.most = np.inf if most is None else most
        self.kept = kept if kept.fits(problem) else Kept()
        self._at: MultibodyEvaluation | None = None
        touched = np.unique(problem.contact_slots)
        self._touched = touched[touched >= 0]
        chains, ends = self.factor.chain_count, self.factor.chains[problem.contact_ends]
        self.group = np.arange(chains)
        if (ends[:, 0] != ends[:, 1]).any():  # contacts of chains that touch each other are solved together
            graph = coo_matrix((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(chains, chains))
            self.group = connected_components(graph, directed=False)[1].astype(np.int64)
        self.owner = self.group[ends[:, 0]]

    def solve(self, now: MultibodyEvaluation, rough: bool, fresh: bool = False) -> tuple[Floats, int]:
        """Return the direction (slots, 3) and the iterations of the contacts.

        With `fresh` the stiffness is factored anew, as far as that is allowed.
        """
        self._at = now
        factored, due = self.kept.factored, (fresh or self.kept.worn) and self._left > 0
        if factored is None or due or not factored.held_by(self.workspace):
            factored = self._renewed(now)
        if factored is None:
            return self.plain.solve(now, rough)
        system = self.problem.system
        poses = (now.rotations, factored.now.rotations, now.place.Q, factored.now.place.Q)
        turns = turns_since(system.turning, system.soft.corners, *poses, system.turned_with)
        w = self.factor.forward(-turned_slots(turns, now.gradient, True))
        if not len(self.owner):
            return turned_slots(turns, self.factor.backward(w), False), 0
        half, product, columns, filled, row_group = self._halves()
        free, pushes = (np.empty((len(product), half.shape[1]), dtype=half.dtype) for _ in range(2))
        _project(half, filled, row_group, w, free)
        contact = (now.contact.slots, now.contact.jacobian, now.contact.values, now.contact.forces)
        law = (self.problem.contacts.friction, self.problem.contact_stiffness, self.problem.creep)
        count = condensed_pushes(contact, law, self.owner, turns, columns, product, free, pushes)
        _spread(half, filled, row_group, pushes, w)
        return turned_slots(turns, self.factor.backward(w), False), count

    def keep(self, iterations: int, ended: bool) -> Kept:
        """Return the factor, worn after a substep that took many iterations or had to be `ended`."""
        worn_factor_iterations = 3  # iterations of a substep above which the next one begins with a new factor
        return replace(self.kept, worn=ended or iterations > worn_factor_iterations)

    @property
    def renewable(self) -> bool:
        """Whether the last direction was that of an older factor, and a new one is allowed."""
        factored = self.kept.factored
        return factored is not None and factored.now is not self._at and self._left > 0

    def stale(self, before: MultibodyEvaluation, after: MultibodyEvaluation) -> bool:
        """Whether the factor contracts poorly what no contact acts on: for their kinks it cannot help."""
        sizes = [float(np.linalg.norm(np.delete(e.gradient, self._touched, axis=0))) for e in (before, after)]
        stale_factor_share = 0.5  # share of what a step should remove that may be left before the factor is renewed
        return not sizes[1] <= stale_factor_share * sizes[0]

    @property
    def _left(self) -> float:
        """Factorisations that are allowed yet."""
        return self.most - self.count

    def _renewed(self, now: MultibodyEvaluation) -> Factored | None:
        """Factor the stiffness at a configuration; None if it is not positive definite.

        The semi-definite part lasts longer, but where it contracts poorly although it is of this substep the exact stiffness
        is what is missing.
        """
        before = self.kept.factored
        poor = before is not None and before.problem is self.problem and self._left >= 2
        self.kept = Kept()
        for clamp in (False, True) if poor else (True,):
            made = Factored(self.problem, now, clamp)
            self.count += 1
            if made.held_by(self.workspace):
                self.kept = Kept(made)
                return made
        return None

    def _halves(self) -> tuple[Floats, Floats, Ints, Ints, Ints]:
        """T^-T E of the unit vectors E of all slots that contacts act on, E^T A^-1 E, and the first column of a slot.

        Also how many columns of a row are filled, and its group.

        They stay as long as the factor: what a contact does to its slots turns, and is multiplied in every iteration.
        """
        slots, key = self._touched, (self.kept.factored, self._touched.tobytes(), self.group.tobytes())
        if self.workspace.halves is None or self.workspace.halves[0] != key:
            half, product, column, filled = self.factor.forward_units(slots, self.group)
            columns = np.full(self.problem.system.slots, -1)
            columns[slots] = column
            self.workspace.halves = (key, half, product, columns, filled, self.factor.row_groups(self.group))
        return self.workspace.halves[1:]


def primal_direction(
    problem: Substep, workspace: Workspace, forcing: float, kept: Kept, most: int | None = None
) -> NewtonDirection:
    """Return what solves the primal matrix: few contacts in their own unknowns, many as part of the matrix."""
    plain, factor = MatrixDirection(problem, workspace, forcing), workspace.factor
    if isinstance(factor, BlockTridiagonal) and len(problem.contacts.pair) <= _MAX_DENSE_CONTACTS * factor.chain_count:
        return CondensedDirection(problem, workspace, plain, kept, most)
    return plain
