"""The centre line of a robot, from what is held to the tip, as linear functions of the positions of its vertices.

In a solid the line follows the field u that is 0 at what is held, 1 at the tip and harmonic between: its flow

    g = grad u,      Laplace u = 0,

takes the way that a force through the body takes, along the base of a bellows and not into its dead ends. Arc length is
measured along the flow, ds = du / |g|. A station is a window (a hat function of s) over the tets. Its place is the mean
of the positions and its gradient the mean of F, both weighted by |g|^2 dV. Its tangent is that gradient times the rest
direction of the flow. A net of rods has its shortest way from the farthest vertex to the tip instead, a station a rod.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from geosim.arrays import Bools, Floats, Ints
from geosim.geometry import topology
from geosim.model.contract import Robot
from geosim.model.robot import BODY_END_SHARE, VolumetricRobot


@dataclass(frozen=True)
class Spine:
    """Stations along the centre line of a robot at rest.

    Parameters
    ----------
    stations, twist_stations, length
        Arc lengths at which the stations see bending and twist (m,), and that of the line [m].
    tangents
        At rest, (m, 3).
    places
        Positions of the vertices -> positions of the stations, sparse (m, n).
    slopes
        Positions of the vertices -> tangents, not of unit length, sparse (m, n).
    gradients
        Positions of the vertices -> mean deformation gradients, sparse (3 m, n): rows 3 j .. 3 j + 2 give the columns of
        station j. None of a rod.
    windows
        Weights of the body tets in every station, sparse (m, tets). None of a rod.
    """

    stations: Floats
    twist_stations: Floats
    length: float
    tangents: Floats
    places: sparse.csr_matrix
    slopes: sparse.csr_matrix
    gradients: sparse.csr_matrix | None
    windows: sparse.csr_matrix | None = None

    def deformations(self, positions: Floats) -> Floats:
        """Mean deformation gradients of the stations of a solid at positions [m] (n, 3), (m, 3, 3)."""
        assert self.gradients is not None
        return np.asarray((self.gradients @ positions).reshape(-1, 3, 3).transpose(0, 2, 1))


def spine(robot: Robot) -> Spine | None:
    """Return the centre line of a robot; None where it has none: no way from what is held to the tip, no direction."""
    if isinstance(robot, VolumetricRobot):
        return _solid_spine(robot)
    if len(robot.edges) and len(robot.tip):
        return _rod_spine(robot)
    return None


def _solid_spine(robot: VolumetricRobot) -> Spine | None:
    vertices, tets = robot.vertices, robot.body_tets
    used, local = np.unique(tets, return_inverse=True)
    local = local.reshape(-1, 4)
    held, tip = (mask[used] for mask in _ends(robot))
    if not tip.any() or not held.any():
        return None
    volumes = topology.tet_volumes(vertices, tets)
    slopes = robot.body_gradients
    u = _harmonic(local, volumes, slopes, held, tip)
    flow = np.einsum("mai,ma->mi", slopes, u[local])
    weight, level = volumes * (flow**2).sum(axis=1), u[local].mean(axis=1)
    length, s = _arc_length(level, volumes * np.linalg.norm(flow, axis=1), weight)
    edge = float(np.average(np.cbrt(8.5 * volumes), weights=volumes))  # of regular tets of these volumes
    # spacing of the stations over the mesh's edge: narrower windows hold too few tets to average over
    window_edges = 1.5
    station_limits = (4, 48)  # fewest (curvature needs two turns), and more than a picture shows
    count = int(np.clip(length / (window_edges * edge), *station_limits))
    share = length / (count - 1)
    hats = np.maximum(1.0 - np.abs(s[None] / share - np.arange(count)[:, None]), 0.0)  # half of them at the ends
    windows = hats * weight
    total = windows.sum(axis=1)
    if (total <= 0.0).any():
        return None
    flows = (hats * volumes) @ flow
    amount = (hats * volumes) @ np.linalg.norm(flow, axis=1)
    resultant = np.linalg.norm(flows, axis=1)
    # resultant of the flow over its amount in a window: below, it has no common direction (a membrane)
    min_flow_alignment = 0.2
    if (resultant < min_flow_alignment * amount).any():
        return None
    windows = sparse.csr_matrix(windows / total[:, None])
    return _through(robot, windows, flows / resultant[:, None], (used[held], used[tip]))


def moved_spine(robot: VolumetricRobot, like: Spine) -> Spine | None:
    """Return the line of a robot through the windows of another one with the same tets.

    Its measures change smoothly with the rest positions: whose windows are found anew jump from tet to tet.
    """
    held, tip = _ends(robot)
    assert like.windows is not None
    return _through(robot, like.windows, like.tangents, (np.flatnonzero(held), np.flatnonzero(tip)))


def _ends(robot: VolumetricRobot) -> tuple[Bools, Bools]:
    """Which vertices are held, or the far end of a free body, and which are its tip, each bool (n,)."""
    body = robot.body_vertices
    tip, held = np.zeros(len(body), dtype=bool), np.zeros(len(body), dtype=bool)
    tip[robot.tip], held[robot.fixed] = True, True
    tip, held = tip & body, held & body & ~tip
    if not held.any():
        away = np.linalg.norm(robot.vertices - robot.vertices[robot.tip].mean(axis=0), axis=1)
        held = body & (away >= (1.0 - BODY_END_SHARE) * away[body].max()) & ~tip
    return held, tip


def _through(
    robot: VolumetricRobot, windows: sparse.csr_matrix, tangents: Floats, outer: tuple[Ints, Ints]
) -> Spine | None:
    """Return the line through windows (m, tets) of a solid with tangents (m, 3), between vertices at its two ends."""
    vertices, tets, count = robot.vertices, robot.body_tets, len(tangents)
    slopes = robot.body_gradients
    rows, n = np.arange(len(tets)), len(vertices)
    corner = (np.repeat(rows, 4), tets.ravel())
    mean = sparse.csr_matrix((np.full(tets.size, 0.25), corner), (len(tets), n))
    by_axis = [sparse.csr_matrix((slopes[:, :, k].ravel(), corner), (len(tets), n)) for k in range(3)]
    gradients = sparse.vstack([windows @ slope for slope in by_axis]).tocsr()
    order = np.arange(3 * count).reshape(3, count).T.ravel()  # from axis by axis to station by station
    places, gradients = windows @ mean, gradients[order]
    ends = [vertices[ids].mean(axis=0) for ids in outer]
    stations, length = _measured(places @ vertices, tangents, ends[0], ends[1])
    middles = np.asarray(places @ vertices)
    for end, one, two in ((0, 1, 2), (-1, -2, -3)):  # half a window is lopsided by what the mesh is: go on straight
        middles[end] = middles[one] + (middles[one] - middles[two]) * (
            (stations[end] - stations[one]) / (stations[one] - stations[two])
        )
    bends, twists, across = _offsets(vertices, middles, tangents, gradients)
    if any((np.diff(stations + offset, prepend=0.0, append=length) <= 0.0).any() for offset in (bends, twists)):
        return None
    # x = c(s) + R(s) eta: what a station sees beside the line by eta turns with the sections
    between = sparse.csr_matrix(np.gradient(np.eye(count), stations, axis=0))
    slopes = sparse.csr_matrix((count, n))
    for k in range(3):
        slopes = slopes + sparse.diags(tangents[:, k]) @ gradients[k::3]
        slopes = slopes - sparse.diags(across[:, k]) @ between @ gradients[k::3]
    return Spine(stations + bends, stations + twists, length, tangents, places, slopes.tocsr(), gradients, windows)


def _measured(places: Floats, tangents: Floats, start: Floats, end: Floats) -> tuple[Floats, float]:
    """Return the arc lengths of places (m, 3) and of the end [m] from the start, along the tangents."""
    steps = np.einsum("mi,mi->m", np.diff(places, axis=0), 0.5 * (tangents[1:] + tangents[:-1]))
    stations = float((places[0] - start) @ tangents[0]) + np.concatenate([[0.0], np.cumsum(steps)])
    return stations, float(stations[-1] + (end - places[-1]) @ tangents[-1])


def _offsets(
    vertices: Floats, places: Floats, tangents: Floats, gradients: sparse.csr_matrix
) -> tuple[Floats, Floats, Floats]:
    """How far beyond their places (m, 3) the stations see bending and twist [m], each (m,), and how far beside (m, 3).

    With sigma the distance along the tangent, the gradient of the parabola sigma^2 / 2 along it is sigma there, and so is
    that of sigma eta by a distance eta across.
    """
    count, entries = len(places), gradients.tocoo()
    station, axis = np.divmod(entries.row, 3)
    offset, tangent = vertices[entries.col] - places[station], tangents[station]
    along = np.einsum("ki,ki->k", offset, tangent)
    across = offset - along[:, None] * tangent
    k = np.arange(len(axis))
    down = entries.data * tangent[k, axis]
    bends = 0.5 * np.bincount(station, down * along**2, count)
    twists = 0.5 * np.bincount(station, entries.data * across[k, axis] * along, count)
    beside = [np.bincount(station, down * along * across[:, i], count) for i in range(3)]
    return np.asarray(bends, float), np.asarray(twists, float), np.stack(beside, axis=1, dtype=float)


def _harmonic(tets: Ints, volumes: Floats, slopes: Floats, low: Bools, high: Bools) -> Floats:
    """Return the harmonic field that is 0 on the vertices `low` and 1 on `high`, (n,)."""
    stiffness = volumes[:, None, None] * np.einsum("mai,mbi->mab", slopes, slopes)
    rows, columns = np.repeat(tets, 4, axis=1).ravel(), np.tile(tets, (1, 4)).ravel()
    matrix = sparse.csr_matrix((stiffness.ravel(), (rows, columns)), (len(low), len(low)))
    u, free = high.astype(float), ~(low | high)
    inner, right = matrix[free][:, free], -(matrix[free] @ u)
    flow_accuracy = 1e-9  # of u: the angles are first differences of means of it
    if free.any():
        diagonal = sparse.diags(1.0 / inner.diagonal())
        u[free] = sparse.linalg.cg(inner, right, rtol=flow_accuracy, maxiter=20 * len(u), M=diagonal)[0]
    return u


def _arc_length(level: Floats, flux: Floats, weight: Floats) -> tuple[float, Floats]:
    """Return the length of the line [m] and the arc length of every tet (m,) from its u, |g| dV and |g|^2 dV."""
    coordinate_bins = 40  # of u, over which |g| is averaged
    edges = np.linspace(0.0, 1.0, coordinate_bins + 1)
    place = np.clip(np.searchsorted(edges, level) - 1, 0, coordinate_bins - 1)
    amount, total = np.bincount(place, flux, coordinate_bins), np.bincount(place, weight, coordinate_bins)
    middle, full = 0.5 * (edges[1:] + edges[:-1]), total > 0
    slope = np.interp(middle, middle[full], amount[full] / total[full])  # ds / du
    s = np.concatenate([[0.0], np.cumsum(slope) / coordinate_bins])
    return float(s[-1]), np.interp(level, edges, s)


def _rod_spine(robot: Robot) -> Spine | None:
    """Return the shortest way along the rods to the tip, from the vertex farthest from it."""
    vertices, edges, n = robot.vertices, robot.edges, len(robot.vertices)
    lengths = np.linalg.norm(vertices[edges[:, 1]] - vertices[edges[:, 0]], axis=1)
    graph = sparse.csr_matrix((lengths, (edges[:, 0], edges[:, 1])), (n, n))
    tip = int(robot.tip[np.argmax(robot.tip_weights)])
    distance, before = sparse.csgraph.dijkstra(graph, directed=False, indices=tip, return_predecessors=True)
    way = [int(np.argmax(np.where(np.isfinite(distance), distance, -1.0)))]
    while way[-1] != tip:
        way.append(int(before[way[-1]]))
    if len(way) < 3:
        return None
    m, ids = len(way) - 1, np.array(way)
    place = np.repeat(np.arange(m), 2)
    ends = np.stack([ids[:-1], ids[1:]], axis=1).ravel()
    step = np.linalg.norm(np.diff(vertices[ids], axis=0), axis=1)
    along = np.stack([-1.0 / step, 1.0 / step], axis=1).ravel()
    s = np.concatenate([[0.0], np.cumsum(step)])
    middle = 0.5 * (s[1:] + s[:-1])
    return Spine(
        middle,
        middle,
        float(s[-1]),
        np.diff(vertices[ids], axis=0) / step[:, None],
        sparse.csr_matrix((np.full(2 * m, 0.5), (place, ends)), (m, n)),
        sparse.csr_matrix((along, (place, ends)), (m, n)),
        None,
    )
