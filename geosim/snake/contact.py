"""Contact with Coulomb friction as kernels.

A probe is a ball (a particle is a ball of radius 0, a corner of a box too) or the rim of a wheel. At the start of
a step every probe near a surface gets a contact: the tangent plane (normal n, point on the surface) at the end of
the step. Non-penetration, Eq. (7) of [Gasoto2019], carries a compliance 1/k: the Fischer-Burmeister condition
phi(gap + lambda / k, lambda) = 0 has the one solution lambda = k max(0, -gap). Friction is u_t + W lambda_f = 0 with

    W = max(|u_t|, s0) / (mu lambda),   so that |lambda_f| <= mu lambda, with equality where |u_t| >= s0:

below the creep s0 = h * creep_speed the contact sticks, and creeps no faster than that. With lambda held at the
current iterate, W is the derivative of the convex potential mu lambda H(|u_t|), H Huber's function.
The rim of a wheel touches at its lowest point; its gap depends on the axle but not on the spin, so a wheel rolls
freely along its plane and resists across it: the friction of the whole robot becomes anisotropic.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.collision.shapes import signed_distance
from geosim.kernels import kernel
from geosim.linear.matrix3 import difference, turned_back
from geosim.snake.joints import _point, _push, add_geometric, add_point_pair

__all__ = [
    "Contacts",
    "add_coupling",
    "contact_energy_gradient",
    "contact_rows",
    "contact_stiffness",
    "contact_summary",
    "find_contacts",
]


@kernel
def _rim(node, axis, normal, R, particles, radius, rho, a):
    """Arm rho from the centre to the rim's lowest point against `normal`; returns radius * |n - (n.a) a|."""
    b = node - particles
    dot = 0.0
    for i in range(3):
        a[i] = R[b, i, 0] * axis[0] + R[b, i, 1] * axis[1] + R[b, i, 2] * axis[2]
        dot += a[i] * normal[i]
    s = math.sqrt(max(1.0 - dot * dot, 1e-12))
    for i in range(3):
        rho[i] = -radius * (normal[i] - dot * a[i]) / s
    return radius * s


@kernel
def find_contacts(
    probe_node,
    probe_center,
    probe_axis,
    probe_radius,
    probe_friction,
    x,
    X,
    R,
    solids,
    poses,
    poses_before,
    frictions,
    surface_body,
    margin,
    ints,
    reals,
):
    """Write a contact for every probe closer than `margin` to a surface; returns how many there are.

    A surface belongs to the world (surface_body -1, pose (3, 4) at the end and at the beginning of the step) or to
    a body. ints: probe, node b, surface; reals: normal, point b (local if a body's), motion of the surface (3), friction,
    local contact point of the probe (3). `ints` and `reals` may be full: the count says how many were needed.
    """
    count = 0
    n = len(x)
    place, arm = np.empty(3), np.empty(3)
    normal, rho, a, P = np.empty(3), np.zeros(3), np.empty(3), np.empty((3, 4))
    for k in range(len(frictions)):
        body = surface_body[k]
        for i in range(3):
            for j in range(3):
                P[i, j] = poses[k, i, j] if body < 0 else R[body, i, j]
            P[i, 3] = poses[k, i, 3] if body < 0 else X[body, i]
        for s in range(len(probe_node)):
            node = probe_node[s]
            if body >= 0 and node == n + body:
                continue
            _point(node, probe_center[s], x, X, R, n, place, arm)
            p = turned_back(P, difference(place, P[:, 3]))
            gap, m = signed_distance(solids, k, p, margin + probe_radius[s])
            if gap - probe_radius[s] > margin:
                continue
            for i in range(3):
                normal[i] = P[i, 0] * m[0] + P[i, 1] * m[1] + P[i, 2] * m[2]
            wheel = probe_axis[s, 0] != 0 or probe_axis[s, 1] != 0 or probe_axis[s, 2] != 0
            if wheel:
                reach = _rim(node, probe_axis[s], normal, R, n, probe_radius[s], rho, a)
            else:
                reach = probe_radius[s]
                for i in range(3):
                    rho[i] = -reach * normal[i]
            if gap - reach > margin:
                continue
            if count < len(ints):
                ints[count, 0] = s
                ints[count, 1] = -1 if body < 0 else n + body
                ints[count, 2] = k
                for i in range(3):
                    reals[count, i] = normal[i]
                    q = p[i] - gap * m[i]
                    reals[count, 3 + i] = q
                    reals[count, 6 + i] = 0.0
                    reals[count, 10 + i] = 0.0
                if body < 0:
                    for i in range(3):
                        after = (
                            P[i, 0] * reals[count, 3] + P[i, 1] * reals[count, 4] + P[i, 2] * reals[count, 5] + P[i, 3]
                        )
                        before = (
                            poses_before[k, i, 0] * reals[count, 3]
                            + poses_before[k, i, 1] * reals[count, 4]
                            + poses_before[k, i, 2] * reals[count, 5]
                            + poses_before[k, i, 3]
                        )
                        reals[count, 6 + i] = after - before
                        a[i] = after
                    for i in range(3):
                        reals[count, 3 + i] = a[i]
                reals[count, 9] = math.sqrt(probe_friction[s] * frictions[k])
                if node >= n:
                    b = node - n
                    for i in range(3):
                        reals[count, 10 + i] = (
                            R[b, 0, i] * (arm[0] + rho[0])
                            + R[b, 1, i] * (arm[1] + rho[1])
                            + R[b, 2, i] * (arm[2] + rho[2])
                        )
            count += 1
    return count


class Contacts(NamedTuple):
    """Contacts of one substep: what `find_contacts` wrote, the probes, where the step starts, stiffness and creep."""

    ints: Ints
    reals: Floats
    node: Ints
    center: Floats
    axis: Floats
    radius: Floats
    x0: Floats
    X0: Floats
    R0: Floats
    stiffness: float
    creep: float


@kernel
def _contact(c, contacts, x, X, R, g):
    """Geometry of contact c: returns (gap, |slip|).

    g (10, 3) gets the arms of the normal force on the probe and on the other side, the slip, and the arms of the
    friction on both sides; the rest is scratch.
    """
    s, node_b = contacts.ints[c, 0], contacts.ints[c, 1]
    node, n = contacts.node[s], len(x)
    rho, arm_b, slip, friction_arm, friction_arm_b = g[0], g[1], g[2], g[3], g[4]
    place, arm, place_b, p0, y = g[5], g[6], g[7], g[8], g[9]
    normal, point, own = contacts.reals[c, 0:3], contacts.reals[c, 3:6], contacts.reals[c, 10:13]
    axis = contacts.axis[s]
    _point(node, contacts.center[s], x, X, R, n, place, arm)
    _point(node_b, point, x, X, R, n, place_b, arm_b)
    if axis[0] != 0 or axis[1] != 0 or axis[2] != 0:
        reach = _rim(node, axis, normal, R, n, contacts.radius[s], rho, y)
    else:
        reach = contacts.radius[s]
        for i in range(3):
            rho[i] = -reach * normal[i]
    gap = -reach
    for i in range(3):
        gap += normal[i] * (place[i] - place_b[i])
        rho[i] += arm[i]
    # Slip: how far the material points that touched at the start have moved apart, across the normal.
    _point(node, own, x, X, R, n, place, friction_arm)
    _point(node, own, contacts.x0, contacts.X0, contacts.R0, n, p0, y)
    for i in range(3):
        slip[i] = place[i] - p0[i] - contacts.reals[c, 6 + i]
    if node_b >= 0:
        _point(node_b, point, contacts.x0, contacts.X0, contacts.R0, n, p0, y)
        for i in range(3):
            slip[i] -= place_b[i] - p0[i]
    for i in range(3):
        friction_arm_b[i] = arm_b[i]
    dot = slip[0] * normal[0] + slip[1] * normal[1] + slip[2] * normal[2]
    length = 0.0
    for i in range(3):
        slip[i] -= dot * normal[i]
        length += slip[i] ** 2
    return gap, math.sqrt(length)


@kernel
def contact_energy_gradient(contacts, x, X, R, lagged, normal_force, gradient):
    """Add contact forces; returns the energy [J] with friction at the lagged normal forces.

    The gradient has friction at the *current* normal forces, which are written to `normal_force` (c,): the
    residual is that of the Coulomb law, not of its lagged potential.
    """
    energy, n, stiffness, creep = 0.0, len(x), contacts.stiffness, contacts.creep
    g, f = np.empty((10, 3)), np.empty(3)
    for c in range(len(contacts.ints)):
        gap, length = _contact(c, contacts, x, X, R, g)
        node, node_b = contacts.node[contacts.ints[c, 0]], contacts.ints[c, 1]
        force = -stiffness * gap if gap < 0 else 0.0
        normal_force[c] = force
        mu = contacts.reals[c, 9]
        if lagged[c] > 0:
            energy += mu * lagged[c] * (length - 0.5 * creep if length > creep else 0.5 * length * length / creep)
        if force == 0:
            continue
        energy += 0.5 * force * force / stiffness
        for i in range(3):
            f[i] = -force * contacts.reals[c, i]
        _push(node, g[0], f, 1.0, n, gradient)
        _push(node_b, g[1], f, -1.0, n, gradient)
        scale = mu * force / max(length, creep)
        for i in range(3):
            f[i] = scale * g[2, i]
        _push(node, g[3], f, 1.0, n, gradient)
        _push(node_b, g[4], f, -1.0, n, gradient)
    return energy


@kernel
def contact_stiffness(contacts, x, X, R, index, flipped, clamp, geometric, blocks):
    """Add the stiffness of contacts; index[c] and flipped[c] as for point-to-point constraints.

    With `clamp` the friction has the stiffness 1/W in every tangential direction: more than the second derivative of its
    potential, which vanishes along the slip, but enough that a step never overshoots from sliding into sticking.
    """
    n, stiffness, creep = len(x), contacts.stiffness, contacts.creep
    g, f, K = np.empty((10, 3)), np.empty(3), np.empty((3, 3))
    for c in range(len(contacts.ints)):
        gap, length = _contact(c, contacts, x, X, R, g)
        if gap >= 0:
            continue
        node, node_b, normal = contacts.node[contacts.ints[c, 0]], contacts.ints[c, 1], contacts.reals[c, 0:3]
        force, mu, slip = -stiffness * gap, contacts.reals[c, 9], g[2]
        for i in range(3):
            f[i] = -force * normal[i]
            for j in range(3):
                K[i, j] = stiffness * normal[i] * normal[j]
        add_point_pair(K, g[0], g[1], index[c], flipped[c], blocks)
        add_geometric(node, g[0], f, 1.0, n, geometric)
        add_geometric(node_b, g[1], f, -1.0, n, geometric)
        if mu == 0:
            continue
        # Sticking 1/s0; sliding 1/|u| across the slip and nothing along it.
        scale = mu * force / max(length, creep)
        for i in range(3):
            for j in range(3):
                K[i, j] = scale * ((1.0 if i == j else 0.0) - normal[i] * normal[j])
                if length > creep and not clamp:
                    K[i, j] -= scale * slip[i] * slip[j] / (length * length)
        add_point_pair(K, g[3], g[4], index[c], flipped[c], blocks)


@kernel
def contact_rows(contacts, x, X, R, slots, rows, values):
    """Write the gap and the slip along two tangents of every contact, values (c, 3), and their derivatives.

    The derivative of value a of contact c is the sum over s of rows[c, a, s] . dq of slot slots[c, s] (4,), -1 = none.
    """
    n, g, t = len(x), np.empty((10, 3)), np.empty((3, 3))
    for c in range(len(contacts.ints)):
        gap, _ = _contact(c, contacts, x, X, R, g)
        small = 0
        for i in range(3):
            t[0, i] = contacts.reals[c, i]
            small = i if abs(contacts.reals[c, i]) < abs(contacts.reals[c, small]) else small
        size = math.sqrt(1.0 - t[0, small] ** 2)
        for i in range(3):  # the first tangent is normal x e_small, the second normal x the first
            j, k = (i + 1) % 3, (i + 2) % 3
            t[1, i] = ((t[0, j] if k == small else 0.0) - (t[0, k] if j == small else 0.0)) / size
        for i in range(3):
            j, k = (i + 1) % 3, (i + 2) % 3
            t[2, i] = t[0, j] * t[1, k] - t[0, k] * t[1, j]
        values[c, 0] = gap
        for a in range(1, 3):
            values[c, a] = g[2, 0] * t[a, 0] + g[2, 1] * t[a, 1] + g[2, 2] * t[a, 2]
        for side in range(2):
            node = contacts.node[contacts.ints[c, 0]] if side == 0 else contacts.ints[c, 1]
            sign = 1.0 if side == 0 else -1.0
            place = -1 if node < 0 else node if node < n else n + 2 * (node - n)
            slots[c, 2 * side] = place
            slots[c, 2 * side + 1] = place + 1 if node >= n else -1
            for a in range(3):
                arm = g[side] if a == 0 else g[3 + side]
                for i in range(3):
                    j, k = (i + 1) % 3, (i + 2) % 3
                    rows[c, a, 2 * side, i] = sign * t[a, i]
                    rows[c, a, 2 * side + 1, i] = sign * (arm[j] * t[a, k] - arm[k] * t[a, j])


@kernel
def add_coupling(slots, rows, v, out):
    """Out += rows[c, 1] (rows[c, 0] . v) on the slots (4,) of all c: how friction follows the normal force."""
    for c in range(len(slots)):
        dot = 0.0
        for s in range(4):
            if slots[c, s] >= 0:
                for i in range(3):
                    dot += rows[c, 0, s, i] * v[slots[c, s], i]
        for s in range(4):
            if slots[c, s] >= 0:
                for i in range(3):
                    out[slots[c, s], i] += dot * rows[c, 1, s, i]


@kernel
def contact_summary(contacts, x, X, R):
    """Force of every contact on its probe [N] and its place [m], (c, 6), and the gaps [m] (c,)."""
    out, gaps = np.zeros((len(contacts.ints), 6)), np.empty(len(contacts.ints))
    g = np.empty((10, 3))
    for c in range(len(contacts.ints)):
        gap, length = _contact(c, contacts, x, X, R, g)
        gaps[c] = gap
        force = max(-contacts.stiffness * gap, 0.0)
        for i in range(3):
            slip = g[2, i] / max(length, contacts.creep)
            out[c, i] = force * (contacts.reals[c, i] - contacts.reals[c, 9] * slip)
        _point(contacts.node[contacts.ints[c, 0]], contacts.reals[c, 10:13], x, X, R, len(x), g[5], g[6])
        for i in range(3):
            out[c, 3 + i] = g[5, i]
    return out, gaps
