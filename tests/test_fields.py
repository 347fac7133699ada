"""Every field of the surroundings acts or is refused, with every solver, from Python and from files."""

from __future__ import annotations

import dataclasses

import fields
import numpy as np
import pytest
from bending import BAR_FILE, save_bar

from geosim import Environment, Fluid, Obstacle, RigidGroup
from geosim.files.robot import load_problem


@pytest.mark.slow
def test_every_field_acts_or_is_refused_and_the_page_says_which():
    found = fields.table()
    silent = [(name, solver) for name, row in found.items() for solver, one in row.items() if one == fields.SILENT]
    assert not silent
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
