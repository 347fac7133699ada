"""The multibody stepper against closed forms: contact, elasticity, rigid rotation, conservation, both routes."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from geosim.errors import InputError
from geosim.geometry import topology
from geosim.material.materials import LinearElastic
from geosim.model.actuation import Passive, UndulatoryGait, ValveCommands
from geosim.model.contract import Status
from geosim.model.environment import Environment, Load, Obstacle
from geosim.snake.builder import MultibodyBuilder, box_inertia
from geosim.snake.rotation import matrices
from geosim.snake.snake import make_snake
from geosim.snake.stepper import MultibodyStepper
from geosim.snake.valves import PSI
from geosim.solve import solve

G = 9.81


def march(robot, environment, seconds, **options):
    """States at every frame of a passive motion."""
    stepper = MultibodyStepper(**options)
    states = [stepper.start(robot, environment)]
    for _ in range(round(seconds / stepper.dt)):
        state, report = stepper.step(states[-1])
        assert not report.message, report.message
        states.append(state)
    return states


def block(size=(0.1, 0.08, 0.02), height=0.01, mass=0.5, **options):
    build = MultibodyBuilder("block")
    build.add_body(mass, box_inertia(mass, size), (0, 0, height), size=size, solid=True, **options)
    return build.build()


def beam(cells=(6, 2, 2), size=(0.3, 0.05, 0.05), material=None, hold=True, name="bar"):
    """A bar of tets along x, held on the plane x = 0 so that it may contract sideways."""
    nx, ny, nz = (c + 1 for c in cells)
    grid = np.stack(
        np.meshgrid(*[np.linspace(0, s, n) for s, n in zip(size, (nx, ny, nz))], indexing="ij"), -1
    ).reshape(-1, 3)
    number = np.arange(nx * ny * nz).reshape(nx, ny, nz)
    paths = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    tets = []
    for i, j, k in np.ndindex(*cells):
        for path in paths:
            corner = np.array([i, j, k])
            tet = [number[tuple(corner)]]
            for axis in path:
                corner[axis] += 1
                tet.append(number[tuple(corner)])
            tets.append(tet)
    tets = np.array(tets)
    negative = topology.tet_volumes(grid, tets) < 0
    tets[negative] = tets[negative][:, [0, 1, 3, 2]]
    build = MultibodyBuilder(name)
    ids = build.add_tets(grid, tets, material or LinearElastic(66e3, 0.0, 1070.0))
    if hold:
        build.fix_particles(ids[grid[:, 0] == 0])
    return build.build(), grid, tets


# -- contact ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("part", "slides"), [(0.97, False), (1.03, True)])
def test_block_on_an_incline_sticks_below_and_slides_above_the_angle_of_friction(part, slides):
    """At 3 % to either side of tan(angle) = mu; sliding with a = g (sin - mu cos)."""
    mu = 0.5
    angle = np.arctan(part * mu)
    tilted = Environment(
        gravity=(G * np.sin(angle), 0, -G * np.cos(angle)),
        obstacles=[Obstacle.plane((0, 0, 0), (0, 0, 1), friction=mu)],
    )
    creep = 1e-4
    states = march(block(friction=mu), tilted, 0.6, slip_velocity=creep, contact_stiffness=1e5)
    speed = states[-1].body_velocities[0, 0]
    if slides:
        settled = states[6]  # after the first contact
        expected = G * (np.sin(angle) - mu * np.cos(angle)) * (states[-1].time - settled.time)
        assert speed - settled.body_velocities[0, 0] == pytest.approx(expected, rel=0.02)
    else:
        # Below the angle it creeps at slip_velocity * tan(angle) / mu, and no faster.
        assert 0 < speed == pytest.approx(part * creep, rel=0.05)


def test_friction_never_leaves_the_cone_and_points_against_the_slip():
    """A block thrown along a plane decelerates by mu g and stops; |force| <= mu normal force in every frame."""
    mu, speed = 0.3, 0.6
    ground = Environment(gravity=(0, 0, -G), obstacles=[Obstacle.plane((0, 0, 0), (0, 0, 1), friction=mu)])
    states = march(block(velocity=(speed, 0, 0), friction=mu), ground, 0.35, contact_stiffness=1e5, substeps=4)
    for state in states[1:]:
        force = state.contacts["force"]
        assert (np.linalg.norm(force[:, :2], axis=1) <= mu * force[:, 2] * (1 + 1e-9)).all()
    stop = speed / (mu * G)
    assert states[-1].time > stop
    assert states[-1].body_positions[0, 0] == pytest.approx(0.5 * speed * stop, rel=0.03)
    assert abs(states[-1].body_velocities[0]).max() < 1e-4
    early = states[3]
    assert early.contacts["force"][:, 0].sum() == pytest.approx(-mu * early.contacts["force"][:, 2].sum(), rel=1e-6)


def test_falling_and_stacked_boxes_come_to_rest_on_each_other():
    """A small box falls on a big one: both at rest after a second, carried by the contact compliance alone."""
    build = MultibodyBuilder("stack")
    heights, masses, widths = (0.05, 0.04), (0.4, 0.2), (0.2, 0.1)
    z = 0.0
    for h, m, w in zip(heights, masses, widths):
        build.add_body(
            m, box_inertia(m, (w, w, h)), (0, 0, z + h / 2 + 0.004), size=(w, w, h), solid=True, friction=0.5
        )
        z += h + 0.004
    ground = Environment(gravity=(0, 0, -G), obstacles=[Obstacle.plane((0, 0, 0), (0, 0, 1), friction=0.5)])
    stiffness = 2e4
    state = march(build.build(), ground, 1.0, contact_stiffness=stiffness)[-1]
    assert abs(state.body_velocities).max() < 1e-5
    assert abs(state.spins).max() < 1e-4
    sink_low, sink_high = sum(masses) * G / (4 * stiffness), masses[1] * G / (4 * stiffness)
    assert state.body_positions[0, 2] == pytest.approx(heights[0] / 2 - sink_low, abs=1e-7)
    assert state.body_positions[1, 2] == pytest.approx(heights[0] + heights[1] / 2 - sink_low - sink_high, abs=2e-7)
    ground_force = state.contacts["force"][state.contacts["surface"] == 0].sum(axis=0)
    assert ground_force == pytest.approx([0, 0, sum(masses) * G], abs=1e-4)


@pytest.mark.parametrize("shape", ["sphere", "cylinder", "box"])
def test_ball_rests_on_every_obstacle(shape):
    """A ball on top of a curved obstacle sinks by its weight over the contact stiffness."""
    obstacle = {
        "sphere": Obstacle.sphere((0, 0, -0.1), 0.1),
        "cylinder": Obstacle.cylinder((-1, 0, -0.1), (1, 0, -0.1), 0.1),
        "box": Obstacle.box((-1, -1, -1), (1, 1, 0)),
    }[shape]
    build = MultibodyBuilder()
    body = build.add_body(0.2, (1e-4, 1e-4, 1e-4), (0, 0, 0.02))
    build.add_ball(body, (0, 0, 0), 0.02)
    state = march(build.build(), Environment(gravity=(0, 0, -G), obstacles=[obstacle]), 0.5)[-1]
    assert state.body_positions[0] == pytest.approx([0, 0, 0.02 - 0.2 * G / 2e4], abs=1e-7)


def test_distance_to_a_cylinder_is_right_inside_outside_and_at_its_caps():
    """Against the exact distances of seven points."""
    from geosim.collision.shapes import signed_distances

    solid = Obstacle.cylinder((0, 0, 0), (2, 0, 0), 0.5).solid
    cases = [
        ((1, 0.7, 0), 0.2),
        ((1, 0.3, 0), -0.2),
        ((2.3, 0, 0), 0.3),
        ((1.9, 0.1, 0), -0.1),
        ((-0.3, 0.9, 0), 0.5),
        ((0.05, 0, 0), -0.05),
        ((2.4, 0.5, 0.0), 0.4),
    ]
    points = np.array([point for point, _ in cases], dtype=float)
    found, _, n = signed_distances(solid, points)
    assert found == pytest.approx([distance for _, distance in cases])
    assert np.linalg.norm(n, axis=1) == pytest.approx(1.0)
    h = 1e-6 * np.eye(3)
    slope = [(signed_distances(solid, points + e)[0] - signed_distances(solid, points - e)[0]) / 2e-6 for e in h]
    smooth = (points[:, 1] != 0) & (points[:, 0] != 2.4)
    assert np.transpose(slope)[smooth] == pytest.approx(n[smooth], abs=1e-5)


def test_moving_obstacle_carries_a_block():
    """A plane that moves sideways takes a sticking block along; a lifted one lifts it."""
    motion = np.column_stack([np.linspace(0.001, 0.03, 30), np.zeros(30), np.linspace(0.0005, 0.015, 30)])
    moving = Environment(
        gravity=(0, 0, -G), obstacles=[Obstacle.plane((0, 0, 0), (0, 0, 1), friction=0.8, motion=motion)]
    )
    start, end = (march(block(friction=0.8), moving, 0.5)[k] for k in (0, -1))
    shift = end.body_positions[0] - start.body_positions[0]
    assert shift[0] == pytest.approx(0.03, abs=1e-3)
    assert shift[2] == pytest.approx(0.015, abs=2e-4)


# -- elasticity -------------------------------------------------------------------------------------------------------


def test_elastic_bar_stretches_by_its_modulus():
    """With nu = 0 the end of a pulled bar moves by F L / (E A), exactly for corotational tets."""
    robot, grid, _ = beam()
    end = np.flatnonzero(grid[:, 0] == 0.3)
    force = 8.0
    pulled = Environment(loads=[Load.force(end, (force, 0, 0))])
    state = march(robot, pulled, 60.0, dt=5.0, substeps=1, tolerance=1e-9)[-1]
    assert (state.positions - grid)[end, 0] == pytest.approx(force * 0.3 / (66e3 * 0.05**2), rel=1e-6)
    assert abs((state.positions - grid)[end, 1:]).max() < 1e-9


def test_bar_contracts_sideways_by_poissons_ratio():
    """A free bar pulled at both ends by tractions has strains F/(EA) and -nu F/(EA)."""
    E, nu = 66e3, 0.3
    robot, grid, tets = beam((2, 1, 1), (0.1, 0.05, 0.05), LinearElastic(E, nu, 1070.0), hold=False)
    faces = topology.boundary_faces(tets)
    ends = [faces[(grid[faces][:, :, 0] == x).all(axis=1)] for x in (0.0, 0.1)]
    stress = 5e3
    pulled = Environment(loads=[Load.traction(ends[0], (-stress, 0, 0)), Load.traction(ends[1], (stress, 0, 0))])
    x = march(robot, pulled, 60.0, dt=5.0, substeps=1, tolerance=1e-9)[-1].positions
    assert np.ptp(x[:, 0]) == pytest.approx(0.1 * (1 + stress / E), rel=1e-6)
    assert np.ptp(x[:, 1]) == pytest.approx(0.05 * (1 - nu * stress / E), rel=1e-6)


def test_line_length_follows_the_pressure():
    """A free actuation line takes the length r0 (1 + P / E) of Eq. (4)."""
    build = MultibodyBuilder()
    ids = build.add_particles([[0, 0, 0], [0.01, 0, 0]], mass=1e-3)
    build.add_line(ids, build.add_chamber(), 600.0, 66e3)
    stepper = MultibodyStepper(dt=1.0, substeps=1, tolerance=1e-9)
    state = stepper.start(build.build())
    for _ in range(30):
        state, _report = stepper.step(state, [22e3])
    assert np.linalg.norm(np.diff(state.positions, axis=0)) == pytest.approx(0.01 * (1 + 22e3 / 66e3), rel=1e-6)


# -- rigid bodies -----------------------------------------------------------------------------------------------------


def test_pendulum_has_the_period_of_a_physical_pendulum():
    """A rod on a hinge, 0.1 rad: T = 2 pi sqrt(I / (m g d)) (1 + a^2 / 16), to first order in the step."""
    m, length = 0.3, 0.4
    inertia = np.array([1e-5, m * length**2 / 12, m * length**2 / 12])
    angle = 0.1
    q = (np.cos(-angle / 2 + np.pi / 4), 0, np.sin(-angle / 2 + np.pi / 4), 0)  # x axis of the rod points down, tilted
    R = matrices(np.array([q]))[0]
    build = MultibodyBuilder("pendulum")
    body = build.add_body(m, inertia, R @ [length / 2, 0, 0], q)
    build.add_hinge(None, body, (0, 0, 0), (0, 1, 0))
    dt = 2e-3
    states = march(build.build(), Environment(gravity=(0, 0, -G)), 1.3, dt=dt, substeps=1, tolerance=1e-7)
    x = np.array([s.body_positions[0, 0] for s in states])
    t = np.array([s.time for s in states])
    k = np.flatnonzero(x[:-1] * x[1:] < 0)
    crossings = t[k] - x[k] * (t[k + 1] - t[k]) / (x[k + 1] - x[k])
    whole = inertia[1] + m * (length / 2) ** 2
    period = 2 * np.pi * np.sqrt(whole / (m * G * length / 2)) * (1 + angle**2 / 16)
    assert 2 * np.diff(crossings).mean() == pytest.approx(period, rel=3e-3)
    assert max(s.constraint_drift() for s in states) < 1e-5


def test_spinning_top_precesses():
    """A fast top held at its tip precesses at m g r / (I3 omega)."""
    m, r, spin = 0.1, 0.05, 400.0
    inertia = np.array([4e-5, 4e-5, 6e-5])
    tilt = 0.5
    q = (np.cos(tilt / 2), 0, np.sin(tilt / 2), 0)
    R = matrices(np.array([q]))[0]
    rate = m * G * r / (inertia[2] * spin)
    omega = spin * R[:, 2] + np.array([0, 0, rate])
    build = MultibodyBuilder("top")
    body = build.add_body(m, inertia, R @ [0, 0, r], q, spin=omega, velocity=np.cross([0, 0, rate], R @ [0, 0, r]))
    build.add_ball_joint(body, None, (0, 0, 0), stiffness=1e5)
    states = march(build.build(), Environment(gravity=(0, 0, -G)), 0.3, dt=1e-3, substeps=2, tolerance=1e-6)
    axis = np.array([matrices(s.orientations)[0][:, 2] for s in states])
    azimuth = np.unwrap(np.arctan2(axis[:, 1], axis[:, 0]))
    assert azimuth[-1] / states[-1].time == pytest.approx(rate, rel=0.03)
    assert np.arccos(axis[:, 2]) == pytest.approx(tilt, abs=0.02)


def test_free_body_keeps_its_angular_momentum_exactly():
    """An asymmetric body tumbles freely: the discrete momentum of the step is constant to rounding."""
    build = MultibodyBuilder()
    inertia = np.array([2e-4, 3e-4, 4.5e-4])
    build.add_body(0.3, inertia, (0, 0, 0), spin=(0.3, 9.0, 0.4))
    states = march(build.build(), Environment(), 2.5, dt=5e-3, substeps=1, tolerance=1e-12)
    J = np.diag(0.5 * inertia.sum() - inertia)

    def momentum(a, b, h=5e-3):
        A, B = matrices(a.orientations)[0], matrices(b.orientations)[0]
        M = B @ J @ A.T / h
        return np.array([M[2, 1] - M[1, 2], M[0, 2] - M[2, 0], M[1, 0] - M[0, 1]])

    L = np.array([momentum(a, b) for a, b in pairwise(states[1:])])
    assert abs(L - L[0]).max() < 1e-9 * np.linalg.norm(L[0])
    assert np.linalg.norm(L[0]) == pytest.approx(9.0 * 3e-4, rel=2e-2)
    # It did tumble: the middle axis is unstable.
    assert min(matrices(s.orientations)[0][1, 1] for s in states) < 0.0


def test_hinge_motor_and_limits():
    """A motor takes a hinge to its target; a limit stops it earlier, where the two torques balance."""
    soft = ((-0.3, 0.3, 4.0), (1.0 * 0.8 + 4.0 * 0.3) / 5.0)
    for limits, expected in ((None, 0.8), ((-0.3, 0.3), (1.0 * 0.8 + 10.0 * 0.3) / 11.0), soft):
        build = MultibodyBuilder()
        body = build.add_body(0.1, (1e-4, 1e-4, 1e-4), (0, 0, 0))
        build.add_hinge(None, body, (0, 0, 0), (0, 0, 1), spring=1.0, target=0.8, damping=0.02, limits=limits)
        state = march(build.build(), Environment(), 2.0)[-1]
        R = matrices(state.orientations)[0]
        assert np.arctan2(R[1, 0], R[0, 0]) == pytest.approx(expected, abs=1e-4)


def test_fixed_joint_carries_a_cantilevered_body():
    """A body welded to the world at its end stays; its joint turns by the moment over the axis stiffness."""
    build = MultibodyBuilder()
    body = build.add_body(0.5, (1e-4, 1e-4, 1e-4), (0.1, 0, 0))
    build.add_fixed_joint(None, body, (0, 0, 0), axis_stiffness=1e3)
    state = march(build.build(), Environment(gravity=(0, 0, -G)), 1.0)[-1]
    R = matrices(state.orientations)[0]
    turn = np.arcsin(-R[2, 0])
    assert 0 < turn == pytest.approx(0.5 * G * 0.1 / 1e3, rel=0.02)


# -- conservation -----------------------------------------------------------------------------------------------------


def test_momentum_is_kept_without_contact_and_energy_never_grows():
    """A soft bar and a rigid body tied together, thrown and deformed."""
    robot, grid, tets = beam((3, 1, 1), (0.15, 0.05, 0.05), LinearElastic(66e3, 0.4, 1070.0), hold=False)
    build = MultibodyBuilder()
    ids = build.add_tets(grid, tets, LinearElastic(66e3, 0.4, 1070.0))
    body = build.add_body(0.1, box_inertia(0.1, (0.02, 0.05, 0.05)), (0.16, 0.025, 0.025))
    build.attach(ids[grid[:, 0] == 0.15], body, 1e4)
    robot = replace(build.build(), particle_velocities=0.5 * np.sin(37 * grid + [1, 2, 3]))
    states = march(robot, Environment(), 0.5, tolerance=1e-10)
    p = np.array([s.momentum for s in states])
    assert abs(p - p[0]).max() < 1e-10
    energy = [sum(s.energy().values()) for s in states]
    assert (np.diff(energy) < 1e-12).all()
    assert energy[-1] < energy[0]


def test_free_fall_is_first_order_in_the_step():
    """Implicit Euler falls h g t / 2 too far: the error halves with the step."""
    errors = []
    for h in (0.02, 0.01, 0.005):
        state = march(block(height=10.0), Environment(gravity=(0, 0, -G)), 0.2, dt=h, substeps=1)[-1]
        errors.append(10.0 - 0.5 * G * 0.2**2 - state.body_positions[0, 2])
        assert errors[-1] == pytest.approx(0.5 * h * G * 0.2, rel=1e-6)
    assert np.log2(np.divide(errors[:-1], errors[1:])) == pytest.approx(1.0, abs=1e-3)


def test_motion_does_not_depend_on_place_and_heading():
    """The same bar turned and shifted moves the same way (to the tolerance of the steps)."""
    _, grid, tets = beam((3, 1, 1), (0.15, 0.05, 0.05))
    R = matrices(np.array([[0.8, 0.0, 0.0, 0.6]]))[0]
    ends = []
    for turn, shift in ((np.eye(3), np.zeros(3)), (R, np.array([1.0, 2.0, 3.0]))):
        build = MultibodyBuilder()
        ids = build.add_tets(grid @ turn.T + shift, tets, LinearElastic(66e3, 0.4))
        build.fix_particles(ids[grid[:, 0] == 0])
        state = march(build.build(), Environment(gravity=turn @ [0, 0, -G]), 0.2, tolerance=1e-9)[-1]
        ends.append((state.positions - shift) @ turn)
    assert abs(ends[0] - ends[1]).max() < 1e-9


# -- routes and factorisations ----------------------------------------------------------------------------------------


def bent_bar():
    """A short soft bar with a stiff layer and a line, a plate at its end, gravity, and a ball touching the ground."""
    _, grid, tets = beam((3, 1, 1), (0.15, 0.05, 0.05))
    build = MultibodyBuilder()
    ids = build.add_tets(grid + [0, 0, 0.05], tets, LinearElastic(66e3, 0.4))
    build.fix_particles(ids[grid[:, 0] == 0])
    top = ids[(grid[:, 1] == 0) & (grid[:, 2] == 0.05)]
    build.add_line(top, build.add_chamber(), 200.0, 66e3)
    bottom = ids[(grid[:, 1] == 0) & (grid[:, 2] == 0)]
    build.add_distances(np.column_stack([bottom[:-1], bottom[1:]]), 1e4)
    body = build.add_body(0.1, box_inertia(0.1, (0.02, 0.05, 0.05)), (0.16, 0.025, 0.075))
    build.attach(ids[grid[:, 0] == 0.15], body, 1e4)
    build.add_ball(body, (0, 0, 0), 0.072, friction=0.5)
    return build.build(), Environment(
        gravity=(0.5, 0, -G), obstacles=[Obstacle.plane((0, 0, 0), (0, 0, 1), friction=0.5)]
    )


def test_primal_and_dual_route_reach_the_same_solution():
    """Converged to 1e-8 N both routes give the same places, with friction; and the sparse factorisation too."""
    robot, world = bent_bar()
    ends = []
    for options in (
        {"route": "primal", "factoriser": "block"},
        {"route": "primal", "factoriser": "sparse"},
        {"route": "primal", "factoriser": "block", "single": True},
        {"route": "dual"},
    ):
        stepper = MultibodyStepper(tolerance=1e-8, max_iterations=200, **options)
        state = stepper.start(robot, world)
        for _ in range(6):
            state, report = stepper.step(state, [2e4])
            assert not report.message, (options, report.message)
        assert len(state.contacts["gap"])
        ends.append(np.vstack([state.positions, state.body_positions]))
    for other in ends[1:]:
        assert abs(other - ends[0]).max() < 1e-9


def test_the_dual_route_converges_where_wheels_slip():
    """A snake of two links in a gait: every frame ends where the primal route does that goes on to 1e-8 N."""
    robot, gait = make_snake(links=2, sections=4), UndulatoryGait(6 * PSI, 1.0, 1.5, 0.0, 0.16)
    floor = Environment(gravity=(0, 0, -G), obstacles=[Obstacle.plane((0, 0, 0), (0, 0, 1), friction=0.2)])
    dual, exact = MultibodyStepper(route="dual", dt=0.01), MultibodyStepper(dt=0.01, tolerance=1e-8, max_iterations=60)
    state, slips = dual.start(robot, floor), 0
    for command in dual.commands(robot, gait):
        ends = []
        for stepper in (exact, dual):
            end, report = stepper.step(state, command)
            assert report.reached, report.message
            ends.append(end)
        assert (
            max(record["linear"] for record in report.records) < 20
        )  # measured: 6; 50 without the rows of turning tets
        assert len(report.records) < 15  # measured: 8; up to 50 with damped friction
        for key in ("positions", "body_positions"):
            assert abs(getattr(ends[1], key) - getattr(ends[0], key)).max() < 1e-7  # measured: 9e-9
        force, state = end.contacts["force"], end
        slips += np.count_nonzero(np.hypot(force[:, 0], force[:, 1]) > 0.999 * np.sqrt(0.2) * force[:, 2])
    assert slips > 10


def test_the_papers_solver_spends_its_budget_and_says_so():
    """Jacobi's preconditioner on a link: no direction ends before the budget, and the frame has not converged."""
    robot = make_snake(links=1, sections=4)
    floor = Environment(gravity=(0, 0, -G), obstacles=[Obstacle.plane((0, 0, 0), (0, 0, 1))])
    stepper = MultibodyStepper(route="dual", preconditioner="jacobi", linear_iterations=20, max_iterations=4)
    state, report = stepper.step(stepper.start(robot, floor), [3e4])
    assert {record["linear"] for record in report.records} == {20}
    assert report.status is Status.NOT_CONVERGED
    assert state.residual > stepper.tolerance
    assert f"{state.residual:.2e} N" in report.message


def test_the_papers_solver_converges_on_a_bar_with_the_multipliers_of_its_lines():
    """With iterations enough it ends where the primal route does, and the multipliers are minus the tensions."""
    robot, world = bent_bar()
    paper = MultibodyStepper(route="dual", preconditioner="jacobi", tolerance=1e-7)
    state, report = paper.step(paper.start(robot, world), [2e4])
    exact, _ = replace(paper, route="primal").step(paper.start(robot, world), [2e4])
    assert report.reached
    assert abs(state.positions - exact.positions).max() < 1e-9
    system = state.system
    rest, stiffness = system.springs_at(state.pressures, state.line_onset)
    tension = stiffness * (np.linalg.norm(np.diff(state.positions[system.springs], axis=1)[:, 0], axis=1) - rest)
    first = 6 * len(system.soft.corners)
    assert abs(tension).max() > 0.1
    assert state.multipliers[first : first + len(tension)] == pytest.approx(-tension, abs=1e-4)


def test_a_budget_that_is_not_enough_is_reported():
    """One PCR iteration and one Newton iteration: the residual is above the tolerance and the report says so."""
    robot, world = bent_bar()
    stepper = MultibodyStepper(route="dual", max_iterations=1, linear_iterations=2, tolerance=1e-6)
    state, report = stepper.step(stepper.start(robot, world), [2e4])
    assert state.residual > 1e-6
    assert "did not converge" in report.message
    assert f"{state.residual:.2e}" in report.message
    assert (report.status, report.reached, report.goes_on) == (Status.NOT_CONVERGED, False, True)
    _, strict = replace(stepper, throw=True).step(stepper.start(robot, world), [2e4])
    assert not strict.goes_on


def test_a_solve_with_frames_that_did_not_converge_says_so_in_its_status():
    """It goes to the end all the same, unless it is asked to stop at the first."""
    robot, world = bent_bar()
    valves = ValveCommands([0.0, 0.1], [[2e4], [2e4]])
    stepper = MultibodyStepper(route="dual", max_iterations=1, linear_iterations=2, tolerance=1e-6)
    ends = []
    for throw in (False, True):
        result = solve(robot, valves, world, solver=replace(stepper, throw=throw), throw=False)
        assert (result.status, result.converged) == (Status.NOT_CONVERGED, False)
        ends.append(result.times[-1])
    assert ends[0] == pytest.approx(0.1)
    assert ends[1] == 0.0


def test_a_guess_is_never_taken_for_a_solution():
    """Where every force is below the tolerance there is still an iteration: a light bar sags as it does when converged."""
    robot, grid, _ = beam()
    ends = []
    for tolerance in (1e-8, 10.0):
        state = march(robot, Environment(gravity=(0, 0, -G)), 0.3, tolerance=tolerance)[-1]
        ends.append(state.positions[grid[:, 0] == 0.3, 2])
    assert abs(ends[0] - 0.025).max() > 0.02
    assert ends[1] == pytest.approx(ends[0], abs=1e-4)


def test_many_contacts_in_the_matrix_move_as_in_their_own_unknowns(monkeypatch):
    """A soft bar falls on the ground: either way, to 1e-7 N, the same places."""
    from geosim.snake import condensed

    _, grid, tets = beam()
    build = MultibodyBuilder()
    ids = build.add_tets(grid + [0, 0, 0.002], tets, LinearElastic(66e3, 0.4, 1070.0))
    build.add_particle_contact(ids[grid[:, 2] == 0], friction=0.5)
    ground = Environment(gravity=(1.0, 0, -G), obstacles=[Obstacle.plane((0, 0, 0), (0, 0, 1), friction=0.5)])
    ends = []
    for most in (40, 0):
        monkeypatch.setattr(condensed, "_MAX_DENSE_CONTACTS", most)
        state = march(build.build(), ground, 0.1, tolerance=1e-7, max_iterations=100, contact_stiffness=2e3)[-1]
        assert (state.contacts["gap"] < 0).sum() > 5
        ends.append(state.positions)
    assert abs(ends[1] - ends[0]).max() < 1e-8


def test_energy_of_a_swinging_bar_decreases_and_more_budget_means_less_residual():
    """The residual falls with the iterations allowed."""
    robot, world = bent_bar()
    residuals = []
    for iterations in (1, 2, 4):
        stepper = MultibodyStepper(max_iterations=iterations, tolerance=1e-12)
        state, _report = stepper.step(stepper.start(robot, world), [2e4])
        residuals.append(state.residual)
    assert residuals[0] > 10 * residuals[1] > 100 * residuals[2]


# -- the interface ----------------------------------------------------------------------------------------------------


def test_solve_returns_a_result_with_forces():
    """`solve` runs the stepper; the ground carries the weight."""
    robot, mu = block(friction=0.5), 0.5
    ground = Environment(gravity=(0, 0, -G), obstacles=[Obstacle.plane((0, 0, 0), (0, 0, 1), friction=mu)])
    result = solve(robot, Passive(duration=0.5), ground)
    assert result.converged
    assert result.frames.shape == (31, 8, 3)
    assert result.times[-1] == pytest.approx(0.5)
    assert result.obstacle_forces[-1, 0] == pytest.approx([0, 0, -0.5 * G], abs=1e-3)
    assert result.contact_forces[-1].sum(axis=0) == pytest.approx([0, 0, 0.5 * G], abs=1e-3)
    assert result.residual.max() <= 1e-4
    more = solve(robot, Passive(duration=0.1), ground, initial=result)
    assert more.times[0] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"route": "both"}, "route"),
        ({"dt": 0.0}, "dt"),
        ({"max_iterations": 0}, "max_iterations"),
        ({"tolerance": -1.0}, "tolerance"),
        ({"frame_iterations": 1}, "frame_iterations"),
        ({"factoriser": "lu"}, "factoriser"),
    ],
)
def test_stepper_refuses_impossible_options(change, word):
    """The message names the option."""
    with pytest.raises(InputError, match=word):
        MultibodyStepper(**change)


def test_builder_refuses_what_cannot_be():
    """Massless particles, reflected tets, bodies with impossible moments, an empty robot, a fluid."""
    from geosim.model.environment import Fluid

    massless, impossible = MultibodyBuilder(), MultibodyBuilder()
    massless.add_particles([[0, 0, 0]])
    impossible.add_body(1.0, (1.0, 1.0, 3.0), (0, 0, 0))
    with pytest.raises(InputError, match="particle_masses"):
        massless.build()
    with pytest.raises(InputError, match="positive volume"):
        MultibodyBuilder().add_tets(np.vstack([np.zeros(3), np.eye(3)]), [[0, 2, 1, 3]], LinearElastic(1e5, 0.3))
    with pytest.raises(InputError, match="triangle inequality"):
        impossible.build()
    with pytest.raises(InputError, match="neither particles nor bodies"):
        MultibodyBuilder().build()
    with pytest.raises(InputError, match="fluid"):
        MultibodyStepper().start(block(), Environment(fluid=Fluid(1000.0)))


def test_a_hinge_refuses_a_keyword_that_it_does_not_know():
    """A misspelt stiffness would be a hinge without a motor."""
    with pytest.raises(TypeError, match="sprng"):
        MultibodyBuilder().add_hinge(None, 0, (0, 0, 0), (0, 1, 0), sprng=1.0)


@pytest.mark.parametrize("limits", [(0.1,), (-0.1, 0.1, 2.0, 3.0)])
def test_a_hinge_refuses_limits_that_are_not_two_angles_and_a_stiffness(limits):
    with pytest.raises(InputError, match="lower and upper angle"):
        MultibodyBuilder().add_hinge(None, 0, (0, 0, 0), (0, 1, 0), limits=limits)


def test_a_budget_bounds_the_whole_motion():
    limited = MultibodyStepper(max_seconds=0.2, throw=False)  # a frame takes some hundredths of a second
    ground = Environment(gravity=(0, 0, -9.81), obstacles=[Obstacle.plane((0, 0, 0), (0, 0, 1), friction=0.2)])
    result = solve(make_snake(1), UndulatoryGait(3 * PSI, 0.5, 1.5, 0.0, 60.0), ground, solver=limited, throw=False)
    assert result.status is Status.STOPPED
    assert 1 < len(result.frames) < 1000
    assert "max_seconds = 0.2 s ended at t = " in result.message
