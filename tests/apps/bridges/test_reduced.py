"""Reduced models answer within their bound, say where they know nothing, and agree with themselves in every form."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

import geosim
from geosim import EnergyShapeSolver, Environment, Goal, ReducedModel, generate
from geosim.apps.bridges.chaos import fitted, highest_degree, total_degree
from geosim.cli import main
from geosim.cli.reducing import controls

QUICK = EnergyShapeSolver(element="p1", check_stability=False)


def test_a_polynomial_is_found_from_values_and_derivatives():
    """Of degree 4 in two variables, from fewer samples than it has terms; the derivatives of the fit are its own."""
    rng = np.random.default_rng(0)
    powers = total_degree(2, 4)
    assert len(powers) == 15
    weights = rng.standard_normal((15, 2))
    s = rng.uniform(-1.0, 1.0, (10, 2))

    def value(s):
        return np.prod(s[:, None] ** powers, axis=2) @ weights

    def slope(s):
        out = []
        for j in range(2):
            lower = powers - np.eye(2, dtype=int)[j]
            out.append((powers[:, j] * np.prod(s[:, None] ** np.maximum(lower, 0), axis=2)) @ weights)
        return np.stack(out, axis=1)

    assert highest_degree(10, 2) >= 4
    fit = fitted(s, value(s), slope(s), 4)
    new = rng.uniform(-1.0, 1.0, (50, 2))
    np.testing.assert_allclose(fit(new), value(new), atol=1e-10)
    np.testing.assert_allclose(np.swapaxes(fit.jacobian(new), 1, 2), slope(new), atol=1e-9)


@pytest.mark.slow
def test_fresh_equilibria_are_within_the_bound(finger, model):
    """95 % of the box with 95 % confidence: of 12 draws, one outside at most."""
    assert model.bounds["tip"] <= 0.01 * model.motion
    missed = {"tip": 0, "shape": 0, "bend_angle": 0}
    for tension in np.random.default_rng(7).uniform(0.02, 0.12, 12):
        said = model([tension])
        result = geosim.solve(finger, said.model.actuation([tension]), solver=QUICK)
        off = np.linalg.norm(said.positions - result.frames[-1], axis=1)[finger.body_vertices].max()
        missed["shape"] += off > said.bounds["shape"]
        missed["tip"] += np.linalg.norm(said.tip - result.tip[-1]) > said.bounds["tip"]
        missed["bend_angle"] += abs(said.bend_angle - result.bend_angle[-1]) > said.bounds["bend_angle"]
    assert max(missed.values()) <= 1, missed


@pytest.mark.slow
def test_slopes_are_those_of_the_equilibrium(finger, model):
    result = geosim.solve(finger, geosim.CableTensions([[0.07]]), solver=QUICK)
    exact = geosim.sensitivity(result, "tip", "cable").jacobian
    np.testing.assert_allclose(model.jacobian("tip", [0.07]), exact, atol=0.02 * np.abs(exact).max())
    h = 1e-6
    bend = (model([0.07 + h]).bend_angle - model([0.07 - h]).bend_angle) / (2.0 * h)
    np.testing.assert_allclose(model.jacobian("bend_angle", [0.07]), [[bend]], rtol=1e-6)


@pytest.mark.slow
def test_outside_of_the_box_nothing_is_said(model):
    for wrong in ([0.13], [0.0], [np.nan]):
        with pytest.raises(geosim.InputError, match="outside of"):
            model(wrong)
    with pytest.raises(geosim.InputError, match="has 1"):
        model([0.1, 0.1])
    with pytest.raises(geosim.InputError, match="obstacle_forces"):
        model.solve_for(Goal.force(0, 1.0))


@pytest.mark.slow
def test_goals_and_markers_lead_back_to_the_controls(finger, model):
    for wanted in (0.03, 0.1):
        there = model([wanted])
        assert model.solve_for(Goal.tip(there.tip)).controls == pytest.approx([wanted], rel=1e-4)
        found = model.solve_for(Goal.bend_angle(there.bend_angle), start=[0.05])
        assert found.reached
        assert found.controls == pytest.approx([wanted], rel=1e-3)
        markers = there.positions[finger.tip] + 1e-5 * np.random.default_rng(0).standard_normal((len(finger.tip), 3))
        markers[0] = np.nan  # hidden
        assert model.estimate(markers, finger.tip, noise=1e-5).controls == pytest.approx([wanted], rel=0.02)
    far = model.solve_for(Goal.tip([0.0, 0.0, 0.0]))
    assert not far.reached
    assert far.controls[0] in (pytest.approx(0.02), pytest.approx(0.12, rel=1e-6))


@pytest.mark.slow
def test_what_was_known_before_counts_by_its_deviation(finger, model):
    """Markers of no worth leave the state where it was."""
    markers = model([0.1]).positions[finger.tip]
    assert model.estimate(markers, finger.tip, noise=1.0, before=[0.03]).controls == pytest.approx([0.03], rel=1e-3)
    assert model.estimate(markers, finger.tip, noise=1e-6, before=[0.03]).controls == pytest.approx([0.1], rel=1e-3)


@pytest.mark.slow
def test_a_file_gives_the_model_back(model, tmp_path):
    again = ReducedModel.load(model.save(tmp_path / "model.npz"))
    np.testing.assert_array_equal(again([0.05]).positions, model([0.05]).positions)
    assert again.bounds == model.bounds
    (tmp_path / "wrong.npz").write_bytes(b"nothing")
    with pytest.raises(geosim.InputError, match="not a readable reduced model"):
        ReducedModel.load(tmp_path / "wrong.npz")


@pytest.mark.slow
def test_onnx_says_the_same(model, tmp_path):
    pytest.importorskip("onnx", reason="onnx is not installed: pip install '.[onnx]'")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install '.[onnx]'")
    session = runtime.InferenceSession(str(model.save(tmp_path / "model.onnx")))
    names = [out.name for out in session.get_outputs()]
    said = dict(zip(names, session.run(None, {"controls": np.array([0.05])})))
    own = model([0.05])
    np.testing.assert_allclose(said["positions"], own.positions, atol=1e-12)
    np.testing.assert_allclose(said["tip"], own.tip, atol=1e-12)
    assert said["bend_angle"] == pytest.approx(own.bend_angle, rel=1e-9)
    assert said["inside"]
    assert not session.run(["inside"], {"controls": np.array([0.5])})[0]


def test_what_cannot_be_reduced_is_refused(finger):
    with pytest.raises(geosim.InputError, match="this robot has none"):
        geosim.reduce(finger, (0.0, 1.0), "pressure")
    with pytest.raises(geosim.InputError, match="must rise"):
        geosim.reduce(finger, (1.0, 0.0), "cable_tension")
    with pytest.raises(geosim.InputError, match="remember their history"):
        geosim.reduce(finger, (0.0, 1.0), "cable_tension", Environment(self_friction=0.5))


@pytest.mark.slow
def test_a_loop_over_the_mesh_and_over_the_model_agree(finger, model):
    """A supply with a lag: both follow u + (1 - exp(-dt / T)) (command - u)."""
    mesh, quick = QUICK.live(finger, vary="cable_tension", lag=0.1), model.live(lag=0.1)
    quick.controls = mesh.controls = np.array([0.03])
    for command in (0.1, 0.1, 0.05, 0.02):
        exact, said = mesh.step(command, 0.05), quick.step([command], 0.05)
        assert exact.converged
        assert np.linalg.norm(exact.tip[-1] - said.tip) <= 1.5 * model.bounds["tip"]
    expected = 0.03
    for command in (0.1, 0.1, 0.05, 0.02):
        expected += (1.0 - np.exp(-0.5)) * (command - expected)
    assert quick.controls == pytest.approx([expected])
    assert quick.time == pytest.approx(0.2)
    quick.step([0.5], 0.05)
    assert quick.saturated
    with pytest.raises(geosim.InputError, match=r"live\.step: command"):
        quick.step([0.1, 0.2], 0.05)


def test_a_step_ends_with_its_budget_and_the_next_one_goes_on(finger):
    mesh = EnergyShapeSolver(element="p1", check_stability=False, max_factorisations=4).live(
        finger, vary="cable_tension"
    )
    results = [mesh.step(0.5, 0.02) for _ in range(12)]
    assert results[0].status is geosim.Status.STOPPED
    assert results[-1].converged


@pytest.mark.slow
def test_the_command_line_reduces_and_exports(tmp_path):
    generate.tendon_finger(joints=1, length=40e-3).save(tmp_path, material="ecoflex-00-30-fang2022")
    text = (
        (tmp_path / "robot.toml")
        .read_text(encoding="utf-8")
        .replace('material = "ecoflex-00-30-fang2022"', 'material = "ecoflex-00-30-fang2022"\nmax_edge = 20')
    )
    (tmp_path / "robot.toml").write_text(text + '\n[solver]\nelement = "p1"\ncheck_stability = false\n')
    robot, out = str(tmp_path / "robot.toml"), str(tmp_path / "model.npz")
    done = CliRunner().invoke(main, ["reduce", robot, "--controls", "cable_tension_n=0.04:0.06", "--out", out])
    assert done.exit_code == 0, done.output
    assert "% of its largest way" in done.output
    assert ReducedModel.load(out).box.tolist() == [[0.04, 0.06]]
    for wrong, said in (("force=0:1", "name one of"), ("pressure_kpa=0", "least and the largest")):
        assert CliRunner().invoke(main, ["reduce", robot, "--controls", wrong, "--out", out]).exit_code == 1
        with pytest.raises(geosim.InputError, match=said):
            controls(wrong)
