"""solve(robot, actuation, environment) -> Result: picks the solver by robot type and loops over the commands."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from geosim.actuation import Actuation, Command
from geosim.environment import Environment
from geosim.errors import InputError, SolveError
from geosim.result import Report, Result, Status
from geosim.robot import VolumetricRobot

__all__ = ["Solver", "default_solver", "solve", "solve_many"]


class Solver(Protocol):
    """What `solve` asks of a solver: a frozen dataclass of options with these methods."""

    def start(self, robot: Any, environment: Environment, initial: Any = None) -> Any:
        """Return the first state; everything that can be computed once is computed here."""

    def commands(self, robot: Any, actuation: Actuation) -> Iterable[Command]:
        """Return the commands that an actuation means for this solver."""

    def step(self, state: Any, command: Command) -> tuple[Any, Report]:
        """Go to one command; when it cannot be reached the state returned is the last good one."""

    def collect(
        self,
        robot: Any,
        environment: Environment,
        states: Sequence[Any],
        reports: Sequence[Report],
        status: Status,
        message: str,
    ) -> Result:
        """Assemble the result from the states and reports of the commands reached."""


def default_solver(robot: Any) -> Any:
    """Return the default solver of a robot.

    Raises
    ------
    InputError
        The object is not a robot.
    """
    if isinstance(robot, VolumetricRobot):
        from geosim.shape.energy.solver import EnergyShapeSolver

        return EnergyShapeSolver()
    solver = getattr(robot, "default_solver", None)
    if solver is None:
        raise InputError(
            f"solve: {type(robot).__name__} is not a robot; pass a VolumetricRobot, RodShellRobot or SnakeRobot"
        )
    return solver()


def solve(
    robot: Any,
    actuation: Actuation,
    environment: Environment | None = None,
    *,
    solver: Any = None,
    initial: Any = None,
    throw: bool = True,
    progress: bool | Callable[[Any, Report, Command], None] = False,
) -> Result:
    """Predict the shape (or the motion) of a robot.

    Parameters
    ----------
    robot
        What is actuated.
    actuation
        The sequence of commands.
    environment
        Gravity, obstacles, loads; default nothing.
    solver
        Default by the type of the robot.
    initial
        A `Result` or a state to continue from; default the rest shape.
    throw
        Whether a solve that stops early raises `SolveError` (its `.result` holds the frames reached) or returns
        the result with the frames reached.
    progress
        True shows a progress line; a callable is called as progress(state, report, command) after every step.

    Raises
    ------
    InputError
        The input cannot be solved, whatever `throw` says.
    SolveError
        The solve stopped early and `throw` is true.
    """
    if not isinstance(actuation, Actuation):
        raise InputError(f"solve: {type(actuation).__name__} is not an actuation; pass Inflation, Passive, ...")
    environment = Environment() if environment is None else environment
    if not isinstance(environment, Environment):
        raise InputError(f"solve: {type(environment).__name__} is not an Environment")
    solver = default_solver(robot) if solver is None else solver
    if isinstance(solver, type) or not all(hasattr(solver, name) for name in ("start", "step", "collect")):
        raise InputError(f"solve: solver={solver!r} is not a solver object; pass for example EnergyShapeSolver()")
    if isinstance(initial, Result):
        if initial.state is None:
            raise InputError("solve: initial= holds no state (a result read from a file keeps none for this solver)")
        initial = initial.state
    commands = list(solver.commands(robot, actuation))
    states: list[Any] = []
    reports: list[Report] = []
    status, message = Status.CONVERGED, ""
    show = _progress_line(len(commands)) if progress is True else progress if callable(progress) else None
    state = solver.start(robot, environment, initial)
    if getattr(state, "is_frame", False):
        states.append(state)
        reports.append(Report(Status.CONVERGED))
    try:
        for command in commands:
            state, report = solver.step(state, command)
            if not report.reached:
                status = report.status
                message = report.message or status.value
                reports.append(report)
                break
            states.append(state)
            reports.append(report)
            if report.status is not Status.CONVERGED:
                status, message = report.status, report.message
            if show is not None:
                show(state, report, command)
    except KeyboardInterrupt:
        status, message = Status.INTERRUPTED, f"{Status.INTERRUPTED.value} {len(states)} of {len(commands)} commands."
    finally:
        close = getattr(show, "close", None)
        if close is not None:
            close()
    result = solver.collect(robot, environment, states, reports, status, message or status.value)
    if throw and not result.converged:
        raise SolveError(result.message, result)
    return result


def _progress_line(total: int) -> Any:
    """Return a callable that shows step, V/V0, residual and remaining time on one line."""
    from tqdm import tqdm

    class Line:
        def __init__(self) -> None:
            self.bar = tqdm(total=total, unit="step", dynamic_ncols=True)

        def __call__(self, state: Any, report: Report, command: Command) -> None:
            facts: dict[str, float] = state.facts() if hasattr(state, "facts") else {}
            self.bar.set_postfix({key: f"{value:.3g}" for key, value in facts.items()})
            self.bar.update(1)

        def close(self) -> None:
            self.bar.close()

    return Line()


def _solve_one(problem: dict[str, Any]) -> Result:
    return solve(**{"throw": False, **problem})


def solve_many(problems: Iterable[Any], workers: int | None = None) -> list[Result]:
    """Solve many problems side by side in threads (the kernels and factorisations release the lock).

    Parameters
    ----------
    problems
        Dictionaries of the arguments of `solve`, or tuples (robot, actuation[, environment]).
    workers
        Default: the number of cores.

    Returns
    -------
    list of Result
        In the order given; `throw` is False unless a problem says otherwise.
    """
    from concurrent.futures import ThreadPoolExecutor

    named = [dict(p) if isinstance(p, dict) else dict(zip(("robot", "actuation", "environment"), p)) for p in problems]
    with ThreadPoolExecutor(max_workers=workers or os.cpu_count() or 1) as pool:
        return list(pool.map(_solve_one, named))


class _CallableModule(types.ModuleType):
    """Importing this module would hide the function `geosim.solve` behind it, so the module is callable too."""

    def __call__(self, *args: Any, **kwargs: Any) -> Result:
        return solve(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
