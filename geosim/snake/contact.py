"""Contact with Coulomb friction as kernels.

A probe is a ball (a particle is a ball of radius 0, a corner of a box too) or the rim of a wheel. At the start of
a step every probe near a surface gets a contact: the tangent plane (normal n, point on the surface) at the end of
the step. Non-penetration, Eq. (7) of [Gasoto2019], carries a compliance 1/k: the Fischer-Burmeister condition
phi(gap + lambda / k, lambda) = 0 has the one solution lambda = k max(0, -gap). Friction is u_t + W lambda_f = 0 with

    W = max(|u_t|, s0) / (mu lambda),   so that |lambda_f| <= mu lambda, with equality where |u_t| >= s0:

below the creep s0 = h * slip_velocity the contact sticks, and creeps no faster than that. With lambda held at the
current iterate, W is the derivative of the convex potential mu lambda H(|u_t|), H Huber's function.
The rim of a wheel touches at its lowest point. Its gap depends on the axle but not on the spin, so a wheel rolls
freely along its plane and resists across it: the friction of the whole robot becomes anisotropic.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.collision.shapes import Solids, distances
from geosim.kernels import kernel
from geosim.linear.matrix3 import cross, difference, dot, plus, put, row, scaled, turned, turned_back
from geosim.snake.rows import add_forces, point, write_row


@kernel
def _reach(node, axis, radius, normal, R, particles):
    """How far a ball or the rim of a wheel reaches against `normal` [m], and the arm from its centre to there.

    The rim's lowest point is rho = -radius (n - (n . a) a) / |n - (n . a) a|; a wheel that lies flat has none.
    """
    if axis[0] == 0.0 and axis[1] == 0.0 and axis[2] == 0.0:
        return radius, scaled(-radius, normal)
    a = turned(R[node - particles], axis)
    across = difference(normal, scaled(dot(normal, a), a))
    # sine of the angle between axle and normal below which a wheel has no lowest point (square root of rounding)
    lying_wheel_sine = 1e-6
    s = math.sqrt(max(dot(across, across), lying_wheel_sine**2))
    return radius * s, scaled(-radius / s, across)


class Probes(NamedTuple):
    """What can touch: nodes, centres, wheel axes (or zero), radii, friction coefficients; see `MultibodyRobot`."""

    node: Ints
    center: Floats
    axis: Floats
    radius: Floats
    friction: Floats


class Surfaces(NamedTuple):
    """What can be touched: shapes in their own frames, bodies (-1: the world), friction coefficients."""

    solids: Solids
    body: Ints
    friction: Floats


class Contacts(NamedTuple):
    """Contacts of one substep, all (c, ...) where c is not said otherwise.

    Parameters
    ----------
    pair
        Probe, node of the surface (-1: the world) and surface, (c, 3).
    normal, place
        Normal; the point on the surface [m], in the frame of its body, or in the world at the end of the step.
    motion
        How far that point moves in the step by itself [m].
    own
        Point of the probe that touches, in the frame of its body.
    friction
        Coefficient of both sides, (c,).
    """

    pair: Ints
    normal: Floats
    place: Floats
    motion: Floats
    own: Floats
    friction: Floats


@kernel
def find_contacts(probes, surfaces, poses, poses_before, x, X, R, margin, out):
    """Write a contact for every probe closer than `margin` to a surface; returns how many there are.

    The poses (3, 4) of the surfaces are those at the end and at the beginning of the step, of the boxes of bodies those of
    the body. `out` may be full: the count says how many were needed.
    """
    count, n, gaps = 0, len(x), np.empty(len(probes.node))
    local, normals = np.empty_like(probes.center), np.empty_like(probes.center)
    for k in range(len(surfaces.body)):
        body, pose, before = surfaces.body[k], poses[k], poses_before[k]
        origin, origin_before = (pose[0, 3], pose[1, 3], pose[2, 3]), (before[0, 3], before[1, 3], before[2, 3])
        for s in range(len(probes.node)):
            centre, _ = point(probes.node[s], probes.center[s], x, X, R)
            put(local[s], turned_back(pose, difference(centre, origin)))
        distances(surfaces.solids, k, local, margin + probes.radius, gaps, normals)
        for s in range(len(probes.node)):
            node, gap, p, m = probes.node[s], gaps[s], row(local, s), row(normals, s)
            if gap - probes.radius[s] > margin or (body >= 0 and node == n + body):
                continue
            _, arm = point(node, probes.center[s], x, X, R)
            normal = turned(pose, m)
            reach, rho = _reach(node, probes.axis[s], probes.radius[s], normal, R, n)
            if gap - reach > margin:
                continue
            if count < len(out.pair):
                nearest = difference(p, scaled(gap, m))
                now, then = plus(turned(pose, nearest), origin), plus(turned(before, nearest), origin_before)
                put(out.pair[count], (s, -1 if body < 0 else n + body, k))
                put(out.normal[count], normal)
                put(out.place[count], now if body < 0 else nearest)
                put(out.motion[count], difference(now, then))
                put(out.own[count], (0.0, 0.0, 0.0) if node < n else turned_back(R[node - n], plus(arm, rho)))
                out.friction[count] = math.sqrt(probes.friction[s] * surfaces.friction[k])
            count += 1
    return count


@kernel
def contact_slots(pair, nodes, free, particles):
    """Slots of the rows of contacts, (c, 4), -1 where there is none or it is held, and of their two sides, (c, 2).

    The world counts as the side of the probe. `pair` (c, 3) as in `Contacts`, `nodes` of the probes, `free` (slots,).
    """
    slots, ends = np.full((len(pair), 4), -1), np.empty((len(pair), 2), np.int64)
    for c in range(len(pair)):
        for side in range(2):
            node = nodes[pair[c, 0]] if side == 0 else pair[c, 1]
            place = node if node < particles else particles + 2 * (node - particles)
            ends[c, side] = place if node >= 0 else ends[c, 0]
            if node >= 0 and free[place]:
                slots[c, 2 * side] = place
                slots[c, 2 * side + 1] = place + 1 if node >= particles else -1
    return slots, ends


@kernel
def _tangents(normal):
    """Two unit vectors across a unit normal; the first is normal x e of its smallest component."""
    least = min(abs(normal[0]), abs(normal[1]), abs(normal[2]))
    if abs(normal[0]) == least:
        across = (0.0, normal[2], -normal[1])
    elif abs(normal[1]) == least:
        across = (-normal[2], 0.0, normal[0])
    else:
        across = (normal[1], -normal[0], 0.0)
    first = scaled(1.0 / math.sqrt(1.0 - least * least), across)
    return first, cross(normal, first)


@kernel
def contact_rows(contacts, probes, x, X, R, x0, X0, R0, jacobian, values, arms, places):
    """Write gap and slip of every contact along two tangents, values (c, 3), and their derivatives (c, 3, 4, 3).

    The slip is how far the material points that touched at the start (x0, X0, R0) have moved apart, across the normal.
    `arms` (c, 2, 3) are those of the normal force on both sides, `places` (c, 3) where the probe touches [m].
    """
    for c in range(len(contacts.pair)):
        s, other = contacts.pair[c, 0], contacts.pair[c, 1]
        node, normal = probes.node[s], row(contacts.normal, c)
        centre, arm = point(node, probes.center[s], x, X, R)
        reach, rho = _reach(node, probes.axis[s], probes.radius[s], normal, R, len(x))
        place, own_arm = point(node, contacts.own[c], x, X, R)
        place_before, _ = point(node, contacts.own[c], x0, X0, R0)
        target, other_arm = point(other, contacts.place[c], x, X, R)
        target_before, _ = point(other, contacts.place[c], x0, X0, R0)
        moved = difference(difference(place, place_before), difference(target, target_before))
        slip = difference(moved, row(contacts.motion, c))
        first, second = _tangents(normal)
        put(values[c], (dot(normal, difference(centre, target)) - reach, dot(first, slip), dot(second, slip)))
        put(arms[c, 0], plus(arm, rho))
        put(arms[c, 1], other_arm)
        put(places[c], place)
        write_row(normal, plus(arm, rho), other_arm, jacobian[c, 0])
        write_row(first, own_arm, other_arm, jacobian[c, 1])
        write_row(second, own_arm, other_arm, jacobian[c, 2])


@kernel
def contact_law(z, friction, stiffness, creep, p, slope):
    """Write p (c, 3), the derivative of the contact energy by gap and slip z (c, 3), and its derivative (c, 3, 3).

    p = (-lambda, mu lambda v / max(|v|, s0)), lambda = k max(0, -gap). Returns the energy [J] of the normal forces.
    """
    energy = 0.0
    for c in range(len(z)):
        force = max(-stiffness * z[c, 0], 0.0)
        length = np.sqrt(z[c, 1] ** 2 + z[c, 2] ** 2)
        size, mu = max(length, creep), friction[c]
        p[c, 0] = -force
        energy += 0.5 * force * force / stiffness
        slope[c] = 0.0
        slope[c, 0, 0] = stiffness if force > 0 else 0.0
        for i in range(1, 3):
            p[c, i] = mu * force * z[c, i] / size
            if force > 0:
                slope[c, i, 0] = -mu * stiffness * z[c, i] / size
                slope[c, i, i] = mu * force / size
                for j in range(1, 3):
                    if length > creep:
                        slope[c, i, j] -= mu * force * z[c, i] * z[c, j] / (size * length * length)
    return energy


@kernel
def friction_energy(z, normal_forces, friction, creep):
    """Sum of Huber's potentials [J] of the slips in z (c, 3) under normal forces (c,) [N]."""
    energy = 0.0
    for c in range(len(z)):
        slip = math.sqrt(z[c, 1] ** 2 + z[c, 2] ** 2)
        huber = slip - 0.5 * creep if slip > creep else 0.5 * slip**2 / creep
        energy += friction[c] * normal_forces[c] * huber
    return energy


@kernel
def contact_terms(contacts, slots, probes, stiffness, creep, lagged, x, X, R, x0, X0, R0, gradient):
    """Rows of the contacts, with slots (c, 4); their forces are added to `gradient` (slots, 3).

    Returns Jacobian, values, forces, their derivative (`contact_law`), arms, pushes on them and places that touch
    (`contact_rows`); and energies [J]: of the normal forces, of the friction under these, and under those `lagged` (c,).
    """
    c = len(contacts.pair)
    jacobian, values, arms, places = np.empty((c, 3, 4, 3)), np.empty((c, 3)), np.empty((c, 2, 3)), np.empty((c, 3))
    contact_rows(contacts, probes, x, X, R, x0, X0, R0, jacobian, values, arms, places)
    forces, slope, pushes = np.empty((c, 3)), np.empty((c, 3, 3)), np.empty((c, 3))
    pressed = contact_law(values, contacts.friction, stiffness, creep, forces, slope)
    for k in range(c):
        put(pushes[k], scaled(forces[k, 0], row(contacts.normal, k)))
    add_forces(slots, jacobian, forces, gradient)
    energies = pressed, friction_energy(values, -forces[:, 0], contacts.friction, creep)
    rubbed = friction_energy(values, lagged, contacts.friction, creep)
    return (jacobian, values, forces, slope, arms, pushes, places), (*energies, rubbed)


@kernel
def add_coupling(slots, rows, v, out):
    """Out += rows[c, 1] (rows[c, 0] . v) on the slots (4,) of all c: how friction follows the normal force."""
    for c in range(len(slots)):
        product = 0.0
        for s in range(4):
            if slots[c, s] >= 0:
                product += dot(rows[c, 0, s], v[slots[c, s]])
        for s in range(4):
            if slots[c, s] >= 0:
                put(out[slots[c, s]], plus(row(out, slots[c, s]), scaled(product, rows[c, 1, s])))
