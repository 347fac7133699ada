"""Speed of the projective solver's parts as ratios in one run, and its growth with the size of the mesh.

    python benchmarks/projective_speed.py [--plot growth.png]

Prints the polar decomposition against numpy's singular value decomposition, the check of a surface for crossings against
ipctk on the same seeded deformations, and milliseconds of one local-global iteration from 8k to 300k tets with the
exponent of a power law.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import trimesh

from geosim.collision.crossings import count_crossings, surface_tree
from geosim.environment import Environment
from geosim.robot import VolumetricRobot
from geosim.shape import projective_kernels as kernels
from geosim.shape.projective import ProjectiveShapeSolver


def best(action, repeats: int = 5) -> float:
    """Shortest of several times [s]."""
    times = []
    for _ in range(repeats):
        clock = time.perf_counter()
        action()
        times.append(time.perf_counter() - clock)
    return min(times)


def polar_ratio(count: int = 50_000) -> None:
    """Print the polar decomposition against numpy.linalg.svd on the same matrices."""
    F = np.eye(3) + 0.3 * np.random.default_rng(0).normal(size=(count, 3, 3))
    flat, out = F.reshape(-1, 9).copy(), np.empty((count, 9))
    kernels.polar_all(flat, out)
    ours, theirs = best(lambda: kernels.polar_all(flat, out)), best(lambda: np.linalg.svd(F))
    U, _, V = np.linalg.svd(F)
    U[:, :, 2] *= np.linalg.det(U @ V)[:, None]
    print(f"polar: {ours / count * 1e9:.0f} ns, numpy SVD {theirs / count * 1e9:.0f} ns, ratio {theirs / ours:.1f}, largest "
          f"difference {np.abs(out.reshape(-1, 3, 3) - U @ V).max():.1e}")


def crossing_ratio(cases: int = 200) -> None:
    """Print the crossing check against ipctk: verdicts and times on smooth random deformations of a torus."""
    import ipctk

    torus = trimesh.creation.torus(1.0, 0.3, major_sections=160, minor_sections=80)
    faces, rest = np.asarray(torus.faces, dtype=np.int64), np.asarray(torus.vertices)
    tree = surface_tree(rest, faces)
    mesh = ipctk.CollisionMesh(rest, ipctk.edges(faces), faces)
    ours = theirs = 0.0
    agree = crossed = 0
    for seed in range(cases):
        rng = np.random.default_rng(seed)
        moved = rest.copy()
        for _ in range(4):
            wave = 3.0 * rng.normal(size=3)
            moved += 0.02 * (1 + seed % 20) * rng.normal(size=3) * np.sin(rest @ wave + rng.uniform(0, 6.28))[:, None]
        clock = time.perf_counter()
        count = count_crossings(moved, faces, tree).count
        middle = time.perf_counter()
        verdict = ipctk.has_intersections(mesh, moved)
        ours, theirs = ours + middle - clock, theirs + time.perf_counter() - middle
        agree += (count > 0) == verdict
        crossed += verdict
    print(f"crossings, {len(faces)} faces, {cases} shapes ({crossed} crossed): ours (all pairs) {ours / cases * 1e3:.1f} ms, "
          f"ipctk (yes or no) {theirs / cases * 1e3:.1f} ms, same verdict {agree}")


def growth(plot: str | None) -> None:
    """Print milliseconds of one iteration against the number of tets, and the exponent."""
    sizes, times = [], []
    for n in (6, 9, 14, 20, 28):
        robot = hollow_bar(n)
        solver = ProjectiveShapeSolver()
        state = solver.start(robot, Environment(self_contact=False))
        elements, matrix = state.work.elements, state.work.matrix
        x, target = np.array(state.x), 1.2 * elements.volumes(np.array(state.x))

        def iterate(elements=elements, matrix=matrix, x=x, target=target):
            e = elements.evaluate(x, target)
            matrix.solve(e.force[matrix.free])

        iterate()
        sizes.append(len(robot.tets))
        times.append(best(iterate))
        print(f"iteration: {sizes[-1]:7d} tets {times[-1] * 1e3:8.2f} ms")
    exponent = np.polyfit(np.log(sizes), np.log(times), 1)[0]
    print(f"growth exponent {exponent:.2f}")
    if plot:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        plt.loglog(sizes, 1e3 * np.array(times), "o-")
        plt.xlabel("tets")
        plt.ylabel("ms an iteration")
        plt.title(f"n^{exponent:.2f}")
        plt.savefig(plot)


def hollow_bar(n: int) -> VolumetricRobot:
    """A bar of 2n x n x n cubes of six tets with a chamber of the middle third."""
    nx = 2 * n
    i, j, k = np.meshgrid(np.arange(nx + 1), np.arange(n + 1), np.arange(n + 1), indexing="ij")
    vertices = np.stack([i, j, k], axis=-1).reshape(-1, 3) * (0.03 / n)
    a, b, c = (v.ravel() for v in np.meshgrid(np.arange(nx), np.arange(n), np.arange(n), indexing="ij"))
    corner = [((a + p) * (n + 1) + b + q) * (n + 1) + c + r for p in (0, 1) for q in (0, 1) for r in (0, 1)]
    tets = np.stack([np.stack([corner[0], corner[p], corner[q], corner[7]], axis=1)
                     for p, q in ((4, 6), (6, 2), (2, 3), (3, 1), (1, 5), (5, 4))], axis=1).reshape(-1, 4)
    inside = (a > 0) & (a < nx - 1) & (b >= n // 3) & (b < n - n // 3) & (c >= n // 3) & (c < n - n // 3)
    return VolumetricRobot.from_tets(vertices, tets, np.repeat(inside.astype(int), 6), material="ecoflex-00-30",
                                     fixed=np.flatnonzero(vertices[:, 0] < 1e-9))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", help="write the growth curve to this file")
    arguments = parser.parse_args()
    polar_ratio()
    crossing_ratio()
    growth(arguments.plot)
