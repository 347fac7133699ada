"""Kelvin-Voigt rods: creep under a constant load, the damping of a mode, and where the energy goes."""

import numpy as np
import pytest

from geosim import (
    Environment,
    InputError,
    LinearElastic,
    Load,
    NaturalShape,
    Passive,
    RodShellRobot,
    RodShellStepper,
    solve,
)

LIGHT = LinearElastic(1e6, 0.5, 1e-3)  # so light that inertia takes no part
RADIUS, TIME = 2e-3, 0.05


def arm(material=LIGHT, nodes=6, **options):
    """A rod of 0.1 m along x, clamped."""
    x = np.zeros((nodes, 3))
    x[:, 0] = np.linspace(0, 0.1, nodes)
    held = {"fixed_vertices": [0, 1], "fixed_edges": [0], "retardation_time": TIME} | options
    return RodShellRobot(x, radius=RADIUS, rod_material=material, **held)


@pytest.mark.parametrize("how", ["stretch", "bend", "twist"])
def test_rods_creep_towards_their_equilibrium(how):
    """1 - exp(-t / T), stepped by backward Euler: 1 - (1 + h / T)^-k, exactly."""
    load = {
        "stretch": Load.force([5], (1e-2, 0, 0)),
        "bend": Load.force([5], (0, 0, 1e-6)),
        "twist": Load.torque([4], 1e-8),
    }[how]

    def moved(result):
        size = {"stretch": result.frames[:, 5, 0] - 0.1, "bend": result.frames[:, 5, 2]}
        return size[how] if how in size else result.extra["theta"][:, 4]

    surroundings = Environment(loads=[load])
    end = moved(solve(arm(), Passive(), surroundings, solver=RodShellStepper(static=True, tolerance=1e-10)))[-1]
    solver = RodShellStepper(dt=5e-3, tolerance=1e-9)
    way = moved(solve(arm(), Passive(0.1), surroundings, solver=solver))
    k = np.arange(21)
    assert way / end == pytest.approx(1 - (1 + 5e-3 / TIME) ** -k, abs=1e-3)
    quick = moved(solve(arm(retardation_time=0.0), Passive(0.01), surroundings, solver=solver))
    assert quick[-1] == pytest.approx(end, rel=1e-2)


@pytest.mark.parametrize(
    ("integrator", "spectral"),
    [("implicit-midpoint", 1.0), pytest.param("generalized-alpha", 0.9, marks=pytest.mark.slow)],
)
def test_a_mode_loses_as_much_as_its_retardation_time_says(integrator, spectral):
    """Logarithmic decrement 2 pi z, z = w T / 2, of a cantilever let go from its bent shape."""
    rubber = LinearElastic(1e6, 0.5, 1000.0)
    w = 3.516 * np.sqrt(1e6 * RADIUS**2 / 4 / 1000) / 0.09**2  # the clamp ends inside the first free edge
    robot = arm(rubber, 11, retardation_time=0.1 / w, fixed_components=None)
    begin = solve(
        robot, Passive(), Environment(loads=[Load.force([10], (0, 0, 1e-4))]), solver=RodShellStepper(static=True)
    )
    solver = RodShellStepper(dt=0.02 / w, integrator=integrator, spectral_radius=spectral)
    result = solve(robot, Passive(20.0 / w), solver=solver, initial=begin)
    z, t = result.tip[:, 2], result.times
    peaks = np.flatnonzero((z[1:-1] > z[:-2]) & (z[1:-1] >= z[2:])) + 1
    period = np.diff(t[peaks]).mean()
    decrement = -np.diff(np.log(z[peaks])).mean()
    share = np.pi * robot.retardation_time / period  # w T / 2 of the frequency that it has
    assert decrement == pytest.approx(2 * np.pi * share, rel=0.05)
    e, extra = result.energies, result.extra
    assert abs(extra["drift"]).max() < 0.01 * e[0]
    assert extra["dissipated"][-1] == pytest.approx(e[0] - e[-1], rel=0.02)


def test_the_natural_shape_is_followed_late_and_rules_without_dampers_refuse():
    solver = RodShellStepper(dt=5e-3)
    bent = NaturalShape([0.0, 1e-9, 1.0], curvature=[0.0, 5.0, 5.0])
    late = solve(arm(), bent, solver=solver).tip[:, 2]
    assert 0 < abs(late[2]) < 0.5 * abs(late[-1])
    with pytest.raises(InputError, match="retardation_time"):
        RodShellStepper(dt=1e-5, integrator="verlet").start(arm())
    with pytest.raises(InputError, match="retardation_time"):
        arm(retardation_time=-1.0)
