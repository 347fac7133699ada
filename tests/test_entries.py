"""Entry points of other distributions: the example of the page, and those that are skipped."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import geosim
from geosim import InputError
from geosim.entries import Entry, entries
from geosim.errors import GeosimWarning
from geosim.solve import default_solver

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "extend.md").read_text(encoding="utf-8")
(EXAMPLE,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
TABLE, ROBOT = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


def distribution(folder, name, table, **modules):
    """Write what pip leaves of a distribution: its modules, and its entry points beside."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(table.replace('[project.entry-points."', "[").replace('"', ""))
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(text)


def run(folder, *words):
    """Run a command line with a folder on the path; return its exit status and what it said."""
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); from geosim.cli import main; main({list(words)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, timeout=300)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_the_example_adds_a_robot_an_obstacle_a_law_and_a_command(tmp_path, monkeypatch):
    distribution(tmp_path, "geosim_cone", TABLE, geosim_cone=EXAMPLE)
    assert len([line for line in EXAMPLE.splitlines() if line.strip()]) <= 50
    (tmp_path / "cone.toml").write_text(ROBOT)
    status, out, said = run(tmp_path, "solve", "cone.toml", "--element", "p1", "--out", "cone")
    assert status == 0, out + said
    status, out, said = run(tmp_path, "sag", "cone/result.npz")
    assert (status, said) == (0, "")
    assert 0.1 < float(out.split()[0]) < 30.0
    monkeypatch.syspath_prepend(tmp_path)
    assert geosim.load_result(tmp_path / "cone" / "result.npz").contact_count[-1] > 0  # the cone lies on the ring
    status, out, said = run(tmp_path, "--help")
    assert "  sag        Say how far the tip of a result has moved." in out.splitlines()


def test_the_obstacle_of_another_distribution_is_a_closed_surface(tmp_path, monkeypatch):
    distribution(tmp_path, "geosim_ring", TABLE, geosim_cone=EXAMPLE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "geosim_cone", raising=False)
    ring = geosim.Obstacle("ring", {"center": [0.0, 0.0, 0.0], "radius": 9e-3, "thickness": 3e-3})
    from geosim.collision.shapes import signed_distances

    at = [[9e-3, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 9e-3, 8e-3]]  # in the tube, in the hole, 5 mm above the tube
    found = signed_distances(ring.solid, at)[0]
    assert found == pytest.approx([-3e-3, 6e-3, 5e-3], abs=0.2e-3)  # of 24 x 12 facets
    law = geosim.material.laws.material_from_dict({"model": "arruda-boyce", "mu": 2e4, "locking": 100.0})
    assert law.shear_modulus == pytest.approx(2e4, rel=1e-3)  # neo-Hookean where nothing locks
    with pytest.raises(InputError, match="ring: needs center, radius, thickness"):
        geosim.Obstacle("ring", {"center": [0.0, 0.0, 0.0]})
    with pytest.raises(InputError, match="'stiffness' is not a constant of arruda-boyce; it has mu, locking, density"):
        geosim.material.laws.material_from_dict({"model": "arruda-boyce", "stiffness": 1.0})


def test_an_open_surface_is_refused(tmp_path, monkeypatch):
    text = EXAMPLE.replace("mesh.faces\n", "mesh.faces[1:]\n")
    distribution(tmp_path, "geosim_open", TABLE.replace("geosim_cone", "open_cone"), open_cone=text)
    monkeypatch.syspath_prepend(tmp_path)
    ring = geosim.Obstacle("ring", {"center": [0.0, 0.0, 0.0], "radius": 9e-3, "thickness": 3e-3})
    with pytest.raises(InputError, match=r"Obstacle\.ring: the surface of its entry point is not closed"):
        ring.solid  # noqa: B018


BROKEN = """
[geosim.commands]
solve = broken:command
sweep = broken:command
bad = broken:command
wrong = whole:number
missing = whole:nothing
[geosim.robots]
snake = broken:read
bad = broken:read
"""


def test_entries_that_raise_or_take_a_name_are_named_in_one_line_and_skipped(tmp_path):
    distribution(tmp_path, "geosim_bad", BROKEN, broken="raise SystemError('no\\nlicence')", whole="number = 1")
    status, out, said = run(tmp_path, "--help")
    assert status == 0
    assert said.splitlines() == [
        "note: geosim.commands solve = 'broken:command' of geosim_bad 1.0 is skipped: geosim has this name",
        "note: geosim.commands sweep = 'broken:command' of geosim_bad 1.0 is skipped: geosim has this name",
    ]
    assert "  bad        (geosim_bad 1.0)" in out.splitlines()
    for name, reason in {
        "bad": "SystemError: no licence",
        "wrong": "int is no click command",
        "missing": "AttributeError: module 'whole' has no attribute 'nothing'",
    }.items():
        status, out, said = run(tmp_path, name)
        assert status == 2
        assert f"of geosim_bad 1.0 is skipped: {reason}" in said
        assert said.splitlines()[-1].startswith(f"geosim: No such command '{name}'")
    (tmp_path / "robot.toml").write_text('kind = "bad"\nunits = "mm"\n')
    status, out, said = run(tmp_path, "info", "robot.toml")
    assert status == 1
    assert "kind = 'bad' is unknown; write kind = \"volumetric\" or" in said.splitlines()[-1]


def test_no_other_distribution_takes_a_name_of_an_installed_geosim(tmp_path, monkeypatch):
    """Not even one that comes before it on the path."""
    own = '[project.entry-points."geosim.commands"]\nsweep = "geosim.cli.applications:sweep"\n'
    distribution(tmp_path / "site", "geosim", own)
    distribution(tmp_path / "first", "a_thief", "[geosim.commands]\nsweep = broken:command\n")
    monkeypatch.setattr("geosim.entries.__file__", str(tmp_path / "site" / "geosim" / "entries.py"))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "first"), str(tmp_path / "site")])
    with pytest.warns(
        GeosimWarning, match=r"sweep = 'broken:command' of a_thief 1\.0 is skipped: geosim has this name"
    ):
        found = entries("geosim.commands")
    assert found["sweep"].place == "geosim.cli.applications:sweep"


def test_a_law_that_geosim_does_not_know_is_refused(tmp_path, monkeypatch):
    """Its kernels would take it for another."""
    text = "from dataclasses import dataclass\nimport geosim\nclass Mine(geosim.NeoHookean):\n    kind = 7\n"
    distribution(tmp_path, "geosim_law", "[geosim.materials]\nmine = mine_law:Mine\n", mine_law=text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=r"mine of geosim_law 1\.0 makes Mine, which is no law of geosim"):
        geosim.material.laws.material_from_dict({"model": "mine", "mu": 1e4})


def test_the_solver_of_another_robot_is_an_entry_point(tmp_path, monkeypatch):
    text = "class Mine:\n    def __init__(self):\n        self.name = 'mine'\nclass Robot:\n    solver_name = 'mine'\n"
    distribution(tmp_path, "geosim_mine", "[geosim.solvers]\nmine = mine_solver:Mine\n", mine_solver=text)
    monkeypatch.syspath_prepend(tmp_path)
    import mine_solver

    assert isinstance(default_solver(mine_solver.Robot()), mine_solver.Mine)
    with pytest.raises(InputError, match="object is not a robot"):
        default_solver(object())


def test_the_applications_are_entry_points_and_help_imports_none(tmp_path):
    found = entries("geosim.commands")
    assert {"calibrate", "compare", "condition", "make", "optimize", "reduce", "studio", "sweep"} <= found.keys()
    for entry in found.values():
        assert entry.source == "geosim"
        assert entry.load().name == entry.name
        assert entry.summary == entry.load().help.splitlines()[0]
    code = "import sys\nfrom geosim.cli import main\ntry:\n    main(['--help'])\nfinally:\n    print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert "geosim.cli.commands" in done.stdout.split()
    assert not {"geosim.cli.applications", "geosim.cli.studio", "geosim.apps", "numpy"} & set(done.stdout.split())


def test_the_second_of_two_strangers_with_one_name_is_skipped(tmp_path, monkeypatch):
    for name in ("geosim_a", "geosim_b"):
        distribution(tmp_path, name, "[geosim.commands]\nours = x:y\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.warns(GeosimWarning, match=r"ours = 'x:y' of geosim_b 1\.0 is skipped: geosim_a 1\.0 has this name"):
        assert entries("geosim.commands")["ours"] == Entry("geosim.commands", "ours", "x:y", "geosim_a 1.0")
