"""A wrong name of an argument, a method or a key is answered with the nearest one that exists."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import geosim
from geosim.files.actuation import read_actuation
from geosim.files.messages import Place
from geosim.files.schema import EnvironmentTable
from geosim.files.values import validated

PLACE = Place(Path("r.toml"))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: geosim.Inflation(kpa=5), "Inflation: there is no argument 'kpa', did you mean 'pressure'? [Pa]"),
        (lambda: geosim.Select.plane("x", under=0.1), "no argument 'under', did you mean 'below'?"),
        (lambda: geosim.RodShellRobot([[0, 0, 0], [1, 0, 0]], fixed=[0]), "'fixed', did you mean 'fixed_vertices'?"),
        (lambda: geosim.EnergyShapeSolver(elements="p1"), "no argument 'elements', did you mean 'element'?"),
        (lambda: geosim.Obstacle.sphere(centre=(0, 0, 0), radius=1), "did you mean 'center'?"),
        (
            lambda: geosim.Obstacle.plane((0, 0, 0), (0, 0, 1), radius=2),
            "there are point, normal, friction, motion, free, mass, released",
        ),
    ],
)
def test_a_wrong_argument_is_answered_with_the_right_one(call, words):
    with pytest.raises(TypeError, match=re.escape(words)):
        call()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: geosim.Environment(gravity=9.81), ("gravity = 9.81", "write gravity = [0, 0, -9.81]")),
        (lambda: geosim.Obstacle.sphere(5.0, 1.0), ("center = 5", "(3,) needed")),
        (
            lambda: geosim.Inflation(pressure=[[5e3, 6e3]]).targets(0, 1),
            ("pressure = [5000.0, 6000.0] Pa", "1 chamber", "rows are commands, columns chambers: give 1"),
        ),
        (
            lambda: geosim.generate.pneunet(chamber=2),
            ("pneunet: there is no dimension 'chamber', did you mean 'chambers'?",),
        ),
        (lambda: geosim.materials.get("ecoflex"), ("material 'ecoflex' is not a preset, did you mean 'ecoflex-",)),
        (lambda: geosim.Goal("bend_angle", 1), ("Goal: bend_angle has no value", "Goal.bend_angle(1.0)")),
        (lambda: geosim.load_result(Path(__file__).parent), ("this is a folder", "result.npz")),
        (lambda: geosim.solve(geosim.generate.pneunet(), geosim.Passive()), ("Design is not a robot", "design.robot(")),
        (
            lambda: geosim.RigidGroup([1, 2, 3], displacement=[float("nan"), 0]),
            ("RigidGroup: displacement = [nan, 0.0] has 2 components", "give [x, y, z]"),
        ),
        (
            lambda: geosim.RodShellRobot([[0, 0, 0], [1, 0, 0]], radius=1e-2, rod_material="rubber"),
            ("rod_material = 'rubber': give one LinearElastic",),
        ),
        (lambda: geosim.Obstacle.box((0, 0, 0), (1, 0, 1)), ("upper [1.0, 0.0, 1.0] m in every coordinate",)),
        (lambda: geosim.Inflation(pressure=5e3).targets(0, 0), ("no chamber to inflate", "leave inflation out")),
        (
            lambda: geosim.Select.box((0, 0, 0), (1, 2, -3)),
            ("upper [1.0, 2.0, -3.0] m", "give the smaller values first"),
        ),
        (
            lambda: geosim.Obstacle.plane((0, 0, 0), (0, 0, 1), motion=[[0, 0, 0], [0, float("nan"), 0]]),
            ("motion[1] = [0.0, nan, 0.0] m must be finite", "repeat the row before"),
        ),
        (
            lambda: geosim.Prescribed([1], [float("nan"), 0]),
            ("displacement = [nan, 0.0] m has shape (2,)", "give [x, y, z]"),
        ),
        (lambda: geosim.Inflation(pressure=-300e3), ("pressure = -300000 Pa", "give -101325 Pa gauge or more")),
    ],
)
def test_a_wrong_value_is_answered_with_itself_and_what_to_write(call, words):
    with pytest.raises(geosim.InputError) as raised:
        call()
    assert all(word in str(raised.value) for word in words), raised.value


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: geosim.VolumetricRobot.from_stl("a.stl"),
            "VolumetricRobot has no 'from_stl', did you mean 'from_surfaces'?",
        ),
        (lambda: geosim.Obstacle.ball((0, 0, 0), 1), "Obstacle has no 'ball', did you mean 'sphere'?"),
        (lambda: geosim.load_roboter("x"), "has no attribute 'load_roboter', did you mean 'load_robot'?"),
    ],
)
def test_a_wrong_attribute_is_answered_with_the_right_one(call, words):
    with pytest.raises(AttributeError, match=re.escape(words)) as raised:
        call()
    assert raised.value.obj is None or raised.value.obj is geosim, "Python adds no suggestion of its own"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            'shape = "sphere"\ncentre = [0, 0, 0]\nradius = 1.0',
            "centre does not go with shape = 'sphere', did you mean 'center'?",
        ),
        (
            'shape = "sphere"\nsize = 1.0',
            "did you mean 'radius'?; it has center, radius, friction, motion, free, mass, released",
        ),
        ('shape = "plane"\nradius = 1.0', "it has point, normal, friction, motion, free, mass, released"),
        ('shape = "ball"\nradius = 1.0', "did you mean 'sphere'?"),
    ],
)
def test_a_wrong_key_of_an_obstacle_names_the_keys_of_its_shape(text, words):
    with pytest.raises(geosim.InputError, match=re.escape(words)):
        validated(EnvironmentTable, tomllib.loads(f"[[obstacles]]\n{text}"), PLACE.at("environment"))


def test_a_wrong_key_of_an_actuation():
    with pytest.raises(geosim.InputError, match="'kpa' is unknown, did you mean 'pressure_kpa'"):
        read_actuation({"inflation": {"kpa": [5]}}, PLACE)
