"""Rigid parts: inertia of rotation, and the rows (see `rows`) of point-to-point constraints, axes and hinges.

Rotational inertia balances the discrete angular momentum of Moser and Veselov: with J = tr(I) / 2 1 - I and

    pi_(n+1) = -axial(R_(n+1) J R_n^T) / h,        (pi_(n+1) - pi_n) / h = torque,

the gyroscopic term is implicit and a free body keeps its angular momentum exactly. The first part is the derivative of
-tr(R J R_n^T) / h^2. The constant torque pi_n / h of the second has no potential among rotations, and the merit takes
pi_n . log(R R_n^T) / h for it, which differs by theta x pi / 2.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.kernels import kernel
from geosim.linear.matrix3 import cross, difference, dot, plus, put, scaled, tuple3, turned
from geosim.snake.rows import add_forces, point, write_row


@kernel
def angular_momenta(R, second_moments, before, h):
    """Discrete angular momenta -axial(R J R_before^T) / h of all bodies [kg m^2/s], (b, 3)."""
    out = np.zeros((len(R), 3))
    for b in range(len(R)):
        for k in range(3):  # axial(u v^T) = v x u
            u, v = (R[b, 0, k], R[b, 1, k], R[b, 2, k]), (before[b, 0, k], before[b, 1, k], before[b, 2, k])
            put(out[b], plus(out[b], scaled(second_moments[b, k] / h, cross(v, u))))
    return out


@kernel
def turning_energy(R, second_moments, before, h):
    """Part of the merit [J] whose derivative is pi(R) / h."""
    energy = 0.0
    for b in range(len(R)):
        for i in range(3):
            for k in range(3):
                energy += second_moments[b, k] * (R[b, i, k] - before[b, i, k]) ** 2
    return energy / (2 * h * h)


def turning_stiffness(R: Floats, second_moments: Floats, before: Floats, h: float) -> Floats:
    """Second derivative of `turning_energy` by the rotation increments, (b, 3, 3)."""
    B = (R * second_moments[:, None]) @ before.transpose(0, 2, 1)
    trace = np.trace(B, axis1=1, axis2=2)[:, None, None]
    return np.asarray((trace * np.eye(3) - 0.5 * (B + B.transpose(0, 2, 1))) / (h * h))


@kernel
def pair_rows(nodes, points, stiffness, x, X, R, jacobian, values, arms, forces):
    """Write the differences of pairs of points (k, 3), their derivatives (k, 3, 4, 3), arms (k, 2, 3) and forces [N] (k, 3).

    Returns the energy [J] of their stiffness (k,) [N/m].
    """
    energy = 0.0
    for k in range(len(nodes)):
        a, arm_a = point(nodes[k, 0], points[k, 0], x, X, R)
        b, arm_b = point(nodes[k, 1], points[k, 1], x, X, R)
        gap = difference(a, b)
        put(values[k], gap)
        put(forces[k], scaled(stiffness[k], gap))
        energy += 0.5 * stiffness[k] * dot(gap, gap)
        put(arms[k, 0], arm_a)
        put(arms[k, 1], arm_b)
        write_row((1.0, 0.0, 0.0), arm_a, arm_b, jacobian[k, 0])
        write_row((0.0, 1.0, 0.0), arm_a, arm_b, jacobian[k, 1])
        write_row((0.0, 0.0, 1.0), arm_a, arm_b, jacobian[k, 2])
    return energy


@kernel
def _in_world(body, vector, R):
    """Vector of a body in the world; body -1 is the world."""
    return tuple3(vector) if body < 0 else turned(R[body], vector)


@kernel
def axis_rows(bodies, vectors, stiffness, R, jacobian, values, torques):
    """Write c = (R_a u) . (R_b w), (k, 1), its derivative by both rotations, (k, 1, 2, 3), and torques [N m] (k, 1).

    Returns the energy [J] of their stiffness (k,) [N m].
    """
    energy = 0.0
    for k in range(len(bodies)):
        u, w = _in_world(bodies[k, 0], vectors[k, 0], R), _in_world(bodies[k, 1], vectors[k, 1], R)
        values[k, 0] = dot(u, w)
        torques[k, 0] = stiffness[k] * values[k, 0]
        energy += 0.5 * stiffness[k] * values[k, 0] ** 2
        put(jacobian[k, 0, 0], cross(u, w))
        put(jacobian[k, 0, 1], cross(w, u))
    return energy


@kernel
def hinge_angle(bodies, frames, R):
    """Angle [rad] of the second body about the hinge axis of the first, and its derivative by the second's rotation.

    frames[side] holds rows (axis, reference) in the frame of that body. The derivative is the axis where both axes agree,
    and what is needed for an exact gradient where they do not.
    """
    axis, u = _in_world(bodies[0], frames[0, 0], R), _in_world(bodies[0], frames[0, 1], R)
    v = _in_world(bodies[1], frames[1, 1], R)
    c, s = dot(u, v), dot(axis, cross(u, v))
    # d angle = (c ds - s dc) / (c^2 + s^2) with ds = theta . v x (a x u), dc = theta . v x u.
    ds, dc = difference(scaled(c, axis), scaled(dot(axis, v), u)), cross(v, u)
    return math.atan2(s, c), scaled(1.0 / (c * c + s * s), difference(scaled(c, ds), scaled(s, dc)))


@kernel
def hinge_angles(bodies, frames, R):
    """Angles of all hinges [rad], (k,)."""
    out = np.empty(len(bodies))
    for k in range(len(bodies)):
        out[k], _ = hinge_angle(bodies[k], frames[k], R)
    return out


@kernel
def hinge_rows(bodies, frames, gains, start, h, R, jacobian, values, torques, stiffness):
    """Write angles [rad] (k, 1), derivatives (k, 1, 2, 3), torques [N m] (k, 1) and stiffness (k, 1, 1); returns the energy [J].

    gains[k] = (stiffness [N m/rad], target [rad], damping [N m s/rad], lower, upper [rad], limit stiffness); `start` (k,) are
    the angles at the beginning of the step, of length h [s].
    """
    energy = 0.0
    for k in range(len(bodies)):
        angle, turned_by = hinge_angle(bodies[k], frames[k], R)
        put(jacobian[k, 0, 0], scaled(-1.0, turned_by))
        put(jacobian[k, 0, 1], turned_by)
        spring, target, damping, limit = gains[k, 0], gains[k, 1], gains[k, 2] / h, gains[k, 5]
        turn = angle - start[k]
        turn -= 2 * math.pi * round(turn / (2 * math.pi))
        over, off = angle - min(max(angle, gains[k, 3]), gains[k, 4]), angle - target
        energy += 0.5 * (spring * off * off + damping * turn * turn + limit * over * over)
        values[k, 0] = angle
        torques[k, 0] = spring * off + damping * turn + limit * over
        stiffness[k, 0, 0] = spring + damping + (limit if over != 0.0 else 0.0)
    return energy


class RigidParts(NamedTuple):
    """Point pairs, axes and hinges of a robot, see `MultibodyRobot`, each with the slots of its rows (k, s).

    `pair_stiffness` and `axis_stiffness` are (k,) [N/m], [N m].
    """

    pairs: Ints
    pair_points: Floats
    pair_stiffness: Floats
    pair_slots: Ints
    axes: Ints
    axis_vectors: Floats
    axis_stiffness: Floats
    axis_slots: Ints
    hinges: Ints
    hinge_frames: Floats
    hinge_gains: Floats
    hinge_slots: Ints


@kernel
def rigid_rows(parts, start, h, x, X, R, gradient):
    """Rows of point pairs, axes and hinges; their forces are added to `gradient` (slots, 3).

    Returns of pairs the Jacobian, values, arms and forces, of axes Jacobian, values and torques, of hinges Jacobian, values,
    torques and stiffness, and the energies of the three [J]; `start` and h as in `hinge_rows`.
    """
    p, a, j = len(parts.pairs), len(parts.axes), len(parts.hinges)
    pair = np.empty((p, 3, 4, 3)), np.empty((p, 3)), np.empty((p, 2, 3)), np.empty((p, 3))
    pair_energy = pair_rows(parts.pairs, parts.pair_points, parts.pair_stiffness, x, X, R, *pair)
    axis = np.empty((a, 1, 2, 3)), np.empty((a, 1)), np.empty((a, 1))
    axis_energy = axis_rows(parts.axes, parts.axis_vectors, parts.axis_stiffness, R, *axis)
    hinge = np.empty((j, 1, 2, 3)), np.empty((j, 1)), np.empty((j, 1)), np.empty((j, 1, 1))
    hinge_energy = hinge_rows(parts.hinges, parts.hinge_frames, parts.hinge_gains, start, h, R, *hinge)
    add_forces(parts.pair_slots, pair[0], pair[3], gradient)
    add_forces(parts.axis_slots, axis[0], axis[2], gradient)
    add_forces(parts.hinge_slots, hinge[0], hinge[2], gradient)
    return pair, axis, hinge, (pair_energy, axis_energy, hinge_energy)
