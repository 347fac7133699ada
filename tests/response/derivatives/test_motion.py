"""Gradients of losses along motions of rods, against central differences of motions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import geosim
from geosim import (
    Cable,
    Environment,
    Fluid,
    InputError,
    LinearElastic,
    Load,
    NaturalShape,
    Obstacle,
    Passive,
    RodMotion,
    RodShellRobot,
    RodShellStepper,
    SolveError,
)

SHARP = RodShellStepper(dt=0.005, damping=2.0, tolerance=1e-11, increment_tolerance=1e-9)
FALLS = Environment(gravity=(0.0, 0.0, -9.81), self_contact=False)
RUBBER = LinearElastic(3e5, 0.5, 1000.0)
NAMES = ("curvature", "velocities", "damping", "radius", "material.youngs_modulus", "material.density")


def difference(of, step):
    """Central difference over five points."""
    return (of(-2 * step) - 8 * of(-step) + 8 * of(step) - of(2 * step)) / (12 * step)


def thick_arm(nodes, rng, **changes):
    """An arm that spins about itself at 100 rad/s and is thrown: frames, spin and bending move each other."""
    x = np.zeros((nodes, 3))
    x[:, 0] = np.linspace(0.0, 0.15, nodes)
    v = np.zeros((nodes, 3))
    v[2:] = 0.3 * rng.standard_normal((nodes - 2, 3))
    spin = np.where(np.arange(nodes - 1) > 0, 100.0, 0.0)
    given = dict(radius=8e-3, rod_material=RUBBER, fixed_vertices=[0, 1], fixed_edges=[0], velocities=v)
    return RodShellRobot(x, **{**given, "edge_angular_velocities": spin, **changes})


@pytest.fixture(scope="module")
def thrown():
    """The problem of a thrown arm with random commands, a random loss of all its motion, and the gradient."""
    rng = np.random.default_rng()
    robot, times = thick_arm(8, rng), np.array([0.013, 0.04, 0.055, 0.1])  # steps of 1.5 to 5 ms
    bent = 8.0 * rng.standard_normal((4, 6, 2))

    def motion(robot=robot, bent=bent, solver=SHARP, **options):
        return RodMotion.of(robot, NaturalShape(times, curvature=bent), FALLS, solver, **options)

    made = motion()
    at_x, at_v = rng.standard_normal((2, *made.positions.shape))

    def loss(motion):
        return float((at_x * motion.positions).sum() + 0.01 * (at_v * motion.velocities).sum())

    return rng, robot, bent, motion, loss, made.pulled_back(at_x, 0.01 * at_v, NAMES), (at_x, at_v)


@pytest.mark.parametrize("name", NAMES)
def test_the_gradient_of_a_loss_of_all_the_motion_is_that_of_differences(thrown, name):
    """To 1e-7 of it, and of its scale; Newton's method leaves 1e-11."""
    rng, robot, bent, motion, loss, found, _ = thrown
    if name in ("curvature", "velocities"):
        along = rng.standard_normal(found[name].shape)
        if name == "velocities":
            along[:2] = 0.0
            exact = difference(lambda s: loss(motion(replace(robot, velocities=robot.velocities + s * along))), 1e-3)
        else:
            exact = difference(lambda s: loss(motion(bent=bent + s * along)), 0.02)
        scale = np.linalg.norm(found[name]) * np.linalg.norm(along)
        assert abs((found[name] * along).sum() - exact) < 1e-7 * scale
        return
    if name == "damping":
        exact = difference(lambda s: loss(motion(solver=replace(SHARP, damping=2.0 + s))), 0.02)
    elif name == "radius":
        exact = difference(lambda s: loss(motion(replace(robot, radius=8e-3 + s, section=None))), 2e-5)
    else:
        key = name.removeprefix("material.")
        value = getattr(RUBBER, key)
        exact = difference(
            lambda s: loss(motion(replace(robot, rod_material=replace(RUBBER, **{key: value * (1.0 + s)})))), 2e-3
        )
        exact /= value
    assert found[name] == pytest.approx(exact, rel=1e-6)


def test_states_that_are_found_again_give_the_same_gradient(thrown):
    _, _, _, motion, _, found, (at_x, at_v) = thrown
    for every in (3, 100):
        again = motion(every=every)
        assert len(again.kept) == -(-(len(again.times) - 1) // every)
        slopes = again.pulled_back(at_x, 0.01 * at_v, NAMES)
        for name in NAMES:
            np.testing.assert_array_equal(slopes[name], found[name])


def test_a_hung_mass_on_a_rod_is_the_oscillator_of_its_closed_form():
    """Backward Euler of one degree of freedom by hand: (1 + h d + h^2 k / m) v1 = v0 - h k / m x0."""
    h, d, steps, stiffness = 0.005, 3.0, 40, 50.0
    rod = RodShellRobot(
        [[0, 0, 0], [0, 0, -0.1]],
        radius=1e-3,
        rod_material=LinearElastic(1e6, 0.5, 0.0),
        stretch_stiffness=0.1 * stiffness,
        masses=[0.0, 0.2],
        fixed_vertices=[0],
        fixed_edges=[0],
        velocities=[[0, 0, 0], [0, 0, 0.05]],
    )
    motion = RodMotion.of(rod, Passive(h * steps), Environment(), replace(SHARP, damping=d))
    back = 1.0 + h * d + h * h * stiffness / 0.2
    step = np.array([[1.0 - h * h * stiffness / 0.2 / back, h / back], [-h * stiffness / 0.2 / back, 1.0 / back]])
    way = np.linalg.matrix_power(step, steps)
    assert motion.positions[-1, 1, 2] + 0.1 == pytest.approx(way[0, 1] * 0.05, rel=1e-6)
    seed = np.array([[0, 0, 0], [0, 0, 1.0]])
    assert motion.pulled_back(seed, to="velocities")["velocities"][1, 2] == pytest.approx(way[0, 1], rel=1e-6)


def net(cells, rng):
    """A square net of rods with joints, held at a corner."""
    grid = np.arange((cells + 1) ** 2).reshape(cells + 1, cells + 1)
    x = np.stack([0.01 * (grid % (cells + 1)), 0.01 * (grid // (cells + 1)), 0 * grid], axis=-1).reshape(-1, 3)
    edges = np.vstack(
        [np.stack([grid[:, :-1], grid[:, 1:]], -1).reshape(-1, 2), np.stack([grid[:-1], grid[1:]], -1).reshape(-1, 2)]
    )
    v = 0.05 * rng.standard_normal(x.shape)
    v[:2] = 0.0
    held = dict(fixed_vertices=[0, 1], fixed_edges=[0], velocities=v)
    return RodShellRobot(x, edges=edges, radius=1e-3, rod_material=RUBBER, **held)


@pytest.mark.parametrize("cells", [2, 18])
def test_nets_of_rods_with_joints_have_gradients(cells):
    """Of a wide net the transposed matrix is no band."""
    rng = np.random.default_rng()
    robot = net(cells, rng)

    bent = 5.0 * rng.standard_normal(len(robot.bends))
    bent, along = (np.tile(b, (2, 1)) for b in (bent, rng.standard_normal(len(bent))))
    seed = rng.standard_normal(robot.vertices.shape)

    def made(s):
        return RodMotion.of(robot, NaturalShape([0.01, 0.02], curvature=bent + s * along), FALLS, SHARP)

    found = made(0.0).pulled_back(seed)["curvature"][..., 0]
    exact = difference(lambda s: float((seed * made(s).positions[-1]).sum()), 0.1)
    assert abs((found * along).sum() - exact) < 1e-6 * np.linalg.norm(found) * np.linalg.norm(along)


def test_prescribed_motion_loads_and_viscosity_are_in_the_gradient():
    """A rod whose root is led around in water, with a force at its end and a held angle that moves."""
    rng = np.random.default_rng()
    x = np.zeros((8, 3))
    x[:, 0] = np.linspace(0.0, 0.1, 8)
    way = np.zeros((4, 1, 3)) + 1e-3 * rng.standard_normal((4, 1, 3))
    around = Environment(
        gravity=(0.0, 0.0, -9.81),
        self_contact=False,
        prescribed=geosim.Prescribed([0], way),
        loads=Load.force([7], (0.0, 1e-3, 0.0)),
        fluid=Fluid(1000.0, viscosity=0.5),
    )
    bent = 10.0 * rng.standard_normal((4, 6))
    along, seed = rng.standard_normal(bent.shape), rng.standard_normal(x.shape)

    def made(radius=2e-3, s=0.0):
        rod = RodShellRobot(x, radius=radius, rod_material=RUBBER, fixed_edges=[0, 4])
        return RodMotion.of(rod, NaturalShape([0.01, 0.02, 0.03, 0.04], curvature=bent + s * along), around, SHARP)

    found = made().pulled_back(seed, to=("curvature", "radius"))
    exact = difference(lambda s: float((seed * made(s=s).positions[-1]).sum()), 0.05)
    slope = found["curvature"][..., 0]
    assert abs((slope * along).sum() - exact) < 1e-7 * np.linalg.norm(slope) * np.linalg.norm(along)
    exact = difference(lambda s: float((seed * made(2e-3 + s).positions[-1]).sum()), 5e-6)
    assert found["radius"] == pytest.approx(exact, rel=1e-6)


def test_what_has_no_derivative_in_time_is_refused_by_name():
    arm = thick_arm(8, np.random.default_rng(0))
    cable = [Cable(arm.vertices + [0, 0, 6e-3])]
    cases = [
        ("static", dict(solver=RodShellStepper(static=True))),
        ("'generalized-alpha'", dict(solver=RodShellStepper(integrator="generalized-alpha"))),
        ("'auto'", dict(solver=RodShellStepper(integrator="implicit-euler", dt="auto"))),
        ("rod_drag", dict(solver=RodShellStepper(rod_drag=(1.0, 2.0)))),
        ("functions", dict(solver=RodShellStepper(forces=lambda t, x, v: 0 * x))),
        ("cables", dict(robot=replace(arm, cables=cable))),
        ("retardation_time", dict(robot=replace(arm, retardation_time=0.1))),
        (
            "shells",
            dict(
                robot=RodShellRobot(
                    [[0, 0, 0], [1, 0, 0], [0, 1, 0]], triangles=[[0, 1, 2]], thickness=1e-2, shell_material=RUBBER
                )
            ),
        ),
        ("Load.moment", dict(environment=Environment(loads=Load.moment([6], (0.0, 1e-4, 0.0))))),
        (
            "touch",
            dict(environment=Environment(gravity=(0, 0, -9.81), obstacles=Obstacle.plane((0, 0, -9e-3), (0, 0, 1)))),
        ),
    ]
    for word, changes in cases:
        given = dict(robot=arm, actuation=Passive(0.2), environment=FALLS, solver=SHARP) | changes
        with pytest.raises(InputError, match=word):
            RodMotion.of(**given)
    with pytest.raises(SolveError, match="do not balance"):
        RodMotion.of(arm, NaturalShape([1.0], curvature=[300.0]), FALLS, replace(SHARP, dt=1.0, max_iterations=3))
    motion = RodMotion.of(arm, NaturalShape([0.05], curvature=[1.0]), FALLS, SHARP)
    with pytest.raises(InputError, match="by_positions"):
        motion.pulled_back(np.zeros((3, 3)))
    with pytest.raises(InputError, match="a motion has curvature"):
        motion.pulled_back(np.zeros((8, 3)), to="mass")
    with pytest.raises(InputError, match="a table of curvature"):
        RodMotion.of(arm, Passive(0.05), FALLS, SHARP).pulled_back(np.zeros((8, 3)))
