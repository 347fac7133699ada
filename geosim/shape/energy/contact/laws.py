"""Contact laws: pressure, force and stiffness, and their assembly from surface points to nodes.

Obstacles press on every surface point q by a smooth law of the signed distance d, with u = (delta - d) / thickness,

    p = kappa u^2 / (u + w),                  kappa = 10 shear moduli, w = 0.1,

which is nearly linear from u = w on and goes on below d = 0, so that Newton may pass through an overlap. Two parts of
a robot must never overlap; their law has a pole at zero distance,

    p = kappa u^2 / ((1 - u) (u + w)),        u = 1 - d / reach,

with kappa = 0.3 shear moduli only: the pole holds them apart, and Newton finds the pressure of a soft law sooner.

Friction is a traction against the slip s since the anchor, elastic up to a tiny slip e and Coulomb's mu p beyond,

    t = mu p s / max(|s|, e),

with the pressure p and the plane of s of the solve before, or those of the configuration itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from geosim.arrays import Bools, Floats, Ints
from geosim.collision.distance import along_segment, edge_edge, point_triangle, separation, squared_distance_derivatives
from geosim.collision.queries import WEIGHT_ROUNDING
from geosim.kernels import kernel
from geosim.linear.matrix3 import difference, dot, row

LAW_RISE_WIDTH = 0.1  # w: share of the thickness over which the law rises from zero slope


@kernel
def soft_law(u):
    """Value, slope and integral over u of u^2 / (u + w)."""
    w = LAW_RISE_WIDTH
    return (u * u / (u + w), (u * u + 2.0 * u * w) / (u + w) ** 2, 0.5 * u * u - w * u + w * w * np.log((u + w) / w))


def linearised_at(before: Floats | None, u: Floats) -> Floats:
    """Return where `soft_law` is linearised in the next Newton step, nan where nothing presses.

    What a step meets presses with many times the force that it balances, and as the law p(u) is all but a square Newton's method
    does no more than halve u from step to step. With the forces f as unknowns of their own, p^-1(f) = u, it takes as many steps
    as the body's own nonlinearity asks for: the primal-dual method [Andersen et al. 2000, An efficient primal-dual
    interior-point method for minimizing a sum of Euclidean norms]. With f eliminated that is Newton's step with p linearised not
    at u but where p has the force that the last step foretold, f = p(u0) + p'(u0) (u - u0).

    Parameters
    ----------
    before
        Where it was linearised in the last step, u0; None where that step was shortened or there was none: then this is u.
    u
        Penetrations over the thickness, of any shape, 0 outside.
    """
    # shares of u: at zero the law has no slope, and from the larger one on the two tangents differ by a ten-thousandth of p
    min_share, full_share = 0.1, 0.99
    old = u if before is None else np.where(before > 0.0, before, u)
    value, slope, _ = (out.reshape(u.shape) for out in soft_law(old.ravel()))  # compiled for one axis
    force = np.maximum(value + slope * (u - old), 0.0)
    foretold = 0.5 * (force + np.sqrt(force * (force + 4.0 * LAW_RISE_WIDTH)))
    foretold = np.where(foretold > full_share * u, u, np.maximum(foretold, min_share * u))
    return np.where(u > 0.0, foretold, np.nan)


@kernel
def barrier_law(u):
    """Value, slope and integral over u of u^2 / ((1 - u)(u + w))."""
    w = LAW_RISE_WIDTH
    below = (1.0 - u) * (u + w)
    value = u * u / below
    slope = (2.0 * u * below - u * u * (1.0 - w - 2.0 * u)) / (below * below)
    return value, slope, -u - np.log(1.0 - u) / (1.0 + w) + w * w / (1.0 + w) * np.log((u + w) / w)


class PointLaw(NamedTuple):
    """What contact does at surface points, each array (k,).

    Parameters
    ----------
    delta, thickness
        Distance at which contact begins, and the thickness of the law.
    area, kappa
        Area and stiffness of the points.
    at
        Penetration over the thickness at which the law is linearised (k,), nan where it is the law itself.
    friction, scale
        Coulomb coefficient (one number), and the slip up to which a point sticks.
    """

    delta: Floats
    thickness: Floats
    area: Floats
    kappa: Floats
    at: Floats
    friction: float
    scale: Floats


class PointStickSlip(NamedTuple):
    """What surface points hold on to.

    Parameters
    ----------
    anchor, before
        Where they stick (k, 3) (moved along with the obstacle), and what they lacked there to contact (k,), -inf in it.
    share, push, normal, own
        Share of the way from the anchor that was made in contact (k,), force (k,) and normal (k, 3) that friction goes by;
        or, where `own` (k,), it goes by those of this configuration.
    """

    anchor: Floats
    before: Floats
    share: Floats
    push: Floats
    normal: Floats
    own: Bools


class PointForces(NamedTuple):
    """What contact with one obstacle exerts on surface points.

    Parameters
    ----------
    force, pressure, drag
        Residual (k, 3), pressure (k,) and the part of the residual that is friction (k, 3).
    block, bend, slide
        The derivative of the residual (k, 3, 3) is block + bend + slide, where block is never negative, bend is what the
        turning of the normal adds, and slide the softening along the slip, with all that is unsymmetric if `own`.
    """

    force: Floats
    pressure: Floats
    drag: Floats
    block: Floats
    bend: Floats
    slide: Floats


@kernel
def obstacle_points(distance, normal, curvature, place, law, hold, out):
    """Write force and stiffness of points near one obstacle; return the energy.

    Parameters
    ----------
    distance, normal, curvature
        Signed distance (k,), its gradient (k, 3) and second derivative (k, 3, 3).
    place
        Positions (k, 3).
    law, hold, out
        `PointLaw`, `PointStickSlip`, and `PointForces` to be written.
    """
    total = 0.0
    space = np.empty((3, 3))
    for q in range(len(distance)):
        energy, rise = _press(q, distance[q], normal[q], curvature[q], law, out)
        total += energy
        if law.friction > 0.0:
            _rub(q, distance[q], normal[q], curvature[q], place[q], rise, law, hold, out, space)
    return total


@kernel
def _rub(q, distance, normal, curvature, place, rise, law, hold, out, space):
    """Add friction at point q, whose pressure has the slope `rise`, to its force and stiffness."""
    slip, way, size = space[0], space[1], 0.0
    m, part, change, push = hold.normal[q], hold.share[q], 0.0, hold.push[q]
    if hold.own[q]:
        m, part, push, left = normal, 1.0, law.area[q] * out.pressure[q], distance - law.delta[q]
        if hold.before[q] > 0.0 > left:
            gone = hold.before[q] - left
            part, change = -left / gone, -hold.before[q] / gone**2
    if push == 0.0:
        return
    along = dot(difference(place, hold.anchor[q]), m)
    for i in range(3):
        way[i] = place[i] - hold.anchor[q, i] - along * m[i]
        slip[i] = part * way[i]
        size += slip[i] ** 2
    size = np.sqrt(size)
    longest = max(size, law.scale[q])
    most = law.friction * push / longest
    for i in range(3):
        out.drag[q, i] = most * slip[i]
        out.force[q, i] += out.drag[q, i]
        for j in range(3):
            out.block[q, i, j] += part * most * ((1.0 if i == j else 0.0) - m[i] * m[j])
            if size > law.scale[q] and not hold.own[q]:
                out.slide[q, i, j] = -part * most * slip[i] * slip[j] / size**2
    if hold.own[q]:
        steeper = law.friction * law.area[q] * rise / longest
        spread = most / size**2 if size > law.scale[q] else 0.0
        _turn_slip(out.slide[q], place, hold.anchor[q], m, curvature, along, part, change, most, spread, steeper, space)


@kernel
def _turn_slip(slide, place, anchor, m, curvature, along, part, change, most, spread, steeper, space):
    """Write how friction by the present normal and pressure changes with the position, beyond `block`: the plane of slip turns.

    `spread` is the force of a point that slides over the cube of its slip; `steeper` how the force over the slip changes with the
    distance.
    """
    slip, way, column = space[0], space[1], space[2]
    for j in range(3):
        turn, across = dot(curvature[j], difference(place, anchor)), 0.0
        for i in range(3):
            column[i] = part * ((1.0 if i == j else 0.0) - m[i] * m[j] - m[i] * turn - along * curvature[i, j])
            column[i] += way[i] * change * m[j]
            across += slip[i] * column[i]
        for i in range(3):
            flat = part * most * ((1.0 if i == j else 0.0) - m[i] * m[j])
            slide[i, j] = most * column[i] - spread * across * slip[i] - steeper * slip[i] * m[j] - flat


@kernel
def _press(q, distance, n, curvature, law, out):
    """Write force and stiffness of point q without friction; return energy, and the slope of its pressure."""
    a, thick = law.area[q], law.thickness[q]
    u = (law.delta[q] - distance) / thick
    p, rise, energy = 0.0, 0.0, 0.0
    if u > 0.0:
        at = law.at[q]
        value, slope, energy = soft_law(at if at > 0.0 else u)
        value += slope * (u - at) if at > 0.0 else 0.0
        p, rise, energy = law.kappa[q] * value, law.kappa[q] * slope / thick, a * law.kappa[q] * thick * energy
    out.pressure[q] = p
    for i in range(3):
        out.force[q, i], out.drag[q, i] = -a * p * n[i], 0.0
        for j in range(3):
            out.block[q, i, j] = a * rise * n[i] * n[j]
            out.bend[q, i, j] = -a * p * curvature[i, j]
            out.slide[q, i, j] = 0.0
    return energy, rise


@kernel
def _slopes_of_cross(u, v, slope, bend):
    """Write the derivatives of |u x v|^2 by u and v, (2, 3) and (2, 2, 3, 3)."""
    uu, uv, vv = u @ u, u @ v, v @ v
    for k in range(3):
        slope[0, k] = 2.0 * (vv * u[k] - uv * v[k])
        slope[1, k] = 2.0 * (uu * v[k] - uv * u[k])
        for m in range(3):
            same = 1.0 if k == m else 0.0
            bend[0, 0, k, m] = 2.0 * (vv * same - v[k] * v[m])
            bend[1, 1, k, m] = 2.0 * (uu * same - u[k] * u[m])
            bend[0, 1, k, m] = bend[1, 0, m, k] = 2.0 * (2.0 * u[k] * v[m] - v[k] * u[m] - uv * same)


@kernel
def _mollify(x, rest, gradient, hessian):
    """Fade factor of two edges by |u x v|^2, with its derivatives; return it (1: not parallel, derivatives untouched)."""
    parallel_fade_sin2 = 0.03  # sin^2 of the angle of two edges below which their contact fades out
    u, v = x[1] - x[0], x[3] - x[2]
    ru, rv = rest[1] - rest[0], rest[3] - rest[2]
    limit = parallel_fade_sin2 * (ru @ ru) * (rv @ rv)
    c = (u @ u) * (v @ v) - (u @ v) ** 2
    if c >= limit:
        return 1.0
    slope, bend = np.empty((2, 3)), np.empty((2, 2, 3, 3))
    _slopes_of_cross(u, v, slope, bend)
    s = c / limit
    first, second = (2.0 - 2.0 * s) / limit, -2.0 / limit**2
    sign = np.array([-1.0, 1.0, -1.0, 1.0])
    for i in range(4):
        for k in range(3):
            gradient[i, k] = first * sign[i] * slope[i // 2, k]
    for i in range(4):
        for j in range(4):
            for k in range(3):
                for m in range(3):
                    both = first * bend[i // 2, j // 2, k, m] + second * slope[i // 2, k] * slope[j // 2, m]
                    hessian[i, j, k, m] = sign[i] * sign[j] * both
    return (2.0 - s) * s


@kernel
def _term(x, first, a, b, w, c):
    """Write weights and slopes of point `first` against the segment from a to b (or the point a = b); number of free b."""
    w[:] = 0.0
    c[:] = 0.0
    w[first] = 1.0
    t = along_segment(row(x, first), row(x, a), row(x, b))[0] if a != b else 0.0
    w[a] -= 1.0 - t
    w[b] -= t
    if not 0.0 < t < 1.0:
        return 0
    c[a, 0], c[b, 0] = 1.0, -1.0
    return 1


@kernel
def _features(x, edges, around, terms):
    """Collect the parts of a pair that are near each other, each once, with how often it counts (see `pair_blocks`).

    A part is known by the points that its closest points depend on, as bits: entry m of `terms`.
    """
    w, c, vertex = np.empty(4), np.empty((4, 2)), np.int64(0)  # of the type that numbers in loops have
    terms.counts[:] = 0.0
    free = edge_edge(x, w, c) if edges else point_triangle(x, w, c)
    main = _collect(w, c, free, 1.0, terms)
    for k in range(3 if not edges else 0):
        free = _term(x, vertex, 1 + k, 1 + (k + 1) % 3, w, c)
        _collect(w, c, free, -0.5, terms)
        free = _term(x, vertex, 1 + k, 1 + k, w, c)
        _collect(w, c, free, 1.0 / around[1 + k], terms)
    for k in range(4 if edges else 0):
        other = 2 - 2 * (k // 2)
        free = _term(x, k, other, other + 1, w, c)
        _collect(w, c, free, -0.5, terms)
        free = _term(x, k // 2, 2 + k % 2, 2 + k % 2, w, c)
        _collect(w, c, free, 0.25, terms)
    return main


@kernel
def _collect(w, c, free, count, terms):
    """Add to how often a part of a pair counts; return its number."""
    key = 0
    for i in range(4):
        key += (1 << i) if w[i] != 0.0 else 0
    terms.counts[key] += count
    terms.free[key] = free
    for i in range(4):  # an array assigned to a slice takes two seconds to compile: its error names shapes
        terms.w[key, i] = w[i]
        for k in range(2):
            terms.c[key, i, k] = c[i, k]
    return key


class _Terms(NamedTuple):
    """Parts of a pair: how often each counts (16,), weights (16, 4), slopes (16, 4, 2), number of free parameters (16,)."""

    counts: Floats
    w: Floats
    c: Floats
    free: Ints


@kernel
def _pair_part(x, w, c, free, count, reach, scale, out, matrix):
    """Add energy, gradient and second derivatives of one part of a pair; return its energy (inf: it is met) and law."""
    e, dD, ddD = out.e, out.gradient, out.hessian
    d = separation(x, w, e)
    u = 1.0 - d / reach
    if u <= 0.0:
        return 0.0, 0.0
    if d <= 0.0:
        return np.inf, 0.0
    value, slope, energy = barrier_law(u)
    scale *= count
    first = -scale * value / (2.0 * d)  # dE/dD
    stiff, turn = scale * slope / reach / (4.0 * d * d), scale * value / (4.0 * d**3)
    for i in range(4):
        for k in range(3):
            out.slope[i, k] += 2.0 * first * w[i] * e[k]
    if not matrix:
        return scale * reach * energy, value
    squared_distance_derivatives(x, w, c, free, e, dD, ddD)
    for i in range(4):
        for j in range(4):
            for k in range(3):
                for m in range(3):
                    both = dD[i, k] * dD[j, m]
                    out.stiff[i, j, k, m] += stiff * both
                    out.bend[i, j, k, m] += first * ddD[i, j, k, m] + turn * both
    return scale * reach * energy, value


class _Sums(NamedTuple):
    """Work space of one pair: vector e (3,), its square's gradient (4, 3) and hessian (4, 4, 3, 3); sums over its parts."""

    e: Floats
    gradient: Floats
    hessian: Floats
    slope: Floats
    stiff: Floats
    bend: Floats


@kernel
def _write_pair(q, sums, energy, fade, slope, curvature, gradients, hessians, bends, matrix):
    """Write the gradient of the faded energy of pair q, and with `matrix` both parts of its second derivatives.

    `slope` and `curvature` are those of the fade.
    """
    for i in range(4):
        for k in range(3):
            gradients[q, i, k] = fade * sums.slope[i, k] + (energy * slope[i, k] if fade < 1.0 else 0.0)
    for i in range(4 if matrix else 0):
        for j in range(4):
            for k in range(3):
                for m in range(3):
                    hessians[q, i, j, k, m] = fade * sums.stiff[i, j, k, m]
                    bends[q, i, j, k, m] = fade * sums.bend[i, j, k, m]
                    if fade < 1.0:
                        turn = slope[i, k] * sums.slope[j, m] + sums.slope[i, k] * slope[j, m]
                        bends[q, i, j, k, m] += energy * curvature[i, j, k, m] + turn


@kernel
def pair_blocks(x, rest, around, points, edges, reach, weight, kappa, gradients, hessians, bends, pressure, matrix):
    """Write gradients and (with `matrix`) second derivatives of the energy of pairs; return the energy.

    Every pair counts its parts such that a point above a surface, wherever it is, feels it once:

        vertex v, face f with edges e and corners u:   phi(v, f) - sum_e phi(v, e) / 2 + sum_u phi(v, u) / n_u,
        edges e, g with ends u, v:   phi(e, g) - sum_u phi(u, g) / 2 - sum_v phi(e, v) / 2 + sum_uv phi(u, v) / 4,

    with n_u the faces around u: summed over the faces around an edge or a corner it is 1 there [Li et al. 2023, Convergent
    IPC, in its improved approximation of the maximum]. Without it what slides over an edge would feel two faces, over a corner
    six: a rough surface, on which it sticks and snaps.

    Parameters
    ----------
    x, rest
        Positions of all points, now and at rest (p, 3).
    around
        Faces around every point (p,).
    points, edges, reach
        Pairs (see `NearPairs`): (k, 4), bool (k,), (k,).
    weight, kappa
        Area and stiffness of the pairs, (k,).
    gradients, pressure
        Written: (k, 4, 3), (k,).
    hessians, bends
        Written: the second derivatives (k, 4, 4, 3, 3) are their sum: stiffness along the distance, and what the turning of
        the distance adds, mostly negative.
    """
    four, old, faces = np.empty((4, 3)), np.empty((4, 3)), np.empty(4)
    terms = _Terms(np.zeros(16), np.zeros((16, 4)), np.zeros((16, 4, 2)), np.zeros(16, dtype=np.int64))
    blocks = np.empty((3, 4, 4, 3, 3))
    sums = _Sums(np.empty(3), np.empty((4, 3)), blocks[0], np.empty((4, 3)), blocks[1], blocks[2])
    dm, ddm = np.zeros((4, 3)), np.zeros((4, 4, 3, 3))
    total = 0.0
    for q in range(len(points)):
        for i in range(4):
            faces[i] = around[points[q, i]]
            for k in range(3):
                four[i, k], old[i, k] = x[points[q, i], k], rest[points[q, i], k]
        main = _features(four, edges[q], faces, terms)
        sums.slope[:], E, pressure[q] = 0.0, 0.0, 0.0
        if matrix:
            sums.stiff[:], sums.bend[:] = 0.0, 0.0
        for part in range(16):
            count = terms.counts[part]
            if part != main and abs(count) < WEIGHT_ROUNDING:
                continue
            one = terms.w[part], terms.c[part], terms.free[part], count
            energy, value = _pair_part(four, *one, reach[q], weight[q] * kappa[q], sums, matrix)
            E += energy
            pressure[q] = kappa[q] * value if part == main else pressure[q]
        fade = _mollify(four, old, dm, ddm) if edges[q] else 1.0
        pressure[q] *= fade
        total += fade * E
        _write_pair(q, sums, E, fade, dm, ddm, gradients, hessians, bends, matrix)
    return total
