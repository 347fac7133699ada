"""What a command may cost, and the record of every iteration that it has cost."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from geosim.model.contract import Progress
from geosim.shape.energy.problem import ShapeProblem
from geosim.shape.energy.states.configuration import Evaluation


class BudgetError(Exception):
    """A budget of the user is spent."""


@dataclass
class Budget:
    """What a command may still cost, what it has cost, and who is told how it goes.

    Parameters
    ----------
    seconds, factorisations
        How much of either may be spent.
    began, counted
        CPU time of the process [s] (`time.process_time`) and count of the linear solver at the beginning.
    listener
        Called in every iteration with how far it is.
    records
        One per iteration: those of attempts that failed or were interrupted, too, marked `discarded`.
    increment
        Number of the increment that is attempted.
    """

    seconds: float = np.inf
    factorisations: float = np.inf
    began: float = 0.0
    counted: int = 0
    listener: Callable[[Progress], None] | None = None
    records: list[dict[str, Any]] = field(default_factory=list)
    increment: int = 0

    def tell(self, record: dict[str, Any]) -> None:
        """Keep the record of an iteration, and tell of it."""
        self.records.append({**record, "increment": self.increment})
        if self.listener is not None:
            self.listener(Progress(record["share"], len(self.records), record["residual"], record["contacts"]))

    def discard(self, first: int, last: int | None = None) -> None:
        """Say of the iterations from the record `first` to `last` that their attempt was thrown away."""
        for record in self.records[first:last]:
            record["discarded"] = True

    def check(self, problem: ShapeProblem) -> None:
        """Raise `BudgetError` if nothing is left."""
        if time.process_time() - self.began > self.seconds:
            raise BudgetError("max_seconds", self.seconds, " CPU s, for one command")
        if problem.linear.factorisations - self.counted >= self.factorisations:
            raise BudgetError("max_factorisations", self.factorisations, " of one command")


def trace_record(
    problem: ShapeProblem,
    iteration: int,
    measure: tuple[float, ...],
    length: float,
    share: float,
    evaluation: Evaluation,
    before: tuple[int, int],
    seconds: tuple[float, float],
) -> dict[str, Any]:
    """One line of the trace; `before` is what the linear solver had counted before, `seconds` of assembly and solve."""
    return {
        "iteration": iteration + 1,
        "share": share,
        "residual": measure[0],
        "volume_residual": measure[1],
        "incompressibility": measure[2],
        "step": length,
        "contacts": evaluation.contact.count if evaluation.contact is not None else 0,
        "factorisations": problem.linear.factorisations - before[0],
        "krylov": problem.linear.krylov - before[1],
        "perturbed_pivots": problem.linear.factoriser.pivots.perturbed,
        "seconds": {"assembly": seconds[0], "factorisation": seconds[1]},
    }
