"""Speed of the projective solver's parts as ratios in one run, and its growth with the size of the mesh.

    python benchmarks/projective_speed.py [--plot growth.png]

Prints the polar decomposition against numpy's singular value decomposition, the check of a surface for crossings against
ipctk on the same seeded deformations, and milliseconds of one local-global iteration from 8k to 300k tets with the
exponent of a power law.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

import geosim
from geosim.collision.crossings import count_crossings, crosses, surface_tree
from geosim.kernels import kernel
from geosim.linear.polar import polar
from geosim.model.environment import Environment
from geosim.model.robot import VolumetricRobot
from geosim.shape.projective.solver import ProjectiveShapeSolver

MESHES = Path(__file__).resolve().parents[1] / "meshes"


def best(action, repeats: int = 5) -> float:
    """Shortest of several times [s]."""
    times = []
    for _ in range(repeats):
        clock = time.perf_counter()
        action()
        times.append(time.perf_counter() - clock)
    return min(times)


@kernel
def _polar_all(matrices, rotations):
    for e in range(len(matrices)):
        m = matrices[e]
        q = polar((m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7], m[8]))
        for k in range(9):
            rotations[e, k] = q[k]


def polar_ratio(count: int = 50_000) -> None:
    """Print the polar decomposition against numpy.linalg.svd on the same matrices."""
    F = np.eye(3) + 0.3 * np.random.default_rng(0).normal(size=(count, 3, 3))
    flat, out = F.reshape(-1, 9).copy(), np.empty((count, 9))
    _polar_all(flat, out)
    ours, theirs = best(lambda: _polar_all(flat, out)), best(lambda: np.linalg.svd(F))
    U, _, V = np.linalg.svd(F)
    U[:, :, 2] *= np.linalg.det(U @ V)[:, None]
    print(
        f"polar: {ours / count * 1e9:.0f} ns, numpy SVD {theirs / count * 1e9:.0f} ns, ratio {theirs / ours:.1f}, largest "
        f"difference {np.abs(out.reshape(-1, 3, 3) - U @ V).max():.1e}"
    )


def crossing_ratio(cases: int = 200) -> None:
    """Print the crossing check against ipctk: pairs and times on smooth random deformations of the bellows finger."""
    import ipctk

    ipctk.set_num_threads(1)  # as ours
    body = geosim.load_robot(MESHES / "bellows" / "robot.toml")
    faces = np.vstack([body.skin, *body.chamber_walls])
    used, faces = np.unique(faces, return_inverse=True)
    faces, rest = np.ascontiguousarray(faces.reshape(-1, 3)), np.ascontiguousarray(body.vertices[used])
    edges = ipctk.edges(faces)
    tree = surface_tree(rest, faces)
    mesh = ipctk.CollisionMesh(rest, edges, faces)
    ours = theirs = everything = 0.0
    crosses(rest, faces, tree)  # compiles
    agree = crossed = pairs = 0
    for seed in range(cases):
        rng = np.random.default_rng(seed)
        moved = rest.copy()
        for _ in range(4):
            wave = 300.0 * rng.normal(size=3)
            push = 2e-4 * (seed % 20) * rng.normal(size=3)
            moved += push * np.sin(rest @ wave + rng.uniform(0, 6.28))[:, None]
        clock = time.perf_counter()
        mine_verdict = crosses(moved, faces, tree)
        middle = time.perf_counter()
        verdict = ipctk.has_intersections(mesh, moved)
        end = time.perf_counter()
        found = count_crossings(moved, faces, tree)
        ours, theirs, everything = ours + middle - clock, theirs + end - middle, everything + time.perf_counter() - end
        mine = {(*sorted(e), int(f)) for e, f in zip(found.edges.tolist(), found.faces.tolist())}
        other = _pairs_of_ipctk(moved, edges, faces)
        agree += mine == other and bool(mine) == verdict == mine_verdict
        crossed += verdict
        pairs += len(other)
    print(
        f"crossings, {len(body.tets)} tets, {len(faces)} faces, {cases} shapes ({crossed} crossed, {pairs} pairs): yes or "
        f"no: ours {ours / cases * 1e3:.1f} ms, ipctk {theirs / cases * 1e3:.1f} ms, one thread each; ours with all pairs "
        f"{everything / cases * 1e3:.1f} ms; same verdict and pairs in {agree}"
    )


def _pairs_of_ipctk(x: np.ndarray, edges: np.ndarray, faces: np.ndarray) -> set[tuple[int, int, int]]:
    """All (edge, face) pairs that ipctk calls intersecting; its predicate is asked where the planes leave it open."""
    import ipctk

    broad = ipctk.LBVH()
    broad.build(x, edges, faces)
    found = np.array([(c.edge_id, c.face_id) for c in broad.detect_edge_face_candidates()], dtype=np.int64).reshape(
        -1, 2
    )
    e, f = edges[found[:, 0]], faces[found[:, 1]]
    own = (e[:, :, None] == f[:, None, :]).any(axis=(1, 2))
    normal = np.cross(x[f[:, 1]] - x[f[:, 0]], x[f[:, 2]] - x[f[:, 0]])
    side = np.einsum("ijk,ik->ij", x[e] - x[f[:, :1]], normal)
    open_ = np.flatnonzero(~own & (side[:, 0] * side[:, 1] <= 1e-12 * (side**2).max(axis=1)))
    start, way = x[e[open_, 0]], x[e[open_, 1]] - x[e[open_, 0]]
    turns = np.stack(
        [
            np.einsum("ij,ij->i", way, np.cross(x[f[open_, i]] - start, x[f[open_, (i + 1) % 3]] - start))
            for i in range(3)
        ],
        axis=1,
    )
    bound = 1e-9 * np.abs(turns).max(axis=1, keepdims=True)
    open_ = open_[~((turns > bound).any(axis=1) & (turns < -bound).any(axis=1))]
    return {
        (*sorted(a), int(g))
        for a, g, k in zip(e[open_].tolist(), found[open_, 1].tolist(), open_)
        if ipctk.is_edge_intersecting_triangle(*x[e[k]], *x[f[k]])
    }


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
    tets = np.stack(
        [
            np.stack([corner[0], corner[p], corner[q], corner[7]], axis=1)
            for p, q in ((4, 6), (6, 2), (2, 3), (3, 1), (1, 5), (5, 4))
        ],
        axis=1,
    ).reshape(-1, 4)
    inside = (a > 0) & (a < nx - 1) & (b >= n // 3) & (b < n - n // 3) & (c >= n // 3) & (c < n - n // 3)
    return VolumetricRobot.from_tets(
        vertices,
        tets,
        np.repeat(inside.astype(int), 6),
        material="ecoflex-00-30-fang2022",
        fixed=np.flatnonzero(vertices[:, 0] < 1e-9),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", help="write the growth curve to this file")
    parser.add_argument("--shapes", type=int, default=200, help="deformed shapes of the crossing check")
    arguments = parser.parse_args()
    polar_ratio()
    crossing_ratio(arguments.shapes)
    growth(arguments.plot)
