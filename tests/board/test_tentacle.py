"""Bars of left-out holds, of a model that is linear in its unknowns and so cheap."""

from __future__ import annotations

import numpy as np
import pytest

PULLS = np.array([[3.0, 0.0], [6.0, 0.0], [0.0, 4.5], [0.0, 7.5]])
ASKED = np.array([[4.5, 0.0], [0.0, 6.0], [3.0, 3.0]])
MIX = np.random.default_rng(3).standard_normal((12, 9, 3))


def linear(pull, z):
    """Places (12,) [m]: a few millimetres an unknown, in shares that turn with the pull."""
    return 2e-3 * MIX @ np.array([1.0, pull[0] / 6.0, pull[1] / 6.0]) @ z


def predicted(board, folder, places, **options):
    """Rows of four holds from each other and of three from all, of places measured (4, 12) [m]."""
    where = folder / "robots" / "tentacle"
    where.mkdir(parents=True, exist_ok=True)
    np.savetxt(where / "holds_to_fit.csv", np.c_[PULLS, places], delimiter=",", header="columns")
    np.savetxt(where / "tensions_to_predict.csv", ASKED, delimiter=",", header="columns")
    return board("tentacle").left_out(folder, linear, lambda _, __: np.zeros(12), **options)[0]


def half_widths(*given, **options):
    return np.array([0.5 * (row.high - row.low) for row in predicted(*given, **options)])


def test_bars_of_left_out_holds_are_in_proportion_to_their_errors(board, tmp_path):
    """Linear in the errors, 0 without any: nothing is added that they do not show; as first frozen the unknowns' part stays."""
    errors = 5e-3 * np.random.default_rng(0).standard_normal((4, 12))
    one, two, none = (half_widths(board, tmp_path, share * errors) for share in (1.0, 2.0, 0.0))
    np.testing.assert_allclose(two, 2.0 * one, rtol=1e-3)
    assert none.max() == pytest.approx(0.0, abs=1e-9)
    assert half_widths(board, tmp_path, 0.0 * errors, twice=True).min() > 1e-3


def test_a_bar_knows_nothing_of_the_errors_of_its_own_hold(board, tmp_path):
    """Without unknowns to fit, 10 m off in one hold: the bars of the others see it, its own do not."""
    places = np.full((4, 12), 1e-3)
    known = half_widths(board, tmp_path, places).reshape(7, 12)
    places[2] = 10.0
    rigid = pytest.MonkeyPatch()
    rigid.setattr(board("tentacle"), "identify", lambda *_: board("bayes").Fit(np.zeros(9), 1e-6 * np.eye(9)))
    half = half_widths(board, tmp_path, places).reshape(7, 12)
    rigid.undo()
    assert half[2].max() < 3.0 * known.max()
    assert np.delete(half, 2, axis=0).min() > 1.0


def test_bars_of_holds_asked_for_cover_the_truth(board, tmp_path):
    """Unknowns and what the model leaves over drawn by their priors: 95 % intervals hold 92 to 99 % of what is measured."""
    tentacle, rng, pulls = board("tentacle"), np.random.default_rng(1), np.vstack([PULLS, ASKED])
    left = np.repeat(tentacle.LEFT, 3) * tentacle.grown(pulls)[:, None]
    inside = []
    for _ in range(20):
        z = rng.standard_normal(9)
        places = np.array([linear(p, z) for p in pulls]) + left * rng.standard_normal(left.shape)
        rows = predicted(board, tmp_path, places[: len(PULLS)])
        inside += [r.low <= t <= r.high for r, t in zip(rows, places.ravel())]
    assert 0.92 <= np.mean(inside) <= 0.99
