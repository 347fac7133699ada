"""From the states of a rod robot to a result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from geosim.environment import Environment
from geosim.result import Report, Result, Status
from geosim.rods.robot import RodShellRobot
from geosim.rods.state import RodState

if TYPE_CHECKING:
    from geosim.rods.stepper import RodShellStepper

__all__ = ["collect"]


def collect(
    solver: RodShellStepper,
    robot: RodShellRobot,
    environment: Environment,
    states: Sequence[RodState],
    reports: Sequence[Report],
    status: Status,
    message: str,
) -> Result:
    """Assemble the result: one frame a state; `energies` is kinetic + elastic + contact + potential of the weight [J].

    `extra` holds theta (k, E) [rad], velocities (k, n, 3) [m/s] and the parts of the energy (k,) [J].
    """
    n = len(robot.vertices)
    frames = np.array([s.positions for s in states]).reshape(-1, n, 3)

    def column(key: str, default: Any) -> Any:
        return np.array([s.measures.get(key, default) for s in states], dtype=float)

    zero = np.zeros((n, 3))
    parts = {key: column(key, 0.0) for key in ("elastic", "kinetic", "weight", "contact")}
    obstacles = np.zeros((len(environment.obstacles), 3))
    extra = {
        "theta": np.array([s.theta for s in states]),
        "velocities": np.array([s.velocities for s in states]),
        **{f"{key}_energy": value for key, value in parts.items()},
        "iterations": column("iterations", 0),
    }
    trace = tuple({"frame": i, **record} for i, report in enumerate(reports) for record in report.records)
    times = np.array([s.time for s in states])
    return Result(
        status,
        message,
        status in (Status.CONVERGED, Status.UNSTABLE),
        times,
        frames,
        robot,
        environment,
        solver,
        tip=frames[:, -1],
        reactions=column("reactions", zero),
        contact_forces=column("contact_forces", zero),
        obstacle_forces=column("obstacle_forces", obstacles),
        obstacle_moments=column("obstacle_moments", obstacles),
        max_penetration=column("penetration", 0.0),
        contact_count=column("contacts", 0),
        crossings=column("crossings", np.nan),
        stable=column("stable", np.nan),
        residual=column("residual", 0.0),
        energies=sum(parts.values()),
        trace=trace,
        extra=extra,
        state=states[-1] if states else None,
    )
