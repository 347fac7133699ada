"""The contract of solvers, shown on the smallest one: a particle on a spring."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from bending import bar_robot
from shapes import block

import geosim
from geosim.arrays import NO_EDGES, NO_TETS
from geosim.material.materials import LinearElastic
from geosim.model.actuation import CableTensions, Inflation, NaturalShape, Passive, ValveCommands
from geosim.model.contract import Frame, Progress, Report, Robot, Status, taken
from geosim.model.environment import Environment
from geosim.rods.robot import RodShellRobot
from geosim.solve import SOLVERS, default_solver


@dataclass(frozen=True)
class Particle:
    vertices: np.ndarray
    name, units, notices, mass, chambers, cables = "particle", "mm", (), 0.1, 0, ()
    skin, edges, p2_edges, body_tets = np.zeros((0, 3), dtype=int), NO_EDGES, NO_EDGES, NO_TETS
    radius, tip, tip_weights, body_vertices = np.zeros(0), np.array([0]), np.ones(1), np.ones(1, dtype=bool)


@dataclass(frozen=True)
class Place:
    robot: Particle
    frame: Frame
    is_frame: bool = False


@dataclass(frozen=True)
class Stepper:
    """Moves by one metre a command; `fails` maps the number of a command to the report of its step."""

    fails: tuple = ()
    stride: int = 1
    time: bool = False
    crossings: float = 0.0
    inverted: float = 0.0

    def commands(self, robot, actuation):
        return actuation.commands((), "Stepper")

    def start(self, robot, environment, initial=None):
        robot = taken(robot, Particle, "Stepper")
        return Place(robot, Frame(robot.vertices, 0.0 if self.time else None), is_frame=self.time)

    def step(self, state, command, progress=None):
        if progress is not None:
            progress(Progress(0.5, iteration=3, residual=1e-3, contacts=2.0))
        frame = Frame(
            state.frame.nodes + 1.0,
            command.time if self.time else None,
            crossings=self.crossings,
            inverted_elements=self.inverted,
            extra={"twice": 2.0},
        )
        shown = (command.index + 1) % self.stride == 0
        after = Place(state.robot, frame, shown)
        report = dict(self.fails).get(command.index, Report(Status.CONVERGED, records=({"iteration": 0},)))
        return after, replace(report, partial=after) if not report.reached else report


ROBOT = Particle(np.zeros((1, 3)))


def solve(steps, **options):
    return geosim.solve(ROBOT, Passive(steps=steps), solver=Stepper(**options), throw=False)


def test_a_load_path_has_a_frame_a_command_and_dynamics_begin_at_zero():
    path = solve(3)
    assert path.times.tolist() == [1.0, 2.0, 3.0]
    assert path.tip[:, 0].tolist() == [1.0, 2.0, 3.0]
    assert [record["frame"] for record in path.trace] == [0, 1, 2]
    assert path.converged
    assert path.partial is None
    motion = geosim.solve(ROBOT, Passive(3.0, 3), solver=Stepper(time=True))
    assert motion.times.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert np.isnan(path.reactions).all()


def test_the_last_state_is_shown_even_between_frames():
    assert solve(5, stride=2).tip[:, 0].tolist() == [2.0, 4.0, 5.0]


def test_what_was_reached_before_a_failure_is_kept_with_the_shape_on_the_way():
    result = solve(3, fails=((1, Report(Status.NOT_CONVERGED, "stuck")),))
    assert (result.status, result.message, result.converged) == (Status.NOT_CONVERGED, "stuck", False)
    assert result.tip[:, 0].tolist() == [1.0]
    assert result.partial.tip[:, 0].tolist() == [2.0]
    assert not result.partial.converged
    with pytest.raises(geosim.SolveError, match="budget") as caught:
        geosim.solve(ROBOT, Passive(), solver=Stepper(fails=((0, Report(Status.STOPPED)),)))
    assert caught.value.result.status is Status.STOPPED


@pytest.mark.parametrize(
    ("report", "status", "converged", "words"),
    [
        (
            Report(Status.NOT_CONVERGED, "rough", goes_on=True),
            Status.NOT_CONVERGED,
            False,
            "1 of 2 frames did not reach",
        ),
        (Report(Status.UNSTABLE), Status.UNSTABLE, True, "not stable"),
        (Report(Status.CROSSED, "through"), Status.CROSSED, False, "through"),
    ],
)
def test_a_result_has_converged_if_all_is_in_balance_and_nothing_crosses_that_should_not(
    report, status, converged, words
):
    result = solve(2, fails=((0, report),))
    assert (result.status, result.converged) == (status, converged)
    assert words in result.message


def test_crossing_is_accepted_where_contact_is_off():
    crossed = Stepper(fails=((0, Report(Status.CROSSED)),))
    result = geosim.solve(ROBOT, Passive(), Environment(self_contact=False), solver=crossed)
    assert result.converged


def test_where_elements_are_turned_inside_out_it_is_said_what_helps():
    assert "inside out" not in solve(1, crossings=3.0).message
    folded = solve(1, crossings=3.0, inverted=2.0)
    assert folded.status is Status.CROSSED
    assert "2 elements are turned inside out" in folded.message
    assert "max_edge" in folded.message


def test_progress_says_which_command_and_how_far():
    seen = []
    geosim.solve(ROBOT, Passive(steps=2), solver=Stepper(), progress=seen.append)
    assert [(p.command, p.commands, p.share) for p in seen] == [(1, 2, 0.5), (1, 2, 1.0), (2, 2, 0.5), (2, 2, 1.0)]
    assert [p.iteration for p in seen] == [3, 3, 3, 3]
    assert seen[0].contacts == 2.0
    assert seen[0].frame is None
    assert seen[1].frame.nodes[0, 0] == 1.0
    assert all(a.seconds <= b.seconds for a, b in pairwise(seen))


def _robots():
    points, tets = block((0.02, 0.01, 0.01), (2, 1, 1))
    soft = geosim.VolumetricRobot.from_tets(points, tets, material="ecoflex-00-30-fang2022", fixed=[0, 1, 2])
    line = np.stack([np.linspace(0, 0.1, 4), np.zeros(4), np.zeros(4)], axis=1)
    rod = RodShellRobot(line, radius=1e-3, rod_material=LinearElastic(1e6, 0.4, 1000.0), fixed_vertices=[0, 1])
    return {"VolumetricRobot": soft, "RodShellRobot": rod, "SnakeRobot": geosim.make_snake(links=1, sections=4)}


def test_what_a_solver_does_not_know_is_refused_before_it_starts(monkeypatch):
    actuations = [Inflation(volume_ratio=2.0), CableTensions(1.0), NaturalShape([1.0], curvature=[1.0])]
    known = {"VolumetricRobot": Inflation, "RodShellRobot": NaturalShape, "SnakeRobot": ValveCommands}
    robots = _robots()
    for kind in SOLVERS.values():
        monkeypatch.setattr(kind(), "start", lambda *arguments: pytest.fail("start was paid"))
    for name, robot in robots.items():
        for actuation in actuations:
            if not isinstance(actuation, known[name]):
                with pytest.raises(geosim.InputError, match=f"{type(actuation).__name__} does not actuate this robot"):
                    geosim.solve(robot, actuation)
    with pytest.raises(geosim.InputError, match="curvature has"):
        geosim.solve(robots["RodShellRobot"], NaturalShape([1.0], curvature=np.ones((1, 7))))


def test_every_kind_of_robot_has_what_results_and_pictures_read():
    named = {name for name in vars(Robot) if not name.startswith("_")}
    assert {"mass", "vertices", "tip"} <= named
    for robot in _robots().values():
        count = len(robot.vertices)
        default_solver(robot)
        assert named <= set(dir(robot))
        assert robot.mass > 0.0
        assert isinstance(robot.name, str)
        assert robot.units in geosim.arrays.METRES_PER_UNIT
        assert robot.body_vertices.shape == (count,)
        assert np.isclose(robot.tip_weights.sum(), 1.0)
        assert robot.tip.max() < count
        assert robot.skin.shape[1] == 3
        assert robot.edges.shape == (len(robot.radius), 2)
        assert robot.p2_edges.shape[1] == 2
        assert robot.body_tets.shape[1] == 4
        assert len(robot.cables) == len(robot.notices) == 0
    with pytest.raises(geosim.InputError, match="int is not a robot"):
        default_solver(3)


def test_solves_beside_each_other_have_one_thread_unless_they_say_how_many(monkeypatch):
    asked = []
    monkeypatch.setattr(importlib.import_module("geosim.solve"), "solve", lambda **given: asked.append(given["solver"]))
    robot = bar_robot()
    geosim.solve_many(
        [(robot, Passive()), {"robot": robot, "actuation": Passive(), "solver": geosim.EnergyShapeSolver(threads=3)}]
    )
    assert sorted(solver.threads for solver in asked) == [1, 3]


def test_times_are_made_once_for_all_commands(monkeypatch):
    """A path of 100,000 commands begins at once: `times` of some actuations is a new array at every call."""
    calls, inner = [], geosim.Passive.times

    def times(self):
        calls.append(1)
        return inner.fget(self)

    monkeypatch.setattr(
        geosim.Passive, "times", property(times)
    )  # no subclass: it would be a kind of file to later tests
    commands = geosim.Passive(steps=50).commands((), "solver")
    assert [c.time for c in commands] == list(range(1, 51))
    assert len(calls) <= 2
