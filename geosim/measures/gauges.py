"""Largest stretch and stress of a solid, as gauges of half the local wall read them: measures with a limit on refined meshes.

At a sharp inner edge the deformation gradient has no limit, so what is largest at a point of a mesh says how fine the mesh is. A
gauge is a ball B, half the local wall in diameter, and reads the mean over what of it lies in the body, in one material:

    F_B = 1 / |B| integral over B of F dV,      stretch = sqrt(largest eigenvalue of F_B^T F_B),

what an extensometer of its length would say, and the equivalent stress of the material under F_B. F is first recovered
from the elements by L2 projection onto continuous piecewise linear fields, which is more accurate than the element
values [Oden and Brauchli, On the calculation of consistent stress distributions in finite element approximations,
1971]. Both are linear in the positions, so the derivatives are exact:

    M F = b(x),      dF_B / dx = a M^-1 db/dx,      a: the weights of the ball.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import sha256

import numpy as np
from scipy import sparse

from geosim.arrays import MIN_DIVISOR, Floats, Ints, einsum
from geosim.collision.queries import closest_points, ray_hits
from geosim.collision.tree import build_tree
from geosim.geometry import topology
from geosim.kernels import kernel
from geosim.material.materials import Hyperelastic
from geosim.measures.strain import at_corners, equivalent_stress, material_numbers, stretch
from geosim.measures.turning import SMOOTH_STEP_REL
from geosim.model.robot import VolumetricRobot

PROJECTION_STEPS = 30  # of Chebyshev's semi-iteration for recovered gradients; they leave 6e-13
TET_MASS = 1.0 / 20.0  # integral of the product of two hat functions over the volume of a tet; of a square twice that
BALL_POINTS = 100  # of a ball: one that meets a singular edge weighs so little that the mean does not feel it


def _stretch_slope(F: Floats) -> Floats:
    """Derivative of the largest stretch of one deformation gradient (3, 3): n m^T, the principal directions after and before."""
    left, _, right = np.linalg.svd(F)
    return np.outer(left[:, 0], right[0])


def _stress_slope(material: Hyperelastic, F: Floats) -> Floats:
    step = SMOOTH_STEP_REL * np.eye(9).reshape(9, 3, 3)
    high, low = equivalent_stress(material, F + step), equivalent_stress(material, F - step)
    return np.asarray((high - low) / (2.0 * SMOOTH_STEP_REL)).reshape(3, 3)


@dataclass(frozen=True)
class Reading:
    """What the gauge that says most reads.

    Parameters
    ----------
    value
        Stretch [-] or stress [Pa].
    node
        Node of the robot at which its ball is.
    region
        Of the robot: the material around it.
    tets, weights
        The ball: body tets (b,), and the weights of their corners in its mean (b, 4).
    """

    value: float
    node: int
    region: int
    tets: Ints
    weights: Floats


@dataclass(frozen=True)
class Gauges:
    """Gauges around the nodes of a robot.

    Parameters
    ----------
    robot
        At rest.
    """

    robot: VolumetricRobot

    @cached_property
    def _regions(self) -> Ints:
        return material_numbers(self.robot)

    @cached_property
    def _points(self) -> tuple[Ints, Ints]:
        """Vertex and material of every point of the recovered field (p, 2), and the points of the body tets (m, 4)."""
        tets, count = self.robot.body_tets, len(self.robot.materials)
        keys, of_tets = np.unique(tets * count + self._regions[:, None], return_inverse=True)
        return np.stack([keys // count, keys % count], axis=1), of_tets.reshape(-1, 4)

    @cached_property
    def _volumes(self) -> Floats:
        return np.abs(topology.tet_volumes(self.robot.vertices, self.robot.body_tets))

    @cached_property
    def _mass(self) -> sparse.csr_matrix:
        points, of_tets = self._points
        blocks = self._volumes[:, None, None] * TET_MASS * (1.0 + np.eye(4))
        rows, columns = np.repeat(of_tets, 4, axis=1).ravel(), np.tile(of_tets, (1, 4)).ravel()
        return sparse.csr_matrix((blocks.ravel(), (rows, columns)), (len(points), len(points)))

    def _projected(self, right: Floats, steps: int = PROJECTION_STEPS) -> Floats:
        """Solve with the mass matrix for columns (p, c), by this many steps of Chebyshev's semi-iteration.

        The eigenvalues of a mass matrix of linear tets over its diagonal are within 1/2 and 5/2 on every mesh [Wathen 1987, IMA
        J. Numer. Anal. 7]: n steps leave 2 ((3 + sqrt 5) / 2)^-n of the error.
        """
        middle = 1.5  # of the eigenvalues, a radius of 1 from their ends
        inverse = (1.0 / self._mass.diagonal())[:, None]
        rest, out, ratio = inverse * right, np.zeros_like(right), 1.0 / middle
        step = rest / middle
        for _ in range(steps):
            out += step
            rest -= inverse * (self._mass @ step)
            after = 1.0 / (2.0 * middle - ratio)
            step = after * (ratio * step + 2.0 * rest)
            ratio = after
        return out

    def recovered(self, nodes: Floats, steps: int = PROJECTION_STEPS) -> Floats:
        """Recovered deformation gradients at the corners of the body tets, (m, 4, 3, 3), of P2 positions [m] (n + e, 3).

        `steps` as in `_projected`.
        """
        points, of_tets = self._points
        right = np.zeros((len(points), 9))
        _weighed(
            at_corners(nodes[self.robot.p2_tets], self.robot.body_gradients).reshape(-1, 4, 9),
            self._volumes,
            of_tets,
            right,
        )
        return self._projected(right, steps)[of_tets].reshape(-1, 4, 3, 3)

    @cached_property
    def _centres(self) -> tuple[Ints, Ints, Ints]:
        """Node, material and a body tet of every gauge, each (g,)."""
        nodes, count = self.robot.p2_tets, len(self.robot.materials)
        keys, first = np.unique(nodes * count + self._regions[:, None], return_index=True)
        return keys // count, keys % count, first // nodes.shape[1]

    @cached_property
    def _radii(self) -> Floats:
        """Radii of the gauges [m], (g,)."""
        wall_share = 0.25  # radius of a gauge over the local wall
        return wall_share * walls(self.robot, self._places)

    @cached_property
    def _places(self) -> Floats:
        """Rest positions of the gauges [m], (g, 3)."""
        return topology.with_mid_edges(self.robot.vertices, self.robot.p2_edges)[self._centres[0]]

    @cached_property
    def _beyond(self) -> Ints:
        """The body tet of the same material beyond the face opposite to every corner of one, -1 where there is none, (m, 4)."""
        tets = self.robot.body_tets
        faces = np.sort(tets[:, topology.TET_FACES].reshape(-1, 3), axis=1)
        order = np.lexsort(faces.T)
        twins = np.flatnonzero((faces[order[1:]] == faces[order[:-1]]).all(axis=1))
        owners = np.full(len(order), -1)
        owners[order[twins]], owners[order[twins + 1]] = order[twins + 1] // 4, order[twins] // 4
        out = owners.reshape(-1, 4)
        return np.where((out >= 0) & (self._regions[out] == self._regions[:, None]), out, -1)

    def _balls(self, chosen: Ints) -> tuple[Ints, Floats]:
        """Tets (g, b) and weights of their corners (g, b, 4) of the balls of chosen gauges; 0 of what is outside."""
        places, tets = self._places[chosen], self._centres[2]
        found = np.empty((len(chosen), BALL_POINTS), dtype=np.int64)
        weights = np.zeros((len(chosen), BALL_POINTS, 4))
        corners = self.robot.vertices[self.robot.body_tets[:, 0]]
        _walk(
            places,
            self._radii[chosen],
            _ball(),
            tets[chosen],
            corners,
            self.robot.body_gradients,
            self._beyond,
            found,
            weights,
        )
        weights /= np.maximum(weights.sum(axis=(1, 2)), MIN_DIVISOR)[:, None, None]
        return found, weights

    def stretches(self, nodes: Floats) -> list[Reading]:
        """The reading of the largest stretch in every material, of P2 positions [m] (n + e, 3)."""
        return self._read(nodes, "stretch", [stretch] * len(self.robot.materials))

    def stresses(self, nodes: Floats) -> list[Reading]:
        """The reading of the largest equivalent stress [Pa] in every material."""
        return self._read(nodes, "stress", [partial(equivalent_stress, m) for m in self.robot.materials.values()])

    @cached_property
    def _kept(self) -> dict[tuple[str, bytes], list[Reading]]:
        """What was read so far, by kind and positions."""
        return {}

    @cached_property
    def _last_recovered(self) -> dict[bytes, Floats]:
        """Recovered gradients at the positions that were read last: stretch and stress are read one after the other."""
        return {}

    def _read(self, nodes: Floats, kind: str, of: Sequence[Callable[[Floats], Floats]]) -> list[Reading]:
        place = sha256(nodes.tobytes()).digest()
        if (kind, place) not in self._kept:
            if place not in self._last_recovered:
                self._last_recovered.clear()
                self._last_recovered[place] = self.recovered(nodes)
            self._kept[kind, place] = self._largest(self._last_recovered[place], of)
        return self._kept[kind, place]

    def _largest(self, recovered: Floats, of: Sequence[Callable[[Floats], Floats]]) -> list[Reading]:
        """Gauges in the order of what is largest in the elements around them, until those that are left cannot say more."""
        owner, material, _ = self._centres
        out = []
        gauges_at_once = 250  # gauges that are read before it is asked whether others can say more
        for m, (region, scalar) in enumerate(zip(self.robot.materials, of)):
            in_tets = np.where(self._regions == m, scalar(recovered).max(axis=1), -np.inf)
            around = np.full(len(self.robot.vertices) + len(self.robot.p2_edges), -np.inf)
            np.maximum.at(around, self.robot.p2_tets, in_tets[:, None])
            mine = np.flatnonzero(material == m)
            mine = mine[np.argsort(-around[owner[mine]], kind="stable")]
            best: Reading | None = None
            for some in np.split(mine, range(gauges_at_once, len(mine), gauges_at_once)):
                if best is not None and around[owner[some[0]]] <= best.value:
                    break
                found, weights = self._balls(some)
                values = scalar(_means(found, weights, recovered))
                k = int(np.argmax(values))
                if best is None or values[k] > best.value:
                    ball, inside = found[k], weights[k].any(axis=1)
                    best = Reading(float(values[k]), int(owner[some[k]]), region, ball[inside], weights[k][inside])
            assert best is not None
            out.append(best)
        return out

    def coarseness(self, reading: Reading) -> float:
        """Return the mean edge of the elements that a gauge reads over its diameter: beyond 1 it is not resolved.

        A gauge within one element reads a field that the element cannot bend: at a sharp inner edge it says too little, and more
        on every finer mesh.
        """
        nodes, material, _ = self._centres
        region = list(self.robot.materials).index(reading.region)
        own = np.flatnonzero((nodes == reading.node) & (material == region))[0]
        corners = self.robot.vertices[self.robot.body_tets[np.unique(reading.tets)]]
        ends = corners[:, topology.TET_EDGES]
        edge = float(np.linalg.norm(ends[:, :, 1] - ends[:, :, 0], axis=2).mean())
        return edge / (2.0 * float(self._radii[own]))

    def mean(self, reading: Reading, nodes: Floats) -> Floats:
        """Mean deformation gradient (3, 3) of the ball of a reading, at other positions or on a moved rest shape."""
        return einsum("bk,bkij->ij", reading.weights, self.recovered(nodes)[reading.tets])

    def slopes(self, reading: Reading, nodes: Floats, kind: str) -> tuple[Floats, Floats]:
        """Derivatives of a reading, "stretch" or "stress", by the positions and by the rest positions of the vertices.

        The second keeps the tets of the ball. Shapes (n + e, 3) and (n, 3).
        """
        robot, (points, of_tets) = self.robot, self._points
        recovered = self.recovered(nodes)
        F = einsum("bk,bkij->ij", reading.weights, recovered[reading.tets])
        G = _stretch_slope(F) if kind == "stretch" else _stress_slope(robot.materials[reading.region], F)
        right = np.bincount(of_tets[reading.tets].ravel(), reading.weights.ravel(), len(points)).astype(float)
        dual = self._projected(right[:, None])[:, 0][of_tets]
        weight = (TET_MASS * self._volumes)[:, None] * (dual + dual.sum(axis=1, keepdims=True))
        # of F at corner k of an element: sum_a (4 d_ka - 1) x_a (x) g_a + 4 sum_m x_km (x) g_m
        slopes, at = robot.body_gradients, nodes[robot.p2_tets]
        along = slopes @ G.T
        own = 4.0 * weight - weight.sum(axis=1, keepdims=True)
        by_node = np.zeros((len(nodes), 3))
        np.add.at(by_node, robot.p2_tets[:, :4], own[:, :, None] * along)
        by_slope = own[:, :, None] * (at[:, :4] @ G)
        for m, (a, b) in enumerate(topology.TET_EDGES):
            np.add.at(
                by_node,
                robot.p2_tets[:, 4 + m],
                4.0 * (weight[:, a, None] * along[:, b] + weight[:, b, None] * along[:, a]),
            )
            pulled = 4.0 * at[:, 4 + m] @ G
            by_slope[:, b] += weight[:, a, None] * pulled
            by_slope[:, a] += weight[:, b, None] * pulled
        # the work of the difference of the fields, V / 20 sum_jk (1 + d_jk) dual_j (F_k - recovered_k), moves with V and slopes
        missing = np.einsum("ij,ekij->ek", G, at_corners(at, slopes) - recovered)
        work = np.einsum("ek,ek->e", weight, missing)
        by_rest = np.zeros_like(robot.vertices)
        crossed = np.einsum("eai,ebi,eaj->ebj", by_slope, slopes, slopes)
        np.add.at(by_rest, robot.body_tets, work[:, None, None] * slopes - crossed)
        return by_node, by_rest

    def may_exceed(self, nodes: Floats, limits: Floats) -> bool:
        """Whether the recovered stretch is anywhere beyond the limit of its material (regions,); if not, no reading is."""
        # steps that leave 1e-3 in the mean, and a share of the limit below which single points, too, stay below the whole
        few_steps, enough = 8, 0.9
        F = self.recovered(nodes, few_steps)
        # the largest stretch is no larger than the root of the sum of all their squares
        near = (einsum("mcij,mcij->mc", F, F).max(axis=1) > (enough * limits[self._regions]) ** 2).any()
        return bool(near and (stretch(self.recovered(nodes)).max(axis=1) > limits[self._regions]).any())

    def share_beyond(self, nodes: Floats, limits: Floats) -> float:
        """Share of the body's volume whose recovered stretch is beyond the limit of its material (regions,), dimensionless."""
        over = _share_above(stretch(self.recovered(nodes)), limits[self._regions])
        return float(self._volumes @ over / self._volumes.sum())


def _share_above(values: Floats, limits: Floats) -> Floats:
    """Share of tets where the linear function of values (m, 4) at their corners is above limits (m,), (m,)."""
    low, limit = np.sort(values, axis=1), limits[:, None]
    spread = np.maximum(np.ptp(values, axis=1), 1e-6)[:, None]
    # of the spread of values in a tet: what equal ones are moved apart by; rounding is 1e-16 over its square
    tie_spread_rel = 1e-4
    low = low + tie_spread_rel * spread * np.arange(4)  # no two are equal, so no quotient is 0 / 0
    # the divided difference of the cubes of what is above: share = sum_k max(v_k - t, 0)^3 / prod_{j != k} (v_k - v_j)
    above = np.maximum(low - limit, 0.0) ** 3
    apart = low[:, :, None] - low[:, None, :] + np.eye(4)
    out = (above / apart.prod(axis=2)).sum(axis=1)
    out = np.where(low[:, 0] >= limits, 1.0, np.where(low[:, 3] <= limits, 0.0, out))
    return np.asarray(np.where(np.isfinite(limits), np.clip(out, 0.0, 1.0), 0.0))


def _ball() -> Floats:
    """Points of the unit ball, evenly spread: a spiral of golden angles through shells of equal volumes, (b, 3)."""
    k = np.arange(BALL_POINTS) + 0.5
    # radii in another order than heights, else the ball is a cone
    radius = np.cbrt((k * (np.sqrt(2.0) - 1.0)) % 1.0)
    height, turn = 1.0 - 2.0 * k / BALL_POINTS, np.pi * (1.0 + np.sqrt(5.0)) * k
    across = np.sqrt(1.0 - height**2)
    return np.ascontiguousarray(
        radius[:, None] * np.stack([across * np.cos(turn), across * np.sin(turn), height], axis=1)
    )


def walls(robot: VolumetricRobot, places: Floats) -> Floats:
    """Thickness [m] of the local wall at places (p, 3) of the body: the least that they are within, of those behind its faces."""
    vertices, faces = robot.vertices, topology.boundary_faces(robot.body_tets)
    normals = topology.face_normals(vertices, faces)
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    off_face_rel = 1e-7  # of the robot's size: rays begin inside the face that they come from
    ray_starts = np.array([[1, 1, 1], [8, 1, 1], [1, 8, 1], [1, 1, 8]]) / np.array([[3], [10], [10], [10]])
    starts = np.einsum("sk,fki->sfi", ray_starts, vertices[faces]) - off_face_rel * robot.size * normals
    starts = starts.reshape(-1, 3)
    ids = len(vertices) + np.arange(len(starts))
    tree = build_tree(vertices, faces)
    inward = np.tile(-normals, (len(ray_starts), 1))
    behind = ray_hits(np.vstack([vertices, starts]), ids, inward, tree)[0].reshape(len(ray_starts), -1).min(axis=0)
    behind = np.minimum(behind, robot.size)
    out, left = np.full(len(places), np.nan), np.ones(len(places), dtype=bool)
    wall_class_ratio = 1.2  # walls that differ by less are looked for at once
    order = np.floor(np.log(behind / behind.min()) / np.log(wall_class_ratio))
    for number in np.unique(order):
        if not left.any():
            break
        some = np.flatnonzero(order == number)
        reach = float(behind[some].max())
        ids = np.flatnonzero(left)
        nearest, face, _ = closest_points(places[ids], vertices, build_tree(vertices, faces[some]), reach=reach)
        inside = face >= 0
        inside[inside] = np.linalg.norm(nearest[inside] - places[ids[inside]], axis=1) <= behind[some[face[inside]]]
        out[ids[inside]] = behind[some[face[inside]]]
        left[ids[inside]] = False
    out[left] = behind.max()
    return out


@kernel
def _walk(places, radii, ball, tets, corners, slopes, beyond, found, weights):
    """Write the tet of every point of the balls, and its barycentric coordinates there; a point outside weighs nothing.

    From tet to tet through the face beyond which the point lies farthest.
    """
    at = np.empty(4)
    max_walk_tets = 200  # from a centre to a point of its ball; a wall has some elements, not hundreds
    on_face_barycentric = 1e-9
    for g in range(len(places)):
        for b in range(len(ball)):
            p0 = places[g, 0] + radii[g] * ball[b, 0]
            p1 = places[g, 1] + radii[g] * ball[b, 1]
            p2 = places[g, 2] + radii[g] * ball[b, 2]
            tet = tets[g]
            before = -1
            found[g, b] = tet
            for _ in range(max_walk_tets):
                d0, d1, d2 = p0 - corners[tet, 0], p1 - corners[tet, 1], p2 - corners[tet, 2]
                for k in range(4):
                    at[k] = slopes[tet, k, 0] * d0 + slopes[tet, k, 1] * d1 + slopes[tet, k, 2] * d2
                at[0] += 1.0
                way, least, inside = -1, -on_face_barycentric, True
                for k in range(4):
                    if at[k] < -on_face_barycentric:
                        inside = False
                        if at[k] < least and beyond[tet, k] >= 0 and beyond[tet, k] != before:
                            way, least = k, at[k]
                if inside:
                    found[g, b] = tet
                    for k in range(4):
                        weights[g, b, k] = at[k]
                    break
                if way < 0:
                    break
                before, tet = tet, beyond[tet, way]


@kernel
def _means(found, weights, recovered):
    """Mean deformation gradients of balls, (g, 3, 3)."""
    out = np.zeros((len(found), 3, 3))
    for g in range(len(found)):
        for b in range(found.shape[1]):
            for k in range(4):
                for i in range(3 if weights[g, b, k] != 0.0 else 0):
                    for j in range(3):
                        out[g, i, j] += weights[g, b, k] * recovered[found[g, b], k, i, j]
    return out


@kernel
def _weighed(corners, volumes, points, out):
    """Add the integrals of linear functions (m, 4, c) in tets times the hat function of every point."""
    for e in range(len(corners)):
        for c in range(corners.shape[2]):
            total = 0.0
            for k in range(4):
                total += corners[e, k, c]
            for k in range(4):
                out[points[e, k], c] += TET_MASS * volumes[e] * (corners[e, k, c] + total)
