"""How wide walls, gaps and slots are: from each triangle of closed surfaces to the next one that faces it."""

from __future__ import annotations

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.collision.queries import ray_hits
from geosim.collision.tree import build_tree
from geosim.geometry.topology import face_normals

MIN_FACING_COSINE = 0.5  # between the normals of two triangles, either way: the rim of a corner is no wall


def unit_normals(vertices: Floats, faces: Ints) -> tuple[Floats, Floats]:
    """Unit normals of triangles (m, 3), and their areas [m^2] (m,)."""
    normals = face_normals(vertices, faces)
    size = np.linalg.norm(normals, axis=1)
    return normals / np.maximum(size, np.finfo(float).tiny)[:, None], 0.5 * size


def next_along(points: Floats, ways: Floats, vertices: Floats, faces: Ints) -> tuple[Floats, Ints]:
    """Distance [m] from points on triangles along unit ways (k, 3) to the next triangle, and which; inf and -1 for none."""
    ray_start_rel = 1e-9  # of the size: rays start so far off their own triangle
    starts = points + ray_start_rel * float(np.ptp(vertices)) * ways
    ids = len(vertices) + np.arange(len(starts))
    return ray_hits(np.vstack([vertices, starts]), ids, ways, build_tree(vertices, faces))


def widths(vertices: Floats, faces: Ints, sides: tuple[float, ...] = (1.0, -1.0)) -> Floats:
    """Distance [m] from the centre of each triangle (m,) to the next one that faces it, before or behind it; inf for none.

    Parameters
    ----------
    vertices, faces
        Positions [m] (n, 3), triangles (m, 3) of one or of several closed surfaces.
    sides
        1 before the triangles, along their normals; -1 behind them.
    """
    normal, _ = unit_normals(vertices, faces)
    centres = vertices[faces].mean(axis=1)
    least = np.full(len(faces), np.inf)
    for side in sides:
        length, other = next_along(centres, side * normal, vertices, faces)
        is_facing = np.abs(np.einsum("ij,ij->i", normal, normal[other])) > MIN_FACING_COSINE
        least = np.where(is_facing & (other >= 0), np.minimum(least, length), least)
    return least
