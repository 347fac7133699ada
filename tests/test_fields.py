"""Every field of the surroundings acts or is refused, with every solver, from Python and from files."""

from __future__ import annotations

import dataclasses

import fields
import numpy as np
import pytest
from bending import BAR_FILE, save_bar
from click.testing import CliRunner

from geosim import Environment, Fluid, Obstacle, RigidGroup, load_result
from geosim.cli import main
from geosim.files.actuation import actuation_kinds
from geosim.files.robot import load_problem


@pytest.mark.slow
def test_every_field_acts_or_is_refused_and_the_page_says_which():
    found = fields.table()
    silent = [(name, solver) for name, row in found.items() for solver, one in row.items() if one == fields.SILENT]
    assert not silent
    assert all("acts" in row.values() for row in found.values())
    assert fields.PAGE.read_text(encoding="utf-8") == fields.page(found), "run python tests/fields.py"


def test_the_table_knows_every_field_of_the_surroundings():
    known = {name.lower() for name in fields.CASES}
    for kind in (Environment, Fluid, Obstacle, RigidGroup):
        for one in dataclasses.fields(kind):
            plain = kind is Environment and one.name in ("loads", "fluid")  # by their own kinds below
            given = kind is Obstacle and one.name in ("shape", "parameters")
            given |= kind is RigidGroup and one.name == "vertices"
            name = one.name if kind is Environment else f"{kind.__name__}.{one.name}"
            assert plain or given or name.lower() in known, name


def test_the_table_knows_every_field_of_actuations():
    every = {f"{kind.__name__}.{one.name}" for kind in actuation_kinds().values() for one in dataclasses.fields(kind)}
    assert every == set(fields.ACTUATIONS)


EVERYTHING = """
[environment]
gravity = [0.1, 0.2, -9.0]
self_contact = true
self_friction = 0.25
exclude_pairs = [["body 1", "body 1"]]
[environment.fluid]
density = 900.0
viscosity = 0.5
drag_coefficient = 1.5
[[environment.obstacles]]
shape = "sphere"
center = [10, 0, 50]
radius = 5
friction = 0.3
motion = [[0, 0, -1]]
[[environment.obstacles]]
shape = "box"
lower = [0, 0, 60]
upper = [5, 5, 65]
free = true
mass = 0.02
released = 2
[[environment.loads]]
kind = "force"
vertices = "tip"
total_force = [0, 0, -0.1]
[[environment.prescribed]]
vertices = "tip"
displacement = [1, 2, 3]
[[environment.rigid_groups]]
vertices = "tip"
displacement = [1, 0, 0]
rotation = [0, 0, 0.1]
force = [0, 0, 0.2]
moment = [0, 0, 0.3]
point = [1, 2, 3]
"""


def test_every_field_of_a_file_is_in_the_environment(tmp_path):
    """In metres, and none as it is by default."""
    save_bar(tmp_path)
    (tmp_path / "bar.toml").write_text(BAR_FILE.split("[environment")[0] + EVERYTHING)
    around = load_problem(tmp_path / "bar.toml")[1]
    for one in dataclasses.fields(Environment):
        value = getattr(around, one.name)
        unset = len(value) == 0 if isinstance(value, tuple) else np.all(value == one.default)
        assert one.name == "self_contact" or not unset, one.name
    assert around.fluid == Fluid(900.0, 0.5, 1.5)
    ball, box = around.obstacles
    np.testing.assert_allclose(ball.motion, [[0, 0, -1e-3]])
    assert (ball.friction, box.free, box.mass, box.released) == (0.3, True, 0.02, 2)
    (group,) = around.rigid_groups
    np.testing.assert_allclose(group.displacement, [[1e-3, 0, 0]])
    np.testing.assert_allclose(group.point, [1e-3, 2e-3, 3e-3])
    turned = [group.rotation[0], group.force[0], group.moment[0]]
    np.testing.assert_allclose(turned, [[0, 0, 0.1], [0, 0, 0.2], [0, 0, 0.3]])
    np.testing.assert_allclose(around.prescribed[0].displacement, [[1e-3, 2e-3, 3e-3]])
    np.testing.assert_allclose(around.loads[0].value, [[0, 0, -0.1]])


PLAIN = """
[solver]
element = "p1"
[environment]
gravity = [0, 0, -9.81]
"""
# What a robot file or an actuation file has more than a bar under gravity, and what its refusal says.
FROM_FILES = {
    "gravity": (PLAIN.replace("-9.81", "-5.0"), "", None),
    "fluid density": (PLAIN + "fluid.density = 500.0\n", "", None),
    "fluid viscosity": (PLAIN + "fluid.density = 500.0\nfluid.viscosity = 1.0\n", "", "viscosity"),
    "fluid drag": (PLAIN + "fluid.density = 500.0\nfluid.drag_coefficient = 1.0\n", "", "drag"),
    "force": (
        PLAIN + '[[environment.loads]]\nkind = "force"\nvertices = "tip"\ntotal_force = [0, 0.01, 0]\n',
        "",
        None,
    ),
    "torque": (PLAIN + '[[environment.loads]]\nkind = "torque"\nedges = [0]\ntorque = 1e-4\n', "", "torque"),
    "prescribed": (PLAIN + '[[environment.prescribed]]\nvertices = "tip"\ndisplacement = [0, 1, 0]\n', "", None),
    "group": (PLAIN + '[[environment.rigid_groups]]\nvertices = "tip"\nforce = [0, 0.01, 0]\n', "", None),
    "obstacle": (
        PLAIN + '[[environment.obstacles]]\nshape = "plane"\npoint = [0, 0, -1]\nnormal = [0, 0, 1]\n',
        "",
        None,
    ),
    "volume ratio": (PLAIN, "[inflation]\nvolume_ratio = 1.1\n", None),
    "pressure": (PLAIN, "[inflation]\npressure_kpa = 0.5\n", None),
    "gas": (PLAIN, "[inflation]\ngas = true\n[syringe]\nvolumes_mm3 = 500\n", None),
    "duration": (PLAIN, "[passive]\nduration = 1.0\n", "knows no time"),
    "cable": (PLAIN, "[cable_tensions]\ntension = 1.0\n", "no cables"),
    "natural shape": (PLAIN, "[natural_shape]\ntimes = [1]\ncurvature = [1]\n", "NaturalShape does not actuate"),
    "gait": (PLAIN, "[undulatory_gait]\namplitude_kpa = 5\nfrequency = 1\nphase_lag = 1\n", "UndulatoryGait does not"),
}


def solved_from_files(folder, surroundings, actuation):
    """Return the outcome of `geosim solve` and the last frame, if there is one."""
    folder.mkdir()
    save_bar(folder)
    (folder / "bar.toml").write_text(
        BAR_FILE.split("[environment")[0] + '[tip]\nplane = "x"\nabove = 99.9\n' + surroundings
    )
    (folder / "act.toml").write_text(actuation or "[passive]\n")
    given = [folder / "bar.toml", "--actuation", folder / "act.toml", "--out", folder / "out"]
    done = CliRunner().invoke(main, ["solve", *map(str, given)])
    found = folder / "out" / "result.npz"
    return done, load_result(found).frames[-1] if found.is_file() else None


@pytest.fixture(scope="module")
def plain_frame(tmp_path_factory):
    done, frame = solved_from_files(tmp_path_factory.mktemp("plain") / "bar", PLAIN, "")
    assert done.exit_code == 0, done.output
    return frame


@pytest.mark.slow
@pytest.mark.parametrize("name", FROM_FILES)
def test_fields_of_files_act_or_are_refused_from_the_command_line(tmp_path, plain_frame, name):
    surroundings, actuation, refusal = FROM_FILES[name]
    done, frame = solved_from_files(tmp_path / "bar", surroundings, actuation)
    if refusal:
        assert done.exit_code != 0
        assert refusal in done.output
        return
    assert done.exit_code == 0, done.output
    assert np.abs(frame - plain_frame).max() > fields.LEAST_CHANGE
