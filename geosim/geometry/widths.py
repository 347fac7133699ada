"""How wide walls, gaps and slots are: from each triangle of closed surfaces to the next one that faces it."""

from __future__ import annotations

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.collision.queries import ray_hits
from geosim.collision.tree import build_tree
from geosim.geometry.topology import face_normals
from geosim.kernels import filled, kernel
from geosim.linear.matrix3 import combine, cross, difference, dot, plus, put, row, scaled

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


def wall_samples(
    vertices: Floats, faces: Ints, spacing: float, others: Ints | None = None
) -> tuple[Floats, Ints, Floats]:
    """Points [m] (p, 3) inside triangles, no farther apart than a spacing; their triangles (p,); what faces them [m] (p, 2).

    The distances are those to the next triangle, of these or of others, before and behind the point that is turned its way; inf
    for none.
    """
    others = faces if others is None else others
    points, owner = filled(
        lambda *out: _sample(vertices, faces, spacing, *out), 8 * len(faces), ((3,), float), ((), np.int64)
    )
    normals, targets = unit_normals(vertices, faces)[0], unit_normals(vertices, others)[0]
    wide = np.full((len(points), 2), np.inf)
    for k, sense in enumerate((1.0, -1.0)):
        length, other = next_along(points, sense * normals[owner], vertices, others)
        facing = (other >= 0) & (np.abs(np.einsum("ij,ij->i", normals[owner], targets[other])) > MIN_FACING_COSINE)
        wide[facing, k] = length[facing]
    return points, owner, wide


def thin_width(vertices: Floats, faces: Ints, spacing: float, least: float = 0.0) -> float:
    """Width [m] of walls and gaps that 3 % of the area is thinner than: less are cusps, where fillets run out.

    Surfaces nearer than `least` [m] touch.
    """
    thin_area = 0.03
    _, owner, wide = wall_samples(vertices, faces, spacing)
    share = (unit_normals(vertices, faces)[1] / np.maximum(np.bincount(owner, minlength=len(faces)), 1))[owner]
    width = np.where(wide > least, wide, np.inf).min(axis=1)
    order = np.argsort(width)
    return float(width[order[np.searchsorted(np.cumsum(share[order]), thin_area * share.sum())]])


@kernel
def _sample(vertices, faces, spacing, points, owner):
    """Write points on triangles in rows along their longest edges, their corners left out; return how many there are."""
    count = 0
    for f in range(len(faces)):
        longest, at = -1.0, 0
        for i in range(3):
            side = difference(row(vertices, faces[f, (i + 1) % 3]), row(vertices, faces[f, i]))
            if dot(side, side) > longest:
                longest, at = dot(side, side), i
        a, b = row(vertices, faces[f, at]), row(vertices, faces[f, (at + 1) % 3])
        c = row(vertices, faces[f, (at + 2) % 3])
        normal = cross(difference(b, a), difference(c, a))
        longest = np.sqrt(longest)
        rows = int(np.ceil(np.sqrt(dot(normal, normal)) / max(longest, 1e-300) / spacing))
        for j in range(rows):
            up = (j + 0.5) / rows
            columns = int(np.ceil((1.0 - up) * longest / spacing))
            for k in range(columns):
                if count < len(points):
                    along = (1.0 - up) * (k + 0.5) / columns
                    put(points[count], plus(combine(1.0 - up - along, a, along, b), scaled(up, c)))
                    owner[count] = f
                count += 1
    return count
