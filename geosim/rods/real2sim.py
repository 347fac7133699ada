"""Natural curvatures from measured shapes: the job of Algorithm 1 of [Choi2024], by implicit gradients.

For one frame, find the natural curvatures c of groups of stencils that minimise::

    sum over seen tags |W x(c) - y|^2,      x(c) in static equilibrium: f(x, c) = 0

Steps: solve the equilibrium from the last one; its sensitivity is dx/dc = -K^-1 df/dc, one back-substitution a group
with the Hessian of the equilibrium; take a Gauss-Newton step, halved where the sum grows; repeat until the step is small.

Departures:

[D1] The gradient is exact and costs one factorisation; Algorithm 1 solves the equilibrium once more per unknown.
[D2] Tags are fitted, not curvatures computed from tags, so that a missing tag only drops out of the sum.
[D3] A frame starts from the curvatures of the frame before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from geosim.arrays import ArrayLike, Floats, Ints, floats, ints
from geosim.errors import InputError
from geosim.model.actuation import Command, NaturalShape
from geosim.model.environment import Environment
from geosim.rods.robot import RodShellRobot
from geosim.rods.slopes import RodEquilibrium
from geosim.rods.state import RodState
from geosim.rods.stepper import RodShellStepper


@dataclass(frozen=True)
class Recovery:
    """What was recovered.

    Parameters
    ----------
    curvature
        Natural curvature of every group [1/m], shape (k, groups); nan where no tag was seen.
    frames
        Equilibria [m], shape (k, n, 3).
    tip_error, rms_error
        Distance of the last tag, and root mean square over the seen tags [m], shape (k,).
    solves
        Equilibria solved for every frame, shape (k,).
    """

    curvature: Floats
    frames: Floats
    tip_error: Floats
    rms_error: Floats
    solves: Ints

    def actuation(self, times: ArrayLike, robot: RodShellRobot, groups: Sequence[ArrayLike]) -> NaturalShape:
        """Return the recovered curvatures as an actuation at `times` [s]; frames without tags are left out."""
        seen = np.isfinite(self.curvature).all(axis=1)
        table = np.zeros((int(seen.sum()), len(robot.bends)))
        for j, group in enumerate(groups):
            table[:, np.asarray(group)] = self.curvature[seen, j, None]
        return NaturalShape(np.asarray(times, dtype=float)[seen], curvature=table)


def pixels_to_metres(tags: ArrayLike, length: float, plane: str = "xz") -> Floats:
    """Return tags (k, tags, 3) [m] from pixels (k, tags, 2) with y downwards, the first tag at the origin.

    The scale makes the median length of the chain of tags equal to `length` [m].
    """
    given = np.asarray(tags, dtype=float)
    chain = np.linalg.norm(np.diff(given, axis=1), axis=2).sum(axis=1)
    if not np.isfinite(chain).any():
        raise InputError("tags: no frame shows every tag, so their scale cannot be found; give metres")
    scale = length / float(np.nanmedian(chain))
    origin = np.nanmedian(given[:, 0], axis=0)
    metres = np.zeros((*given.shape[:2], 3))
    first, second = ("xyz".index(axis) for axis in plane)
    metres[..., first] = (given[..., 0] - origin[0]) * scale
    metres[..., second] = -(given[..., 1] - origin[1]) * scale
    metres[np.isnan(given).any(axis=2)] = np.nan
    return metres


def recover_curvatures(
    robot: RodShellRobot,
    tags: ArrayLike,
    groups: Sequence[ArrayLike],
    *,
    at: ArrayLike,
    environment: Environment | None = None,
    tolerance: float = 1e-3,
    iterations: int = 20,
    start: ArrayLike | None = None,
) -> Recovery:
    """Return the natural curvatures (about kappa1) of groups of stencils that reproduce measured tags.

    Parameters
    ----------
    robot
        With its clamps.
    tags
        Measured positions [m], shape (k, tags, 3); nan = not seen.
    groups
        Stencil indices of every group, for example `robot.limb_bends(i)`.
    at
        Arc length of every tag from vertex 0 along the edges in their order [m], shape (tags,).
    environment
        Gravity, loads.
    tolerance
        Stops when no curvature changes by more than this times 1 / rest length.
    iterations
        Most Gauss-Newton steps of a frame.
    start
        First guess [1/m], shape (groups,); default 0.

    Raises
    ------
    InputError
        Shapes that do not fit the robot.
    """
    given = np.asarray(tags, dtype=float)
    place = floats(at, "at", (None,))
    if given.ndim != 3 or given.shape[1:] != (len(place), 3):
        raise InputError(f"tags: shape {given.shape}; (frames, {len(place)}, 3) [m] needed, as many tags as in at=")
    sets = [ints(group, "groups", (None,), below=len(robot.bends)) for group in groups]
    if not sets or not all(len(group) for group in sets):
        raise InputError(f"groups: stencil indices 0 .. {len(robot.bends) - 1} needed, none of them empty")
    weights = _interpolation(robot, place)
    # tolerance of the equilibria: their error must stay under the steps of the fit
    solver = RodShellStepper(static=True, tolerance=1e-8)
    state = solver.start(robot, environment or Environment())
    value = np.zeros(len(sets)) if start is None else np.array(start, dtype=float)
    curvature, frames = np.full((len(given), len(sets)), np.nan), np.full((len(given), len(robot.vertices), 3), np.nan)
    tip_error, rms_error = np.full((2, len(given)), np.nan)
    solves = np.zeros(len(given), dtype=np.int64)
    for k, frame in enumerate(given):
        seen = np.isfinite(frame).all(axis=1)
        if not seen.any():
            continue
        state, value, solves[k] = _fit(solver, state, value, sets, weights[seen], frame[seen], tolerance, iterations)
        error = np.linalg.norm(weights @ state.positions - frame, axis=1)
        curvature[k], frames[k] = value, state.positions
        tip_error[k], rms_error[k] = error[-1], np.sqrt(np.mean(error[seen] ** 2))
    return Recovery(curvature, frames, tip_error, rms_error, solves)


def equilibrium(solver: RodShellStepper, state: RodState, value: Floats, sets: Sequence[Ints]) -> RodEquilibrium:
    """Return the equilibrium with natural curvatures `value` [1/m] of the groups."""
    bends = state.system.robot.bends
    curvature = state.system.natural[: len(bends), 0] / bends.length
    for group, c in zip(sets, value):
        curvature[group] = c
    command = Command(0, 1.0, (NaturalShape([1.0], curvature=curvature[None]),))
    new, report = solver.step(replace(state, time=0.0), command)
    if not report.reached:
        raise InputError(
            f"real2sim: no equilibrium with curvatures {np.round(value, 3).tolist()} 1/m: {report.message}"
        )
    return RodEquilibrium(new, command, solver)


def sensitivity(at: RodEquilibrium, sets: Sequence[Ints]) -> Floats:
    """Return dx/dc of an equilibrium, shape (groups, n, 3) [m per 1/m]."""
    try:
        return at.moved([at.by_curvature(group, 0) for group in sets]).reshape(len(sets), -1, 3)
    except RuntimeError:
        raise InputError("real2sim: the equilibrium is singular; clamp the robot") from None


def _fit(
    solver: RodShellStepper,
    state: RodState,
    value: Floats,
    sets: Sequence[Ints],
    weights: Floats,
    target: Floats,
    tolerance: float,
    iterations: int,
) -> tuple[RodState, Floats, int]:
    """Fit one frame by Gauss-Newton steps, halved where the misfit grows; return state, curvatures and solved equilibria."""
    found, solves = equilibrium(solver, state, value, sets), 1
    misfit = weights @ found.state.positions - target
    small = tolerance / float(state.system.robot.rest_lengths.sum())
    step = None
    for _ in range(iterations):
        if step is None:
            slope = np.array([(weights @ s).ravel() for s in sensitivity(found, sets)]).T
            step = -np.linalg.lstsq(slope, misfit.ravel())[0]
        trial, solves = equilibrium(solver, found.state, value + step, sets), solves + 1
        new, size = weights @ trial.state.positions - target, np.abs(step).max()
        if (new**2).sum() <= (misfit**2).sum():
            found, value, misfit, step = trial, value + step, new, None
        else:
            step *= 0.5
        if size < small:
            break
    return found.state, value, solves


def _interpolation(robot: RodShellRobot, place: Floats) -> Floats:
    """Return weights (tags, n) of the vertices at arc lengths along the edges."""
    end = np.cumsum(robot.rest_lengths)
    # of the length: by how much a tag may lie outside, to round-off of what was measured along the rod
    arc_length_slack_rel = 1e-9
    if place.min() < -arc_length_slack_rel * end[-1] or place.max() > (1 + arc_length_slack_rel) * end[-1]:
        raise InputError(f"at: arc lengths lie between 0 and {end[-1]:.6g} m, {place.tolist()} given")
    weights = np.zeros((len(place), len(robot.vertices)))
    edge = np.minimum(np.searchsorted(end, place), len(end) - 1)
    share = np.clip(1.0 - (end[edge] - place) / robot.rest_lengths[edge], 0.0, 1.0)
    rows = np.arange(len(place))
    weights[rows, robot.edges[edge, 0]] += 1.0 - share
    weights[rows, robot.edges[edge, 1]] += share
    return weights
