"""A scene and its files say the same, and the warm start is the solution of the design that it is for."""

from __future__ import annotations

import multiprocessing
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("tomli_w", reason="tomli-w is not installed: pip install 'geosim[studio]'")

import geosim
from geosim.apps.studio import frames, worker
from geosim.apps.studio.live import KEPT_MESHES, LiveSolver, Mesh, Standing, SupersededError, neighbours, problem_files
from geosim.apps.studio.refining import refined
from geosim.apps.studio.scene import Scene, of_design, of_file
from geosim.apps.studio.warm import _FirstSearch, _StraightBudget, carried_over, factorised, started, touches_nothing
from geosim.errors import InputError
from geosim.files.robot import load_problem
from geosim.generate import GENERATORS
from geosim.generate.moving import LEAST_VOLUME_SHARE, corresponds
from geosim.geometry.topology import tet_volumes, with_mid_edges
from geosim.model.environment import Environment, Obstacle
from geosim.shape.energy.discretisation.pattern import build_pattern
from geosim.shape.energy.newton.budget import BudgetError

SMALL = {"chambers": 1, "pressure_kpa:0": 3.0, "steps": 2, "mesh": "edges", "max_edge_mm": 20.0}


@pytest.mark.parametrize("name", GENERATORS)
def test_every_generator_has_knobs_that_stand_at_its_defaults(name):
    scene = of_design(name)
    assert scene.drawn().parameters == of_design(name).drawn().parameters
    for knob in scene.knobs.values():
        assert knob.choices or knob.low <= knob.value <= knob.high
        assert scene.turned(knob.key, knob.value).tables["actuation"] == scene.tables["actuation"]


def test_saved_files_open_as_the_scene_that_was_saved(tmp_path):
    values = {**SMALL, "wall_mm": 1.7, "channel_mm:1": 2.5, "gravity": "-z", "object": "sphere", "object_z_mm": -20.0}
    scene = of_design("pneunet", values)
    problem_files(scene, tmp_path / "saved")
    again = of_file(tmp_path / "saved" / "robot.toml")
    assert again.tables == scene.tables
    assert again.drawn().parameters == scene.drawn().parameters
    for key, value in values.items():
        assert again.value(key) == value


def test_the_python_that_is_shown_makes_the_robot_of_the_files(tmp_path):
    scene = of_design("pneunet", {**SMALL, "wall_mm": 1.7, "gravity": "-z"})
    problem_files(scene, tmp_path)
    robot, environment, _ = load_problem(tmp_path / "robot.toml")
    made: dict = {}
    exec(scene.python("x").rpartition("\n")[0], made)
    assert made["robot"].chamber_volumes == pytest.approx(robot.chamber_volumes, rel=1e-5)
    assert scene.python("x").endswith("geosim.Environment(gravity=(0.0, 0.0, -9.81)))")
    assert environment.gravity.tolist() == [0.0, 0.0, -9.81]
    assert made["actuation"].pressure.tolist() == [[1500.0], [3000.0]]


@pytest.mark.parametrize(
    ("key", "value", "said"), [("wall_mm", 30.0, "wall"), ("wall_mm", "x", "number"), ("no", 1, "no knob")]
)
def test_what_cannot_be_is_refused_with_its_name(key, value, said):
    with pytest.raises(InputError, match=said):
        of_design("pneunet").turned(key, value)


@pytest.mark.parametrize("text", ['kind = "volumetric"', 'units = "mm"', "kind ="])
def test_a_file_that_is_no_robot_is_refused_before_a_page_opens(tmp_path, text):
    (tmp_path / "robot.toml").write_text(text)
    with pytest.raises(InputError, match=r"robot\.toml"):
        of_file(tmp_path / "robot.toml")


def test_numbers_of_a_file_are_knobs(tmp_path):
    (tmp_path / "robot.toml").write_text('kind = "snake"\nunits = "mm"\n[snake]\nlinks = 2\n')
    (tmp_path / "actuation.toml").write_text("[undulatory_gait]\namplitude_kpa = 40.0\nfrequency = 0.5\n")
    scene = of_file(tmp_path / "robot.toml").turned("actuation.undulatory_gait.frequency", 0.7).turned("snake.links", 3)
    assert scene.tables["actuation"] == {"undulatory_gait": {"amplitude_kpa": 40.0, "frequency": 0.7}}
    assert scene.job().table["snake"] == {"links": 3}
    units = {k.label: k.unit for k in scene.knobs.values()}
    assert (units["amplitude"], units["frequency"], units["links"]) == ("kPa", "Hz", "")


def test_where_a_curvature_ends_is_a_knob(tmp_path):
    limbs = "limbs = [{ start = [0, 0, 0], end = [200, 0, 0], nodes = 5 }]"
    rod = 'radius = 4.0\nmaterial = { model = "linear-elastic", youngs_modulus = 1e6, poisson_ratio = 0.5 }'
    (tmp_path / "robot.toml").write_text(f'kind = "rod-shell"\nunits = "mm"\n{limbs}\n[rod]\n{rod}\n')
    (tmp_path / "actuation.toml").write_text("[natural_shape]\ntimes = [0.1, 0.2]\ncurvature = [[1, 2], [3.0, 4.0]]\n")
    scene = of_file(tmp_path / "robot.toml").turned("actuation.natural_shape.curvature.-1.0", 5.0)
    assert scene.tables["actuation"]["natural_shape"]["curvature"] == [[1, 2], [5.0, 4.0]]
    knobs = {k.label: k.unit for k in scene.knobs.values()}
    assert (knobs["curvature 1"], knobs["curvature 2"], knobs["radius"]) == ("1/m", "1/m", "mm")


@pytest.mark.slow
def test_a_frame_whose_error_bar_is_unknown_is_no_failure(tmp_path):
    """Where something may rub, what stuck to what is known of the last frame alone."""
    said: list[dict] = []
    scene = of_design("pneunet", {**SMALL, "object": "sphere", "object_z_mm": -60.0})
    refined(lambda told, frame: said.append(dict(told)), 1, scene, tmp_path)
    bars = [m for m in said if m["say"] == "bars"]
    assert [(m["step"], bool(m["bars"])) for m in bars] == [(2, True), (1, False)]
    assert "last frame" in bars[1]["why"]


def solved(scene: Scene, solver: LiveSolver) -> list[dict]:
    out: list[dict] = []
    solver.send = lambda header, frame: out.append(frames.unpacked(frame)[0])
    solver.show(1, scene)
    return out


@pytest.mark.slow
def test_a_turned_knob_starts_from_the_last_design_and_ends_at_the_same_shape_as_from_rest():
    """The same mesh is moved, and its equilibrium does not depend on the way there."""
    solver = LiveSolver(lambda header, frame: None, lambda seconds: False)
    scene = of_design("pneunet", SMALL)
    assert [(f["step"], f["checked"]) for f in solved(scene, solver)] == [(1, False), (1, True), (2, True)]
    scene = scene.turned("wall_mm", 2.1)
    warm = solved(scene, solver)
    assert [(f["step"], f["checked"]) for f in warm] == [(2, False), (2, True), (1, True)]  # the last command first
    assert "max_stretch" not in warm[0]["row"]
    assert warm[1]["row"]["max_stretch"] > 1.0
    assert solver.here.last.state.robot.chamber_volumes == pytest.approx(
        [float(scene.drawn().chambers[0].volume)], rel=1e-6
    )
    cold = solved(
        scene,
        LiveSolver(solver.send, lambda seconds: False, meshes=[Standing(solver.here.mesh, solver.here.mesh.robot)]),
    )
    assert [f["step"] for f in cold] == [1, 1, 2]
    for measure in ("bend_angle_deg", "volume_mm3_1"):
        assert warm[0]["row"][measure] == pytest.approx(cold[-1]["row"][measure], rel=0.05)
        assert warm[1]["row"][measure] == pytest.approx(cold[-1]["row"][measure], rel=0.01)
    more = solved(scene.turned("pressure_kpa:0", 3.6), solver)
    assert [(f["step"], f["checked"]) for f in more] == [(2, False), (2, True)]  # the path is known
    assert [f["row"]["pressure_kpa_1"] for f in more] == pytest.approx([3.6, 3.6])
    touching = replace(solver.here.last.state, measured=replace(solver.here.last.state.frame, contact_count=1.0))
    beside = Environment(obstacles=(Obstacle.plane((0, 0, -1), (0, 0, 1)),))
    states = [(solver.here.last.state, Environment()), (touching, Environment()), (solver.here.last.state, beside)]
    assert [touches_nothing(*given) for given in states] == [True, False, False]
    solver.superseded = lambda seconds: True  # a newer change ends the older solve
    with pytest.raises(SupersededError):
        solver.show(2, scene.turned("wall_mm", 2.2))


@pytest.mark.slow
def test_counts_that_are_turned_to_and_fro_find_their_meshes_again():
    """One that was made ahead, then that of before; the equilibrium is the same as on a path of its own."""
    solver = LiveSolver(lambda header, frame: None, lambda seconds: False)
    scene = of_design("pneunet", {**SMALL, "steps": 1})
    two = scene.turned("chambers", 2)
    solved(scene, solver)
    one = solver.here.mesh
    ahead = LiveSolver(solver.send, lambda seconds: False).met(two)
    factorised(ahead.last.near)
    factors = ahead.last.near.problem.linear
    solver.offered.append(ahead)
    known = factors.factorisations
    solver.superseded = lambda seconds: seconds > 0.0
    with pytest.raises(SupersededError):
        solver.show(1, two.turned("pressure_kpa:0", 3.1))
    assert solver.here is ahead
    assert solver.here.last.near.problem.linear is factors
    assert factors.factorisations == known, "they precondition its first shape"
    solver.superseded = lambda seconds: False
    shapes = solved(two, solver)
    assert solver.here is ahead
    assert solver.here.last.near.problem.linear is solver.here.last.state.problem.linear
    apart = solved(two, LiveSolver(solver.send, lambda seconds: False))
    assert shapes[-1]["row"]["bend_angle_deg"] == pytest.approx(apart[-1]["row"]["bend_angle_deg"], rel=2e-3)
    back = solved(scene.turned("wall_mm", 2.1), solver)
    assert solver.here.mesh is one
    assert [f["checked"] for f in back] == [False, True]
    # a first shape is measured along its own line
    grown = replace(solver.here.robot, vertices=1.1 * solver.here.robot.vertices)
    assert solver.here.line_of(grown, exact=False).length == pytest.approx(1.1 * solver.here.line[1].length)
    assert back[0]["row"]["bend_angle_deg"] == pytest.approx(back[1]["row"]["bend_angle_deg"], rel=0.05)


@pytest.mark.slow
def test_counts_turned_at_random_take_everything_from_their_own_mesh():
    """Among several meshes at hand the one of the design is found, with the state that stands on it; the oldest goes."""
    solver, rng = LiveSolver(lambda header, frame: None, lambda seconds: False), np.random.default_rng(0)
    scene, made = of_design("pneunet", SMALL), {}
    for count in [1, 2, 3, *rng.integers(1, 4, 12)]:
        wall = round(float(rng.uniform(1.7, 1.9)), 2)
        robot = solver.posed(scene.turned("chambers", int(count)).turned("wall_mm", wall)).robot
        asked = {"chambers": count, "wall": pytest.approx(1e-3 * wall)}
        assert {key: robot.design.parameters[key] for key in asked} == asked
        assert made.setdefault(count, solver.here) is solver.here, "meshed once"
        assert len(robot.vertices) == len(solver.here.mesh.robot.vertices)
    assert {id(one) for one in solver.meshes} == {id(one) for one in made.values()}
    for _ in range(KEPT_MESHES + 1):
        solver._go_to(Standing(solver.here.mesh, solver.here.robot), solver.here.robot)
    assert len(solver.meshes) == KEPT_MESHES + 1
    assert not any(one in made.values() for one in solver.meshes)


def test_meshes_made_ahead_in_another_process_are_taken(monkeypatch):
    """They come through a pipe with their first shapes, and stand at hand until their count is turned to."""
    scene, (ours, theirs), sent = of_design("pneunet", SMALL), multiprocessing.Pipe(), []

    def send(new: Standing) -> None:
        sent.append(pickle.dumps(new))
        ours.close()

    ours.send((scene,))
    with monkeypatch.context() as patched:
        patched.setenv("OMP_NUM_THREADS", "1")
        patched.setattr(worker, "_begun", lambda niceness: None)  # this process goes on as it was
        worker.ahead(theirs, SimpleNamespace(send=send))
    assert [one.values["chambers"] for one in neighbours(scene)] == [2]
    solver = LiveSolver(lambda header, frame: None, lambda seconds: False)
    solver.posed(scene)
    solver.offered.extend(map(pickle.loads, 2 * sent))  # what is at hand already is not taken again
    solver.posed(scene.turned("wall_mm", 1.9))
    (ahead, here) = solver.meshes
    assert here.mesh.robot.design.parameters["chambers"] == 1
    steps: list[object] = []
    solver._watch, solver.superseded = steps.append, lambda seconds: seconds > 0.0
    with pytest.raises(SupersededError):
        solver.show(1, scene.turned("chambers", 2))
    assert solver.here is ahead
    assert steps == [], "its first shape is known"
    assert solver.here.robot.design.parameters["chambers"] == 2
    assert len(ahead.last.near.frame.nodes) == len(ahead.robot.vertices) + len(ahead.robot.p2_edges)


def test_neighbours_that_were_shown_before_come_last():
    scene = of_design("pneunet", {**SMALL, "chambers": 3})
    assert [one.values["chambers"] for one in neighbours(scene)] == [2, 4]
    assert [one.values["chambers"] for one in neighbours(scene, [scene, scene.turned("chambers", 2)])] == [4, 2]


def test_factors_on_their_way_are_waited_for_and_others_are_not_begun():
    solver, robot = LiveSolver(lambda header, frame: None, lambda seconds: False), SimpleNamespace()
    found, begun = [], threading.Event()

    def find() -> None:
        begun.set()
        time.sleep(0.1)
        found.append(True)

    with ThreadPoolExecutor(1) as background:
        one, other = (Standing(Mesh("", robot), robot, factors=background.submit(find)) for _ in range(2))
        begun.wait(10)
        solver._go_to(other, robot)
        assert found == []
        solver._go_to(one, robot)
        assert found == [True]
    assert found == [True]


def test_a_first_shape_is_given_up_where_a_step_is_shortened_after_a_whole_one():
    budget = _StraightBudget()
    told = {"share": 1.0, "residual": 0.1, "contacts": 0}
    for length in (0.3, 0.5, 1.0, 1.0):  # a step far away is shortened, too
        budget.tell({**told, "step": length})
    with pytest.raises(BudgetError):
        budget.tell({**told, "step": 0.5})


def test_steps_of_a_first_shape_are_no_more_accurate_than_a_last_one_needs():
    search = _FirstSearch(5e-3, 10)
    assert search.accuracy((0.05, 0.0, 0.0, 0.0, 1.0)) == pytest.approx(0.03)
    assert search.accuracy((0.05, 5e-3, 0.0, 0.0, 1.0)) == pytest.approx(3e-3)


def test_a_pattern_is_found_again_for_the_same_couplings_alone():
    tets = np.array([[0, 1, 2, 3], [1, 2, 3, 4]])
    pattern = build_pattern(tets, tets, couple_pressures=True)
    assert build_pattern(tets.copy(), tets, couple_pressures=True) is pattern
    other = np.array([[0, 1, 2, 3], [0, 2, 3, 4]])
    assert build_pattern(other, other, couple_pressures=True) is not pattern
    assert build_pattern(tets, tets, couple_pressures=False) is not pattern


def test_a_material_that_couples_other_unknowns_takes_no_factors_of_the_last_one():
    """With a finite bulk modulus pressures are coupled: as many unknowns, and another pattern."""
    scene = of_design("pneunet", SMALL)
    solver = LiveSolver(lambda header, frame: None, lambda seconds: False)
    solved(scene, solver)
    old, step = solver.here.last.state, geosim.EnergyShapeSolver()
    soft = old.robot.with_materials(geosim.NeoHookean(mu=3e4, bulk_modulus=6e4))
    fresh, warm = step.start(soft, Environment()), started(step, old, soft, Environment())
    assert fresh.problem.pattern.size == old.problem.pattern.size
    assert len(fresh.problem.pattern.indices) > len(old.problem.pattern.indices)
    np.testing.assert_array_equal(warm.problem.pattern.indices, fresh.problem.pattern.indices)
    again = started(step, warm, soft, Environment())
    assert again.problem.linear is warm.problem.linear


def test_a_hand_that_turns_on_is_followed_from_where_it_is():
    """Whoever turns on before contact was looked for gets the next shape from the last one that was shown, on every path."""
    solver = LiveSolver(lambda header, frame: None, lambda seconds: False)
    scene = of_design("pneunet", SMALL)

    def turned_on(scene: Scene) -> int:
        """Newton steps to the first shape; the hand turns on when it is shown."""
        steps: list[object] = []
        solver._watch = steps.append
        solver.superseded = lambda seconds: seconds > 0.0
        with pytest.raises(SupersededError):
            solver.show(1, scene)
        return len(steps)

    from_rest = turned_on(scene)
    assert (solver.here.last.state, solver.here.last.whole) == (None, False)
    assert turned_on(scene.turned("wall_mm", 1.801)) < from_rest, "not from rest again"
    assert solver.here.last.near.robot.chamber_volumes == pytest.approx(
        [float(scene.turned("wall_mm", 1.801).drawn().chambers[0].volume)], rel=1e-6
    )
    solver.superseded = lambda seconds: False
    solver.show(1, scene)
    looked_through = solver.here.last.state
    far = turned_on(scene.turned("wall_mm", 2.3))
    assert solver.here.last.whole
    assert turned_on(scene.turned("wall_mm", 2.301)) < far, "not from where contact was looked for"
    assert solver.here.last.state is looked_through


def test_a_state_is_carried_over_with_its_deformation():
    """Where every rest position is stretched alike, so is every deformed one, for a deformation that is one gradient."""
    robot = of_design("pneunet", SMALL).drawn().robot(max_edge=20e-3)
    stretch, grow = np.diag([1.2, 0.9, 0.95]), np.diag([1.1, 1.0, 0.8])
    rest = with_mid_edges(robot.vertices, robot.p2_edges)
    corner = int(np.unique(robot.body_tets)[0])
    state = SimpleNamespace(robot=replace(robot, fixed=np.array([corner])), frame=SimpleNamespace(nodes=rest @ stretch))
    new = robot.vertices @ grow
    found = carried_over(state, new)
    used = np.unique(robot.body_tets)
    np.testing.assert_allclose(found[used] - found[corner], (new[used] - new[corner]) @ stretch, atol=1e-9)


def test_plane_faces_that_are_cut_otherwise_keep_the_mesh():
    """The bottom of a gripper's palm is cut anew for every width: the same vertices span the same surface."""
    before, after = (of_design("gripper", {"finger_width_mm": width}).drawn().body for width in (20.0, 21.0))
    assert (before.faces != after.faces).any()
    assert corresponds(before, after)
    dented = after.copy()
    dented.vertices[0] *= 1.1
    assert corresponds(after, dented), "the same faces may go anywhere"
    assert not corresponds(before, of_design("gripper", {"count": 4, "finger_width_mm": 15.0}).drawn().body)
    flipped = after.copy()
    flipped.faces = np.roll(after.faces, 1, axis=0)[:, ::-1]
    assert not corresponds(before, flipped)


def test_a_mesh_is_moved_as_long_as_what_the_motion_crushes_can_be_mended():
    """A bellows of a smaller radius: three quarters crush 2 % of its tets, seven tenths 4 % beyond mending."""
    scene, solver = of_design("bellows", {"convolutions": 1}), LiveSolver(lambda *_: None, lambda _: False)
    robot = solver.posed(scene).robot
    moved, lost = (
        solver.here.mesh.shape.moved(scene.turned("outer_radius_mm", share * scene.value("outer_radius_mm")).drawn())
        for share in (0.75, 0.7)
    )
    assert lost is None
    assert moved is not None
    shares = tet_volumes(moved.vertices, robot.tets) / tet_volumes(robot.vertices, robot.tets)
    assert LEAST_VOLUME_SHARE * shares.mean() < shares.min()


def test_a_frame_is_unpacked_as_it_was_packed():
    arrays = {"a": np.arange(5), "b": np.linspace(0, 1, 7).reshape(7, 1)}
    header, found = frames.unpacked(frames.packed({"say": "ü"}, arrays))
    assert header["say"] == "ü"
    assert found["a"].tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_allclose(found["b"], arrays["b"].ravel(), atol=1e-7)


def test_chambers_of_their_own_heights_are_opened_as_the_file_that_they_are(tmp_path):
    """No knob says them; a taper is one number, and its knob goes as far as that of the height."""
    geosim.generate.pneunet(2, height=(18e-3, 14e-3)).save(tmp_path)
    scene = of_file(tmp_path / "robot.toml")
    assert scene.design == ""
    assert scene.path == (tmp_path / "robot.toml").resolve()
    tapered = of_design("pneunet").turned("tip_height_mm", 12.0)
    assert tapered.knobs["tip_height_mm"].high == tapered.knobs["height_mm"].high
    assert tapered.parameters() == {"tip_height": 12e-3}
