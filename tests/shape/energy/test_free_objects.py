"""Free objects: their tangent, what holds them against statics, what loses them, and how they are kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from shapes import block

import geosim
from geosim import Environment, NeoHookean, Obstacle, Passive, Prescribed, Select, VolumetricRobot
from geosim.errors import GeosimWarning
from geosim.shape.energy.constraints.free_bodies import FreeBodyMotion, moved
from geosim.shape.energy.solver import EnergyShapeSolver
from geosim.show.contact import obstacle_surfaces

WEIGHT = 9.81
GRAVITY = (0.0, 0.0, -WEIGHT)
SOFT, SOFTER = NeoHookean(mu=50e3), NeoHookean(mu=20e3)


def bed(cells=(3, 3, 1), bowl=0.0):
    """A soft block, 30 x 30 x 15 mm, held below; its top is a bowl that rises to twice `bowl` in the corners."""
    vertices, tets = block((0.03, 0.03, 0.015), cells)
    top = vertices[:, 2] > 0.0149
    vertices[top, 2] += bowl * (((vertices[top, :2] - 0.015) / 0.015) ** 2).sum(axis=1)
    below = Select.plane("z", below=1e-6)
    return VolumetricRobot.from_tets(vertices, tets, np.zeros(len(tets), int), material=SOFTER, fixed=below, tip=top)


def jaws(count, gap, size=(0.01, 0.02, 0.02), cells=(2, 2, 2)):
    """Soft blocks around the axis z, their inner faces `gap` / 2 from it: the robot, and the vertices of every outer face."""
    vertices, tets = block(size, cells)
    vertices = vertices + [0.5 * gap, -0.5 * size[1], -0.5 * size[2]]
    parts, backs = [], []
    for i in range(count):
        angle = np.pi + 2.0 * np.pi * i / count
        turn = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
        backs.append(np.flatnonzero(vertices[:, 0] > 0.5 * gap + size[0] - 1e-9) + i * len(vertices))
        parts.append(vertices @ turn.T)
    tets = np.vstack([tets + i * len(vertices) for i in range(count)])
    regions = np.zeros(len(tets), int)
    robot = VolumetricRobot.from_tets(np.vstack(parts), tets, regions, material=SOFT, fixed=None, tip=backs[0])
    return robot, backs


def grasped(thing, count, gap, press, lift=(), **options):
    """Pinch an object by jaws in the first command, let it go in the second, and lift it by `lift` [m] in those after."""
    robot, backs = jaws(count, gap, **options)
    prescribed = []
    for ids in backs:
        inward = -robot.vertices[ids].mean(axis=0) * [1, 1, 0]
        inward *= press / np.linalg.norm(inward)
        prescribed.append(Prescribed(ids, [inward + [0, 0, z] for z in (0.0, 0.0, *lift)]))
    around = Environment(gravity=GRAVITY, obstacles=[thing], prescribed=prescribed, self_contact=False)
    return geosim.solve(robot, Passive(steps=2 + len(lift)), around)


def pushes(result, frame, normals):
    """How hard the object is pressed along each of the normals, by the jaws in order [N]."""
    forces = result.contact_forces[frame].reshape(len(normals), -1, 3).sum(axis=1)
    return np.abs(np.einsum("ij,ij->i", forces, normals))


@pytest.mark.parametrize(("friction", "own"), [(0.0, False), (0.5, True)])
def test_tangent_of_an_object_against_finite_differences(friction, own):
    ball = Obstacle.sphere((0.014, 0.016, 0.055), 0.04, free=True, mass=0.02, friction=friction)
    solver = EnergyShapeSolver()
    state = solver.start(bed(), Environment(gravity=GRAVITY, obstacles=[ball], self_contact=False))
    problem, contact = state.problem, state.problem.contact
    rng = np.random.default_rng(1)
    x = state.point.x + 1e-5 * rng.normal(size=state.point.x.shape)
    places = np.array([[0.003, -0.002, -0.006, 0.02, -0.03, 0.05]])
    free_bodies = FreeBodyMotion(problem.objects, np.array([True]), np.array([False]), np.zeros((1, 6)), places)
    there = free_bodies.contact_state(state.contact_state)
    contact_state = there.lagged(contact.evaluate(x, there, matrix=False))
    contact_state = replace(
        contact_state,
        share=np.ones_like(contact_state.share),
        before=np.full_like(contact_state.before, -np.inf),
        own=own,
    )
    contact_state = replace(contact_state, by_faces=np.zeros_like(contact_state.by_faces))
    radius, step = problem.objects.radii[0], 1e-6

    def balance(x, places):
        at = free_bodies.at(places)
        forces = contact.evaluate(x, at.contact_state(contact_state), matrix=False)
        out = at.wrenches(contact, x, forces)[0]
        return out * np.repeat([1.0, 1.0 / radius], 3), forces.force

    forces = contact.evaluate(x, contact_state, matrix=True)
    assert forces.count > 3
    levels = ("stiff", "bends", "slides") if friction else ("stiff", "bends")
    found = free_bodies.coupling(contact, x, forces, np.zeros((1, 6)), np.zeros(1), levels, own=own)
    corner, columns = np.empty((6, 6)), np.empty((6, *x.shape))
    for k in range(6):
        motion = np.zeros((1, 6))
        motion[0, k] = step / (radius if k > 2 else 1.0)
        ahead, behind = balance(x, moved(places, motion)), balance(x, moved(places, -motion))
        corner[:, k] = (ahead[0] - behind[0]) / (2 * step)
        columns[k] = (ahead[1] - behind[1]) / (2 * step)
    # the second derivative by a rotation is symmetric where moments balance: its symmetric part is exact anywhere
    scale = np.abs(corner).max()
    assert np.abs(found.corner - corner)[:3].max() < 1e-5 * scale
    ours, theirs = (part[3:, 3:] + part[3:, 3:].T for part in (found.corner, corner))
    assert np.abs(ours - theirs).max() < (1e-5 if not friction else 1e-2) * scale
    assert np.abs(found.columns + columns).max() < 1e-5 * np.abs(columns).max()
    for node in np.flatnonzero(np.abs(forces.force).sum(axis=1))[:5]:
        for axis in range(3):
            move = np.zeros_like(x)
            move[node, axis] = step
            slope = (balance(x + move, places)[0] - balance(x - move, places)[0]) / (2 * step)
            assert np.abs(found.rows[:, node, axis] + slope).max() < 1e-5 * scale


def test_smooth_ball_comes_to_rest_in_a_bowl():
    """It may spin about itself at no cost, and falls 2 mm at first: its weight is carried, as deep as a ball pressed so hard."""
    mass, robot = 0.03, bed(bowl=5e-3)
    ball = Obstacle.sphere((0.015, 0.0155, 0.0275), 0.01, free=True, mass=mass, released=0)
    result = geosim.solve(robot, Passive(), Environment(gravity=GRAVITY, obstacles=[ball], self_contact=False))
    assert result.obstacle_held.all()
    assert np.abs(result.obstacle_forces[-1, 0] - [0, 0, mass * WEIGHT]).max() < 1e-5 * mass * WEIGHT
    pose = result.obstacle_poses[-1, 0]
    assert np.abs(pose[:3, :3] - np.eye(3)).max() < 1e-6
    pressed = Obstacle.sphere((0.015, 0.0155, 0.0275), 0.01, motion=[pose[:3, 3]])
    held = geosim.solve(robot, Passive(), Environment(gravity=GRAVITY, obstacles=[pressed], self_contact=False))
    assert abs(held.obstacle_forces[-1, 0, 2] / (mass * WEIGHT) - 1) < 1e-3


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("at", [(0.015, 0.015, -0.05), (0.1, 0.015, 0.03)], ids=["below", "beside"])
def test_an_object_that_falls_past_the_robot_is_lost_at_once(count, at):
    """It touches nothing when it is let go, and nothing is below it: the robot does what it does alone, in as many iterations."""
    robot, solver = bed(), geosim.EnergyShapeSolver(element="p1")
    loads = [geosim.Load.force(robot.tip, np.arange(1, count + 1)[:, None] / count * [0.0, 0.0, -0.02])]
    for friction in (0.0, 0.5):
        ball = Obstacle.sphere(at, 0.01, friction=friction, free=True, mass=0.03, released=0)
        around = {"gravity": GRAVITY, "loads": loads}
        found = geosim.solve(robot, Passive(steps=count), Environment(obstacles=[ball], **around), solver=solver)
        alone = geosim.solve(robot, Passive(steps=count), Environment(**around), solver=solver)
        assert not found.obstacle_held.any()
        assert "lost in command 1: nothing holds it" in found.message
        assert np.abs(found.frames[-1] - alone.frames[-1]).max() < 1e-8
        assert len(found.trace) <= len(alone.trace) + 5  # it took 300 and more to follow the fall


SIDES = np.array([[-1.0, 0, 0], [1.0, 0, 0]])


@pytest.fixture(scope="module")
def pinched():
    """A cube of next to no weight between two jaws."""
    return grasped(cube(1e-3), 2, 0.016, 0.3e-3)


@pytest.fixture(scope="module")
def limit(pinched):
    """Mass [kg] that statics lets two jaws hold of a cube: 2 mu N / g, with N as pressed before it is let go."""
    return 2 * 0.5 * pushes(pinched, 0, SIDES).mean() / WEIGHT


def test_grip_force_adds_what_opposite_jaws_press(pinched):
    """Of flat sides, where what presses is what is normal to them; in the force on the object both cancel."""
    pressed = pushes(pinched, 0, SIDES)
    assert pinched.grip_force[0, 0] == pytest.approx(pressed.sum(), rel=1e-6)
    assert np.abs(pinched.obstacle_forces[0, 0]).max() < 1e-3 * pressed.sum()


def cube(mass):
    return Obstacle.box((-0.008, -0.012, -0.012), (0.008, 0.012, 0.012), free=True, mass=mass, friction=0.5)


@pytest.mark.slow
def test_cube_is_lost_above_the_friction_limit(limit):
    result = grasped(cube(1.03 * limit), 2, 0.016, 0.3e-3)
    assert result.converged
    assert result.obstacle_held.tolist() == [[True], [False]]
    assert "Object 1 (box) is lost in command 2" in result.message
    assert np.abs(result.obstacle_forces[1]).max() == 0.0
    assert np.abs(result.frames[1] - result.frames[1].mean(axis=0)).max() > 0.0


def test_ball_is_lifted_by_three_jaws():
    """It is held by friction alone, sinks when the hand lets go, and then goes with the jaws."""
    mass = 0.02
    ball = Obstacle.sphere((0, 0, 0), 0.01, friction=0.5, free=True, mass=mass)
    result = grasped(ball, 3, 0.02, 1e-3, lift=(2e-3,))
    assert result.obstacle_held.all()
    assert np.abs(result.obstacle_forces[1:, 0] - [0, 0, mass * WEIGHT]).max() < 1e-5 * mass * WEIGHT
    heights = result.obstacle_poses[:, 0, 2, 3]
    assert heights[0] == 0.0
    assert heights[1] < -1e-5
    assert heights[2] - heights[1] == pytest.approx(2e-3, rel=1e-4)


def test_cube_whose_edges_dig_into_bending_fingers_is_held():
    """Sharp edges within their faces, where the direction of contact would jump; let go, it sinks and stays."""
    fingers, _ = jaws(2, 0.016, size=(0.008, 0.008, 0.03), cells=(2, 2, 6))
    tops = np.flatnonzero(fingers.vertices[:, 2] > 0.0149)
    inward = [tops[s * fingers.vertices[tops, 0] > 0] for s in (1, -1)]
    squeeze = [Prescribed(ids, [[-s * 2e-3, 0, 0]] * 2) for s, ids in zip((1, -1), inward)]
    edgy = Obstacle.box((-0.008, -0.008, -0.012), (0.008, 0.008, 0.004), free=True, mass=0.01, friction=0.7)
    around = Environment(gravity=GRAVITY, obstacles=[edgy], prescribed=squeeze, self_contact=False)
    result = geosim.solve(fingers, Passive(steps=2), around)
    assert result.obstacle_held.all()
    assert result.obstacle_forces[1, 0, 2] == pytest.approx(0.01 * WEIGHT, rel=1e-4)
    assert result.obstacle_poses[1, 0, 2, 3] < 0.0


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Obstacle.plane((0, 0, 0), (0, 0, 1), free=True, mass=1.0), "Obstacle.plane: free"),
        (lambda: Obstacle.sphere((0, 0, 0), 1.0, free=True), "Obstacle.sphere: mass is missing"),
        (lambda: Obstacle.box((0, 0, 0), (1, 1, 1), free=True, mass=0.0), r"Obstacle.box: mass \[kg\] = 0"),
        (lambda: Obstacle.sphere((0, 0, 0), 1.0, mass=1.0), "mass = 1.0 goes with free=True only"),
        (lambda: Obstacle.sphere((0, 0, 0), 1.0, free=True, mass=1.0, motion=[[0, 0, 1]]), "leave motion out"),
        (lambda: Obstacle.sphere((0, 0, 0), 1.0, free=True, mass=1.0, released=-1), "released = -1 must be a whole"),
        (lambda: Obstacle.sphere((0, 0, 0), 1.0, free="yes", mass=1.0), "free = 'yes' must be True or False"),
    ],
)
def test_what_a_free_object_cannot_be_is_refused_by_name(build, words):
    with pytest.raises(geosim.InputError, match=words):
        build()


def test_of_an_object_that_no_command_releases_a_warning_tells():
    ball = Obstacle.sphere((0.015, 0.0155, 0.0275), 0.01, free=True, mass=0.01)
    words = r"obstacles\[0\]: released = 1 holds .* released=0, or at least 2 commands"
    with pytest.warns(GeosimWarning, match=words):
        geosim.solve(
            bed(), geosim.Passive(), Environment(obstacles=[ball]), solver=geosim.EnergyShapeSolver(element="p1")
        )


def test_solvers_that_move_no_objects_say_so():
    ball = Obstacle.sphere((0, 0, 0.1), 0.01, free=True, mass=0.1)
    around = Environment(obstacles=[ball])
    rod = geosim.RodShellRobot.from_limbs(
        [geosim.Limb((0, 0, 0), (0.05, 0, 0), 4, 1e-3, geosim.LinearElastic(1e6, 0.4, 1000.0))]
    )
    for robot, solver in ((bed(), geosim.ProjectiveShapeSolver()), (rod, None), (geosim.make_snake(links=1), None)):
        with pytest.raises(geosim.InputError, match=r"obstacles\[0\]: free = True, but \w+ moves no objects"):
            geosim.solve(robot, Passive(duration=0.0 if solver else 0.01), around, solver=solver)


def test_poses_follow_the_motion_of_obstacles():
    ball = Obstacle.sphere((0.015, 0.015, 0.03), 0.01, motion=[[0, 0, 1e-3], [1e-3, 0, 0]])
    for solver in (None, EnergyShapeSolver(element="p1")):
        result = geosim.solve(bed(), Passive(steps=2), Environment(obstacles=[ball]), solver=solver)
        assert result.obstacle_poses[:, 0, :3, 3] == pytest.approx(np.array(ball.motion))
        assert result.obstacle_held.all()


def test_middle_and_radius_of_shapes():
    box = Obstacle.box((0, 0, 0), (1, 2, 3))
    assert box.middle == pytest.approx([0.5, 1.0, 1.5])
    assert box.radius == pytest.approx(0.5 * np.sqrt(14))
    rod = Obstacle.cylinder((0, 0, 0), (0, 0, 2), 0.5)
    assert rod.middle == pytest.approx([0, 0, 1], abs=1e-12)
    assert rod.radius == pytest.approx(np.hypot(1, 0.5))


@pytest.mark.slow
def test_poses_are_saved_read_and_drawn(tmp_path):
    """A result that is put together by hand: what is lost is not drawn, poses come back from files."""
    thing = cube(0.1)
    robot, _ = jaws(2, 0.016)
    poses, held = np.tile(np.eye(4), (2, 1, 1, 1)), np.array([[True], [False]])
    poses[0, 0, 2, 3] = 5e-3
    frames = np.stack([robot.vertices] * 2)
    result = geosim.Result(
        geosim.Status.CONVERGED,
        "",
        True,
        np.array([1.0, 2.0]),
        frames,
        robot=robot,
        environment=Environment(obstacles=[thing]),
        obstacle_poses=poses,
        obstacle_held=held,
    )
    back = geosim.load_result(result.save(tmp_path / "r.npz"))
    assert np.array_equal(back.obstacle_held, held)
    assert back.obstacle_held.dtype == bool
    assert np.array_equal(back.obstacle_poses, poses)
    assert back.environment.obstacles[0].mass == 0.1
    (points, _), *others = obstacle_surfaces(result, 0, frames[0])
    assert not others
    assert points[:, 2].max() == pytest.approx(0.017)
    assert obstacle_surfaces(result, 1, frames[1]) == []
    listed = result.save(tmp_path / "r.pvd").read_text(encoding="utf-8")
    assert "r_obstacles_0000.vtp" in listed
    assert "r_obstacles_0001.vtp" not in listed
    assert result.film(tmp_path / "r.gif", fps=1).stat().st_size > 0  # an object in its first frame, none in its last
