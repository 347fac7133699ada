"""A part of the benchmark of rods and shells against what is known, seed by seed and case by case."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def truth():
    sys.path.insert(0, str(BENCHMARKS))  # its scripts import each other
    try:
        return importlib.import_module("rods_truth")
    finally:
        sys.path.remove(str(BENCHMARKS))


@pytest.mark.parametrize("integrator", ["implicit-euler", "generalized-alpha"])
def test_random_rods_that_fly_at_each_other_do_not_pass(truth, integrator):
    assert [truth.pair_passes(seed, integrator) for seed in range(3)] == [(False, "CONVERGED")] * 3


@pytest.mark.parametrize("kind", ["sphere", "bar", "box", "mesh"])
def test_random_rods_that_fly_at_small_obstacles_do_not_pass(truth, kind):
    assert [truth.rod_passes(kind, seed) for seed in range(2)] == [(False, "CONVERGED")] * 2


def test_passing_is_seen(truth):
    """By the count that the two tests above rest on: one rod moved through the other."""
    robot = truth.flying_pair(0)
    through = robot.vertices.copy()
    through[6:] += (robot.velocities[6:]) * 4 * truth.DT
    assert truth.crossings(robot.vertices, through, 6) == 1


@pytest.mark.parametrize(("case", "cells"), [("roof", 36), ("pinched", 38), ("hemisphere", 48)])
def test_curved_shells_are_within_two_percent_at_fifteen_thousand_triangles(truth, case, cells):
    ratio, triangles = getattr(truth, case)("diagonal", cells)
    assert triangles < 15_000
    assert ratio == pytest.approx(1.0, abs=0.02)
