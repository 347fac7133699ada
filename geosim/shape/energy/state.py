"""The state of the energy solver: an equilibrium between two steps."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from geosim.arrays import Bools, Floats
from geosim.model.contract import Frame
from geosim.model.robot import VolumetricRobot
from geosim.shape.energy.contact.contact_state import ContactState
from geosim.shape.energy.problem import ShapeProblem
from geosim.shape.energy.states.configuration import Configuration, LoadState


@dataclass(frozen=True)
class Resumed:
    """What a solve begins with.

    Parameters
    ----------
    point, contact_state
        The configuration, and what it holds on to; None where nothing can touch.
    lost
        Which free objects were lost before, (f,).
    friction_work
        Work against the friction of obstacles so far [J]; nan where it is not known.
    """

    point: Configuration
    contact_state: ContactState | None
    lost: Bools
    friction_work: float


@dataclass(frozen=True)
class ShapeState:
    """An equilibrium of the shape solver; never changed, so that a step can be repeated or abandoned.

    Parameters
    ----------
    problem
        Everything that was computed once.
    point
        The configuration.
    target
        What it balances.
    scalars
        Scaled values of the scalars of constraints (d,).
    before
        The equilibria before it on the path, two at most, the last one last, and their targets: for the predictor.
    contact_state
        What it holds on to for the next increment; None where nothing can touch.
    friction_work
        Work against the friction of obstacles so far [J]; nan where the state before was none of this solver.
    measured
        Measures in SI units; None between commands.
    is_frame
        Whether a result shows it: the end of a command.
    began
        Scalars and their forces (d,) at the start of the solve, where chambers with a gas are closed.
    lost
        Free objects that contact no longer holds, bool (f,).
    note
        What happened on the way here: objects that were lost, a body that snapped.
    """

    problem: ShapeProblem
    point: Configuration
    target: LoadState
    scalars: Floats
    before: tuple[tuple[Configuration, LoadState], ...] = ()
    contact_state: ContactState | None = None
    friction_work: float = 0.0
    measured: Frame | None = None
    is_frame: bool = True
    began: tuple[Floats, Floats] | None = None
    lost: Bools = field(default_factory=lambda: np.zeros(0, dtype=bool))
    note: str = ""

    @property
    def robot(self) -> VolumetricRobot:
        """The robot as it is solved, with its imperfection."""
        return self.problem.robot

    @property
    def frame(self) -> Frame:
        """Measures in SI units; only the states at the ends of commands have them."""
        if self.measured is None:
            raise ValueError("a state between two commands has no measures")
        return self.measured
