"""Contact of shells with themselves: exact derivatives, nothing crosses, friction holds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from geosim import Environment, LinearElastic, Obstacle, Passive, Prescribed, solve
from geosim.collision.crossings import count_crossings
from geosim.rods.robot import RodShellRobot
from geosim.rods.sheet_contact import SheetContact
from geosim.rods.sheets import distances, first_touch
from geosim.rods.stepper import RodShellStepper

RUBBER = LinearElastic(1e6, 0.3, 1000.0)


def two_triangles(kind: str, seed: int = 0, friction: float = 0.0):
    """Two triangles far apart at rest, then so near that they touch: a vertex over a face, or crossed edges."""
    first = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0.0]])
    second = np.array([[0.3, 0.25, 0.06], [0.3, 0.3, 1.0], [0.6, 0.2, 1.2]])
    if kind != "vertex":
        second = np.array([[-0.5, -0.5, 0.05], [1.4, 0.5, 0.06], [0.4, -0.1, 1.1]])
        if kind == "parallel":  # so nearly that their contact fades
            second[:2] = [[0.0, -0.01, 0.05], [0.9, 0.005, 0.058]]
        first = np.array([[-0.5, 0, 0], [1.3, 0.01, 0], [0.2, 0.1, -1.0]])
    shape = np.concatenate([first, second]) + 1e-3 * np.random.default_rng(seed).normal(size=(6, 3))
    rest = shape + np.repeat([[0, 0, 0], [0, 0, 3.0]], 3, axis=0)
    robot = RodShellRobot(
        rest, triangles=[[0, 1, 2], [3, 4, 5]], thickness=0.1, allow_any_size=True, shell_material=RUBBER
    )
    solver = RodShellStepper(contact_stiffness=1e3, slip_velocity=0.3)
    state = solver.start(robot, Environment(self_friction=friction))
    q0 = shape.ravel() - 1e-3 * np.random.default_rng(seed + 9).normal(size=18)
    return SheetContact(replace(state, q=q0), 0.01, friction), shape.ravel()


def derivatives(term, q):
    """Energy gradient by differences, residual, Jacobian by differences and as assembled."""

    def force(p):
        f = np.zeros_like(p)
        return term.add_force(p, f)[0], f

    h = 1e-7
    slope = np.array([(force(q + v)[0] - force(q - v)[0]) / (2 * h) for v in h * np.eye(18)])
    jacobian = np.stack([(force(q + v)[1] - force(q - v)[1]) / (2 * h) for v in h * np.eye(18)], axis=1)
    extra = term.add_stiffness(q.copy(), np.zeros(1))
    order, exact = term.state.system.pattern.order, np.zeros((18, 18))
    row, col, data = extra.entries
    np.add.at(exact, (order[row], order[col]), data)
    return slope, force(q)[1], jacobian, exact


@pytest.mark.parametrize("kind", ["vertex", "edges", "parallel"])
def test_contact_force_and_stiffness_are_exact(kind):
    term, q = two_triangles(kind)
    slope, force, jacobian, exact = derivatives(term, q)
    assert np.abs(force).max() > 1.0
    assert np.abs(slope - force).max() < 1e-6 * np.abs(force).max()
    assert np.abs(jacobian - exact).max() < 1e-5 * np.abs(exact).max()
    assert np.abs(force.reshape(-1, 3).sum(axis=0)).max() < 1e-12 * np.abs(force).max()
    assert np.abs(np.cross(q.reshape(-1, 3), force.reshape(-1, 3)).sum(axis=0)).max() < 1e-10 * np.abs(force).max()


def test_friction_opposes_sliding_and_is_bounded_by_coulomb():
    plain, q = two_triangles("vertex")
    rubbing, _ = two_triangles("vertex", friction=0.5)
    normal = derivatives(plain, q)[1]
    friction = derivatives(rubbing, q)[1] - normal
    size = np.linalg.norm(friction.reshape(-1, 3)[3])
    assert 0.1 < size / (0.5 * np.linalg.norm(normal.reshape(-1, 3)[3])) <= 1.0
    assert friction @ (q - rubbing.state.q) > 0  # the residual is minus the force: friction takes energy
    _, _, jacobian, exact = derivatives(rubbing, q)
    # the turning of the normal is left out
    assert np.abs(jacobian - exact).max() < 0.05 * np.abs(exact).max()


def grid(columns: int, rows: int, length: float, width: float) -> tuple[np.ndarray, np.ndarray]:
    """A flat rectangle of triangles with alternating diagonals."""
    points = np.array(
        [[length * i / columns, width * j / rows, 0.0] for i in range(columns + 1) for j in range(rows + 1)]
    )
    triangles = []
    for i in range(columns):
        for j in range(rows):
            a, b = i * (rows + 1) + j, (i + 1) * (rows + 1) + j
            triangles += [(a, b, a + 1), (b, b + 1, a + 1)] if (i + j) % 2 else [(a, b, b + 1), (a, b + 1, a + 1)]
    return points, np.array(triangles)


def crossings(result) -> int:
    return sum(count_crossings(frame, result.robot.triangles).count for frame in result.frames)


def dropped(height: float, friction: float = 0.0, tilt: float = 0.0, duration: float = 0.05):
    """A small sheet dropped on a held one."""
    x, triangles = grid(6, 6, 0.1, 0.1)
    y, upper = grid(4, 4, 0.05, 0.05)
    y = y + [0.0213, 0.0237, 2e-3 + height]
    robot = RodShellRobot(
        np.concatenate([x, y]),
        triangles=np.concatenate([triangles, upper + len(x)]),
        thickness=2e-3,
        shell_material=RUBBER,
        fixed_vertices=np.arange(len(x)),
    )
    environment = Environment(gravity=(9.81 * np.sin(tilt), 0, -9.81 * np.cos(tilt)), self_friction=friction)
    return robot, solve(robot, Passive(duration), environment, solver=RodShellStepper(dt=2e-3)), len(x)


def test_a_sheet_falls_on_another_and_rests_at_its_thickness_and_weight():
    """Fast: it would pass through in one step of 2 ms."""
    robot, result, own = dropped(0.02, duration=0.3)
    velocities = np.zeros_like(robot.vertices)
    velocities[own:, 2] = -5.0
    fast = solve(
        replace(robot, velocities=velocities, masses=None),
        Passive(0.1),
        Environment(gravity=(0, 0, -9.81)),
        solver=RodShellStepper(dt=2e-3),
    )
    for each in (result, fast):
        assert each.converged
        assert crossings(each) == 0
        assert each.frames[:, own:, 2].min() > 0.3 * 2e-3
    assert result.frames[-1, own:, 2].mean() == pytest.approx(2e-3, rel=0.02)
    weight = 1000.0 * 2e-3 * 0.05**2 * 9.81
    assert result.contact_forces[-1, own:, 2].sum() == pytest.approx(weight, rel=0.02)
    assert np.abs(result.contact_forces[-1].sum(axis=0)).max() < 1e-9 * weight
    assert result.contact_count[-1] > 20


@pytest.mark.parametrize("friction", [0.0, 0.2, 0.5])
def test_friction_holds_below_its_angle_and_slides_by_coulomb_above(friction):
    tilt = np.deg2rad(20)
    _, result, own = dropped(0.0, friction, tilt, 0.06)
    slid = (result.frames[-1, own:, 0] - result.frames[0, own:, 0]).mean()
    acceleration = 9.81 * max(np.sin(tilt) - friction * np.cos(tilt), 0.0)
    assert slid == pytest.approx(0.5 * acceleration * 0.06 * 0.062, rel=0.08, abs=6e-5)  # as implicit Euler falls
    if friction == 0.5:
        assert result.extra["velocities"][-1, own:, 0].mean() < 1e-3  # creeps slower than the slip velocity
    assert crossings(result) == 0


def test_a_prescribed_sheet_cannot_be_moved_through_another():
    """The step that would is refused, halved, and at last reported."""
    x, triangles = grid(3, 3, 0.1, 0.1)
    robot = RodShellRobot(
        np.concatenate([x, x + [0.003, 0.002, 0.01]]),
        thickness=2e-3,
        shell_material=RUBBER,
        triangles=np.concatenate([triangles, triangles + len(x)]),
        fixed_vertices=np.arange(len(x)),
    )
    move = Prescribed(len(x) + np.arange(len(x)), (0, 0, -0.02))
    result = solve(
        robot,
        Passive(0.1),
        Environment(prescribed=[move]),
        solver=RodShellStepper(dt=0.02, smallest_dt=0.1),
        throw=False,
    )
    assert not result.converged
    assert crossings(result) == 0


def test_a_fine_sheet_does_not_push_against_itself():
    """Edges shorter than the thickness: at rest nothing touches, and folding by contact still does."""
    x, triangles = grid(12, 4, 0.012, 0.004)
    robot = RodShellRobot(x, triangles=triangles, thickness=2e-3, shell_material=RUBBER, fixed_vertices=x[:, 0] < 1e-9)
    result = solve(robot, Passive(0.02), Environment(gravity=(0, 0, -9.81)), solver=RodShellStepper(dt=5e-3))
    assert result.contact_count.max() == 0


def test_thin_triangles_do_not_push_against_themselves():
    """Parts nearer than the thickness, but not along the edges: nothing touches at rest or in a little compression."""
    x = np.array([[0, 0, 0], [0.1, 0, 0], [0.05, 4e-4, 0], [0.05, -4e-4, 0.0], [0.05, 0.05, 0], [0.05, -0.05, 0]])
    triangles = [[0, 1, 2], [0, 3, 1], [0, 2, 4], [2, 1, 4], [0, 5, 3], [3, 5, 1]]
    robot = RodShellRobot(x, triangles=triangles, thickness=2e-3, shell_material=RUBBER)
    sheet = RodShellStepper().start(robot).system.sheet
    for y in (x, 0.95 * x):
        listed = sheet.near(y, 1e-3)
        assert len(listed.points) > 0
        assert not (distances(y, listed.points, listed.edges) < listed.touch).any()


@pytest.mark.parametrize("seed", range(4))
def test_pairs_that_are_not_asked_for_their_distance_neither_touch_nor_stop_a_step(seed):
    """Two sheets above each other, whose vertices went anywhere within the margin of the list since it was made."""
    rng = np.random.default_rng(seed)
    x, triangles = grid(8, 8, 0.1, 0.1)
    x = np.concatenate([x, x + [0.003, 0.004, 0.0014]])
    triangles = np.concatenate([triangles, triangles + len(x) // 2])
    robot = RodShellRobot(x, triangles=triangles, thickness=1e-3, shell_material=LinearElastic(1e6, 0.4, 1000.0))
    sheet = RodShellStepper().start(robot, Environment()).system.sheet
    listed = sheet.near(x, 6e-3)
    y = x + 0.1e-3 * rng.normal(size=(2, 1, 3)).repeat(len(x) // 2, axis=1).reshape(-1, 3)
    y += 0.25e-3 * rng.normal(size=x.shape)
    dx = 0.4e-3 * rng.normal(size=x.shape)
    near = distances(y, listed.points, listed.edges) < listed.touch
    points, _, _ = listed.touching(y)
    found = {tuple(p) for p in points.tolist()}
    assert {tuple(p) for p in listed.points[near].tolist()} <= found
    assert near.any()
    assert len(found) < 0.4 * len(listed.points)
    whole = first_touch(y, dx, listed.points, listed.edges, listed.touch)
    points, edges, touch = listed.meeting(y, dx)
    assert first_touch(y, dx, points, edges, touch) == whole
    assert whole < 1.0
    assert len(points) < 0.8 * len(listed.points)


@pytest.mark.slow
def test_a_sheet_dropped_on_a_sphere_drapes_and_crosses_nothing():
    x, triangles = grid(12, 12, 0.3, 0.3)
    robot = RodShellRobot(
        x - [0.15, 0.15, -0.086], triangles=triangles, thickness=2e-3, shell_material=LinearElastic(2e5, 0.3, 1000.0)
    )
    ball = Obstacle.sphere((0, 0, 0), 0.08, friction=0.4)
    result = solve(
        robot,
        Passive(0.2),
        Environment(gravity=(0, 0, -9.81), obstacles=[ball], self_friction=0.4),
        solver=RodShellStepper(dt=5e-3, frame_interval=0.02),
    )
    assert result.converged
    assert crossings(result) == 0
    assert (result.crossings[1:] == 0).all()
    assert np.linalg.norm(result.frames, axis=2).min() > 0.08
    assert result.frames[-1, :, 2].min() < -0.01  # it hangs down on all sides
    centre = np.argmin(np.abs(x[:, :2] - 0.15).sum(axis=1))
    assert np.linalg.norm(result.frames[-1, centre, :2] - (x[centre, :2] - 0.15)) < 2e-3  # and friction keeps it there


def test_a_rod_rests_on_a_sheet_at_its_radius_and_half_the_thickness():
    x, triangles = grid(6, 6, 0.1, 0.1)
    rod = np.column_stack([np.linspace(0.02, 0.08, 7), np.full(7, 0.052), np.full(7, 5e-3)])
    robot = RodShellRobot(
        np.concatenate([x, rod]),
        edges=len(x) + np.array([[i, i + 1] for i in range(6)]),
        triangles=triangles,
        radius=3e-3,
        thickness=2e-3,
        rod_material=RUBBER,
        shell_material=RUBBER,
        fixed_vertices=np.arange(len(x)),
    )
    result = solve(
        robot, Passive(0.2), Environment(gravity=(0, 0, -9.81)), solver=RodShellStepper(dt=2e-3, frame_interval=0.02)
    )
    assert result.converged
    np.testing.assert_allclose(result.frames[-1, len(x) :, 2], 4e-3, rtol=0.02)
    weight = 1000.0 * np.pi * 3e-3**2 * 0.06 * 9.81
    assert result.contact_forces[-1, len(x) :, 2].sum() == pytest.approx(weight, rel=0.02)


@pytest.mark.slow
def test_a_folded_sheet_pressed_flat_does_not_cross_itself():
    radius, half, thick = 5e-3, 0.04, 2e-3
    length = 2 * half + np.pi * radius
    flat, triangles = grid(18, 4, length, 0.02)
    s, y = flat[:, 0], flat[:, 1]
    angle = np.clip((s - half) / radius, 0, np.pi)
    x = np.where(s < half, half - s, np.where(s > length - half, s - (length - half), -radius * np.sin(angle)))
    vertices = np.column_stack([x, y, radius * (1 - np.cos(angle)) + 1.01e-3])
    robot = RodShellRobot(vertices, triangles=triangles, thickness=thick, shell_material=RUBBER)
    top = 2 * radius + 2.02e-3
    press = np.zeros((4, 3))
    press[:, 2] = -np.array([0.4, 0.8, 1.0, 1.0]) * (top - 4.4e-3)
    walls = [
        Obstacle.plane((0, 0, 0), (0, 0, 1), friction=0.3),
        Obstacle.plane((0, 0, top), (0, 0, -1), friction=0.3, motion=press),
    ]
    result = solve(
        robot,
        Passive(0.16, 4),
        Environment(obstacles=walls, self_friction=0.3),
        solver=RodShellStepper(dt=5e-3, damping=20.0),
    )
    assert result.converged
    assert crossings(result) == 0
    assert result.contact_count[-1] > 40
    layers = result.frames[-1][np.abs(x - 0.02) < 0.01][:, 2]
    lower, upper = layers[layers < layers.mean()].mean(), layers[layers > layers.mean()].mean()
    assert upper - lower == pytest.approx(thick, rel=0.15)
