"""Motion between the frames of a result: films and animations begin at rest and go evenly through every equilibrium.

Between two frames k and k + 1 each tet turns by a share s of its rotation and stretches by a share of its stretch,

    F(s) = R_k exp(s log(R_k^T R_{k+1})) ((1 - s) U_k + s U_{k+1}),        F = R U,

and vertices are where the gradients of the body are nearest to these [Sumner, Popovic 2004, Deformation transfer for triangle
meshes]. So a finger that bends by a right angle in one step keeps its length on the way. Rods, shells and snakes go straight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import splu
from scipy.spatial.transform import Rotation

from geosim.arrays import Floats, Ints
from geosim.geometry import topology
from geosim.model.robot import VolumetricRobot
from geosim.result import FIELDS, Result

MOTION_SECONDS = 3.0  # from rest to the last frame, in films and animations


class DeformationFit:
    """Positions whose gradients on tets are nearest to given ones: minimum of sum over tets V |F' - F|^2.

    Parameters
    ----------
    vertices, tets
        Rest positions [m], (n, 3), and vertex ids (m, 4).
    held
        Ids that are where they are put; a part of the body with none of them is held at one.
    """

    def __init__(self, vertices: Floats, tets: Ints, held: Ints) -> None:
        self.tets, slopes = tets, topology.tet_gradients(vertices, tets)
        self.weighted = np.abs(topology.tet_volumes(vertices, tets))[:, None, None] * slopes
        rows, columns = np.repeat(tets, 4, axis=1).ravel(), np.tile(tets, 4).ravel()
        local, n = self.weighted @ slopes.transpose(0, 2, 1), len(vertices)
        matrix = sparse.coo_matrix((local.ravel(), (rows, columns)), shape=(n, n)).tocsr()
        _, part = csgraph.connected_components(matrix, directed=False)
        alone = np.setdiff1d(np.unique(tets), np.flatnonzero(np.isin(part, part[held])))
        held = np.concatenate([held, alone[np.unique(part[alone], return_index=True)[1]]])
        self.free = np.setdiff1d(np.unique(tets), held)
        self.known = np.setdiff1d(np.arange(n), self.free)
        self.coupling = matrix[self.free][:, self.known]
        inner = matrix[self.free][:, self.free].tocsc()
        options = {"SymmetricMode": True}
        self.factors = splu(inner, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)

    def positions(self, gradients: Floats, start: Floats) -> Floats:
        """Positions [m] (n, 3) for gradients F (m, 3, 3); those that no tet or a hold decides are as in `start`."""
        sought = (self.weighted @ gradients.transpose(0, 2, 1)).reshape(-1, 3)
        right = np.stack([np.bincount(self.tets.ravel(), column, len(start)) for column in sought.T], axis=1)
        out = start.copy()
        out[self.free] = self.factors.solve(right[self.free] - self.coupling @ start[self.known])
        return out


def resampled(result: Result, times: Sequence[float] | Floats) -> Result:
    """Return a result at times from 0, at rest, to the last of its own; frames of the result are kept as they are.

    Measures between two frames are interpolated linearly.
    """
    own = np.asarray(result.times, dtype=float)
    begins = len(own) > 0 and own[0] > 0.0
    knots = np.concatenate([[0.0], own]) if begins else own
    at = np.interp(np.asarray(times, dtype=float), knots, np.arange(len(knots)))
    low = np.minimum(at.astype(int), max(len(knots) - 2, 0))
    high, share = np.minimum(low + 1, len(knots) - 1), at - low

    def mixed(values: Any, rest: Any) -> np.ndarray:
        known = np.concatenate([np.broadcast_to(rest, (1, *values.shape[1:])), values]) if begins else values
        weight = share.reshape(-1, *[1] * (values.ndim - 1))
        return np.asarray(np.where(weight == 0.0, known[low], (1.0 - weight) * known[low] + weight * known[high]))

    robot = result.robot
    ends = robot.vertices[robot.p2_edges] if result.mid_edge_frames.shape[1] else np.empty((0, 2, 3))
    at_rest: dict[str, Any] = {
        "frames": robot.vertices,
        "mid_edge_frames": ends.mean(axis=1),
        "obstacle_poses": np.eye(4),
    }
    at_rest |= {"volume_ratios": 1.0, "body_volume_ratio": 1.0}
    at_rest["tip"] = robot.tip_weights @ robot.vertices[robot.tip] if len(robot.tip) else np.nan
    if isinstance(robot, VolumetricRobot):
        at_rest["chamber_volumes"] = robot.chamber_volumes
    changes: dict[str, Any] = {"times": np.asarray(times, dtype=float)}
    for name in ("frames", "mid_edge_frames", *FIELDS):
        changes[name] = mixed(np.asarray(getattr(result, name)), at_rest.get(name, 0.0))
    changes["obstacle_held"] = mixed(result.obstacle_held.astype(float), 1.0) > 0.0
    kept: dict[str, Any] = {"contact_pressures": 0.0, "normal_forces": 0.0}
    if robot.cables:
        kept["guides"] = np.concatenate([cable.points for cable in robot.cables])
    changes["extra"] = {
        k: mixed(np.asarray(result.extra[k]), rest) for k, rest in kept.items() if result.extra.get(k) is not None
    }
    if isinstance(robot, VolumetricRobot) and len(robot.body_tets):
        start = changes["frames"]
        frames = np.concatenate([robot.vertices[None], result.frames]) if begins else result.frames
        turned = _turned(robot, frames, low, high, share, start)
        if len(ends):  # mid-edge nodes keep their places beside the edges that they are of
            changes["mid_edge_frames"] += (turned - start)[:, robot.p2_edges].mean(axis=2)
        changes["frames"] = turned
    return replace(result, **changes)


def _turned(robot: VolumetricRobot, frames: Floats, low: Ints, high: Ints, share: Floats, start: Floats) -> Floats:
    """Positions (q, n, 3) between frames (k, n, 3), which `start` has straight: tets turn and stretch in equal shares."""
    tets, out = robot.body_tets, start.copy()
    between = np.flatnonzero((share > 0.0) & (share < 1.0))
    if not len(between):
        return out
    slopes, fit = topology.tet_gradients(robot.vertices, tets), DeformationFit(robot.vertices, tets, robot.fixed)
    parts: dict[int, tuple[Floats, Floats]] = {}
    for k in np.unique([low[between], high[between]]):
        u, stretch, vt = np.linalg.svd(frames[k][tets].transpose(0, 2, 1) @ slopes)
        u[:, :, 2] *= np.sign(np.linalg.det(u @ vt))[:, None]
        parts[int(k)] = u @ vt, vt.transpose(0, 2, 1) * stretch[:, None] @ vt
    for k in np.unique(low[between]):
        (rotation, stretch), (next_rotation, next_stretch) = parts[int(k)], parts[int(high[low == k][0])]
        way = Rotation.from_matrix(rotation.transpose(0, 2, 1) @ next_rotation).as_rotvec()
        for q in between[low[between] == k]:
            s = share[q]
            turn = rotation @ Rotation.from_rotvec(s * way).as_matrix()
            out[q] = fit.positions(turn @ ((1.0 - s) * stretch + s * next_stretch), start[q])
    return out
