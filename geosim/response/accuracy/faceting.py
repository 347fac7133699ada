"""Error of a measure due to the approximation of curved surfaces by flat facets.

Vertices lie on the curved surface, as CAD programs export them, so that facets cut off what is between. Where facets meet at
small angles they stand for one surface, which turns by half of the angle to the fold. With the normal tilted by t = H q at q from
the middle of a facet, its curvature H from its folds, the surface is

    z(q) = (Q(corner) - Q(q)) / 2,      Q(q) = q^T H q,

above the facet: a sagitta, h^2 kappa / 8 of a strip of width h. By its mean the facets are moved along their normals, the
vertices between with them, and the measure changes by its sensitivity to that motion.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from geosim.arrays import Floats, Ints, einsum
from geosim.errors import InputError
from geosim.generate import Design
from geosim.geometry import topology
from geosim.geometry.harmonic import harmonic
from geosim.model.robot import VolumetricRobot
from geosim.response.derivatives.parameters import Columns, Differences

# Angles [rad]: faces below the first are one facet, those above the second an edge that was drawn.
COPLANAR_ANGLE_RAD, CREASE_ANGLE_RAD = 5e-3, 0.7
# Normals of a vertex whose singular values differ by more are one direction: facets of about one height.
MAX_NORMAL_ANISOTROPY = 0.2


def faceting(made: Differences) -> tuple[Floats, str]:
    """Return what a measure changes by as flat facets become the surfaces that they stand for, and why it is not known."""
    problem, shape = made.tangent.problem, made.quantity.shape
    motion = facet_motion(problem.robot)
    if not motion.any():
        return np.zeros(shape), ""
    if problem.cables is not None or made.tangent.state.target.closed:
        what = "cables" if problem.cables is not None else "closed gas"
        why = f"what the facets of curved surfaces cost is not known of robots with {what}"
        return np.full(shape, np.nan), why
    try:
        column = made.along(motion)
    except InputError as error:
        return np.full(shape, np.nan), f"what the facets of curved surfaces cost is not known: {error}"
    return np.abs(made.jacobian(Columns((), [column]))), ""


def facet_motion(robot: VolumetricRobot) -> Floats:
    """Return how far the vertices are from where facets have the volume of the curved surface under them [m], (n, 3).

    0 for designs of `geosim.generate`, whose polygons have the areas of their circles already.
    """
    out = np.zeros_like(robot.vertices)
    if isinstance(robot.design, Design):
        return out
    found = [_facets(robot.vertices, faces) for faces in (robot.skin, *robot.chamber_walls) if len(faces)]
    members = np.vstack([pairs + [0, start] for (pairs, _, _), start in zip(found, _starts(found))])
    normals, heights = (np.concatenate([f[k] for f in found]) for k in (1, 2))
    curved = np.unique(members[heights[members[:, 1]] != 0.0, 0])
    members = members[np.isin(members[:, 0], curved)]
    members = members[np.argsort(members[:, 0], kind="stable")]
    ends = np.searchsorted(members[:, 0], curved, side="right")
    of_vertices = np.split(members[:, 1], ends[:-1])
    for vertex, facets in zip(curved, of_vertices if len(curved) else []):
        out[vertex] = np.linalg.lstsq(normals[facets], heights[facets], rcond=MAX_NORMAL_ANISOTROPY)[0]
    hull = np.unique(np.concatenate([topology.boundary_faces(t).ravel() for t in (robot.tets, robot.body_tets)]))
    return harmonic(robot.tets, out, hull) if len(curved) else out


def _starts(found: list[tuple[Ints, Floats, Floats]]) -> Ints:
    return np.cumsum([0, *(len(heights) for _, _, heights in found)])[:-1]


def _facets(vertices: Floats, faces: Ints) -> tuple[Ints, Floats, Floats]:
    """Return pairs (vertex, facet) (p, 2), and normals (g, 3) and heights [m] (g,) of what the facets stand for."""
    across = topology.face_normals(vertices, faces)
    unit = across / np.linalg.norm(across, axis=1, keepdims=True)
    edges, one, two = topology.shared_edges(faces)
    angle = np.arccos(np.clip(np.einsum("ei,ei->e", unit[one], unit[two]), -1.0, 1.0))
    label: Ints = topology.linked(one[angle < COPLANAR_ANGLE_RAD], two[angle < COPLANAR_ANGLE_RAD], len(faces))
    count = int(label.max()) + 1
    sums: Floats = np.zeros((count, 3))
    np.add.at(sums, label, across)
    normals: Floats = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    folds = np.flatnonzero((angle >= COPLANAR_ANGLE_RAD) & (angle < CREASE_ANGLE_RAD) & (label[one] != label[two]))
    pairs = np.unique(np.column_stack([faces.ravel(), np.repeat(label, 3)]), axis=0)
    heights: Floats = np.zeros(count)
    order = np.argsort(label, kind="stable")
    of_facets = np.split(faces[order], np.cumsum(np.bincount(label, minlength=count))[:-1])
    samples: dict[int, list[tuple[Floats, Floats, float]]] = {}
    # A facet so many times as wide as its neighbour is a plane that a curved surface runs into, not a part of it.
    tangent_plane_width_ratio = 2.5
    for e in folds.tolist():
        ends, f, g = vertices[edges[e]], int(label[one[e]]), int(label[two[e]])
        along, middle = ends[1] - ends[0], ends.mean(axis=0)
        length = float(np.linalg.norm(along))
        wide = [
            float(np.abs((vertices[of_facets[k]] - middle) @ np.cross(normals[k], along / length)).max())
            for k in (f, g)
        ]
        for k, other, mine, theirs in ((f, g, wide[0], wide[1]), (g, f, wide[1], wide[0])):
            part = (
                0.0
                if mine > tangent_plane_width_ratio * theirs
                else 1.0
                if theirs > tangent_plane_width_ratio * mine
                else 0.5
            )
            samples.setdefault(k, []).append((middle, part * (normals[other] - normals[k]), length))
    for k, known in samples.items():
        heights[k] = _height(vertices[of_facets[k]], normals[k], known)
    return pairs, normals, heights


def _height(corners: Floats, normal: Floats, known: list[tuple[Floats, Floats, float]]) -> float:
    """Return the mean height [m] of the surface over a facet (t, 3, 3) from tilts at its folds: places, tilts, weights."""
    first = corners[0, 1] - corners[0, 0]
    first -= (first @ normal) * normal
    plane = np.stack([first / np.linalg.norm(first), np.cross(normal, first) / np.linalg.norm(first)], axis=1)
    areas = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)
    middle = np.average(corners.mean(axis=1), axis=0, weights=areas)
    places, tilts = (np.array([row[i] for row in known]) @ plane for i in (0, 1))
    places -= middle @ plane
    weight = np.sqrt(np.array([row[2] for row in known]))[:, None]
    (x, y), zero = places.T, np.zeros(len(places))
    rows = np.vstack([np.stack([x, y, zero], axis=1) * weight, np.stack([zero, x, y], axis=1) * weight])
    a, b, c = np.linalg.lstsq(rows, (tilts * weight).T.ravel(), rcond=1e-6)[0]
    curvature = np.array([[a, b], [b, c]])
    form: Callable[[Floats], Floats] = lambda points: einsum("...i,ij,...j->...", points, curvature, points)  # noqa: E731
    at = (corners - middle) @ plane
    values = form(at).ravel()
    means = form(0.5 * (at + np.roll(at, 1, axis=1))).mean(axis=1)  # exact for quadratics
    return 0.5 * float(values[np.argmax(np.abs(values))] - np.average(means, weights=areas))
