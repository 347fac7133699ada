"""Moments that depend on the state: a magnetised rod in a field turns towards it as the elastica does."""

import numpy as np
import pytest
from scipy.integrate import solve_bvp

from geosim import Environment, InputError, LinearElastic, Load, Passive, RodShellRobot, RodShellStepper, solve

RADIUS, LENGTH, NODES = 1e-3, 0.1, 41
BENDING = 1e6 * np.pi * RADIUS**4 / 4


def arm(nodes=NODES):
    x = np.zeros((nodes, 3))
    x[:, 0] = np.linspace(0, LENGTH, nodes)
    return RodShellRobot(
        x, radius=RADIUS, rod_material=LinearElastic(1e6, 0.5, 1000.0), fixed_vertices=[0, 1], fixed_edges=[0]
    )


def test_a_magnetised_rod_bends_as_its_elastica():
    """E I t'' + m B cos t = 0, magnetised along itself, the field across: clamped at half the first edge."""
    magnet, step = 40 * BENDING / LENGTH**2 / 8, LENGTH / (NODES - 1)  # m B per length [N]

    def field(time, positions, tangents, directors):
        return magnet * step * np.cross(tangents, [0, 0, 1.0])

    result = solve(arm(), Passive(), solver=RodShellStepper(static=True, moments=field))
    s = np.linspace(0.5 * step, LENGTH, 101)
    exact = solve_bvp(
        lambda s, y: np.array([y[1], -magnet / BENDING * np.cos(y[0])]),
        lambda a, b: np.array([a[0], b[1]]),
        s,
        np.stack([s / LENGTH, 0 * s]),
    )
    e = np.diff(result.frames[-1], axis=0)
    angle = np.arctan2(e[:, 2], e[:, 0])
    middles = (np.arange(NODES - 1) + 0.5) * step
    assert angle[-1] > 0.8
    assert angle == pytest.approx(exact.sol(middles)[0], abs=0.01)
    assert result.extra["iterations"][-1] < 15


def test_constant_moments_are_those_of_the_load():
    moment = np.array([1e-6, 2e-6, -3e-6])

    def last(time, positions, tangents, directors):
        return np.where(np.arange(len(tangents))[:, None] == len(tangents) - 1, moment, 0.0)

    mine = solve(arm(9), Passive(), solver=RodShellStepper(static=True, moments=last, tolerance=1e-9))
    load = Environment(loads=[Load.moment([7], moment)])
    theirs = solve(arm(9), Passive(), load, solver=RodShellStepper(static=True, tolerance=1e-9))
    assert mine.frames == pytest.approx(theirs.frames, abs=1e-8)
    with pytest.raises(InputError, match="returned shape"):
        solve(arm(9), Passive(), solver=RodShellStepper(static=True, moments=lambda *_: np.zeros(3)))
