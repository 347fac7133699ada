"""Cyclic tests and holds of known softening, loss and relaxation are found again."""

from __future__ import annotations

import numpy as np
import pytest
import trimesh
from geosim.calibrate import fit, fit_cycles, fit_relaxation, nominal_stress
from geosim.materials import load_material

import geosim
from geosim.apps.calibrate.samples import MaterialTest
from geosim.errors import InputError

C1, C2 = 40e3, 1.5e3  # Pa, of the first pull
LOSS = 0.12  # a way down lies by it below, a way up above the conditioned curve


def softened(stretch):
    """Share that is lost: grows to 25 % at the largest stretch."""
    return 0.10 + 0.15 * (stretch - 1.0)


def record(cycles=5, noise=0.0, rng=None):
    """A test to stretch 2: the first pull on the virgin curve, then hysteresis about the conditioned one."""
    up = np.linspace(1.0, 2.0, 120)
    virgin = nominal_stress("yeoh", {"c1": C1, "c2": C2, "c3": 0.0}, "uniaxial", up)
    settled = virgin * (1.0 - softened(up))
    high, low = settled * (1 + LOSS), settled * (1 - LOSS)
    stretch = np.concatenate([np.r_[up, up[::-1]]] * cycles)
    stress = np.concatenate([np.r_[virgin if k == 0 else high, low[::-1]] for k in range(cycles)])
    return stretch, stress if rng is None else stress * (1 + noise * rng.standard_normal(len(stress)))


def test_softening_loss_and_conditioned_constants_are_found():
    stretch, stress = record()
    found = fit_cycles(stretch, stress)
    assert len(found.cycles) == 5
    np.testing.assert_allclose(found.softening, softened(found.stretch), rtol=0.03)
    expected = 1 - (1 - LOSS) / (1 + LOSS)
    np.testing.assert_allclose(found.losses[1:], expected, rtol=0.03)
    assert found.first.parameters["c1"] == pytest.approx(C1, rel=0.03)
    at = np.linspace(1.2, 2.0, 9)
    law = found.material("conditioned")
    truth = nominal_stress("yeoh", {"c1": C1, "c2": C2, "c3": 0.0}, "uniaxial", at) * (1 - softened(at))
    got = nominal_stress("yeoh", dict(found.conditioned.parameters), "uniaxial", at)
    np.testing.assert_allclose(got, truth, rtol=0.03)
    assert law.shear_modulus < found.material("first pull").shear_modulus
    assert found.settled == pytest.approx(0.0, abs=1e-12)
    assert "5 cycles" in found.lines()[0]


def test_one_loop_is_hysteresis_and_no_softening():
    """A viscous loop says nothing of a second pull: no softening, no nan, and the first pull is all that is known."""
    stretch, stress = record(1)
    found = fit_cycles(stretch, stress)
    text = " ".join(found.lines())
    assert "1 cycle to stretch 2; hysteresis" in text
    assert "softening (Mullins) is not known" in text
    assert "nan" not in text
    assert (found.softening == 0.0).all()
    assert found.conditioned.material.shear_modulus == pytest.approx(found.first.material.shear_modulus, rel=0.03)


def test_a_set_is_the_stretch_without_stress_on_the_way_down():
    stretch, stress = record(3)
    assert fit_cycles(stretch, stress).set_stretch < 1.02
    slack = np.where(np.arange(len(stretch)) >= 120, np.maximum(stress - 0.1 * stress.max(), 0.0), stress)
    assert 1.05 < fit_cycles(stretch, slack).set_stretch < 1.3


@pytest.mark.parametrize("seed", range(20))
def test_noise_makes_no_cycles_and_takes_no_more_than_3_percent(seed):
    """1 % of the stress and 0.002 of the stretch: shares within 0.02, conditioned stresses within 3 %."""
    rng = np.random.default_rng(seed)
    stretch, stress = record(3, 0.01, rng)
    stretch = stretch + 2e-3 * rng.standard_normal(len(stretch))
    found = fit_cycles(np.maximum(stretch, 1.0), stress)
    assert len(found.cycles) == 3
    np.testing.assert_allclose(found.softening, softened(found.stretch), atol=0.02)
    assert found.first.parameters["c1"] == pytest.approx(C1, rel=0.03)
    at = np.linspace(1.2, 2.0, 9)
    truth = nominal_stress("yeoh", {"c1": C1, "c2": C2, "c3": 0.0}, "uniaxial", at) * (1 - softened(at))
    got = nominal_stress("yeoh", dict(found.conditioned.parameters), "uniaxial", at)
    np.testing.assert_allclose(got, truth, rtol=0.03)


def test_relaxation_is_found_and_held():
    """Two times between those of the series; the factor is known at every time of the test to 0.5 %."""
    time = np.r_[0.0, np.geomspace(0.1, 1000.0, 300)]
    shares, times = np.array([0.08, 0.12]), np.array([2.0, 150.0])
    truth = 1.0 - (shares * (1.0 - np.exp(-time[:, None] / times))).sum(axis=1)
    found = fit_relaxation(time, 3.0 * truth)
    np.testing.assert_allclose(found.factor(time), truth, rtol=5e-3)
    assert found.shares.sum() == pytest.approx(0.2, rel=0.03)
    stretch, stress = record()
    law = fit_cycles(stretch, stress).material("conditioned")
    held = found.held(law, 100.0)
    assert held.shear_modulus == pytest.approx(found.factor(100.0) * law.shear_modulus, rel=1e-12)


def test_constants_after_a_noisy_hold_are_found():
    """1 % of noise, twenty records: the factor on the constants within 3 % at every time of the test."""
    time = np.r_[0.0, np.geomspace(0.1, 1000.0, 300)]
    truth = 1.0 - 0.08 * (1.0 - np.exp(-time / 2.0)) - 0.12 * (1.0 - np.exp(-time / 150.0))
    for seed in range(20):
        noise = np.random.default_rng(seed).standard_normal(len(time))
        found = fit_relaxation(time, 3.0 * truth * (1.0 + 0.01 * noise))
        np.testing.assert_allclose(found.factor(time), truth, rtol=0.03)


def test_what_is_no_such_test_is_refused():
    stretch, stress = record(1)
    with pytest.raises(InputError, match="up and down"):
        fit_cycles(stretch[:100], stress[:100])
    with pytest.raises(InputError, match="samples"):
        fit_cycles([1.0, 1.5, 2.0, 1.5, 1.0], [0.0, 1.0, 2.0, 0.9, 0.0])
    with pytest.raises(InputError, match="first pull"):
        fit_cycles(stretch, stress).material("second")
    time = np.linspace(0.0, 10.0, 20)
    with pytest.raises(InputError, match="positive"):
        fit_relaxation(time, -np.ones(20))
    with pytest.raises(InputError, match="increasing"):
        fit_relaxation(time[::-1], np.ones(20))
    with pytest.raises(InputError, match=r"0 \.\. 10 s"):
        fit_relaxation(time, np.ones(20)).factor(11.0)


HOLD_S = 60.0


@pytest.fixture(scope="module")
def rubber(tmp_path_factory):
    """Both laws and a hold in a file, and what they are."""
    found = fit_cycles(*record())
    time = np.geomspace(0.1, 1000.0, 100)
    hold = fit_relaxation(time, 1.0 - 0.2 * (1.0 - np.exp(-time / 20.0)))
    return found.save(tmp_path_factory.mktemp("rubber") / "rubber.toml", hold), found, hold


def test_a_file_of_cycles_and_a_hold_answers_each_state_at_each_time(rubber):
    path, found, hold = rubber
    first, worn = found.material("first pull"), found.material("conditioned")
    assert load_material(path, "first pull", 0.0) == first
    assert load_material(path, "conditioned", 0.0) == worn
    held = load_material(path, "conditioned", HOLD_S)
    np.testing.assert_allclose(held.constants(), hold.factor(HOLD_S) * worn.constants(), rtol=1e-12)
    assert held.unsaid_softening == 0.0


def test_what_is_not_said_is_told(rubber):
    """Constants are those of the first pull; what cycles and the longest hold known take of them is beside them."""
    path, found, hold = rubber
    worn = found.material("conditioned").shear_modulus / found.material("first pull").shear_modulus
    for state, seconds, left in (
        (None, None, worn * hold.factor(hold.duration)),
        ("first pull", None, hold.factor(hold.duration)),
        (None, 0.0, worn),
    ):
        law = load_material(path, state, seconds)
        assert law == found.material("first pull")
        assert law.unsaid_softening == pytest.approx(1.0 - left, rel=1e-9)


def test_a_state_or_hold_that_nobody_tested_is_refused_in_one_line(rubber, tmp_path):
    path, found, _ = rubber
    grid = np.linspace(1.02, 2.0, 30)
    stress = nominal_stress("yeoh", {"c1": C1, "c2": C2, "c3": 0.0}, "uniaxial", grid)
    plain = fit(MaterialTest("uniaxial", grid, stress, "pull"), "yeoh").save(tmp_path / "plain.toml")
    for asked, said in (
        ((plain, "conditioned", None), "plain.toml: state = 'conditioned' needs a cyclic test"),
        ((plain, None, 60.0), "plain.toml: a hold of 60.0 s needs a relaxation test"),
        ((path, "conditioned", 1e4), r"0 \.\. 1000 s"),
        ((path, "worn", None), "first pull"),
        ((path, None, -1.0), "hold"),
    ):
        with pytest.raises(InputError, match=said) as refused:
            load_material(*asked)
        assert "\n" not in str(refused.value)
    only_cycles = found.save(tmp_path / "cycles.toml")
    with pytest.raises(InputError, match="needs a relaxation test"):
        load_material(only_cycles, "conditioned", 1.0)


def test_a_robot_file_asks_for_a_state_and_a_hold(rubber, tmp_path):
    path, found, hold = rubber
    (tmp_path / "rubber.toml").write_bytes(path.read_bytes())
    trimesh.creation.box((20.0, 10.0, 10.0)).export(tmp_path / "body.stl")
    file = tmp_path / "robot.toml"

    def read(material, *asked):
        body = ["[body]", 'surface = "body.stl"', f'material = "{material}"', "max_edge = 12.0", *asked]
        ends = ["[fixed]", 'plane = "x"', "below = -9.9", "[tip]", 'plane = "x"', "above = 9.9"]
        file.write_text("\n".join(['kind = "volumetric"', 'units = "mm"', *body, *ends]) + "\n", encoding="utf-8")
        return next(iter(geosim.load_robot(file).materials.values()))

    law = read("rubber.toml", 'state = "conditioned"', f"hold_s = {HOLD_S}")
    factor = hold.factor(HOLD_S)
    np.testing.assert_allclose(law.constants(), factor * found.material("conditioned").constants(), rtol=1e-12)
    assert law.unsaid_softening == 0.0 < read("rubber.toml").unsaid_softening
    with pytest.raises(InputError, match=r"robot\.toml.*cyclic test"):
        read("ecoflex-00-30-fang2022", 'state = "conditioned"')
    with pytest.raises(InputError, match=r"robot\.toml.*relaxation test"):
        read("ecoflex-00-30-fang2022", "hold_s = 5.0")
