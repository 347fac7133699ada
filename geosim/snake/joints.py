"""Rigid parts as kernels: inertia, point-to-point constraints, axis constraints, hinge springs.

Unknowns are slots of three numbers: particle p has slot p, body b has slot n + 2 b for its centre and n + 2 b + 1
for its rotation increment. A *point* is (node, local): a particle, a place fixed in a body, or (node -1) in the
world. With y = R local the derivative of a point by its slots is [1, -[y]x].

Rotational inertia balances the discrete angular momentum of Moser and Veselov: with J = tr(I) / 2 1 - I and

    pi_(n+1) = -axial(R_(n+1) J R_n^T) / h,        (pi_(n+1) - pi_n) / h = torque,

the gyroscopic term is implicit and a free body keeps its angular momentum exactly. The first part is the derivative of
-tr(R J R_n^T) / h^2; the constant torque pi_n / h of the second has no potential among rotations, and the merit takes
pi_n . log(R R_n^T) / h for it, which differs by theta x pi / 2.
"""

from __future__ import annotations

import math

import numpy as np

from geosim.kernels import kernel
from geosim.snake.soft import symmetric_positive_part

__all__ = [
    "angle_terms",
    "angular_momenta",
    "axis_energy_gradient",
    "axis_stiffness",
    "body_energy_gradient",
    "body_stiffness",
    "pair_energy_gradient",
    "pair_stiffness",
]


@kernel
def angular_momenta(R, second_moments, before, h):
    """Discrete angular momenta -axial(R J R_before^T) / h of all bodies [kg m^2/s], (b, 3)."""
    out = np.empty((len(R), 3))
    for b in range(len(R)):
        for i in range(3):
            j, k = (i + 1) % 3, (i + 2) % 3
            ax = 0.0
            for c in range(3):
                ax += second_moments[b, c] * (R[b, j, c] * before[b, k, c] - R[b, k, c] * before[b, j, c])
            out[b, i] = -ax / h
    return out


@kernel
def body_energy_gradient(R, second_moments, before, turns, momenta, h, particles, gradient):
    """Rotational inertia: add (pi(R) - pi_n) / h to the gradient, return its merit [J].

    `before` are the rotations at the start of the step, `turns` the rotation vectors since then [rad].
    """
    energy = 0.0
    now = angular_momenta(R, second_moments, before, h)
    for b in range(len(R)):
        slot = particles + 2 * b + 1
        for i in range(3):
            gradient[slot, i] += (now[b, i] - momenta[b, i]) / h
            energy -= momenta[b, i] * turns[b, i] / h
            for c in range(3):
                energy += 0.5 * second_moments[b, c] * (R[b, i, c] - before[b, i, c]) ** 2 / (h * h)
    return energy


@kernel
def body_stiffness(R, second_moments, predicted, h, particles, geometric, clamp, diagonal, blocks):
    """Add rotational inertia and the collected geometric stiffness (b, 3, 3) to the rotation blocks."""
    for b in range(len(R)):
        H = blocks[diagonal[particles + 2 * b + 1]]
        trace = 0.0
        for i in range(3):
            for j in range(3):
                m = 0.0
                for c in range(3):
                    m += second_moments[b, c] * (R[b, i, c] * predicted[b, j, c] + R[b, j, c] * predicted[b, i, c])
                H[i, j] -= 0.5 * m / (h * h)
                if i == j:
                    trace += 0.5 * m
        for i in range(3):
            H[i, i] += trace / (h * h)
        G = geometric[b]
        if clamp:
            symmetric_positive_part(G)
        for i in range(3):
            for j in range(3):
                H[i, j] += G[i, j]


@kernel
def _point(node, local, x, X, R, particles, place, arm):
    """Write the world place of a point and its arm y = R local (zero for particles and the world)."""
    for i in range(3):
        arm[i] = 0.0
        if node < 0:
            place[i] = local[i]
        elif node < particles:
            place[i] = x[node, i]
        else:
            b = node - particles
            arm[i] = R[b, i, 0] * local[0] + R[b, i, 1] * local[1] + R[b, i, 2] * local[2]
            place[i] = X[b, i] + arm[i]


@kernel
def _push(node, arm, f, sign, particles, gradient):
    """Add the gradient sign * f at a point to its slots."""
    if node < 0:
        return
    if node < particles:
        for i in range(3):
            gradient[node, i] += sign * f[i]
        return
    slot = particles + 2 * (node - particles)
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        gradient[slot, i] += sign * f[i]
        gradient[slot + 1, i] += sign * (arm[j] * f[k] - arm[k] * f[j])


@kernel
def pair_energy_gradient(nodes, local, stiffness, x, X, R, gradient, scratch):
    """Point-to-point constraints |x_a - x_b|: add their forces, return their energy [J]."""
    energy = 0.0
    n = len(x)
    pa, ya, pb, yb, f = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    for s in range(len(nodes)):
        _point(nodes[s, 0], local[s, 0], x, X, R, n, pa, ya)
        _point(nodes[s, 1], local[s, 1], x, X, R, n, pb, yb)
        k = stiffness[s]
        for i in range(3):
            d = pa[i] - pb[i]
            f[i] = k * d
            energy += 0.5 * k * d * d
        _push(nodes[s, 0], ya, f, 1.0, n, gradient)
        _push(nodes[s, 1], yb, f, -1.0, n, gradient)
    return energy


@kernel
def add_point_block(K, yi, yj, rot_i, rot_j, sign, k, transposed, blocks):
    """Add sign * J_i^T K J_j to block k; J = 1 for a place slot, -[y]x for a rotation slot."""
    if k < 0:
        return
    H = blocks[k]
    for i in range(3):
        i1, i2 = (i + 1) % 3, (i + 2) % 3
        for j in range(3):
            j1, j2 = (j + 1) % 3, (j + 2) % 3
            # ([y]x)^T applied left: (y x row); K applied to -[y]x right: columns y x .
            if rot_i and rot_j:
                v = yi[i1] * (yj[j1] * K[i2, j2] - yj[j2] * K[i2, j1]) - yi[i2] * (
                    yj[j1] * K[i1, j2] - yj[j2] * K[i1, j1]
                )
            elif rot_i:
                v = yi[i1] * K[i2, j] - yi[i2] * K[i1, j]
            elif rot_j:
                v = yj[j1] * K[i, j2] - yj[j2] * K[i, j1]
            else:
                v = K[i, j]
            if transposed:
                H[j, i] += sign * v
            else:
                H[i, j] += sign * v


@kernel
def add_point_pair(K, ya, yb, index, flipped, blocks):
    """Add the stiffness of (x_a - x_b)^T K (x_a - x_b) / 2; index of the 4 diagonal and 6 pair blocks or -1."""
    m = 4
    for i in range(4):
        yi = ya if i < 2 else yb
        add_point_block(K, yi, yi, i % 2 == 1, i % 2 == 1, 1.0, index[i], False, blocks)
        for j in range(i + 1, 4):
            yj = ya if j < 2 else yb
            sign = 1.0 if (i < 2) == (j < 2) else -1.0
            add_point_block(K, yi, yj, i % 2 == 1, j % 2 == 1, sign, index[m], flipped[m - 4], blocks)
            m += 1


@kernel
def add_geometric(node, y, f, sign, particles, geometric):
    """Collect the second derivative of a point's place: sign * (sym(f y^T) - (f . y) 1) of its body."""
    if node < particles:
        return
    G = geometric[node - particles]
    dot = f[0] * y[0] + f[1] * y[1] + f[2] * y[2]
    for i in range(3):
        for j in range(3):
            G[i, j] += sign * 0.5 * (f[i] * y[j] + f[j] * y[i])
        G[i, i] -= sign * dot


@kernel
def pair_stiffness(nodes, local, stiffness, x, X, R, index, flipped, geometric, blocks, scratch):
    """Add the stiffness of point-to-point constraints; their geometric part is collected in `geometric`."""
    n = len(x)
    pa, ya, pb, yb, f = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    K = scratch[5:8]
    for s in range(len(nodes)):
        _point(nodes[s, 0], local[s, 0], x, X, R, n, pa, ya)
        _point(nodes[s, 1], local[s, 1], x, X, R, n, pb, yb)
        for i in range(3):
            f[i] = stiffness[s] * (pa[i] - pb[i])
            for j in range(3):
                K[i, j] = stiffness[s] if i == j else 0.0
        add_point_pair(K, ya, yb, index[s], flipped[s], blocks)
        add_geometric(nodes[s, 0], ya, f, 1.0, n, geometric)
        add_geometric(nodes[s, 1], yb, f, -1.0, n, geometric)


@kernel
def _axis(bodies, vectors, R, u, w, m):
    """World vectors u (first body) and w (second), m = u x w; returns u . w. Body -1 is the world."""
    for i in range(3):
        for side, out in ((0, u), (1, w)):
            b, v = bodies[side], vectors[side]
            out[i] = v[i] if b < 0 else R[b, i, 0] * v[0] + R[b, i, 1] * v[1] + R[b, i, 2] * v[2]
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        m[i] = u[j] * w[k] - u[k] * w[j]
    return u[0] * w[0] + u[1] * w[1] + u[2] * w[2]


@kernel
def axis_energy_gradient(bodies, vectors, stiffness, R, particles, gradient, scratch):
    """Axis rows c = (R_a u) . (R_b w) = 0: add their torques, return their energy [J]."""
    energy = 0.0
    u, w, m = scratch[0], scratch[1], scratch[2]
    for s in range(len(bodies)):
        c = _axis(bodies[s], vectors[s], R, u, w, m)
        k = stiffness[s]
        energy += 0.5 * k * c * c
        a, b = bodies[s, 0], bodies[s, 1]
        for i in range(3):
            if a >= 0:
                gradient[particles + 2 * a + 1, i] += k * c * m[i]
            if b >= 0:
                gradient[particles + 2 * b + 1, i] -= k * c * m[i]
    return energy


@kernel
def _add_rotation_row(m, k, index, blocks):
    """Add k J^T J of a row J = [m, -m] on two rotation slots; index = (aa, bb, ab) or -1."""
    for i in range(3):
        for j in range(3):
            h = k * m[i] * m[j]
            if index[0] >= 0:
                blocks[index[0], i, j] += h
            if index[1] >= 0:
                blocks[index[1], i, j] += h
            if index[2] >= 0:
                blocks[index[2], i, j] -= h


@kernel
def axis_stiffness(bodies, vectors, stiffness, R, index, blocks, scratch):
    """Add the stiffness k J^T J of axis rows; index[s] = (aa, bb, ab) rotation blocks."""
    u, w, m = scratch[0], scratch[1], scratch[2]
    for s in range(len(bodies)):
        _axis(bodies[s], vectors[s], R, u, w, m)
        _add_rotation_row(m, stiffness[s], index[s], blocks)


@kernel
def hinge_angle(bodies, frames, R, axis):
    """Angle [rad] of the second body about the hinge axis of the first; writes its derivative by the second's rotation.

    That is the axis itself where both axes agree, and what is needed for an exact gradient where they do not.
    """
    # frames[side] holds rows (axis, reference) in the frame of that body; -1 is the world.
    u, v, w = np.empty(3), np.empty(3), np.empty(3)
    for i in range(3):
        a, b = bodies[0], bodies[1]
        if a < 0:
            axis[i], u[i] = frames[0, 0, i], frames[0, 1, i]
        else:
            axis[i] = R[a, i, 0] * frames[0, 0, 0] + R[a, i, 1] * frames[0, 0, 1] + R[a, i, 2] * frames[0, 0, 2]
            u[i] = R[a, i, 0] * frames[0, 1, 0] + R[a, i, 1] * frames[0, 1, 1] + R[a, i, 2] * frames[0, 1, 2]
        if b < 0:
            v[i] = frames[1, 1, i]
        else:
            v[i] = R[b, i, 0] * frames[1, 1, 0] + R[b, i, 1] * frames[1, 1, 1] + R[b, i, 2] * frames[1, 1, 2]
    c = u[0] * v[0] + u[1] * v[1] + u[2] * v[2]
    s = (
        axis[0] * (u[1] * v[2] - u[2] * v[1])
        + axis[1] * (u[2] * v[0] - u[0] * v[2])
        + axis[2] * (u[0] * v[1] - u[1] * v[0])
    )
    angle = math.atan2(s, c)
    # d angle = (c ds - s dc) / (c^2 + s^2) with ds = theta . v x (a x u), dc = theta . (v x u).
    av, au = axis[0] * v[0] + axis[1] * v[1] + axis[2] * v[2], c
    r2 = c * c + s * s
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        w[i] = (c * (axis[i] * au - u[i] * av) - s * (v[j] * u[k] - v[k] * u[j])) / r2
    for i in range(3):
        axis[i] = w[i]
    return angle


@kernel
def angle_terms(bodies, frames, gains, start, R, h, particles, gradient, index, blocks, stiff, scratch):
    """Springs, dampers and limits of hinges: energy [J], torques, and (with `stiff`) stiffness.

    gains[s] = (stiffness [N m/rad], target [rad], damping [N m s/rad], lower, upper [rad], limit stiffness);
    start (s,) are the angles at the beginning of the step.
    """
    energy = 0.0
    axis = scratch[0]
    for s in range(len(bodies)):
        angle = hinge_angle(bodies[s], frames[s], R, axis)
        kp, target, kd, lower, upper, kl = gains[s]
        turn = angle - start[s]
        turn -= 2 * math.pi * round(turn / (2 * math.pi))
        over = angle - upper if angle > upper else angle - lower if angle < lower else 0.0
        off = angle - target
        energy += 0.5 * kp * off * off + 0.5 * kd / h * turn * turn + 0.5 * kl * over * over
        torque = kp * off + kd / h * turn + kl * over
        a, b = bodies[s, 0], bodies[s, 1]
        for i in range(3):
            if a >= 0:
                gradient[particles + 2 * a + 1, i] -= torque * axis[i]
            if b >= 0:
                gradient[particles + 2 * b + 1, i] += torque * axis[i]
        if stiff:
            _add_rotation_row(axis, kp + kd / h + (kl if over != 0.0 else 0.0), index[s], blocks)
    return energy
