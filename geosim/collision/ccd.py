"""Additive continuous collision detection: the largest step in which two features keep a given distance.

No root of a cubic is sought. The distance of two features falls no faster than their points approach each other, so
a pair at distance d whose points approach by at most l in a whole step may go (d - gap) / l of the step. That is
repeated from there until the gap is reached or the step is over. The bound is safe in floating-point arithmetic.
"""

from __future__ import annotations

import numpy as np

from geosim.collision.distance import edge_edge, point_triangle, separation
from geosim.kernels import kernel

STOP_DISTANCE_SHARE = (
    0.3  # of the distance at which two parts touch: where a step stops, well before they lie on each other
)
ADVANCE_SHARE = 0.95  # of what the bound allows: never quite to the gap
GAP_TOLERANCE_SHARE = 0.05  # of the way to the gap at which the search ends
NEAR_TOLERANCE_SHARE = 0.5  # of the way from where a pair counts as near to the gap
MAX_APPROACH_SHARE = 0.5  # of the distance at which they are, where that is less


@kernel
def approach(v, edges):
    """Largest relative displacement of the two features; v is freed of the common motion (it is changed)."""
    for k in range(3):
        mean = 0.25 * (v[0, k] + v[1, k] + v[2, k] + v[3, k])
        for i in range(4):
            v[i, k] -= mean
    first, second = 0.0, 0.0
    for i in range(4):
        size = np.sqrt(v[i, 0] ** 2 + v[i, 1] ** 2 + v[i, 2] ** 2)
        if i < (2 if edges else 1):
            first = max(first, size)
        else:
            second = max(second, size)
    return first + second


@kernel
def time_to_gap(x, v, edges, gap, last, near=np.inf):
    """Return the share of the step (at most `last`) after which the pair is `gap` apart, a little less to be safe.

    Parameters
    ----------
    x
        The four points (4, 3): vertex and face, or two edges.
    v
        Their displacement in the whole step (4, 3); changed.
    edges
        Whether the pair is two edges.
    gap
        Distance to be kept; less than the present one.
    near
        Distance beyond which the pair is never taken to be as near as the gap, more than the gap.
    """
    max_looks = 200  # that are enough: a pair that slides along the gap is stopped after them
    w, c, e = np.empty(4), np.empty((4, 2)), np.empty(3)
    speed = approach(v, edges)
    if speed == 0.0:
        return last
    at = x.copy()
    time = 0.0
    first, looks, left = -1.0, 0, 0.0
    while looks < max_looks or left > near - gap:
        looks += 1
        if edges:
            edge_edge(at, w, c)
        else:
            point_triangle(at, w, c)
        left = separation(at, w, e) - gap
        if first < 0.0:
            first = left
        if left <= min(GAP_TOLERANCE_SHARE * first, NEAR_TOLERANCE_SHARE * (near - gap)):
            return time
        share = ADVANCE_SHARE * left / speed
        time += share
        if time >= last:
            return last
        for i in range(4):
            for k in range(3):
                at[i, k] += share * v[i, k]
    return time
