"""Continuation of a path of equilibria to a command, by load factor or pseudo arc length.

A command is a share s = 0 .. 1 of the way between two targets (volumes, pressures, loads, places). The states at the
commands are those of fine steps, whatever the spacing of the commands, because no increment is longer than the path allows:

    1. predict: along the tangent (the first Newton step itself) at the beginning of a path and where the secant failed,
       else along the secant through the last two equilibria, or the parabola through three where it is nearly straight; no
       farther than the path has been straight;
    2. correct: Newton (`equilibrium`), at a prescribed share where volumes, places or obstacles are on their way; on an arc in
       the plane of the share and of what is conjugate to it where pressures or loads are (`configuration.Aim`), so that neither
       a maximum of the load nor walls that close on each other end the path; on the way no sharper than what follows needs;
    3. judge: a share that falls is a limit point; what slides under friction farther than `max_slide_edges` is taken in smaller
       increments; what fails is tried again from nearer;
    4. relax: where increments have become short, the path has kinks or folds back locally (creases that snap shut, walls that
       slip past each other's edges): the body creeps to the next stable state a little farther on (`relaxation`). One
       that lies far is a limit point of the body. Where increments from rest fail in a row, it goes on from rest to rest;
    5. land: the increment that would reach s = 1 prescribes it. The first crossing of the command is the answer.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from geosim.arrays import Floats
from geosim.errors import GeosimWarning
from geosim.model.contract import Status
from geosim.shape.energy.contact.step_limits import max_obstacle_step, max_safe_step
from geosim.shape.energy.continuation.branches import EquilibriumPath, PathPoint
from geosim.shape.energy.continuation.leaps import Leaps
from geosim.shape.energy.continuation.options import ContinuationOptions
from geosim.shape.energy.continuation.predictor import extrapolated, last_secant, obstacle_travel, straight_history
from geosim.shape.energy.continuation.wording import FLAT_TETS, limit_reached, load_at, ratios, way_reached
from geosim.shape.energy.newton.equilibrium import PASSED_EQUILIBRIUM_RESIDUAL, EquilibriumSearch
from geosim.shape.energy.newton.merit import has_potential
from geosim.shape.energy.newton.minimise import MAX_VOLUME_RATIO
from geosim.shape.energy.newton.newton_solve import MAX_NODE_STEP, Budget, BudgetError, volume_step_limit
from geosim.shape.energy.newton.relaxation import relaxed_equilibrium
from geosim.shape.energy.newton.states import (
    ArcLengthConstraint,
    Configuration,
    LoadState,
    NewtonOutcome,
    longest_displacement,
)
from geosim.shape.energy.problem import ShapeProblem
from geosim.shape.energy.state import ShapeState

# Share of the command from where leaps were tried in vain to where they are tried again.
MIN_LEAP_DISTANCE = 0.05


@dataclass(frozen=True)
class StepOutcome:
    """Where a command ended.

    Parameters
    ----------
    state, load_factor, outcome
        The last equilibrium, how far it is on the way, and how it was found.
    status, message
        How the command ended.
    records
        One per iteration.
    way
        The equilibria on the way since the last relaxation.
    left
        Where the body left its path for another state.
    """

    state: ShapeState
    load_factor: float
    outcome: NewtonOutcome | None
    status: Status
    message: str
    records: tuple[dict[str, Any], ...]
    way: EquilibriumPath
    left: tuple[dict[str, Any], ...] = ()


@dataclass
class Continuation:
    """The path to one command, from a state.

    Parameters
    ----------
    newton
        Finds every equilibrium.
    origin, end
        Targets at the shares 0 and 1.
    state
        The last equilibrium.
    budget
        What the command may cost.
    max_growth, min_increment
        See `EnergyShapeSolver`.
    beyond
        Whether to go on beyond a limit point, from the next stable state.
    skip_relaxation
        Whether to end where increments have become short, without a relaxation: where free objects may have been lost.
    options
        How it goes about it.
    """

    newton: EquilibriumSearch
    origin: LoadState
    end: LoadState
    state: ShapeState
    budget: Budget
    max_growth: float
    min_increment: float
    beyond: bool = False
    skip_relaxation: bool = False
    options: ContinuationOptions = field(default_factory=ContinuationOptions)
    load_factor: float = 0.0
    stride: float = np.inf  # longest displacement of a node in the next increment, over the size of the body
    trail: list[PathPoint] = field(default_factory=list)
    earlier: tuple[Configuration, ...] = ()  # equilibria before this command, if it goes on as the last one did
    records: list[dict[str, Any]] = field(default_factory=list)
    outcome: NewtonOutcome | None = None
    failures: int = 0
    reach: float = np.inf  # share of the command in the next increment at most, by what the last attempt found
    passed: Configuration | None = None  # an equilibrium beyond the command, to land from
    longest: float = 0.0  # longest displacement of a node in an increment so far
    patience: int = field(init=False)  # failures before a relaxation
    failed_relaxations: int = 0  # relaxations without a state near, one after the other
    ahead: float = 1.0  # share that a step along the tangent tries at first
    snaps: bool = False  # whether the last relaxation led far away
    sharp: bool = False  # whether equilibria on the way are sharp: the load may have a maximum near
    warned: bool = False  # of flat tets that fold
    vain: int = 0  # increments that failed at once from where the body had come to rest, one after the other
    resting: int = 0  # relaxations that follow without such an increment
    leapt: float = -1.0  # share at which leaps were tried last
    stuck: bool = False  # whether creeping beyond a limit has been tried in vain
    left: list[dict[str, Any]] = field(default_factory=list)  # where the body went to another state

    def __post_init__(self) -> None:
        self.patience = self.options.patience

    # ---- the loop

    def follow(self) -> StepOutcome:
        """Follow the path to the command, or as far as it goes; one of a thousand increments does not get anywhere."""
        self._note(self.state.point, self.state.scalars)
        self.earlier = straight_history(self.state, self.origin, self.end)
        try:
            for _ in range(1000):
                if self.load_factor >= 1.0:
                    return self._ended(Status.CONVERGED, "")
                if self.resting > 0 and self._relax(self.load_factor):
                    self.resting -= 1
                    continue
                self.resting = 0
                start, aim, tangent = self._next()
                outcome = self.newton.equilibrium(
                    self.problem, start, aim, self.budget, along=tangent, passing=self._passes
                )
                self.records += [{**record, "increment": len(self.trail)} for record in outcome.records]
                verdict = self._judge(outcome, aim)
                if verdict is not None:
                    return verdict
        except BudgetError as error:
            return self._ended(
                Status.STOPPED, f"{Status.STOPPED.value} It was {error.args[0]} = {error.args[1]:g}{error.args[2]}."
            )
        except KeyboardInterrupt:
            return self._ended(Status.INTERRUPTED, Status.INTERRUPTED.value)
        return self._lost(self.outcome)

    @property
    def problem(self) -> ShapeProblem:
        """What is solved."""
        return self.state.problem

    @property
    def _passes(self) -> float:
        """Residual at which an equilibrium on the way will do, 0 where what it leaves behind depends on it."""
        contact = self.problem.contact
        rubs = contact is not None and contact.friction
        if rubs or len(self.state.point.objects) or self.state.point.hold is not None:
            return 0.0
        if not self._bends:
            return PASSED_EQUILIBRIUM_RESIDUAL
        if self.sharp or self._creeps:
            return 0.0
        return self.options.passed_touching_residual if self._touches else self.options.passed_arc_residual

    @property
    def _touches(self) -> bool:
        """Whether parts of the robot touch each other in the last equilibrium."""
        forces = None if self.outcome is None else self.outcome.evaluation.contact
        return forces is not None and len(forces.pairs) > 0

    def _sharpen(self) -> None:
        """Bring the last equilibrium on the way to the tolerance, where it was only passed."""
        aim = ArcLengthConstraint(self.origin, self.end, self.load_factor, self.state.contact_state)
        outcome = self.newton.equilibrium(self.problem, self.state.point, aim, Budget())
        self.records += [{**record, "increment": len(self.trail)} for record in outcome.records]
        if outcome.status is Status.CONVERGED:
            self.outcome, self.state = outcome, replace(next_state(self.state, outcome), before=self.state.before)
            self.trail = self.trail[:-1]
            self._note(outcome.point, outcome.evaluation.scalars)

    def _ended(self, status: Status, message: str) -> StepOutcome:
        if status is not Status.CONVERGED and self._passes > 0.0 and 0.0 < self.load_factor < 1.0:
            self._sharpen()
        return StepOutcome(
            self.state,
            self.load_factor,
            self.outcome,
            status,
            message,
            tuple(self.records),
            self._way,
            tuple(self.left),
        )

    @property
    def _way(self) -> EquilibriumPath:
        return EquilibriumPath(
            self.newton, self.problem, self.origin, self.end, self.state.contact_state, tuple(self.trail)
        )

    # ---- predict

    def _next(self) -> tuple[Configuration, ArcLengthConstraint, Floats | None]:
        """Return start and aim of the next increment, and the direction of the path where it goes along the tangent."""
        options, held = self.options, len(self.trail) > 1 and not self._moves
        longest = max(self.stride, options.min_step_bound_rel) if held else np.inf
        aim = ArcLengthConstraint(self.origin, self.end, 1.0, self.state.contact_state, longest=longest)
        here = replace(self.state.point, load_factor=self.load_factor)
        if self.passed is not None:
            back = here.stepped(
                self.passed.less(here), (1.0 - self.load_factor) / (self.passed.load_factor - self.load_factor)
            )
            self.passed = None
            return replace(self._settled(back), load_factor=1.0), aim, None
        last = last_secant(self.earlier, self.trail, self._bends) if self.failures % 2 == 0 else None
        if last is not None:
            way, bend, size = last
            stride, most = min(self.stride, options.first_increment_ratio * size), np.inf
            if len(self.trail) > 1:
                stride, ahead = self.stride, 3.0 * options.max_increment_growth
                swell = ahead * (self.trail[-1].scalars - self.trail[-2].scalars) * ~self.end.by_value
                most = ahead * volume_step_limit(self.problem, self.state.scalars, swell)
            reach = min(
                stride / size,
                most if self._bends else np.inf,
                min(self._allowed(way), self.reach) / max(way.load_factor, 1e-300) if way.load_factor > 0 else np.inf,
            )
            if way.load_factor > 0.0 and self.load_factor + 1.02 * reach * way.load_factor >= 1.0:
                reach = (1.0 - self.load_factor) / way.load_factor  # land
                start = self._settled(extrapolated(here, way, bend, reach))
                if self._is_free(here, start):
                    return replace(start, load_factor=1.0), aim, None
            elif self._is_free(here, start := self._settled(extrapolated(here, way, bend, reach))):
                return start, self._aimed(aim, start), None
        left = 1.0 - self.load_factor
        step = min(left, self._allowed(None), self._tangent_share(), self.reach)
        if self.load_factor == 0.0 and self.origin.free_bodies is not None and self.origin.free_bodies.falls:
            return here, replace(aim, load_factor=step), None  # there is no tangent before it has fallen on something
        tangent = last[0].x if last is not None else np.zeros_like(here.x)
        return here, replace(aim, load_factor=self.load_factor + step, bends=self._bends), tangent

    def _aimed(self, aim: ArcLengthConstraint, start: Configuration) -> ArcLengthConstraint:
        """Return the aim at a predicted point: its share, or the arc through it."""
        if not self._bends or len(self.trail) < 2:
            return replace(aim, load_factor=start.load_factor)
        old, new = self.trail[-2:]
        change, step = new.conjugate - old.conjugate, new.point.load_factor - old.point.load_factor
        if change == 0.0:
            return replace(aim, load_factor=start.load_factor)
        zeroth, first = self.trail[:2]
        made = first.point.load_factor - zeroth.point.load_factor
        scale = abs((first.conjugate - zeroth.conjugate) / (made or 1.0)) or abs(change)
        ahead = new.scalars + (start.load_factor - new.point.load_factor) / (step or 1.0) * (new.scalars - old.scalars)
        return aim.onto(start, ahead, (change / scale, step), scale)

    @property
    def _bends(self) -> bool:
        """Whether the share may be an unknown: pressures or loads on nodes are on their way, nothing held or rigid moves."""
        a, b = self.origin, self.end
        n = len(self.problem.rest)
        driven = bool((np.where(a.by_value, 0.0, a.scalar_forces - b.scalar_forces) != 0).any())
        loaded = not np.array_equal(a.external[:n], b.external[:n])
        changes = not all(law.still(last) for law, last in zip(a.laws, b.laws))
        return (driven or loaded) and not (self._moves or self.problem.constraints.rough or changes)

    @property
    def _moves(self) -> bool:
        """Whether held places, rigid groups, their loads or obstacles are on their way, or hands let objects go."""
        a, b, problem = self.origin, self.end, self.problem
        n, held = len(problem.rest), problem.held[: problem.rest.size].reshape(-1, 3)
        still = np.array_equal(a.external[n:], b.external[n:]) and np.array_equal(a.positions[n:], b.positions[n:])
        freed = (
            a.free_bodies is not None
            and b.free_bodies is not None
            and bool((a.free_bodies.lift != b.free_bodies.lift).any())
        )
        return (
            not still
            or freed
            or bool(((a.positions[:n] != b.positions[:n]) & held).any())
            or obstacle_travel(a.contact_state, b.contact_state) > 0.0
        )

    def _is_free(self, here: Configuration, there: Configuration) -> bool:
        """Whether nothing is crossed on the way to a predicted point."""
        contact, contact_state = self.problem.contact, self.state.contact_state
        ahead = self.origin.towards(self.end, there.load_factor, contact_state).at(there).contact_state
        return (
            contact is None
            or contact_state is None
            or max_safe_step(contact, here.x, there.x - here.x, contact_state, ahead) == 1.0
        )

    def _settled(self, point: Configuration) -> Configuration:
        return replace(point, x=self.problem.settled(point.x))

    # ---- how far

    def _tangent_share(self) -> float:
        """Share of the command that a step along the tangent tries: all of it, or what was reached before, in part."""
        options = self.options
        if len(self.trail) < 2:
            return self.ahead * options.retry_length_share**self.failures
        made = abs(self.trail[-1].point.load_factor - self.trail[-2].point.load_factor)
        size = longest_displacement(self.trail[-1].point.x - self.trail[-2].point.x)
        longer = self.stride / max(size, 1e-9)
        return float(max(made * min(longer, options.max_increment_growth), 1e-12))

    def _allowed(self, way: Configuration | None) -> float:
        """Largest step in the share in which obstacles and turns do not go too far and no chamber grows too much."""
        problem, most = self.problem, np.inf
        left = 1.0 - self.load_factor
        if problem.contact is not None and self.state.contact_state is not None and self.end.contact_state is not None:
            most = max_obstacle_step(
                problem.contact, self.state.point.x, self.state.contact_state.poses, self.end.contact_state.poses
            )
            most = most * left if most < 1.0 else np.inf
        turns = (self.end.positions - self.origin.positions)[len(problem.rest) + problem.groups :]
        turned = float(np.max(np.linalg.norm(turns, axis=1), initial=0.0))
        most = min(most, self.options.max_group_turn_rad / turned) if turned > 0.0 else most
        chosen = np.flatnonzero(self.end.by_value[: problem.chambers])
        if len(chosen):
            now, rest = self.state.scalars[chosen], problem.rest_chamber_volumes[chosen]
            rate = self.end.scalars[chosen] - self.origin.scalars[chosen]
            grows = self.max_growth * np.maximum(now, rest)
            with np.errstate(divide="ignore"):
                shares = np.where(rate < 0, np.minimum(grows, 0.5 * now), grows) / np.abs(rate)
            most = min(most, float(np.min(shares, initial=np.inf)))
        return left / np.ceil(left / most - 1e-9) if most < left else np.inf  # equal steps to the end

    # ---- judge

    def _judge(self, outcome: NewtonOutcome, aim: ArcLengthConstraint) -> StepOutcome | None:
        """Take the increment or not, and choose the next; return how the command ended where it does."""
        options = self.options
        # a path whose increments are shorter, over the size of the body and in the share, has come to its end
        shortest = 1e-6
        if outcome.status is not Status.CONVERGED:
            short = not self._bends and abs(aim.load_factor - self.load_factor) < self.min_increment
            return self._last_resort(outcome) if short else self._fail(outcome)
        made = longest_displacement(outcome.point.x - self.state.point.x)
        slid = self._slide(outcome)
        if slid > 1.0 and self.failures < options.max_increment_failures and made > 1e-3 * MAX_NODE_STEP:
            self.stride = 0.8 * made / slid
            self.failures += 1
            return None
        if outcome.point.load_factor < self.load_factor and self._passes > 0.0 and self._bends:
            self.sharp = True  # a maximum is found by sharp equilibria
            if len(self.trail) > 1:
                self._sharpen()
            return None
        jumps = (
            self._bends
            and self._missed(outcome) > options.branch_jump_share
            and self.failures < options.max_increment_failures
            and made > (options.corner_move_rel if outcome.kinks else MAX_NODE_STEP / 1e3)
        )
        # a body that does not find its way along the path comes to rest at an equilibrium that is stable
        if jumps and not (self._collapsed and self.newton.is_stable(self.problem, outcome.point, outcome.target)):
            return self._fail(outcome)
        share = outcome.point.load_factor
        if share < -1.0:  # the path has turned round: farther than the command it is not followed back
            return self._last_resort(outcome)
        if share > 1.0:  # Newton went beyond the command: prescribe it, from between
            self.passed = outcome.point
            return self._fail(outcome)
        self._take(outcome, share, made)
        if share < self.trail[-2].point.load_factor and self._bends and made > shortest:
            return self._at_limit()
        return (
            None
            if made > shortest or share >= 1.0 or share - self.trail[-2].point.load_factor > shortest
            else self._last_resort(outcome)
        )

    def _take(self, outcome: NewtonOutcome, share: float, made: float) -> None:
        """Make the equilibrium the present one, and choose the length of the next increment."""
        options = self.options
        missed = self._missed(outcome) * min(1.0, made / options.min_step_bound_rel)
        forces = outcome.evaluation.contact
        touching = forces is not None and forces.count > 0
        pace = np.sqrt((2 if touching else 1) * options.easy_iterations / max(outcome.effort, 1))
        pace = min(pace, np.sqrt(options.prediction_miss_share / missed) if missed > 0.0 else np.inf)
        pace = float(np.clip(pace, options.max_increment_shrink, options.max_increment_growth))
        self.stride = min(pace * max(made, 1e-9), MAX_NODE_STEP)
        self.failures, self.vain, self.load_factor, self.outcome, self.reach = 0, 0, share, outcome, np.inf
        self.patience, self.longest = min(self.patience + 1, options.patience), max(self.longest, made)
        self.state = next_state(self.state if len(self.trail) > 1 else replace(self.state, target=self.origin), outcome)
        self._note(replace(outcome.point, load_factor=share), outcome.evaluation.scalars)

    def _note(self, point: Configuration, volumes: Floats) -> None:
        aim = ArcLengthConstraint(self.origin, self.end, self.load_factor, None)
        self.trail.append(
            PathPoint(replace(point, load_factor=self.load_factor), aim.conjugate(point, volumes), volumes)
        )

    def _missed(self, outcome: NewtonOutcome) -> float:
        """How far the prediction was from the equilibrium, over its own length."""
        if outcome.start is None:
            return 0.0
        length = longest_displacement(outcome.start.x - self.state.point.x)
        return longest_displacement(outcome.point.x - outcome.start.x) / length if length > 0.0 else 0.0

    def _slide(self, outcome: NewtonOutcome) -> float:
        """How far a point that touches a rough obstacle slid in this increment, over what it may."""
        contact, forces, contact_state = self.problem.contact, outcome.evaluation.contact, outcome.target.contact_state
        if (
            contact is None
            or forces is None
            or contact_state is None
            or self.state.contact_state is None
            or not contact.friction
        ):
            return 0.0
        return (
            contact.slide(self.state.point.x, outcome.point.x, self.state.contact_state, contact_state, forces)
            / self.options.max_slide_edges
        )

    def _fail(self, outcome: NewtonOutcome) -> StepOutcome | None:
        """Try again from nearer, or relax; return how the command ended where that has no sense any more."""
        options = self.options
        collapsed = self._collapsed
        if self._leap(outcome):
            return None
        self.failures += 1
        if not self._bends:  # what is limited by obstacles or volumes is no shorter for a shorter displacement
            self.reach = options.retry_length_share * (outcome.point.load_factor - self.load_factor)
        spent = len(self.records)
        if spent >= options.pace_iterations and self._shuts:
            took = f"{spent} Newton iterations went into {100.0 * self.load_factor:.3g} % of a command."
            folded = self.problem.inverted(self.state.point.x) > 0
            late = spent >= options.pace_iterations * (1 if folded else 2)
            if late and spent * (1.0 - self.load_factor) > self._max_expected_iterations * self.load_factor:
                return self._given_up(outcome, took)
            if folded and not self.warned:
                self.warned = True
                warnings.warn(f"{took} {FLAT_TETS}", GeosimWarning, stacklevel=2)
        if collapsed and not self.skip_relaxation and outcome.status is not Status.SINGULAR and self.passed is None:
            # a body whose pressures and loads stay as they are goes to its next state, however far that lies
            follows = self.beyond or not self._bends
            self.vain += len(self.trail) == 1 and len(self.left) > 0
            self.resting = max(self.vain - 1, 0)
            if self._relax(self.load_factor) or (
                self.snaps and follows and self._relax(self.load_factor, farthest=np.inf)
            ):
                return None
        hopeless = outcome.status is Status.SINGULAR and self.failures > 3
        if hopeless or self.failures > options.max_increment_failures:
            return self._last_resort(outcome)
        if np.isfinite(self.stride):
            self.stride *= options.retry_length_share
        else:
            self.stride = MAX_NODE_STEP
        return None

    def _leap(self, failed: NewtonOutcome) -> bool:
        """Go on by leaps under dead loads from an increment that failed where parts touch; whether they got anywhere."""
        near = self.load_factor < self.leapt + MIN_LEAP_DISTANCE
        if near or self.beyond or self.passed is not None or not self._bends:
            return False
        met = failed.evaluation.contact
        if met is None or not len(met.pairs):
            return False
        aim = ArcLengthConstraint(self.origin, self.end, self.load_factor, self.state.contact_state)
        if aim.scalar_rates.any() or not has_potential(self.problem, aim):
            return False
        self.leapt = self.load_factor
        if self._passes > 0.0 and self.load_factor > 0.0:
            self._sharpen()
        point = replace(self.state.point, load_factor=self.load_factor)
        evaluation = self.newton.evaluate(self.problem, point, aim.at(point), matrix=True)
        here = NewtonOutcome(Status.CONVERGED, point, evaluation, 0.0, 0, (), aim.at(point))
        leaps = Leaps(self.newton, self.problem, self.origin, self.end, self.state.contact_state, self.budget)
        records: list[dict[str, Any]] = []
        try:
            for reached in leaps.run(here, records):  # each is kept where a budget ends the next one
                made = longest_displacement(reached.point.x - self.state.point.x)
                self._take(reached, reached.point.load_factor, made)
        finally:
            self.records += [{**record, "increment": len(self.trail)} for record in records]
        return self.load_factor > self.leapt

    @property
    def _max_expected_iterations(self) -> int:
        return 10 * self.options.pace_iterations

    @property
    def _shuts(self) -> bool:
        """Whether the command sucks chambers of linear tets further shut, or cables pull at them and are not let go."""
        problem, count = self.problem, self.problem.chambers
        origin, end = (np.where(self.end.by_value, at.scalars, at.scalar_forces) for at in (self.origin, self.end))
        sucked = (end < origin)[:count] & (self.state.point.scalar_forces[:count] < 0.0)
        pulled = problem.cables is not None and not (end < origin)[count:].any()
        return problem.element.linear and (bool(sucked.any()) or pulled)

    @property
    def _collapsed(self) -> bool:
        """Whether increments would become short, or fail often, if this one failed."""
        return self.failures + 1 >= self.patience or self._creeps

    @property
    def _creeps(self) -> bool:
        """Whether increments are short: on a path with kinks a passed equilibrium may lead past a limit."""
        return self.options.retry_length_share * self.stride < self.options.collapsed_increment_share * self.longest

    def _relax(self, share: float, farthest: float | None = None) -> bool:
        """Go to the next stable state a little beyond a share of the command; return whether there is one in reach."""
        if self.failed_relaxations == self.options.patience:
            return False
        way = abs(self.trail[-1].point.load_factor - self.trail[0].point.load_factor)
        gone = longest_displacement(self.trail[-1].point.x - self.trail[0].point.x)
        nudge = self.options.relaxation_move_rel * way / gone if gone > 0.0 and farthest is None else np.inf
        farthest = self.options.snap_displacement_rel if farthest is None else farthest
        aim = ArcLengthConstraint(self.origin, self.end, 1.0, self.state.contact_state)
        strides = self.vain > 1 and has_potential(self.problem, aim)
        growth = self.options.relaxation_growth * (2.0 if strides else 1.0)
        most = self.options.relaxation_load_ahead * (growth if strides else 1.0)
        step = min(most, self.ahead, 1.0 - share, self._allowed(None), nudge)
        aim = replace(aim, load_factor=share + step)
        passing = min(self._passes, self.options.passed_touching_residual) if share + step < 1.0 else 0.0
        outcome, self.snaps, records = relaxed_equilibrium(
            self.newton, self.problem, self.state.point, aim, farthest, self.budget, passing
        )
        self.records += [{**record, "increment": len(self.trail)} for record in records]
        if outcome is None or self._slide(outcome) > 1.0:
            self.ahead, self.vain = 0.5 * step, 0
            self.failed_relaxations += not strides
            return False
        self.failed_relaxations, self.failures, self.patience, self.sharp = 0, 0, 1, False
        self.ahead, self.reach = growth * step, np.inf
        load = load_at(self.problem, self.origin, self.end, self.load_factor, self.state.scalars)
        far = longest_displacement(outcome.point.x - self.state.point.x) > self.options.snap_displacement_rel
        self.left.append({"share": self.load_factor, "load": load, "far": far})
        self.load_factor, self.outcome, self.trail, self.earlier = share + step, outcome, [], ()
        self.state = replace(next_state(self.state, outcome), before=())
        self._note(outcome.point, outcome.evaluation.scalars)
        return True

    def _relax_near(self, share: float) -> bool:
        """Go to the next stable state, asked for so near that what the body goes is its snap and not the load's way.

        Walls that touch or are sucked together most often come to rest near: they are asked for a state farther on at first.
        """
        sucked = bool(np.any((self.end.scalar_forces < self.origin.scalar_forces) & ~self.end.by_value))
        if sucked or self._touches:
            if self._relax(share):
                return True
            if not self.snaps:
                return False
        return self._relax_within(share)

    def _relax_within(self, share: float) -> bool:
        """Go to the next stable state asked for within `limit_load_bracket`: where there is none the load has its limit."""
        self.ahead = min(self.ahead, self._bracket(share))
        return self._relax(share)

    def _bracket(self, share: float) -> float:
        """Step in the share to which a limit there is known."""
        return self.options.limit_load_bracket * max(share, self.options.limit_load_bracket)

    # ---- the end of a path

    def _given_up(self, outcome: NewtonOutcome, took: str) -> StepOutcome:
        """End a command that gets on too slowly: at the limit of the load where the body snaps, or lost."""
        self.failed_relaxations = 0
        if self._bends and not self.skip_relaxation and not self._relax_within(self.load_factor) and self.snaps:
            return self._limit(self.load_factor, self.state.scalars)
        return self._lost(
            outcome, f" {took} Given up: at this pace it would take more than {self._max_expected_iterations} more."
        )

    def _last_resort(self, outcome: NewtonOutcome) -> StepOutcome | None:
        """Go downhill once more; a body that goes far however near it is asked to go has its limit there."""
        aim = ArcLengthConstraint(self.origin, self.end, 1.0, self.state.contact_state)
        step = min(self.options.relaxation_load_ahead, self.ahead)
        downhill = not self.skip_relaxation and step >= self.min_increment and has_potential(self.problem, aim)
        while downhill:
            self.failed_relaxations = 0
            if self._relax(self.load_factor) or (
                self.snaps and not self._bends and self._relax(self.load_factor, farthest=np.inf)
            ):
                return None
            if self.snaps and self._bends and self.ahead < self._bracket(self.load_factor):
                return self._limit(self.load_factor, self.state.scalars)
            downhill = self.snaps and self._bends
        return self._lost(outcome)

    def _lost(self, outcome: NewtonOutcome | None, why: str = "") -> StepOutcome:
        """Say why a command could not be reached."""
        known = outcome is not None and outcome.status in (Status.SINGULAR, Status.INVERTED)
        status = outcome.status if known and outcome is not None else Status.NOT_CONVERGED
        at = way_reached(self.problem, self.load_factor, self.state.scalars, outcome)
        grown = ratios(self.problem, self.state.scalars).max(initial=0.0) > MAX_VOLUME_RATIO
        if grown and self._bends and not self.left:  # a path that turns ends at its limit, or goes to another state
            why += f" The load rose all the way there, without a limit, to more than V/V0 = {MAX_VOLUME_RATIO:g}: ask for less."
        return self._ended(status, f"{status.value} {at}{why}")

    def _at_limit(self) -> StepOutcome | None:
        """Name the maximum of the load that the last equilibria enclose; or go on beyond it."""
        top = max(mark.point.load_factor for mark in self.trail)
        runaway = ratios(self.problem, self.state.scalars).max(initial=0.0) >= MAX_VOLUME_RATIO
        if self.beyond and not runaway:
            # where creeping ends nowhere the path itself leads on, through states that do not last
            self.stuck = self.stuck or not self._relax(top, farthest=np.inf)
            return None
        if not self.beyond and self._relax_near(top):
            return None
        share, volumes, found = self._way.maximum(self.budget)
        for outcome in found:
            self.records += [{**record, "increment": len(self.trail)} for record in outcome.records]
            self.state, self.load_factor, self.outcome = (
                next_state(self.state, outcome),
                outcome.point.load_factor,
                outcome,
            )
        return self._limit(share, volumes)

    def _limit(self, share: float, volumes: Floats) -> StepOutcome:
        """Name the largest load that the body bears on the way, where its chambers have volumes (d,)."""
        message = limit_reached(self.problem, self.origin, self.end, share, volumes)
        if self.beyond:
            message += f" No state that lasts lies beyond it up to V/V0 = {MAX_VOLUME_RATIO:g}."
        return self._ended(Status.PRESSURE_LIMIT, f"{Status.PRESSURE_LIMIT.value} {message}")


def next_state(state: ShapeState, outcome: NewtonOutcome) -> ShapeState:
    """Return the state after an increment, with its grip renewed."""
    problem, target, contact_state, friction_work = (
        state.problem,
        outcome.target,
        outcome.target.contact_state,
        state.friction_work,
    )
    if problem.contact is not None and contact_state is not None and outcome.evaluation.contact is not None:
        if state.contact_state is not None:
            lost = problem.contact.friction_work(
                state.point.x, outcome.point.x, state.contact_state, contact_state, outcome.evaluation.contact
            )
            friction_work += lost * problem.stress * problem.length**3
        contact_state = problem.contact.renew(outcome.point.x, contact_state, outcome.evaluation.contact)
    point, values = outcome.point, outcome.evaluation.scalars
    if point.hold is not None:
        point = replace(point, hold=replace(point.hold, values=values))
    return replace(
        state,
        point=point,
        target=target,
        scalars=values,
        before=(*state.before, (state.point, state.target))[-2:],
        contact_state=contact_state,
        friction_work=friction_work,
        measured=None,
        is_frame=True,
    )
