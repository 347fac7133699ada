"""Stretch and stress of a solid, at the centroids of its tets and averaged around its nodes."""

from __future__ import annotations

import numpy as np

from geosim.arrays import Floats, Ints, choice, det, einsum
from geosim.errors import InputError
from geosim.geometry import topology
from geosim.kernels import kernel
from geosim.material import tensors
from geosim.material.materials import Hyperelastic
from geosim.model.robot import VolumetricRobot


def deformations(robot: VolumetricRobot, nodes: Floats) -> Floats:
    """Deformation gradients of the body tets at their centroids (mb, 3, 3), of P2 positions [m] (n + e, 3).

    There the gradients of the quadratic shape functions vanish at the corners and are grad L_a + grad L_b on the edge
    (a, b), so that F = sum over edges of x_ab (grad L_a + grad L_b). A single linear tet may have J far from 1 although
    the material around every edge keeps its volume. For these the mean around the edges is returned, the strain of
    ES-FEM [Liu and Nguyen-Thoi, Smoothed Finite Element Methods, 2010].
    """
    gradients = robot.body_gradients
    a, b = topology.TET_EDGES.T
    F = nodes[robot.p2_tets[:, 4:]].transpose(0, 2, 1) @ (gradients[:, a] + gradients[:, b])
    return _around_edges(robot, F) if _straight(robot, nodes) else F


def _straight(robot: VolumetricRobot, nodes: Floats) -> bool:
    """Whether all edges are straight, but for what rounding leaves where a free body was turned back."""
    straight = topology.with_mid_edges(nodes[: len(robot.vertices)], robot.p2_edges)
    straight_edge_rel = 1e-9  # of the body's size: the middle of an edge is so far from straight by rounding at most
    return bool(np.abs(straight - nodes).max(initial=0.0) <= straight_edge_rel * robot.size)


def jacobians(robot: VolumetricRobot, nodes: Floats) -> Floats:
    """Least J = det F of every body tet at its corners and mid-edges, of P2 positions [m] (n + e, 3); (mb,).

    F is affine in the element.
    """
    corners = at_corners(nodes[robot.p2_tets], robot.body_gradients)
    middles = 0.5 * (corners[:, topology.TET_EDGES[:, 0]] + corners[:, topology.TET_EDGES[:, 1]])
    return np.asarray(det(np.concatenate([corners, middles], axis=1)).min(axis=1))


def at_corners(at: Floats, gradients: Floats) -> Floats:
    """Deformation gradients of P2 tets at their corners, (m, 4, 3, 3), between which they are affine.

    At corner k that is sum_a (4 d_ka - 1) x_a (x) g_a + 4 sum_m x_km (x) g_m, of the positions of the ten nodes (m, 10, 3), g the
    rest gradients of the barycentric coordinates (m, 4, 3) and x_km the middle of the edge from k to m.
    """
    corners = np.empty((len(at), 4, 3, 3))
    _at_corners(at, gradients, topology.TET_EDGES, corners)
    return corners


@kernel
def _at_corners(at, gradients, edges, out):
    """Write the gradients of `at_corners`."""
    for e in range(len(at)):
        for i in range(3):
            for j in range(3):
                beside = 0.0
                for a in range(4):
                    beside -= at[e, a, i] * gradients[e, a, j]
                for k in range(4):
                    out[e, k, i, j] = beside + 4.0 * at[e, k, i] * gradients[e, k, j]
                for m in range(6):
                    a, b = edges[m]
                    out[e, a, i, j] += 4.0 * at[e, 4 + m, i] * gradients[e, b, j]
                    out[e, b, i, j] += 4.0 * at[e, 4 + m, i] * gradients[e, a, j]


def material_numbers(robot: VolumetricRobot) -> Ints:
    """Number of the material of every body tet (mb,), in the order of `robot.materials`."""
    return np.searchsorted(list(robot.materials), robot.regions[robot.is_body])


def _around_edges(robot: VolumetricRobot, F: Floats) -> Floats:
    """Mean of values of the body tets (mb, 3, 3) over their edges, of the volume-weighted means around these in one region."""
    weight = np.abs(topology.tet_volumes(robot.vertices, robot.body_tets))
    first, count = len(robot.vertices), len(robot.p2_edges)
    edges = (robot.p2_tets[:, 4:] - first + count * material_numbers(robot)[:, None]).ravel()
    total = np.bincount(edges, np.repeat(weight, 6), count * len(robot.materials))
    out = np.empty_like(F)
    for i, j in np.ndindex(3, 3):
        summed = np.bincount(edges, np.repeat(weight * F[:, i, j], 6), len(total))
        out[:, i, j] = (summed[edges] / total[edges]).reshape(-1, 6).mean(axis=1)
    return out


def stretch(F: Floats) -> Floats:
    """Largest principal stretch of deformation gradients (..., 3, 3): the root of the largest eigenvalue of F^T F."""
    squared = np.ascontiguousarray(np.einsum("...ki,...kj->...ij", F, F).reshape(-1, 3, 3))
    out, close = np.empty(len(squared)), np.empty(len(squared), dtype=np.bool_)
    _largest_eigenvalues(squared, out, close)
    out[close] = np.linalg.eigvalsh(squared[close])[:, -1]
    return np.asarray(np.sqrt(np.maximum(out, 0.0)).reshape(F.shape[:-2]))


@kernel
def _largest_eigenvalues(matrices, out, close):
    """Write the largest eigenvalue of symmetric matrices (m, 3, 3) in closed form [Smith 1961, Comm. ACM 4].

    `close` says where the two largest are so close that rounding in it would exceed 1e-14 of the matrix.
    """
    close_cosine = 1e-4 - 1.0
    for e in range(len(matrices)):
        A = matrices[e]
        q = (A[0, 0] + A[1, 1] + A[2, 2]) / 3.0
        x, y, z, a, b, c = A[0, 0] - q, A[1, 1] - q, A[2, 2] - q, A[1, 2], A[0, 2], A[0, 1]
        p = np.sqrt((x * x + y * y + z * z + 2.0 * (a * a + b * b + c * c)) / 6.0)
        cosine = (x * (y * z - a * a) - c * (c * z - a * b) + b * (c * a - y * b)) / (2.0 * max(p, 1e-100) ** 3)
        close[e] = cosine < close_cosine
        out[e] = q + 2.0 * p * np.cos(np.arccos(min(max(cosine, -1.0), 1.0)) / 3.0)


def around_nodes(robot: VolumetricRobot, values: Floats) -> Floats:
    """Volume-weighted mean of values of the body tets (mb, ...) around every vertex and mid-edge node; 1 where none is."""
    weight = np.abs(topology.tet_volumes(robot.vertices, robot.body_tets))
    count, nodes = len(robot.vertices) + len(robot.p2_edges), robot.p2_tets
    shaped = values.reshape(len(values), -1)
    total = np.bincount(nodes.ravel(), np.repeat(weight, nodes.shape[1]), count)
    out = np.ones((count, shaped.shape[1]))
    for column, value in enumerate(shaped.T):
        summed = np.bincount(nodes.ravel(), np.repeat(value * weight, nodes.shape[1]), count)
        np.divide(summed, total, out=out[:, column], where=total > 0)
    return out.reshape(count, *values.shape[1:])


def _cauchy(rows: Floats, material: Ints, F: Floats) -> Floats:
    """Cauchy stresses P F^T / J of the strain energy alone (m, 3, 3)."""
    F = np.ascontiguousarray(F)
    pulled = einsum("eij,ekj->eik", tensors.stresses(rows, material, F), F)
    return np.asarray(pulled / det(F)[:, None, None])


def _strain_stresses(robot: VolumetricRobot, F: Floats, isochoric: bool) -> Floats:
    rows = tensors.table(list(robot.materials.values()), 1.0, isochoric=isochoric)
    return _cauchy(rows, material_numbers(robot), F)


def _equivalent(stress: Floats) -> Floats:
    """Root of 3/2 of the squared norm of the deviator of stresses (..., 3, 3)."""
    mean = np.trace(stress, axis1=-2, axis2=-1)[..., None, None] / 3.0
    return np.asarray(np.sqrt(1.5 * ((stress - mean * np.eye(3)) ** 2).sum(axis=(-2, -1))))


def equivalent_stress(material: Hyperelastic, F: Floats) -> Floats:
    """Equivalent (von Mises) stress [Pa] of a material at deformation gradients (..., 3, 3); it needs no pressure."""
    flat = F.reshape(-1, 3, 3)
    rows, which = tensors.table([material], 1.0, isochoric=True), np.zeros(len(flat), dtype=np.int64)
    return _equivalent(_cauchy(rows, which, flat)).reshape(F.shape[:-2])


def von_mises(robot: VolumetricRobot, F: Floats) -> Floats:
    """Equivalent stress [Pa] of the body tets at their deformation gradients (mb, 3, 3), (mb,); it needs no pressure."""
    return _equivalent(_strain_stresses(robot, F, isochoric=True))


def stresses(robot: VolumetricRobot, nodes: Floats, kind: str, pressures: Floats | None, isochoric: bool) -> Floats:
    """Stress at the vertices [Pa], the mean of the tets around them: (n,) of "von-mises", (n, 3, 3) of "cauchy"; nan elsewhere.

    Parameters
    ----------
    pressures
        What incompressibility adds to the mean stress at the vertices [Pa], (n,).
    isochoric
        Whether `pressures` go with the isochoric form of the energy.

    Raises
    ------
    InputError
        The kind is unknown, or the full stress is asked of a result without pressures.
    """
    choice(kind, "stress: kind", ("von-mises", "cauchy"))
    n = len(robot.vertices)
    if kind == "von-mises":
        out = around_nodes(robot, von_mises(robot, deformations(robot, nodes)))[:n]
    elif pressures is None:
        raise InputError(
            "stress: this result holds no pressure in the material, so its mean stress is unknown; solve with "
            "EnergyShapeSolver, or ask for kind='von-mises'"
        )
    else:
        out = around_nodes(robot, _strain_stresses(robot, deformations(robot, nodes), isochoric))[:n]
        out += pressures[:, None, None] * np.eye(3)
    out[~robot.body_vertices] = np.nan
    return out
