"""Conditioning on a light test: against closed forms, on robots that the model has and has not."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from shapes import shell

import geosim
from geosim.apps.condition import ModelError, PlainResponse, Posterior, averaged, read_rows, read_unknowns
from geosim.apps.condition.discrepancy import Held, Reach
from geosim.apps.condition.response import FittedResponse, fitted_curve
from geosim.apps.condition.sampling import sample
from geosim.apps.condition.unknowns import as_unknowns

UNKNOWNS = {"gain": stats.norm(2.0, 0.5), "bend": (0.0, 0.2)}
EXACT = ModelError(size=1e-4, spread=0.01, reading=0.01, reading_spread=0.01)


def cubic(unknowns, loads, measure):
    """A measure that stiffens with the load; another in proportion to it."""
    x = loads[:, 0]
    gain = unknowns["gain"][:, None]
    return gain * x if measure == "force" else gain * x + unknowns["bend"][:, None] * x**2


def rows(gain=2.3, bend=0.1, at=(1.0, 2.0, 3.0)):
    """A test without noise, of both measures."""
    truth = {"gain": np.array([gain]), "bend": np.array([bend])}
    loads = np.column_stack([at, np.zeros(len(at))])
    return [(x, m, v) for m in ("angle", "force") for x, v in zip(at, cubic(truth, loads, m)[0])]


def test_sampling_finds_the_posterior_and_the_evidence_of_a_normal():
    """Prior N(0, 1), reading 1.5 of deviation 0.5: mean 1.2, variance 0.2, evidence N(1.5; 0, 1.25)."""
    rng = np.random.default_rng(1)
    found = sample(lambda z: stats.norm(z[:, 0], 0.5).logpdf(1.5), 2, 4000, rng)
    assert found.z[:, 0].mean() == pytest.approx(1.2, abs=0.05)
    assert found.z[:, 0].var() == pytest.approx(0.2, rel=0.15)
    assert found.z[:, 1].var() == pytest.approx(1.0, rel=0.15)  # what was not measured stays as it was
    assert found.evidence == pytest.approx(stats.norm(0.0, np.sqrt(1.25)).logpdf(1.5), abs=0.1)
    assert found.effective > 2000


def test_sampling_keeps_both_peaks():
    """A likelihood of z^2 has two peaks of one weight."""
    found = sample(lambda z: -0.5 * ((z[:, 0] ** 2 - 1.0) / 0.05) ** 2, 1, 2000, np.random.default_rng(0))
    assert 0.4 < (found.z[:, 0] > 0.0).mean() < 0.6


def test_the_discrepancy_is_a_gaussian_process_that_grows_beyond_the_test():
    """Held by one exact reading it passes through it; its deviation beyond is that of the formula."""
    loads = np.array([[1.0, 0.0], [2.0, 0.0]])
    reach = Reach(1.0, False, False, 1.0)
    still, none = np.array([[1e-12]]), np.zeros((1, 2))
    held = Held.by(reach, loads[:1], np.array([[0.1]]), np.ones((1, 1)), np.array([0.5]), still, none[:, :1])
    mean, covariance = held.beyond(loads, none)
    k11, k12, k22 = 0.25 + 1 + 1 / 3, 0.25 + 1 + 5 / 6, 0.25 + 2 + 8 / 3
    assert mean[0] == pytest.approx([0.1, 0.1 * k12 / k11])
    assert covariance[0, 0, 0] == pytest.approx(0.0, abs=1e-8)
    assert covariance[0, 1, 1] == pytest.approx(0.25 * (k22 - k12**2 / k11))
    density = stats.multivariate_normal(0.0, 0.25 * k11).logpdf(0.1)
    assert held.density[0] == pytest.approx(density)


def test_points_of_one_curve_count_as_correlated():
    """Forty points in place of four narrow the gain by less than a root of ten: a constant share of the error stays."""
    known = ModelError(size=0.05, spread=0.01, reading=0.02, reading_spread=0.01)
    few, many = (
        geosim.condition(cubic, [r for r in rows(at=at) if r[1] == "force"], UNKNOWNS, draws=400, error=known)
        for at in (np.linspace(0.5, 3.0, n) for n in (4, 40))
    )
    assert few.draws["gain"].std() / many.draws["gain"].std() < 1.6
    assert many.draws["gain"].std() > 0.5 * 0.05 * 2.3  # of the constant share


def test_a_mesh_that_is_off_by_a_share_is_held_by_the_test():
    """Without rows of a measure its mesh counts in full; with them what is left is less than a third."""
    model = PlainResponse(cubic, mesh_share=0.2)
    seen = geosim.condition(model, rows(), UNKNOWNS, draws=400, error=EXACT)
    unseen = geosim.condition(model, [r for r in rows() if r[1] == "force"], UNKNOWNS, draws=400, error=EXACT)
    known, open_ = (p.predict("angle", [6.0]) for p in (seen, unseen))
    assert open_.mesh[0] == pytest.approx(0.2 * open_.value[0], rel=0.2)
    assert known.half_width[0] < 0.7 * open_.half_width[0]


def test_a_test_narrows_the_bar_and_the_truth_is_inside():
    light, truth = geosim.condition(cubic, rows(), UNKNOWNS, draws=600), 2.3 * 6.0 + 0.1 * 36.0
    found = light.predict("angle", [6.0])
    assert found.low[0] < truth < found.high[0]
    assert found.half_width[0] < 0.25 * truth
    assert light.in_class
    assert "in the model class" in light.verdict
    apart = np.sqrt(found.parameter**2 + found.discrepancy**2 + found.mesh**2)
    assert apart == pytest.approx(found.half_width, rel=0.05)
    # nine tenths of a hundred: less is reached by more
    assert light.reached("angle", [6.0], 0.95)[0] < light.reached("angle", [6.0], 0.5)[0]
    low, middle, high = light.load_for("angle", truth, np.linspace(3.0, 9.0, 13))
    assert low < 6.0 < high
    assert middle == pytest.approx(6.0, rel=0.05)


def test_a_robot_of_another_class_is_named_with_the_measure_that_shows_it():
    """An angle that saturates, beside a force that rises."""
    wrong = [(x, m, v if m == "force" else 3.0 * np.tanh(x)) for x, m, v in rows()]
    found = geosim.condition(cubic, wrong, {"gain": stats.norm(2.0, 0.1), "bend": (0.0, 0.2)}, draws=400)
    assert not found.in_class
    assert "not in the model class: angle" in found.verdict


def test_the_next_test_is_the_one_that_says_something():
    found = geosim.condition(cubic, [r for r in rows() if r[1] == "force"], UNKNOWNS, draws=600)
    best, *_, last = found.next_test([("angle", 3.0), ("angle", 0.5), ("force", 3.0)], of=("angle", 6.0))
    assert (best.measure, best.load[0]) == ("angle", 3.0)
    assert best.narrowing < 0.7
    assert last.measure == "force"


def test_models_are_weighted_by_evidence_or_by_what_was_left_out():
    right = geosim.condition(cubic, rows(), UNKNOWNS, draws=300)
    wrong = geosim.condition(lambda q, x, m: np.sqrt(np.abs(cubic(q, x, m))), rows(), UNKNOWNS, draws=300)
    assert averaged({"right": right, "wrong": wrong})["right"] > 0.95
    assert averaged({"a": right, "b": wrong}, {"a": 0.0, "b": np.log(3.0)})["b"] == pytest.approx(0.75)


def fitted(off=0.0, error=EXACT):
    """Polynomials of the measures to a load of 6, those of the angle off by a share, conditioned on `rows()`."""
    unknowns = as_unknowns(UNKNOWNS)
    s = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    loads = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [6.0, 0.0]])
    curves = {m: fitted_curve(s, loads, cubic(unknowns.at_box(s), loads, m), m) for m in ("angle", "force")}
    curves["angle"] = replace(curves["angle"], left=np.full(len(loads), off))
    response = FittedResponse(curves, {}, {}, (0, 1))
    return geosim.condition(response, rows(), UNKNOWNS, draws=600, error=error)


def test_the_error_of_the_fit_counts_once_and_adds_by_squares():
    """Of a measure that was not read, 5 % beside a modulus that the other measure knows to 2 %."""
    test = [r for r in rows() if r[1] == "force"]
    bars = []
    for off in (0.0, 0.05):
        response = fitted(off).model.response
        found = geosim.condition(response, test, UNKNOWNS, draws=2000, error=EXACT).predict("angle", [3.0])
        assert found.mesh == pytest.approx(1.96 * off * found.value, rel=0.02, abs=1e-9)
        bars.append(found.half_width[0])
    assert bars[1] == pytest.approx(np.hypot(bars[0], 1.96 * 0.05 * found.value[0]), rel=0.1)


def test_readings_of_a_larger_series_are_off_by_a_share_of_its_largest_change():
    """A gauge of 1 %: of the test's change where less is asked, else of what is asked."""
    found = geosim.condition(
        cubic, rows(), {"gain": stats.norm(2.3, 1e-4), "bend": (0.1, 0.1001)}, draws=2000, error=EXACT
    )
    for loads, largest in (([1.0], 2.3 * 3.0), ([30.0], 2.3 * 30.0), ([1.0, 30.0], 2.3 * 30.0)):
        bar = found.predict("force", loads)
        assert bar.half_width[0] == pytest.approx(1.96 * 0.01 * largest, rel=0.1)


def test_the_mesh_of_a_component_is_a_share_of_its_own_change():
    """A component that is a twentieth of the vector's length: 10 % of the mesh is of the component."""

    def tip(unknowns, loads, measure):
        return (0.05 if measure == "tip_x_mm" else 1.0) * unknowns["gain"][:, None] * loads[:, 0]

    test = [(x, "tip_z_mm", 2.0 * x) for x in (1.0, 2.0, 3.0)] + [(3.0, "tip_x_mm", 0.3)]
    model = PlainResponse(tip, mesh_share=0.1)
    found = geosim.condition(model, test, {"gain": stats.norm(2.0, 0.01)}, draws=400, error=EXACT)
    assert found.predict("tip_x_mm", [6.0]).mesh[0] < 1.05 * 0.1 * 0.6
    held = found.model.held(found.z, "tip_x_mm")
    assert held.mesh == pytest.approx(0.1 / 1.96 * 0.05, rel=0.01)  # over the length of the vector


def test_an_error_of_the_load_ends_where_the_response_does():
    """At the last solved load the response is not asked beyond it, and the bar has both ends."""
    found = fitted(error=ModelError(size=0.03, reading=0.01, of="load")).predict("angle", [6.0])
    truth = 2.3 * 6.0 + 0.1 * 36.0
    assert found.low[0] < truth < found.high[0]
    assert found.high[0] - found.value[0] == pytest.approx(found.value[0] - found.low[0], rel=0.4)


def test_a_posterior_is_the_material_of_error_bars():
    """Under a prescribed volume pressures are in proportion to the moduli: so are their bars, of a factor and of a constant."""
    vertices, tets, regions = shell(0.01, 0.02, 1, 1)
    soft = geosim.NeoHookean(50e3)
    robot = geosim.VolumetricRobot.from_tets(vertices, tets, regions, material=soft, fixed=None)
    result = geosim.solve(robot, geosim.Inflation(volume_ratio=1.2), solver=geosim.EnergyShapeSolver(element="p1"))
    for name, scale in (("modulus", 1.0), ("material.mu", 50e3)):

        def pressure(unknowns, loads, measure, name=name, scale=scale):
            return unknowns[name][:, None] / scale * loads[:, 0]

        test = [(x, "pressure", x) for x in (1.0, 2.0, 3.0)]
        prior = {name: stats.norm(scale, 0.2 * scale)}
        found = geosim.condition(pressure, test, prior, draws=400, error=ModelError(size=0.03, spread=0.01))
        low, middle, high = found.interval(name)
        if name == "material.mu":  # the bar is of a robot that has the fitted constant
            stiff = robot.with_materials(geosim.NeoHookean(middle))
            result = geosim.solve(
                stiff, geosim.Inflation(volume_ratio=1.2), solver=geosim.EnergyShapeSolver(element="p1")
            )
        bars = geosim.error_bars(result, of="chamber_pressures", material=found)
        assert bars.material / bars.value == pytest.approx(0.5 * (high - low) / middle, rel=1e-4)


def test_ratios_are_what_the_robot_does_over_its_design(tmp_path):
    """The gain is 2 as drawn and 2.3 as cast: ratios about 1.15, both measures of a draw with one gain."""
    found = geosim.condition(cubic, rows(), UNKNOWNS, draws=600, error=EXACT)
    ratios = found.ratios({"force": 6.0, "angle": 6.0})
    assert ratios["force"].median() == pytest.approx(1.15, rel=0.01)
    assert ratios["angle"].median() == pytest.approx((2.3 * 6.0 + 0.1 * 36.0) / (2.0 * 6.0 + 0.1 * 36.0), rel=0.02)
    with pytest.raises(geosim.InputError, match="force at 0 is not of one sign"):
        found.ratios({"force": 0.0})


def test_a_fitted_response_says_what_left_out_samples_are_off():
    unknowns = as_unknowns({"gain": (1.0, 3.0), "bend": (0.0, 0.2)})
    s = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    loads = np.array([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0]])
    values = cubic(unknowns.at_box(s), loads, "angle")
    curve = fitted_curve(s, loads, values, "angle")
    assert curve.left.max() < 1e-3
    rough = fitted_curve(s, loads, values * (1.0 + 0.1 * np.random.default_rng(1).standard_normal((60, 1))), "angle")
    assert 0.05 < rough.left[1] < 0.2
    response = FittedResponse({"angle": curve}, {}, {}, (0, 1))
    z = np.random.default_rng(2).standard_normal((5, 2))
    exact = cubic(unknowns.values(np.clip(z, -2.8, 2.8)), loads, "angle")
    assert response(unknowns, np.clip(z, -2.8, 2.8), loads, "angle") == pytest.approx(exact, rel=1e-2)


def test_a_posterior_is_kept(tmp_path):
    found = fitted()
    again = Posterior.load(found.save(tmp_path / "posterior.npz"))
    assert again.predict("angle", [6.0]).high == pytest.approx(found.predict("angle", [6.0]).high)
    assert again.verdict == found.verdict
    assert list(found.table(20).columns) == ["gain", "bend"]
    assert found.plot(tmp_path / "pairs.png").stat().st_size > 1000
    (tmp_path / "posterior.npz").write_bytes(b"no")
    with pytest.raises(geosim.InputError, match="not a readable posterior file"):
        Posterior.load(tmp_path / "posterior.npz")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tests": [(1.0, "angle")]}, r"row 1: .* is not \(load, measure, value\)"),
        ({"tests": [(1.0, "angle", "much")]}, "value = 'much' is no number"),
        ({"tests": []}, "no row"),
        ({"unknowns": {}}, "must name at least one"),
        ({"unknowns": {"gain": (2.0, 1.0)}}, r"unknown gain = \(2, 1\) must go from"),
        ({"model": 3.0}, "no VolumetricRobot"),
    ],
)
def test_what_cannot_be_is_said(change, message):
    given = {"model": cubic, "tests": rows(), "unknowns": UNKNOWNS} | change
    with pytest.raises(geosim.InputError, match=message):
        geosim.condition(given["model"], given["tests"], given["unknowns"])


def test_a_file_of_a_test(tmp_path):
    path = tmp_path / "test.csv"
    path.write_text("robot,load_1,load_2,measure,unit,value\nfinger,5,,bend_angle_deg,deg,4.2\n")
    assert read_rows(path).robot == "finger"
    path.write_text("load_1,value\n5,4.2\n")
    with pytest.raises(geosim.InputError, match="column measure is missing"):
        read_rows(path)
    assert read_unknowns("wall_mm=1.5:2.2,modulus=0.7:1.4") == {"wall_mm": (1.5, 2.2), "modulus": (0.7, 1.4)}
    with pytest.raises(geosim.InputError, match="write NAME=LOW:HIGH"):
        read_unknowns("wall_mm=2")


@pytest.mark.slow
def test_finite_elements_from_a_file_to_the_next_test(tmp_path):
    """A finger of known modulus: it is found, and the angle at twice the pressure is inside its bar."""
    folder = tmp_path / "finger"
    geosim.generate.pneunet(chambers=2).save(folder, material="dragon-skin-20-fang2022")
    text = (folder / "robot.toml").read_text().replace("# max_edge = 8", "max_edge = 8")
    (folder / "robot.toml").write_text(text + '\n[solver]\nelement = "p1"\n')
    robot, _, _, solver = geosim.load_case(folder / "robot.toml")
    pressures = np.array([4.0, 8.0, 16.0])
    stiff = {r: m.stiffened(1.2) for r, m in robot.materials.items()}
    truth = geosim.solve(replace(robot, materials=stiff), geosim.Inflation(pressure=1e3 * pressures), solver=solver)
    angles = np.degrees(truth.bend_angle)
    test = tmp_path / "test.csv"
    lines = [f"{p:g},bend_angle_deg,{a:.4f}" for p, a in zip(pressures[:2], angles)]
    test.write_text("load_1,measure,value\n" + "\n".join(lines) + "\n")
    command = [sys.executable, "-m", "geosim", "condition", str(folder / "robot.toml"), str(test)]
    options = [
        "--unknowns",
        "modulus=0.7:1.6",
        "--at",
        "16",
        "--solves",
        "6",
        "--draws",
        "300",
        "--out",
        str(tmp_path / "out"),
    ]
    said = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert "in the model class" in said.stdout
    assert "next test: bend_angle_deg" in said.stdout
    found = Posterior.load(tmp_path / "out" / "posterior.npz")
    bar = found.predict("bend_angle_deg", [16.0])
    assert bar.low[0] < angles[-1] < bar.high[0]
    low, middle, high = found.interval("modulus")
    assert low < 1.2 < high
    assert middle == pytest.approx(1.2, rel=0.1)
    assert "not.a.measure" not in said.stdout


def test_a_test_that_never_ends_is_refused():
    """A device of zeros would fill the memory."""
    with pytest.raises(geosim.InputError, match="a pipe or a device"):
        read_rows("/dev/zero")
