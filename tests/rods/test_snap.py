"""Statics that jump say so, and where; those that only bend far do not."""

import numpy as np
import pytest

from geosim import (
    Environment,
    LinearElastic,
    Load,
    NaturalShape,
    Passive,
    Prescribed,
    RodShellRobot,
    RodShellStepper,
    solve,
)

RUBBER = LinearElastic(1e8, 0.5, 1000.0)
STATIC = RodShellStepper(static=True)
MIDDLE = 8


def arch(height=3e-3):
    """A shallow arch of 0.2 m, clamped at both ends, in its plane."""
    s = np.linspace(-1, 1, 2 * MIDDLE + 1)
    x = np.stack([0.1 * s, 0 * s, height * np.cos(0.5 * np.pi * s) ** 2], axis=1)
    n = len(x)
    held = {"fixed_vertices": [0, 1, n - 2, n - 1], "fixed_edges": [0, n - 2], "planar": True}
    return RodShellRobot(x, radius=1e-3, rod_material=RUBBER, **held)


def test_an_arch_snaps_at_its_limit_load_and_says_so():
    """The largest force on the way down, found by prescribing the way; the energy released is that between the two shapes."""
    way = np.linspace(0, -9e-3, 61)[1:]
    down = np.stack([np.full(60, np.nan), np.full(60, np.nan), way], axis=1)
    led = solve(arch(), Passive(steps=60), Environment(prescribed=[Prescribed([MIDDLE], down)]), solver=STATIC)
    force = -led.reactions[:, MIDDLE, 2]
    first = np.flatnonzero(np.diff(force) < 0)[0]
    limit = force[: first + 1].max()
    loads = np.array([0.5, 0.9, 1.1]) * limit
    pushed = Environment(loads=[Load.force([MIDDLE], np.stack([0 * loads, 0 * loads, -loads], axis=1))])
    result = solve(arch(), Passive(steps=3), pushed, solver=STATIC)
    assert result.converged
    assert "Command 3: snapped at" in result.message
    share = float(result.message.split("snapped at ")[1].split()[0])
    assert 0.9 + 0.2 * share == pytest.approx(1.0, abs=0.01)
    released = float(result.message.split("way, ")[1].split()[0])
    after = np.flatnonzero(force > limit)
    between = slice(first, after[after > first][0])
    area = np.trapezoid(limit - force[between], -way[between])
    assert released == pytest.approx(area, rel=0.05)
    assert result.frames[-1, MIDDLE, 2] == pytest.approx(
        np.interp(1.1 * limit, force[after[0] :], led.frames[after[0] :, MIDDLE, 2]), rel=0.02
    )


def test_large_bending_in_one_step_is_no_snap():
    x = np.zeros((11, 3))
    x[:, 0] = np.linspace(0, 0.2, 11)
    rod = RodShellRobot(x, radius=1e-3, rod_material=RUBBER, fixed_vertices=[0, 1], fixed_edges=[0])
    for actuation, surroundings in (
        (Passive(steps=2), Environment(loads=[Load.force([10], [(0, 0, -5e-3), (0, 0, -0.02)])])),
        (NaturalShape([1.0, 2.0], curvature=[5.0, 20.0]), Environment()),
        (Passive(), Environment(prescribed=[Prescribed([10], (-0.05, 0, 0.1))])),
    ):
        result = solve(rod, actuation, surroundings, solver=STATIC)
        assert "snapped" not in result.message
