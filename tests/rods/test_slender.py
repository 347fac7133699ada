"""Drag along and across rods: how they sink and swim in a viscous fluid."""

from __future__ import annotations

import numpy as np
import pytest

from geosim import Environment, InputError, LinearElastic, NaturalShape, Passive, solve
from geosim.model.actuation import Command
from geosim.rods.drive import make_drive
from geosim.rods.robot import RodShellRobot
from geosim.rods.slender import SlenderDrag, gray_hancock
from geosim.rods.stepper import RodShellStepper


def rod(nodes: int, direction=(1.0, 0, 0), density: float = 1000.0, **options) -> RodShellRobot:
    x = np.linspace(-0.5, 0.5, nodes)[:, None] * np.asarray(direction)
    return RodShellRobot(x, radius=0.01, rod_material=LinearElastic(1e6, 0.5, density), **options)


def test_a_slanting_rod_sinks_aside():
    """Weight = drag along and across: u = w (t t / c_t + (1 - t t) / c_n) with the weight w a length."""
    t = np.array([np.cos(0.6), 0.0, np.sin(0.6)])
    solver = RodShellStepper(dt=0.05, rod_drag=(20.0, 50.0))
    result = solve(rod(5, t), Passive(1.0), Environment(gravity=(0, 0, -1.0)), solver=solver)
    weight = np.array([0, 0, -1000.0 * np.pi * 1e-4])
    sinks = t * (t @ weight) / 20.0 + (weight - t * (t @ weight)) / 50.0
    np.testing.assert_allclose(result.extra["velocities"][-1], np.tile(sinks, (5, 1)), rtol=1e-3, atol=1e-6)


def test_a_flagellum_swims_at_the_speed_of_gray_and_hancock():
    """Waves of curvature from the head on, amplitude b, k = 2 pi / l: b^2 k w (c_n / c_t - 1) / 2, shorter by the waves' own.

    A rod of three waves pitches a little, which infinite ones do not: to 10 %.
    """
    waves, amplitude, rate, nodes = 3, 0.01, 2 * np.pi, 49
    k = 2 * np.pi * waves
    s = np.linspace(-0.5, 0.5, nodes)[1:-1]
    times = np.linspace(0, 2, 81)
    bends = amplitude * k**2 * np.sin(k * s - rate * times[:, None]) * np.minimum(times, 0.5)[:, None] / 0.5
    robot = rod(nodes, density=1.0, planar="xz")
    solver = RodShellStepper(dt=0.0125, rod_drag=(1.0, 2.0), frame_interval=0.025)
    result = solve(robot, NaturalShape(times, curvature=bends), solver=solver)
    middle = result.frames.mean(axis=1)
    speed = abs(middle[-1, 0] - middle[40, 0])  # in the last second
    steep = 0.5 * (amplitude * k) ** 2
    assert speed == pytest.approx(steep * (2.0 - 1.0) / (1.0 + 2.0 * steep) * rate / k, rel=0.1)


def test_drag_takes_energy_and_its_matrix_is_its_derivative_at_rest():
    state = RodShellStepper().start(rod(4), Environment(self_contact=False))
    drive = make_drive(state, Command(0, 0.01, ()), rod_drag=(1.0, 3.0))
    term = next(term for term in drive.terms(state, 0.01, 0.01) if isinstance(term, SlenderDrag))
    pattern = state.system.pattern
    values = np.zeros(pattern.size)
    term.add_stiffness(state.q, values)
    moved = np.concatenate([1e-7 * np.random.default_rng(0).normal(size=12), np.zeros(3)])
    force = np.zeros_like(moved)
    term.add_force(state.q + moved, force)
    assert force @ moved > 0  # the residual is minus the force
    np.testing.assert_allclose(
        force[pattern.order], pattern.matrix(values) @ moved[pattern.order], rtol=1e-4, atol=1e-9
    )


def test_coefficients_are_those_of_gray_and_hancock():
    along, across = gray_hancock(1e-3, 2e-3, 1e-5)
    assert along == pytest.approx(2 * np.pi * 1e-3 / (np.log(400) - 0.5))
    assert 1.6 < across / along < 2.0
    with pytest.raises(InputError, match="wavelength"):
        gray_hancock(1e-3, 1e-5, 1e-5)
    with pytest.raises(InputError, match="rod_drag across"):
        RodShellStepper(rod_drag=(2.0, 1.0))
