"""Rods in the tools of solids: derivatives against differences, goals, reduced arms, MuJoCo."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import geosim
from geosim import (
    Cable,
    CableTensions,
    Environment,
    Goal,
    InputError,
    Limb,
    LinearElastic,
    NaturalShape,
    RodShellRobot,
    RodShellStepper,
)

RUBBER = LinearElastic(3e6, 0.5, 1000.0)
SHARP = RodShellStepper(static=True, tolerance=1e-11, increment_tolerance=1e-8)
STATIC = RodShellStepper(static=True)
FALLS = Environment(gravity=(0.0, 0.0, -9.81), self_contact=False)


def arm(cables=3, nodes=17, radius=5e-3, length=0.15, guides=9):
    """A straight arm along x, clamped, with cables at even angles about it."""
    x = np.zeros((nodes, 3))
    x[:, 0] = np.linspace(0.0, length, nodes)
    led = np.linspace(0.5 * length / (nodes - 1), length, guides)
    angles = 2.0 * np.pi * np.arange(cables) / cables
    paths = [np.stack([led, 0 * led + 8e-3 * np.cos(a), 0 * led + 8e-3 * np.sin(a)], axis=1) for a in angles]
    made = [Cable(path) for path in paths]
    return RodShellRobot(
        x, radius=radius, rod_material=RUBBER, fixed_vertices=[0, 1], fixed_edges=[0], cables=made, name="arm"
    )


@pytest.fixture(scope="module")
def robot():
    return arm()


@pytest.fixture(scope="module")
def model(robot):
    return geosim.reduce(robot, (0.0, 0.4), "cable_tension", FALLS)


def _difference(of, x, step):
    return (of(x - 2 * step) - 8 * of(x - step) + 8 * of(x + step) - of(x + 2 * step)) / (12 * step)


@pytest.mark.parametrize("to", ["cable", "radius", "material.youngs_modulus", "material.density", "curvature"])
def test_derivatives_of_the_tip_are_differences_of_solves(robot, to):
    """To 1e-6, under gravity, with two cables pulled and a natural curvature."""
    tensions, bent = np.array([0.3, 0.1, 0.0]), np.zeros((1, len(robot.bends), 2))
    bent[0, :, 0] = 2.0

    def tip(robot=robot, tensions=tensions, bent=bent):
        act = CableTensions(tensions[None]) & NaturalShape([1.0], curvature=bent)
        return geosim.solve(robot, act, FALLS, solver=SHARP)

    found = geosim.sensitivity(tip(), "tip", to).jacobian
    if to == "cable":
        along = np.array([0.0, 1.0, 0.0])
        exact, found = _difference(lambda s: tip(tensions=tensions + s * along).tip[-1], 0.0, 2e-3), found @ along
    elif to == "curvature":
        along = np.zeros_like(bent)
        along[0, :6, 1] = 1.0
        exact = _difference(lambda s: tip(bent=bent + s * along).tip[-1], 0.0, 0.05)
        found = np.tensordot(found, along[0], 2)
    elif to == "radius":
        exact = _difference(lambda r: tip(replace(robot, radius=r, section=None)).tip[-1], 5e-3, 1e-5)
    else:
        name = to.removeprefix("material.")
        value = getattr(RUBBER, name)
        changed = lambda v: replace(robot, rod_material=replace(RUBBER, **{name: v}))  # noqa: E731
        exact = _difference(lambda v: tip(changed(v)).tip[-1], value, 2e-3 * value)
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-6 * np.abs(exact).max())


def test_without_cables_the_tangent_is_exact():
    """A rod curved about both axes under oblique gravity: 1e-9, where differences of residuals gave 1e-8."""
    robot = arm(cables=0)
    bent, along = np.zeros((2, 1, len(robot.bends), 2))
    bent[..., 0], bent[0, 5:, 1], along[0, :6, 1], along[0, 7:, 0] = 6.0, 9.0, 1.0, 0.5
    falls = Environment(gravity=(0.0, 3.0, -9.81), self_contact=False)

    def solved(s):
        return geosim.solve(robot, NaturalShape([1.0], curvature=bent + s * along), falls, solver=SHARP)

    found = np.tensordot(geosim.sensitivity(solved(0.0), "tip", "curvature").jacobian, along[0], 2)
    exact = _difference(lambda s: solved(s).tip[-1], 0.0, 0.05)
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-9 * np.abs(exact).max())


def test_torch_differentiates_rods(robot):
    """gradcheck of positions and bend angle by tensions, modulus and radius."""
    torch = pytest.importorskip("torch", reason="needs PyTorch, which is large: pip install '.[torch]'")
    import geosim.torch

    weights = torch.as_tensor(np.random.default_rng(0).standard_normal((17, 3)))
    scale = torch.tensor([1.0, 1.0, 1.0, 1e6, 1e-2], dtype=torch.float64)

    def of(x):
        u = x * scale
        more = dict(environment=FALLS, vary="cable_tension", solver=SHARP)
        named = {"youngs_modulus": u[3]}, {"radius": u[4]}
        x, a = geosim.torch.shape(robot, u[:3], *named, of=("positions", "bend_angle"), **more)
        return (weights * x).sum() + a

    start = torch.tensor([0.3, 0.1, 0.04, 3.0, 0.5], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(of, start, eps=1e-4, atol=1e-6, rtol=1e-6)


def test_jax_differentiates_rods(robot):
    """Positions and bend angle by tensions, modulus and radius, against differences, to 1e-6."""
    jax = pytest.importorskip("jax", reason="needs JAX, which is large: pip install '.[jax]'")
    import geosim.jax

    weights = np.random.default_rng(0).standard_normal((17, 3))
    scale = np.array([1.0, 1.0, 1.0, 1e6, 1e-2])

    def of(x):
        u = x * scale
        more = dict(environment=FALLS, vary="cable_tension", solver=SHARP)
        named = {"youngs_modulus": u[3]}, {"radius": u[4]}
        x, a = geosim.jax.shape(robot, u[:3], *named, of=("positions", "bend_angle"), **more)
        return (weights * x).sum() + a

    start = np.array([0.3, 0.1, 0.04, 3.0, 0.5])
    with jax.enable_x64(True):
        found = np.asarray(jax.grad(of)(jax.numpy.asarray(start)))
        exact = [_difference(lambda s, e=e: float(of(start + s * e)), 0.0, 1e-3) for e in np.eye(5)]
    np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-6 * np.abs(exact).max())


def test_a_tendon_arm_reaches_twelve_targets(robot):
    rng = np.random.default_rng(4)
    for tensions in rng.uniform(0.0, 0.4, (12, 3)):
        goal = geosim.solve(robot, CableTensions(tensions[None]), FALLS, solver=STATIC).tip[-1]
        found = geosim.solve_for(robot, Goal.tip(goal), "cable_tension", (0.0, 0.6), FALLS)
        assert found.reached
        assert found.distance < 1e-4 * robot.size


def test_natural_curvatures_of_limbs_are_controls():
    limbs = [Limb((0, 0, 0), (0, 0, -0.1), 8, 5e-3, RUBBER), Limb((0, 0, -0.1), (0, 0, -0.2), 8, 5e-3, RUBBER)]
    made = RodShellRobot.from_limbs(limbs, fixed_vertices=(0, 1), fixed_edges=(0,))
    found = geosim.solve_for(made, Goal.tip((0.05, 0.03, -0.17)), "curvature", environment=FALLS)
    assert found.reached
    with pytest.raises(InputError, match="a model commands cables or chambers"):
        geosim.reduce(made, vary="curvature")


@pytest.mark.slow
def test_a_reduced_arm_covers_what_it_states(robot, model):
    """At least 95 % of 60 fresh tensions are within the bound, which is far below 1 % of the largest way."""
    controls = np.random.default_rng(9).uniform(0.0, 0.4, (60, 3))
    off = [
        np.linalg.norm(geosim.solve(robot, model.actuation(u), FALLS, solver=STATIC).tip[-1] - model(u).tip)
        for u in controls
    ]
    assert np.mean(np.array(off) <= model.bounds["tip"]) >= 0.95
    assert model.bounds["tip"] <= 0.01 * model.motion
    assert model.gravity == (0.0, 0.0, -9.81)


@pytest.mark.slow
def test_a_rod_arm_in_mujoco_hangs_where_the_file_states(robot, model, tmp_path):
    mujoco = pytest.importorskip("mujoco", reason="mujoco is not installed: pip install '.[mujoco]'")
    path = geosim.write_mjcf(robot, model, tmp_path / "arm.xml", environment=FALLS)
    made = mujoco.MjModel.from_xml_path(str(path))
    stated = float(made.numeric("tip_mismatch").data[0])
    assert stated < 0.05 * model.motion
    assert made.body_mass.sum() == pytest.approx(1000.0 * np.pi * 5e-3**2 * 0.15, rel=1e-6)
    data = mujoco.MjData(made)
    for tensions in ((0.3, 0.1, 0.0), (0.0, 0.2, 0.36)):
        data.ctrl[:] = tensions
        for _ in range(1500):
            mujoco.mj_step(made, data)
        assert np.abs(data.qvel).max() < 1e-3
        exact = geosim.solve(robot, model.actuation(tensions), FALLS, solver=STATIC).tip[-1]
        assert np.linalg.norm(data.site("tip").xpos - exact) <= stated


def test_what_rods_cannot_do_is_named(robot):
    with pytest.raises(InputError, match="static=True"):
        geosim.solve_for(robot, Goal.tip((0.1, 0, 0)), "cable_tension", solver=RodShellStepper())
    rough = RodShellRobot(
        robot.vertices, radius=5e-3, rod_material=RUBBER, fixed_vertices=[0, 1], fixed_edges=[0],
        cables=[Cable(robot.cables[0].points, friction=0.3)],
    )  # fmt: skip
    bent = geosim.solve(rough, CableTensions([[0.1]]), solver=RodShellStepper(static=True))
    with pytest.raises(InputError, match="friction remembers its history"):
        geosim.sensitivity(bent, "tip", "cable")
    with pytest.raises(InputError, match="rods have curvature, cable, radius"):
        geosim.sensitivity(geosim.solve(robot, CableTensions([[0.1, 0, 0]]), solver=SHARP), "tip", "wall")
