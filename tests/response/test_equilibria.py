"""Equilibria as functions of numbers: slopes are differences of equilibria, pull-backs are their contractions."""

from __future__ import annotations

import numpy as np
import pytest
from shapes import block

import geosim
from geosim import EnergyShapeSolver, Environment
from geosim.errors import InputError
from geosim.response.controls import box_of
from geosim.response.equilibria import EquilibriumFunction

SHARP = EnergyShapeSolver(element="p1", tolerance=1e-11, check_stability=False)
OF = ("positions", "tip", "bend_angle", "chamber_pressures", "chamber_volumes")


@pytest.fixture(scope="module")
def function() -> EquilibriumFunction:
    """A bar of 4 x 3 x 3 cells with a cavity off its middle, by its volume and the constant c1."""
    vertices, tets = block((0.04, 0.012, 0.012), (4, 3, 3))
    vertices[vertices[:, 2] > 0.0079, 2] += 0.002
    inside = (np.abs(vertices[tets].mean(axis=1) - (0.02, 0.006, 0.007)) < (0.01, 0.002, 0.003)).all(axis=1)
    ends = vertices[:, 0] < 1e-9, vertices[:, 0] > 0.04 - 1e-9
    rubber = geosim.MooneyRivlin(c1=40e3, c2=10e3)
    robot = geosim.VolumetricRobot.from_tets(
        vertices, tets, inside.astype(int), material=rubber, fixed=ends[0], tip=ends[1]
    )
    return EquilibriumFunction(
        robot, material=("c1",), of=OF, environment=Environment(self_contact=False), solver=SHARP
    )


def test_slopes_of_all_measures_are_differences_of_equilibria(function):
    row, steps = np.array([1.3, 40e3]), np.array([1e-4, 4.0])
    slopes = function.slopes(function.results(row[None])[0])
    for k, step in enumerate(steps):
        sides = [function.outputs(function.results((row + h * np.eye(2)[k])[None])) for h in (step, -step)]
        for name, slope, high, low in zip(OF, slopes, *sides):
            found, scale = np.ravel(high - low) / (2.0 * step), np.abs(high).max() / row[k]
            np.testing.assert_allclose(slope[:, k] / scale, found / scale, atol=3e-5, err_msg=name)


def test_a_pull_back_is_the_contraction_of_the_slopes(function):
    result = function.results(np.array([[1.3, 40e3]]))[0]
    rng = np.random.default_rng(0)
    cotangents = [rng.standard_normal(np.shape(one)[1:]) for one in function.outputs([result])]
    expected = sum(np.ravel(c) @ slope for c, slope in zip(cotangents, function.slopes(result)))
    np.testing.assert_allclose(function.pulled_back(function.tangent(result), cotangents), expected, rtol=1e-7)


def test_bounds_are_for_all_controls_or_for_each(function):
    np.testing.assert_array_equal(box_of(function.robot, "volume_ratio", (1.0, 2.0), "test"), [[1.0, 2.0]])
    with pytest.raises(InputError, match=r"test: bounds .* must rise"):
        box_of(function.robot, "volume_ratio", (2.0, 1.0), "test")
    with pytest.raises(InputError, match="this robot has none"):
        box_of(function.robot, "cable_length", None, "test")
