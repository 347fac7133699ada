"""Closes holes of a surface by the triangles of least area [Barequet and Sharir 1995, Computer Aided Geometric Design 12]."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from geosim.errors import InputError
from geosim.geometry import shells
from geosim.geometry.topology import face_normals


def border(faces: np.ndarray) -> np.ndarray:
    """Edges with one triangle, (k, 2), directed as the triangle has them."""
    directed, ids, _ = shells.edges(faces)
    return np.asarray(directed[np.bincount(ids)[ids] == 1])


def rim_loops(faces: np.ndarray) -> Iterator[list[int]]:
    """Vertices of closed, simple loops along the edges with one triangle, whatever the sense of the triangles."""
    neighbours: dict[int, set[int]] = {}
    for a, b in border(faces).tolist():
        neighbours.setdefault(a, set()).add(b)
        neighbours.setdefault(b, set()).add(a)
    while neighbours:
        path = [next(iter(neighbours))]
        while neighbours.get(path[-1]):
            here = path[-1]
            there = neighbours[here].pop()
            neighbours[there].discard(here)
            if there in path:  # of a figure eight each half is a loop
                begin = path.index(there)
                yield path[begin:]
                path = path[: begin + 1]
            else:
                path.append(there)
        for vertex in path:
            if not neighbours.get(vertex):
                neighbours.pop(vertex, None)


def place(point: np.ndarray) -> str:
    """Write a point [m] (3,) as messages do."""
    digits = 6  # of a millimetre: less is rounding
    return "({:.4g}, {:.4g}, {:.4g}) mm".format(*(np.round(point * 1e3, digits) + 0.0))


def closed(
    name: str, vertices: np.ndarray, faces: np.ndarray, diagonal: float
) -> tuple[np.ndarray, list[float], float]:
    """Close the small holes of a surface, but those that no triangles close without an edge that is there already.

    Parameters
    ----------
    name
        Of the surface, for messages.
    vertices, faces
        Positions [m] (n, 3), vertex ids (m, 3).
    diagonal
        Size of the surface [m]; a tenth of it is the width, area over length, of the widest hole that is closed. A missing
        triangle always is.

    Returns
    -------
    faces, widths, area
        All triangles, the diameters [m] of the holes and the area [m^2] added.

    Raises
    ------
    InputError
        A hole is wider.
    """
    # Area of a hole over its length and the size: slits, where vertices stand on edges, are closed however long.
    slit_area_ratio = 1e-3
    # area of a hole times this, over its length, is its width: the diameter of a round one
    round_hole_factor = 4.0 / np.pi
    max_border_edges = 300  # edges of a hole: the search for the least area takes their third power, and seconds beyond
    widest = 0.1 * diagonal  # larger holes are openings, and what closes them is a matter of design
    known = {tuple(e) for e in np.sort(shells.edges(faces)[0], axis=1).tolist()}
    added, widths = [faces], []
    for loop in rim_loops(faces):
        points = vertices[loop]
        across = float(np.linalg.norm(points[:, None] - points[None], axis=2).max())
        patch = _least_area(points, loop, known) if len(loop) <= max_border_edges else None
        area = np.inf if patch is None else 0.5 * np.linalg.norm(face_normals(vertices, patch), axis=1).sum()
        is_wide = len(loop) > 3 and across > widest and area > slit_area_ratio * diagonal * across
        if is_wide and round_hole_factor * area > widest * across:
            raise InputError(
                f"{name}: open, a hole {across * 1e3:.3g} mm across with {len(loop)} edges near "
                f"{place(points.mean(axis=0))} is too large for rescue ({widest * 1e3:.3g} mm, "
                f"{max_border_edges} edges); cap it in CAD or MeshLab (Close Holes)"
            )
        if patch is None:
            continue
        added.append(patch)
        widths.append(across)
        known |= {tuple(e) for e in np.sort(shells.edges(patch)[0], axis=1).tolist()}
    normals = face_normals(vertices, np.vstack([np.empty((0, 3), np.int64), *added[1:]]))
    return np.vstack(added), widths, 0.5 * float(np.linalg.norm(normals, axis=1).sum())


def _least_area(points: np.ndarray, loop: list[int], known: set[tuple[int, int]]) -> np.ndarray | None:
    """Triangles of least area on a loop (n, 3), without edges that the surface has already; None if there are none."""
    n = len(loop)
    allowed = np.array([[tuple(sorted((a, b))) not in known for b in loop] for a in loop])
    sides = np.arange(n)
    allowed[sides, (sides + 1) % n] = allowed[(sides + 1) % n, sides] = True
    cost, chosen = np.full((n, n), np.inf), np.zeros((n, n), dtype=np.int64)
    cost[sides[:-1], sides[1:]] = 0.0
    for gap in range(2, n):
        for i in range(n - gap):
            k = i + gap
            if allowed[i, k]:
                normal = np.cross(points[i + 1 : k] - points[i], points[k] - points[i])
                total = cost[i, i + 1 : k] + cost[i + 1 : k, k] + 0.5 * np.linalg.norm(normal, axis=1)
                chosen[i, k] = i + 1 + int(np.argmin(total))
                cost[i, k] = total.min()
    if n < 3 or not np.isfinite(cost[0, n - 1]):
        return None
    triangles, waiting = [], [(0, n - 1)]
    while waiting:
        i, k = waiting.pop()
        if k - i > 1:
            m = int(chosen[i, k])
            triangles.append((loop[i], loop[m], loop[k]))
            waiting += [(i, m), (m, k)]
    return np.array(triangles, dtype=np.int64)
