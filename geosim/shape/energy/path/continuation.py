"""Continuation of a path of equilibria to a command, by load factor or pseudo arc length.

A command is a share s = 0 .. 1 of the way between two targets (volumes, pressures, loads, places). The states at the
commands are those of fine steps, whatever the spacing of the commands, because no increment is longer than the path allows:

    1. predict: along the tangent (the first Newton step itself) at the beginning of a path and where the secant failed,
       else along the secant through the last two equilibria, or the parabola through three where it is nearly straight; no
       farther than the path has been straight;
    2. correct: Newton (`equilibrium`), at a prescribed share where volumes, places or obstacles are on their way; on an arc in
       the plane of the share and of what is conjugate to it where pressures or loads are (`ArcLengthConstraint`), so that
       neither a maximum of the load nor walls that close on each other end the path; on the way no sharper than needed;
    3. judge: accept the equilibrium, or say what is wrong with it (`Verdict`). Where an attempt fails and parts may meet,
    linear elements on the same mesh follow the path first, once (`nested`);
    4. shorten: an attempt in vain is repeated from nearer. Where parts touch, minimisations far ahead come first (`leaps`).
       Where increments have become short the path has kinks or folds back locally: the body goes to the next stable state a
       little farther on (`relaxation`). One that lies far is a limit point of the body;
    5. land: the increment that would reach s = 1 prescribes it. The first crossing of the command is the answer.

All that is known of the path is one record (`Path`), which every step replaces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from geosim.arrays import Floats
from geosim.model.contract import Status
from geosim.shape.energy.newton.budget import Budget, BudgetError
from geosim.shape.energy.newton.equilibrium import PASSED_EQUILIBRIUM_RESIDUAL, EquilibriumSearch
from geosim.shape.energy.newton.merit import has_potential
from geosim.shape.energy.newton.minimise import MAX_VOLUME_RATIO, Minimisation
from geosim.shape.energy.newton.steps import MAX_NODE_STEP
from geosim.shape.energy.path.branches import EquilibriumPath, PathPoint
from geosim.shape.energy.path.leaps import Leaps
from geosim.shape.energy.path.loading import Loading
from geosim.shape.energy.path.nested import (
    LANDING_DRAG,
    MAX_LANDING_ITERATIONS,
    MAX_LANDING_MISS,
    MIN_NESTED_UNKNOWNS,
    landing,
)
from geosim.shape.energy.path.options import ContinuationOptions
from geosim.shape.energy.path.path import Path, Verdict, next_state
from geosim.shape.energy.path.predictor import predict, straight_history
from geosim.shape.energy.path.relaxation import relaxed_equilibrium
from geosim.shape.energy.path.wording import limit_reached, load_at, ratios, way_reached
from geosim.shape.energy.problem import ShapeProblem
from geosim.shape.energy.state import ShapeState
from geosim.shape.energy.states.configuration import (
    ArcLengthConstraint,
    Configuration,
    NewtonOutcome,
    longest_displacement,
)

# One of so many attempts does not get anywhere.
MAX_ATTEMPTS = 1000
# A path whose increments are shorter, over the size of the body and in the share, has come to its end.
SHORTEST_INCREMENT = 1e-6


@dataclass(frozen=True)
class StepOutcome:
    """Where a command ended.

    Parameters
    ----------
    state, load_factor, outcome
        The last equilibrium, how far it is on the way, and how it was found.
    status, message
        How the command ended.
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
    way: EquilibriumPath
    left: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Relaxed:
    """A path after a relaxation: from another state if one was `found`, else with less ahead; `far` if the body went too far."""

    path: Path
    found: bool
    far: bool


@dataclass(frozen=True)
class Continuation:
    """The path to one command, from a state.

    Parameters
    ----------
    newton
        Finds every equilibrium.
    loading, start
        What is asked for, and the equilibrium to begin at.
    budget
        What the command may cost.
    min_increment
        See `EnergyShapeSolver`.
    beyond
        Whether to go on beyond a limit point, from the next stable state.
    skip_relaxation
        Whether to end where increments have become short, without a relaxation: where free objects may have been lost.
    options
        How it goes about it.
    foretell
        Returns the way of linear elements to the command, None where they snap; None where there are none to ask.
    """

    newton: EquilibriumSearch
    loading: Loading
    start: ShapeState
    budget: Budget
    min_increment: float
    beyond: bool = False
    skip_relaxation: bool = False
    options: ContinuationOptions = field(default_factory=ContinuationOptions)
    foretell: Callable[[], EquilibriumPath | None] | None = None

    @property
    def problem(self) -> ShapeProblem:
        """What is solved."""
        return self.loading.problem

    @cached_property
    def earlier(self) -> tuple[Configuration, ...]:
        """Equilibria before this command, if it goes on as the last one did."""
        return straight_history(self.start, self.loading.origin, self.loading.end)

    def _earlier(self, path: Path) -> tuple[Configuration, ...]:
        return self.earlier if path.marks[0].share == 0.0 else ()

    # ---- the algorithm

    def follow(self) -> StepOutcome:
        """Follow the path to the command, or as far as it goes."""
        path = Path(self.start, None, (self._mark(self.start.point, self.start.scalars, 0.0),))
        first = len(self.budget.records)
        try:
            for _ in range(MAX_ATTEMPTS):
                if path.share >= 1.0:
                    return self._ended(path, first, Status.CONVERGED, "")
                self.budget.increment = len(path.marks)
                began = len(self.budget.records)
                start, aim, tangent = predict(path, self.loading, self._earlier(path), self.options)
                outcome = self.correct(path, start, aim, tangent)
                verdict = self.judge(path, outcome)
                self._discard(verdict, began)
                if verdict is Verdict.FAIL and self._may_nest(path):
                    path = self.nested(path)
                    if path.share > path.leapt:
                        continue
                if verdict is Verdict.FAIL and self._may_leap(path, outcome):
                    there = path.share
                    for reached in self.leap(path, outcome):
                        path = reached  # kept where a budget ends the next leap
                    if path.share > there:
                        continue
                new = self.after(path, outcome, verdict, abs(aim.load_factor - path.share))
                if isinstance(new, tuple):
                    return self._ended(new[0], first, *new[1:])
                path = new
        except BudgetError as error:
            why = f"{Status.STOPPED.value} It was {error.args[0]} = {error.args[1]:g}{error.args[2]}."
            return self._ended(path, first, Status.STOPPED, why)
        except KeyboardInterrupt:
            return self._ended(path, first, Status.INTERRUPTED, Status.INTERRUPTED.value)
        path, status, message = self._lost(path, path.outcome)
        return self._ended(path, first, status, message)

    def _discard(self, verdict: Verdict, began: int) -> None:
        """Say of the iterations of an attempt in vain that they were thrown away."""
        if verdict in (Verdict.FAIL, Verdict.SLIDE, Verdict.LOSE):
            self.budget.discard(began)

    def correct(
        self, path: Path, start: Configuration, aim: ArcLengthConstraint, tangent: Floats | None
    ) -> NewtonOutcome:
        """Return the equilibrium that is aimed at by Newton's method; downhill where that fails with parts that touch.

        A prescribed share has an equilibrium, however the walls meet on the way.
        """
        passing = self.passing(path)
        outcome = self.newton.equilibrium(
            self.problem,
            start,
            aim,
            self.budget,
            along=tangent,
            passing=passing,
            until_met=self.loading.sucks and path.leapt < 0.0 and self._leaps_next(path),
        )
        met = outcome.evaluation.contact
        touches = path.touches or (met is not None and len(met.pairs) > 0)
        if (
            outcome.status is Status.CONVERGED
            or self.loading.bends
            or not (touches and has_potential(self.problem, aim))
        ):
            return outcome
        passing = passing if aim.load_factor < 1.0 else 0.0
        return Minimisation(self.newton, self.problem, aim, self.budget, passing=passing).run(path.state.point)

    def after(
        self, path: Path, outcome: NewtonOutcome, verdict: Verdict, tried: float
    ) -> Path | tuple[Path, Status, str]:
        """Return the path after an attempt at a share `tried`, or how the command ended."""
        if verdict is Verdict.ACCEPT:
            return self.accept(path, outcome)
        if verdict is Verdict.SLIDE:
            made = longest_displacement(outcome.point.x - path.state.point.x)
            shorter = 0.8 * made / self.slide(path, outcome)
            return replace(path, length=shorter, failures=path.failures + 1, beyond=None)
        if verdict is Verdict.SHARPEN:
            return replace(self.sharpened(path, self.budget), sharp=True, beyond=None)
        if verdict is Verdict.OVERSHOOT:
            return replace(path.shortened(self.options), beyond=outcome.point)
        if verdict is Verdict.LIMIT:
            return self.at_limit(self.accept(path, outcome))
        if verdict is Verdict.LOSE:
            return self.last_resort(path, outcome)
        return self.again(path, outcome, tried)

    def passing(self, path: Path) -> float:
        """Return the residual at which an equilibrium on the way will do, 0 where what it leaves behind depends on it."""
        contact = self.problem.contact
        rubs = contact is not None and contact.friction
        if rubs or len(path.state.point.objects) or path.state.point.hold is not None:
            return 0.0
        if not self.loading.bends:
            return PASSED_EQUILIBRIUM_RESIDUAL
        if path.sharp or path.creeps(self.options):
            return 0.0
        return self.options.passed_residual

    # ---- judge

    def judge(self, path: Path, outcome: NewtonOutcome) -> Verdict:
        """Return what is to be said of an attempt."""
        if outcome.status is not Status.CONVERGED:
            return Verdict.FAIL
        share = outcome.point.load_factor
        made = longest_displacement(outcome.point.x - path.state.point.x)
        if self._slides(path, outcome, made):
            return Verdict.SLIDE
        falls = self.loading.bends and share < path.share
        if falls and self.passing(path) > 0.0:
            return Verdict.SHARPEN
        if self._jumps(path, outcome, made):
            return Verdict.FAIL
        if share > 1.0:
            return Verdict.OVERSHOOT
        if falls and made > SHORTEST_INCREMENT:
            return self._turned(path, outcome)
        ends = made <= SHORTEST_INCREMENT and share - path.share <= SHORTEST_INCREMENT and share < 1.0
        return Verdict.LOSE if ends else Verdict.ACCEPT

    def _slides(self, path: Path, outcome: NewtonOutcome, made: float) -> bool:
        """Whether a shorter increment is worth while, since a point slid too far along a rough obstacle."""
        again = path.failures < self.options.max_increment_failures
        return again and made > 1e-3 * MAX_NODE_STEP and self.slide(path, outcome) > 1.0

    def _jumps(self, path: Path, outcome: NewtonOutcome, made: float) -> bool:
        """Whether the equilibrium may lie on another branch: its prediction misses it by far.

        A body that does not find its way along the path may come to rest at any equilibrium that is stable.
        """
        options = self.options
        again = path.failures < options.max_increment_failures
        if not (
            self.loading.bends
            and again
            and made > 1e-3 * MAX_NODE_STEP
            and missed(path, outcome) > options.branch_jump_share
        ):
            return False
        return not (self._collapses(path) and self.newton.is_stable(self.problem, outcome.point, outcome.target))

    def _turned(self, path: Path, outcome: NewtonOutcome) -> Verdict:
        """Return what is to be said of a share that falls: a limit where it has just turned, or the chamber runs away."""
        if outcome.point.load_factor < -1.0:  # farther than the command it is not followed back
            return Verdict.LOSE
        rising = len(path.marks) < 2 or path.marks[-1].share > path.marks[-2].share
        return Verdict.LIMIT if rising or self._runs_away(outcome.evaluation.scalars) else Verdict.ACCEPT

    def slide(self, path: Path, outcome: NewtonOutcome) -> float:
        """Return how far a point that touches a rough obstacle slid in this increment, over what it may."""
        contact, forces, there = self.problem.contact, outcome.evaluation.contact, outcome.target.contact_state
        here = path.state.contact_state
        if contact is None or forces is None or there is None or here is None or not contact.friction:
            return 0.0
        return contact.slide(path.state.point.x, outcome.point.x, here, there, forces) / self.options.max_slide_edges

    def _collapses(self, path: Path) -> bool:
        """Whether increments would become short, or fail often, if this one failed."""
        return path.rests or path.creeps(self.options)

    # ---- accept

    def accept(self, path: Path, outcome: NewtonOutcome) -> Path:
        """Return the path with an equilibrium more, and with the length of the next increment."""
        options, forces = self.options, outcome.evaluation.contact
        made = longest_displacement(outcome.point.x - path.state.point.x)
        miss = missed(path, outcome) * min(1.0, made / options.min_step_bound_rel)
        touching = forces is not None and forces.count > 0
        pace = np.sqrt((2 if touching else 1) * options.easy_iterations / max(outcome.effort, 1))
        pace = min(pace, np.sqrt(options.prediction_miss_share / miss) if miss > 0.0 else np.inf)
        pace = float(np.clip(pace, 1.0 / options.max_increment_growth, options.max_increment_growth))
        begins = path.state is self.start
        state = next_state(replace(path.state, target=self.loading.origin) if begins else path.state, outcome)
        mark = self._mark(outcome.point, outcome.evaluation.scalars, outcome.point.load_factor, made)
        length = min(pace * max(made, 1e-9), MAX_NODE_STEP)
        marks, left = (*path.marks, mark), path.left
        if outcome.start is None and made > max(options.snap_displacement_rel, 2.0 * min(path.length, MAX_NODE_STEP)):
            left = (*left, self._left(path, far=True))
        return replace(
            path, left=left, state=state, outcome=outcome, marks=marks, length=length, failures=0, beyond=None
        )

    def _mark(self, point: Configuration, scalars: Floats, share: float, made: float = 0.0) -> PathPoint:
        aim = self.loading.aim(share, None)
        return PathPoint(replace(point, load_factor=share), aim.conjugate(point, scalars), scalars, made)

    def sharpened(self, path: Path, budget: Budget) -> Path:
        """Return the path with its last equilibrium brought to the tolerance, where that was found with a rough residual."""
        if path.share == 0.0 or self.passing(path) == 0.0 or len(path.marks) < 2:
            return path
        aim = self.loading.aim(path.share, path.state.contact_state)
        outcome = self.newton.equilibrium(self.problem, path.state.point, aim, budget)
        if outcome.status is not Status.CONVERGED:
            return path
        state = replace(next_state(path.state, outcome), before=path.state.before)
        mark = self._mark(outcome.point, outcome.evaluation.scalars, path.share, path.marks[-1].made)
        return replace(path, state=state, outcome=outcome, marks=(*path.marks[:-1], mark))

    # ---- nested start

    def _may_nest(self, path: Path) -> bool:
        """Whether to try a nested start: once, where chambers grow and parts of the body may meet.

        Landings fail on walls that are sucked together: a box at V/V0 = 0.2 takes 93 iterations instead of 77.
        """
        loading = self.loading
        shrinks = bool((loading.end.by_value & (loading.end.scalars < loading.origin.scalars)).any())
        small = self.problem.pattern.size < MIN_NESTED_UNKNOWNS
        if self.foretell is None or small or path.leapt >= 0.0 or loading.bends or shrinks:
            return False
        contact = self.problem.contact
        meets = contact is not None and contact.neighbourhood is not None
        return meets and has_potential(self.problem, self.loading.aim(1.0, path.state.contact_state))

    def nested(self, path: Path) -> Path:
        """Return the path with the equilibrium that quadratic elements reach from the end of the linear ones' way."""
        assert self.foretell is not None
        path, way = replace(path, leapt=path.share), self.foretell()
        start = None if way is None else landing(self.problem, way, path.share)
        if start is None:
            return path
        aim = self.loading.aim(start.load_factor, path.state.contact_state)
        landed = Minimisation(
            self.newton,
            self.problem,
            aim,
            self.budget,
            farthest=MAX_LANDING_MISS * longest_displacement(start.x - path.state.point.x),
            passing=self.passing(path) if aim.load_factor < 1.0 else 0.0,
            max_iterations=MAX_LANDING_ITERATIONS,
            first_drag=LANDING_DRAG,
        ).run(start)
        found = landed.status is Status.CONVERGED
        if found and self.newton.is_stable(self.problem, landed.point, landed.target) is not False:
            return self.accept(path, replace(landed, start=start))
        return path

    # ---- leap

    def _may_leap(self, path: Path, failed: NewtonOutcome) -> bool:
        """Whether minimisations under dead loads far ahead are tried: where parts touch, and the body has a potential."""
        met = failed.evaluation.contact
        return self._leaps_next(path) and met is not None and len(met.pairs) > 0

    def _leaps_next(self, path: Path) -> bool:
        """Whether leaps are to come where parts meet: the body has a potential, and they were not tried near."""
        if self.beyond or path.beyond is not None or not self.loading.bends:
            return False
        if path.share <= path.leapt:
            return False
        aim = self.loading.aim(path.share, path.state.contact_state)
        return not aim.scalar_rates.any() and has_potential(self.problem, aim)

    def leap(self, path: Path, failed: NewtonOutcome) -> Iterator[Path]:
        """Yield the path with one equilibrium after the other that leaps certify; the first begins where Newton ended."""
        path = replace(self.sharpened(path, self.budget), leapt=path.share)
        yield path
        aim = self.loading.aim(path.share, path.state.contact_state)
        point = replace(path.state.point, load_factor=path.share)
        evaluation = self.newton.evaluate(self.problem, point, aim.at(point), matrix=True)
        here = NewtonOutcome(Status.CONVERGED, point, evaluation, 0.0, 0, aim.at(point))
        a, b = self.loading.origin, self.loading.end
        start = failed.point if self.loading.sucks and np.isfinite(failed.evaluation.energy) else None
        for reached in Leaps(self.newton, self.problem, a, b, path.state.contact_state, self.budget).run(here, start):
            path = replace(self.accept(path, reached), leapt=reached.point.load_factor)
            yield path

    # ---- shorten, relax

    def again(self, path: Path, outcome: NewtonOutcome, tried: float) -> Path | tuple[Path, Status, str]:
        """Return the path with a shorter increment ahead, or from the next stable state where increments have become short."""
        options, singular = self.options, outcome.status is Status.SINGULAR
        if not self.loading.bends and tried < self.min_increment:
            return self.last_resort(path, outcome)
        shorter = path.shortened(options)
        if self._may_relax(path, outcome):
            relaxed = self.relax(path, path.share)
            # a body whose pressures and loads stay as they are goes to its next state, however far that lies
            if relaxed.far and (self.beyond or not self.loading.bends):
                relaxed = self.relax(relaxed.path, path.share, np.inf)
            if relaxed.found:
                return relaxed.path
            shorter = replace(shorter, ahead=relaxed.path.ahead)
        if shorter.failures > (3 if singular else options.max_increment_failures):
            return self.last_resort(shorter, outcome)
        return shorter

    def _may_relax(self, path: Path, outcome: NewtonOutcome) -> bool:
        """Whether increments have become short on a path with kinks, and a next state was not sought so near."""
        if self.skip_relaxation or outcome.status is Status.SINGULAR or path.ahead <= self._bracket(path.share):
            return False
        return self._collapses(path) and self._has_kinks(path, outcome)

    def _has_kinks(self, path: Path, outcome: NewtonOutcome) -> bool:
        """Whether contact, which makes kinks, is met by an attempt; a path without is followed, however it turns."""
        met = outcome.evaluation.contact
        return path.touches or not self.loading.bends or (met is not None and met.count > 0)

    def relax(self, path: Path, share: float, farthest: float | None = None) -> Relaxed:
        """Return the path from the next stable state a little beyond a share of the command, if there is one in reach."""
        options = self.options
        within = options.snap_displacement_rel if farthest is None else farthest
        most = min(options.relaxation_load_ahead, path.ahead, self.loading.longest_step(path.state, share))
        step, began = min(most, 1.0 - share), len(self.budget.records)
        aim = self.loading.aim(share + step, path.state.contact_state)
        passing = min(self.passing(path), options.passed_residual) if share + step < 1.0 else 0.0
        outcome = relaxed_equilibrium(self.newton, self.problem, path.state.point, aim, within, self.budget, passing)
        if outcome.status is not Status.CONVERGED:
            self.budget.discard(began)
            return Relaxed(replace(path, ahead=0.5 * step), False, outcome.far)
        far = longest_displacement(outcome.point.x - path.state.point.x) > options.snap_displacement_rel
        # from rest it has lost no path, unless it goes far: the first step was barred by what it would meet
        left = (*path.left, self._left(path, far)) if far or path.share > 0.0 else path.left
        mark = self._mark(outcome.point, outcome.evaluation.scalars, share + step)
        state = replace(next_state(path.state, outcome), before=())
        return Relaxed(Path(state, outcome, (mark,), ahead=step, leapt=path.leapt, left=left), True, False)

    def _left(self, path: Path, far: bool) -> dict[str, Any]:
        """Return where the body leaves its path for another state."""
        load = load_at(self.problem, self.loading.origin, self.loading.end, path.share, path.state.scalars)
        return {"share": path.share, "load": load, "far": far}

    def _bracket(self, share: float) -> float:
        """Step in the share to which a limit there is known."""
        return self.options.limit_load_bracket * max(share, self.options.limit_load_bracket)

    def _relax_near(self, path: Path, share: float) -> Relaxed:
        """Go to the next stable state, asked for so near that what the body goes is its snap and not the load's way.

        Walls that touch or are sucked together most often come to rest near: they are asked for a state farther on at first.
        """
        if self.loading.sucks or path.touches:
            relaxed = self.relax(path, share)
            if relaxed.found or not (relaxed.far and path.touches):
                return relaxed
            path = relaxed.path
        return self.relax(replace(path, ahead=min(path.ahead, self._bracket(share))), share)

    # ---- the end of a path

    def last_resort(self, path: Path, outcome: NewtonOutcome) -> Path | tuple[Path, Status, str]:
        """Go downhill once more; a body that goes far however near it is asked to go has its limit there."""
        step = min(self.options.relaxation_load_ahead, path.ahead)
        if self.skip_relaxation or step < self.min_increment or not self._descends(path):
            return self._lost(path, outcome)
        relaxed = self._nearest_rest(path)
        if relaxed.found:
            return relaxed.path
        limit = relaxed.far and self.loading.bends
        return self._limit(path, path.share, path.state.scalars) if limit else self._lost(path, outcome)

    def _nearest_rest(self, path: Path) -> Relaxed:
        """Go to a stable state, asked for from ever nearer while the body goes far; however far where no load is on its way."""
        relaxed = self.relax(path, path.share)
        if not self.loading.bends:
            return self.relax(relaxed.path, path.share, np.inf) if relaxed.far and not relaxed.found else relaxed
        while not relaxed.found and relaxed.far and relaxed.path.ahead >= self._bracket(path.share):
            relaxed = self.relax(relaxed.path, path.share)
        return relaxed

    def _descends(self, path: Path) -> bool:
        return has_potential(self.problem, self.loading.aim(1.0, path.state.contact_state))

    def at_limit(self, path: Path) -> Path | tuple[Path, Status, str]:
        """Name the maximum of the load that the last equilibria enclose; or go on beyond it."""
        top = max(mark.share for mark in path.marks)
        if not self.beyond:
            relaxed = self._relax_near(path, top)
            if relaxed.found:
                return relaxed.path
        elif not self._runs_away(path.state.scalars):
            # where creeping ends nowhere the path itself leads on, through states that do not last
            relaxed = self.relax(path, top, np.inf)
            return relaxed.path if relaxed.found else path
        share, volumes, found = self._way(path).maximum(self.budget)
        for outcome in found:
            mark = self._mark(outcome.point, outcome.evaluation.scalars, outcome.point.load_factor)
            path = replace(path, state=next_state(path.state, outcome), outcome=outcome, marks=(*path.marks, mark))
        return self._limit(path, share, volumes)

    def _limit(self, path: Path, share: float, volumes: Floats) -> tuple[Path, Status, str]:
        """Name the largest load that the body bears on the way, where its chambers have volumes (d,)."""
        a, b = self.loading.origin, self.loading.end
        message = limit_reached(self.problem, a, b, share, volumes)
        if (between := self._way(path).branches_before_limit(replace(self.budget, records=[]))) is not None:
            low, high = (load_at(self.problem, a, b, mark.share, mark.scalars) for mark in between)
            message += f" The body buckles before: its path branches between{low} and{high}; take an `imperfection`."
        if self.beyond:
            message += f" No state that lasts lies beyond it up to V/V0 = {MAX_VOLUME_RATIO:g}."
        return path, Status.PRESSURE_LIMIT, f"{Status.PRESSURE_LIMIT.value} {message}"

    def _runs_away(self, volumes: Floats) -> bool:
        """Whether a chamber has grown out of all proportion."""
        return float(ratios(self.problem, volumes).max(initial=0.0)) >= MAX_VOLUME_RATIO

    def _lost(self, path: Path, outcome: NewtonOutcome | None) -> tuple[Path, Status, str]:
        """Say why a command could not be reached."""
        known = outcome is not None and outcome.status in (Status.SINGULAR, Status.INVERTED)
        status = outcome.status if known and outcome is not None else Status.NOT_CONVERGED
        why = way_reached(self.problem, path.share, path.state.scalars, outcome)
        if self._runs_away(path.state.scalars) and self.loading.bends and not path.left:
            # a path that turns ends at its limit, or goes to another state
            why += f" The load rose all the way there, without a limit, to more than V/V0 = {MAX_VOLUME_RATIO:g}: ask for less."
        return path, status, f"{status.value} {why}"

    def _way(self, path: Path) -> EquilibriumPath:
        a, b = self.loading.origin, self.loading.end
        return EquilibriumPath(self.newton, self.problem, a, b, path.state.contact_state, path.marks)

    def _ended(self, path: Path, first: int, status: Status, message: str) -> StepOutcome:
        """Return where the command ended; its records from the first on say in words where the tangent was indefinite."""
        if status is not Status.CONVERGED and path.share < 1.0:
            path = self.sharpened(path, replace(self.budget, seconds=np.inf, factorisations=np.inf))
        for record in self.budget.records[first:]:
            if isinstance(met := record.get("indefinite"), tuple):
                record["indefinite"] = load_at(self.problem, self.loading.origin, self.loading.end, *met)
        return StepOutcome(path.state, path.share, path.outcome, status, message, self._way(path), path.left)


def missed(path: Path, outcome: NewtonOutcome) -> float:
    """How far the prediction was from the equilibrium, over its own length."""
    if outcome.start is None:
        return 0.0
    length = longest_displacement(outcome.start.x - path.state.point.x)
    return longest_displacement(outcome.point.x - outcome.start.x) / length if length > 0.0 else 0.0
