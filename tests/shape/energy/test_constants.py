"""Constants of Newton's method and of the path: with another value of each a small case takes more iterations, or ends elsewhere.

The table of docs/load-paths.md gives the iterations that were measured. The factors below are smaller: a body in contact takes
a few iterations more or fewer on another CPU.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from path_cases import Outcome, constants, other_values, outcome

from geosim.shape.energy.newton.budget import Budget
from geosim.shape.energy.newton.minimise import MAX_DRAG
from geosim.shape.energy.path.leaps import MAX_FIRST_LEAP_DRAG, Leaps, PathEnd, is_path


@dataclass(frozen=True)
class Kept:
    """What another value of a constant does.

    Parameters
    ----------
    other
        The other value.
    case
        Name of the case that moves.
    grows
        Factor by which its Newton iterations grow at least, or what else of an `Outcome` is counted (`counts`).
    status
        Status with the other value, where the case ends otherwise.
    given
        Constants that have another value in both solves.
    """

    other: Any
    case: str
    grows: float = 0.0
    counts: str = "iterations"
    status: str = ""
    given: tuple[tuple[str, Any], ...] = ()


NESTED = (("MIN_NESTED_UNKNOWNS", 0),)  # on a mesh that is small for a test

KEPT: dict[str, Kept] = {
    # continuation: lengths of increments, what is said of an attempt, relaxations
    "max_slide_edges": Kept(1e3, "rough ball, far", grows=1.25),
    "prediction_miss_share": Kept(0.15, "tendon", grows=1.5),
    "branch_jump_share": Kept(0.15, "arch", grows=1.2),
    "snap_displacement_rel": Kept(1e3, "arch", status="CONVERGED"),
    "limit_load_bracket": Kept(1e-3, "arch", status="NOT_CONVERGED"),
    "min_step_bound_rel": Kept(1e-9, "tendon", grows=1.5),
    "retry_length_share": Kept(0.9, "arch", grows=1.3),
    "easy_iterations": Kept(1, "bar", grows=2.0),
    "passed_residual": Kept(0.0, "balloon", grows=1.1),
    "relaxation_load_ahead": Kept(1e-3, "vacuum", grows=1.2),
    "SHORTEST_INCREMENT": Kept(1e-2, "arch", grows=1.4),
    "MAX_GROUP_TURN_RAD": Kept(1e3, "twisted bar", grows=1.4),
    # nested start
    "MIN_NESTED_UNKNOWNS": Kept(1e9, "twins", grows=1.6, given=NESTED),
    "MAX_LINEAR_FACTORISATIONS": Kept(2, "twins", grows=1.6, given=NESTED),
    "MAX_LANDING_ITERATIONS": Kept(2, "twins", grows=1.6, given=NESTED),
    "LANDING_DRAG": Kept(1e8, "twins", grows=1.6, given=NESTED),
    "MAX_LANDING_MISS": Kept(1e-4, "twins", grows=1.6, given=NESTED),
    # Newton's method
    "factor_reuse_residual": Kept(0.0, "bar", grows=1.4, counts="factorisations"),
    "factor_patience": Kept(0.0, "bar", grows=1.4, counts="factorisations"),
    "FACTOR_REUSE_RESIDUAL_TOUCHING": Kept(0.0, "rough ball", grows=1.5, counts="factorisations"),
    "INEXACT_STEP_SHARE": Kept(1e-9, "two levels", grows=1.3, counts="krylov"),
    "MAX_FRICTION_ROUNDS": Kept(3, "rough ball", grows=1.2),
    "MAX_CABLE_ROUNDS": Kept(4, "rough cable", status="NOT_CONVERGED"),
    "CABLE_UPDATE_RESIDUAL": Kept(1e-9, "rough cable", grows=1.2),
    "PASSED_EQUILIBRIUM_RESIDUAL": Kept(1e-9, "sphere", grows=1.25),
    "MAX_SHORT_STEPS_TOUCHING": Kept(1, "tendon", grows=1.5),
    "EXACT_CONTACT_RESIDUAL": Kept(0.02, "shut", grows=1.5),
    "PATH_TANGENT_RESIDUAL": Kept(1e9, "sphere", grows=2.0, counts="indefinite"),
    "MAX_NODE_STEP": Kept(0.03, "bar", grows=1.2),
    "MAX_FREE_BODY_TURN_RAD": Kept(0.02, "rod in a bowl", grows=1.25),
    "MAX_VOLUME_CHANGE_REL": Kept(1e3, "balloon", grows=1.25),
    # minimisation
    "MAX_VOLUME_RATIO": Kept(20.0, "balloon, dynamic", grows=2.0),
    "CONTACT_SHARES": Kept((0.0,), "shut, far", grows=1.2),
    "DRAG_RISE": Kept(1.3, "shut, far", grows=1.4, counts="factorisations"),
    "DRAG_FALL": Kept(1.2, "shut, far", grows=1.2),
    "ARMIJO_DECREASE": Kept(0.6, "shut, far", grows=1.25),
    "GOOD_MODEL_RATIO": Kept(3.0, "shut, far", grows=1.5),
}

# Another value of what leaps go by: with it a body bears less of the way, or a snap is taken for a path.
OF_LEAPS = {"LEAP_GROWTH": 1e3, "MAX_LEAPS": 2, "MAX_FAILED_LEAPS": 1, "MIN_LEAP_SHARE": 0.3}
OF_SNAPS = {"MAX_ENERGY_MISSED": 1e3, "MAX_JUMP": 1e3}

# Tolerances, and bounds of loops that no case reaches: they are not ablated.
TOLERANCES = {
    "FORCE_FLOOR": "round-off of the rest shape",
    "LEAST_CARRIED_MOVE_REL": "round-off of held positions",
    "NEAR_RESIDUAL": "below it differences of the merit are round-off, and the residual decides",
    "SLOPE_ACCURACY": "of a derivative that is compared to a tenth",
    "MAX_ATTEMPTS": "ends a path that gets nowhere; no command has come near it",
    "MAX_DRAG": "ends a search for a convex matrix: a drag that holds every node",
    "MAX_TRIALS": "12 halvings leave 2e-4 of a step",
}

# Constants without a small case, and what was measured.
WITHOUT_CASE = {
    "MAX_FIRST_LEAP_DRAG": "a finger of 37 CPU s beyond its limit takes 210 iterations with twice as much, 61 with it",
    "FIRST_DRAG": "an arch that creeps takes 214 iterations, 195 with 1 and 211 with 1e6",
    "MAX_RELAXATION_STEPS": "an arch that creeps takes 214 iterations; with 2 its path leads there in 59",
    "collapsed_increment_share": "a shallow arch takes 35 iterations, 36 with 1e-9 and with 0.9; a box 64, and 66 with 0.9",
    "max_increment_growth": "a bar and a balloon take the same with 10, a sphere with 1.1",
    "max_increment_failures": "a bar onto a ball takes 247 iterations, 152 with 1",
    "MAX_FINISHING_STEPS": "a bar on a rough ball takes 37 iterations, 31 with none",
    "MIN_FIRST_STEP_SHARE": "bellows take the same with 1e-9, a bar on a rough ball with 0.99",
    "SHORT_STEP": "a balloon takes the same with 1e-9, a bar with 0.9",
    "MAX_SHORT_STEPS": "a balloon and a bar onto a ball take the same with 100",
    "SHORT_STEP_TOUCHING": "a bar on a rough ball takes 37 iterations, 22 with 1e-9",
    "MIN_DRAG": "a box to V/V0 = 0.18 takes 55 iterations, 49 with 1e-4 and 56 with 1e4",
    "LEAST_DRAG": "a box to V/V0 = 0.18 takes 55 iterations, 57 with 1e-6 and 42 with 100",
    "RESIDUAL_DECREASE": "a box to V/V0 = 0.18 takes the same with none",
    "EXTENDING_SLOPE": "a box to V/V0 = 0.18 takes 55 iterations, 59 without longer steps; bellows the same",
    "PENALTY_STIFFNESS": "a box to V/V0 = 0.18 takes 55 iterations, 59 with 1e3 and with 1e5",
}


@cache
def usual(case: str, given: tuple[tuple[str, Any], ...]) -> Outcome:
    """Solve a case once for all constants that it stands for."""
    with other_values(**dict(given)):
        return outcome(case)


def test_every_constant_has_a_case_or_a_reason_for_none():
    names = [name for _, name, _ in constants()]
    assert sorted([*KEPT, *OF_LEAPS, *OF_SNAPS, *TOLERANCES, *WITHOUT_CASE]) == sorted(names)


@pytest.mark.slow
@pytest.mark.parametrize("name", KEPT)
def test_another_value_moves_its_case(name):
    kept = KEPT[name]
    old = usual(kept.case, kept.given)
    with other_values(**{**dict(kept.given), name: kept.other}):
        new = outcome(kept.case)
    if kept.status:
        assert old.status != new.status == kept.status
    assert getattr(new, kept.counts) >= kept.grows * max(getattr(old, kept.counts), 1)


def path_end(share: float, jump: float = 0.0, lost: float = 0.0) -> PathEnd:
    """Return an end of the path g = s + 0.4 s^2, after a snap that added to g and lost energy."""
    point = SimpleNamespace(load_factor=share)
    energy = -(share**2) / 2.0 - 0.4 * share**3 / 3.0 - lost
    return PathEnd(SimpleNamespace(point=point), energy, share + 0.4 * share**2 + jump, 1.0 + 0.8 * share)


@dataclass(frozen=True)
class ShortLeaps(Leaps):
    """Leaps of a body that bears no leap farther than 0.3 of the command; `tried` is where they began and the drag allowed."""

    tried: list = field(default_factory=list)

    def at_end(self, outcome):
        return path_end(0.0)

    def leap(self, last, share, start, max_drag):
        self.tried.append((last.share, max_drag))
        return path_end(share) if share - last.share <= 0.3 else None


def reached() -> float:
    """Return how far leaps lead that begin where parts met, at 0.2 of the command."""
    leaps = ShortLeaps(None, None, None, None, None, Budget())
    return max((found.point.load_factor for found in leaps.run(None, SimpleNamespace(load_factor=0.2))), default=0.0)


def test_only_the_first_leap_is_given_up_for_its_drag():
    leaps = ShortLeaps(None, None, None, None, None, Budget())
    assert len(list(leaps.run(None, SimpleNamespace(load_factor=0.2)))) > 1
    assert {drag for share, drag in leaps.tried if share == 0.0} == {MAX_FIRST_LEAP_DRAG}
    assert {drag for share, drag in leaps.tried if share > 0.0} == {MAX_DRAG}


@pytest.mark.parametrize("name", OF_LEAPS)
def test_with_another_value_leaps_lead_less_far(name):
    far = reached()
    with other_values(**{name: OF_LEAPS[name]}):
        assert reached() < 0.5 * far


@pytest.mark.parametrize(
    ("name", "a", "b"),
    [
        ("MAX_ENERGY_MISSED", path_end(0.4), path_end(0.6, jump=0.2, lost=0.12)),
        ("MAX_JUMP", path_end(0.9), path_end(1.0, jump=1.0)),
    ],
)
def test_a_snap_that_one_criterion_alone_tells_from_a_path(name, a, b):
    assert not is_path(path_end(0.0), a, b)
    with other_values(**{name: OF_SNAPS[name]}):
        assert is_path(path_end(0.0), a, b)
