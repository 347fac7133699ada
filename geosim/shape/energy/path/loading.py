"""The loading that a command asks for: a share s = 0 .. 1 of the way between two targets, and how far one increment may go."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from geosim.arrays import Floats
from geosim.shape.energy.contact.contact_state import ContactState
from geosim.shape.energy.contact.step_limits import max_obstacle_step, max_safe_step
from geosim.shape.energy.problem import ShapeProblem
from geosim.shape.energy.state import ShapeState
from geosim.shape.energy.states.configuration import ArcLengthConstraint, Configuration, LoadState

# A rigid group turns at most so far [rad] in one increment: what is beyond half a revolution would turn the other way.
MAX_GROUP_TURN_RAD = 0.8


@dataclass(frozen=True)
class Loading:
    """The loading from one target to another.

    Parameters
    ----------
    problem
        What is loaded.
    origin, end
        Targets at the shares 0 and 1.
    max_growth
        See `EnergyShapeSolver`.
    """

    problem: ShapeProblem
    origin: LoadState
    end: LoadState
    max_growth: float

    @cached_property
    def moves(self) -> bool:
        """Whether held places, rigid groups, their loads or obstacles are on their way, or hands let objects go."""
        a, b, problem = self.origin, self.end, self.problem
        n, held = len(problem.rest), problem.held[: problem.rest.size].reshape(-1, 3)
        still = np.array_equal(a.external[n:], b.external[n:]) and np.array_equal(a.positions[n:], b.positions[n:])
        both = a.free_bodies is not None and b.free_bodies is not None
        freed = both and bool((a.free_bodies.lift != b.free_bodies.lift).any())  # type: ignore[union-attr]
        shifted = bool(((a.positions[:n] != b.positions[:n]) & held).any())
        return not still or freed or shifted or obstacle_travel(a.contact_state, b.contact_state) > 0.0

    @cached_property
    def bends(self) -> bool:
        """Whether the share may be an unknown: pressures or loads on nodes are on their way, nothing held or rigid moves."""
        a, b = self.origin, self.end
        n = len(self.problem.rest)
        driven = bool((np.where(a.by_value, 0.0, a.scalar_forces - b.scalar_forces) != 0).any())
        loaded = not np.array_equal(a.external[:n], b.external[:n])
        changes = not all(law.still(last) for law, last in zip(a.laws, b.laws))
        return (driven or loaded) and not (self.moves or self.problem.constraints.rough or changes)

    @cached_property
    def sucks(self) -> bool:
        """Whether prescribed pressures or tensions fall."""
        return bool(np.any((self.end.scalar_forces < self.origin.scalar_forces) & ~self.end.by_value))

    def aim(self, share: float, contact_state: ContactState | None, longest: float = np.inf) -> ArcLengthConstraint:
        """Return the aim at a share of the command."""
        return ArcLengthConstraint(self.origin, self.end, share, contact_state, longest=longest)

    def is_free(self, state: ShapeState, here: Configuration, there: Configuration) -> bool:
        """Whether nothing is crossed on the way to a predicted point."""
        contact, contact_state = self.problem.contact, state.contact_state
        if contact is None or contact_state is None:
            return True
        ahead = self.origin.towards(self.end, there.load_factor, contact_state).at(there).contact_state
        return max_safe_step(contact, here.x, there.x - here.x, contact_state, ahead) == 1.0

    def longest_step(self, state: ShapeState, share: float) -> float:
        """Largest step in the share in which obstacles and turns do not go too far and no chamber grows too much."""
        problem, most, left = self.problem, np.inf, 1.0 - share
        if problem.contact is not None and state.contact_state is not None and self.end.contact_state is not None:
            poses = state.contact_state.poses, self.end.contact_state.poses
            most = max_obstacle_step(problem.contact, state.point.x, *poses)
            most = most * left if most < 1.0 else np.inf
        turns = (self.end.positions - self.origin.positions)[len(problem.rest) + problem.groups :]
        turned = float(np.max(np.linalg.norm(turns, axis=1), initial=0.0))
        most = min(most, MAX_GROUP_TURN_RAD / turned) if turned > 0.0 else most
        chosen = np.flatnonzero(self.end.by_value[: problem.chambers])
        if len(chosen):
            now, rest = state.scalars[chosen], problem.rest_chamber_volumes[chosen]
            rate = self.end.scalars[chosen] - self.origin.scalars[chosen]
            grows = self.max_growth * np.maximum(now, rest)
            with np.errstate(divide="ignore"):
                shares = np.where(rate < 0, np.minimum(grows, 0.5 * now), grows) / np.abs(rate)
            most = min(most, float(np.min(shares, initial=np.inf)))
        return left / np.ceil(left / most - 1e-9) if most < left else np.inf  # equal steps to the end


def obstacle_travel(start: ContactState | None, end: ContactState | None) -> float:
    """Largest distance [m] that an obstacle travels between two grips (turns about its own origin left out)."""
    if start is None or end is None or len(start.poses) == 0:
        return 0.0
    turn = np.linalg.norm(end.poses[:, :3, :3] - start.poses[:, :3, :3], axis=(1, 2))
    return float(np.max(np.linalg.norm(end.poses[:, :3, 3] - start.poses[:, :3, 3], axis=1) + 0.01 * turn))


def load_difference(problem: ShapeProblem, new: LoadState, old: LoadState) -> Floats | None:
    """The way between two targets as one vector of comparable numbers; None where their controls differ."""
    if (new.by_value != old.by_value).any():
        return None
    moves = new.positions - old.positions
    moves[: len(problem.rest)] *= problem.held[: problem.rest.size].reshape(-1, 3)
    parts = [float(np.linalg.norm(way)) for way in (new.external - old.external, moves)]
    parts.append(obstacle_travel(old.contact_state, new.contact_state))
    values = np.where(new.by_value, new.scalars - old.scalars, 0.0)
    forces = np.where(new.by_value, 0.0, new.scalar_forces - old.scalar_forces)
    return np.concatenate([values, forces, parts])
