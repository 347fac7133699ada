"""Contact of obstacles with the interior of surface triangles, between their contact points.

Every small triangle of the skin feels an obstacle where it comes nearest to it, at the point with the weights b that make

    D(b) = d(sum_i b_i x_i) + e / 2 |b - 1/3|^2,        b_i >= 0, sum_i b_i = 1

least, by the law of the points (`laws`) of D. The springs e, a share of the thickness of contact, choose the middle
where a flat obstacle would leave the choice to rounding. Since D is least, its derivative by x_i is b_i n, and with the
directions t_k in which b is free, E_k = sum_i t_ki x_i, H = grad^2 d and S_kl = E_k . H E_l + e t_k . t_l,

    d2D/dx_i dx_j = b_i b_j H - sum_kl (t_ki n + b_i H E_k) S^-1_kl (t_lj n + b_j H E_l)^T.

Convex shapes have one minimum. On others the search starts at the lowest of the points of a grid. The law begins deeper than
that of the points: of an obstacle that is wide or flat it feels nothing, and a uniform pressure stays uniform.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from geosim.arrays import Bools, Floats, Ints, frozen
from geosim.collision.queries import WEIGHT_ROUNDING
from geosim.collision.shapes import Solids, curvature, signed_distance
from geosim.kernels import kernel
from geosim.linear.matrix3 import put, row
from geosim.shape.energy.contact.laws import soft_law
from geosim.shape.energy.contact.surface import RestSurface

# Distance below which triangles feel an obstacle, over the thickness: above it the points carry up to six shear moduli.
FACE_CONTACT_THICKNESSES = 0.3
# Stiffness of the law of a triangle over that of the points: an obstacle smaller than an edge presses with up to ten times shear
# modulus times the square of the edge, and is to stay outside: within, at the tip of a needle, no direction leads out.
FACE_STIFFNESS_RATIO = 10.0
# Springs that hold the lowest point in the middle, over the thickness: at a corner they add a tenth of it to the distance.
FACE_SPRING_SOFTNESS = 0.3


@dataclass(frozen=True)
class ClosestOnFaces:
    """Where triangles are nearest to an obstacle.

    Parameters
    ----------
    ids
        The triangles, (k,).
    distance
        D (k,), in the unit of what it was asked with.
    weights
        b (k, 3).
    normal
        Out of the obstacle (k, 3).
    """

    ids: Ints
    distance: Floats
    weights: Floats
    normal: Floats


@dataclass(frozen=True)
class ContactFaces:
    """Triangles of the contact surface, as obstacles feel them; scaled.

    Parameters
    ----------
    triangles
        Their points, (t, 3).
    feels
        Which of them feel obstacles at all, bool (t,).
    thickness, stiffness
        Thickness of contact, and area times stiffness of every triangle, (t,).
    """

    triangles: Ints
    feels: Bools
    thickness: Floats
    stiffness: Floats

    def within(self, thickness: float, places: Floats, distance: Floats, limit: Floats, length: float) -> Ints:
        """Return the triangles that may be nearer to an obstacle of some thickness [m] than a scaled limit (t,).

        `places` are the positions of all points [m], `distance` their scaled distances, `length` the unit [m].
        """
        if not np.isfinite(thickness):  # a plane is nearest to corners
            return np.zeros(0, dtype=np.int64)
        return np.flatnonzero(_within(places, self.triangles, distance * length, limit * length))

    def lowest(
        self, ids: Ints, solid: Solids, corners: Floats, length: float, pose: Floats | None = None
    ) -> ClosestOnFaces:
        """Return where triangles with corners (k, 3, 3) [m] are nearest to a shape."""
        softness = FACE_SPRING_SOFTNESS * length * self.thickness[ids]
        value, weights, normal = lowest(solid, corners, np.eye(4) if pose is None else pose, softness)
        return ClosestOnFaces(ids, value / length, weights, normal)

    def press(
        self,
        found: ClosestOnFaces,
        delta: Floats,
        solid: Solids,
        pose: Floats,
        places: Floats,
        length: float,
        at: Floats,
        matrix: bool,
    ) -> tuple[ClosestOnFaces, Floats, Floats, float, Floats, Floats]:
        """Return the triangles in contact, how deep (k,), their forces (k,), energy, and the two parts of their tangent.

        Those are (k, 3, 3, 3, 3); the law is linearised at the penetrations `at` (t,), where they are no nan.
        """
        u = (delta[found.ids] - found.distance) / self.thickness[found.ids]
        on = u > 0.0
        touch = ClosestOnFaces(found.ids[on], found.distance[on], found.weights[on], found.normal[on])
        u, at = u[on], at[touch.ids]
        value, slope, work = soft_law(np.where(at > 0.0, at, u))
        value = np.where(at > 0.0, value + slope * (u - at), value)
        stiffness, thick = self.stiffness[touch.ids], self.thickness[touch.ids]
        k = len(touch.ids) if matrix else 0
        stiff, bend = np.zeros((2, k, 3, 3, 3, 3))
        if k:
            along = touch.weights[:, :, None] * touch.normal[:, None]
            stiff = np.einsum("k,kia,kjb->kijab", stiffness * slope / thick, along, along)
            corners = np.ascontiguousarray(places[self.triangles[touch.ids]])
            turn = turning(solid, corners, pose, FACE_SPRING_SOFTNESS * length * thick, touch.weights, touch.normal)
            bend = (-stiffness * value * length)[:, None, None, None, None] * turn
        return touch, u, stiffness * value, float(np.sum(stiffness * thick * work)), stiff, bend


def contact_faces(at_rest: RestSurface, stiffness: Floats) -> ContactFaces:
    """Return the triangles of a surface, by the stiffness at its points (p,): those of the skin that are not held as a whole."""
    surface = at_rest.surface
    feels = at_rest.feels[surface.triangles].any(axis=1) & (surface.spaces == 0)
    thickness = at_rest.thickness[surface.triangles].min(axis=1)
    by_face = surface.triangle_weights * stiffness[surface.triangles].max(axis=1)
    return ContactFaces(surface.triangles, frozen(feels), frozen(thickness), frozen(by_face))


def lowest(solid: Solids, corners: Floats, pose: Floats, softness: Floats) -> tuple[Floats, Floats, Floats]:
    """Return D (k,) [m], b (k, 3) and the normal (k, 3) where triangles (k, 3, 3) [m] are nearest to a shape.

    `softness` (k,) are the springs e [m].
    """
    place = np.ascontiguousarray((corners - pose[:3, 3]) @ pose[:3, :3])
    value, weights, normal = np.empty(len(place)), np.empty((len(place), 3)), np.empty((len(place), 3))
    _lowest(solid, place, softness, value, weights, normal)
    return value, weights, normal @ pose[:3, :3].T


def turning(solid: Solids, corners: Floats, pose: Floats, softness: Floats, weights: Floats, normal: Floats) -> Floats:
    """Return the second derivatives of D by the corners of triangles (k, 3, 3) [m], (k, 3, 3, 3, 3) [1/m]."""
    turn = pose[:3, :3]
    place, out = np.ascontiguousarray((corners - pose[:3, 3]) @ turn), np.empty((len(corners), 3, 3, 3, 3))
    _turning(solid, place, softness, weights, np.ascontiguousarray(normal @ turn), out)
    return turn @ out @ turn.T


@kernel
def _within(places, triangles, distance, limit):
    """Which triangles may come nearer than their limits, by the distances of their corners, bool (t,)."""
    # A point of a triangle is at most so many of its longest edges away from its nearest corner.
    corner_distance_edges = 3**-0.5
    out = np.zeros(len(triangles), dtype=np.bool_)
    for f in range(len(triangles)):
        a, b, c = triangles[f]
        low = min(distance[a], distance[b], distance[c])
        if limit[f] > -np.inf:
            square = 0.0
            for i, j in ((a, b), (b, c), (c, a)):
                square = max(square, np.sum((places[i] - places[j]) ** 2))
            out[f] = low - corner_distance_edges * np.sqrt(square) < limit[f]
    return out


@kernel
def _at(solids, x, soft, s, t):
    """D at the weights (1 - s - t, s, t), and the normal there."""
    r = 1.0 - s - t
    p = (
        r * x[0, 0] + s * x[1, 0] + t * x[2, 0],
        r * x[0, 1] + s * x[1, 1] + t * x[2, 1],
        r * x[0, 2] + s * x[1, 2] + t * x[2, 2],
    )
    d, n = signed_distance(solids, 0, p)
    third = 1.0 / 3.0
    return d + 0.5 * soft * ((r - third) ** 2 + (s - third) ** 2 + (t - third) ** 2), n, p


@kernel
def _step(g0, g1, h00, h01, h11, s, t):
    """Where g . (b - (s, t)) + (b - (s, t)) . h (b - (s, t)) / 2 is least within the triangle."""
    det = h00 * h11 - h01 * h01
    x, y = s - (h11 * g0 - h01 * g1) / det, t - (h00 * g1 - h01 * g0) / det
    if x >= 0.0 and y >= 0.0 and x + y <= 1.0:
        return x, y
    best, bx, by = np.inf, s, t
    for ax, ay, ex, ey in ((0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 1.0), (1.0, 0.0, -1.0, 1.0)):  # the edges
        dx, dy = ax - s, ay - t
        slope = ex * (g0 + h00 * dx + h01 * dy) + ey * (g1 + h01 * dx + h11 * dy)
        way = min(1.0, max(0.0, -slope / (h00 * ex * ex + 2.0 * h01 * ex * ey + h11 * ey * ey)))
        dx, dy = dx + way * ex, dy + way * ey
        value = g0 * dx + g1 * dy + 0.5 * (h00 * dx * dx + 2.0 * h01 * dx * dy + h11 * dy * dy)
        if value < best:
            best, bx, by = value, ax + way * ex, ay + way * ey
    return bx, by


@kernel
def _search(solids, x, soft, s, t):
    """Weights of the minimum that a search from (s, t) finds, with D and the normal: Newton within the triangle."""
    weight_change_rounding = 1e-13  # change of the weights that is rounding
    max_search_steps = 40  # steps of the search at most: four or five find the minimum but on the inner edges of a box
    u, v, H = x[1] - x[0], x[2] - x[0], np.empty((3, 3))
    value, n, p = _at(solids, x, soft, s, t)
    for _ in range(max_search_steps):
        curvature(solids, 0, p, H)
        r = 1.0 - s - t
        g0 = u[0] * n[0] + u[1] * n[1] + u[2] * n[2] + soft * (s - r)
        g1 = v[0] * n[0] + v[1] * n[1] + v[2] * n[2] + soft * (t - r)
        Hu, Hv = H @ u, H @ v
        h00, h01, h11 = u @ Hu + 2.0 * soft, u @ Hv + soft, v @ Hv + 2.0 * soft
        if h00 <= 0.0 or h00 * h11 <= h01 * h01:  # not convex there: down along the slope
            h00, h01, h11 = 2.0 * soft, soft, 2.0 * soft
        to_s, to_t = _step(g0, g1, h00, h01, h11, s, t)
        ds, dt = to_s - s, to_t - t
        size = max(abs(ds), abs(dt))
        if size < weight_change_rounding:
            break
        share, slope = 1.0, g0 * ds + g1 * dt
        while True:
            # all of a step, to the last digit: an edge of the triangle is reached exactly
            a, b = (to_s, to_t) if share == 1.0 else (s + share * ds, t + share * dt)
            after, m, q = _at(solids, x, soft, a, b)
            if after <= value + 1e-4 * share * slope or size < 1e-6 or share < 1e-6:
                break
            share *= 0.5
        s, t, value, n, p = a, b, after, m, q
    return s, t, value, n


@kernel
def _lowest(solids, corners, softness, value, weights, normal):
    # divisions of an edge in the grid where the search starts on obstacles that are not convex
    search_grid_divisions = 4
    for k in range(len(corners)):
        s, t, low = 1.0 / 3.0, 1.0 / 3.0, np.inf
        for i in range(0 if solids.convex[0] else search_grid_divisions + 1):
            for j in range(search_grid_divisions + 1 - i):
                here = _at(solids, corners[k], softness[k], i / search_grid_divisions, j / search_grid_divisions)[0]
                if here < low:
                    s, t, low = i / search_grid_divisions, j / search_grid_divisions, here
        s, t, value[k], n = _search(solids, corners[k], softness[k], s, t)
        r = 1.0 - s - t
        put(weights[k], (r if r > WEIGHT_ROUNDING else 0.0, s, t))
        put(normal[k], n)


@kernel
def _free(b, t):
    """Write the directions t (2, 3) in which weights are free; return how many there are."""
    t[:] = 0.0
    first, count = -1, 0
    for i in range(3):
        if b[i] > 0.0:
            if first < 0:
                first = i
            else:
                t[count, first], t[count, i] = -1.0, 1.0
                count += 1
    return count


@kernel
def _turning(solids, corners, softness, weights, normal, out):
    """Write the second derivatives of D by the corners, (k, 3, 3, 3, 3)."""
    t, H, inverse = np.empty((2, 3)), np.empty((3, 3)), np.zeros((2, 2))
    for k in range(len(corners)):
        b, n, x = weights[k], normal[k], corners[k]
        curvature(solids, 0, row(b.reshape(1, 3) @ x, 0), H)
        count = _free(b, t)
        E = t @ x
        HE = E @ H
        S = HE @ E.T + softness[k] * (t @ t.T)
        inverse[:] = 0.0
        if count == 2:
            inverse[0, 0], inverse[1, 1], inverse[0, 1] = S[1, 1], S[0, 0], -S[0, 1]
            inverse[1, 0] = inverse[0, 1]
            inverse /= S[0, 0] * S[1, 1] - S[0, 1] ** 2
        elif count == 1:
            inverse[0, 0] = 1.0 / S[0, 0]
        for i in range(3):
            for j in range(3):
                out[k, i, j] = b[i] * b[j] * H
                for a in range(count):
                    for c in range(count):
                        out[k, i, j] -= inverse[a, c] * np.outer(t[a, i] * n + b[i] * HE[a], t[c, j] * n + b[j] * HE[c])
