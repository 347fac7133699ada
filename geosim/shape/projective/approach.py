"""Progressive actuation [Fang2022, lines 2-5 of Algorithm 1]: the way from an equilibrium to a command, in increments."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from geosim.arrays import Floats
from geosim.model.actuation import Command
from geosim.shape.projective.contact import ContactSprings
from geosim.shape.projective.lines import Lines, make_lines
from geosim.shape.projective.mesh import Work, remeshed, strung
from geosim.shape.projective.relaxation import Iterate
from geosim.shape.projective.stiffness import MaterialMatrix

__all__ = ["Approach"]

# The first guess of an increment must lie where the iteration still finds its way (measured on the shipped robots):
MAX_HELD_MOVE_REL = 0.05  # of the robot's size, of a held vertex
MAX_SHORTENING_REL = 0.1  # relative, of a length or an area
MIN_FIRST_INCREMENT = 0.2  # of the first increment: it is halved three times at most
WAY_ROUNDING = 1e-9  # share of the way that is rounding


@dataclass(frozen=True)
class Reached:
    """The last equilibrium on the way to a command.

    Parameters
    ----------
    x, springs, pressures
        Positions [m], springs of contact, chamber pressures [Pa].
    share
        Of the way.
    arrived
        Whether it is the end, with the elements that stay.
    """

    x: Floats
    springs: ContactSprings
    pressures: Floats
    share: float = 0.0
    arrived: bool = False


class Approach:
    """Where the way to a command stands.

    Parameters
    ----------
    work, x, pressures, lines
        The equilibrium from which it starts: positions [m], chamber pressures [Pa], strings.
    command, asked
        Where to go; `asked` are the chamber volumes [m^3], nan where vented.
    max_growth
        Largest relative change of a chamber's volume in one increment.
    """

    def __init__(
        self,
        work: Work,
        x: Floats,
        springs: ContactSprings,
        pressures: Floats,
        lines: Lines | None,
        command: Command,
        asked: Floats,
        max_growth: float,
    ) -> None:
        self.index, self.asked, self.end = (
            command.index,
            asked,
            make_lines(work.robot, command, work.matrix.diagonal(), lines),
        )
        self.work = strung(work, self.end)
        if isinstance(self.work.matrix, MaterialMatrix):
            self.work.matrix.forget()
        self.reached = Reached(np.array(x), springs, pressures)
        self._start = np.array(x)
        self._volumes = work.elements.volumes(self._start)
        if self.end is not None:
            self._measures = self.end.measures(self._start)
            known = lines is not None and lines.count == self.end.count
            self._pulls = lines.pulls(lines.measures(self._start)) if known and lines else np.zeros(self.end.count)
        self._width = self._first = self._widest(max_growth)
        self.work.elements.load = self.work.load_at(self.index)
        self._go_back()

    def _widest(self, max_growth: float) -> float:
        """Share of the way that nothing changes too much in."""
        work, given = self.work, np.isfinite(self.asked)
        growth = np.abs(np.log(self.asked[given] / self._volumes[given])) / np.log1p(max_growth)
        moved = work.held_positions(self.index) - work.rest[work.held]
        steps = [*growth, float(np.abs(moved).max(initial=0.0)) / (MAX_HELD_MOVE_REL * work.robot.size)]
        if self.end is not None:
            shorter = np.abs(np.nan_to_num(self.end.goals / self._measures, nan=1.0) - 1.0)
            steps.append(float(shorter.max(initial=0.0)) / MAX_SHORTENING_REL)
        return float(1.0 / max(1.0, np.ceil(max(steps) - WAY_ROUNDING)))

    def _go_back(self) -> None:
        """Give the elements the springs of the last equilibrium."""
        self.work.elements.springs = self.reached.springs
        self.work.matrix.factor(self.reached.springs)

    @property
    def aimed(self) -> float:
        """Share of the way at the end of the next increment."""
        share = self.reached.share + self._width
        return 1.0 if share > 1.0 - WAY_ROUNDING else share

    def aim(self) -> tuple[Floats, Floats]:
        """Move what is held, and the goals of the strings, one increment on.

        Returns where to begin [m] (n, 3), the last equilibrium but for what is held, and the chamber volumes to reach [m^3].
        """
        share = self.aimed
        work, lines = self.work, self.work.elements.lines
        if self.end is not None and lines is not None:
            goal = self.end.towards(self._measures, self._pulls, share)
            work.elements.lines = replace(lines, goals=goal.goals, tensions=goal.tensions)
        x, start = self.reached.x.copy(), self._start[work.held]
        x[work.held] = start + share * (work.held_positions(self.index) - start)
        return x, self.asked if share == 1.0 else self._volumes * (self.asked / self._volumes) ** share

    def halve(self) -> bool:
        """Go back and take half the increment; False where that has been done often enough."""
        if self.reached.share == 1.0 or self._width <= MIN_FIRST_INCREMENT * self._first:
            return False
        self._width *= 0.5
        self._go_back()
        return True

    def accept(self, iterate: Iterate) -> None:
        """Take the equilibrium at the end of an increment."""
        pressures = np.nan_to_num(iterate.evaluation.pressures)
        springs = self.work.elements.springs
        share = self.aimed
        self.reached = Reached(iterate.x, springs, pressures, share, arrived=share == 1.0)

    def remesh(self) -> None:
        """Mesh the chambers anew; at the end of the way the equilibrium is asked for once more, with other elements."""
        self.work, x = remeshed(self.work, self.reached.x)
        self.reached = replace(self.reached, x=x, arrived=False)
