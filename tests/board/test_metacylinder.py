"""The lattice's columns against closed forms, and their stiffness found again from wrenches."""

from __future__ import annotations

import numpy as np
import pytest


def test_columns_are_a_bar_that_bends(board):
    """Compressed by u the bottom is held up by E A u / l; turned by t about an axis its moment is -E I t / l, I = A R^2 / 4."""
    model = board("metacylinder")
    stiffness = 3.0 * model.MODULUS * np.pi * model.RADIUS**2 / model.LENGTH
    pressed = model.columns(np.array([0.0, 0.0, -1e-3, 0.0, 0.0, 0.0]))
    np.testing.assert_allclose(pressed, [0.0, 0.0, 1e-3 * stiffness, 0.0, 0.0, 0.0], atol=1e-9)
    turned = model.columns(np.array([0.0, 0.0, 0.0, 1e-5, 0.0, 0.0]))
    np.testing.assert_allclose(turned[3], -1e-5 * 1e3 * stiffness * model.RADIUS**2 / 4.0, rtol=1e-6)
    np.testing.assert_allclose(turned[[0, 1, 2, 4, 5]], 0.0, atol=1e-6)


def test_the_stiffness_of_columns_is_found_again(board):
    """Four poses of a solid with drawn derivatives and columns of 0.3 E / l."""
    model, rng = board("metacylinder"), np.random.default_rng(2)
    z = np.array([0.4, 0.2, -0.3, 0.1, 0.2, 0.1, -0.2, 0.3 / model.COLUMNS])
    scale = np.repeat([5.0, 100.0], 3)
    pairs = []
    for _ in range(4):
        pose = rng.standard_normal(6) * np.repeat([3e-3, 0.1], 3)
        there = rng.standard_normal(6) * scale, rng.standard_normal((6, 6)) * scale[:, None] / 5e-3, pose
        pairs.append((there, model.felt(there, z)))
    largest = np.max([np.linalg.norm(m.reshape(2, 3), axis=1) for _, m in pairs], axis=0)
    found = model.identify(pairs, largest, lattice=True)
    assert found.z[-1] * model.COLUMNS == pytest.approx(0.3, rel=0.1)
    assert len(model.identify(pairs, largest).z) == len(model.PRIORS)
