"""A search that uses what one equilibrium knows besides its measures: derivatives by the dimensions, and bars of its mesh."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import optuna
import pytest
from apps.study.planted import solve_here

import geosim
from geosim import EnergyShapeSolver, Inflation, generate
from geosim.apps.study.job import CONFIRMED_ATTRIBUTE, SLOPES_ATTRIBUTE
from geosim.apps.study.optimizing import DesignSearch, costs
from geosim.apps.study.proposing import Proposer
from geosim.apps.study.runs import Runs
from geosim.apps.study.slopes import mesh_bars, slopes
from geosim.apps.study.solving import _moved, meshed, run, write_problem
from geosim.apps.study.study import read_study
from geosim.cli.study import summary
from geosim.errors import InputError
from geosim.files.robot import load_problem
from geosim.geometry.topology import tet_volumes
from geosim.response.accuracy.bars import bars_of
from geosim.response.derivatives.rest_shape import design_motion

FINGER = {"chambers": 1, "chamber_length": 12e-3}
NAMES = (
    "bend_angle_deg",
    "max_stretch",
    "max_von_mises_kpa",
    "mass_g",
    "size_z_mm",
    "tip_z_mm",
    "volume_mm3_1",
    "stretch_margin",
    "tets",
)
STUDY = {
    "design": "pneunet",
    "material": "ecoflex-00-30-fang2022",
    "fixed": {"chambers": 1, "chamber_length_mm": 12.0},
    "vary": {"wall_mm": {"from": 1.5, "to": 3.0}},
    "actuation": {"pressure_kpa": [3.0]},
    "mesh": {"max_edge_mm": 12.0},
    "solver": {"element": "p1"},
    "optimize": {"goals": ["target bend_angle_deg 2"], "constraints": ["mass_g <= 30"], "trials": 2, "confirm": 1},
}


@pytest.fixture(scope="module")
def solved():
    robot = generate.pneunet(**FINGER).robot("ecoflex-00-30-fang2022", max_edge=12e-3)
    return geosim.solve(robot, Inflation(pressure=[3e3]), solver=EnergyShapeSolver(element="p1"))


@pytest.mark.slow
def test_slopes_are_sensitivities_in_the_units_of_the_study(solved):
    found = slopes(solved, NAMES, {"wall_mm": ("wall", 1e-3), "base_mm": ("base", 1e-3)})
    assert found.keys() == {*NAMES} - {"tets"}
    for key, to in (("wall_mm", "design.wall"), ("base_mm", "design.base")):
        bend, stretch, tip = (
            geosim.sensitivity(solved, of, to).jacobian for of in ("bend_angle", "max_stretch", "tip")
        )
        assert found["bend_angle_deg"][key] == pytest.approx(1e-3 * np.degrees(bend), rel=1e-6)
        assert found["max_stretch"][key] == pytest.approx(1e-3 * stretch, rel=1e-6)
        assert found["tip_z_mm"][key] == pytest.approx(tip[2], rel=1e-6)
        assert found["stretch_margin"][key] == pytest.approx(-2e-3 * stretch / solved.max_stretch[-1] ** 2, rel=1e-6)
    motion, h = design_motion(solved.robot, "base"), 1e-6
    sides = [replace(solved.robot, vertices=solved.robot.vertices + d * motion) for d in (h, -h)]
    sizes = [
        np.ptp(geosim.solve(r, Inflation(pressure=[3e3]), solver=solved.solver).frames[-1][r.body_vertices], axis=0)
        for r in sides
    ]
    assert found["size_z_mm"]["base_mm"] == pytest.approx((sizes[0] - sizes[1])[2] / (2 * h), rel=1e-4)
    masses = []
    for wall in (2.01e-3, 1.99e-3):
        design = generate.pneunet(**FINGER, wall=wall)
        masses.append(1e6 * 1.070 * (design.body.volume - design.chambers[0].volume))
    assert found["mass_g"]["wall_mm"] == pytest.approx((masses[0] - masses[1]) / 0.02, rel=1e-5)
    assert slopes(solved, NAMES, {}) == {}


@pytest.mark.slow
def test_bars_of_a_study_are_error_bars_about_the_refined_value(solved):
    found = mesh_bars(solved, NAMES)
    for (name, factor), bars in zip(
        (("bend_angle_deg", np.degrees(1.0)), ("max_stretch", 1.0)), bars_of(solved, ("bend_angle", "max_stretch"))
    ):
        change, width = found[name]
        assert abs(change) + width == pytest.approx(factor * float(bars.mesh), rel=1e-6)
        assert abs(change) > 0.0
    assert "mass_g" not in found


@pytest.mark.slow
def test_the_search_is_given_derivatives_and_confirms_its_answer(tmp_path, monkeypatch):
    solve_here(monkeypatch)
    table = geosim.optimize(STUDY, workers=1, out=tmp_path / "out")
    assert (table["status"] == "CONVERGED").all(), table["message"].tolist()
    rows = [
        json.loads((tmp_path / "out" / "runs" / run / "row.json").read_text(encoding="utf-8")) for run in table["run"]
    ]
    assert all(set(row["slopes"]) == {"bend_angle_deg", "mass_g"} for row in rows)
    confirmed = table["bend_angle_deg confirmed"].notna()
    assert 1 <= confirmed.sum() <= 2
    best = json.loads((tmp_path / "out" / "best" / "row.json").read_text(encoding="utf-8"))["run"]
    last = table[table["run"] == best].iloc[0]
    assert last["bend_angle_deg +-"] > 0.0
    mine = geosim.load_result(tmp_path / "out" / "runs" / best / "result.npz")
    quadratic = geosim.solve(mine.robot, Inflation(pressure=[3e3]), mine.environment)
    change, width = mesh_bars(quadratic, ["bend_angle_deg"])["bend_angle_deg"]
    refined = np.degrees(quadratic.bend_angle[-1]) + change
    assert last["bend_angle_deg confirmed"] == pytest.approx(refined, rel=1e-6)
    assert last["bend_angle_deg +-"] == pytest.approx(width, rel=1e-4)
    assert abs(refined - last["bend_angle_deg"]) > width  # the linear one lies outside
    again = geosim.optimize(STUDY, workers=1, out=tmp_path / "out")
    assert again.equals(table)  # nothing is solved again


@pytest.fixture(scope="module")
def finger_search(tmp_path_factory):
    """A search that has a finger with one chamber or two, walls and heights in ranges."""
    folder = tmp_path_factory.mktemp("search")
    vary = {"chambers": [1, 2], "wall_mm": {"from": 1.5, "to": 2.5}, "height_mm": {"from": 16.0, "to": 20.0}}
    read = read_study({**STUDY, "fixed": {"chamber_length_mm": 12.0}, "vary": vary})
    return DesignSearch(read, Runs(folder, True, False), optuna.create_study())


def test_designs_of_a_search_lie_on_the_finest_of_some_meshes_moved_to_each(finger_search, tmp_path):
    """The same tets, and between surfaces of their own: their volume is that of the design, to the rounding of its files."""
    shapes = []
    for wall, height in ((1.6, 19.0), (2.4, 17.0)):
        job = finger_search.job({"chambers": 1, "wall_mm": wall, "height_mm": height})
        write_problem(job, tmp_path)
        robot = load_problem(tmp_path / "robot.toml", robot=_moved(job, shapes.append))[0]
        design = generate.pneunet(1, wall=1e-3 * wall, height=1e-3 * height, chamber_length=12e-3)
        volume = tet_volumes(robot.vertices, robot.body_tets).sum()
        assert volume == pytest.approx(design.body.volume - design.chambers[0].volume, rel=1e-6)
        assert robot.chamber_volumes[0] == pytest.approx(design.chambers[0].volume, rel=1e-6)
        assert robot.design.parameters == design.parameters
        assert robot.remesh is None  # it would mesh the base again
        shapes.append(robot)
    shapes = [one for one in shapes if not isinstance(one, str)]
    assert np.array_equal(shapes[0].tets, shapes[1].tets)
    base = finger_search.base({"chambers": 1})
    near = [(2.0, 18.0), (1.75, 18.0), (2.25, 18.0), (2.0, 17.0), (2.0, 19.0)]
    jobs = [finger_search.study.job({"chambers": 1, "wall_mm": wall, "height_mm": height}) for wall, height in near]
    counts = [len(meshed(job).body_tets) for job in jobs]
    assert len(set(counts)) > 1
    assert len(shapes[0].body_tets) == max(counts)
    assert json.dumps(dict(jobs[int(np.argmax(counts))].parameters)) == json.dumps(base)
    assert finger_search.base({"chambers": 2})["chambers"] == 2  # choices have meshes of their own
    resumed = DesignSearch(finger_search.study, finger_search.runs, finger_search.trials)
    assert json.dumps(resumed.base({"chambers": 1})) == json.dumps(base)


def test_a_design_that_no_mesh_can_be_moved_to_has_its_own(finger_search):
    said = []
    job = finger_search.job({"chambers": 1, "wall_mm": 2.0, "height_mm": 18.0})
    assert _moved(replace(job, base={**job.base, "chambers": 2}), said.append) is None
    assert "cannot be moved" in said[0]
    assert _moved(replace(job, mesh={**job.mesh, "accuracy": 0.1}), said.append) is None  # refined by itself
    assert finger_search.study.job({"chambers": 1, "wall_mm": 2.0, "height_mm": 18.0}).run != job.run


def test_designs_with_layers_have_meshes_of_their_own(tmp_path):
    """Their base would be meshed for every one of them in vain."""
    read = read_study({**STUDY, "fixed": {**STUDY["fixed"], "layer_mm": 0.1}})
    assert DesignSearch(read, Runs(tmp_path, True, False), optuna.create_study()).base({}) == {}


def doubled(wall=1e-3):
    """A design of one's own, whose wall is half of its generator's."""
    return generate.pneunet(1, wall=2.0 * wall, chamber_length=12e-3)


def test_a_design_of_ones_own_has_not_the_dimensions_of_a_generator(finger_search):
    """Its derivatives by `wall` would be half of what they are."""
    job = finger_search.study.job({"chambers": 1, "wall_mm": 2.0, "height_mm": 18.0})
    own = replace(job, design=f"{__name__}:doubled", parameters={"wall": 1.2e-3}, base={"wall": 1e-3})
    robot = _moved(own, lambda text: None)
    assert robot.design is None
    volume = doubled(1.2e-3).body.volume - doubled(1.2e-3).chambers[0].volume
    assert tet_volumes(robot.vertices, robot.body_tets).sum() == pytest.approx(volume, rel=1e-6)


def test_a_search_that_was_begun_without_a_common_mesh_goes_on_so(finger_search):
    trials = optuna.create_study()
    begun = DesignSearch(finger_search.study, finger_search.runs, trials)
    trials.tell(begun.asked()[0], 1.0)
    assert begun.base({"chambers": 1}) == {}


@pytest.mark.slow
def test_derivatives_are_those_between_designs_of_a_search(finger_search, tmp_path):
    """On meshes of their own the first is lost in what other tets change; the second leaves out how its gauge moves."""
    rows = []
    for i, wall in enumerate((1.99, 2.0, 2.01)):
        job = finger_search.job({"chambers": 1, "wall_mm": wall, "height_mm": 18.0})
        (tmp_path / str(i)).mkdir()
        run(replace(job, sloped=("max_von_mises_kpa", "tip_x_mm")), tmp_path / str(i))
        rows.append(json.loads((tmp_path / str(i) / "row.json").read_text(encoding="utf-8")))
    for name, within in (("tip_x_mm", 1e-4), ("max_von_mises_kpa", 0.1)):
        quotient = (rows[2]["measures"][name] - rows[0]["measures"][name]) / 0.02
        assert rows[1]["slopes"][name]["wall_mm"] == pytest.approx(quotient, rel=within)


@pytest.mark.slow
def test_an_answer_that_cannot_be_confirmed_says_why(tmp_path, monkeypatch):
    solve_here(monkeypatch)

    def refused(*_):
        raise InputError("too large to refine")

    monkeypatch.setattr("geosim.apps.study.solving.mesh_bars", refused)
    table = geosim.optimize(STUDY, workers=1, out=tmp_path / "out")
    said = table["not confirmed"].dropna()
    assert said.tolist() == ["too large to refine"]
    assert table.loc[said.index[0], "pareto"]
    assert "bend_angle_deg +-" not in table
    assert "too large to refine" in "\n".join(summary(table))


def search(tmp_path, answer, seed, count):
    """The costs that a search with a stand-in for solves finds, design by design."""
    vary = {"wall_mm": {"from": 1.0, "to": 3.0}, "height_mm": {"from": 12.0, "to": 24.0}}
    optimize = {"goals": ["target bend_angle_deg 30"], "constraints": []}
    read = read_study({**STUDY, "vary": vary, "fixed": {"chambers": 2}, "optimize": optimize})
    trials = optuna.create_study(sampler=Proposer(read.axes, read.goals, (), seed), directions=["minimize"])
    found, reached = DesignSearch(read, Runs(tmp_path / f"none-{seed}", True, False), trials), []
    for _ in range(count):
        number, row = found.asked()
        run = {"run": str(number), "status": "CONVERGED", "message": "", **answer(row)}
        found.tell(number, run)
        reached.append(costs(read, [run])[0][0, 0])
    return reached, trials


@pytest.mark.slow
def test_derivatives_save_designs(tmp_path):
    """The same measure with and without: six designs with derivatives come nearer than ten without."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def bend(row):
        w, h = row["wall_mm"], row["height_mm"]
        value = 40.0 / w**1.5 + 0.2 * (h - 12.0) ** 1.5 / w
        slope = {"wall_mm": -60.0 / w**2.5 - 0.2 * (h - 12.0) ** 1.5 / w**2, "height_mm": 0.3 * (h - 12.0) ** 0.5 / w}
        return {"measures": {"bend_angle_deg": value}, "slopes": {"bend_angle_deg": slope}}

    blind = lambda row: {"measures": bend(row)["measures"]}  # noqa: E731
    with_slopes = [min(search(tmp_path, bend, seed, 6)[0]) for seed in range(4)]
    without = [min(search(tmp_path, blind, seed, 10)[0]) for seed in range(4)]
    assert np.median(with_slopes) < np.median(without)
    assert np.median(with_slopes) < 0.3
    _, trials = search(tmp_path, bend, 5, 1)
    assert SLOPES_ATTRIBUTE in trials.trials[0].user_attrs


def test_what_a_refined_mesh_changed_is_learned(tmp_path):
    """Meshes that read 5 degrees too little: the search aims at 25 on them once it was told."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    answer = lambda row: {"measures": {"bend_angle_deg": 60.0 / row["wall_mm"] + row["height_mm"] - 18.0}}  # noqa: E731
    reached, trials = search(tmp_path, answer, 0, 10)
    assert min(reached) < 1.0
    trials.set_user_attr(CONFIRMED_ATTRIBUTE, json.dumps({"x": {"bend_angle_deg": [5.0, 1.0]}}))
    row = {}
    trial = trials.ask()
    for key, (low, high) in {"wall_mm": (1.0, 3.0), "height_mm": (12.0, 24.0)}.items():
        row[key] = trial.suggest_float(key, low, high)
    assert answer(row)["measures"]["bend_angle_deg"] == pytest.approx(25.0, abs=2.0)
