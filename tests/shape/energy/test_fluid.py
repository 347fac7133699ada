"""A fluid around a body at rest: buoyancy of the deformed skin, against Archimedes, finite differences and invariances."""

from __future__ import annotations

import numpy as np
import pytest
from shapes import block

import geosim
from geosim import Environment, Fluid, InputError

DENSITY, G = 1000.0, 9.81  # kg/m^3, m/s^2


def finger(cells=(2, 2, 6), density=DENSITY, chamber=True, shift=(0.0, 0.0, 0.0)):
    """A soft block, 20 x 20 x 60 mm, clamped at z = 0, with a closed chamber inside or without one."""
    points, tets = block((0.02, 0.02, 0.06), cells)
    middle = points[tets].mean(axis=1)
    inside = (np.abs(middle[:, :2] - 0.01) < 0.0034).all(axis=1) & (np.abs(middle[:, 2] - 0.03) < 0.0201)
    return geosim.VolumetricRobot.from_tets(
        points + shift,
        tets,
        (inside & chamber).astype(int),
        material=geosim.NeoHookean(40e3, density=density),
        fixed=geosim.Select.plane("z", below=1e-6 + shift[2]),
        tip=geosim.Select.plane("z", above=0.0599 + shift[2]),
    )


def solved(robot, fluid, gravity=(G, 0.0, 0.0), actuation=None, element="p2"):
    around = Environment(gravity=gravity, fluid=fluid, self_contact=False)
    return geosim.solve(robot, actuation or geosim.Passive(), around, solver=geosim.EnergyShapeSolver(element=element))


@pytest.mark.parametrize("element", ["p2", "p1"])
def test_a_submerged_block_keeps_its_weight_less_that_of_the_fluid(element):
    """The reaction is (1 - rho_fluid / rho_body) of that in air, the shape that of so much less gravity."""
    robot = finger(chamber=False)
    soft = 1.0 - 0.95
    dry, wet = (solved(robot, fluid, element=element) for fluid in (None, Fluid(0.95 * DENSITY)))
    weight = DENSITY * 0.02 * 0.02 * 0.06 * G
    assert wet.reactions[-1].sum(axis=0)[0] == pytest.approx(-soft * weight, rel=1e-5)
    assert dry.reactions[-1].sum(axis=0)[0] == pytest.approx(-weight, rel=1e-5)
    if element == "p2":  # P1 smooths the pressure of the fluid in the body, and bends 4 % more
        light = solved(robot, None, (soft * G, 0.0, 0.0))
        bent = [r.tip[-1] - robot.tip_weights @ robot.vertices[robot.tip] for r in (wet, light)]
        np.testing.assert_allclose(bent[0][0], bent[1][0], rtol=2e-3)


def test_gas_in_a_chamber_lifts_the_finger():
    """The fluid that the whole skin encloses is displaced, chamber and all: 0.1 % of the closed form."""
    robot = finger(cells=(6, 6, 6))
    assert robot.chambers == 1
    inflated = geosim.Inflation(pressure=2e3) if robot.chambers else None
    wet = solved(robot, Fluid(900.0), actuation=inflated)
    hollow = float(wet.chamber_volumes[-1, 0])
    body = 0.02 * 0.02 * 0.06 - float(robot.chamber_volumes[0])
    assert hollow > 1.02 * robot.chamber_volumes[0]  # of the present shape, not of the rest shape
    expected = DENSITY * body * G - 900.0 * (body + hollow) * G
    assert wet.reactions[-1].sum(axis=0)[0] == pytest.approx(-expected, rel=1e-3)


@pytest.mark.parametrize("gravity", [(G, 0.0, 0.0), (0.0, 0.0, -G), (3.0, -5.0, 7.0)])
def test_a_neutrally_buoyant_body_does_not_move(gravity):
    robot = finger(chamber=False, density=850.0, shift=(0.3, -0.2, 1.5))
    found = solved(robot, Fluid(850.0), gravity)
    assert np.abs(found.frames[-1] - robot.vertices).max() < 1e-9
    pushed = 850.0 * G * np.linalg.norm([0.3, -0.2, 1.5]) * 0.02 * 0.02  # N, on the base at this depth
    assert np.abs(found.reactions[-1].sum(axis=0)).max() < 1e-6 * pushed


def test_a_neutrally_buoyant_free_body_floats_and_a_light_one_is_refused():
    points, tets = block((0.02, 0.02, 0.02), (2, 2, 2))
    around = Environment(gravity=(0, 0, -G), fluid=Fluid(1000.0), self_contact=False)
    free = [
        geosim.VolumetricRobot.from_tets(
            points, tets, np.zeros(len(tets), dtype=int), material=geosim.NeoHookean(40e3, density=density), fixed=None
        )
        for density in (1000.0, 999.0)
    ]
    found = geosim.solve(free[0], geosim.Passive(), around)
    assert np.abs(found.frames[-1] - points).max() < 1e-9
    with pytest.raises(InputError, match="loads have a resultant"):
        geosim.solve(free[1], geosim.Passive(), around)


def test_a_chamber_under_water_is_one_of_less_pressure():
    """A vented finger 0.5 m below the origin is the finger at the origin with -rho g 0.5 m in its chamber."""
    deep = finger(cells=(6, 6, 4), shift=(0.0, 0.0, -0.5))
    high = finger(cells=(6, 6, 4))
    wet, gravity = Fluid(500.0), (0.0, 0.0, -G)
    vented = solved(deep, wet, gravity, geosim.Inflation(pressure=0.0))
    sucked = solved(high, wet, gravity, geosim.Inflation(pressure=-500.0 * G * 0.5))
    np.testing.assert_allclose(vented.frames[-1] - [0, 0, -0.5], sucked.frames[-1], atol=1e-8)
    assert np.abs(sucked.frames[-1] - high.vertices).max() > 1e-4


@pytest.mark.parametrize("element", ["p2", "p1"])
def test_forces_and_tangent_of_the_fluid_are_the_derivatives_of_its_potential(element):
    """Central differences on a crumpled shape, through the problem as the solver assembles it."""
    robot = finger(cells=(2, 2, 3), chamber=False)
    solver = geosim.EnergyShapeSolver(element=element)
    state = solver.start(robot, Environment(gravity=(1.0, 2.0, -G), fluid=Fluid(700.0), self_contact=False))
    problem, rng = state.problem, np.random.default_rng(0)
    x = problem.rest + 2e-3 * rng.standard_normal(problem.rest.shape)
    way, h = rng.standard_normal(x.shape), 1e-6
    p, zero, weight = np.zeros(len(problem.pressure_vertices)), np.zeros_like(x), problem.constraints.steady_forces

    def at(x, force, matrix=False):
        return problem.evaluate(x, p, force, zero, matrix=matrix)

    before, after = at(x - h * way, weight), at(x + h * way, weight)
    here, dry = at(x, weight, matrix=True), at(x, 0.0 * weight, matrix=True)
    slope = (after.scalars[-1] - before.scalars[-1]) / (2 * h)
    assert np.sum(here.gradients[-1] * way) == pytest.approx(slope, rel=1e-7)
    from scipy.sparse import csr_matrix

    upper = csr_matrix((here.data - dry.data, problem.pattern.indices, problem.pattern.indptr)).toarray()[
        : x.size, : x.size
    ]
    tangent = upper + upper.T - np.diag(np.diag(upper))
    change = -weight[-1] * (after.gradients[-1] - before.gradients[-1]) / (2 * h)
    np.testing.assert_allclose(tangent @ way.ravel(), change.ravel(), atol=1e-7 * np.abs(change).max())


def test_where_a_fluid_does_nothing_the_result_says_so():
    robot = finger(chamber=False)
    found = solved(robot, Fluid(1000.0), (0.0, 0.0, 0.0))
    assert "The fluid has no effect" in found.message
    assert np.abs(found.frames[-1] - robot.vertices).max() < 1e-12


@pytest.mark.parametrize("key", ["viscosity", "drag_coefficient"])
def test_what_acts_on_motion_is_refused_at_rest(key):
    with pytest.raises(InputError, match=f"fluid: {key} acts on what moves"):
        solved(finger(chamber=False), Fluid(1000.0, **{key: 0.1}))


def test_sensitivities_know_the_fluid():
    """The derivative of the tip by the pressure, against a difference of solves."""
    robot = finger(cells=(6, 6, 4))
    levels = [geosim.Inflation(pressure=1e3 + d) for d in (-10.0, 0.0, 10.0)]
    low, middle, high = (solved(robot, Fluid(900.0), actuation=a) for a in levels)
    slope = geosim.sensitivity(middle, of="tip", to="pressure").jacobian[:, 0]
    np.testing.assert_allclose(slope, (high.tip[-1] - low.tip[-1]) / 20.0, rtol=1e-3, atol=1e-12)
