"""The global matrix that follows the material: 3x3 blocks between vertices, the second derivative of the merit.

The scalar matrix of [Fang2022] knows one weight an element, and the iteration needs hundreds of steps to learn the rest. This one
is the second derivative of the merit. The pressure of a patch couples all its vertices, so it stays an unknown,

    [ K    B ] [dx]   [-f]        B: columns dg_v/dx of the growth of the patch of vertex v, C the compliance of patches
    [ B^T -C ] [q ] = [ 0]        (see `Patches`), which is K + B C^-1 B^T with the pattern of the mesh.

The volume of every chamber and the length of every string is a border of one row, and springs of contact enter with all their
couplings. Factors serve for more than one matrix: they precondition.

A step is a straight line for every vertex. Where a slender robot turns, straight lines stretch it, and the stretch, being stiff,
forbids all but short steps. So the rotation of every element is told from its strain, and the scalar matrix joins what
they ask for: one more local and one more global step, in the sense of the paper [Huang et al. 2011].
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from geosim.arrays import Bools, Floats, Ints
from geosim.linear.factorise import Factoriser, make_factoriser
from geosim.linear.krylov import conjugate_gradients, dots
from geosim.linear.patterns import Coupled, Sparsity, add_blocks, carriers, couples, in_threes, widened
from geosim.shape.projective.contact import NO_SPRINGS, ContactSprings
from geosim.shape.projective.elements import Elements, GlobalMatrix
from geosim.shape.projective.stiffness_kernels import turning_forces, wall_gradient, wall_stiffness

__all__ = ["MaterialMatrix"]

# Iterations with old factors that cost as much as new ones, and as the analysis where new springs widen the pattern (measured: 8
# and 5 with 50k unknowns, 5 and 6 with 38k); where the pace after a few says that more would be needed, old factors are given up.
# With new ones six times as many are taken before the matrix counts as one that is not positive definite.
REFACTOR_COST_ITERATIONS, ANALYSIS_COST_ITERATIONS = 8, 4
# Share of what is not convex in the elements that is cut off: the least but none, its growth where the matrix is not positive
# definite, and its fall from step to step where it is. Factors that say so a second time are followed by those of the whole cut:
# three tenths were mostly too little where a tenth was. The whole at once takes fewer factors and more steps (a slot to
# V/V0 = 115: 167 iterations for 128). A share that falls more slowly shortens more steps (1.5: 40 instead of 36 iterations of a
# slot to V/V0 = 12), one that falls faster is taken back more often (4: 18 instead of 14 factorisations).
# Far from balance, at a residual above the last number, what is cut off is all at once, and stays so until the residual falls:
# each share that is too small costs a factorisation (slot, square and star to V/V0 = 115: 361 factorisations in 481
# iterations; at 0.01 359 in 576; never, 428 in 498).
LEAST_CUT, TIGHTEN, LOOSEN, FAR_RESIDUAL = 0.1, 3.0, 2.5, 0.1


@dataclass(frozen=True)
class Cut:
    """The share of what is not convex in the elements that is cut off.

    Parameters
    ----------
    share
        0 .. 1.
    tightened
        Whether it has grown since the last step.
    far
        Whether the step is far from balance, where all is cut off at once.
    """

    share: float = 0.0
    tightened: bool = False
    far: bool = False

    def followed(self, residual: float, fall: float) -> Cut:
        """Return the cut of the next step, whose residual is smaller by the factor `fall`."""
        far = residual > FAR_RESIDUAL
        stays = self.tightened or (far and fall < LOOSEN)
        share = self.share / (1.0 if stays else max(LOOSEN, fall))
        return Cut(share if share >= LEAST_CUT else 0.0, far=far)


@dataclass(frozen=True)
class _Linearised:
    """What the second derivative at one shape is made of.

    Parameters
    ----------
    x, pulls
        The shape [m], and pulls of the chambers [Pa].
    driven
        Chambers whose volume is a border.
    sides, soft
        Borders (b, size): slopes of volumes of chambers and of lengths of strings; and what they give way by, (b,).
    strung, couplings
        Nodes and slopes of strings alone, and of all that couples nodes, springs of contact included.
    data, convex
        Values of the matrix as it is cut, and of the matrix that is cut whole; None: not made yet.
    """

    x: Floats
    pulls: Floats
    driven: Ints
    sides: Floats
    soft: Floats
    strung: list[tuple[Ints, Floats]]
    couplings: list[tuple[Ints, Floats]]
    data: Floats
    convex: Floats | None = None


@dataclass(frozen=True)
class _Factors:
    """Factors of a matrix, and what block elimination of its borders needs.

    Parameters
    ----------
    factoriser, pattern
        Of the unknowns that are no borders.
    sides, columns
        The borders (b, size), and solutions for them.
    schur
        What is left of the borders' equations, (b, b).
    """

    factoriser: Factoriser
    pattern: Sparsity
    sides: Floats
    columns: Floats
    schur: Floats


class MaterialMatrix:
    """The second derivative of the merit, its fixed vertices eliminated.

    A factorisation costs as much as a dozen solves. So each serves as long as it is good: it preconditions conjugate
    gradients on the matrix of the day, in single precision, springs of contact included. Where these meet a direction along
    which the matrix curves downwards, more of what is not convex is cut off at once: no factorisation is spent on learning it.

    Parameters
    ----------
    elements
        What is differentiated.
    free
        Vertices that move.

    Attributes
    ----------
    moving
        Those of them that stand in the matrix, in its order: all but the inside of chambers.
    cut
        What is cut off of what is not convex.
    factorisations
        How many there were.
    """

    def __init__(self, elements: Elements, free: Ints) -> None:
        self.elements, self.free = elements, free
        self.factorisations = 0
        self._scalar = GlobalMatrix(elements.assembled(*elements.scalar_weights()), free, NO_SPRINGS)
        assert elements.patches is not None
        self._patches, patches = elements.patches, elements.patches.ids
        tets = elements.body.tets
        self._pairs = np.repeat(tets, 4, axis=1).ravel(), np.tile(tets, (1, 4)).ravel()  # of corners of an element
        self.moving = self._in_order(np.intersect1d(free, patches))
        self._size = 3 * len(self.moving)
        self._node = np.full(elements.count, -1)
        self._node[self.moving] = np.arange(len(self.moving))
        self._carry = carriers(np.arange(len(self.moving))[:, None])
        self._border = np.full(elements.count, -1)
        self._border[patches] = self._size + np.arange(len(patches))
        self._base = self._mesh_pattern()
        # The inside of the chambers feels no force and follows the walls as smoothly as it can. In the matrix it would couple
        # opposite sides of a chamber, and the factors would be twice as full.
        cells, self._inside = elements.cells, np.setdiff1d(free, patches)
        smooth = elements.assembled(cells.tets, cells.gradients, cells.weights * cells.volumes)
        self._smooth = smooth.tocsr()[self._inside]  # multiplied while the inside is at rest
        self._followers = GlobalMatrix(smooth, self._inside, NO_SPRINGS) if len(self._inside) else None
        self._constant = np.zeros(len(self._base.indices))
        self._constant[self._base.indptr[self._size] :] = -self._patches.scaled.data
        self._places = self._ranks(), self._base.indptr
        self._order = np.argsort(
            self._node[tets].min(axis=1), kind="stable"
        )  # elements that meet in the matrix follow each other
        self._factors: _Factors | None = None
        self._linearised: _Linearised | None = None
        self._known, self.cut = False, Cut()

    def _in_order(self, moving: Ints) -> Ints:
        """Vertices in an order in which neighbours are near each other, which saves misses of the cache."""
        graph = sp.csr_matrix(
            (np.ones(len(self._pairs[0]), dtype=np.int8), self._pairs), shape=(self.elements.count,) * 2
        )
        return np.asarray(moving[reverse_cuthill_mckee(graph[moving][:, moving], symmetric_mode=True)])

    def _ranks(self) -> tuple[Ints, Ints]:
        """Where the blocks and the couplings of every element stand (see `element_stiffness`)."""
        first, second = self._pairs
        row = self._node[first]
        out: list[Ints] = []
        for column, there in (
            (3 * self._node[second], (row >= 0) & (self._node[second] >= row)),
            (self._border[second], row >= 0),
        ):
            ranks = np.full(len(first), -1)
            ranks[there] = self._base.ranks(3 * row[there], column[there])
            out.append(ranks.reshape(-1, 4, 4))
        return out[0], out[1]

    def _mesh_pattern(self) -> Sparsity:
        """Pattern of the upper triangle: blocks between neighbours, patches with their vertices."""
        n, (first, second) = len(self.moving), self._pairs
        rows, columns, border = self._node[first], self._node[second], self._border[second] - self._size
        up, moves, stabilised = (rows >= 0) & (columns >= rows), rows >= 0, self._patches.scaled
        near = sp.csr_matrix((np.ones(up.sum()), (rows[up], columns[up])), shape=(n, n))
        mixed = sp.csr_matrix((np.ones(moves.sum()), (rows[moves], border[moves])), shape=(n, len(self._patches.ids)))
        return in_threes(
            *(Sparsity(*(a.astype(np.int64) for a in (m.indptr, m.indices))) for m in (near, mixed, stabilised))
        )

    def diagonal(self) -> Floats:
        """Stiffness of every vertex in the scalar matrix [N/m], (count,), 0 where it is held."""
        return self._scalar.diagonal()

    def factor(self, springs: ContactSprings) -> None:
        """Do nothing: the next step asks for the springs anyway."""

    def forget(self) -> None:
        """Take new factors with the next step, and what is cut off from nothing, so that a command can be repeated."""
        self._known, self.cut = False, replace(self.cut, share=0.0, tightened=False)

    def follow(self, x: Floats, pulls: Floats, residual: float = 0.0, fall: float = 1.0) -> None:
        """Take the second derivative at x [m], with pulls of the chambers [Pa] (chambers,), which stretch the walls.

        What is cut off of what is not convex falls with every step whose matrix was positive definite at once: as the residual
        has fallen since the last step to `residual`, by the factor `fall`, where that is faster. Near balance the remainder of it
        only holds back soft motions.
        """
        elements = self.elements
        driven = np.flatnonzero(np.isfinite(elements.compliances))
        slopes, soft = [np.zeros_like(x) for _ in driven], [elements.compliances[driven]]
        for i, slope in zip(driven, slopes):
            wall_gradient(x, elements.cells.walls[i], 1.0, slope)
        groups = []
        if elements.lines is not None:
            active = elements.lines.active(x)
            slopes += [elements.lines.gradient(x, pull) for pull in np.eye(elements.lines.count)[active]]
            soft.append(1.0 / elements.lines.inverse[active])
            groups.append(elements.lines.slopes(x))
        sides = np.array([slope[self.moving].ravel() for slope in slopes]).reshape(-1, self._size)
        strung = [self._coupling(*group) for group in groups]
        self.cut = self.cut.followed(residual, fall)
        data = self.assembled(x, pulls, self.cut.share)
        self._linearised = _Linearised(
            x.copy(), np.array(pulls), driven, sides, np.concatenate(soft), strung, strung, data
        )
        self.touch(None)

    def touch(self, on: Bools | None) -> None:
        """Take the springs of contact that act into the matrix: those `on` (s,), or those that push."""
        springs = self._coupling(*self.elements.springs.slopes(self.linearised.x, on))
        self._linearised = replace(self.linearised, couplings=[springs, *self.linearised.strung])

    @property
    def linearised(self) -> _Linearised:
        """The second derivative that `follow` has taken."""
        assert self._linearised is not None  # `follow` comes first
        return self._linearised

    def _coupling(self, vertices: Ints, slopes: Floats) -> tuple[Ints, Floats]:
        """Nodes and slopes of what couples vertices, without those that are held."""
        nodes = self._node[vertices]
        return np.maximum(nodes, 0), slopes * (nodes >= 0)[:, :, None]

    def assembled(self, x: Floats, pulls: Floats, cut: float) -> Floats:
        """Second derivative less a share of what is not convex."""
        data = self._constant.copy()
        (blocks, couplings), indptr = self._places
        self.elements.stiffen(x, cut, self._order, self._node, blocks, couplings, indptr, data)
        for pull, wall in zip(pulls, self.elements.cells.walls):
            wall_stiffness(x, wall, (1.0 - cut) * pull, self._node, self._base.indptr, self._base.indices, data)
        return data

    def tighten(self, share: float) -> None:
        """Cut off a larger share of what is not convex; the matrix is linear in that share."""
        day, before = self.linearised, self.cut.share
        convex = self.assembled(day.x, day.pulls, 1.0) if day.convex is None else day.convex
        self.cut = replace(self.cut, share=min(1.0, max(LEAST_CUT, share)), tightened=True)
        data = day.data + (self.cut.share - before) / (1.0 - before) * (convex - day.data)
        self._linearised = replace(day, data=data, convex=convex)

    def _factorise(self) -> bool:
        """Factorise what is assembled; return whether it is positive definite, as far as can be told."""
        day, old, carry, all_nodes = self.linearised, self._factors, self._carry, self._carry.nodes
        pattern = self._base if old is None else old.pattern
        data = pattern.widen(day.data) if isinstance(pattern, Coupled) else day.data.copy()
        for nodes, _ in day.couplings:
            pattern, data = widened(pattern, data, nodes, carry)
        if old is not None and pattern is old.pattern:
            factoriser = old.factoriser
        else:
            if old is not None:
                old.factoriser.close()
            factoriser = make_factoriser(pattern.indptr, pattern.indices)
        for nodes, slopes in day.couplings:
            blocks = np.einsum("sik,sjm->sijkm", slopes, slopes)
            add_blocks(nodes, blocks, all_nodes, np.ones(all_nodes.shape), pattern.indptr, pattern.indices, data)
        factoriser.factorise(data)
        self.factorisations += 1
        self._known = True
        count, columns = len(day.sides), day.sides
        if count:
            right = np.zeros((pattern.size, count))
            right[: self._size] = day.sides.T
            columns = factoriser.solve(right)[: self._size].T.copy()
        schur = np.diag(day.soft) + day.sides @ columns.T
        self._factors = _Factors(factoriser, pattern, day.sides, columns, schur)
        positive = int((np.linalg.eigvalsh(schur) > 0.0).sum())
        return not factoriser.counts or factoriser.pivots.negative + positive == len(self._patches.ids) + count

    def fits(self) -> bool:
        """Whether the pattern that is factorised holds the couplings of all springs that act."""
        pattern = self._base if self._factors is None else self._factors.pattern
        return all(couples(pattern, self._carry.keys(nodes), self._carry) for nodes, _ in self.linearised.couplings)

    def _precondition(self, factors: _Factors, right: Floats) -> Floats:
        """Solve with the factors at hand."""
        whole = np.zeros(factors.pattern.size)
        whole[: self._size] = right
        out = factors.factoriser.solve(whole)[: self._size]
        if len(factors.schur):
            out -= np.linalg.solve(factors.schur, dots(factors.sides, out)) @ factors.columns
        return out

    def product(self, vector: Floats) -> Floats:
        """Multiply with the matrix of the day."""
        day, whole = self.linearised, np.zeros(self._base.size)
        whole[: self._size] = vector
        out = self._base.product(day.data, whole)
        whole[: self._size], whole[self._size :] = 0.0, self._patches.solve(out[self._size :])
        out = out[: self._size] + self._base.product(day.data, whole)[: self._size]
        for nodes, slopes in day.couplings:
            stretch = np.einsum("sik,sik->s", slopes, vector.reshape(-1, 3)[nodes])
            np.add.at(out.reshape(-1, 3), nodes, slopes * stretch[:, None, None])
        if len(day.sides):
            out += (dots(day.sides, vector) / day.soft) @ day.sides
        return out

    def solve(self, force: Floats, tolerance: float = 1e-6, guess: Floats | None = None) -> Floats:
        """Return the displacement [m] (free, 3) of a force [N] (free, 3), to a relative error in the energy.

        Where the matrix is not positive definite, more of what is not convex is cut off until it is. A `guess` (free, 3)
        is where conjugate gradients start; the error is then that of the whole displacement, too, and no factors are made.
        Where those at hand do not lead there, what is returned is nearer than the guess.
        """
        start = None if guess is None else self._of_moving(guess)
        whole = np.zeros((self.elements.count, 3))
        whole[self.moving] = self._displacement(self._of_moving(force), tolerance, start).reshape(-1, 3)
        if self._followers is not None:
            whole[self._inside] = -self._followers.solve(self._smooth @ whole)
        return whole[self.free]

    def _of_moving(self, vectors: Floats) -> Floats:
        """Return what vectors of free vertices (free, 3) are at those of the matrix, (size,)."""
        whole = np.zeros((self.elements.count, 3))
        whole[self.free] = vectors
        return whole[self.moving].ravel()

    def _displacement(self, right: Floats, tolerance: float, guess: Floats | None) -> Floats:
        """Solve for the vertices of the matrix (see `solve`), (size,)."""
        kept = self._known
        while True:
            if not kept and not self._factorise() and self.cut.share < 1.0:
                self.tighten(1.0 if self.cut.tightened or self.cut.far else TIGHTEN * self.cut.share)
                continue
            assert self._factors is not None
            found, good, convex = self._iterated(self._factors, right, tolerance, guess, kept)
            if good:
                return found
            if self.cut.share < 1.0 and not (kept and convex):
                self.tighten(TIGHTEN * self.cut.share)
            elif guess is not None or (not kept and not self._factors.factoriser.strengthen()):
                return found  # it still goes downhill
            else:
                kept = False

    def _iterated(
        self, factors: _Factors, right: Floats, tolerance: float, guess: Floats | None, kept: bool
    ) -> tuple[Floats, bool, bool]:
        """Conjugate gradients with the factors at hand, impatient with those that were kept.

        Returns what was found, whether it got there, and whether the matrix curves upwards wherever it was multiplied.
        """
        convex, limit = True, 6 * REFACTOR_COST_ITERATIONS
        if kept:
            limit = REFACTOR_COST_ITERATIONS + (0 if self.fits() else ANALYSIS_COST_ITERATIONS)

        def watched(vector: Floats) -> Floats:
            nonlocal convex
            out = self.product(vector)
            convex = convex and float(vector @ out) > 0.0
            return out

        found, good = conjugate_gradients(
            watched, partial(self._precondition, factors), right, tolerance, limit, impatient=kept, guess=guess
        )
        return found, good, convex

    def pulls(self, x: Floats, targets: Floats, step: Floats) -> Floats:
        """Pull of every chamber [Pa] after a step, to first order; 0 where it is vented."""
        elements, whole = self.elements, np.zeros_like(x)
        out: Floats = np.nan_to_num((elements.volumes(x) - targets) / elements.compliances)
        whole[self.free] = step
        day, count = self.linearised, len(self.linearised.driven)
        out[day.driven] += dots(day.sides[:count], whole[self.moving].ravel()) / day.soft[:count]
        return out

    def responses(self, tolerance: float) -> tuple[Floats, Floats]:
        """How vertices (c, free, 3) [1/m^2] and volumes (c, c) move with the target of one driven chamber after the other."""
        sides, soft_sides = self.linearised.sides, self.linearised.soft
        whole, moves = np.zeros((self.elements.count, 3)), np.zeros((len(sides), self.elements.count, 3))
        for side, soft, move in zip(sides, soft_sides, moves):
            whole[self.moving] = side.reshape(-1, 3) / soft
            move[self.free] = self.solve(whole[self.free], tolerance)
        return moves[:, self.free], moves[:, self.moving].reshape(len(moves), self._size) @ sides.T

    def turned(self, x: Floats, step: Floats) -> Floats:
        """Return the step [m] (free, 3) with the rotations of the elements as rotations."""
        elements = self.elements
        whole, forces = np.zeros_like(x), np.zeros_like(x)
        whole[self.free] = step
        tets, gradients, weights = elements.scalar_weights()
        corners = np.empty((len(tets), 4, 3))
        turning_forces(x, whole, tets, gradients, weights, corners)
        elements.gather(corners, forces)
        return step + self._scalar.solve(forces[self.free])
