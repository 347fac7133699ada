"""Makes touching solids meet in equal triangles, as a conforming mesh needs.

CAD programs export a body and the layer glued to it as two closed surfaces whose common wall is cut into different
triangles. For touching solids A and B that do not overlap, U = A + B has no inner wall; A' = U - B and B' = U - A'
are the same solids with one common set of triangles on the wall.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from geosim.geometry import shells
from geosim.geometry.intersections import crossing_pairs
from geosim.geometry.surface import SLIVER_TOLERANCE, Surface

CUT_NOISE = 1e-5  # of the diagonal: slivers so flat are left by the cut of a bore or an inlet


def conforming(surfaces: Sequence[Surface], tolerance: float) -> tuple[Surface, ...]:
    """Give touching solids equal triangles on their common walls.

    Parameters
    ----------
    surfaces
        Checked surfaces. Those that do not touch, or that overlap, come back as they are.
    tolerance
        Largest distance [m] that counts as touching.

    Returns
    -------
    tuple of Surface
        The same solids in the same order; a notice where triangles were cut.
    """
    # A new wall of a third solid can cut an old one again; three passes settle a stack of layers.
    imprint_passes = 3
    found = list(surfaces)
    for _ in range(imprint_passes):
        changed = False
        for i, j in combinations(range(len(found)), 2):
            pairs = _contacts(found[i], found[j], tolerance)
            cut = _imprint(found[i], found[j], pairs, tolerance) if len(pairs) else None
            if cut is not None:
                found[i], found[j] = cut
                changed = True
        if not changed:
            break
    return tuple(
        new
        if new is old
        else replace(
            new,
            notices=(*new.notices, (f"{new.label}: triangles on the wall shared with its neighbour were cut to match")),
        )
        for new, old in zip(found, surfaces)
    )


def _contacts(a: Surface, b: Surface, tolerance: float) -> np.ndarray:
    """Pairs (face of a, face of b) that touch other than as equal triangles or in common vertices, shape (k, 2)."""
    if np.any(a.vertices.max(axis=0) < b.vertices.min(axis=0) - tolerance) or np.any(
        b.vertices.max(axis=0) < a.vertices.min(axis=0) - tolerance
    ):
        return np.empty((0, 2), dtype=np.int64)
    vertices = np.vstack([a.vertices, b.vertices])
    faces = np.vstack([a.faces, b.faces + len(a.vertices)])
    vertices, faces, _ = shells.merge_vertices(vertices, faces, shells.MERGE_TOLERANCE * max(a.diagonal, b.diagonal))
    group = np.repeat([0, 1], [len(a.faces), len(b.faces)])
    _, first = np.unique(np.sort(faces, axis=1), axis=0, return_index=True)
    pairs = crossing_pairs(vertices, faces[first], tolerance=-1.0, group=group[first], group_tolerance=tolerance)
    return np.sort(first[pairs], axis=1) - [0, len(a.faces)]


def _imprint(a: Surface, b: Surface, pairs: np.ndarray, tolerance: float) -> tuple[Surface, Surface] | None:
    """Both solids with equal triangles on their common wall; None if they overlap or cannot be cut cleanly."""
    frame = _wall_frame(a, b, pairs)
    place = snapped(np.vstack([a.vertices, b.vertices]) @ frame, tolerance)
    one, two = as_manifold(place[: len(a.vertices)], a.faces), as_manifold(place[len(a.vertices) :], b.faces)
    union = one + two
    new_one = union - two
    new_two = union - new_one
    # The tolerance may change its thickness over the whole of the smaller skin; overlapping solids change more.
    slack = tolerance * min(one.surface_area(), two.surface_area())
    if max(abs(new_one.volume() - a.volume), abs(new_two.volume() - b.volume)) > slack:
        return None
    (v, f), (w, g) = of_manifold(new_one, a.diagonal), of_manifold(new_two, b.diagonal)
    return replace(a, vertices=v @ frame.T, faces=f), replace(b, vertices=w @ frame.T, faces=g)


def _wall_frame(a: Surface, b: Surface, pairs: np.ndarray) -> np.ndarray:
    """Axes as columns (3, 3) with z across the largest flat common wall and x along an edge of it.

    Boolean operations see a common wall only where its coordinates are equal to the bit; in this frame they can be
    made so.
    """
    # Walls are flat on each other if the cosine of their angle differs from -1 by less.
    flat_wall_cosine = 1e-9
    corners = [a.vertices[a.faces[pairs[:, 0]]], b.vertices[b.faces[pairs[:, 1]]]]
    normals = [np.cross(c[:, 1] - c[:, 0], c[:, 2] - c[:, 0]) for c in corners]
    areas = [np.linalg.norm(n, axis=1) for n in normals]
    opposed = np.einsum("ij,ij->i", *normals) <= -(1 - flat_wall_cosine) * areas[0] * areas[1]
    if not opposed.any():
        return np.eye(3)
    # The triangle of the largest height has the best normal.
    heights = [area / np.linalg.norm(np.roll(c, -1, axis=1) - c, axis=2).max(axis=1) for area, c in zip(areas, corners)]
    scores = np.where(opposed, np.stack(heights), -1.0)
    side, best = np.unravel_index(np.argmax(scores), scores.shape)
    triangle = corners[side][best]
    edges = np.roll(triangle, -1, axis=0) - triangle
    z = normals[side][best] / areas[side][best]
    x = edges[np.argmax(np.linalg.norm(edges, axis=1))]
    if np.abs(z).max() > 1 - flat_wall_cosine:  # along an axis already: keep the coordinates to the bit
        return np.eye(3)
    x = x / np.linalg.norm(x)
    return np.stack([x, np.cross(z, x), z], axis=1)


def snapped(points: np.ndarray, tolerance: float) -> np.ndarray:
    """Make coordinates [m] (n, 3) equal that differ by less than the tolerance [m]."""
    points = np.array(points)
    for axis in range(3):
        values = np.unique(points[:, axis])
        settled = values.copy()
        for i in range(1, len(values)):
            if values[i] - settled[i - 1] <= tolerance:
                settled[i] = settled[i - 1]
        points[:, axis] = settled[np.searchsorted(values, points[:, axis])]
    return points


def as_manifold(vertices: np.ndarray, faces: np.ndarray) -> Any:
    """Return the solid of closed, outward triangles, for Boolean operations."""
    from manifold3d import Manifold, Mesh64  # slow to import, and needed for touching bodies and repairs only

    return Manifold(Mesh64(vert_properties=np.array(vertices, order="C"), tri_verts=faces.astype(np.uint64)))


def of_manifold(solid: Any, diagonal: float, noise: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Return vertices and triangles of a solid, without the vertices and slivers that its cuts leave behind.

    Those of a noise, a share of the diagonal [m], go first, whatever they are.
    """
    mesh = (solid.simplify(noise * diagonal) if noise else solid).to_mesh64()
    vertices, faces = np.asarray(mesh.vert_properties)[:, :3], np.asarray(mesh.tri_verts).astype(np.int64)
    vertices, faces, _ = shells.merge_vertices(vertices, faces, shells.MERGE_TOLERANCE * diagonal)
    vertices, faces = shells.compact(vertices, shells.drop_degenerate(faces)[0])
    return vertices, shells.flip_slivers(vertices, faces, SLIVER_TOLERANCE * diagonal)[0]
