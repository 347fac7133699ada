"""Derivatives of losses along a motion of rods: the adjoint through time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from geosim.arguments import guarded
from geosim.arrays import Bools, Floats, floats, whole
from geosim.errors import InputError
from geosim.model.actuation import Actuation, NaturalShape, Passive
from geosim.model.contract import taken
from geosim.model.environment import Environment
from geosim.rods.pace import chosen_pace
from geosim.rods.reverse import Cotangent, Transposed, back, system_rate
from geosim.rods.robot import RodShellRobot
from geosim.rods.state import RodState
from geosim.rods.stepper import RodShellStepper
from geosim.solve import solve

CONSTANTS = ("radius", "material.youngs_modulus", "material.density")
PARAMETERS = ("curvature", "velocities", "damping", *CONSTANTS)


@guarded
@dataclass(frozen=True, repr=False, eq=False)
class RodMotion:
    """A motion of rods with its steps: `pulled_back` gives the gradient of any loss of it, for two to three motions more.

    Parameters
    ----------
    times
        Of its states [s], shape (k + 1,), the start first.
    positions, velocities
        Of the vertices [m], [m/s], shape (k + 1, n, 3).
    actuation
        What moved it.
    solver
        That found it.
    kept
        The first of every `every` states, from which the others between are found again.
    every
        1: all states are kept.
    """

    times: Floats
    positions: Floats
    velocities: Floats
    actuation: Actuation
    solver: RodShellStepper
    kept: tuple[RodState, ...]
    every: int = 1

    @classmethod
    def of(
        cls,
        robot: RodShellRobot,
        actuation: Actuation,
        environment: Environment | None = None,
        solver: RodShellStepper | None = None,
        every: int = 1,
    ) -> RodMotion:
        """Follow a motion from rest, as `solve`, and keep its states.

        Parameters
        ----------
        robot
            Rods without shells.
        actuation
            `NaturalShape`, or `Passive`.
        environment
            Gravity, loads, prescribed motion. Contact is allowed in it as long as nothing touches.
        solver
            Of the rule "implicit-euler" with a fixed dt, which is not halved. None: RodShellStepper().
        every
            Keep one of so many states; the others are found again on the way back. A state of n vertices takes 220 n bytes.

        Raises
        ------
        InputError
            Something of the problem has no derivatives in time, named with the remedy; or something touches.
        SolveError
            A step did not converge.
        """
        robot, solver = taken(robot, RodShellRobot, "RodMotion"), RodShellStepper() if solver is None else solver
        whole(every, "RodMotion: every", least=1)
        solver = taken(solver, RodShellStepper, "RodMotion: solver")
        solver = replace(solver, adaptive=False, frame_interval=None, on_frame=None)
        around = Environment() if environment is None else environment
        _refuse(robot, actuation, around, solver)
        first = solver.start(robot, around)
        kept, seen = [_lean(first)], [(0.0, first.positions, first.velocities)]
        free: list[Bools] = []

        def keep(state: RodState) -> None:
            _refuse_change(state, free)
            if len(seen) % every == 0:
                kept.append(_lean(state))
            seen.append((state.time, state.positions, state.velocities))

        result = solve(robot, actuation, around, solver=replace(solver, on_frame=keep))
        times, x, v = (np.array(column) for column in zip(*seen))
        assert result.actuation is not None
        return cls(times, x, v, result.actuation, solver, tuple(kept[: -(-(len(seen) - 1) // every)]), every)

    def __repr__(self) -> str:
        return f"RodMotion({len(self.times) - 1} steps to {self.times[-1]:g} s, {self.robot!r})"

    def __post_init__(self) -> None:
        for array in (self.times, self.positions, self.velocities):
            array.setflags(write=False)

    @property
    def robot(self) -> RodShellRobot:
        """What moved."""
        return self.kept[0].robot

    def pulled_back(
        self, by_positions: Any, by_velocities: Any = None, to: str | Sequence[str] = ("curvature",)
    ) -> dict[str, Floats]:
        """Return the derivatives of a loss by parameters of the motion, each of the parameter's shape.

        One sweep from the last step to the first solves the transposed Jacobian of each step, see `geosim.rods.reverse`.

        Parameters
        ----------
        by_positions
            dL/dx [1/m] of the loss, shape (k + 1, n, 3) for all `times`, or (n, 3) for the last.
        by_velocities
            dL/dv [s/m], likewise; None: 0.
        to
            "curvature" (rows, S, 2) [1/m]: natural, in the rows of the `NaturalShape`, of every stencil about kappa1 and
            kappa2; "velocities" (n, 3) [m/s] at the start; "damping" () [1/s]; "radius" () [m]; "material.youngs_modulus" ()
            [Pa]; "material.density" () [kg/m^3].

        Raises
        ------
        InputError
            A shape does not fit, or there is no such parameter.
        """
        names = (to,) if isinstance(to, str) else tuple(to)
        if unknown := [name for name in names if name not in PARAMETERS]:
            raise InputError(f"pulled_back: to = {unknown[0]!r}; a motion has {', '.join(PARAMETERS)}")
        x_bar, v_bar = self._cotangents(by_positions, "by_positions"), self._cotangents(by_velocities, "by_velocities")
        shape = next((part for part in self.actuation.parts if isinstance(part, NaturalShape)), None)
        if "curvature" in names and (shape is None or shape.curvature is None or callable(shape.curvature)):
            raise InputError("pulled_back: to = 'curvature': give NaturalShape a table of curvature, one row a time")
        system = self.kept[0].system
        rates = {name: system_rate(system, name.removeprefix("material.")) for name in names if name in CONSTANTS}
        times = np.array([]) if shape is None else shape.times
        found: dict[str, Any] = dict.fromkeys(names, 0.0) | {
            "curvature": np.zeros((len(times), len(system.robot.bends), 2))
        }
        turns, still = system.turns, np.zeros(system.dofs)
        at = Cotangent(still, still.copy(), np.zeros(len(system.robot.edges)))
        layout: Transposed | None = None
        for i, before, after in self._backwards():
            layout = layout or Transposed.of(after.system, after.system.free)
            at.q[:turns] += x_bar[i + 1].ravel()
            at.u[:turns] += v_bar[i + 1].ravel()
            done, at = back(layout, before, after, self.solver.damping, at)
            if "curvature" in names:
                _add_row(found["curvature"], times, after.time, done.by_curvature())
            if "damping" in names:
                found["damping"] += done.by_damping()
            for name, rate in rates.items():
                found[name] += done.by_rate(rate)
        if "velocities" in names:
            moving = system.free[:turns].reshape(-1, 3)
            found["velocities"] = np.where(moving, at.u[:turns].reshape(-1, 3) + v_bar[0], 0.0)
        return {name: np.asarray(found[name]) for name in names}

    def _cotangents(self, given: Any, name: str) -> Floats:
        if given is None:
            return np.zeros_like(self.positions)
        array = np.asarray(given, dtype=float)
        if array.shape == self.positions.shape[1:]:
            array = np.concatenate([np.zeros((len(self.times) - 1, *array.shape)), array[None]])
        return floats(array, f"pulled_back: {name}", self.positions.shape)

    def _backwards(self) -> Iterator[tuple[int, RodState, RodState]]:
        """Yield the steps from the last to the first: their number and the states at their ends."""
        commands = self.solver.commands(self.robot, self.actuation)
        last: RodState | None = None
        for block in reversed(range(len(self.kept))):
            begin = block * self.every
            states = [self.kept[block]]
            for command in commands[begin : begin + self.every][: -1 if last is not None else None]:
                states.append(_lean(self.solver.step(states[-1], command)[0]))
            states += [] if last is None else [last]
            for i in reversed(range(len(states) - 1)):
                yield begin + i, states[i], states[i + 1]
            last = states[0]


def _lean(state: RodState) -> RodState:
    """Return a state without what a result shows of it."""
    return state.changed(measures={}, elastic=None)


def _refuse_change(state: RodState, free: list[Bools]) -> None:
    """Refuse contact, and other held unknowns than in the first step, whose `free` ones are kept.

    Raises
    ------
    InputError
        Naming the time and the remedy.
    """
    if np.any(state.measures.get("contact_forces", 0.0)):
        raise InputError(
            f"RodMotion: rods touch at t = {state.time:.6g} s, and contact has no derivative in time; move apart what touches, "
            f"or set self_contact=False"
        )
    free.append(state.system.free)
    if not np.array_equal(free[0], free.pop() if len(free) > 1 else free[0]):
        raise InputError("RodMotion: what is prescribed changes with the commands; hold the same vertices in all")


def _refuse(robot: RodShellRobot, actuation: Actuation, environment: Environment, solver: RodShellStepper) -> None:
    """Refuse what has no derivatives in time.

    Raises
    ------
    InputError
        Naming it, and the remedy.
    """
    given = solver.dt, solver.integrator, solver.restitution, solver.spectral_radius
    pace = chosen_pace(*given, contact=False)
    fluid = environment.fluid
    reasons = {
        "static=True: equilibria have geosim.sensitivity": solver.static,
        f"integrator = {pace.integrator!r}: use 'implicit-euler'": pace.integrator != "implicit-euler",
        "dt = 'auto': give a dt [s]": pace.follows,
        "shells: use rods alone": len(robot.triangles) > 0,
        "cables: command curvatures": len(robot.cables) > 0,
        "retardation_time: set it to 0 and give damping": robot.retardation_time > 0.0,
        "forces and moments of functions: use Load.force": bool(solver.forces or solver.moments),
        "rod_drag: give damping, or a fluid with viscosity": solver.rod_drag is not None,
        "drag_coefficient of a fluid: set it to 0": fluid is not None and fluid.drag_coefficient > 0.0,
        "Load.moment: use Load.force": any(load.kind == "moment" for load in environment.loads),
    }
    if found := [reason for reason, present in reasons.items() if present]:
        raise InputError(f"RodMotion: no derivatives in time of {found[0]}")
    actuation.refuse_all_but((NaturalShape, Passive), "RodMotion")


def _add_row(rows: Floats, times: Floats, time: float, slope: Floats) -> None:
    """Add a derivative by the natural curvature at a time [s] to those by the rows of a table, linear between `times`."""
    i = int(np.clip(np.searchsorted(times, time, side="right") - 1, 0, max(len(times) - 2, 0)))
    share = 0.0 if len(times) == 1 else float(np.clip((time - times[i]) / (times[i + 1] - times[i]), 0.0, 1.0))
    rows[i] += (1.0 - share) * slope
    if share > 0.0:
        rows[i + 1] += share * slope
