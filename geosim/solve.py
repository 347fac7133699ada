"""solve(robot, actuation, environment) -> Result: picks the solver by robot type and loops over the commands."""

from __future__ import annotations

import logging
import sys
import time
import types
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, cast

import numpy as np

from geosim.arguments import guarded
from geosim.arrays import shown, whole
from geosim.entries import entries
from geosim.errors import GeosimWarning, InputError, SolveError
from geosim.model.actuation import Actuation, Command, unlikely_lengths
from geosim.model.contract import Progress, Report, Robot, S, Solver, State, Status
from geosim.model.display import later
from geosim.model.environment import Environment, unlikely_obstacles
from geosim.resources import cores
from geosim.result import Result, collect

log = logging.getLogger("geosim.solve")

SOLVER_ENTRIES = "geosim.solvers"  # group of entry points
# Kind of robot -> its default solver, imported when such a robot is solved: each costs as much as a short solve.
SOLVERS: Mapping[str, Callable[[], Callable[[], Any]]] = {
    "geosim.model.robot.VolumetricRobot": lambda: later("shape.energy.solver.EnergyShapeSolver"),
    "geosim.rods.robot.RodShellRobot": lambda: later("rods.stepper.RodShellStepper"),
    "geosim.snake.model.MultibodyRobot": lambda: later("snake.stepper.MultibodyStepper"),
}


def default_solver(robot: Robot) -> Solver[Any]:
    """Return the default solver of a robot: that of its type, or the entry point that `solver_name` of its type names.

    Raises
    ------
    InputError
        The object is not a robot.
    """
    for kind in type(robot).__mro__:
        if (solver := SOLVERS.get(f"{kind.__module__}.{kind.__qualname__}")) is not None:
            return cast(Solver[Any], solver()())
    entry = entries(SOLVER_ENTRIES).get(getattr(type(robot), "solver_name", ""))
    if entry is not None and (found := entry.load()) is not None:
        return cast(Solver[Any], found())
    raise InputError(
        f"solve: {type(robot).__name__} is not a robot; pass a VolumetricRobot, RodShellRobot or SnakeRobot: "
        "geosim.load_robot(path) reads one, design.robot(material) makes one"
    )


@guarded
def solve(
    robot: Robot,
    actuation: Actuation,
    environment: Environment | None = None,
    *,
    solver: Solver[S] | None = None,
    initial: Result | State | None = None,
    throw: bool = True,
    progress: bool | Callable[[Progress], object] = False,
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
        True shows a progress line; a callable is given a `Progress` after every command, and inside a command as often
        as the solver says something.

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
        raise InputError(
            f"solve: {type(environment).__name__} is not an Environment; pass Environment(gravity=..., obstacles=...)"
        )
    chosen = default_solver(robot) if solver is None else solver
    if isinstance(chosen, type) or not all(hasattr(chosen, name) for name in ("commands", "start", "step")):
        raise InputError(f"solve: solver={chosen!r} is not a solver object; pass for example EnergyShapeSolver()")
    if isinstance(initial, Result):
        if initial.state is None:
            raise InputError("solve: initial= holds no state (files keep the state of rods, shells and snakes only)")
        initial = initial.state
    if not all(hasattr(robot, name) for name in ("name", "vertices", "chambers")):
        raise InputError(f"solve: {type(robot).__name__} is not a robot; load one with geosim.load_robot")
    actuation, commands = _by_rows(chosen, robot, actuation, environment)  # refuses before the start is paid
    log.info("%s: %d vertices, %d commands, %s", robot.name, len(robot.vertices), len(commands), chosen)
    state = chosen.start(robot, environment, initial)  # which says first whether this solver moves objects
    _warn(robot, actuation, environment, len(commands))
    with ExitStack() as stack:
        show = _progress_line(len(commands), stack) if progress is True else progress or None
        watch = None if show is None else _Watch(show, len(commands))
        states, reports = _walk(chosen, state, commands, watch)
    result = collect(state.robot, environment, chosen, states, reports, actuation, continued=initial is not None)
    log.log(logging.INFO if result.converged else logging.WARNING, "%s: %s", result.status.name, result.message)
    if throw and not result.converged:
        raise SolveError(result.message, result)
    return result


def _by_rows(
    solver: Solver[Any], robot: Robot, actuation: Actuation, environment: Environment
) -> tuple[Actuation, Sequence[Command]]:
    """Return the commands of an actuation, one a row of what the environment gives row by row.

    `Passive()` and closed chambers, which say no number of commands, have as many as there are rows.
    """
    rows = environment.rows
    actuation = actuation.lasting(max(rows.values(), default=1))
    commands = solver.commands(robot, actuation)
    count = commands[-1].index + 1
    for name, given in rows.items():
        if given not in (1, count):
            raise InputError(
                f"{name} has {given} rows for {count} command{'s' if count > 1 else ''} of the actuation; give one row per "
                f"command, or one for all (Passive(steps={given}) makes {given} commands)"
            )
    return actuation, commands


def _warn(robot: Robot, actuation: Actuation, environment: Environment, count: int) -> None:
    """Warn of obstacles and cables that look as if given in another unit, and of free objects that no command lets go."""
    doubts = unlikely_obstacles(environment.obstacles, robot.vertices) + unlikely_lengths(
        actuation, getattr(robot, "cables", ())
    )
    doubts += [
        f"obstacles[{i}]: released = {obstacle.released} holds the free object during all {count} commands; "
        f"give released=0, or at least {obstacle.released + 1} commands"
        for i, obstacle in enumerate(environment.obstacles)
        if obstacle.free and obstacle.released >= count
    ]
    for doubt in doubts:
        warnings.warn(doubt, GeosimWarning, stacklevel=3)


def _walk(
    solver: Solver[S], state: S, commands: Sequence[Command], watch: _Watch | None
) -> tuple[list[S], list[Report]]:
    """Go from command to command as far as it goes: the states to show, and the reports of frame 0 and all commands."""
    states = [state] if state.is_frame else []
    reports = [Report(Status.CONVERGED) for _ in states]
    reached = 0
    try:
        for command in commands:
            clock = time.perf_counter()
            after, report = solver.step(state, command, watch)
            reports.append(report)
            spent = time.perf_counter() - clock
            log.debug(
                "command %d: %s, %d records, %.3f s", command.index, report.status.name, len(report.records), spent
            )
            if not (report.reached or report.goes_on):
                break
            state, reached = after, reached + 1
            if state.is_frame:
                states.append(state)
            if watch is not None:
                watch.next(state)
    except KeyboardInterrupt:
        message = f"{Status.INTERRUPTED.value} {reached} of {len(commands)} commands."
        reports.append(Report(Status.INTERRUPTED, message))
    if reached and not state.is_frame:
        states.append(state)  # the last is always shown
    return states, reports


class _Watch:
    """Adds to what a step says about itself which command it is, of how many, and since when."""

    def __init__(self, show: Callable[[Progress], object], commands: int) -> None:
        self.show, self.commands, self.command, self.begin = show, commands, 1, time.perf_counter()
        self.last = Progress(0.0)

    def __call__(self, progress: Progress) -> None:
        seconds = time.perf_counter() - self.begin
        self.last = replace(progress, command=self.command, commands=self.commands, seconds=seconds)
        self.show(self.last)

    def next(self, state: State) -> None:
        """Say that a command was reached, and go to the next."""
        frame = state.frame
        self(replace(self.last, share=1.0, residual=frame.residual, contacts=frame.contact_count, frame=frame))
        self.last = Progress(0.0)
        self.command += 1


def _progress_line(total: int, stack: ExitStack) -> Callable[[Progress], None]:
    """Return a callable that shows share of the commands, V/V0 or time, residual, contacts and time left on one line."""
    from tqdm import tqdm

    form = "{percentage:3.0f}%|{bar}| {n:.2f}/{total} [{elapsed}<{remaining}{postfix}]"
    bar = stack.enter_context(tqdm(total=total, unit="step", dynamic_ncols=True, bar_format=form))
    reached: dict[str, float] = {}

    def show(progress: Progress) -> None:
        frame = progress.frame
        if frame is not None and frame.volume_ratios is not None:
            ratios = frame.volume_ratios
            reached.update({f"V/V0_{c + 1}" if len(ratios) > 1 else "V/V0": v for c, v in enumerate(ratios)})
        if frame is not None and frame.time is not None:
            reached["t"] = frame.time
        now = {"iteration": progress.iteration, "residual": progress.residual, "contacts": progress.contacts}
        known = {key: f"{value:.3g}" for key, value in (reached | now).items() if not np.isnan(value)}
        bar.set_postfix(known, refresh=False)
        bar.update(progress.command - 1 + progress.share - bar.n)

    return show


def _solve_beside(problem: dict[str, Any]) -> Result:
    """Solve one of many problems: it has one thread, unless its solver says how many."""
    solver: Any = problem.get("solver") or default_solver(problem["robot"])
    if hasattr(solver, "threads") and solver.threads is None:
        solver = replace(solver, threads=1)
    return solve(**{"throw": False, **problem, "solver": solver})


@guarded
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

    problems = list(problems)
    for i, given in enumerate(problems):
        if not isinstance(given, (dict, list, tuple)):
            raise InputError(f"solve_many: problems[{i}] = {shown(given)} must be a dict of arguments or a tuple")
    named = [dict(p) if isinstance(p, dict) else dict(zip(("robot", "actuation", "environment"), p)) for p in problems]
    count = cores() if workers is None else whole(workers, "solve_many: workers", least=1)
    with ThreadPoolExecutor(max_workers=count) as pool:
        return list(pool.map(_solve_beside, named))


class _CallableModule(types.ModuleType):
    """Importing this module would hide the function `geosim.solve` behind it, so the module is callable too."""

    def __call__(self, *args: Any, **kwargs: Any) -> Result:
        return solve(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
