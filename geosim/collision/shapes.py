"""Solid shapes: what a kind of obstacle is, and one signed distance of it for every solver.

A kind is an entry of `KINDS`: its parameters, its thickness and its surface for pictures, which the checks of `Obstacle`,
the keys of a robot file, the archive and the pictures read there; and a kernel below, named in `_slabs`, for its distance.
All shapes but meshes are intersections of at most three perpendicular slabs, of which the first may be curved:

    d_i(p)   depth of p beyond slab i (negative within), u_i its outward direction;
    d = |sum_i max(d_i, 0) u_i| outside, max_i d_i inside;  n = grad d;
    grad^2 d = (n . u_0) (h (I - sum_i u_i u_i^T) + k u_1 u_1^T) + [outside] (sum_(d_i > 0) u_i u_i^T - n n^T) / d,

with h the curvature of the first, and k a second one of it along u_1, where that names no slab. A mesh is a tree over its
faces, built once. The closest point is in a face, on an edge or in a corner, and the angle-weighted pseudo-normal of that
feature tells inside from outside, everywhere right for closed surfaces [Baerentzen and Aanaes 2005].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy

from geosim.arrays import (
    MIN_DIVISOR,
    ROUNDING_REL,
    Bools,
    Floats,
    Ints,
    axes_along,
    choice,
    floats,
    frozen,
    ints,
    number,
    shown,
)
from geosim.collision.queries import nearest_face
from geosim.collision.tree import build_tree, gap_to_box
from geosim.entries import entries
from geosim.errors import InputError
from geosim.kernels import kernel
from geosim.linear.matrix3 import cross, difference, dot, plus, put, row, scaled

# What a parameter is: a place [m] (3,), a unit vector (3,), a positive length [m]; of meshes places (n, 3) and faces (m, 3).
POINT, DIRECTION, LENGTH, VERTICES, FACE_IDS = "point", "direction", "length", "vertices", "faces"

OBSTACLES = "geosim.obstacles"  # group of entry points; their distance is that of the closed surface that they draw

Parameters = Mapping[str, Any]
Triangles = tuple[Floats, Ints]


# ---- kinds -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """What there is to know of a kind of shape beside its distance.

    Parameters
    ----------
    parameters
        Name and sort of every parameter: `POINT`, `DIRECTION`, `LENGTH`.
    thickness
        Depth [m] to which the nearest surface is certainly the one that was entered, inf for a half-space.
    surface
        Points [m] (p, 3) and triangles (t, 3) of the shape for pictures; what is endless is cut off around positions (n, 3).
    flaw
        What is wrong with valid parameters taken together, "" if nothing.
    convex
        Whether the shape is convex: then a triangle has one nearest point to it, which contact finds without a grid.
    least_radius
        Least radius of curvature of its surface [m], which spaces the points of rods: 0 where it has edges, inf where it is flat.
    """

    parameters: Mapping[str, str]
    thickness: Callable[[Parameters], float]
    surface: Callable[[Parameters, Floats], Triangles]
    flaw: Callable[[Parameters], str] = lambda given: ""
    convex: bool = False
    least_radius: Callable[[Parameters], float] = lambda given: 0.0

    @property
    def keys(self) -> tuple[str, ...]:
        """What a file gives: the parameters, or the `surface` of a mesh."""
        return ("surface",) if VERTICES in self.parameters else tuple(self.parameters)

    @property
    def width(self) -> int:
        """How many numbers its parameters are in `Solids.data`; 0 of a mesh, whose parameters are arrays."""
        return sum({POINT: 3, DIRECTION: 3, LENGTH: 1}.get(sort, 0) for sort in self.parameters.values())


def _drawn(name: str, *args: Any, **options: Any) -> Triangles:
    """Points and triangles of a primitive of trimesh."""
    from trimesh import creation  # slow to import

    mesh = getattr(creation, name)(*args, **options)
    return np.asarray(mesh.vertices), np.asarray(mesh.faces)


def _drawn_sphere(given: Parameters, around: Floats) -> Triangles:
    points, faces = _drawn("icosphere", 4, given["radius"])
    return points + given["center"], faces


def _drawn_plane(given: Parameters, around: Floats) -> Triangles:
    """Return a square under the positions."""
    lower, upper, normal = around.min(axis=0), around.max(axis=0), given["normal"]
    u, v, _ = 0.6 * np.linalg.norm(upper - lower) * axes_along(normal).T
    center = 0.5 * (lower + upper)
    center = center - ((center - given["point"]) @ normal) * normal
    return np.array([center - u - v, center + u - v, center + u + v, center - u + v]), np.array([[0, 1, 2], [0, 2, 3]])


SPHERE, CYLINDER, BOX, PLANE, MESH = range(5)  # places in KINDS, for the kernels
KINDS: dict[str, Kind] = {
    "sphere": Kind(
        {"center": POINT, "radius": LENGTH},
        lambda given: 0.5 * float(given["radius"]),
        _drawn_sphere,
        convex=True,
        least_radius=lambda given: float(given["radius"]),
    ),
    "cylinder": Kind(
        {"start": POINT, "end": POINT, "radius": LENGTH},
        lambda given: 0.5 * float(min(given["radius"], 0.5 * np.linalg.norm(given["end"] - given["start"]))),
        lambda given, around: _drawn("cylinder", given["radius"], segment=[given["start"], given["end"]], sections=64),
        lambda given: (
            "" if (given["start"] != given["end"]).any() else "start and end are one point, which has no axis"
        ),
        convex=True,
    ),
    "box": Kind(
        {"lower": POINT, "upper": POINT},
        lambda given: 0.2 * float((given["upper"] - given["lower"]).min()),
        lambda given, around: _drawn("box", bounds=[given["lower"], given["upper"]]),
        lambda given: (
            ""
            if (given["lower"] < given["upper"]).all()
            else f"lower {given['lower'].tolist()} m must be below upper {given['upper'].tolist()} m in every coordinate"
        ),
        convex=True,
    ),
    "plane": Kind(
        {"point": POINT, "normal": DIRECTION},
        lambda given: np.inf,
        _drawn_plane,
        convex=True,
        least_radius=lambda given: np.inf,
    ),
    "mesh": Kind(
        {"vertices": VERTICES, "faces": FACE_IDS},
        lambda given: 0.2 * float(np.ptp(given["vertices"], axis=0).min()),
        lambda given, around: (given["vertices"], given["faces"]),
    ),
}


def check_parameters(shape: str, given: Parameters) -> dict[str, Any]:
    """Return the parameters of a shape, checked, in the order of its kind; arrays are read-only.

    Raises
    ------
    InputError
        The kind is unknown, or a parameter is missing, unknown or impossible.
    """
    kind = kind_of(shape)
    if not isinstance(given, Mapping):
        raise InputError(
            f"Obstacle.{shape}: parameters = {shown(given)} must be a table with {', '.join(kind.parameters)}"
        )
    if set(given) != set(kind.parameters):
        raise InputError(f"Obstacle.{shape}: needs {', '.join(kind.parameters)}; {', '.join(given) or 'nothing'} given")
    checked = {key: _CHECKS[sort](given[key], f"Obstacle.{shape}: {key}") for key, sort in kind.parameters.items()}
    if "faces" in checked and checked["faces"].max(initial=-1) >= len(checked["vertices"]):
        raise InputError(f"Obstacle.{shape}: faces name vertex {checked['faces'].max()} of {len(checked['vertices'])}")
    if kind.flaw(checked):
        raise InputError(f"Obstacle.{shape}: {kind.flaw(checked)}")
    return checked


def kind_of(shape: str) -> Kind:
    """Return the kind of a shape: one of geosim, or an entry point.

    Raises
    ------
    InputError
        There is none of this name, or it cannot be imported.
    """
    if isinstance(shape, str) and shape in KINDS:
        return KINDS[shape]
    others = entries(OBSTACLES, KINDS)
    found = others[choice(shape, "Obstacle: shape", [*KINDS, *others])].load()
    if not isinstance(found, Kind):
        raise InputError(f"Obstacle: shape = {shape!r} is none: its entry point is no Kind of geosim.collision.shapes")
    return found


def _direction(value: Any, name: str) -> Floats:
    unit_length_rounding = 1e-15  # a vector off its unit length by rounding only stays as it is, to the last digit
    array = floats(value, name, (3,))
    length = float(np.linalg.norm(array))
    if length == 0:
        raise InputError(f"{name}: the zero vector has no direction")
    return array if abs(length - 1.0) < unit_length_rounding else frozen(array / length)


_CHECKS: dict[str, Callable[[Any, str], Any]] = {
    POINT: lambda value, name: floats(value, name, (3,)),
    DIRECTION: _direction,
    LENGTH: lambda value, name: number(value, name, above=0.0),
    VERTICES: lambda value, name: floats(value, name, (None, 3)),
    FACE_IDS: lambda value, name: ints(value, name, (None, 3)),
}


# ---- flat arrays -------------------------------------------------------------------------------------------------


class Solids(NamedTuple):
    """Shapes as flat arrays, which every kernel takes: `distances(solids, k, points, ...)`.

    Parameters
    ----------
    kind, convex, data
        Place in `KINDS` (s,), `Kind.convex` (s,), and the parameters one after the other, (s, the largest `Kind.width`).
    span
        First face, one past the last face, first and one past the last box of every mesh, (s, 4).
    vertices, faces, normals
        Of all meshes: positions [m] (v, 3), their ids (f, 3), and the pseudo-normals of the features of every face: its
        inside, edges 01, 12, 20, corners 0, 1, 2, unit vectors (f, 7, 3).
    order, boxes
        Of their trees, see `Tree`: faces in leaf order (f,), counted in their own mesh, and boxes [m] (b, 6).
    rounding
        Radius [m] that the edges of a shape of slabs are rounded to, (s,); 0: sharp. Faces stay where they are.
    """

    kind: Ints
    convex: Bools
    data: Floats
    span: Ints
    vertices: Floats
    faces: Ints
    normals: Floats
    order: Ints
    boxes: Floats
    rounding: Floats


_OF_EACH = ("kind", "convex", "data", "span", "rounding")  # fields of `Solids` with one row a shape


def make_solid(shape: str, given: Parameters) -> Solids:
    """Return one shape of checked parameters as flat arrays; a mesh gets its tree."""
    code = np.array([list(KINDS).index(shape) if shape in KINDS else MESH])
    convex = np.array([shape in KINDS and KINDS[shape].convex])
    data, span = np.zeros((1, max(kind.width for kind in KINDS.values()))), np.zeros((1, 4), dtype=np.int64)
    vertices, faces, normals = np.zeros((0, 3)), np.zeros((0, 3), dtype=np.int64), np.zeros((0, 7, 3))
    order, boxes = np.zeros(0, dtype=np.int64), np.zeros((0, 6))
    if code[0] == MESH:
        vertices, faces = kind_of(shape).surface(given, np.zeros((1, 3)))
        ends = faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2) @ [[1, len(vertices)], [len(vertices), 1]]
        if shape not in KINDS and (np.sort(ends, axis=0) @ [1, -1]).any():
            raise InputError(f"Obstacle.{shape}: the surface of its entry point is not closed, outward triangles")
        tree, normals = build_tree(vertices, faces), _feature_normals(vertices, faces)
        order, boxes, span[0] = tree.order, tree.boxes, (0, len(faces), 0, len(tree.boxes))
    else:
        numbers = np.hstack([given[key] for key in KINDS[shape].parameters])
        data[0, : len(numbers)] = numbers
    arrays = (code, convex, data, span, vertices, faces, normals, order, boxes, np.zeros(1))
    return Solids(*(frozen(array) for array in arrays))


def join_solids(solids: Sequence[Solids]) -> Solids:
    """Return many shapes as one; none are an empty one."""
    parts = [
        make_solid("sphere", {"center": np.zeros(3), "radius": 1.0}),
        *solids,
    ]  # the first gives arrays their shape
    corners, faces, boxes = (
        np.cumsum([0] + [len(getattr(s, key)) for s in parts]) for key in ("vertices", "faces", "boxes")
    )
    moved = [
        s._replace(span=s.span + [f, f, b, b], faces=s.faces + v) for s, v, f, b in zip(parts, corners, faces, boxes)
    ]
    whole = Solids(*(np.concatenate(arrays) for arrays in zip(*moved)))
    return Solids(*(frozen(array) for array in whole._replace(**{k: getattr(whole, k)[1:] for k in _OF_EACH})))


class ObstacleSet(NamedTuple):
    """Obstacles as every solver takes them.

    Parameters
    ----------
    solids
        Their shapes.
    friction, thickness
        Coulomb coefficients [-], and depths [m] to which the nearest surface is certainly the one that was entered, (o,).
    """

    solids: Solids
    friction: Floats
    thickness: Floats

    def solid(self, o: int) -> Solids:
        """Return the shape of obstacle o alone; what belongs to meshes is shared."""
        return self.solids._replace(**{key: getattr(self.solids, key)[o : o + 1] for key in _OF_EACH})

    def rounded(self, radius: Floats) -> ObstacleSet:
        """Return them with their edges rounded to radii [m] (o,): the distance to a shape, shrunk by that, less the radius.

        Inside, the distance to a sharp shape has kinks that begin at its edges; rounded, it has none down to the radius. A
        mesh keeps its edges.
        """
        return self._replace(solids=self.solids._replace(rounding=frozen(radius)))


def _feature_normals(vertices: Floats, faces: Ints) -> Floats:
    corners = vertices[faces]
    normals = _units(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]))
    vertex = np.zeros_like(vertices)
    for i in range(3):
        u, v = (_units(corners[:, (i + j) % 3] - corners[:, i]) for j in (1, 2))
        angle = np.arccos(np.clip(np.einsum("ij,ij->i", u, v), -1.0, 1.0))
        np.add.at(vertex, faces[:, i], normals * angle[:, None])
    ends = np.sort(faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    _, edge_of = np.unique(ends @ [len(vertices) + 1, 1], return_inverse=True)
    edge = np.zeros((edge_of.max(initial=-1) + 1, 3))
    np.add.at(edge, edge_of, np.repeat(normals, 3, axis=0))
    return _units(np.concatenate([normals[:, None], edge[edge_of].reshape(-1, 3, 3), vertex[faces]], axis=1))


def _units(vectors: Floats) -> Floats:
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.where(length > 0, length, 1.0)


# ---- kernels -----------------------------------------------------------------------------------------------------


@kernel
def _slabs(kind, w, p):
    """Depths of p beyond the slabs of a shape, their outward directions, the two curvatures [1/m] of the first.

    Slabs that a shape does not have are -inf deep. Their directions are 0, but for u_1 along which the second curvature is.
    """
    if kind == SPHERE:
        return _sphere(w, p)
    if kind == CYLINDER:
        return _cylinder(w, p)
    if kind == BOX:
        return _box(w, p)
    return _plane(w, p)


@kernel
def _plane(w, p):
    none, normal = (0.0, 0.0, 0.0), (w[3], w[4], w[5])
    return (dot(difference(p, w), normal), -np.inf, -np.inf), (normal, none, none), (0.0, 0.0)


@kernel
def _sphere(w, p):
    none, away = (0.0, 0.0, 0.0), difference(p, w)
    rho = math.sqrt(dot(away, away))
    outward = scaled(1.0 / rho, away) if rho > MIN_DIVISOR else (0.0, 0.0, 1.0)
    return (rho - w[3], -np.inf, -np.inf), (outward, none, none), (1.0 / max(rho, MIN_DIVISOR), 0.0)


@kernel
def _cylinder(w, p):
    axis = difference(w[3:6], w)
    length = math.sqrt(dot(axis, axis))
    axis = scaled(1.0 / length, axis)
    q = difference(p, w)
    along = dot(q, axis)
    across = difference(q, scaled(along, axis))
    rho = math.sqrt(dot(across, across))
    if rho > MIN_DIVISOR:
        outward = scaled(1.0 / rho, across)
    else:  # on the axis any direction across it will do
        outward = cross(axis, (1.0, 0.0, 0.0) if abs(axis[0]) < 0.5 else (0.0, 1.0, 0.0))
        outward = scaled(1.0 / math.sqrt(dot(outward, outward)), outward)
    end = scaled(1.0 if along >= 0.5 * length else -1.0, axis)
    depth = (rho - w[6], abs(along - 0.5 * length) - 0.5 * length, -np.inf)
    return depth, (outward, end, (0.0, 0.0, 0.0)), (1.0 / max(rho, MIN_DIVISOR), 0.0)


@kernel
def _box(w, p):
    below, above = difference(w, p), difference(p, w[3:])
    depth = (max(below[0], above[0]), max(below[1], above[1]), max(below[2], above[2]))
    x, y, z = (1.0 if above[0] >= below[0] else -1.0), (1.0 if above[1] >= below[1] else -1.0), 1.0
    return depth, ((x, 0.0, 0.0), (0.0, y, 0.0), (0.0, 0.0, z if above[2] >= below[2] else -z)), (0.0, 0.0)


@kernel
def _shrunk(depth, radius):
    return depth[0] + radius, depth[1] + radius, depth[2] + radius


@kernel
def _from_slabs(depth, u):
    """Distance and normal of an intersection of slabs."""
    x, y, z = max(depth[0], 0.0), max(depth[1], 0.0), max(depth[2], 0.0)
    beyond = math.sqrt(x * x + y * y + z * z)
    if beyond > 0.0:
        return beyond, plus(plus(scaled(x / beyond, u[0]), scaled(y / beyond, u[1])), scaled(z / beyond, u[2]))
    nearest = 0 if depth[0] >= max(depth[1], depth[2]) else 1 if depth[1] >= depth[2] else 2
    return depth[nearest], u[nearest]


@kernel
def _on_mesh(solids, k, p):
    """Closest face of mesh k (its place among all faces), the weights there, signed distance, normal, feature of the face."""
    # Barycentric weight of a closest point below which it lies on the edge opposite: rounding of the weights, and it leaves
    # no doubt which side of the surface a point is on.
    on_edge_weight = 1e-9
    first, last, root, end = solids.span[k]
    faces, boxes = solids.faces[first:last], solids.boxes[root:end]
    face, w = nearest_face(p, -1, solids.vertices, faces, solids.order[first:last], boxes, np.inf)
    a, b, c = (
        row(solids.vertices, faces[face, 0]),
        row(solids.vertices, faces[face, 1]),
        row(solids.vertices, faces[face, 2]),
    )
    away = difference(p, plus(plus(scaled(w[0], a), scaled(w[1], b)), scaled(w[2], c)))
    distance = math.sqrt(dot(away, away))
    x, y, z = w[0] > on_edge_weight, w[1] > on_edge_weight, w[2] > on_edge_weight
    if x and y and z:
        feature = 0
    elif x + y + z == 2:
        feature = 1 if not z else 2 if not x else 3
    else:
        feature = 4 if x else 5 if y else 6
    normal = row(solids.normals[first + face], feature)
    sign = -1.0 if dot(away, normal) < 0.0 else 1.0
    diagonal = difference(boxes[0, 3:], boxes[0])
    # nearer to a mesh the way to the closest point is rounding and has no direction
    if distance > ROUNDING_REL * math.sqrt(dot(diagonal, diagonal)):
        normal = scaled(sign / distance, away)
    return first + face, w, sign * distance, normal, feature


@kernel
def signed_distance(solids, k, p):
    """Return the distance [m] of one point (a tuple) to shape k, negative inside, and the outward normal, a tuple."""
    if solids.kind[k] == MESH:
        _, _, distance, normal, _ = _on_mesh(solids, k, p)
        return distance, normal
    radius = solids.rounding[k]
    depth, directions, _ = _slabs(solids.kind[k], solids.data[k], p)
    distance, normal = _from_slabs(_shrunk(depth, radius), directions)
    return distance - radius, normal


@kernel
def distances(solids, k, points, reach, distance, normal):
    """Write the distances [m] (p,) of points (p, 3) to shape k, negative inside, and the outward normals (p, 3) there.

    Points farther than their `reach` [m] (p,) from the box around a mesh are inf away. All points at once, because to hand
    the shapes on costs as much as four distances to a plane.
    """
    kind, w, none, radius = solids.kind[k], solids.data[k], (0.0, 0.0, 1.0), solids.rounding[k]
    for i in range(len(points)):
        p = row(points, i)
        if kind != MESH:
            depth, directions, _ = _slabs(kind, w, p)
            distance[i], n = _from_slabs(_shrunk(depth, radius), directions)
            distance[i] -= radius
        elif gap_to_box(solids.boxes, solids.span[k, 2], p, p) > reach[i] ** 2:
            distance[i], n = np.inf, none
        else:
            _, _, distance[i], n, _ = _on_mesh(solids, k, p)
        put(normal[i], n)


@kernel
def curvature(solids, k, p, out):
    """Write the second derivatives [1/m] of the signed distance of shape k, (3, 3)."""
    u, v, t = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    if solids.kind[k] == MESH:  # a corner is a sphere, an edge along t a cylinder, of radius `distance`
        face, _, distance, n, feature = _on_mesh(solids, k, p)
        if 1 <= feature <= 3:
            a, b = solids.faces[face, feature - 1], solids.faces[face, feature % 3]
            t = difference(solids.vertices[b], solids.vertices[a])
            t = scaled(1.0 / math.sqrt(dot(t, t)), t)
        u, corner, along = n, 0.0, 0.0
        hoop = 1.0 / distance if feature > 0 and abs(distance) > MIN_DIVISOR else 0.0
        depth = (distance, -np.inf, -np.inf)
    else:
        depth, (u, v, t), (hoop, along) = _slabs(solids.kind[k], solids.data[k], p)
        depth = _shrunk(depth, solids.rounding[k])
        distance, n = _from_slabs(depth, (u, v, t))
        hoop, along = hoop * dot(n, u), along * dot(n, u)
        corner = 1.0 / distance if distance > MIN_DIVISOR else 0.0
    for i in range(3):
        for j in range(3):
            uu, vv, tt = u[i] * u[j], v[i] * v[j], t[i] * t[j]
            active = (uu if depth[0] > 0 else 0.0) + (vv if depth[1] > 0 else 0.0) + (tt if depth[2] > 0 else 0.0)
            out[i, j] = hoop * ((1.0 if i == j else 0.0) - uu - vv - tt) + along * vv + corner * (active - n[i] * n[j])


@kernel
def _curvatures(solids, points, out):
    for i in range(len(points)):
        curvature(solids, 0, row(points, i), out[i])


@kernel
def _closest(solids, points, face, weights, distance):
    for i in range(len(points)):
        face[i], w, distance[i], _, _ = _on_mesh(solids, 0, row(points, i))
        put(weights[i], w)


# ---- many points at once -----------------------------------------------------------------------------------------


def signed_distances(
    solid: Solids, points: Floats, pose: Floats | None = None, reach: float = np.inf
) -> tuple[Floats, Floats, Floats]:
    """Distance of points to a shape, with the nearest point of its surface and the outward normal there.

    Parameters
    ----------
    solid
        The shape, see `make_solid` and `Obstacle.solid`.
    points
        Positions [m], shape (p, 3).
    pose
        (4, 4) where the shape stands now relative to its definition; default there.
    reach
        Distance [m] beyond which a mesh need not be asked (inf is returned); others ignore it.

    Returns
    -------
    distance, nearest, normal
        [m] (p,), negative inside; [m] (p, 3); unit vectors (p, 3) pointing out of the shape.
    """
    pose = np.eye(4) if pose is None else pose
    points = np.asarray(points, dtype=float)
    distance, normal = np.empty(len(points)), np.empty((len(points), 3))
    local, reaches = np.ascontiguousarray((points - pose[:3, 3]) @ pose[:3, :3]), np.full(len(points), float(reach))
    distances(solid, 0, local, reaches, distance, normal)
    normal = normal @ pose[:3, :3].T
    return distance, points - np.where(np.isfinite(distance), distance, 0.0)[:, None] * normal, normal


def curvatures(solid: Solids, points: Floats, pose: Floats | None = None) -> Floats:
    """Second derivatives of the signed distance [1/m] at points, shape (p, 3, 3); arguments as for `signed_distances`."""
    pose = np.eye(4) if pose is None else pose
    out = np.empty((len(points), 3, 3))
    _curvatures(solid, np.ascontiguousarray((points - pose[:3, 3]) @ pose[:3, :3]), out)
    return pose[:3, :3] @ out @ pose[:3, :3].T


def closest_on_mesh(solid: Solids, points: Floats) -> tuple[Ints, Floats, Floats]:
    """Return the faces (p,) of a mesh that are closest to points (p, 3), the weights of their corners there and distances."""
    face, weights, distance = np.empty(len(points), dtype=np.int64), np.empty((len(points), 3)), np.empty(len(points))
    _closest(solid, np.ascontiguousarray(points, dtype=float), face, weights, distance)
    return face, weights, distance


def poses_between(start: Floats, end: Floats, share: float) -> Floats:
    """Poses (o, 4, 4) at a share of the way between two: straight, and turning at a constant rate about a fixed axis."""
    if share >= 1.0 or np.array_equal(start, end):
        return end
    out = np.array((1.0 - share) * start + share * end)
    if not np.array_equal(start[:, :3, :3], end[:, :3, :3]):
        turn = scipy.spatial.transform.Rotation.from_matrix(
            np.einsum("oji,ojk->oik", start[:, :3, :3], end[:, :3, :3])
        ).as_rotvec()
        out[:, :3, :3] = start[:, :3, :3] @ scipy.spatial.transform.Rotation.from_rotvec(share * turn).as_matrix()
    return out
