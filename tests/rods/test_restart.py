"""A solve that goes on from another, from a state or a file, is the one that never stopped."""

import numpy as np
import pytest
from click.testing import CliRunner

from geosim import (
    Environment,
    InputError,
    LinearElastic,
    Load,
    Obstacle,
    Passive,
    RodShellRobot,
    RodShellStepper,
    load_result,
    solve,
)
from geosim.cli.commands import main

RUBBER = LinearElastic(1e7, 0.5, 1000.0)
FALLING = Environment(gravity=(0, 0, -9.81))


def arm():
    """A rod of 0.1 m, clamped at one end."""
    x = np.zeros((7, 3))
    x[:, 0] = np.linspace(0, 0.1, 7)
    return RodShellRobot(x, radius=2e-3, rod_material=RUBBER, fixed_vertices=[0, 1], fixed_edges=[0])


def away(one, other):
    """Largest distance of the last frames [m]."""
    return abs(one.frames[-1] - other.frames[-1]).max()


@pytest.mark.parametrize("integrator", ["implicit-euler", "implicit-midpoint", "generalized-alpha", "verlet"])
def test_every_rule_goes_on_exactly(tmp_path, integrator):
    """Measured 5e-16; generalized-alpha that forgot its accelerations was 3e-6 m off."""
    dt, ends = (2e-6, 4e-4) if integrator == "verlet" else (2e-3, 0.08)
    solver = RodShellStepper(dt=dt, integrator=integrator, frame_interval=ends / 4)
    whole = solve(arm(), Passive(ends), FALLING, solver=solver)
    half = solve(arm(), Passive(ends / 2), FALLING, solver=solver)
    read = load_result(half.save(tmp_path / "half.npz"))
    for initial in (half, half.state, read, load_result(read.save(tmp_path / "again.npz"))):
        rest = solve(arm(), Passive(ends / 2), FALLING, solver=solver, initial=initial)
        assert away(rest, whole) < 1e-12
        assert rest.extra["velocities"][0] == pytest.approx(half.extra["velocities"][-1], abs=0)
        done = rest.extra["work"] - rest.extra["dissipated"] + rest.extra["drift"]
        assert rest.energies - rest.energies[0] == pytest.approx(done, abs=1e-12)
    drift = half.extra["drift"][-1] + rest.extra["drift"][-1]
    assert drift == pytest.approx(whole.extra["drift"][-1], abs=1e-12)


def test_rods_in_contact_and_shells_go_on_exactly(tmp_path):
    """With friction, the list of pairs, and mid-edge normals."""
    x, y = np.meshgrid(np.linspace(0, 0.03, 3), np.linspace(0, 0.02, 3), indexing="ij")
    sheet = np.stack([x.ravel(), y.ravel(), 0 * x.ravel() + 2e-3], axis=1)
    cells = np.array([3 * i + j for i in range(2) for j in range(2)])
    triangles = np.concatenate([cells[:, None] + [0, 3, 4], cells[:, None] + [0, 4, 1]])
    robots = RodShellRobot(sheet, triangles=triangles, thickness=1e-3, shell_material=RUBBER), arm()
    floor = Environment(gravity=(0.5, 0, -9.81), obstacles=[Obstacle.plane((0, 0, -2.1e-3), (0, 0, 1), friction=0.3)])
    solver = RodShellStepper(dt=5e-3, integrator="generalized-alpha")
    for robot in robots:
        whole = solve(robot, Passive(0.08), floor, solver=solver)
        half = load_result(solve(robot, Passive(0.04), floor, solver=solver).save(tmp_path / "half.npz"))
        assert away(solve(robot, Passive(0.04), floor, solver=solver, initial=half), whole) < 1e-12


def test_other_loads_begin_with_other_accelerations():
    """What generalized-alpha remembers belongs to the loads that it saw: an arm let go falls freely from the first step on."""
    free = RodShellRobot(arm().vertices, radius=2e-3, rod_material=RUBBER)
    solver = RodShellStepper(dt=1e-3, integrator="generalized-alpha")
    mass = 1000 * np.pi * 4e-6 * 0.1
    held = Environment(gravity=(0, 0, -9.81), loads=[Load.force(np.arange(7), (0, 0, 9.81 * mass))])
    still = solve(free, Passive(5e-3), held, solver=solver)
    falling = solve(free, Passive(5e-3), FALLING, solver=solver, initial=still)
    fallen = falling.frames[-1, :, 2] - falling.frames[0, :, 2]
    assert fallen == pytest.approx(-0.5 * 9.81 * 5e-3**2, rel=1e-6)


def test_a_state_of_another_robot_is_refused(tmp_path):
    result = solve(arm(), Passive(0.01), solver=RodShellStepper(dt=5e-3))
    read = load_result(result.save(tmp_path / "arm.npz"))
    x = np.zeros((5, 3))
    x[:, 0] = np.linspace(0, 0.1, 5)
    other = RodShellRobot(x, radius=2e-3, rod_material=RUBBER)
    for initial in (result, read):
        with pytest.raises(InputError, match=r"initial: .*not a state of this robot"):
            solve(other, Passive(0.01), initial=initial)


@pytest.mark.slow
def test_the_command_line_goes_on_from_a_result(tmp_path):
    """Two halves from files end where the whole does."""
    text = """kind = "rod-shell"
units = "mm"
fixed = { ids = [0, 1] }
limbs = [{ start = [0, 0, 0], end = [60, 0, 0], nodes = 4 }]
[rod]
radius = 2.0
material = { model = "linear-elastic", youngs_modulus = 1e7, poisson_ratio = 0.5, density = 1000.0 }
[environment]
gravity = [0, 0, -9.81]
[solver]
dt = 5e-3
integrator = "generalized-alpha"
"""
    (tmp_path / "robot.toml").write_text(text)
    for name, seconds in (("half", 0.02), ("whole", 0.04)):
        (tmp_path / f"{name}.toml").write_text(f"[passive]\nduration = {seconds}\n")

    def run(name, *more):
        arguments = ["solve", str(tmp_path / "robot.toml"), "--out", str(tmp_path / f"{name}-out"), *more]
        found = CliRunner().invoke(main, [*arguments, "--actuation", str(tmp_path / f"{name.split('-')[0]}.toml")])
        assert found.exit_code == 0, found.output
        return tmp_path / f"{name}-out" / "result.npz"

    first, whole = run("half"), run("whole")
    assert away(load_result(run("half-more", "--from", str(first))), load_result(whole)) < 1e-12
