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

from geosim.arrays import ROUNDING_REL, Floats, Ints
from geosim.kernels import kernel
from geosim.linear.matrix3 import combine, cross, difference, dot, row, scaled


@kernel
def point(q, dof):
    """Position of the vertex whose first degree of freedom is `dof`."""
    return (q[dof], q[dof + 1], q[dof + 2])


@kernel
def axis(j):
    """Unit vector of a coordinate axis."""
    return (1.0 if j == 0 else 0.0, 1.0 if j == 1 else 0.0, 1.0 if j == 2 else 0.0)


@kernel
def carried(d, t_old, t):
    """Carry the unit vector d from the tangent t_old to t and straighten it: round-off would let it lean over many steps."""
    moved = transport(d, t_old, t)
    moved = combine(1.0, moved, -dot(moved, t), t)
    return scaled(1.0 / math.sqrt(dot(moved, moved)), moved)


@kernel
def transport(d, t0, t1):
    """Carry d along the smallest rotation that takes the unit vector t0 to t1.

    With b = t0 x t1 and c = t0 . t1 the rotation is d -> c d + b x d + b (b . d) / (1 + c).
    """
    b = cross(t0, t1)
    c = dot(t0, t1)
    return combine(1.0, combine(c, d, 1.0, cross(b, d)), dot(b, d) / (1.0 + c), b)


@kernel
def advance_frames(q, edge_dofs, t_old, d_old, t, length, d, m1, m2):
    """Fill tangents, lengths, reference directors d1 and material directors m1, m2 of every edge at q.

    `edge_dofs` (E, 3): first unknown of the tail vertex, of the head vertex, and the index of theta.
    """
    for i in range(edge_dofs.shape[0]):
        a, b, k = edge_dofs[i, 0], edge_dofs[i, 1], edge_dofs[i, 2]
        e = difference(point(q, b), point(q, a))
        length[i] = math.sqrt(dot(e, e))
        te = scaled(1.0 / length[i], e)
        p = carried(row(d_old, i), row(t_old, i), te)
        p2 = cross(te, p)
        cs, sn = math.cos(q[k]), math.sin(q[k])
        for j in range(3):
            t[i, j], d[i, j] = te[j], p[j]
            m1[i, j], m2[i, j] = cs * p[j] + sn * p2[j], -sn * p[j] + cs * p2[j]


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
        u = combine(math.cos(old[i]), p, math.sin(old[i]), cross(tf, p))
        v = scaled(signs[i, 1], row(d, b))
        twist[i] = old[i] + math.atan2(dot(cross(u, v), tf), dot(u, v))


@kernel
def bent(t, m1, m2, edges, signs, s):
    """Return of stencil s (te, tf, 1 + te . tf, kb), (m1 of e and f, m2 of e and f) and (kappa1, kappa2).

    An edge that is reversed keeps m2 and reverses m1.
    """
    a, b = edges[s, 0], edges[s, 1]
    te, tf = scaled(signs[s, 0], row(t, a)), scaled(signs[s, 1], row(t, b))
    chi = 1.0 + dot(te, tf)
    kb = scaled(2.0 / chi, cross(te, tf))
    m1e, m1f, m2e, m2f = scaled(signs[s, 0], row(m1, a)), scaled(signs[s, 1], row(m1, b)), row(m2, a), row(m2, b)
    k1, k2 = 0.5 * (dot(kb, m2e) + dot(kb, m2f)), -0.5 * (dot(kb, m1e) + dot(kb, m1f))
    return (te, tf, chi, kb), (m1e, m1f, m2e, m2f), (k1, k2)


@kernel
def bend_strains(q, dofs, edges, signs, t, m1, m2, twist, strain):
    """Fill (kappa1, kappa2, tau) of every stencil: Eqs. (11)-(13) and (15) of [Lahoti]. Dimensionless, rad."""
    for i in range(edges.shape[0]):
        _, _, (strain[i, 0], strain[i, 1]) = bent(t, m1, m2, edges, signs, i)
        strain[i, 2] = signs[i, 1] * q[dofs[i, 7]] - signs[i, 0] * q[dofs[i, 3]] + twist[i]


def edges_around(edges: Ints, count: int) -> list[list[int]]:
    """Return the edges that meet in each of `count` vertices, ascending."""
    around: list[list[int]] = [[] for _ in range(count)]
    for i, ends in enumerate(edges.tolist()):
        for vertex in ends:
            around[vertex].append(i)
    return around


def first_frames(tangents: Floats, edges: Ints) -> Floats:
    """Return reference directors d1 (E, 3): space-parallel along each chain, so that the reference twist starts at 0.

    The first edge of a chain takes d1 = t x y (t x x along y), a fixed rule, so that the same robot always gets the
    same frames.
    """
    directors, done = np.zeros((len(edges), 3)), np.zeros(len(edges), dtype=bool)
    around = edges_around(edges, int(edges.max(initial=-1)) + 1)
    # of an edge along y, from which its first director stands on x: any limit that keeps them well apart
    upright_cosine = 0.9
    for seed in range(len(edges)):
        if done[seed]:
            continue
        directors[seed] = _unit(
            np.cross(tangents[seed], np.eye(3)[1 if abs(tangents[seed, 1]) < upright_cosine else 0])
        )
        done[seed] = True
        stack = [seed]
        while stack:
            i = stack.pop()
            for j in (j for vertex in edges[i] for j in around[vertex] if not done[j]):
                directors[j] = _onto(directors[i], tangents[i], tangents[j], bool((edges[i] == edges[j]).any()))
                done[j] = True
                stack.append(j)
    return directors


def _onto(director: Floats, t: Floats, other: Floats, reversed_: bool) -> Floats:
    """Carry a director to the next edge: it is reversed with it where both meet head to head or tail to tail."""
    s = -1.0 if reversed_ else 1.0
    p = -director
    if 1.0 + s * (t @ other) >= ROUNDING_REL:  # edges that run back along each other have no transport
        p = s * np.array(transport(tuple(director), tuple(t), tuple(s * other)))
    return _unit(p - (p @ other) * other)


def _unit(vector: Floats) -> Floats:
    return vector / np.linalg.norm(vector)


def material_frames(directors: Floats, tangents: Floats, theta: Floats) -> tuple[Floats, Floats]:
    """Return m1, m2 (E, 3): the reference frame turned by theta [rad] about the tangent."""
    second = np.cross(tangents, directors)
    cs, sn = np.cos(theta)[:, None], np.sin(theta)[:, None]
    return cs * directors + sn * second, -sn * directors + cs * second
