"""Whether rods pass through each other: an independent check of the entanglement gripper and the knot.

    python benchmarks/rods_crossings.py [--duration 1.0]

Between two frames every vertex is taken to move straight; the distance of all pairs of segments that are not neighbours is
computed at eight moments of every step, by its own formula. Rods that pass through each other have distance 0 on the way.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from rod_cases import knot

import geosim
from geosim.cli.rod_cases import entanglement

MOMENTS = 8


def distances(p0, p1, q0, q1):
    """Distances of segments p0 p1 and q0 q1, each (k, 3): the least over the inner point and the four ends."""
    u, v, w = p1 - p0, q1 - q0, p0 - q0
    a, b, c, d, e = (np.einsum("ij,ij->i", x, y) for x, y in ((u, u), (u, v), (v, v), (u, w), (v, w)))
    det = np.maximum(a * c - b * b, 1e-300)
    s, t = (b * e - c * d) / det, (a * e - b * d) / det
    inner = (s > 0) & (s < 1) & (t > 0) & (t < 1)
    s, t = np.where(inner, s, 0.0), np.where(inner, t, 0.0)
    best = np.where(inner, np.linalg.norm(w + s[:, None] * u - t[:, None] * v, axis=1), np.inf)
    for start, way, ends in ((p0, u, (q0, q1)), (q0, v, (p0, p1))):
        for end in ends:
            at = np.clip(np.einsum("ij,ij->i", end - start, way) / np.einsum("ij,ij->i", way, way), 0, 1)
            best = np.minimum(best, np.linalg.norm(start + at[:, None] * way - end, axis=1))
    return best


def least(result, radius):
    """Least distance of segments that share no node nor lie within two diameters along a rod, over their diameter."""
    edges = np.asarray(result.robot.edges)
    rest = np.asarray(result.robot.vertices)
    middle = 0.5 * (rest[edges[:, 0]] + rest[edges[:, 1]])
    worst = np.inf
    for first, second in zip(result.frames[:-1], result.frames[1:]):
        for share in np.arange(MOMENTS) / MOMENTS:
            x = (1 - share) * first + share * second
            p, q = x[edges[:, 0]], x[edges[:, 1]]
            reach = 4 * radius + np.linalg.norm(q - p, axis=1).max()
            pairs = cKDTree(0.5 * (p + q)).query_pairs(reach, output_type="ndarray")
            far = np.linalg.norm(middle[pairs[:, 0]] - middle[pairs[:, 1]], axis=1) > 4 * radius
            apart = ~(edges[pairs[:, 0]][:, :, None] == edges[pairs[:, 1]][:, None, :]).any(axis=(1, 2))
            i, j = pairs[far & apart].T
            if len(i):
                worst = min(worst, float(distances(p[i], q[i], p[j], q[j]).min()))
    return worst / (2 * radius)


def main():
    """Run the cases and print the least distances."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--duration", type=float, default=1.0, help="seconds of the gripper")
    given = options.parse_args()
    for name, case in [
        (f"entanglement, friction {mu}", entanglement(friction=mu, duration=given.duration)) for mu in (0.0, 0.5)
    ] + [("knot", knot())]:
        start = time.process_time()
        result = geosim.solve(case.robot, case.actuation, case.environment, solver=case.solver, throw=False)
        seconds = time.process_time() - start
        radius = float(np.max(np.asarray(case.robot.radius)))
        print(
            f"{name}: {result.status.name}, {len(result.frames)} frames, {result.times[-1]:.2f} s in {seconds:.1f} CPU s; "
            f"least distance {least(result, radius):.3f} diameters",
            flush=True,
        )


if __name__ == "__main__":
    main()
