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

from geosim.arrays import Floats, Ints, frozen
from geosim.errors import InputError
from geosim.kernels import kernel

# Nodes that wait in a descent: it leaves at most one behind on every level, three if the tree meets itself. No tree that
# fits into a memory has more than 60 levels.
MAX_WAITING_NODES = 192


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

    def refit(self, vertices: Floats) -> Tree:
        """Return the same tree with the boxes of new vertex positions [m], shape (n, 3)."""
        boxes = np.empty_like(self.boxes)
        refit_tree(
            np.ascontiguousarray(vertices, dtype=float),
            self.primitives,
            self.order,
            boxes,
            np.full(len(self.primitives), self.margin),
        )
        return Tree(self.primitives, self.order, frozen(boxes), self.margin)


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
    leaf_size = 4  # primitives: with fewer the boxes cost more than the primitives in them
    vertices = np.ascontiguousarray(vertices, dtype=float)
    primitives = np.ascontiguousarray(primitives, dtype=np.int64)
    if primitives.ndim != 2 or len(primitives) == 0:
        raise InputError(f"a tree needs primitives of shape (m, k), got {primitives.shape}; pass at least one face")
    if primitives.min() < 0 or primitives.max() >= len(vertices):
        raise InputError(f"primitives name vertex {primitives.max()}, but there are {len(vertices)} vertices")
    count = len(primitives)
    depth = max(0, int(np.ceil(np.log2(count / leaf_size)))) if count > leaf_size else 0
    order = np.arange(count, dtype=np.int64)
    _split(vertices[primitives].mean(axis=1), order, depth)
    return Tree(frozen(primitives.copy()), frozen(order), np.zeros((2 * 2**depth - 1, 6)), margin).refit(vertices)


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
    """Partial sort of order[low..high] along an axis so that `middle` is where a full sort would put it (Hoare)."""
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
        first, last = leaf_range(boxes, leaves - 1 + k, count)
        for i in range(first, last):
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
    """Whether two boxes overlap (touching counts)."""
    return not (
        (boxes[i, 3] < boxes[j, 0])
        | (boxes[i, 0] > boxes[j, 3])
        | (boxes[i, 4] < boxes[j, 1])
        | (boxes[i, 1] > boxes[j, 4])
        | (boxes[i, 5] < boxes[j, 2])
        | (boxes[i, 2] > boxes[j, 5])
    )


@kernel
def gap_to_box(boxes, node, lower, upper):
    """Squared distance of a node to a box with the corners `lower` and `upper`, or to a point that is both."""
    square = 0.0
    for a in range(3):
        gap = max(boxes[node, a] - upper[a], lower[a] - boxes[node, a + 3], 0.0)
        square += gap * gap
    return square


@kernel
def next_leaf(boxes, lower, upper, limit, stack, top):
    """Go on with a descent to the next leaf within a squared distance of a box (`gap_to_box`), nearer children first.

    The descent begins with stack[0] = 0 and top = 1, and goes on with the top returned, where the leaf stands; -1 says
    that there is none left. The limit may shrink from one leaf to the next.
    """
    while top > 0:
        top -= 1
        node = stack[top]
        gap = gap_to_box(boxes, node, lower, upper)
        while gap <= limit and node < len(boxes) // 2:
            near, far = 2 * node + 1, 2 * node + 2
            gap, more = gap_to_box(boxes, near, lower, upper), gap_to_box(boxes, far, lower, upper)
            if more < gap:
                near, far, gap, more = far, near, more, gap
            if more <= limit:
                stack[top] = far
                top += 1
            node = near
        if gap <= limit:
            stack[top] = node
            return top
    return -1


@kernel
def next_leaves(boxes, moves, stack, top):
    """Go on with the descent of a tree against itself to the next two leaves that overlap at some moment of a step.

    `moves` (nodes, 6) bounds the displacements of what is in every node; without rows nothing moves. Begin, end and
    result are as in `next_leaf`, with a row of two nodes; a leaf meets itself too.
    """
    while top > 0:
        top -= 1
        i, j = stack[top, 0], stack[top, 1]
        if i >= len(boxes) // 2:
            return top
        for m in range(3 if i == j else 4):  # children: left-left, right-right, left-right, right-left
            left, right = 2 * i + 1 + m % 2, 2 * j + 1 + (m + m // 2) % 2
            if left == right or boxes_meet(boxes, moves, left, right):
                stack[top, 0], stack[top, 1] = left, right
                top += 1
    return -1


@kernel
def boxes_meet(boxes, moves, i, j):
    """Whether two boxes overlap at some moment: their relative motion is within the difference of their `moves`."""
    if len(moves) == 0:
        return boxes_overlap(boxes, i, j)
    for a in range(3):
        lower = boxes[i, a] - boxes[j, a + 3] + min(0.0, moves[i, a] - moves[j, a + 3])
        upper = boxes[i, a + 3] - boxes[j, a] + max(0.0, moves[i, a + 3] - moves[j, a])
        if lower > 0.0 or upper < 0.0:
            return False
    return True


@kernel
def leaf_range(boxes, leaf, count):
    """First place, and one past the last, that a leaf has in the order of `count` primitives."""
    leaves = (len(boxes) + 1) // 2
    k = leaf - leaves + 1
    return count * k // leaves, count * (k + 1) // leaves
