"""The tentacle by geosim's own rods: a tapered `RodShellRobot` with cables through guides, 22 holds.

Identified is with `tentacle.py`, whose rod has tendons in a channel; here the same unknowns make discrete rods with a guide
in every segment, whose tendons are straight between guides. Both agree as segments shrink, and what half of the segments
change by is a term of the bars. The eighteen holds that nobody has shown rest on all four that are; each of those four is
predicted from the other three, with the scale of its bars from the three other predictions of that kind, so that a bar
knows nothing of the hold that it is held against.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tentacle
from frozen import Row
from scipy.spatial.transform import Rotation

import geosim
from geosim.rods.frames import material_frames

SEGMENTS, END = 64, 10  # of the cone with tendons, of the one beyond
WEIGHT = geosim.Environment(gravity=(0.0, 0.0, -9.81), self_contact=False)
SOLVER = geosim.RodShellStepper(static=True)
POISSON = 0.45


def robot(
    modulus: float, density: float, friction: float, base: np.ndarray, count: int = SEGMENTS, end: int = END
) -> geosim.RodShellRobot:
    """Return the tentacle of Young's modulus [Pa] and density [kg/m^3], its start at the origin in a frame (3, 3).

    A clamp holds the first edge: half of it bends no more, which is a term of what half of the segments change by.
    """
    rod = tentacle.rod(count, end)
    places = np.concatenate([[0.0], np.cumsum(rod.lengths)])
    guides = [np.column_stack([rod.stations, line])[np.isfinite(line[:, 0])] for line in rod.tendons]
    return geosim.RodShellRobot(
        np.outer(places, base[:, 0]), radius=rod.radii, fixed_vertices=[0, 1], fixed_edges=[0],
        rod_material=geosim.LinearElastic(modulus, POISSON, density),
        cables=[geosim.Cable(points @ base.T, friction=friction) for points in guides],
    )  # fmt: skip


def markers(tensions: np.ndarray, z: np.ndarray, count: int = SEGMENTS, end: int = END) -> np.ndarray:
    """Return where the markers are [m], (12,), at tensions [N] with unknowns in units of their priors."""
    ln_e, ln_rho, *rest = z * tentacle.PRIORS
    base = Rotation.from_rotvec(rest[3:6]).as_matrix() @ tentacle.HANGING
    modulus, density = tentacle.MODULUS * np.exp(ln_e), tentacle.DENSITY * np.exp(ln_rho)
    made = robot(modulus, density, max(tentacle.FRICTION + rest[6], 0.0), base, count, end)
    state = geosim.solve(made, geosim.CableTensions(tensions[None]), WEIGHT, solver=SOLVER).state
    first, second = material_frames(state.directors, state.tangents, state.theta)
    ends = np.concatenate([[0.0], np.cumsum(made.rest_lengths)])
    out = []
    for s, offset in tentacle.MARKERS:
        k = int(np.clip(np.searchsorted(ends, s) - 1, 0, len(made.edges) - 1))
        across = base @ np.r_[0.0, offset[1:]]  # at rest; its shares of the material directors do not change
        shares = across @ made.directors[k], across @ np.cross(made.tangents[k], made.directors[k])
        along = (s - ends[k]) / made.rest_lengths[k]
        edge = state.positions[k + 1] - state.positions[k]
        out.append(
            state.positions[k] + along * edge + offset[0] * edge / np.linalg.norm(edge)
            + shares[0] * first[k] + shares[1] * second[k]
        )  # fmt: skip
    return np.concatenate(out) + np.tile(rest[:3], 4)


def unsure(tensions: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return what half of the segments change of the places of the markers [m], (12,)."""
    return np.abs(markers(tensions, z) - markers(tensions, z, SEGMENTS // 2, END // 2))


def predict(data: Path) -> tuple[list[Row], list[str]]:
    """Return the predictions, and lines on what they rest on."""
    return tentacle.left_out(data, markers, unsure, tentacle.markers, twice=True)
