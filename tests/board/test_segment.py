"""A segment conditioned on the lower half of its tests: truth that is made with the priors' own unknowns is found again."""

from __future__ import annotations

import numpy as np
import pytest

CHAINS, STEPS = 150, 40


@pytest.fixture(scope="module")
def fitted(board):
    return board("segment_fitted")


@pytest.fixture(scope="module")
def curves(fitted):
    return fitted.read_curves()


def truth(fitted, curves, seed, pressures):
    """Values (p,) of both measures at pressures [Pa] of one draw of the priors."""
    one = fitted.drawn(np.random.default_rng(seed).standard_normal((1, 7)))
    return {m: one.values(curves, m, pressures)[0] for m in fitted.MEASURES}


def test_a_rising_pressure_passes_over_what_lies_below_it(fitted):
    """Up to the limit at 2, down, and up again beyond 2: a line through 0 below, a jump between, squares beyond."""
    value, pressure = np.array([1.0, 2.0, 3.0, 4.0, 8.0, 16.0, 12.0]), np.array([1.0, 2.0, 1.5, 1.8, 3.0, 4.0, 9.0])
    found = np.exp(fitted.rising(pressure, value, np.array([0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0])))
    np.testing.assert_allclose(found[[0, 1, 2, 4, 5]], [0.5, 1.0, 2.0, 3.0, 4.0], rtol=1e-12)
    assert 2.0 < found[3] < 3.0
    assert found[6] == pytest.approx(4.0 * 2.0 ** (1.0 / fitted.TAIL))


def test_forces_follow_from_the_gap_and_the_factor(fitted, curves):
    """No force before the gap of g is used up, kappa l^2 / 2 = g; from there the factor times what is solved less its share."""
    pressures = 1e3 * np.arange(1.0, 40.0)
    free = fitted.Draws(*(np.array([v]) for v in (40, 20e3, 1.0, 0.0, 1.0, 0.1)))
    held = fitted.Draws(*(np.array([v]) for v in (40, 20e3, 1.0, 2e-4, 0.7, 0.1)))
    way = 0.5 * 61.2e-3**2 * free.values(curves, "curvature", pressures)[0]
    all_, some = (d.values(curves, "blocked_force", pressures)[0] for d in (free, held))
    assert (some[way < 2e-4] == 0.0).all()
    np.testing.assert_allclose(some, 0.7 * all_ * np.maximum(1.0 - 2e-4 / way, 0.0), rtol=1e-12)
    soft = fitted.Draws(*(np.array([v]) for v in (40, 10e3, 1.0, 0.0, 1.0, 0.1)))  # half the modulus: half of p and F
    np.testing.assert_allclose(soft.values(curves, "blocked_force", 0.5 * pressures)[0], 0.5 * all_, rtol=1e-12)


def test_bars_above_what_is_fitted_cover_the_truth(fitted, curves):
    """Drawn by the priors: of 4 segments whose lower half is fitted, 85 to 100 % of what is above lies in 95 % bars."""
    low, high, inside = 1e3 * np.arange(4.0, 27.0, 4.0), 1e3 * np.arange(30.0, 56.0, 5.0), []
    for seed in range(4):
        below = truth(fitted, curves, seed, low)
        above = truth(fitted, curves, seed, high)
        tests = [(m, np.array([low, below[m]])) for m in fitted.MEASURES]
        draws = fitted.conditioned(curves, tests, CHAINS, STEPS)
        for measure, test in tests:
            values = above[measure]
            found = fitted.beyond(draws, curves, measure, high, test)
            edge = np.quantile(found, [0.025, 0.975], axis=0)
            inside += list((edge[0] <= values * 1.001) & (values <= edge[1] * 1.001))
    assert 0.85 <= np.mean(inside) <= 1.0


def test_what_is_predicted_goes_on_from_the_last_reading(fitted, curves):
    """Whatever a draw says itself, hardly beyond the end it is at the reading, and it has that shift of pressure above."""
    one = fitted.Draws(*(np.array([v]) for v in (40, 20e3, 1.0, 0.0, 1.0, 0.0)))
    end, high = 27e3, np.array([27.001e3, 31e3])
    for measure in fitted.MEASURES:
        test = np.array([[10e3, end], one.values(curves, measure, 1.1 * np.array([10e3, end]))[0]])
        found = fitted.beyond(one, curves, measure, high, test)[0]
        np.testing.assert_allclose(found, one.values(curves, measure, 1.1 * high)[0], rtol=0.06)  # the reading's noise
        assert found[1] > 1.3 * one.values(curves, measure, high)[0][1]


def test_what_is_above_is_not_read(fitted, tmp_path):
    """The upper half written as text that is no number: only a line at the split is reached."""
    folder = tmp_path / "robots" / "segments"
    folder.mkdir(parents=True)
    for measure in fitted.MEASURES:
        lines = ["pressure_kpa,value", "0.0,0.0", "10.0,0.5", "25.0,1.5", "30.0,9.0", "40.0,unknown"]
        (folder / f"cylindrical_{measure}.csv").write_text("\n".join(lines), encoding="utf-8")
    for measure in fitted.MEASURES:
        np.testing.assert_allclose(fitted.lower_half(tmp_path, measure)[1], [[10e3, 25e3], [0.5, 1.5]])


def test_chains_side_by_side_have_the_moments_of_the_density(board):
    """Two peaks of different size and an even slant: their share, mean and spread."""
    rng = np.random.default_rng(5)

    def log(x):
        peaks = np.array([np.log(0.75) - 0.5 * (x[:, 0] / 0.5) ** 2, np.log(0.25) - 0.5 * ((x[:, 0] - 4.0) / 0.5) ** 2])
        return np.logaddexp(*peaks) - 0.5 * (x[:, 1] - x[:, 0]) ** 2

    found = board("bayes").sample(log, rng.standard_normal((600, 2)) * 4.0, 150, rng)
    assert np.mean(found[:, 0] > 2.0) == pytest.approx(0.25, abs=0.07)
    assert found[found[:, 0] < 2.0, 0].std() == pytest.approx(0.5, rel=0.1)
    assert (found[:, 1] - found[:, 0]).std() == pytest.approx(1.0, rel=0.1)
