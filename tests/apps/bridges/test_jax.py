"""Shapes as functions of JAX arrays: reverse-mode gradients are differences of shapes that are solved again."""

from __future__ import annotations

import numpy as np
import pytest
from shapes import block

import geosim
from geosim import EnergyShapeSolver, Environment

jax = pytest.importorskip("jax", reason="needs JAX, which is large: pip install '.[jax]'")

SHARP = EnergyShapeSolver(element="p1", tolerance=1e-11, check_stability=False)
ALONE = Environment(self_contact=False)


@pytest.fixture
def double():
    """Double precision, as before afterwards."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.fixture(scope="module")
def robot():
    vertices, tets = block((0.04, 0.012, 0.012), (4, 3, 3))
    vertices[vertices[:, 2] > 0.0079, 2] += 0.002
    middle = vertices[tets].mean(axis=1)
    inside = (np.abs(middle - (0.02, 0.006, 0.007)) < (0.01, 0.002, 0.003)).all(axis=1)
    rubber = geosim.MooneyRivlin(c1=40e3, c2=10e3)
    return geosim.VolumetricRobot.from_tets(
        vertices, tets, inside.astype(int), material=rubber, fixed=vertices[:, 0] < 1e-9
    )


def test_gradients_are_differences(robot, double):
    from jax.test_util import check_grads

    def function(x):
        tip, volumes = geosim.jax.shape(
            robot, 1e3 * x[:2, None], {"c1": 40e3 * x[2]}, of=("tip", "chamber_volumes"), vary="pressure",
            environment=ALONE, solver=SHARP,
        )  # fmt: skip
        assert tip.shape == (2, 3)
        return 1e3 * tip, 1e6 * volumes

    check_grads(
        jax.jit(function), (jax.numpy.array([2.0, 4.0, 1.1]),), order=1, modes=["rev"], eps=1e-4, atol=1e-5, rtol=1e-5
    )
    at = jax.numpy.array([2.0, 4.0, 1.1])  # the same without a callback
    slopes = [jax.grad(lambda x, f=f: f(x)[0].sum())(at) for f in (function, jax.jit(function))]
    np.testing.assert_allclose(*slopes, rtol=1e-9)


def test_what_is_not_reached_raises(robot, double):
    stingy = EnergyShapeSolver(element="p1", max_factorisations=2, check_stability=False)
    solve = lambda x: geosim.jax.shape(robot, x, of="tip", environment=ALONE, solver=stingy)  # noqa: E731
    with pytest.raises(geosim.SolveError, match="row 0"):
        solve(jax.numpy.array([3.0]))
    with pytest.raises(geosim.SolveError, match="row 0"):
        jax.grad(lambda x: solve(x).sum())(jax.numpy.array([3.0]))
    with pytest.raises(jax.errors.JaxRuntimeError, match="row 0"):
        jax.block_until_ready(jax.jit(solve)(jax.numpy.array([3.0])))
