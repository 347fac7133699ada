"""Processes through values and gradients, surrogates of a study, and the page that computes with them."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas
import pytest
from apps.study.planted import BAR, solve_here
from click.testing import CliRunner

import geosim
from geosim.apps.study.processes import _kernel, fitted
from geosim.apps.study.study import read_study
from geosim.apps.study.surrogate import Surrogate, VariedDimension, learned, surrogate
from geosim.cli import main
from geosim.errors import InputError


def wave(x):
    return np.sin(3 * x[:, 0]) + x[:, 1] ** 2 * x[:, 0]


def wave_slope(x):
    return np.stack([3 * np.cos(3 * x[:, 0]) + x[:, 1] ** 2, 2 * x[:, 1] * x[:, 0]], axis=1)


def test_the_kernel_of_gradients_is_the_gradient_of_the_kernel():
    random = np.random.default_rng(0)
    x, y, lengths, h = random.random((2, 3)), random.random((4, 3)), np.array([0.5, 0.9, 2.0]), 1e-5
    whole = _kernel(x, y, lengths, gradients=(True, True))
    values = lambda x, y: _kernel(x, y, lengths, gradients=(False, False))  # noqa: E731
    np.testing.assert_array_equal(whole[:2, :4], values(x, y))
    for i, e in enumerate(h * np.eye(3)):
        slope = (values(x + e, y) - values(x - e, y)) / (2 * h)
        np.testing.assert_allclose(whole[2:].reshape(2, 3, -1)[:, i, :4], slope, atol=1e-8)
        for j, d in enumerate(h * np.eye(3)):
            mixed = values(x + e, y + d) - values(x - e, y + d) - values(x + e, y - d) + values(x - e, y - d)
            found = whole[2:].reshape(2, 3, -1)[:, i, 4:].reshape(2, 4, 3)[:, :, j]
            np.testing.assert_allclose(found, mixed / (4 * h * h), atol=1e-5)
    np.testing.assert_allclose(
        _kernel(x, x, lengths, gradients=(True, True)), _kernel(x, x, lengths, gradients=(True, True)).T
    )


@pytest.mark.parametrize("with_gradients", [False, True])
def test_a_process_goes_through_what_it_saw_and_its_slope_is_its_own(with_gradients):
    random = np.random.default_rng(1)
    x, t = random.random((12, 2)), random.random((50, 2))
    process = fitted(x, wave(x), wave_slope(x) if with_gradients else None)
    np.testing.assert_allclose(process(x)[0], wave(x), atol=2e-2)
    slopes = [(process(t + h)[0] - process(t - h)[0]) / 2e-5 for h in 1e-5 * np.eye(2)]
    np.testing.assert_allclose(process.slope(t), np.stack(slopes, axis=1), atol=1e-4)
    if with_gradients:
        np.testing.assert_allclose(process.slope(x), wave_slope(x), atol=0.1)
        four = fitted(x[:5], wave(x[:5]), wave_slope(x[:5]))
        blind = fitted(x[:5], wave(x[:5]))
        error = [np.sqrt(np.mean((p(t)[0] - wave(t)) ** 2)) for p in (four, blind)]
        assert error[0] < 0.7 * error[1]


@pytest.fixture(scope="module")
def table():
    random = np.random.default_rng(0)
    out = pandas.DataFrame(
        {
            "wall_mm": 1.0 + 2.0 * random.random(25),
            "chambers": random.integers(4, 9, 25),
            "material": random.choice(["a", "b"], 25),
            "status": ["CONVERGED"] * 24 + ["TIMEOUT"],
        }
    )
    out["bend"] = 90.0 / out.wall_mm + 3.0 * out.chambers + 5.0 * (out.material == "b")
    out.loc[24, "bend"] = np.nan
    return out


def test_a_surrogate_is_callable_with_gradient_and_bars_and_does_not_extrapolate(table, tmp_path):
    learned(table, ["wall_mm", "chambers", "material"], ["bend"]).save(tmp_path / "surrogate.npz")
    found = surrogate(tmp_path)
    assert isinstance(found, Surrogate)
    design = {"wall_mm": 2.0, "chambers": 6, "material": "b"}
    value, low, high = found(design)
    assert low < 68.0 < high
    assert value == pytest.approx(68.0, abs=0.5)
    slope = found.gradient(design)
    assert slope.keys() == {"wall_mm", "chambers"}
    assert slope["wall_mm"] == pytest.approx(-22.5, rel=0.1)
    for changed, wanted in (
        ({"wall_mm": 3.5}, r"wall_mm = 3\.5 is outside of what was solved"),
        ({"chambers": 5.5}, "must be a whole number"),
        ({"material": "c"}, "material = 'c' was not solved"),
        ({"wal_mm": 2.0}, "did you mean 'wall_mm'"),
        ({"wall_mm": np.nan}, "must be a number"),
    ):
        with pytest.raises(InputError, match=wanted):
            found({**design, **changed})
    with pytest.raises(InputError, match="measure"):
        found(design, "mass")
    with pytest.raises(InputError, match=r"does not exist"):
        surrogate(tmp_path / "none")
    (tmp_path / "surrogate.npz").write_bytes(b"zip")
    with pytest.raises(InputError, match="not a readable surrogate"):
        surrogate(tmp_path)
    with pytest.raises(InputError, match="3 converged designs are too few"):
        learned(table[:3], ["wall_mm"], ["bend"])


def test_an_exported_model_says_the_same(table, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    found = learned(table, ["wall_mm", "chambers", "material"], ["bend"])
    model = runtime.InferenceSession(str(found.export_onnx(tmp_path / "bend.onnx")))
    rows = np.array([[2.0, 6, 0, 1], [1.5, 5, 1, 0]])
    out = np.array(model.run(None, {"design": rows}))
    for k, design in enumerate([(2.0, 6, "b"), (1.5, 5, "a")]):
        wanted = found(dict(zip(("wall_mm", "chambers", "material"), design)))
        np.testing.assert_allclose(out[:, k], wanted, rtol=1e-7)


@pytest.mark.slow
def test_the_page_holds_table_sliders_and_effects_and_no_nan(tmp_path, monkeypatch):
    solve_here(monkeypatch)
    vary = {"length_mm": {"from": 16.0, "to": 24.0}, "height_mm": {"from": 5.0, "to": 7.0}}
    study = {**BAR, "vary": vary, "sampling": {"method": "latin-hypercube", "count": 6}}
    out = tmp_path / "out"
    table = geosim.sweep(study, workers=1, out=out)
    page = (out / "report.html").read_text(encoding="utf-8")
    data = json.loads(re.search(r"const D=(\{.*?\}),C=D\.columns", page, re.DOTALL)[1])
    assert (
        data["numbers"] == ["length_mm", "height_mm", "seconds", "tip_z_mm", "mass_g", "tets"]
        or "tets" in data["numbers"]
    )
    assert "pressure_kpa_1" not in data["numbers"]  # nothing is known of it
    assert data["surrogate"]["space"]["names"] == ["length_mm", "height_mm"]
    assert data["effects"]["mass_g"]["length_mm"][1][0] < data["effects"]["mass_g"]["length_mm"][1][-1]
    assert not re.search(r"(?<![\w\"'.])NaN(?![\w\"'])", json.dumps(data))
    index = (out / "runs" / table["run"][0] / "index.html").read_text(encoding="utf-8")
    assert ">nan<" not in index
    assert not re.search(r'(src|href)="https?:', page.split("<script>")[0])
    found = geosim.surrogate(out)
    middle = {"length_mm": 20.0, "height_mm": 6.0}
    value, low, high = found(middle, "mass_g")
    exact = 1e3 * geosim.materials.ECOFLEX_00_30.density * 20e-3 * 6e-3 * 6e-3
    assert low <= exact <= high
    assert value == pytest.approx(exact, rel=0.02)
    one = geosim.sweep(study, workers=1, out=tmp_path / "at", at=middle)
    assert one["mass_g"].tolist() == [pytest.approx(exact, rel=1e-6)]
    with pytest.raises(InputError, match=r"--at height_mm=VALUE"):
        geosim.sweep(study, at={"length_mm": 20.0})
    with pytest.raises(InputError, match="did you mean 'length_mm'"):
        read_study(study).alone_at({**middle, "lenght_mm": 3.0})
    assert CliRunner().invoke(main, ["sweep", "x.toml", "--at", "wall"]).exit_code == 2


def test_what_stays_has_no_feature_and_a_choice_one_for_each():
    stays, choice, number = (VariedDimension("a", some, 0.0, 2.0, False) for some in (("x",), ("x", "y"), ()))
    assert [one.count for one in (stays, choice, number)] == [0, 2, 1]
    assert (stays.features("x"), choice.features("y"), number.features(0.5)) == ([], [0.0, 1.0], [0.25])
