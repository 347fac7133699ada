"""`geosim rerun`, `compare RESULT RESULT`, `new`, `explain`, budgets and interrupts."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import sys

import numpy as np
import pytest
from bending import bar_robot, bent_result, save_bar
from click.testing import CliRunner

import geosim
from geosim import EnergyShapeSolver, Inflation, Status, cli, generate, solve
from geosim.cli.demos import DEMOS
from geosim.cli.rod_cases import CASES
from geosim.files.robot import load_problem
from geosim.resources import resource


def run(*arguments):
    return CliRunner().invoke(cli.main, [str(a) for a in arguments])


@pytest.mark.slow
def test_rerun_gives_the_same_frames(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    solver = EnergyShapeSolver(element="p1", tolerance=1e-7)
    first = solve(bar_robot(), Inflation(volume_ratio=[1.02, 1.05]), solver=solver)
    first.save("r.npz")
    done = run("rerun", "r.npz", "--out", "again")
    assert done.exit_code == 0, done.output
    assert "the same robot: vertices are at most 0 mm apart" in done.output
    again = geosim.load_result("again/result.npz")
    assert again.solver == solver
    assert (again.frames == first.frames).all()
    bent_result(2).save("bent.npz")
    assert "what was commanded" in run("rerun", "bent.npz", "--out", "no").output
    further = solve(bar_robot(), Inflation(volume_ratio=[1.06]), solver=solver, initial=first)
    further.save("further.npz")
    assert "went on from another result" in run("rerun", "further.npz", "--out", "no").output


@pytest.mark.slow
def test_two_results_are_compared(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bent_result(2).save("a.npz")
    bent_result(3).save("b.npz")
    done = run("compare", "a.npz", "b.npz", "--out", "map")
    assert done.exit_code == 0, done.output
    assert "the same robot: vertices are at most 0 mm apart" in done.output
    row = next(line.split() for line in done.output.splitlines() if line.startswith("bend_angle_deg"))
    assert [round(float(v)) for v in row[1:]] == [40, 60, 20]
    assert (tmp_path / "map" / "overlay.png").stat().st_size > 10_000
    monkeypatch.setattr("geosim.show.overlay.overlay", lambda one, two, path: path.touch())  # once is enough
    softer = bent_result(2)
    softer = dataclasses.replace(softer, robot=softer.robot.with_materials(geosim.NeoHookean(mu=1234.0)))
    softer.save("softer.npz")
    done = run("compare", "a.npz", "softer.npz", "--out", "soft")
    assert "the same mesh of another material: vertices" in done.output
    assert "other material of region 0:" in done.output
    assert "mu=1234.0" in done.output
    assert "other loads" not in done.output
    held = bent_result(2)
    loads = [geosim.Load.force(np.arange(first, first + 50), (0.0, 0.0, -1.0)) for first in (0, 1)]
    for name, load in zip(("one", "two"), loads):
        around = dataclasses.replace(held.environment, loads=(load,))
        dataclasses.replace(held, environment=around).save(f"{name}.npz")
    assert "other loads" in run("compare", "one.npz", "two.npz", "--out", "loads").output
    other = generate.round_finger(length=40e-3, radius=6e-3).robot(preview=True)
    geosim.Result(Status.CONVERGED, "", True, [1.0], [other.vertices], other).save("c.npz")
    done = run("compare", "a.npz", "c.npz", "--out", "other")
    assert done.exit_code == 0, done.output
    assert "the robots differ" in done.output


@pytest.mark.slow
def test_new_makes_a_robot_that_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("new", "mine")
    assert done.exit_code == 0, done.output
    assert "geosim solve mine/robot.toml" in done.output
    refused = run("new", "mine")
    assert refused.exit_code == 1
    assert refused.stderr == "geosim: mine exists and is not empty; give another NAME\n"
    robot, actuation, environment, solver = geosim.load_case("mine/robot.toml")
    result = geosim.solve(robot, actuation, environment, solver=solver)
    assert not result.trust()
    assert np.degrees(result.bend_angle[-1]) > 30.0
    text = (tmp_path / "mine" / "robot.toml").read_text(encoding="utf-8")
    begun = "# [environment]"
    used = "\n".join(line.removeprefix("# ") for line in text[text.index(begun) :].splitlines())
    coarse = text[: text.index(begun)].replace("max_edge = 8", "max_edge = 20")
    (tmp_path / "mine" / "robot.toml").write_text(coarse + used)
    _, environment, solver = load_problem("mine/robot.toml")
    assert len(environment.obstacles) == 1
    assert solver.element == "p1"


def test_explain_knows_every_status():
    everything = run("explain").output
    for status in Status:
        assert f"{status.name}: {status.value}" in everything
        assert run("explain", status.name.lower().replace("_", "-")).output.startswith(f"{status.name}: ")
    assert run("explain", "FINE").exit_code == 2


def test_demo_lists_its_demonstrations():
    """Every robot that ships and every case of rods that asks for nothing, in a line with its seconds."""
    shipped = {p.parent.name for p in resource("meshes").glob("*/robot.toml")}
    assert set(DEMOS) == shipped | set(CASES)
    lines = run("demo", "--list").output.splitlines()
    assert [line.split()[0] for line in lines] == list(DEMOS)
    assert all(line.endswith(" s") and len(line) <= 100 for line in lines)
    assert all(demo.seconds > 0 for demo in DEMOS.values())


def test_a_budget_of_seconds_leaves_the_last_equilibrium(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_bar(tmp_path)
    done = run("solve", "bar.toml", "--volume-ratio", "4", "--max-seconds", "0.05", "--out", "out")
    assert done.exit_code == 1
    assert "STOPPED" in done.output
    assert (tmp_path / "out" / "result.npz").is_file()
    assert run("solve", "bar.toml", "--max-seconds", "-1", "--out", "out2").exit_code == 2


# `geosim solve`, which says when it has solved two commands and then waits for the signal.
WAITING = """
import time
from geosim import EnergyShapeSolver, Result, cli

Result.plot = Result.html = lambda self, path: path.touch()  # dear, and drawn elsewhere
whole, states = EnergyShapeSolver.step, []

def step(*given):
    if len(states) == 2:
        print("two are solved", flush=True)
        time.sleep(300)
    states.append(whole(*given))
    return states[-1]

EnergyShapeSolver.step = step
cli.main(["solve", "bar.toml", "--volume-ratio", "1.01,1.02,1.03", "--element", "p1", "--out", "out"])
"""


@pytest.mark.slow
@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGHUP])
def test_a_stop_by_the_system_keeps_the_frames(tmp_path, stop):
    """SIGTERM and SIGHUP are treated like Ctrl-C by a process that solves: complete files, exit status 130."""
    save_bar(tmp_path)
    code = (
        "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL)\n" + WAITING
    )  # whatever started the tests ignores
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line == "two are solved\n":
                break
        process.send_signal(stop)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "INTERRUPTED" in out
    result = geosim.load_result(tmp_path / "out" / "result.npz")
    assert result.status is Status.INTERRUPTED
    assert len(result.frames) == 2
    assert not list(tmp_path.glob(".*"))  # nothing half written is left beside


def test_a_hangup_that_nohup_ignores_stays_ignored():
    code = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); from geosim.cli.commands import main\n"
    code += "try:\n    main(['--version'])\nexcept SystemExit:\n    print(signal.getsignal(signal.SIGHUP).name)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines()[-1] == "SIG_IGN", done.stderr
