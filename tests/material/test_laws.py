"""Hyperelastic energies: closed forms, derivatives against finite differences, invariances."""

from __future__ import annotations

import numpy as np
import pytest

from geosim.material import tensors as constitutive
from geosim.material.laws import LAWS, Gent, MooneyRivlin, NeoHookean, Ogden, Yeoh

MATERIALS = {
    "mooney-rivlin": MooneyRivlin(c1=300.0, c2=80.0),
    "neo-hookean": NeoHookean(mu=500.0),
    "yeoh": Yeoh(c1=300.0, c2=-20.0, c3=15.0),
    "gent": Gent(mu=500.0, jm=30.0),
    "ogden": Ogden(mu=(300.0, 20.0, -30.0), alpha=(1.8, 4.0, -2.0)),
}

assert set(MATERIALS) == set(LAWS), "give every law an example"


@pytest.fixture(params=["isochoric", "full"], autouse=True)
def form(request, monkeypatch):
    """Every test runs with both forms of the energy."""
    make = constitutive.table
    monkeypatch.setattr(
        constitutive, "table", lambda materials, unit: make(materials, unit, isochoric=request.param == "isochoric")
    )
    return request.param


def _evaluate(material, F):
    row = constitutive.table([material], 100.0)[0]
    cof, P, A = np.empty((3, 3)), np.empty((3, 3)), np.empty((9, 9))
    J = constitutive.cofactor(F, cof)
    W = constitutive.tangent(row, F, J, cof, P, A, np.empty((4, 3, 3)))
    return row, W, P, A


def _deformation(seed):
    rng = np.random.default_rng(seed)
    F = np.eye(3) + 0.35 * rng.standard_normal((3, 3))
    return F if np.linalg.det(F) > 0.2 else _deformation(seed + 100)


def test_materials_side_by_side_are_those_of_each():
    rows, which, lanes = constitutive.table(list(MATERIALS.values()), 100.0), (4, 0, 2, 3), 4
    F, J, cof, P = np.empty((3, 3, lanes)), np.empty(lanes), np.empty((3, 3, lanes)), np.empty((3, 3, lanes))
    A, work = np.empty((9, 9, lanes)), np.empty((4, 3, 3, lanes))
    for lane in range(lanes):
        F[:, :, lane], one = _deformation(lane), np.empty((3, 3))
        J[lane], cof[:, :, lane] = constitutive.cofactor(_deformation(lane), one), one
    constitutive.side_by_side(rows, which, F, J, cof, P, A, work, 2)
    for lane, material in enumerate(list(MATERIALS.values())[k] for k in which):
        _, W, stress, tangent = _evaluate(material, _deformation(lane))
        for found, right in ((work[2, 2, 2, lane], W), (P[:, :, lane], stress), (A[:, :, lane], tangent)):
            np.testing.assert_allclose(found, right, rtol=1e-12, atol=1e-12 * np.abs(right).max())


@pytest.mark.parametrize("name", MATERIALS)
@pytest.mark.parametrize("seed", range(4))
def test_stress_is_the_derivative_of_the_energy(name, seed):
    F = _deformation(seed)
    row, _, P, _ = _evaluate(MATERIALS[name], F)
    h = 1e-6
    for i in range(3):
        for j in range(3):
            dF = np.zeros((3, 3))
            dF[i, j] = h
            slope = (constitutive.energy(row, F + dF) - constitutive.energy(row, F - dF)) / (2 * h)
            assert slope == pytest.approx(P[i, j], abs=2e-8 * np.abs(P).max() + 1e-9)


@pytest.mark.parametrize("name", MATERIALS)
@pytest.mark.parametrize("seed", range(4))
def test_tangent_is_the_derivative_of_the_stress(name, seed):
    F = _deformation(seed)
    _, _, _, A = _evaluate(MATERIALS[name], F)
    h = 1e-6
    numeric = np.empty((9, 9))
    for k in range(9):
        dF = np.zeros(9)
        dF[k] = h
        plus, minus = (_evaluate(MATERIALS[name], F + s * dF.reshape(3, 3))[2] for s in (1, -1))
        numeric[:, k] = (plus - minus).ravel() / (2 * h)
    assert np.abs(A - A.T).max() <= 1e-12 * np.abs(A).max()
    assert np.abs(A - numeric).max() <= 1e-7 * np.abs(A).max()


def test_ogden_tangent_at_equal_stretches():
    """At F = I, and where two stretches coincide, the spectral formula takes its limit."""
    for F in (np.eye(3), np.diag([1.3, 1.3, 0.7]), np.diag([0.8, 1.4, 1.4])):
        _, _, _, A = _evaluate(MATERIALS["ogden"], F)
        h = 1e-5
        numeric = np.empty((9, 9))
        for k in range(9):
            dF = np.zeros(9)
            dF[k] = h
            plus, minus = (_evaluate(MATERIALS["ogden"], F + s * dF.reshape(3, 3))[2] for s in (1, -1))
            numeric[:, k] = (plus - minus).ravel() / (2 * h)
        assert np.abs(A - numeric).max() <= 1e-6 * np.abs(A).max()


def test_ogden_with_exponents_2_and_minus_2_is_mooney_rivlin(form):
    F = _deformation(3)
    if form == "full":  # I2 is the sum of inverse squares of the stretches only where J = 1
        return
    one = _evaluate(MooneyRivlin(c1=300.0, c2=80.0), F)
    two = _evaluate(Ogden(mu=(600.0, -160.0), alpha=(2.0, -2.0)), F)
    for a, b in zip(one[1:], two[1:]):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", MATERIALS)
def test_frame_indifference_and_isotropy(name):
    """W(Q F) = W(F Q) = W(F), and the stress turns along."""
    F = _deformation(1)
    Q, _ = np.linalg.qr(np.random.default_rng(7).standard_normal((3, 3)))
    Q *= np.sign(np.linalg.det(Q))
    _, W, P, _ = _evaluate(MATERIALS[name], F)
    _, W1, P1, _ = _evaluate(MATERIALS[name], Q @ F)
    _, W2, P2, _ = _evaluate(MATERIALS[name], F @ Q)
    assert pytest.approx(W, rel=1e-11) == W1
    assert pytest.approx(W, rel=1e-11) == W2
    np.testing.assert_allclose(P1, Q @ P, atol=1e-10 * np.abs(P).max())
    np.testing.assert_allclose(P2, P @ Q, atol=1e-10 * np.abs(P).max())


@pytest.mark.parametrize("name", MATERIALS)
def test_rest_is_free_of_stress_with_the_shear_modulus(name):
    material = MATERIALS[name]
    _, W, P, A = _evaluate(material, np.eye(3))
    assert pytest.approx(0.0, abs=1e-12) == W
    np.testing.assert_allclose(P, 0.0, atol=1e-12)
    # dP for a small shear F = I + g e1 (x) e2 is mu g (e1 (x) e2 + e2 (x) e1)
    assert A[1, 1] == pytest.approx(material.shear_modulus / 100.0, rel=1e-10)
    assert A[1, 3] == pytest.approx(material.shear_modulus / 100.0, rel=1e-10)


@pytest.mark.parametrize("name", MATERIALS)
def test_the_two_forms_differ_only_in_volume(name, form):
    """Isochoric: W(s F) = W(F). Full: the same wherever J = 1, and s is free there."""
    F = _deformation(2)
    if form == "full":
        unit = F / np.cbrt(np.linalg.det(F))
        row = constitutive.table([MATERIALS[name]], 100.0)[0]
        isochoric = row.copy()
        isochoric[4] = -1.0
        assert constitutive.energy(row, unit) == pytest.approx(constitutive.energy(isochoric, unit), rel=1e-11)
        return
    row, W, _, _ = _evaluate(MATERIALS[name], F)
    assert constitutive.energy(row, 1.7 * F) == pytest.approx(W, rel=1e-11)
