"""Solves the saved files of a scene as `geosim solve` does, then its error bars; answers what takes many solves."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from geosim.apps.studio import frames, live
from geosim.apps.studio.live import LiveSolver, Posed, problem_files
from geosim.apps.studio.messages import Send
from geosim.apps.studio.scene import Scene
from geosim.errors import InputError
from geosim.files.actuation import load_actuation
from geosim.files.robot import load_problem
from geosim.model.actuation import Passive
from geosim.model.contract import Progress, taken
from geosim.model.robot import VolumetricRobot
from geosim.response.accuracy.bars import bars_of
from geosim.response.inverse.goals import Goal
from geosim.response.inverse.search import solve_for
from geosim.result import Result
from geosim.shape.energy.solver import EnergyShapeSolver

__all__ = ["reached", "refined"]

# Measures with a bar: of `error_bars`, column of the summary, and its unit over that of SI.
BARS = (("bend_angle", "bend_angle_deg", np.degrees(1.0)), ("chamber_pressures", "pressure_kpa_1", 1e-3))


def refined(send: Send, number: int, scene: Scene, folder: Path) -> None:
    """Write the files of a scene into a folder, solve them, keep result.npz there, and send frames and error bars.

    Raises
    ------
    GeosimError
        They cannot be meshed or solved.
    """
    problem_files(scene, folder)
    robot, environment, solver = load_problem(folder / "robot.toml")
    file = folder / "actuation.toml"
    posed = Posed(robot, environment, load_actuation(file, robot) if file.is_file() else Passive(), solver)
    tets = len(robot.body_tets)

    def show(progress: Progress) -> None:
        if progress.frame is not None:
            told = frames.header(number, "refining", progress.command, progress.commands, tets=tets)
            send({"say": "frame", "number": number}, frames.frame(live.reached(posed, progress.frame), told))

    result = live.followed(posed, folder, show)
    count = len(result.frames)
    told = frames.header(number, "converged", count, count, tets=tets, doubts=list(result.trust()))
    send({"say": "frame", "number": number}, frames.frame(result, told))
    _bars(send, number, result)


def _bars(send: Send, number: int, result: Result) -> None:
    """Send how far off the measures of every frame may be, the last frame first."""
    if not isinstance(result.robot, VolumetricRobot) or not isinstance(result.solver, EnergyShapeSolver):
        return
    there = {"bend_angle": result.spine is not None, "chamber_pressures": result.robot.chambers > 0}
    present = [bar for bar in BARS if there[bar[0]]]
    for frame in reversed(range(len(result.frames))):
        told: dict[str, Any] = {}
        why = ""
        try:
            found = bars_of(result, tuple(of for of, _, _ in present), frame=frame)
        except InputError as error:  # what sticks is known for the last frame alone
            found, why = [], str(error)
        for (_, column, unit), bar in zip(present, found):
            parts = {part: float(np.max(getattr(bar, part))) * unit for part in ("mesh", "material", "total")}
            told[column] = {part: value for part, value in parts.items() if np.isfinite(value)}
        steps = {"step": frame + 1, "steps": len(result.frames)}
        send({"say": "bars", "number": number, **steps, "bars": told, "why": why}, None)


def reached(send: Send, number: int, scene: Scene, degrees: float) -> None:
    """Find the pressures or volumes at which a robot bends by an angle [deg], on the coarsest mesh, and send them.

    Raises
    ------
    GeosimError
        It has nothing to turn, or cannot be solved.
    """
    if "drive" not in scene.knobs:
        raise InputError("nothing inflates this robot, so no pressure bends it")
    volume = scene.value("drive") == "volume"
    name = "volume_ratio" if volume else "pressure_kpa"
    posed = LiveSolver(send, lambda seconds: False).posed(scene)
    vary, unit = ("volume_ratio", 1.0) if volume else ("pressure", 1e-3)
    solver = dataclasses.replace(posed.solver, tolerance=EnergyShapeSolver.tolerance)
    robot, goal = taken(posed.robot, VolumetricRobot, "bend by"), Goal.bend_angle(np.radians(degrees))
    found = solve_for(robot, goal, vary=vary, environment=posed.environment, solver=solver)
    last = found.result.volume_ratios[-1] if volume else found.result.chamber_pressures[-1] * unit
    values = {f"{name}:{c}": float(f"{v:.5g}") for c, v in enumerate(last)}
    there = float(np.degrees(found.result.bend_angle[-1]))
    how = "reached" if found.reached else f"out of reach, nearest {there:.4g} deg,"
    told = f"{degrees:g} deg: {how} after {found.solves} solves"
    send({"say": "answer", "number": number, "values": values, "text": told, "reached": bool(found.reached)}, None)
