"""Meshes that are their own images in a plane: one half of the bodies is meshed, and mirrored.

The half of a body is closed by its cut, with the cavities of chambers open in it: it is meshed as a body without chambers.
Both halves together are a hollow mesh, whose cavities are filled afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from geosim.arrays import Floats, Ints, choice
from geosim.errors import InputError, MeshError
from geosim.geometry import shells, topology
from geosim.geometry.imprint import as_manifold, of_manifold
from geosim.geometry.intersections import farthest_from
from geosim.geometry.mesh import DEFAULT_EDGES_PER_DIAGONAL, TetMesh
from geosim.geometry.surface import Surface
from geosim.geometry.widths import unit_normals

SYMMETRIC_DISTANCE_REL = (
    1e-5  # of the diagonal: surfaces farther from their image are not symmetric; STL files round to 1e-7
)

Fill = Callable[[Floats, Ints, Ints, Sequence[int]], tuple[Floats, Ints, Ints, tuple[str, ...]]]
Mesher = Callable[[Sequence[Surface], float | None], TetMesh]


def plane_of_symmetry(bodies: Sequence[Surface], chambers: Sequence[Surface], asked: str) -> tuple[int | None, str]:
    """Return the axis (0, 1, 2) of a plane through the middle of the bodies in which they are their own images.

    `asked` is "x", "y", "z" or "auto", the first that is one; None, and a line that says why, where there is none.

    Raises
    ------
    InputError
        The plane asked for is none.
    """
    symmetry_planes = ("auto", "x", "y", "z")
    plane_order = "yxz"  # fingers lie along x and bend about y
    choice(asked, "symmetry", symmetry_planes)
    why = []
    for name in plane_order if asked == "auto" else asked:
        axis = "xyz".index(name)
        middle = _middle(bodies, axis)
        off = max(_off_image(list(group), axis, middle) for group in (bodies, chambers) if group)
        if off <= SYMMETRIC_DISTANCE_REL * _diagonal(bodies):
            return axis, ""
        why.append(f"{1e3 * off:.3g} mm off their image in {name} = {1e3 * middle:.4g} mm")
    line = f"{bodies[0].label}: symmetry = {asked!r}: the surfaces have no such plane ({', '.join(why)})"
    if asked != "auto":
        raise InputError(f"{line}; leave symmetry out")
    return None, f"{line}; meshed as they are"


def mesh_halves(
    bodies: Sequence[Surface],
    chambers: Sequence[Surface],
    axis: int,
    max_edge: float | None,
    mesher: Mesher,
    fill: Fill,
) -> TetMesh:
    """Mesh what lies on the positive side of the plane of symmetry normal to an axis, and mirror it.

    `mesher(bodies, max_edge)` meshes bodies without chambers, `fill` is `fill_cavities`.

    Raises
    ------
    InputError
        The mesher fails, or a chamber is lost.
    """
    on_plane_rel = 1e-9  # of the diagonal: what the mesher leaves of a plane facet
    slit_rel = 3e-3  # of the diagonal: the walls of an envelope are no farther from where they belong
    attempts = 3  # an envelope is drawn anew, and one in some twenty leaves a vertex off the plane
    middle, diagonal = _middle(bodies, axis), _diagonal(bodies)
    cut = _cut(bodies, chambers, axis, middle, diagonal)
    for _ in range(attempts):
        half = mesher(cut, max_edge or diagonal / DEFAULT_EDGES_PER_DIAGONAL)
        vertices, tets = half.vertices.copy(), half.tets
        on = np.abs(vertices[:, axis] - middle) <= on_plane_rel * diagonal
        vertices[on, axis] = middle
        if not _has_slit(vertices - middle, tets, on, axis, slit_rel * diagonal):
            break
    else:
        raise MeshError(f"{bodies[0].label}: its halves do not meet in the plane of symmetry; leave symmetry out")
    image = vertices[~on].copy()
    image[:, axis] = 2.0 * middle - image[:, axis]
    other = np.where(on, np.arange(len(on)), len(on) + np.cumsum(~on) - 1)
    vertices, tets = np.vstack([vertices, image]), np.vstack([tets, other[tets][:, [0, 2, 1, 3]]])
    k, numbers = len(chambers), {r: 0 if i == 0 else len(chambers) + i for i, r in enumerate(half.body_regions)}
    regions = np.tile(np.array([numbers[r] for r in half.regions.tolist()]), 2)
    if k:
        vertices, tets, regions = _with_chambers(
            fill(vertices, tets, regions, list(numbers.values())), max(numbers.values()), chambers
        )
    return replace(
        half,
        vertices=vertices,
        tets=np.ascontiguousarray(tets),
        regions=regions,
        body_regions=tuple(numbers.values()),
        chamber_regions=tuple(range(1, k + 1)),
    )


def _has_slit(away: Floats, tets: Ints, on: np.ndarray, axis: int, near: float) -> bool:
    """Whether faces of a half that lie in the plane of symmetry leave it by a little: the image would not meet them.

    `away` [m] (n, 3) are positions from the plane, `on` (n,) tells which vertices lie in it.
    """
    least_cosine = 0.9  # between the normal of such a face and that of the plane: a skin runs into the plane steeply
    faces = topology.boundary_faces(tets)
    beside = on[faces].any(axis=1) & ~on[faces].all(axis=1) & (away[faces, axis].max(axis=1) < near)
    return bool((unit_normals(away, faces[beside])[0][:, axis] < -least_cosine).any())


def _with_chambers(
    filled: tuple[Floats, Ints, Ints, tuple[str, ...]], last: int, chambers: Sequence[Surface]
) -> tuple[Floats, Ints, Ints]:
    """Give the cavities of chambers, regions beyond the last of the bodies, their regions 1 .. k; others stay hollow."""
    vertices, tets, found, _ = filled
    out = found.copy()
    for region in range(last + 1, int(found.max()) + 1):
        mine = found == region
        point = vertices[tets[np.argmax(mine)]].mean(axis=0)
        inside = [shells.encloses(c.vertices, c.faces, point) for c in chambers]
        out[mine] = 1 + inside.index(True) if any(inside) else -1
    lost = [c.label for i, c in enumerate(chambers) if not (out == i + 1).any()]
    if lost:
        raise InputError(f"{lost[0]}: is lost as the bodies are cut in the plane of symmetry; leave symmetry out")
    kept = out >= 0
    used, renumbered = np.unique(tets[kept], return_inverse=True)
    return vertices[used], renumbered.reshape(-1, 4), out[kept]


def _cut(
    bodies: Sequence[Surface], chambers: Sequence[Surface], axis: int, middle: float, diagonal: float
) -> list[Surface]:
    """Return the positive halves of the bodies without chambers, and without the bodies inside them."""
    out = []
    hollows = [as_manifold(c.vertices, c.faces) for c in chambers]
    for body in bodies:
        solid = as_manifold(body.vertices, body.faces)
        inside = [as_manifold(b.vertices, b.faces) for b in bodies if b is not body and 0.0 < b.volume < body.volume]
        for hole in [*hollows, *inside]:
            solid = solid - hole
        half = solid.trim_by_plane(tuple(np.eye(3)[axis]), middle)
        vertices, faces = of_manifold(half, diagonal)
        near = np.abs(vertices[:, axis] - middle) <= SYMMETRIC_DISTANCE_REL * diagonal
        vertices[near, axis] = middle
        out.append(replace(body, vertices=vertices, faces=faces))
    return out


def _off_image(surfaces: list[Surface], axis: int, middle: float) -> float:
    """Largest distance [m] of the images of surfaces in a plane from the surfaces."""
    vertices, faces = shells.joined(surfaces)
    points = np.vstack([vertices, vertices[faces].mean(axis=1)])
    points[:, axis] = 2.0 * middle - points[:, axis]
    return farthest_from(points, vertices, faces)[0]


def _middle(bodies: Sequence[Surface], axis: int) -> float:
    values = np.concatenate([body.vertices[:, axis] for body in bodies])
    return 0.5 * float(values.min() + values.max())


def _diagonal(bodies: Sequence[Surface]) -> float:
    return float(np.linalg.norm(np.ptp(np.vstack([body.vertices for body in bodies]), axis=0)))
