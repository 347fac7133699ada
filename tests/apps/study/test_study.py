"""What a STUDY.toml says: designs in order, runs that are named by their content, refusals in one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import geosim
from geosim.apps.study import goals
from geosim.apps.study.sampling import Axis
from geosim.apps.study.solving import write_problem
from geosim.apps.study.study import read_study
from geosim.errors import InputError
from geosim.files.messages import Place
from geosim.resources import read_toml

PNEUNET = """
design = "pneunet"
material = "dragon-skin-20-fang2022"
[fixed]
width_mm = 20
[vary]
wall_mm = { from = 1.0, to = 3.0, steps = 5 }
chambers = [4, 6, 8]
[actuation]
pressure_kpa = [5, 10]
"""


def study(tmp_path, text):
    (tmp_path / "bend.toml").write_text(text)
    return read_study(tmp_path / "bend.toml")


def test_a_grid_has_every_combination_in_the_order_of_its_axes(tmp_path):
    read = study(tmp_path, PNEUNET)
    assert read.name == "bend"
    assert [(row["wall_mm"], row["chambers"]) for row in read.rows] == [
        (wall, chambers) for wall in (1.0, 1.5, 2.0, 2.5, 3.0) for chambers in (4, 6, 8)
    ]
    job = read.job(read.rows[4])
    assert job.parameters["wall"] == pytest.approx(1.5e-3, rel=1e-15)
    assert job.parameters["chambers"] == 6
    assert job.parameters["base"] == 4e-3  # a default is part of the design
    assert job.actuation == {"inflation": {"pressure_kpa": [5, 10]}}
    assert (job.seconds, job.memory) == (600.0, 4_000_000_000)
    assert read.columns == ["bend_angle_deg", "max_stretch"]


@pytest.mark.parametrize("method", ["random", "latin-hypercube"])
def test_samples_stay_in_their_ranges_and_come_again_with_their_seed(tmp_path, method):
    text = PNEUNET.replace(", steps = 5", "") + f'[sampling]\nmethod = "{method}"\n'
    read = study(tmp_path, text)
    walls = np.array([row["wall_mm"] for row in read.rows])
    assert len(walls) == 100
    assert walls.min() >= 1.0
    assert walls.max() < 3.0
    assert {row["chambers"] for row in read.rows} == {4, 6, 8}
    assert read.rows == study(tmp_path, text).rows
    assert read.rows != study(tmp_path, text + "seed = 1\n").rows
    if method == "latin-hypercube":  # one in every hundredth of the range
        assert sorted(((walls - 1.0) * 50).astype(int)) == list(range(100))


def test_a_list_is_read_from_its_file_in_its_order(tmp_path):
    (tmp_path / "designs.csv").write_text(
        'wall_mm,channel_mm,material\n2,"2,2",ecoflex-00-30-fang2022\n1.5,"3,2",dragon-skin-20-fang2022\n'
    )
    text = (
        'design = "pneunet"\nmaterial = "dragon-skin-20-fang2022"\n[sampling]\nmethod = "list"\nfile = "designs.csv"\n'
    )
    read = study(tmp_path, text)
    jobs = [read.job(row) for row in read.rows]
    assert read.keys == ["wall_mm", "channel_mm", "material"]
    assert [job.parameters["channel"] for job in jobs] == [(2e-3, 2e-3), (3e-3, 2e-3)]
    assert [job.material for job in jobs] == ["ecoflex-00-30-fang2022", "dragon-skin-20-fang2022"]
    (tmp_path / "designs.csv").write_text("wall_mm,wal\n2,3\n")
    with pytest.raises(InputError, match=r"designs\.csv: .*wal.*did you mean 'wall_mm'"):
        study(tmp_path, text).rows  # noqa: B018


def test_a_run_is_named_by_the_design_and_what_solves_it(tmp_path):
    read = study(tmp_path, PNEUNET)
    run = read.job({"wall_mm": 2.0, "chambers": 6}).run
    assert len(run) == 12
    assert set(run) <= set("0123456789abcdef")
    assert read.job({"chambers": 6, "wall_mm": 2}).run == run
    assert read.job({"wall_mm": 2.0, "chambers": 6, "base_mm": 4.0}).run == run  # what it is anyway
    assert study(tmp_path, PNEUNET + "[limits]\nseconds = 5\n").job({"wall_mm": 2.0, "chambers": 6}).run == run
    others = [
        read.job({"wall_mm": 2.1, "chambers": 6}),
        study(tmp_path, PNEUNET.replace("10]", "11]")).job({"wall_mm": 2.0, "chambers": 6}),
        study(tmp_path, PNEUNET + "[mesh]\npreview = true\n").job({"wall_mm": 2.0, "chambers": 6}),
        study(tmp_path, PNEUNET.replace("skin-20-fang2022", "skin-30")).job({"wall_mm": 2.0, "chambers": 6}),
    ]
    assert len({run, *(job.run for job in others)}) == 5


PLACE = Place(Path("study.toml"))
WRONG = {
    "unknown table": (PNEUNET + "[limit]\nseconds = 3\n", r"limit is an unknown key, did you mean 'limits'"),
    "unknown design": (PNEUNET.replace('"pneunet"', '"pneunett"'), "did you mean 'pneunet'"),
    "neither": ("[vary]\nwall_mm = [1.0]\n", 'either design = "pneunet" or robot = "robot.toml"'),
    "dimension": (PNEUNET.replace("wall_mm", "wall_m"), r"\[vary\] wall_m .*did you mean 'wall_mm'"),
    "value": (PNEUNET.replace("[4, 6, 8]", "[4, 6.5]"), r"chambers = 6.5 must be a whole number"),
    "no material": (PNEUNET.replace('material = "dragon-skin-20-fang2022"', ""), r"\[material\] is missing"),
    "bad material": (PNEUNET.replace("skin-20", "skin-21"), "dragon-skin-21.*did you mean"),
    "twice": (PNEUNET.replace("width_mm", "wall_mm"), r"\[vary\] wall_mm is also in \[fixed\]"),
    "backwards": (PNEUNET.replace("from = 1.0", "from = 4.0"), "goes from a number to a larger one"),
    "no steps": (PNEUNET.replace(", steps = 5", ""), "a grid needs steps"),
    "count": (PNEUNET + "[sampling]\ncount = 5\n", r"\[sampling\] count = 5 does not go with a grid"),
    "column": (
        PNEUNET + '[measures]\ncolumns = ["bend_angle"]\n',
        "'bend_angle' is no measure, did you mean 'bend_angle_deg'",
    ),
    "goal": (PNEUNET + '[optimize]\ngoals = ["most tip_x_mm"]\n', "is not a goal"),
    "constraint": (
        PNEUNET + '[optimize]\ngoals = ["minimize mass_g"]\nconstraints = ["mass_g < 3"]\n',
        "not a constraint",
    ),
    "limit": (PNEUNET + "[limits]\nseconds = -1\n", r"\[limits\] seconds = -1"),
    "pressure": (PNEUNET.replace("[5, 10]", '"5"'), "must be a number or a list"),
    "actuation": (PNEUNET.replace("pressure_kpa", "presure_kpa"), r"\[presure_kpa\] is not an actuation|presure_kpa"),
    "obstacle": (PNEUNET + '[[environment.obstacles]]\nshape = "ball"\n', "shape = 'ball'"),
    "mesh": (PNEUNET + "[mesh]\nmax_edge_mm = 2.0\npreview = true\n", "max_edge_mm and preview; give one"),
    "solver": (PNEUNET + '[solver]\nelemant = "p1"\n', "did you mean 'element'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_one_line_with_the_file(tmp_path, name):
    text, wanted = WRONG[name]
    with pytest.raises(InputError, match=wanted) as caught:
        study(tmp_path, text)
    assert "\n" not in str(caught.value)
    assert "bend.toml" in str(caught.value)


def test_a_robot_file_is_varied_by_dotted_keys(tmp_path):
    (tmp_path / "robot.toml").write_text(
        'kind = "volumetric"\nunits = "mm"\n[body]\nsurface = "body.stl"\nmaterial = "ecoflex-00-30-fang2022"\n'
        '[fixed]\nplane = "x"\nbelow = 0.1\n[[environment.obstacles]]\nshape = "sphere"\ncenter = [0, 0, -9]\nradius = 3.0\n'
    )
    (tmp_path / "body.stl").write_bytes(b"solid")
    read = study(tmp_path, 'robot = "robot.toml"\n[vary]\n"environment.obstacles.0.friction" = [0.1, 0.3]\n')
    jobs = [read.job(row) for row in read.rows]
    assert [job.table["environment"]["obstacles"][0]["friction"] for job in jobs] == [0.1, 0.3]
    assert "friction" not in read.base["environment"]["obstacles"][0]  # the file's own tables stay
    assert jobs[0].files == {"body.stl": b"solid"}
    with pytest.raises(InputError, match=r"'obstacle' is not in the robot file; there is obstacles"):
        study(tmp_path, 'robot = "robot.toml"\n[vary]\n"environment.obstacle.0.friction" = [0.1]\n')


def test_goals_are_costs_and_the_front_is_what_none_beats():
    rows = [
        {"bend": 80.0, "mass": 9.0},
        {"bend": 90.5, "mass": 8.0},
        {"bend": 89.9, "mass": 12.0},
        {"bend": 60.0, "mass": 9.5},
    ]
    both = [goals.read_goal("target bend 90", PLACE), goals.read_goal("minimize mass", PLACE)]
    costs = np.array([[goal.cost(row) for goal in both] for row in rows])
    np.testing.assert_allclose(costs, [[10, 9], [0.5, 8], [0.1, 12], [30, 9.5]])
    able = np.ones(4, dtype=bool)
    assert goals.pareto(costs, able).tolist() == [False, True, True, False]
    assert goals.best(costs, able, both) == 1  # both are within 1 % of 90: the lighter one
    assert goals.best(costs[:, :1], able, both[:1]) == 2  # one goal alone: the nearest
    able[1] = False
    assert goals.pareto(costs, able).tolist() == [True, False, True, False]
    assert goals.best(costs, np.zeros(4, dtype=bool), both) is None
    assert goals.read_goal("maximize bend", PLACE).cost(rows[0]) == -80.0


def test_what_is_as_good_in_one_goal_and_worse_in_another_is_beaten():
    """Of two that are alike in all goals neither beats the other."""
    costs = np.array([[1.0, 2.0], [1.0, 3.0], [2.0, 2.0], [1.0, 2.0]])
    assert goals.pareto(costs, np.ones(4, dtype=bool)).tolist() == [True, False, False, True]


def test_every_choice_has_an_equal_share_and_a_range_is_even():
    choice, way = Axis("a", ("x", "y", "z", "w")), Axis("b", low=2.0, high=6.0)
    assert [choice.at(share) for share in (0.0, 0.24, 0.26, 0.49, 0.51, 0.76, 0.99)] == list("xxyyzww")
    assert [way.at(share) for share in (0.0, 0.25, 0.5)] == [2.0, 3.0, 4.0]


def test_a_study_needs_its_extra(monkeypatch):
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyarrow" else found(name))
    with pytest.raises(InputError, match=r"studies need pyarrow: pip install 'geosim\[study\]'"):
        geosim.sweep({})


def test_a_study_varies_the_height_of_every_chamber(tmp_path):
    given = {"chambers": 3, "wall_mm": [2.0, 1.5, 1.5]}
    vary = {"height_mm": [18.0, [18.0, 16.0, 14.0]]}
    study = read_study({"design": "pneunet", "material": "ecoflex-00-30-fang2022", "fixed": given, "vary": vary})
    plain, tapered = (study.job(row) for row in study.rows)
    assert plain.run != tapered.run
    assert tapered.parameters["height"] == (18e-3, 16e-3, 14e-3)
    write_problem(tapered, tmp_path)
    kept = read_toml(tmp_path / "robot.toml", "robot file")["design"]
    design = geosim.generate.make(kept["name"], **kept["parameters"])
    assert design.parameters["height"] == (18e-3, 16e-3, 14e-3)
    assert design.parameters["wall"] == (2e-3, 1.5e-3, 1.5e-3)
    assert design.body.bounds[1, 2] == pytest.approx(18e-3, rel=1e-6)
