"""Studies whose designs, schedulers or goals go wrong: what is said, what is kept, what is solved again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import weakref
from threading import Thread

import numpy as np
import psutil
import pytest
from apps.study import planted
from apps.study.planted import BAR
from click.testing import CliRunner

import geosim
from geosim.apps.study import server, solving
from geosim.apps.study.children import Children
from geosim.apps.study.job import ENDING_FILE
from geosim.apps.study.study import read_study
from geosim.cli import main
from geosim.errors import InputError


@pytest.mark.slow
def test_a_design_that_is_killed_from_outside_is_solved_when_the_study_goes_on(tmp_path, monkeypatch, one_server):
    """The kernel ends what is too large with SIGKILL, and so do users; a crash of its own (SIGSEGV) stays one."""
    one_server(monkeypatch)
    out = tmp_path / "out"
    study = {**BAR, "design": planted.faulty, "vary": {"fault": [2]}, "limits": {"seconds": 60.0}}

    def kill():
        """Kill the design: the child of the server, which waits for ever."""
        for _ in range(3000):
            servers = [p for p in psutil.Process().children() if "geosim.apps.study.server" in " ".join(p.cmdline())]
            found = [child for server in servers for child in server.children()]
            if found:
                time.sleep(0.3)
                os.kill(found[0].pid, signal.SIGKILL)
                return
            time.sleep(0.01)

    thread = Thread(target=kill)
    thread.start()
    table = geosim.sweep(study, workers=1, out=out)
    thread.join()
    assert table["status"].tolist() == ["CRASHED"]
    assert "SIGKILL from outside" in table["message"][0]
    row = out / "runs" / table["run"][0] / "row.json"
    assert json.loads(row.read_text(encoding="utf-8"))["limits"] == {"seconds": 0.0, "memory": 0}
    planted.solve_here(monkeypatch)
    monkeypatch.setattr(solving, "_generator", lambda name: lambda **given: planted.bar())
    again = geosim.sweep(study, workers=1, out=out)
    assert again["status"].tolist() == ["CONVERGED"], again["message"].tolist()


def test_what_a_killed_server_was_solving_ends_with_it(tmp_path, monkeypatch):
    """Else nobody would watch its limits, and what is started again would share its folder."""
    pids = tmp_path / "pids"
    script = f"read request; sleep 60 > /dev/null & echo $! >> {pids}; kill -9 $$"

    def started(self):
        return subprocess.Popen(
            ["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )

    monkeypatch.setattr(Children, "_started", started)
    study = read_study({**BAR, "vary": {"length_mm": [20.0]}})
    row = Children().run(study.job(study.rows[0])).row
    assert (row["status"], row["message"]) == ("CRASHED", "its process was ended from outside")
    left = [int(pid) for pid in pids.read_text(encoding="utf-8").split()]
    assert len(left) == 2  # it was started again, once
    _, alive = psutil.wait_procs([psutil.Process(pid) for pid in left if psutil.pid_exists(pid)], timeout=5.0)
    assert not [one for one in alive if one.status() != psutil.STATUS_ZOMBIE]


def test_a_solve_whose_time_is_over_says_how_far_it_came_and_keeps_it(tmp_path, monkeypatch):
    """The clock is over at the first look into the second command."""
    planted.solve_here(monkeypatch)
    looks = []

    def look(self, progress):
        self.last = progress
        looks.append(progress)
        if progress.command == 2 and progress.iteration > 1:
            self.over = True
            (self.folder / ENDING_FILE).touch()
            raise KeyboardInterrupt

    monkeypatch.setattr(solving._Clock, "look", look)
    study = {
        "design": "round_finger",
        "material": "ecoflex-00-30-fang2022",
        "fixed": {"length_mm": 20.0, "wall_mm": 4.0},
        "actuation": {"pressure_kpa": [0.5, 6.0]},
        "mesh": {"max_edge_mm": 20.0},
        "solver": {"element": "p1"},
    }
    row = geosim.sweep(study, workers=1, out=tmp_path / "out").iloc[0]
    assert row["status"] == "TIMEOUT"
    assert "command 2 of 2" in row["message"]
    assert "kPa" in row["message"]
    assert "of the rest volume" in row["message"]
    assert np.isnan(row["bend_angle_deg"])
    run = tmp_path / "out" / "runs" / row["run"]
    assert "npz holds it" in row["message"]
    assert not (run / ENDING_FILE).exists()
    assert (run / "picture.png").is_file()
    assert len(geosim.load_result(run / "result.npz").frames) == 1


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense", "tcp://"])
def test_a_scheduler_that_does_not_answer_writes_nothing(tmp_path, address, capfd, monkeypatch):
    from geosim.apps.study import cluster

    monkeypatch.setattr(cluster, "ANSWER_SECONDS", 0.5)
    with pytest.raises(InputError, match=r"no Dask scheduler answers there") as caught:
        geosim.sweep({**BAR, "vary": {"length_mm": [20.0]}}, scheduler=address, out=tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()
    assert "Traceback" not in "".join(capfd.readouterr())


def test_a_client_that_failed_is_gone_before_another_is_made(monkeypatch):
    """Dask closes it as it is collected; in the lock in which another one starts it would wait for ever."""
    from geosim.apps.study import cluster

    class Half:
        """A client that fails, held by itself as by the tasks of its loop."""

        def __init__(self, *_, **__):
            self.me = self
            alive.append(weakref.ref(self))
            raise OSError("nobody there")

    alive = []
    monkeypatch.setattr(cluster, "Client", Half)
    with pytest.raises(InputError, match=r"nobody there") as caught, cluster.executor("tcp://127.0.0.1:1"):
        pass
    assert caught.value.__context__ is None
    assert alive[0]() is None


def test_explain_knows_how_designs_end():
    for status in ("REFUSED", "MESH_FAILED", "CRASHED", "TIMEOUT", "OUT_OF_MEMORY"):
        assert CliRunner().invoke(main, ["explain", status.lower()]).output.startswith(f"{status}: ")


def test_a_sweep_names_the_goal_that_is_wrong():
    study = {**BAR, "vary": {"length_mm": [20.0]}}
    for given, place in (
        ({"goals": ["maximize tip_q_mm"]}, r"\[optimize\] goals = 'tip_q_mm' is no measure"),
        ({"goals": ["most tip_z_mm"]}, r"\[optimize\] goals = 'most tip_z_mm' is not a goal"),
        ({"goals": ["maximize tip_z_mm"], "constraints": ["mass <= 3"]}, r"\[optimize\] constraints = 'mass'"),
    ):
        with pytest.raises(InputError, match=place):
            geosim.sweep({**study, "optimize": given})


def test_a_pressure_without_its_unit_is_told_which():
    study = {"design": "pneunet", "material": "ecoflex-00-30-fang2022", "vary": {"wall_mm": [2.0]}}
    with pytest.raises(InputError, match=r"\[actuation\] pressure .*did you mean 'pressure_kpa'"):
        read_study({**study, "actuation": {"pressure": [10.0]}})


@pytest.mark.parametrize(
    ("given", "blamed"),
    [
        ({"base": 80e-3}, "base = 0.08"),
        ({"height": 1e-3, "wall": 1.5e-3}, "height = 0.001 m does not fit"),
        ({"width": 1e-3}, "width = 0.001 m does not fit"),
        ({"wall": 40e-3}, "wall = 0.04"),
        ({"wall": 40e-3, "base": 80e-3}, "wall = 0.04"),
    ],
)
def test_a_refusal_blames_the_dimension_that_was_changed(given, blamed):
    with pytest.raises(InputError, match=blamed.replace(".", r"\.")) as caught:
        geosim.generate.pneunet(**given)
    assert str(caught.value).startswith("pneunet: " + blamed)


def test_a_stopped_solve_says_which_clock():
    robot = geosim.generate.round_finger(length=20e-3, wall=4e-3).robot(max_edge=20e-3)
    solver = geosim.EnergyShapeSolver(element="p1", max_seconds=1e-9)
    stopped = geosim.solve(robot, geosim.Inflation(pressure=1e3), solver=solver, throw=False)
    assert "max_seconds = 1e-09 CPU s, for one command" in stopped.message


@pytest.mark.slow
def test_a_goal_out_of_reach_ends_after_the_solves_it_was_given():
    robot = geosim.generate.round_finger(length=20e-3, wall=4e-3).robot(max_edge=20e-3)
    quick = geosim.EnergyShapeSolver(element="p1", check_stability=False)
    far = geosim.Goal.tip([0.5, 0.5, 0.0])
    assert geosim.solve_for(robot, far, solver=quick).solves <= 15
    few = geosim.solve_for(robot, far, solver=quick, max_solves=2)
    assert few.solves == 2
    assert not few.reached
    with pytest.raises(InputError, match="max_solves"):
        geosim.solve_for(robot, far, max_solves=0)


def test_a_wall_that_flattens_a_tet_is_meshed_again(monkeypatch):
    from geosim.calibrate import parameters

    robot = geosim.generate.round_finger(length=20e-3, radius=8e-3, wall=3e-3).robot(max_edge=6e-3)
    monkeypatch.setattr(parameters, "MIN_VOLUME_KEPT_REL", 0.99)
    thick = parameters.thicken(robot, 1.05)
    assert len(thick.tets) != len(robot.tets)
    assert thick.chamber_volumes[0] < 0.96 * robot.chamber_volumes[0]
    assert thick.body_volume + thick.chamber_volumes[0] == pytest.approx(
        robot.body_volume + robot.chamber_volumes[0], rel=1e-6
    )
    assert len(thick.fixed)
    np.testing.assert_allclose(thick.vertices[thick.fixed, 0], 0.0, atol=1e-9)


@pytest.mark.slow
def test_a_preview_of_thin_walls_is_small_or_says_why(monkeypatch):
    from geosim.geometry import remedies

    thin = geosim.generate.membrane(chambers=1, size=60e-3, thickness=0.6e-3, frame=6e-3, pad_height=4e-3)
    assert not any("a preview of" in notice for notice in thin.robot(preview=True).notices)
    monkeypatch.setattr(remedies, "MANY_PREVIEW_TETS", 10)
    assert any(
        "a preview of" in notice and "its walls limit the edge" in notice for notice in thin.robot(preview=True).notices
    )


def test_what_forks_have_in_common_is_counted_once():
    me, fork = psutil.Process(), psutil.Process()
    alone, _ = server.in_use([me], 0)
    assert server.in_use([me, fork], 10 * alone)[0] == pytest.approx(alone, rel=0.01)
    assert server.in_use([me, fork], alone // 2)[0] == pytest.approx(1.5 * alone, rel=0.01)
