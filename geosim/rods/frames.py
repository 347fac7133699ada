"""Frames of rod edges: time-parallel reference frames, material frames, continuous reference twist.

Every edge carries a reference frame (d1, d2, t) and a material frame (m1, m2, t) turned by theta about t.
The reference frame of the old step is carried to the new tangent by the rotation that takes one tangent to the
other without spin (time-parallel transport, section III of [Choi2024]). The reference twist between the two
edges of a stencil is the signed angle left after carrying the first frame onto the second tangent; it is
measured from its old value, so that it stays continuous through any number of turns.
"""

from __future__ import annotations

import math

import numpy as np

from geosim.kernels import kernel

__all__ = ["advance_frames", "bend_strains", "first_frames", "material_frames", "reference_twists", "transport"]


@kernel
def cross(a, b):
    """Cross product of two 3-tuples."""
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


@kernel
def dot(a, b):
    """Scalar product of two 3-tuples."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@kernel
def row(array, i):
    """Row i of an (n, 3) array as a tuple, which the compiler keeps in registers."""
    return (array[i, 0], array[i, 1], array[i, 2])


@kernel
def scaled(s, a):
    """Scale a 3-tuple by s."""
    return (s * a[0], s * a[1], s * a[2])


@kernel
def transport(d, t0, t1):
    """Carry d along the smallest rotation that takes the unit vector t0 to t1.

    With b = t0 x t1 and c = t0 . t1 the rotation is d -> c d + b x d + b (b . d) / (1 + c).
    """
    b = cross(t0, t1)
    c = dot(t0, t1)
    bd = cross(b, d)
    s = dot(b, d) / (1.0 + c)
    return (c * d[0] + bd[0] + s * b[0], c * d[1] + bd[1] + s * b[1], c * d[2] + bd[2] + s * b[2])


@kernel
def advance_frames(q, edge_dofs, t_old, d_old, t, length, d, m1, m2):
    """Fill tangents, lengths, reference directors d1 and material directors m1, m2 of every edge at q.

    `edge_dofs` (E, 3): first unknown of the tail vertex, of the head vertex, and the index of theta.
    """
    for i in range(edge_dofs.shape[0]):
        a, b, k = edge_dofs[i, 0], edge_dofs[i, 1], edge_dofs[i, 2]
        e = (q[b] - q[a], q[b + 1] - q[a + 1], q[b + 2] - q[a + 2])
        n = math.sqrt(dot(e, e))
        te = scaled(1.0 / n, e)
        p = transport(row(d_old, i), row(t_old, i), te)
        s = dot(p, te)  # round-off would let the frame lean over many steps
        p = (p[0] - s * te[0], p[1] - s * te[1], p[2] - s * te[2])
        p = scaled(1.0 / math.sqrt(dot(p, p)), p)
        p2 = cross(te, p)
        cs = math.cos(q[k])
        sn = math.sin(q[k])
        length[i] = n
        for j in range(3):
            t[i, j] = te[j]
            d[i, j] = p[j]
            m1[i, j] = cs * p[j] + sn * p2[j]
            m2[i, j] = -sn * p[j] + cs * p2[j]


@kernel
def reference_twists(edges, signs, t, d, old, twist):
    """Fill the reference twist of every bending-twisting stencil, next to its old value (no jumps of 2 pi).

    An edge that enters with sign -1 has its tangent and first director reversed (section 3.2 of [Lahoti]).
    """
    for i in range(edges.shape[0]):
        a, b = edges[i, 0], edges[i, 1]
        te = scaled(signs[i, 0], row(t, a))
        tf = scaled(signs[i, 1], row(t, b))
        p = transport(scaled(signs[i, 0], row(d, a)), te, tf)
        p2 = cross(tf, p)
        cs = math.cos(old[i])
        sn = math.sin(old[i])
        u = (cs * p[0] + sn * p2[0], cs * p[1] + sn * p2[1], cs * p[2] + sn * p2[2])
        v = scaled(signs[i, 1], row(d, b))
        twist[i] = old[i] + math.atan2(dot(cross(u, v), tf), dot(u, v))


@kernel
def bend_strains(q, dofs, edges, signs, t, m1, m2, twist, strain):
    """Fill (kappa1, kappa2, tau) of every stencil: Eqs. (11)-(13) and (15) of [Lahoti]. Dimensionless, rad."""
    for i in range(edges.shape[0]):
        a, b = edges[i, 0], edges[i, 1]
        se, sf = signs[i, 0], signs[i, 1]
        te = scaled(se, row(t, a))
        tf = scaled(sf, row(t, b))
        kb = scaled(2.0 / (1.0 + dot(te, tf)), cross(te, tf))
        # the reversed edge keeps m2 and reverses m1
        m1e, m1f, m2e, m2f = scaled(se, row(m1, a)), scaled(sf, row(m1, b)), row(m2, a), row(m2, b)
        strain[i, 0] = 0.5 * (dot(kb, m2e) + dot(kb, m2f))
        strain[i, 1] = -0.5 * (dot(kb, m1e) + dot(kb, m1f))
        strain[i, 2] = sf * q[dofs[i, 7]] - se * q[dofs[i, 3]] + twist[i]


def first_frames(tangents: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return reference directors d1 (E, 3): space-parallel along each chain, so that the reference twist starts at 0.

    The first edge of a chain takes d1 = t x y (t x x along y), a fixed rule, so that the same robot always gets the
    same frames.
    """
    count = len(edges)
    directors = np.zeros((count, 3))
    done = np.zeros(count, dtype=bool)
    at_vertex: dict[int, list[int]] = {}
    for i, (a, b) in enumerate(edges):
        at_vertex.setdefault(int(a), []).append(i)
        at_vertex.setdefault(int(b), []).append(i)
    for seed in range(count):
        if done[seed]:
            continue
        t = tangents[seed]
        axis = np.zeros(3)
        axis[_least(t)] = 1.0
        d = np.cross(t, axis)
        directors[seed] = d / np.linalg.norm(d)
        done[seed] = True
        stack = [seed]
        while stack:
            i = stack.pop()
            for vertex in edges[i]:
                for j in at_vertex[int(vertex)]:
                    if done[j]:
                        continue
                    # the director is reversed with the edge when both edges meet head to head or tail to tail
                    s = 1.0 if (edges[i, 1] == edges[j, 0]) or (edges[i, 0] == edges[j, 1]) else -1.0
                    if 1.0 + s * tangents[i] @ tangents[j] < 1e-12:
                        p = -directors[i]
                    else:
                        p = s * np.array(transport(tuple(directors[i]), tuple(tangents[i]), tuple(s * tangents[j])))
                    p = p - (p @ tangents[j]) * tangents[j]
                    directors[j] = p / np.linalg.norm(p)
                    done[j] = True
                    stack.append(j)
    return directors


def _least(t: np.ndarray) -> int:
    """Axis for the first director: y, or x for an edge along y."""
    return 1 if abs(t[1]) < 0.9 else 0


def material_frames(directors: np.ndarray, tangents: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return m1, m2 (E, 3): the reference frame turned by theta [rad] about the tangent."""
    second = np.cross(tangents, directors)
    cs, sn = np.cos(theta)[:, None], np.sin(theta)[:, None]
    return cs * directors + sn * second, -sn * directors + cs * second
