"""An axis-aligned bounding-box tree over flat arrays, built once and refitted as the robot deforms.

The tree is complete and implicit: with `m` primitives and `L = 2**depth` leaves, node `i` has the children
`2 i + 1` and `2 i + 2`, and leaf `k` holds the primitives `order[m k // L : m (k + 1) // L]`. Nothing but the
order of the primitives and the boxes is stored, so a refit is one sweep from the leaves to the root, and two
nodes that meet in a traversal are always on the same level.

The structure survives a deformation, only the boxes change [Fang2022, II-B]; it is rebuilt after remeshing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geosim.errors import InputError
from geosim.kernels import kernel

__all__ = ["Tree", "build_tree", "refit_tree"]

LEAF_SIZE = 4
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Tree:
    """A bounding-box tree over primitives (edges, triangles or tetrahedra).

    Parameters
    ----------
    primitives
        Vertex ids of every primitive, shape (m, 2), (m, 3) or (m, 4).
    order
        Primitives in leaf order, shape (m,).
    boxes
        Lower and upper corners of every node [m], shape (2 L - 1, 6), root first.
    margin
        Distance [m] by which the box of every primitive is enlarged.
    """

    primitives: Ints
    order: Ints
    boxes: Floats
    margin: float = 0.0

    @property
    def first_leaf(self) -> int:
        """Index of the first leaf node."""
        return len(self.boxes) // 2

    def refit(self, vertices: Floats, margin: float | None = None) -> Tree:
        """Return the same tree with the boxes of new vertex positions [m], shape (n, 3)."""
        width = self.margin if margin is None else float(margin)
        boxes = np.empty_like(self.boxes)
        refit_tree(
            np.ascontiguousarray(vertices, dtype=float),
            self.primitives,
            self.order,
            boxes,
            np.full(len(self.primitives), width),
        )
        boxes.flags.writeable = False
        return Tree(self.primitives, self.order, boxes, width)


def build_tree(vertices: Floats, primitives: Ints, margin: float = 0.0) -> Tree:
    """Build a tree by splitting at the median along the longest side of every node.

    Parameters
    ----------
    vertices
        Positions [m], shape (n, 3).
    primitives
        Vertex ids, shape (m, k), k = 1 to 4.
    margin
        Distance [m] by which the box of every primitive is enlarged.

    Raises
    ------
    InputError
        If there is no primitive, or an id is outside the vertices.
    """
    vertices = np.ascontiguousarray(vertices, dtype=float)
    primitives = np.ascontiguousarray(primitives, dtype=np.int64)
    if primitives.ndim != 2 or len(primitives) == 0:
        raise InputError(f"a tree needs primitives of shape (m, k), got {primitives.shape}; pass at least one face")
    if primitives.min() < 0 or primitives.max() >= len(vertices):
        raise InputError(f"primitives name vertex {primitives.max()}, but there are {len(vertices)} vertices")
    count = len(primitives)
    depth = max(0, int(np.ceil(np.log2(count / LEAF_SIZE)))) if count > LEAF_SIZE else 0
    order = np.arange(count, dtype=np.int64)
    _split(vertices[primitives].mean(axis=1), order, depth)
    primitives = primitives.copy()
    for array in (primitives, order):
        array.flags.writeable = False
    empty = np.zeros((2 * 2**depth - 1, 6))
    return Tree(primitives, order, empty, margin).refit(vertices)


@kernel
def _split(centres, order, depth):
    """Order the primitives so that every node of every level covers a contiguous, compact range."""
    count = len(order)
    for level in range(depth):
        nodes = 1 << level
        for k in range(nodes):
            low, high = count * k // nodes, count * (k + 1) // nodes
            middle = count * (2 * k + 1) // (2 * nodes)
            axis, extent = 0, -1.0
            for a in range(3):
                lower, upper = np.inf, -np.inf
                for i in range(low, high):
                    value = centres[order[i], a]
                    lower, upper = min(lower, value), max(upper, value)
                if upper - lower > extent:
                    axis, extent = a, upper - lower
            _select(centres, order, low, high - 1, middle, axis)


@kernel
def _select(centres, order, low, high, middle, axis):
    """Partial sort of order[low..high] along an axis so that `middle` stands where a full sort would put it (Hoare)."""
    while low < high:
        pivot = centres[order[(low + high) // 2], axis]
        i, j = low, high
        while i <= j:
            while centres[order[i], axis] < pivot:
                i += 1
            while centres[order[j], axis] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            high = j
        elif middle >= i:
            low = i
        else:
            return


@kernel
def refit_tree(vertices, primitives, order, boxes, margins):
    """Write the boxes of all nodes, leaves first; `margins` (m,) enlarge the boxes of the primitives."""
    count, corners = primitives.shape
    leaves = (len(boxes) + 1) // 2
    for k in range(leaves):
        x0, y0, z0 = np.inf, np.inf, np.inf
        x1, y1, z1 = -np.inf, -np.inf, -np.inf
        for i in range(count * k // leaves, count * (k + 1) // leaves):
            margin = margins[order[i]]
            for c in range(corners):
                v = primitives[order[i], c]
                x, y, z = vertices[v, 0], vertices[v, 1], vertices[v, 2]
                x0, y0, z0 = min(x0, x - margin), min(y0, y - margin), min(z0, z - margin)
                x1, y1, z1 = max(x1, x + margin), max(y1, y + margin), max(z1, z + margin)
        box = boxes[leaves - 1 + k]
        box[0], box[1], box[2] = x0, y0, z0
        box[3], box[4], box[5] = x1, y1, z1
    for node in range(leaves - 2, -1, -1):
        left, right = boxes[2 * node + 1], boxes[2 * node + 2]
        for a in range(3):
            boxes[node, a] = min(left[a], right[a])
            boxes[node, a + 3] = max(left[a + 3], right[a + 3])


@kernel(inline="always")
def boxes_overlap(boxes, i, j):
    """Whether two nodes of one tree overlap (touching counts)."""
    return (
        boxes[i, 0] <= boxes[j, 3]
        and boxes[j, 0] <= boxes[i, 3]
        and boxes[i, 1] <= boxes[j, 4]
        and boxes[j, 1] <= boxes[i, 4]
        and boxes[i, 2] <= boxes[j, 5]
        and boxes[j, 2] <= boxes[i, 5]
    )
