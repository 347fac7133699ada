"""The law of contact and friction between rods, shells and obstacles, for steps in time.

Two capsules, or a vertex and an obstacle, at distance D with contact at D = C (sum of radii, radius) store::

    E = k s^2,   s = log(1 + exp(K1 (C - D))) / K1,   K1 = 15 / delta                     (10) of [Choi2024]

and the tangential relative velocity u of the points that touch is resisted by::

    F = -mu tanh(K2 |u| / 2) u/|u| F_n,   K2 = 15 / nu                                     (12)-(13) of [Choi2024]

With a coefficient of restitution c contact gives back c^2 of the energy that it took, where it parts with the velocity v::

    F_n = s(v) dE/dC,   s = c^2 + (1 - c^2) / cosh^2(K2 v / 5) where v > 0, else 1

Then an impact ends with c times the velocity that it began with, whatever stiffness and step; at rest it is as without.

In statics u is what slipped since the equilibrium before, and friction bears all it can from a thousandth of the radius on
(`geosim.rods.terms.STICK_SLIP_RADII`): what is held gives way by no more a command, and what comes back slips the other way.

The energy solver has a law of its own: its friction holds what rests at a place, since an equilibrium knows no velocity, and is
lagged; here it follows the velocity and is implicit, in normal force, direction and place. Shells against shells: see
`geosim.rods.sheet_contact`; which parts of rods are near each other: `geosim.rods.pairs`.

Departures:

[D1] One smooth formula for every D, evaluated as a softplus that cannot overflow, instead of three cases; [Lahoti]'s
     ground Jacobian (26) is replaced by the exact derivative (its numerator has the square of the sigmoid).
[D2] The stiffness k scales with the material (Young's modulus times radius) and the weight; the overlap reached is
     reported.
[D3] [Choi2024] have no restitution: what their impacts take follows from step and stiffness.
[D4] The Jacobian of friction between shells neglects the turning of the contact normal; forces are exact. That between rods is
     exact: without the turning Newton's method gains no more than a factor of a hundred a step where a pile lies still.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from geosim.arrays import MIN_DIVISOR, Floats
from geosim.kernels import kernel
from geosim.linear.matrix3 import dot
from geosim.rods.robot import RodShellRobot

SHARPNESS = 15.0  # K1 delta and K2 nu of [Choi2024]: at u = nu friction has 1 - 6e-7 of its limit
MAX_STATIC_SINKING_RADII = 0.01  # of the radius that the whole weight, carried at one point, may sink in
FADED_EXPONENT = -36.0  # K1 (C - D) below which the energy is less than round-off of that at D = C: exp(-36) = 2e-16
# Over the range of the law, below which its mean is that of the midpoint: to 1e-8, where the quotient loses 12 of 16 digits.
MIN_MEAN_CHANGE = 1e-4


@dataclass(frozen=True)
class ContactLaw:
    """Constants of contact.

    Parameters
    ----------
    stiffness
        k [N/m].
    range
        delta [m].
    slip
        nu [m/s].
    restitution
        c, 0 .. 1; None: contact gives back what it takes.
    mass
        Of a vertex on average [kg].
    conserving
        Whether the force is the mean over the increment, see `mean_penalty`.
    yields
        Whether centre lines may sink into planes: where the stiffness is given, it may be that soft.
    """

    stiffness: float
    range: float
    slip: float
    restitution: float | None = None
    mass: float = 1.0
    conserving: bool = False
    yields: bool = False

    @property
    def k1(self) -> float:
        """Sharpness of contact [1/m]."""
        return SHARPNESS / self.range

    @property
    def k2(self) -> float:
        """Sharpness of friction [s/m]."""
        return SHARPNESS / self.slip

    @property
    def back(self) -> tuple[float, float]:
        """Share of the energy of contact that is given back, and the mass of a vertex [kg]."""
        return (1.0 if self.restitution is None else self.restitution**2), self.mass


def contact_law(
    robot: RodShellRobot,
    radius: float,
    weight: Floats,
    stiffness: float | None,
    distance: float | None,
    slip: float,
    restitution: float | None,
    mass: float,
) -> ContactLaw:
    """Return the constants, scaled to the robot where they are not given; its smallest `radius` [m], `weight` [N] (n, 3)."""
    # k over Young's modulus times radius: firmer than the rod itself, which a section flattens under its contact
    contact_stiffness_ratio = 5.0
    given = stiffness is not None
    if stiffness is None:
        firm = [robot.edge_property("youngs_modulus") * robot.radius] if len(robot.edges) else []
        firm += [robot.shell_material.youngs_modulus * robot.thickness] if len(robot.triangles) else []
        stiffness = max(
            contact_stiffness_ratio * float(np.concatenate(firm).max()),
            float(np.linalg.norm(weight.sum(axis=0))) / (MAX_STATIC_SINKING_RADII * radius),
        )
    # delta over the smallest radius: contact is felt in a tenth of the radius, wide enough for Newton's method
    contact_range_radii = 0.1
    reach = contact_range_radii * radius if distance is None else float(distance)
    return ContactLaw(float(stiffness), reach, slip, restitution, mass, yields=given)


@kernel
def penalty(gap, k, k1):
    """Return energy, force dE/dgap and stiffness of k softplus(gap)^2; gap = C - D, positive when overlapping."""
    z = k1 * gap
    e = math.exp(-abs(z))
    s = (max(z, 0.0) + math.log1p(e)) / k1
    sigmoid = 1.0 / (1.0 + e) if z >= 0.0 else e / (1.0 + e)
    return k * s * s, 2.0 * k * s * sigmoid, 2.0 * k * (sigmoid * sigmoid + s * k1 * sigmoid * (1.0 - sigmoid))


@kernel
def mean_penalty(gap, before, k, k1):
    """Return energy, mean force and its stiffness of k softplus(gap)^2 between the gaps `before` an increment and after it.

    The mean (E(gap) - E(before)) / (gap - before) does the work that contact stores: an impact keeps its energy, whatever the
    increment [Gonzalez 2000, Comput. Methods Appl. Mech. Eng. 190].
    """
    energy, force, _ = penalty(gap, k, k1)
    change = gap - before
    if abs(k1 * change) < MIN_MEAN_CHANGE:
        _, mean, stiff = penalty(0.5 * (gap + before), k, k1)
        return energy, mean, 0.5 * stiff
    mean = (energy - penalty(before, k, k1)[0]) / change
    return energy, mean, (force - mean) / change


@kernel
def returned(speed, sharp, kept):
    """Return s and ds/d speed [s/m] for points that approach each other by `speed` [m/s], see the head of this file."""
    if speed >= 0.0 or kept >= 1.0:
        return 1.0, 0.0
    tanh = math.tanh(sharp * speed)
    rest = (1.0 - kept) * (1.0 - tanh * tanh)
    return kept + rest, -2.0 * sharp * rest * tanh


@kernel
def pressed(fn, stiff, closer, step, k2, back):
    """Return force [N] and stiffness [N/m] of a contact that came closer by so much [m] in a step [s], from those that push.

    `back` is `ContactLaw.back`.
    """
    share, mass = back
    if step <= 0.0 or share >= 1.0:
        return fn, stiff
    parting_exponent = 0.2  # K2 nu / 15: contacts that part at nu push with 1 % of what they would
    ceased_push_share = 0.02  # of the velocity that its force gives a vertex in a step: over it contact ceases to push
    # parting is told from the velocity that the force gives in a step: a sharper law stalls Newton's method at rest
    sharp = min(parting_exponent * k2, mass / (ceased_push_share * max(fn, MIN_DIVISOR) * step))
    share, slope = returned(closer / step, sharp, share)
    return share * fn, share * stiff + fn * slope / step


@kernel
def approach(u, dofs, w, n):
    """Return how fast the points that w combines from four vertices come together along n by the velocities u [m/s]."""
    along = 0.0
    for v in range(4):
        for j in range(3):
            along += w[v] * n[j] * u[dofs[v] + j]
    return -along


@kernel
def stick_slip(speed, k2):
    """Return gamma(|u|) / |u| and d gamma / d|u| of Eq. (12); finite at rest."""
    gamma = math.tanh(0.5 * k2 * speed)
    ratio = gamma / speed if speed > MIN_DIVISOR else 0.5 * k2
    return ratio, 0.5 * k2 * (1.0 - gamma * gamma)


@kernel
def friction_slope(u, speed, ratio, slope, n, square, i, j):
    """Return d(gamma u_i / |u|) / du_j in the plane across the normal n, whose squared length is given."""
    tangent = -n[i] * n[j] / square
    if i == j:
        tangent += 1.0
    uu = u[i] * u[j] / (speed * speed) if speed > MIN_DIVISOR else 0.0
    return ratio * (tangent - uu) + slope * uu


@kernel
def four_slip(q, q0, step, dofs, w, n, mu, k2):
    """Return tangential velocity u and its size, gamma / |u| and its slope, of the points that w combines from four vertices.

    `dofs` (4,) are first degrees of freedom, `n` a normal of any length. All are zero without friction and in statics.
    """
    u = (0.0, 0.0, 0.0)
    if mu <= 0.0 or step <= 0.0:
        return u, 0.0, 0.0, 0.0
    for v in range(4):
        i, c = dofs[v], w[v] / step
        u = (u[0] + c * (q[i] - q0[i]), u[1] + c * (q[i + 1] - q0[i + 1]), u[2] + c * (q[i + 2] - q0[i + 2]))
    along = dot(u, n) / max(dot(n, n), MIN_DIVISOR)
    u = (u[0] - along * n[0], u[1] - along * n[1], u[2] - along * n[2])
    speed = math.sqrt(dot(u, u))
    ratio, slope = stick_slip(speed, k2)
    return u, speed, ratio, slope


@kernel
def add_to_four(dofs, w, f, residual, force):
    """Add f, shared by w among four vertices, to the residual, and take it from the force."""
    for v in range(4):
        for j in range(3):
            residual[dofs[v] + j] += w[v] * f[j]
            force[dofs[v] + j] -= w[v] * f[j]


@kernel
def contact_block(w, n, distance, fn, stiff, gradient, hessian, u, speed, ratio, slope, mu, step, block):
    """Fill the stiffness (12, 12) of a contact of four vertices.

    `n` between the closest points, `fn` = -dE/dD and `stiff` = d2E/dD2 at the distance D, `gradient` (4, 3) and `hessian`
    (4, 4, 3, 3) of D^2; then what `four_slip` returns, mu and the step.
    """
    by_square, by_square2 = -fn / (2.0 * distance), (stiff + fn / distance) / (4.0 * distance * distance)
    square = max(dot(n, n), MIN_DIVISOR)
    g = mu * fn / step if ratio > 0.0 else 0.0
    for a in range(12):
        i, m = a // 3, a % 3
        for b in range(12):
            j, k = b // 3, b % 3
            h = by_square * hessian[i, j, m, k] + by_square2 * gradient[i, m] * gradient[j, k]
            if g > 0.0:
                h += g * w[i] * w[j] * friction_slope(u, speed, ratio, slope, n, square, m, k)
                h -= mu * ratio * stiff * w[i] * u[m] * w[j] * n[k] / distance
            block[a, b] = h
