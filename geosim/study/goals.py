"""Goals and constraints of a study: sentences about columns, and what they say of a design."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from geosim.arrays import Bools, Floats
from geosim.files.messages import Place

__all__ = ["Constraint", "DesignGoal", "best", "pareto", "read_constraint", "read_goal"]

# A target counts as met within this share of it: silicone differs more between batches, so the next goal decides there.
TARGET_MET = 0.01


@dataclass(frozen=True)
class DesignGoal:
    """maximize COLUMN, minimize COLUMN, or target COLUMN VALUE."""

    kind: Literal["maximize", "minimize", "target"]
    column: str
    value: float = np.nan

    def cost(self, measures: Mapping[str, float]) -> float:
        """Return what is to be small: the measure, its negative, or its distance from the target; nan where it is missing."""
        measure = measures.get(self.column, np.nan)
        return {"maximize": -measure, "minimize": measure, "target": abs(measure - self.value)}[self.kind]

    @property
    def met(self) -> float:
        """Cost below which the goal is as good as reached."""
        return TARGET_MET * abs(self.value) if self.kind == "target" else -np.inf


@dataclass(frozen=True)
class Constraint:
    """COLUMN <= VALUE or COLUMN >= VALUE."""

    column: str
    relation: Literal["<=", ">="]
    value: float

    def excess(self, measures: Mapping[str, float]) -> float:
        """Return by how much a design violates it, <= 0 where it does not; nan where the measure is missing."""
        over = measures.get(self.column, np.nan) - self.value
        return over if self.relation == "<=" else -over


def read_goal(text: str, place: Place) -> DesignGoal:
    """Return the goal that a sentence says.

    Raises
    ------
    InputError
        It is none.
    """
    match text.split():
        case ["maximize", column]:
            return DesignGoal("maximize", column)
        case ["minimize", column]:
            return DesignGoal("minimize", column)
        case ["target", column, value] if _is_number(value):
            return DesignGoal("target", column, float(value))
    raise place.error(f'= {text!r} is not a goal; write "maximize C", "minimize C" or "target C VALUE"')


def read_constraint(text: str, place: Place) -> Constraint:
    """Return the constraint that a sentence says.

    Raises
    ------
    InputError
        It is none.
    """
    match = re.fullmatch(r"\s*(\w+)\s*(<=|>=)\s*(\S+)\s*", text)
    if match is None or not _is_number(match[3]):
        raise place.error(f'= {text!r} is not a constraint; write "max_stretch <= 2.0" or "bend_angle_deg >= 80"')
    return Constraint(match[1], "<=" if match[2] == "<=" else ">=", float(match[3]))


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def pareto(costs: Floats, feasible: Bools) -> Bools:
    """Return which designs no feasible one beats: none is as good in all goals and better in one.

    Parameters
    ----------
    costs
        Of every design in every goal, shape (d, g).
    feasible
        Which designs count, (d,).
    """
    out = np.zeros(len(costs), dtype=bool)
    able = costs[feasible]
    out[feasible] = [not ((able <= row).all(axis=1) & (able < row).any(axis=1)).any() for row in able]
    return out


def best(costs: Floats, feasible: Bools, goals: Sequence[DesignGoal]) -> int | None:
    """Return the design that is best in the first goal, among equals in the next; None if none is feasible.

    Targets that are met (`DesignGoal.met`) are equal; where all is equal the nearest to the targets is taken.
    """
    if not feasible.any():
        return None
    able = np.flatnonzero(feasible)
    rank = np.maximum(costs, [goal.met for goal in goals])[able]
    keys = [*costs[able].T[::-1], *rank.T[::-1]]  # lexsort takes the most important last
    return int(able[np.lexsort(keys)[0]])
