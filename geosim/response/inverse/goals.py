"""Goals: what a robot shall do at the end of its path."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from geosim.arguments import guarded, suggestion
from geosim.arrays import MIN_DIVISOR, Floats, floats, number, whole
from geosim.errors import InputError
from geosim.result import Result


@guarded
@dataclass(frozen=True, init=False)
class Goal:
    """A measure and the value it shall have; made with `tip`, `bend_angle`, `force` or `pressure`.

    Parameters
    ----------
    of
        A measure of `geosim.sensitivity`.
    index
        Obstacle or chamber, counted from 0.
    value
        [m] (3,), [rad] (1,), [N] (1,) or (3,), [Pa] (1,), or the largest stretch [-] (1,).
    weight
        What a miss is multiplied by.
    """

    of: str
    index: int
    value: Floats
    weight: float

    def __init__(
        self,
        of: str = "",
        index: int = 0,
        value: Any = None,
        weight: float = 1.0,
        *,
        max_stretch: float | None = None,
        max_von_mises: float | None = None,
    ) -> None:
        """Make a goal of its fields, or of `max_stretch` [-] or `max_von_mises` [Pa] alone."""
        named = {"max_stretch": max_stretch, "max_von_mises": max_von_mises}
        given = {name: size for name, size in named.items() if size is not None}
        if len(given) + bool(of) != 1:
            raise InputError("Goal: give one measure, Goal(max_stretch=1.5) or Goal.bend_angle(1.0), say")
        for name, size in given.items():
            least = 1.0 if name == "max_stretch" else 0.0
            of, value = name, np.array([number(size, f"Goal: {name}", above=least)])
        if of and not given and value is None:
            raise InputError(f"Goal: {of} has no value; make one by its name, for example Goal.bend_angle(1.0) [rad]")
        put = functools.partial(object.__setattr__, self)
        for key, what in zip(("of", "index", "value", "weight"), (of, index, value, weight)):
            put(key, what)

    @staticmethod
    def tip(position: Any, weight: float = 1.0) -> Goal:
        """Bring the tip to a position [m] (3,)."""
        return _goal("tip", 0, floats(position, "Goal.tip: position", (3,)), weight)

    @staticmethod
    def bend_angle(radians: float, weight: float = 1.0) -> Goal:
        """Bend by an angle [rad]."""
        angle = number(radians, "Goal.bend_angle: radians", low=0.0)
        # Turns of a bend beyond which an angle was meant in degrees: no robot that touches itself coils so far.
        max_bend_turns = 4.0
        if angle > max_bend_turns * 2.0 * np.pi:
            raise InputError(
                f"Goal.bend_angle: {angle:g} rad are {np.degrees(angle):.4g} deg; give numpy.radians({angle:g})?"
            )
        return _goal("bend_angle", 0, np.array([angle]), weight)

    @staticmethod
    def force(obstacle: int, newtons: Any, weight: float = 1.0) -> Goal:
        """Push an obstacle, counted from 0, with a force [N]: its size, or the vector (3,) on the obstacle."""
        size = np.ndim(newtons) == 0
        value = (
            [number(newtons, "Goal.force: newtons", low=0.0)] if size else floats(newtons, "Goal.force: newtons", (3,))
        )
        return _goal("obstacle_forces", whole(obstacle, "Goal.force: obstacle", least=0), np.array(value), weight)

    @staticmethod
    def pressure(chamber: int, pascals: float, weight: float = 1.0) -> Goal:
        """Bring a chamber, counted from 0, to a gauge pressure [Pa]."""
        value = np.array([number(pascals, "Goal.pressure: pascals")])
        return _goal("chamber_pressures", whole(chamber, "Goal.pressure: chamber", least=0), value, weight)

    def check(self, result: Result) -> None:
        """Refuse an obstacle or a chamber that is not there.

        Raises
        ------
        InputError
            Which.
        """
        counts = {"obstacle_forces": len(result.environment.obstacles), "chamber_pressures": result.robot.chambers}
        if self.of in counts and self.index >= counts[self.of]:
            raise InputError(f"goal: {self.of}[{self.index}] is asked for, and there are {counts[self.of]}")

    def miss(self, result: Result) -> Floats:
        """Return how far the last frame is from the goal [SI], (values,)."""
        return self.measured(np.asarray(getattr(result, self.of))[-1])[0] - self.value

    def slopes(self, result: Result, of_measure: Floats) -> Floats:
        """Return the derivatives of the values by controls, (values, m), of those of the whole measure (..., m)."""
        return self.measured(np.asarray(getattr(result, self.of))[-1])[1] @ of_measure

    def measured(self, value: Floats) -> tuple[Floats, Floats]:
        """Return the values of the goal and their derivatives by all values of the measure."""
        width = 3 if self.of in ("tip", "obstacle_forces") else 1
        rows = np.eye(value.size)[width * self.index : width * (self.index + 1)]
        mine = rows @ value.ravel()
        if len(mine) == len(self.value):
            return mine, rows
        size = float(np.linalg.norm(mine))
        return np.array([size]), (mine / max(size, MIN_DIVISOR) @ rows)[None]

    def tolerance(self, size: float) -> float:
        """Return the miss [SI] that counts as none, for a robot of a size [m]."""
        # Misses that count as none: of tips over the robot's size, of angles [rad], of forces and pressures relative to
        # the goal.
        tip_tolerance_rel, angle_tolerance_rad, force_tolerance_rel = 1e-4, 1e-4, 1e-3
        known = {"tip": tip_tolerance_rel * size, "bend_angle": angle_tolerance_rad}
        return known.get(self.of, force_tolerance_rel * max(float(np.linalg.norm(self.value)), MIN_DIVISOR))


def as_goals(goals: Goal | Sequence[Goal], caller: str) -> tuple[Goal, ...]:
    """Return one goal or several as a tuple.

    Raises
    ------
    InputError
        There is none, or something else; `caller` begins the message.
    """
    found = (goals,) if isinstance(goals, Goal) else tuple(goals)
    if not found or not all(isinstance(g, Goal) for g in found):
        raise InputError(
            f"{caller}: goals is empty or holds something else; use Goal.tip(...), Goal.bend_angle(...), ..."
        )
    return found


def _goal(of: str, index: int, value: Floats, weight: float) -> Goal:
    return Goal(of, index, value, number(weight, "Goal: weight", above=0.0))


# Columns of summary.csv that may be goals, in their units, and those of a chamber or an obstacle.
GOAL_COLUMNS: Mapping[str, Callable[[float], Goal]] = {
    "bend_angle_deg": lambda value: Goal.bend_angle(float(np.radians(value))),
    "max_stretch": lambda value: Goal(max_stretch=value),
    "max_von_mises_kpa": lambda value: Goal(max_von_mises=1e3 * value),
}
NUMBERED_GOAL_COLUMNS: Mapping[str, Callable[[int, float], Goal]] = {
    "pressure_kpa": lambda chamber, value: Goal.pressure(chamber, 1e3 * value),
    "obstacle_force_n": Goal.force,
}


def read_goals(texts: Sequence[str]) -> list[Goal]:
    """Return the goals of texts like "bend_angle_deg=90", in the names and units of summary.csv.

    Raises
    ------
    InputError
        A text is none of them, or the tip is not given in all three coordinates.
    """
    found: list[Goal] = []
    tip: dict[str, float] = {}
    tip_columns = ("tip_x_mm", "tip_y_mm", "tip_z_mm")
    for text in texts:
        name, _, given = text.partition("=")
        try:
            value = float(given)
        except ValueError:
            raise InputError(f"{text!r} is no goal; write one like bend_angle_deg=90") from None
        kind, _, place = name.rpartition("_")
        numbered = place.isdigit() and int(place) > 0
        if name in tip_columns:
            tip[name] = 1e-3 * value
        elif name in GOAL_COLUMNS:
            found.append(GOAL_COLUMNS[name](value))
        elif kind in NUMBERED_GOAL_COLUMNS and numbered:
            found.append(NUMBERED_GOAL_COLUMNS[kind](int(place) - 1, value))
        else:
            known = [*GOAL_COLUMNS, f"{', '.join(tip_columns)} (all three)", *(f"{k}_1" for k in NUMBERED_GOAL_COLUMNS)]
            raise InputError(f"{text!r} is no goal{suggestion(name, known)}; use {', '.join(known)}")
    if tip and len(tip) < 3:
        raise InputError(f"the tip needs {', '.join(tip_columns)}; given is only {', '.join(tip)}")
    return [*found, Goal.tip([tip[name] for name in tip_columns])] if tip else found
