"""Rod dynamics: convergence orders, conservation, published motions, supports, restarts, refusals."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from geosim import (
    Environment,
    Fluid,
    Inflation,
    InputError,
    LinearElastic,
    Load,
    NaturalShape,
    Passive,
    Prescribed,
    SolveError,
    Status,
    solve,
)
from geosim.generate import round_finger
from geosim.rods import stepper
from geosim.rods.balance import Balance
from geosim.rods.moments import Moments
from geosim.rods.robot import Limb, RodShellRobot
from geosim.rods.section import Section
from geosim.rods.state import carry, evaluate, restored
from geosim.rods.stepper import RodShellStepper

FIRST_MODE = 1.8751040687119611  # root of cos x cosh x = -1


def cantilever(nodes: int = 21, modulus: float = 1e6, **options) -> RodShellRobot:
    x = np.stack([np.linspace(0, 1, nodes), np.zeros(nodes), np.zeros(nodes)], axis=1)
    options = {"fixed_vertices": [0, 1], "fixed_edges": [0], "planar": "xz"} | options
    return RodShellRobot(x, radius=0.02, rod_material=LinearElastic(modulus, 0.5, 500.0), **options)


def mode_velocity(nodes: int, clamp: float, tip: float) -> np.ndarray:
    """Velocity [m/s] of the first bending mode of a cantilever clamped at `clamp` [m]."""
    s = np.clip((np.linspace(0, 1, nodes) - clamp) / (1 - clamp), 0, None) * FIRST_MODE
    ratio = (np.cosh(FIRST_MODE) + np.cos(FIRST_MODE)) / (np.sinh(FIRST_MODE) + np.sin(FIRST_MODE))
    shape = np.cosh(s) - np.cos(s) - ratio * (np.sinh(s) - np.sin(s))
    velocity = np.zeros((nodes, 3))
    velocity[:, 2] = tip * shape / shape[-1]
    return velocity


def frequency(times: np.ndarray, signal: np.ndarray) -> float:
    """Frequency [Hz] from the first and last upward crossings of the mean."""
    y = signal - 0.5 * (signal.max() + signal.min())
    up = np.flatnonzero((y[:-1] < 0) & (y[1:] >= 0))
    crossing = times[up] - y[up] * (times[up + 1] - times[up]) / (y[up + 1] - y[up])
    return (len(crossing) - 1) / (crossing[-1] - crossing[0])


# -- convergence -------------------------------------------------------------------------------------------------------


@cache
def fallen_tip(integrator: str, count: int) -> np.ndarray:
    """Tip after 0.2 s of a cantilever that falls under gravity (large deflection), in so many steps."""
    solver = RodShellStepper(dt=0.2 / count, integrator=integrator, tolerance=1e-10, frame_interval=0.2)
    return solve(cantilever(11, 1e5), Passive(0.2), Environment(gravity=(0, 0, -9.8)), solver=solver).tip[-1]


@pytest.mark.parametrize(
    ("integrator", "order", "steps"),
    [
        ("implicit-euler", 1, (40, 80, 160)),
        ("implicit-midpoint", 2, (40, 80, 160)),
        ("generalized-alpha", 2, (80, 160, 320)),
        ("verlet", 2, (800, 1600)),
    ],
)
def test_order_of_convergence_in_the_time_step(integrator, order, steps):
    """Errors against Richardson's limit of midpoint."""
    fine, finer = fallen_tip("implicit-midpoint", 640), fallen_tip("implicit-midpoint", 1280)
    truth = finer + (finer - fine) / 3
    errors = [np.linalg.norm(fallen_tip(integrator, count) - truth) for count in steps]
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert orders[-1] == pytest.approx(order, abs=0.15)


def test_order_of_convergence_in_the_number_of_nodes_with_the_clamp_stated():
    """Vertices 0 and 1 clamp the first edge: the beam is free from the middle of that edge's end bend on.

    A discrete bend at vertex 1 stands for the curvature of half an edge either side, so the effective clamp is half
    an edge before vertex 1; with that length the static deflection of a point load is second order in N.
    """
    errors = []
    for nodes in (11, 21, 41, 81):
        robot = cantilever(nodes, 1e7)
        load = 1e-3
        result = solve(
            robot,
            Passive(),
            Environment(loads=[Load.force([nodes - 1], (0, 0, load))]),
            solver=RodShellStepper(static=True, tolerance=1e-12),
        )
        length = 1.0 - 0.5 / (nodes - 1)
        exact = load * length**3 / (3 * 1e7 * np.pi * 0.02**4 / 4)
        errors.append(abs(result.tip[-1, 2] / exact - 1))
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert orders[-1] == pytest.approx(2, abs=0.2)
    assert errors[-1] < 1e-3


@pytest.mark.slow
def test_frequency_of_a_cantilever_with_the_clamp_stated():
    """First frequency at N = 201 within 0.05 % of Euler-Bernoulli for the effective length 0.9975 m."""
    nodes = 201
    clamp = 0.5 / (nodes - 1)
    robot = replace(cantilever(nodes, 1e5), velocities=mode_velocity(nodes, clamp, 5e-3))
    inertia, area = np.pi * 0.02**4 / 4, np.pi * 0.02**2
    exact = FIRST_MODE**2 / (2 * np.pi) * np.sqrt(1e5 * inertia / (500 * area)) / (1 - clamp) ** 2
    result = solve(robot, Passive(16.0), solver=RodShellStepper(dt=0.02, integrator="implicit-midpoint"))
    assert frequency(result.times, result.tip[:, 2]) == pytest.approx(exact, rel=5e-4)
    whole = exact * (1 - clamp) ** 2
    assert frequency(result.times, result.tip[:, 2]) / whole - 1 == pytest.approx(0.0050, abs=5e-4)


# -- published motions -------------------------------------------------------------------------------------------------


def test_published_cantilever_vibration(reference_data):
    a1 = np.load(reference_data / "rods/a1.npz")
    velocities = np.loadtxt(reference_data / "rods/cantilever_init_velocity_n=201.txt")
    robot = cantilever(201, 1e5, velocities=velocities)
    solver = RodShellStepper(dt=0.5, integrator="implicit-midpoint")
    result = solve(robot, Passive(100.0), solver=solver)
    amplitude = np.abs(a1["tip_table"][:, 2]).max()
    assert np.abs(result.tip - a1["tip_table"]).max() < 1e-3 * amplitude
    fine = solve(robot, Passive(25.0), solver=RodShellStepper(dt=0.05, integrator="implicit-midpoint"))
    assert np.abs(fine.tip - a1["tip_fine"][: len(fine.tip)]).max() < 1e-3 * amplitude


def test_published_helix_vibration(reference_data):
    b1 = np.load(reference_data / "rods/b1.npz")
    x = np.loadtxt(reference_data / "rods/helix_configuration.txt")
    robot = RodShellRobot(
        x, radius=5e-3, rod_material=LinearElastic(1e7, 0.5, 1273.52), fixed_vertices=[0, 1], fixed_edges=[0]
    )
    result = solve(
        robot,
        Passive(10.0),
        Environment(gravity=(0, 0, -9.8)),
        solver=RodShellStepper(dt=6e-3, integrator="implicit-midpoint"),
        throw=False,
    )
    assert result.status is Status.EXPLODED  # at 9.7 s; the published rule goes on
    assert result.times[-1] > 9.5
    amplitude = np.ptp(b1["tip_table"][:, 2])
    early = int((b1["t_table"] <= 1.0).sum())
    assert np.abs(result.tip[:early] - b1["tip_table"][:early]).max() < 1e-3 * amplitude
    assert frequency(result.times, result.tip[:, 2]) == pytest.approx(4.645, abs=0.004)


# -- conservation ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_midpoint_keeps_energy_over_two_thousand_steps_without_trend():
    robot = cantilever(11, 1e6, velocities=mode_velocity(11, 0.05, 0.5), planar=False)
    solver = RodShellStepper(dt=2e-3, integrator="implicit-midpoint", tolerance=1e-9)
    result = solve(robot, Passive(4.0), solver=solver)
    energy = result.energies
    assert len(energy) == 2001
    assert np.ptp(energy) < 1e-5 * energy[0]
    slope = np.polyfit(result.times, energy, 1)[0] * 4.0
    assert abs(slope) < 1e-6 * energy[0]
    damped = solve(robot, Passive(1.0), solver=RodShellStepper(dt=2e-2, tolerance=1e-9))
    assert damped.energies[-1] < 0.98 * energy[0]  # backward Euler damps, which is why midpoint is there


@pytest.mark.parametrize("integrator", ["implicit-euler", "implicit-midpoint", "verlet"])
def test_frames_of_a_new_state_belong_to_its_edges(integrator):
    solver = RodShellStepper(dt=1e-3, integrator=integrator)
    twist = np.linspace(0, 2.0, 10)
    robot = cantilever(11, 1e6, velocities=mode_velocity(11, 0.05, 0.5), planar=False, twist_angles=twist)
    state = solver.start(robot)
    for command in solver.commands(robot, Passive(0.02)):
        state, _ = solver.step(state, command)
    x, edges = state.positions, state.system.robot.edges
    e = x[edges[:, 1]] - x[edges[:, 0]]
    assert np.abs(state.tangents - e / np.linalg.norm(e, axis=1)[:, None]).max() < 1e-12
    assert np.abs((state.tangents * state.directors).sum(axis=1)).max() < 1e-12


def test_initial_spin_of_the_edges_turns_a_free_rod_about_its_axis():
    """A straight rod whose edges all spin alike keeps spinning: theta grows by omega t."""
    n = 11
    x = np.stack([np.linspace(0, 1, n), np.zeros(n), np.zeros(n)], axis=1)
    robot = RodShellRobot(
        x, radius=0.01, rod_material=LinearElastic(1e6, 0.5, 1000.0), edge_angular_velocities=np.full(n - 1, 7.0)
    )
    result = solve(robot, Passive(0.5), solver=RodShellStepper(dt=0.01, integrator="implicit-midpoint"))
    assert np.allclose(result.extra["theta"][-1], 3.5, atol=1e-9)
    assert np.abs(result.frames[-1] - x).max() < 1e-12


# -- supports, loads, actuation ----------------------------------------------------------------------------------------


def test_weight_is_carried_by_the_reactions_and_loads_by_their_moment():
    robot = cantilever(21, 1e7)
    result = solve(
        robot, Passive(), Environment(gravity=(0, 0, -9.8)), solver=RodShellStepper(static=True, tolerance=1e-10)
    )
    mass = result.state.system.mass[:63:3].sum()
    assert result.reactions[-1].sum(axis=0) == pytest.approx([0, 0, 9.8 * mass], abs=1e-8 * mass)
    assert result.residual[-1] <= 1e-10


def test_large_deflection_follows_the_elastica():
    """Tip load on a cantilever, P L^2 / EI = 1, 2, 5: deflections of Bisshopp and Drucker (1945)."""
    table = {1.0: (0.30172, 0.05643), 2.0: (0.49346, 0.16064), 5.0: (0.71379, 0.38763)}
    nodes = 201
    robot = RodShellRobot(
        np.stack([np.linspace(0, 1, nodes), np.zeros(nodes), np.zeros(nodes)], axis=1),
        radius=1e-3,
        rod_material=LinearElastic(1e9, 0.5, 1000.0),
        fixed_vertices=[0, 1],
        fixed_edges=[0],
        planar="xz",
    )
    length = 1 - 0.5 / (nodes - 1)
    stiffness = 1e9 * np.pi * 1e-3**4 / 4
    for parameter, (sideways, shortening) in table.items():
        load = parameter * stiffness / length**2
        result = solve(
            robot,
            Passive(),
            Environment(loads=[Load.force([nodes - 1], (0, 0, load))]),
            solver=RodShellStepper(static=True),
        )
        assert result.tip[-1, 2] / length == pytest.approx(sideways, abs=3e-4)
        assert (1.0 - result.tip[-1, 0]) / length == pytest.approx(shortening, abs=3e-4)


def test_natural_curvature_makes_an_arc_and_natural_twist_turns_the_end():
    nodes = 41
    robot = cantilever(nodes, planar=False)
    curvature = 1.2
    result = solve(robot, NaturalShape([1.0], curvature=[curvature], twist=[0.7]), solver=RodShellStepper(static=True))
    # kappa V = 2 tan(phi / 2): the turning angle of every bend
    step = 1.0 / (nodes - 1)
    angle = 2 * np.arctan(curvature * step / 2)
    strains = result.state.strains()
    assert np.allclose(strains[:, 0], curvature * step, atol=1e-8)
    assert np.allclose(strains[:, 2], 0.7 * step, atol=1e-8)
    flat = solve(cantilever(nodes), NaturalShape([1.0], curvature=[curvature]), solver=RodShellStepper(static=True))
    heading = np.concatenate([[0.0], angle * np.arange(1, nodes - 1)])
    arc = step * np.stack([np.cos(heading), np.sin(heading)]).sum(axis=1)
    assert flat.tip[-1, 0] == pytest.approx(arc[0], abs=1e-8)
    assert abs(flat.tip[-1, 2]) == pytest.approx(arc[1], abs=1e-8)


def test_natural_stretch_lengthens_a_free_rod_and_pulls_at_one_that_is_held():
    """Free it takes its natural lengths and bends as before; held it is under EA (1 / stretch - 1)."""
    stretch = 1.1 + 0.05 * np.arange(20) / 19
    shape = NaturalShape([1.0], curvature=[0.5], stretch=[stretch])
    result = solve(cantilever(21), shape, solver=RodShellStepper(static=True))
    lengths = np.linalg.norm(np.diff(result.frames[-1], axis=0), axis=1)
    np.testing.assert_allclose(lengths[1:], 0.05 * stretch[1:], rtol=1e-8)
    assert lengths[0] == pytest.approx(0.05)
    np.testing.assert_allclose(result.state.strains()[:, 0], 0.5 * 0.05, rtol=1e-8)
    held = cantilever(21, fixed_vertices=[0, 20], fixed_edges=())
    pulled = solve(held, NaturalShape([1.0], stretch=[0.95]), solver=RodShellStepper(static=True))
    tension = 1e6 * np.pi * 0.02**2 * (1 / 0.95 - 1)
    np.testing.assert_allclose(pulled.reactions[-1][[0, 20], 0], [-tension, tension], rtol=1e-8)


def test_forces_of_a_rod_with_natural_stretch_against_finite_differences():
    robot = cantilever(4, planar=False, fixed_vertices=(), fixed_edges=())
    state = RodShellStepper().start(robot, Environment())
    rng = np.random.default_rng(5)
    q = state.q + 0.02 * rng.normal(size=state.q.shape)
    natural = state.natural.copy()
    natural[state.system.edges_at :, 0] = [0.9, 1.2, 1.05]
    balance = Balance(state.system, state, natural, np.zeros_like(q), 0.0)
    trial, f = balance.residual(q)
    near = carry(state, q, trial)
    for direction in rng.normal(size=(3, len(q))):
        h = 1e-6 * direction
        ahead, behind = (evaluate(state.system, near, q + s * h, natural) for s in (1, -1))
        assert (ahead.energy - behind.energy) / 2 == pytest.approx(f @ h, rel=1e-6)
    assert trial.energy > 2 * evaluate(state.system, state, q).energy


def test_natural_shape_from_a_callback_follows_time():
    robot = cantilever(11)
    seen = []

    def curvature(time):
        seen.append(time)
        return np.array(np.sin(time))

    actuation = NaturalShape([0.1, 0.2], curvature=curvature)
    result = solve(robot, actuation, solver=RodShellStepper(dt=0.05))
    assert result.times[-1] == 0.2
    assert result.converged
    assert max(seen) == pytest.approx(0.2)


def test_prescribed_motion_is_followed_exactly_and_free_components_stay_free():
    robot = cantilever(11, fixed_vertices=(), fixed_edges=(), planar="xz")
    environment = Environment(
        prescribed=[
            Prescribed([0, 1], [[0, 0, 0.1], [0, 0, 0.0]]),
            Prescribed([10], [[np.nan, 0.0, -0.05], [np.nan, 0.0, 0.0]]),
        ]
    )
    result = solve(robot, NaturalShape([0.5, 1.0], curvature=[0.0, 0.0]), environment, solver=RodShellStepper(dt=0.05))
    at = int(np.argmin(np.abs(result.times - 0.25)))
    assert result.frames[at, 0, 2] == pytest.approx(0.05, abs=1e-12)
    half = int(np.argmin(np.abs(result.times - 0.5)))
    assert result.frames[half, [0, 1, 10], 2] == pytest.approx([0.1, 0.1, -0.05], abs=1e-12)
    assert abs(result.frames[half, 10, 0] - 1.0) > 1e-4
    assert result.frames[-1, [0, 1, 10], 2] == pytest.approx([0, 0, 0], abs=1e-12)


def test_a_roller_holds_one_component():
    held = np.zeros((11, 3), dtype=bool)
    held[10, 2] = True
    robot = cantilever(11, fixed_components=held)
    result = solve(robot, Passive(), Environment(gravity=(0, 0, -9.8)), solver=RodShellStepper(static=True))
    assert result.tip[-1, 2] == 0.0
    assert result.reactions[-1, 10, 2] > 0
    assert abs(result.reactions[-1, 10, 0]) == 0.0


def test_prescribed_rotation_of_an_end_twists_the_rod_evenly():
    robot = cantilever(11, planar=False, fixed_vertices=[0, 1, 9, 10])
    solver = RodShellStepper(static=True, edge_rotations=[([9], [[2.0]])])
    result = solve(robot, Passive(), solver=solver)
    assert np.allclose(np.diff(result.extra["theta"][-1]), 2.0 / 9, atol=1e-9)


def test_viscous_fluid_and_mass_damping_slow_a_free_rod_as_exponentials():
    n = 11
    x = np.stack([np.linspace(0, 1, n), np.zeros(n), np.zeros(n)], axis=1)
    robot = RodShellRobot(
        x, radius=0.01, rod_material=LinearElastic(1e6, 0.5, 1000.0), velocities=np.tile([0, 0, 1.0], (n, 1))
    )
    line = 1000.0 * np.pi * 0.01**2
    solver = RodShellStepper(dt=1e-3, integrator="implicit-midpoint")
    fluid = solve(robot, Passive(0.5), Environment(fluid=Fluid(0.0, viscosity=0.6)), solver=solver)
    assert fluid.extra["velocities"][-1, 5, 2] == pytest.approx(np.exp(-0.6 / line * 0.5), rel=1e-5)
    damped = solve(robot, Passive(0.5), solver=replace(solver, damping=2.0))
    assert damped.extra["velocities"][-1, 5, 2] == pytest.approx(np.exp(-1.0), rel=1e-5)


def test_buoyancy_balances_a_rod_of_the_density_of_the_fluid():
    n = 11
    x = np.stack([np.linspace(0, 1, n), np.zeros(n), np.zeros(n)], axis=1)
    robot = RodShellRobot(x, radius=0.01, rod_material=LinearElastic(1e6, 0.5, 1000.0))
    result = solve(
        robot, Passive(0.5), Environment(gravity=(0, 0, -9.8), fluid=Fluid(1000.0)), solver=RodShellStepper(dt=0.1)
    )
    assert np.abs(result.frames[-1] - x).max() < 1e-12
    half = solve(
        robot,
        Passive(0.5),
        Environment(gravity=(0, 0, -9.8), fluid=Fluid(500.0)),
        solver=RodShellStepper(dt=0.01, integrator="implicit-midpoint"),
    )
    assert half.frames[-1, 5, 2] == pytest.approx(-0.5 * 4.9 * 0.25, rel=1e-9)


def test_user_force_with_and_without_jacobian_gives_the_same_motion():
    robot = cantilever(11)
    spring = 5.0

    def plain(time, x, v):
        force = np.zeros_like(x)
        force[-1, 2] = -spring * x[-1, 2] - 0.1 * v[-1, 2]
        return force

    def with_jacobian(time, x, v):
        jacobian = np.zeros((x.size, x.size))
        jacobian[-1, -1] = -spring - 0.1 / 0.01
        return plain(time, x, v), jacobian

    environment = Environment(gravity=(0, 0, -9.8))
    results = [
        solve(robot, Passive(0.3), environment, solver=RodShellStepper(dt=0.01, forces=f, tolerance=1e-10))
        for f in (plain, with_jacobian)
    ]
    assert np.abs(results[0].frames - results[1].frames).max() < 1e-8
    free = solve(robot, Passive(0.3), environment, solver=RodShellStepper(dt=0.01))
    assert np.abs(results[0].frames - free.frames).max() > 1e-3
    assert results[1].extra["iterations"].sum() < results[0].extra["iterations"].sum()


def test_point_masses_are_added_where_they_are_given():
    masses = np.zeros(11)
    masses[10] = 0.25
    light, heavy = cantilever(11), cantilever(11, masses=masses)
    results = [
        solve(r, Passive(), Environment(gravity=(0, 0, -9.8)), solver=RodShellStepper(static=True, tolerance=1e-10))
        for r in (light, heavy)
    ]
    carried = [r.reactions[-1, :, 2].sum() for r in results]
    assert carried[1] - carried[0] == pytest.approx(0.25 * 9.8, rel=1e-6)


# -- joints ------------------------------------------------------------------------------------------------------------


def test_a_limb_cut_in_two_and_joined_again_moves_like_the_whole():
    """A joint of two edges is a plain bend, whatever the direction in which its limbs are drawn."""
    material = LinearElastic(1e6, 0.5, 500.0)
    whole = RodShellRobot.from_limbs(
        [Limb((0, 0, 0), (1, 0, 0), 21, 0.02, material)], fixed_vertices=[0, 1], fixed_edges=[0]
    )
    parts = RodShellRobot.from_limbs(
        [Limb((0, 0, 0), (0.5, 0, 0), 11, 0.02, material), Limb((1, 0, 0), (0.5, 0, 0), 11, 0.02, material)],
        fixed_vertices=[0, 1],
        fixed_edges=[0],
    )
    assert len(parts.vertices) == 21
    environment = Environment(gravity=(0, -2.0, -9.8))
    solver = RodShellStepper(dt=0.02, integrator="implicit-midpoint", tolerance=1e-10)
    one = solve(whole, Passive(0.4), environment, solver=solver)
    two = solve(parts, Passive(0.4), environment, solver=solver)
    tip = int(np.argmax(parts.vertices[:, 0]))
    assert np.abs(one.frames[:, 20] - two.frames[:, tip]).max() < 1e-8


def test_renumbering_vertices_does_not_change_the_motion():
    rng = np.random.default_rng(1)
    n = 15
    x = np.stack([np.linspace(0, 1, n), 0.1 * np.linspace(0, 1, n) ** 2, np.zeros(n)], axis=1)
    order = rng.permutation(n)
    number = np.argsort(order)
    edges = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    material = LinearElastic(1e6, 0.5, 500.0)
    plain = RodShellRobot(x, edges, radius=0.02, rod_material=material, fixed_vertices=[0, 1], fixed_edges=[0])
    shuffled = RodShellRobot(
        x[order], number[edges], radius=0.02, rod_material=material, fixed_vertices=number[[0, 1]], fixed_edges=[0]
    )
    environment = Environment(gravity=(0, 0, -9.8))
    solver = RodShellStepper(dt=0.02, tolerance=1e-10)
    one, two = (solve(r, Passive(0.3), environment, solver=solver) for r in (plain, shuffled))
    assert np.abs(one.frames[-1][order] - two.frames[-1]).max() < 1e-9


# -- one contract ------------------------------------------------------------------------------------------------------


def test_start_and_step_serve_a_loop_and_a_kept_state_restarts_exactly():
    robot = cantilever(11)
    environment = Environment(gravity=(0, 0, -9.8))
    solver = RodShellStepper(dt=0.01, integrator="implicit-midpoint")
    actuation = Passive(0.2)
    commands = solver.commands(robot, actuation)
    state = solver.start(robot, environment)
    for command in commands[:10]:
        state, report = solver.step(state, command)
        assert report.reached
    again = restored(solver.start(robot, environment), state.arrays())
    for command in commands[10:]:
        state, _ = solver.step(state, command)
        again, _ = solver.step(again, command)
    assert np.array_equal(state.q, again.q)
    whole = solve(robot, actuation, environment, solver=solver)
    assert np.abs(whole.frames[-1] - state.positions).max() < 1e-12


def test_time_steps_shrink_when_an_increment_fails_and_the_failure_is_reported_when_they_cannot():
    robot = cantilever(21, 1e5, planar=False)
    environment = Environment(gravity=(0, 0, -9.8))
    fragile = RodShellStepper(dt=0.5, max_iterations=4, tolerance=1e-8)
    result = solve(robot, Passive(1.0), environment, solver=fragile)
    assert result.converged
    with pytest.raises(SolveError, match="Stopped at t = ") as caught:
        solve(robot, Passive(1.0), environment, solver=replace(fragile, adaptive=False, max_iterations=1))
    assert not caught.value.result.converged
    assert len(caught.value.result.frames) >= 1


def test_verlet_with_a_large_step_is_reported():
    with pytest.raises(SolveError):
        solve(
            cantilever(21, 1e7),
            Passive(5.0),
            Environment(gravity=(0, 0, -9.8)),
            solver=RodShellStepper(dt=0.05, integrator="verlet"),
        )


def test_frames_are_kept_at_the_interval_and_shown_to_a_callback():
    shown = []
    solver = RodShellStepper(dt=0.01, frame_interval=0.05, on_frame=lambda s: shown.append(s.time))
    result = solve(cantilever(11), Passive(0.2), solver=solver)
    assert np.allclose(result.times, [0, 0.05, 0.1, 0.15, 0.2])
    assert np.allclose(shown, result.times[1:])


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"radius": None}, "radius: missing"),
        ({"radius": -1.0}, "positive metres"),
        ({"rod_material": None}, "rod_material: missing"),
        ({"edges": [[0, 0]]}, "has no length"),
        ({"edges": [[0, 1], [1, 0], [1, 2]]}, "is given 2 times"),
        ({"edges": [[0, 1]]}, "vertex 2 belongs to no edge"),
        ({"planar": "xq"}, "planar"),
        ({"masses": [0, -1, 0]}, "masses"),
        ({"velocities": [[0, 0, 0]]}, "velocities"),
        ({"fixed_vertices": [7]}, "fixed_vertices"),
        ({"fixed_edges": [9]}, "fixed_edges"),
        ({"shell_bending": "folds"}, "shell_bending"),
        ({"bend_stiffness": [1.0, 2.0, 3.0]}, "bend_stiffness"),
        ({"vertices": [[0, 0, 0], [1, 0, 0], [0.5, 0, 0]]}, "singular"),
    ],
)
def test_impossible_robots_are_refused_in_one_line(change, match):
    good = {
        "vertices": [[0, 0, 0], [1, 0, 0], [2, 0, 0]],
        "radius": 0.1,
        "rod_material": LinearElastic(1e6, 0.5, 1000.0),
    }
    with pytest.raises(InputError, match=match) as caught:
        RodShellRobot(**(good | change))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("options", [{"dt": -1.0}, {"integrator": "rk4"}, {"damping": -2.0}, {"tolerance": 0.0}])
def test_impossible_solvers_are_refused(options):
    with pytest.raises(InputError):
        RodShellStepper(**options)


@pytest.mark.parametrize(
    ("actuation", "match"),
    [
        (Inflation(volume_ratio=2.0), "Inflation does not actuate this robot: RodShellStepper takes NaturalShape"),
        (NaturalShape([1.0], curvature=[[1.0, 2.0]]), "curvature has .* for 9 stencils"),
        (NaturalShape([1.0], twist=[[1.0, 2.0]]), "twist has .* for 9 stencils"),
        (NaturalShape([1.0], hinge_angle=[0.1]), "for 0 hinges"),
        (NaturalShape([1.0], stretch=[[1.0, 2.0]]), "stretch has .* for 10 edges"),
    ],
)
def test_what_cannot_drive_a_rod_is_refused_before_anything_is_computed(actuation, match, monkeypatch):
    def never(*_):
        pytest.fail("the system was built")

    monkeypatch.setattr(stepper, "make_system", never)
    with pytest.raises(InputError, match=match):
        solve(cantilever(11), actuation)


def test_sections_have_their_textbook_moments():
    ribbon = Section.rectangle(0.02, 0.001)
    assert ribbon.inertia1 == pytest.approx(0.02 * 0.001**3 / 12)
    assert ribbon.torsion == pytest.approx(0.02 * 0.001**3 / 3, rel=0.04)
    assert Section.rectangle(0.01, 0.01).torsion == pytest.approx(0.1406 * 0.01**4, rel=2e-3)
    tube, solid, core = Section.tube(0.02, 0.01), Section.circle(0.02), Section.circle(0.01)
    assert tube.inertia1 == pytest.approx(solid.inertia1 - core.inertia1)


def test_the_balance_of_theta_is_tested_and_not_only_the_forces():
    """A straight rod whose end is turned has no force anywhere: only the moments say that it is out of balance."""
    robot = cantilever(11, planar=False, fixed_vertices=[0, 1, 9, 10])
    solver = RodShellStepper(static=True)
    state = solver.start(robot, Environment())
    q = state.q.copy()
    q[-1] = 0.5
    balance = Balance(state.system, state, state.natural, np.zeros_like(q), 0.0)
    trial, f = balance.residual(q)
    assert np.abs(f[: state.system.turns]).max() < 1e-12
    assert balance.relative(trial, f) == pytest.approx(1.0, rel=1e-6)


# -- torques -----------------------------------------------------------------------------------------------------------


def shaft(nodes: int = 11, **options) -> RodShellRobot:
    x = np.stack([np.linspace(0, 0.2, nodes), np.zeros(nodes), np.zeros(nodes)], axis=1)
    return RodShellRobot(
        x, radius=2e-3, rod_material=LinearElastic(1e7, 0.5, 1000.0), fixed_vertices=[0, 1], fixed_edges=[0], **options
    )


def test_a_torque_twists_a_shaft_by_t_l_over_g_j():
    """One value a command; below Greenhill's torque 2 pi EI / l a straight shaft stays straight."""
    torque = np.array([1e-3, -2e-3])
    result = solve(
        shaft(),
        Passive(steps=2),
        Environment(loads=[Load.torque([9], torque)]),
        solver=RodShellStepper(static=True, tolerance=1e-10),
    )
    rigidity = 1e7 / 3 * np.pi * 2e-3**4 / 2
    length = 0.2 - 0.2 / 10  # between the middles of the first and the last edge
    np.testing.assert_allclose(result.extra["theta"][:, 9], torque * length / rigidity, rtol=1e-9)
    np.testing.assert_allclose(result.extra["twist"].sum(axis=1), torque * length / rigidity, rtol=1e-9)
    assert np.abs(result.frames[-1] - shaft().vertices).max() < 1e-12


def test_a_torque_on_a_bent_rod_follows_its_edges_and_its_work_is_counted():
    """A free quarter of a ring is spun about its last edge: the moment of momentum grows by T t each instant."""
    angle = np.linspace(0, np.pi / 2, 13)
    x = 0.1 * np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    robot = RodShellRobot(x, radius=4e-3, rod_material=LinearElastic(1e7, 0.5, 1000.0))
    torque, given, spin = 1e-4, [], []

    def keep(state):
        mass, turns = state.system.mass, state.system.turns
        e = np.diff(state.positions, axis=0)
        t = e / np.linalg.norm(e, axis=1)[:, None]
        spin.append(np.cross(state.positions, mass[:turns].reshape(-1, 3) * state.velocities).sum(axis=0))
        spin[-1] += (mass[turns:] * state.u[turns:]) @ t
        given.append(torque * t[-1])

    solver = RodShellStepper(dt=5e-4, integrator="implicit-midpoint", tolerance=1e-10, on_frame=keep)
    result = solve(robot, Passive(0.02), Environment(loads=[Load.torque([11], torque)]), solver=solver)
    total = 5e-4 * (np.sum(given, axis=0) - 0.5 * (given[0] + given[-1]))
    assert np.linalg.norm(spin[-1] - spin[0] - total) < 0.01 * np.linalg.norm(total)
    work = torque * result.extra["theta"][:, 11]
    assert work.max() > 1e-6
    np.testing.assert_allclose(result.extra["work"], work, atol=1e-12)
    np.testing.assert_allclose(result.energies, work, atol=0.02 * work.max())


def test_a_moment_about_fixed_axes_has_its_resultant_and_its_jacobian():
    """Couple and torque add up to it wherever edges point; the stiffness is the slope of the residual."""
    rng = np.random.default_rng(0)
    robot = RodShellRobot(rng.standard_normal((4, 3)), radius=0.01, rod_material=LinearElastic(1e6, 0.5, 1000.0))
    state = RodShellStepper(dt=1e-3).start(robot, Environment())
    moment, q = rng.standard_normal(3), state.q + 0.1 * rng.standard_normal(len(state.q))
    term = Moments(state, 1e-3, np.array([1]), moment[None])

    def residual(at):
        out = np.zeros_like(at)
        term.add_force(at, out)
        return out

    force, x = -residual(q), q[:12].reshape(-1, 3)
    e = x[2] - x[1]
    total = np.cross(x, force[:12].reshape(-1, 3)).sum(axis=0) + force[13] * e / np.linalg.norm(e)
    np.testing.assert_allclose(total, moment, rtol=1e-12)
    np.testing.assert_allclose(force[:12].reshape(-1, 3).sum(axis=0), 0.0, atol=1e-12)
    (row, col, data), found = term.add_stiffness(q, np.zeros(0)).entries, np.zeros((len(q), len(q)))
    np.add.at(found, (row, col), data)
    unknown, steps = state.system.pattern.unknown, 1e-6 * np.eye(len(q))
    slopes = np.array([residual(q + step) - residual(q - step) for step in steps]).T / 2e-6
    np.testing.assert_allclose(found[np.ix_(unknown, unknown)], slopes, atol=1e-7)


def test_a_moment_about_fixed_axes_winds_a_rod_to_a_helix_about_it():
    """Across a rod it makes a circle; otherwise every edge has the same angle to it and the same twist [Kirchhoff 1859]."""
    rigidity, angle = 1e7 * np.pi * 2e-3**4 / 4, 1.2
    size = angle * rigidity / (0.2 - 0.2 / 10)
    solver = RodShellStepper(static=True, tolerance=1e-10)
    bend = Load.moment([9], (0, 0, size))
    ring = solve(shaft(), Passive(), Environment(loads=[bend]), solver=solver)
    x = ring.frames[-1]
    e = x[10] - x[9]
    # a kink of 2 t = 2 tan(turn / 2) bears M = EI / l 2 t (1 + t^2): the polygon turns a little less than the circle
    t = np.roots([1.0, 0.0, 1.0, -0.5 * angle / 9])
    assert np.arctan2(e[1], e[0]) == pytest.approx(18 * np.arctan(t[np.isreal(t)].real[0]), rel=1e-4)
    both = [bend, Load.moment([9], (0.3 * size, 0, 0))]
    result = solve(shaft(), Passive(), Environment(loads=both), solver=solver)
    x, reactions = result.frames[-1], result.reactions[-1]
    borne = np.cross(x, reactions).sum(axis=0)
    np.testing.assert_allclose(borne[1:], [0.0, -size], atol=1e-6 * size)
    twist = result.extra["twist"][-1, 0] * (1e7 / 3 * np.pi * 2e-3**4 / 2) / 0.02
    assert twist == pytest.approx(0.3 * size, rel=0.01)
    np.testing.assert_allclose(result.extra["twist"][-1], result.extra["twist"][-1, 0], rtol=1e-6)
    along = np.diff(x, axis=0) @ [0.3, 0, 1.0]
    np.testing.assert_allclose(along, along[0], rtol=0.02)


@pytest.mark.slow
def test_a_torque_on_what_is_no_edge_of_a_rod_is_refused():
    with pytest.raises(InputError, match=r"edge 10 is none of the 10 edges of rods"):
        solve(shaft(), Passive(), Environment(loads=[Load.torque([10], 1e-3)]), solver=RodShellStepper(static=True))
    finger = round_finger(length=0.02, radius=5e-3).robot(max_edge=5e-3)
    with pytest.raises(InputError, match=r"loads\[0\]: Load.torque acts on edges of rods"):
        solve(finger, Passive(), Environment(loads=[Load.torque([0], 1e-3)]))
