"""Rows of an environment are commands: none is dropped, none is made up."""

from __future__ import annotations

import numpy as np
import pytest

import geosim
from geosim import Environment, Inflation, InputError, Load, Obstacle, Passive, Prescribed, RigidGroup

STEPS = np.linspace(1e-3, 5e-3, 5)
ROWS = np.outer(STEPS, [1.0, 0.0, 0.0])
SOLVER = geosim.EnergyShapeSolver(element="p1")


@pytest.fixture(scope="module")
def bar():
    """A bar of six tets, 20 x 10 x 10 mm, held at one end."""
    corners = np.array([[x, y, z] for x in (0.0, 0.02) for y in (0.0, 0.01) for z in (0.0, 0.01)])
    tets = [[0, 4, 6, 7], [0, 6, 2, 7], [0, 2, 3, 7], [0, 3, 1, 7], [0, 1, 5, 7], [0, 5, 4, 7]]
    rubber = geosim.NeoHookean(mu=20e3, bulk_modulus=1e6)
    return geosim.VolumetricRobot.from_tets(corners, tets, material=rubber, fixed=[0, 1, 2, 3], tip=[4, 5, 6, 7])


GIVEN = {
    "prescribed": Environment(prescribed=Prescribed([4, 5, 6, 7], ROWS)),
    "rigid group": Environment(rigid_groups=RigidGroup([4, 5, 6, 7], displacement=ROWS, rotation=(0, 0, 0))),
    "load": Environment(loads=Load.force([4, 5, 6, 7], 200.0 * ROWS)),
    "obstacle": Environment(obstacles=Obstacle.plane((0.0205, 0, 0), (-1, 0, 0), motion=-ROWS)),
}


@pytest.mark.parametrize("name", GIVEN)
def test_every_row_is_a_command_where_nothing_is_commanded(bar, name):
    """Five rows of 1 .. 5 mm under `Passive()` are five frames, and the last is where the last row says."""
    result = geosim.solve(bar, Passive(), GIVEN[name], solver=SOLVER)
    assert len(result.frames) == len(result.actuation) == 5
    moved = result.tip[:, 0] - 0.02
    if name in ("prescribed", "rigid group"):
        assert moved == pytest.approx(STEPS, abs=1e-12)
    assert (np.diff(np.abs(moved)) > 1e-4).all()


@pytest.mark.parametrize("name", GIVEN)
@pytest.mark.parametrize("steps", [2, 8])
def test_unequal_rows_are_refused_and_named(bar, name, steps):
    with pytest.raises(InputError, match=rf"{name.replace(' ', '_')}.*\[0\]: .* has 5 rows for {steps} commands"):
        geosim.solve(bar, Passive(steps=steps), GIVEN[name], solver=SOLVER)


def test_one_row_is_the_same_in_every_command_and_parts_that_say_no_number_follow_the_rest(bar):
    held = Environment(prescribed=Prescribed([4, 5, 6, 7], [ROWS[0]]), loads=Load.force([4, 5, 6, 7], (0.0, 0.0, 0.0)))
    assert geosim.solve(bar, Passive(steps=2), held, solver=SOLVER).tip[:, 0] == pytest.approx([0.021, 0.021])
    both = Passive() & geosim.CableTensions([0.1, 0.2, 0.3])
    assert len(both) == 3
    closed = Passive() & Inflation(gas=True)
    assert [len(part) for part in closed.lasting(5).parts] == [5, 5]
    assert len((Passive() & Inflation(1.5)).lasting(5)) == 1


def test_rows_of_rods_are_commands_too():
    """In dynamics the rows share the duration: a shaken clamp is where its last row says at the end."""
    rubber = geosim.LinearElastic(youngs_modulus=1e6, poisson_ratio=0.5)
    line = [[0.01 * i, 0.0, 0.0] for i in range(6)]
    rod = geosim.RodShellRobot(line, edges=[[i, i + 1] for i in range(5)], radius=2e-3, rod_material=rubber)
    shaken = Environment(prescribed=Prescribed([0, 1], ROWS))
    result = geosim.solve(rod, Passive(duration=0.05), shaken, solver=geosim.RodShellStepper(dt=5e-3))
    assert len(result.actuation) == 5
    assert result.frames[-1, 0, 0] == pytest.approx(5e-3)
    assert result.frames[result.times <= 0.0101][-1, 0, 0] == pytest.approx(1e-3)
