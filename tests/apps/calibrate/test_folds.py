"""Measurements left out are predicted by the rest, whatever solves them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from geosim.calibrate import Measurement, Parameter, Problem, fit_robot, k_fold
from shapes import block

import geosim
from geosim.errors import InputError

LOADS = (1.0, 2.0, 3.0, 4.0)


def robot():
    vertices, tets = block((0.03, 0.01, 0.01), (1, 1, 1))
    return geosim.VolumetricRobot.from_tets(
        vertices, tets, material=geosim.NeoHookean(100e3), fixed=vertices[:, 0] < 1e-9
    )


def spring(made, actuation, environment, solver=None):
    """Stands for a solve: as far as the load over the modulus."""
    (material,) = made.materials.values()
    return SimpleNamespace(moved=np.array([1e5 * environment / material.shear_modulus]))


def records(truth):
    return [
        Measurement(geosim.Passive(), lambda r: r.moved, [truth(load)], load, 0.01, f"load {load:g}") for load in LOADS
    ]


def test_a_model_that_is_right_predicts_what_was_left_out():
    found = k_fold(robot(), records(lambda f: f / 0.8), [Parameter.material("mu", 100e3)], solve=spring, tolerance=1e-8)
    assert found.parameters.shape == (4, 1)
    np.testing.assert_allclose(found.parameters, 80e3, rtol=1e-6)
    assert found.rms < 1e-3
    assert "80000" in found.lines()[1]


def test_a_model_that_is_wrong_is_further_off_than_its_residuals():
    """y = f + 0.1 f^2 against y = f / mu: left out, each is off by what least squares through the origin of the rest says."""
    truth = lambda f: f + 0.1 * f**2  # noqa: E731
    found = k_fold(robot(), records(truth), [Parameter.material("mu", 100e3)], solve=spring, tolerance=1e-8)
    loads = np.array(LOADS)
    for i, load in enumerate(LOADS):
        rest = np.delete(loads, i)
        slope = (rest * truth(rest)).sum() / (rest**2).sum()
        np.testing.assert_allclose(found.predicted[i], slope * load, rtol=1e-5)
        np.testing.assert_allclose(found.scaled[i], (slope * load - truth(load)) / 0.01, rtol=1e-3)
    assert found.rms > 1.2 * found.whole.rms
    assert found.factor == pytest.approx(2.7764 * found.rms, rel=1e-4)  # Student, four measurements
    halves = k_fold(robot(), records(truth), [Parameter.material("mu", 100e3)], 2, solve=spring, tolerance=1e-8)
    assert len(halves.parameters) == 2


def test_what_cannot_be_folded_is_refused():
    one = [Parameter.material("mu", 100e3)]
    with pytest.raises(InputError, match="2"):
        k_fold(robot(), records(lambda f: f)[:1], one, solve=spring)
    with pytest.raises(InputError, match="5 folds of 4"):
        k_fold(robot(), records(lambda f: f), one, 5, solve=spring)


def test_a_prior_is_one_more_measurement():
    """y = f / mu with ln mu known within 0.2 beforehand: of n equal sigmas s in ln y, weights are n / s^2 and 1 / 0.2^2."""
    known = [
        Measurement(geosim.Passive(), lambda r: np.log(r.moved), [np.log(load / 0.8)], load, 0.3, f"{load:g}")
        for load in LOADS
    ]
    one = Parameter.material("mu", 100e3, prior=0.2)
    found = fit_robot(robot(), known, [one], solve=spring, tolerance=1e-8)
    own, before = len(LOADS) / 0.3**2, 1 / 0.2**2
    expected = np.log(100e3) + own / (own + before) * np.log(0.8)
    assert np.log(found.parameters["mu"]) == pytest.approx(expected, abs=1e-5)
    low, high = found.intervals["mu"]
    assert np.log(high / low) == pytest.approx(2 * 1.959964 / np.sqrt(own + before), rel=1e-3)
    assert len(found.residuals) == len(LOADS)


def test_priors_make_what_cannot_be_told_apart_known_as_well_as_before():
    """The load moves by f / (mu t): with a prior of t one value determines both, and their product best."""
    thick = lambda p, t: Problem(p.robot, p.actuation, p.environment * t, p.solver)  # noqa: E731
    one = [Measurement(geosim.Passive(), lambda r: r.moved, [1.0], 1.0, 1e-3)]
    pair = [Parameter.material("mu", 100e3), Parameter("t", 1.0, thick, prior=0.1)]
    found = fit_robot(robot(), one, pair, solve=spring, tolerance=1e-8)
    low, high = found.intervals["t"]
    assert np.log(high / low) == pytest.approx(2 * 1.959964 * 0.1, rel=1e-3)
    assert any("hardly told apart" in w for w in found.warnings)
    with pytest.raises(InputError, match="prior"):
        Parameter("t", 1.0, thick, prior=-0.1)
    with pytest.raises(InputError, match="cannot determine"):
        fit_robot(robot(), one, [pair[0], Parameter("t", 1.0, thick)], solve=spring)
