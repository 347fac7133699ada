"""The global matrix that follows the material: 3x3 blocks between vertices, for the quasi-Newton view of the global step.

The scalar matrix of [Fang2022] knows one weight an element, and the iteration needs hundreds of steps to learn the rest. This one
is the second derivative of the merit. The pressure of a patch couples all its vertices, so it stays an unknown,

    [ K    B ] [dx]   [-f]        B: columns sqrt(b_v) dJ_v/dx, b_v the bulk stiffness [J] of the patch of vertex v,
    [ B^T -1 ] [q ] = [ 0]        which is K + B B^T with the pattern of the mesh.

The volume of every chamber is a border of one row, and springs of contact enter with all their couplings.

A step is a straight line for every vertex. Where a slender robot turns, straight lines stretch it, and the stretch, being stiff,
forbids all but short steps. So the rotation of every element is told from its strain, and the scalar matrix joins what
they ask for: one more local and one more global step, in the sense of the paper [Huang et al. 2011].
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from geosim.arrays import Floats, Ints
from geosim.linear.factorise import make_factoriser
from geosim.linear.patterns import Sparsity, add_blocks, carriers, widened
from geosim.shape.projective.contact import Springs
from geosim.shape.projective.elements import Elements, GlobalMatrix
from geosim.shape.projective.stiffness_kernels import turning_forces, wall_gradient, wall_stiffness

__all__ = ["MaterialMatrix"]

FOLLOW = 1e-8  # of the weights of a chamber's elements: no force moves their inside, which only follows the wall


class MaterialMatrix:
    """The factorised second derivative of the merit, its fixed vertices eliminated.

    Parameters
    ----------
    elements
        What is differentiated.
    free
        Vertices that move.
    """

    def __init__(self, elements: Elements, free: Ints) -> None:
        self.elements, self.free = elements, free
        self.factorisations = 0
        self.stale = True  # whether the next step asks for new factors
        self._scalar = GlobalMatrix(elements.laplacian(), free, Springs())
        patches = np.unique(elements.body.tets)
        self._size, self._patches = 3 * len(free), len(patches)
        self._node = np.full(elements.count, -1)
        self._node[free] = np.arange(len(free))
        self._border = np.full(elements.count, -1)
        self._border[patches] = self._size + np.arange(len(patches))
        cells = elements.cells
        inside = elements.assembled(cells.tets, cells.gradients, FOLLOW * cells.weights * cells.volumes)
        beside = sp.triu(inside[free][:, free]).tocoo()
        self._use(self._mesh_pattern(beside.row, beside.col))
        rows, columns = ((3 * i[:, None] + np.arange(3)).ravel() for i in (beside.row, beside.col))
        self._constant = np.zeros(len(self._pattern.indices))
        self._constant[self._pattern.indptr[rows] + self._pattern.ranks(rows, columns)] = np.repeat(beside.data, 3)
        self._constant[self._pattern.indptr[self._size : -1]] = -1.0
        self._sides = self._columns = np.zeros((self._pattern.size, 0))
        self._driven, self._schur = np.zeros(0, np.int64), np.zeros((0, 0))

    def _use(self, pattern: Sparsity) -> None:
        self._pattern = pattern
        self._factoriser = make_factoriser(pattern.indptr, pattern.indices, single=False)

    def _mesh_pattern(self, rows: Ints, columns: Ints) -> Sparsity:
        """Pattern of the upper triangle: blocks between neighbours (and the pairs given), patches with their vertices."""
        body, n = self.elements.body.tets, len(self.free)
        first, second = np.repeat(body, 4, axis=1).ravel(), np.tile(body, (1, 4)).ravel()
        keep = self._node[first] >= 0
        first, second = first[keep], second[keep]
        up = self._node[second] >= self._node[first]
        rows = np.concatenate([self._node[first[up]], rows])
        columns = np.concatenate([self._node[second[up]], columns])
        nodes = sp.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(n, n))
        border = (self._node[first], self._border[second] - self._size)
        couplings = sp.csr_matrix((np.ones(len(first)), border), shape=(n, self._patches))
        blocks = sp.triu(sp.kron(nodes, np.ones((3, 3)))), sp.kron(couplings, np.ones((3, 1)))
        full = sp.bmat([[*blocks], [None, sp.identity(self._patches)]]).tocsr()
        full.sort_indices()
        return Sparsity(full.indptr.astype(np.int32), full.indices.astype(np.int32))

    def diagonal(self) -> Floats:
        """Stiffness of every vertex in the scalar matrix [N/m], (count,), 0 where it is held."""
        return self._scalar.diagonal()

    def factor(self, springs: Springs) -> None:
        """Note that the springs are others."""
        self.stale = True

    def follow(self, x: Floats, pulls: Floats, near: bool) -> None:
        """Factorise the second derivative at x [m].

        Parameters
        ----------
        pulls
            Of the chambers [Pa] (chambers,), which stretch the walls.
        near
            Whether the second derivative itself may be positive definite; where it is not, what is not convex is cut off.
        """
        self.stale = False
        if not (near and self._factoriser.counts and self._factorised(x, pulls, convex=False)):
            self._factorised(x, pulls, convex=True)

    def _factorised(self, x: Floats, pulls: Floats, *, convex: bool) -> bool:
        """Factorise; return whether the matrix is positive definite."""
        elements, walls = self.elements, self.elements.cells.walls
        data = self._constant.copy()
        places = (self._pattern.indptr, self._pattern.indices, data)
        elements.stiffen(x, convex, self._node, self._border, *places)
        for pull, wall in () if convex else zip(pulls, walls):
            wall_stiffness(x, wall, pull, self._node, *places)
        data = self._with_springs(x, data)  # which may change the factoriser
        self._factoriser.factorise(data)
        self.factorisations += 1
        self._driven = np.flatnonzero(np.isfinite(elements.compliances))
        self._sides = np.zeros((self._pattern.size, len(self._driven)))
        for k, i in enumerate(self._driven):
            slope = np.zeros_like(x)
            wall_gradient(x, walls[i], slope)
            self._sides[: self._size, k] = slope[self.free].ravel()
        self._columns = self._factoriser.solve(self._sides) if len(self._driven) else self._sides
        self._schur = np.diag(elements.compliances[self._driven]) + np.einsum("ik,il->kl", self._sides, self._columns)
        positive = int((np.linalg.eigvalsh(self._schur) > 0.0).sum())
        return self._factoriser.negative_pivots + positive == self._patches + len(self._driven)

    def _with_springs(self, x: Floats, data: Floats) -> Floats:
        """Add the springs that push; where they couple vertices that nothing coupled before, the pattern grows."""
        groups, blocks = self.elements.springs.second_derivatives(x)
        nodes = np.maximum(self._node, 0)[:, None]
        weights = (self._node >= 0).astype(float)[:, None]
        pattern, data = widened(self._pattern, data, groups, carriers(nodes))
        if pattern is not self._pattern:
            place = pattern.place  # type: ignore[attr-defined]
            constant = np.zeros(len(pattern.indices))
            constant[place] = self._constant
            self._constant = constant
            self._factoriser.close()
            self._use(Sparsity(pattern.indptr, pattern.indices))
        add_blocks(groups, blocks, nodes, weights, pattern.indptr, pattern.indices, data)
        return data

    def solve(self, force: Floats) -> Floats:
        """Return the displacement [m] (free, 3) of a force [N] (free, 3)."""
        right = np.zeros(self._pattern.size)
        right[: self._size] = force.ravel()
        out = self._factoriser.solve(right)
        if len(self._schur):
            out -= self._columns @ np.linalg.solve(self._schur, np.einsum("ik,i->k", self._sides, out))
        return out[: self._size].reshape(force.shape)

    def pulls(self, x: Floats, targets: Floats, step: Floats) -> Floats:
        """Pull of every chamber [Pa] after a step, to first order; 0 where it is vented."""
        out = self.elements.pulls(x, targets)
        growth = np.einsum("ik,i->k", self._sides[: self._size], step.ravel())
        out[self._driven] += growth / self.elements.compliances[self._driven]
        return out

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
