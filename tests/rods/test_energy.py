"""The energy watch: what comes from where, and a warning where the time integration creates energy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from geosim import Environment, LinearElastic, NaturalShape, Obstacle, Passive, Prescribed, Status, solve
from geosim.rods.robot import RodShellRobot
from geosim.rods.state import restored
from geosim.rods.stepper import RodShellStepper

GRAVITY = Environment(gravity=(0, 0, -9.81))


def rod(nodes: int = 11, modulus: float = 1e7, **options) -> RodShellRobot:
    x = np.stack([np.linspace(0, 0.5, nodes), np.zeros(nodes), np.zeros(nodes)], axis=1)
    options = {"fixed_vertices": [0, 1], "fixed_edges": [0]} | options
    return RodShellRobot(x, radius=5e-3, rod_material=LinearElastic(modulus, 0.5, 1000.0), **options)


def test_the_midpoint_rule_on_a_dropped_stiff_rod_is_seen_to_make_energy():
    solver = RodShellStepper(dt=0.02, integrator="implicit-midpoint", adaptive=False)
    result = solve(rod(), Passive(0.7), GRAVITY, solver=solver)
    assert result.status is Status.ENERGY_GROWTH
    assert result.extra["drift"].max() > 0.1 * np.ptp(result.extra["weight_energy"])
    assert "created energy" in result.message
    assert "J," in result.message


@pytest.mark.parametrize("dt", [0.02, 0.005])
def test_a_rule_that_explodes_is_stopped_and_the_one_that_works_is_named(dt):
    """With 50 g at its tip the midpoint rule went on to 200 and 600 times what the weight released, to NOT_CONVERGED."""
    loaded = rod(nodes=16, masses=np.where(np.arange(16) == 15, 0.05, 0.0))
    solver = RodShellStepper(dt=dt, integrator="implicit-midpoint", frame_interval=0.02)
    result = solve(loaded, Passive(3.0), GRAVITY, solver=solver, throw=False)
    assert result.status is Status.EXPLODED
    assert not result.converged
    assert "integrator='generalized-alpha'" in result.message
    assert abs(result.extra["drift"]).max() < 3.0 * np.ptp(result.extra["weight_energy"])


@pytest.mark.parametrize("radius", [0.0, 0.5, 0.8])
@pytest.mark.parametrize("dt", [0.02, 5e-3])
def test_generalized_alpha_keeps_the_energy_of_a_dropped_stiff_rod_bounded(radius, dt):
    """Kinetic + elastic never exceed what the weight released by more than 3 %, over five swings."""
    solver = RodShellStepper(dt=dt, integrator="generalized-alpha", spectral_radius=radius)
    result = solve(rod(), Passive(2.0), GRAVITY, solver=solver)
    assert result.status is Status.CONVERGED
    released = -result.extra["weight_energy"]
    assert (result.energies < 0.03 * released.max()).all()
    assert released.max() > 0.05
    assert result.extra["drift"].min() > -1.0 * released.max()


def test_energies_work_dissipation_and_drift_add_up():
    """A rod that is driven, damped, bends by itself, falls, and rubs on a moving floor."""
    floor = Obstacle.plane((0, 0, -0.05), (0, 0, 1), friction=0.4, motion=[(0, 0, 0), (0.01, 0, 0.01)])
    environment = Environment(
        gravity=(0, 0, -9.81), obstacles=[floor], prescribed=[Prescribed([0, 1], [(0, 0, 0), (0, 0.01, 0.02)])]
    )
    shape = NaturalShape([0.1, 0.2], curvature=[0.0, 3.0])
    for integrator in ("implicit-euler", "implicit-midpoint", "generalized-alpha"):
        solver = RodShellStepper(dt=2e-3, integrator=integrator, damping=2.0)
        creeps = rod(fixed_vertices=(), modulus=1e6, retardation_time=1e-3)
        result = solve(creeps, shape, environment, solver=solver)
        extra = result.extra
        # the formula of the rule tells the drift: what is left is that of Newton's method, and no work is forgotten
        assert np.abs(extra["drift"] + extra["numerical"]).max() < 1e-5 * extra["given_energy"][-1]
        assert np.abs(extra["numerical"]).max() > 2e-4 * extra["given_energy"][-1]
        change = result.energies - result.energies[0]
        assert np.abs(change - (extra["work"] - extra["dissipated"] + extra["drift"])).max() < 1e-12
        assert result.contact_count.max() > 0
        if integrator == "implicit-midpoint":  # makes energy in the impact, and it is seen
            assert result.status is Status.ENERGY_GROWTH
            continue
        assert extra["dissipated"][-1] > 0
        assert result.state.ledger.made < 0.02
        assert result.status is Status.CONVERGED


@pytest.mark.parametrize("integrator", ["implicit-midpoint", "generalized-alpha"])
def test_rules_of_second_order_lose_little_of_the_work_that_they_are_given(integrator):
    """A damped rod that is driven at its root, bends by itself and falls."""
    environment = Environment(gravity=(0, 0, -9.81), prescribed=[Prescribed([0, 1], [(0, 0, 0), (0, 0.01, 0.02)])])
    shape = NaturalShape([0.1, 0.2], curvature=[0.0, 3.0])
    solver = RodShellStepper(dt=2e-3, integrator=integrator, damping=2.0)
    result = solve(rod(fixed_vertices=(), modulus=1e6), shape, environment, solver=solver)
    given = np.ptp(result.extra["weight_energy"]) + np.ptp(result.extra["work"])
    assert np.abs(result.extra["drift"]).max() < 0.03 * given
    assert result.extra["dissipated"][-1] > 0.05 * given


def test_the_work_of_a_support_is_the_energy_of_the_stretched_rod():
    robot = rod(fixed_vertices=[0], fixed_edges=(), planar="xz")
    robot = replace(robot, fixed_components=np.arange(33).reshape(-1, 3) % 3 == 2)
    environment = Environment(prescribed=[Prescribed([10], (0.005, 0, 0))])
    result = solve(robot, Passive(20.0), environment, solver=RodShellStepper(dt=0.05, damping=5.0))
    exact = 0.5 * 1e7 * np.pi * 25e-6 * 0.01**2 * 0.5
    assert result.extra["elastic_energy"][-1] == pytest.approx(exact, rel=1e-3)
    assert result.extra["work"][-1] == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize("integrator", ["implicit-euler", "generalized-alpha"])
def test_friction_takes_the_energy_of_a_rod_that_slides_to_rest(integrator):
    """All of m v^2 / 2 is dissipated, whatever the rule."""
    velocities = np.tile([0.2, 0, 0], (11, 1))
    pressed = np.tile([False, False, True], (11, 1))
    robot = rod(fixed_vertices=(), fixed_edges=(), velocities=velocities, fixed_components=pressed)
    floor = Environment(obstacles=[Obstacle.plane((0, 0, -0.005), (0, 0, 1), friction=0.5)])
    solver = RodShellStepper(dt=1e-3, integrator=integrator, contact_stiffness=2000.0)
    result = solve(robot, Passive(0.1), floor, solver=solver)
    kinetic = result.extra["kinetic_energy"][0]
    assert result.extra["kinetic_energy"][-1] < 1e-3 * kinetic
    assert result.extra["dissipated"][-1] == pytest.approx(kinetic, rel=0.05)


def test_a_saved_state_of_generalized_alpha_restarts_exactly():
    robot, solver = rod(), RodShellStepper(dt=5e-3, integrator="generalized-alpha")
    commands = solver.commands(robot, Passive(0.1))
    state = solver.start(robot, GRAVITY)
    for command in commands[:10]:
        state, _ = solver.step(state, command)
    again = restored(solver.start(robot, GRAVITY), state.arrays())
    for command in commands[10:]:
        state, _ = solver.step(state, command)
        again, _ = solver.step(again, command)
    assert np.array_equal(state.q, again.q)
