"""Questions to a study: expressions of measures, cases, commands; what is wrong is one line before anything is solved."""

from __future__ import annotations

import math
import random
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from apps.study.planted import BAR, solve_here

import geosim
from geosim.apps.study.expressions import read_expression
from geosim.apps.study.goals import read_constraint, read_goal
from geosim.apps.study.study import read_study
from geosim.errors import InputError
from geosim.files.messages import Place

HERE = Place(Path("study.toml"), ("optimize", "goals"))
VALUES = {"a": 3.0, "b_1": -2.0, "c[10kPa]@grip": 5.0, "d@free-1": 0.5, "e[2]": 7.0}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a", 3.0),
        ("1 + 2 * 3", 7.0),
        ("(1 + 2) * 3 - 4 / 2 / 2", 8.0),
        ("a - b_1 - 1", 4.0),
        ("-a * -2", 6.0),
        ("--a", 3.0),
        ("-" * 498 + "a", 3.0),
        ("-" * 497 + "a", -3.0),
        ("(" * 40 + "a" + ")" * 40, 3.0),
        ("a" + "+a" * 249, 750.0),
        ("c[10kPa]@grip / d@free-1", 10.0),
        ("c[ 1e1 kPa ] @ grip", 5.0),
        ("max(a, b_1, e[2]) + min(a, 2, 1)", 8.0),
        ("abs(b_1) * 1.5e-1", 0.3),
        (".5*a", 1.5),
    ],
)
def test_an_expression_is_worth_what_arithmetic_says(text, value):
    assert read_expression(text)(VALUES) == pytest.approx(value)


def test_expressions_of_arrays_are_those_of_their_elements():
    of = read_expression("max(a, 1) / b - a")
    a, b = np.array([0.5, 2.0, 3.0]), np.array([2.0, 0.0, 4.0])
    np.testing.assert_allclose(of({"a": a, "b": b}), [0.0, np.nan, -2.25])
    assert math.isnan(of({"a": 1.0}))
    assert math.isnan(of({"a": 1.0, "b": None}))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", "is empty"),
        ("a +", "missing at the end"),
        ("a b", "'b' does not follow"),
        ("(a", "not closed"),
        ("a)", "does not follow"),
        ("a ** 2", "missing before '\\*'"),
        ("a[10 Pa]", "is no command"),
        ("a[0]", "is no command"),
        ("a@", "name of a case is missing"),
        ("max(a)", "two arguments or more"),
        ("abs(a, b)", "one argument"),
        ("max", "is a function"),
        ("a; b", "not understood"),
        ("__import__('os')", "not understood|does not follow"),
        ("+a", "not understood"),
        ("a, b", "not understood"),
        ("a(b)", "not understood"),
        ("max(*a, b)", "not understood"),
        ("max(a b)", "'b' does not follow"),
        ("(" * 240 + "a" + ")" * 240, "missing before|does not follow"),
        ("a+" * 300 + "a", "too long"),
    ],
)
def test_what_is_no_expression_is_said_in_one_line(text, wanted):
    with pytest.raises(InputError, match=wanted) as caught:
        read_expression(text)
    assert "\n" not in str(caught.value)


def _right(draw: random.Random, depth: int) -> tuple[str, float]:
    """A random expression and its value, by Python's arithmetic."""
    kind = draw.randrange(3 if depth == 0 else 8)
    if kind == 0:
        number = round(draw.uniform(0, 9), 3)
        return repr(number), number
    if kind <= 2:
        name = draw.choice(list(VALUES))
        return name, VALUES[name]
    (x, p), (y, q) = _right(draw, depth - 1), _right(draw, depth - 1)
    if kind <= 5:
        sign = "+-*"[kind - 3]
        return f"({x} {sign} {y})", p + q if sign == "+" else p - q if sign == "-" else p * q
    if kind == 6:
        return f"max({x},{y})", max(p, q)
    return f"-abs( {x} )", -abs(p)


def _read(read, sentence):
    """What is read, or why it is refused; whatever else is raised fails the test."""
    try:
        return read(sentence, HERE)
    except InputError as error:
        return str(error)


def test_three_hundred_random_goals_right_and_wrong():
    """A right one has the value of its arithmetic; a wrong one is refused in one line with its file and key."""
    draw = random.Random(0)
    refused = 0
    for i in range(300):
        text, value = _right(draw, draw.randrange(4))
        damaged = i % 2 == 1
        if damaged:
            at = draw.randrange(len(text) + 1)
            text = text[:at] + draw.choice([*"+-*/()[]@,.;$'\"\\\n ", "kPa", "max", "1e", "\u00b2"]) + text[at:]
        for read, sentence in (
            (read_goal, f"{draw.choice(['maximize', 'minimize'])} {text}"),
            (read_goal, f"target {text} 12.5"),
            (read_constraint, f"{text} <= 2 * a"),
        ):
            found = _read(read, sentence)
            if isinstance(found, str):
                assert damaged or "speaks of no measure" in found, sentence
                assert "\n" not in found
                assert found.startswith("study.toml: [optimize] goals")
                refused += damaged
            elif not damaged:
                assert found.of(VALUES) == pytest.approx(value, nan_ok=True)
    assert refused > 100


STUDY = {
    **BAR,
    "vary": {"length_mm": [20.0, 24.0]},
    "cases": {
        "light": {"environment": {"gravity": [0, 0, -1.0]}},
        "pushed": {"environment": {"loads": [{"kind": "force", "vertices": "tip", "total_force": [0, 0, -1e-3]}]}},
        "blocked": {"environment": {"prescribed": [{"vertices": "tip", "displacement": [0, 0, 0]}]}},
    },
    "measures": {
        "columns": [
            "mass_g",
            "tip_z_mm@light",
            "sag = (6/2 - tip_z_mm@pushed) / (6/2 - tip_z_mm@light)",
            "blocked_force_n[1]@blocked",
            "size_x_mm@blocked",
        ]
    },
}


@pytest.mark.slow
def test_a_design_is_measured_in_every_case(tmp_path, monkeypatch):
    solve_here(monkeypatch)
    table = geosim.sweep(STUDY, workers=1, out=tmp_path / "out")
    assert table["status"].tolist() == ["CONVERGED"] * 2, table["message"].tolist()
    assert table.columns.tolist()[6:] == [
        "mass_g", "tip_z_mm@light", "sag", "blocked_force_n[1]@blocked", "size_x_mm@blocked"
    ]  # fmt: skip
    robots = {}
    for name in STUDY["cases"]:
        robots[name] = geosim.load_result(tmp_path / "out" / "runs" / table["run"][1] / name / "result.npz")
    heights = {name: 1e3 * result.tip[-1, 2] for name, result in robots.items()}
    assert table["tip_z_mm@light"][1] == pytest.approx(heights["light"], rel=1e-12)
    assert table["sag"][1] == pytest.approx((3 - heights["pushed"]) / (3 - heights["light"]), rel=1e-9)
    assert table["sag"][1] > 1.0
    weight = 9.81e-3 * table["mass_g"][1]
    assert 0.2 * weight < table["blocked_force_n[1]@blocked"][1] < 0.6 * weight  # a held end takes 3/8 of it
    assert table["size_x_mm@blocked"][1] == pytest.approx(24.0, rel=0.01)
    again = geosim.sweep(STUDY, workers=1, out=tmp_path / "out")
    assert again.equals(table)


def test_a_stiffness_is_measured_when_it_is_asked_for(tmp_path, monkeypatch):
    """A folder of runs that lack it solves them again; a goal may speak of it."""
    solve_here(monkeypatch)
    plain = {**BAR, "vary": {"length_mm": [20.0]}}
    first = geosim.sweep(plain, workers=1, out=tmp_path / "out")
    study = {**plain, "measures": {"columns": ["tip_stiffness_n_m", "length_mm", "2 * tip_stiffness_n_m"]}}
    row = geosim.sweep(study, workers=1, out=tmp_path / "out").iloc[0]
    assert row["run"] == first["run"][0]
    result = geosim.load_result(tmp_path / "out" / "runs" / row["run"] / "result.npz")
    stiffness = result.tip_stiffness()
    assert row["tip_stiffness_n_m"] == pytest.approx(np.linalg.eigvalsh(0.5 * (stiffness + stiffness.T))[0], rel=1e-6)
    assert row["2 * tip_stiffness_n_m"] == 2 * row["tip_stiffness_n_m"]
    assert row["length_mm (measured)"] == pytest.approx(20.0, rel=0.05)
    assert row["length_mm"] == 20.0


PNEUNET = {
    "design": "pneunet",
    "material": "ecoflex-00-30-fang2022",
    "vary": {"wall_mm": [1.5, 2.0]},
    "actuation": {"pressure_kpa": [5.0, 10.0]},
}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"measures": {"columns": ["bend_angle_deg[7kPa]"]}}, "no command has 7 kPa; there are 5, 10"),
        ({"measures": {"columns": ["bend_angle_deg[3]"]}}, "command 3 is not there; there are 2"),
        ({"measures": {"columns": ["bend_angle_deg[1.2V/V0]"]}}, "no command prescribes a volume ratio"),
        ({"measures": {"columns": ["bend_angle_deg@grip"]}}, "no case is called 'grip'; the study has no"),
        ({"measures": {"columns": ["bend_angle"]}}, r"\[measures\] columns = 'bend_angle' is no measure, did you mean"),
        ({"measures": {"columns": ["mass_g[1]"]}}, "mass_g is one number for all commands"),
        ({"measures": {"columns": ["x y = mass_g"]}}, "'x y' is no name of a column"),
        ({"measures": {"columns": ["2 * 3"]}}, "speaks of no measure"),
        ({"measures": {"columns": ["m = mass_g", "m = tets"]}}, "another column is called 'm'"),
        ({"cases": {"a b": {}}}, r"\[cases\] a b is no name of a case"),
        ({"cases": {"grip": {"actuation": {"pressure": 3}}}}, "did you mean 'pressure_kpa'"),
        ({"cases": {"grip": {"mesh": {"preview": True, "accuracy": 0.1}}}}, "accuracy and preview; give one of them"),
        ({"cases": {"grip": {"enviroment": {}}}}, "enviroment is an unknown key"),
        ({"optimize": {"goals": ["maximize mass_g / tats"]}}, r"\[optimize\] goals = 'tats' is no measure"),
        ({"optimize": {"goals": ["maximize tets"], "constraints": ["max_stretch@x <= 2"]}}, r"constraints = .*case"),
    ],
)
def test_a_wrong_question_is_one_line_before_anything_is_solved(given, wanted):
    with pytest.raises(InputError, match=wanted) as caught:
        read_study({**PNEUNET, **given})
    assert "\n" not in str(caught.value)


def test_commands_and_the_case_without_a_name():
    cases = {"hard": {"actuation": {"pressure_kpa": [20.0]}}}
    asked = {"columns": ["bend_angle_deg[10kPa] - bend_angle_deg[1]", "max_stretch@hard"]}
    read = read_study({**PNEUNET, "cases": cases, "measures": asked})
    assert read.alone
    row = {
        "measures": {"bend_angle_deg": 50.0},
        "frames": [{"bend_angle_deg": 20.0}, {"bend_angle_deg": 50.0}],
        "cases": {"hard": {"measures": {"max_stretch": 1.5}, "frames": [{"max_stretch": 1.5}]}},
    }
    known = read.measured(row)
    assert [float(of(known)) for of in read.expressions.values()] == [30.0, 1.5]
    only = read_study({**PNEUNET, "cases": cases})
    assert not only.alone
    assert only.columns == ["bend_angle_deg@hard", "max_stretch@hard"]
    study = {k: v for k, v in PNEUNET.items() if k != "actuation"}
    with pytest.raises(InputError, match=r"names no case.* write bend_angle_deg@hard"):
        read_study({**study, "cases": cases, "measures": {"columns": ["bend_angle_deg"]}})


def test_the_worked_questions_of_the_page_are_read():
    page = (Path(__file__).resolve().parents[3] / "docs" / "design-studies.md").read_text(encoding="utf-8")
    found = re.findall(r"```toml\n(# (\d) .*?)```", page, re.DOTALL)
    assert [number for _, number in found] == list("123456")
    for text, number in found:
        fixed = {"chambers": 3} if number == "6" else {}
        design = {"design": "round_finger" if number == "6" else "pneunet", "fixed": fixed}
        base = {
            **design,
            "material": "ecoflex-00-30-fang2022",
            "vary": {"wall_mm": [2.0, 2.5]},
            "actuation": {"pressure_kpa": [8]},
        }
        assert read_study({**base, **tomllib.loads(text)}).columns
