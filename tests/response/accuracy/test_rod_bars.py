"""Error bars of rods: against finer rods, solves with other constants, and closed forms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

import geosim
from geosim import (
    Cable,
    CableTensions,
    Environment,
    InputError,
    LinearElastic,
    Load,
    NaturalShape,
    Obstacle,
    Passive,
    Prescribed,
    RodShellRobot,
    RodShellStepper,
)
from geosim.response.accuracy.table import with_error_bars
from geosim.rods.refined import RefinedRods

STATIC = RodShellStepper(static=True, tolerance=1e-9, increment_tolerance=1e-6)
FALLS = Environment(gravity=(0.0, 0.0, -9.81), self_contact=False)
RUBBER = LinearElastic(3e6, 0.5, 1000.0)


def arm(*, bent=False, cable=False, backwards=False, radius=5e-3, material=RUBBER):
    """An arm of 150 mm, straight or an arc of 100 mm radius; with edges that point from tip to root where `backwards`."""
    s = np.linspace(0.0, 0.15, 17)
    x = np.stack([s, 0 * s, 0 * s], axis=1)
    if bent:
        x = np.stack([0.1 * np.sin(10 * s), 0 * s, 0.1 * (1 - np.cos(10 * s))], axis=1)
    edges = np.stack([np.arange(16), np.arange(1, 17)], axis=1)
    led = np.stack([np.linspace(s[1], 0.15, 9), np.zeros(9), np.full(9, 8e-3)], axis=1)
    held = dict(fixed_vertices=[0, 1], fixed_edges=[0], cables=[Cable(led)] if cable else ())
    return RodShellRobot(x, edges[:, ::-1] if backwards else edges, radius=radius, rod_material=material, **held)


def curved(values=(5.0, 3.0)):
    return NaturalShape([1.0], curvature=np.tile(np.array(values), (1, 15, 1)))


CASES = {
    "gravity": (arm(), Passive(), FALLS),
    "cable": (arm(cable=True), CableTensions([[0.3]]), FALLS),
    "curvature": (arm(), curved(), FALLS),
    "backwards": (arm(backwards=True), curved(), FALLS),
    "arc": (arm(bent=True), Passive(), FALLS),
    "loads": (
        arm(),
        NaturalShape([1.0], twist=np.full((1, 15), 6.0), stretch=np.full((1, 16), 1.1)),
        Environment(loads=[Load.force(np.arange(9, 17), (0.0, 0.0, 0.05)), Load.moment([12], (0.0, 0.0, 2e-3))]),
    ),
    "led": (
        arm(),
        Passive(),
        Environment(gravity=(0, 0, -9.81), prescribed=Prescribed([9, 10], [[[0.0, 0.01, 0.0], [0.0, 0.012, 0.0]]])),
    ),
    "contact": (
        arm(),
        Passive(),
        Environment(gravity=(0, 0, -9.81), obstacles=Obstacle.plane((0, 0, -0.03), (0, 0, 1))),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bars_cover_the_limit_of_finer_rods(case):
    """Rods eight times as fine, and Richardson's step from there; bars are at most thrice as wide in the norm."""
    robot, actuation, around = CASES[case]
    result = geosim.solve(robot, actuation, around, solver=STATIC)
    tips = {}
    for halved in range(4):
        found = geosim.solve(robot, actuation, around, solver=STATIC)
        tips[halved] = found.tip[-1]
        more = RefinedRods(robot)
        robot, actuation, around = more.fine, more.actuation(actuation), more.environment(around)
    error = np.abs(2.0 * tips[3] - tips[2] - tips[0])
    bars = geosim.error_bars(result, "tip")
    assert (error <= bars.mesh + 1e-7).all()
    assert np.linalg.norm(bars.mesh) < 3.0 * np.linalg.norm(error)
    assert (bars.faceting == 0.0).all()
    assert np.isnan(bars.material).all()
    assert "no scatter" in bars.note


def test_rods_that_point_backwards_have_the_same_bars():
    """Stencils of reversed edges bend about other axes: the same command is given to both by how they bend."""
    forward, back = (geosim.solve(arm(backwards=b), Passive(), FALLS, solver=STATIC) for b in (False, True))
    for of in ("tip", "bend_angle", "positions"):
        one, other = geosim.error_bars(forward, of), geosim.error_bars(back, of)
        np.testing.assert_allclose(one.mesh, other.mesh, atol=1e-6 * np.max(one.mesh))


def test_curvatures_of_halved_stencils_keep_their_signs():
    """Of a chain whose edges point either way: it hangs in the same shape on finer rods, up to their error."""
    x = np.stack([np.linspace(0.0, 0.15, 17), np.zeros(17), np.zeros(17)], axis=1)
    edges = np.stack([np.arange(16), np.arange(1, 17)], axis=1)
    edges[5:9] = edges[5:9, ::-1]
    edges[[2, 7, 11]] = edges[[11, 2, 7]]
    robot = RodShellRobot(x, edges, radius=5e-3, rod_material=RUBBER, fixed_vertices=[0, 1], fixed_edges=[0])
    command = NaturalShape([1.0], curvature=np.random.default_rng().uniform(2.0, 6.0, (1, 15, 2)))
    result = geosim.solve(robot, command, solver=STATIC)
    more = RefinedRods(robot)
    fine = geosim.solve(more.fine, more.actuation(command), solver=STATIC)
    apart = np.abs(fine.frames[-1][more.kept] - result.frames[-1])
    assert apart.max() < 0.1 * np.abs(result.frames[-1] - x).max()


def test_middles_of_an_arc_lie_on_it_and_those_of_a_corner_do_not():
    """To a hundredth of how far chords are off."""
    rods = arm(bent=True)
    away = np.linalg.norm(RefinedRods(rods).fine.vertices - [0.0, 0.0, 0.1], axis=1) - 0.1
    assert np.abs(away).max() < 0.01 * (0.15 / 16) ** 2 / 0.8
    corner = RodShellRobot([[0, 0, 0], [0.1, 0, 0], [0.1, 0.1, 0]], radius=5e-3, rod_material=RUBBER)
    middles = RefinedRods(corner).fine.vertices[2:4]
    np.testing.assert_allclose(middles, [[0.05, 0, 0], [0.1, 0.05, 0]], atol=1e-15)


@dataclass(frozen=True)
class Fit:
    """A calibration of some constants of rods."""

    parameters: dict
    intervals: dict
    correlations: np.ndarray | None = None
    confidence: float = 0.95


def test_the_material_is_what_solves_with_other_constants_change():
    """Of a modulus known to 2 % and a density to 1 %, correlated by a half."""
    result = geosim.solve(arm(), Passive(), FALLS, solver=STATIC)
    spread = {"youngs_modulus": 6e4, "density": 10.0}
    values = {"youngs_modulus": 3e6, "density": 1000.0}
    fit = Fit(
        values, {k: (v - spread[k], v + spread[k]) for k, v in values.items()}, np.array([[1.0, 0.5], [0.5, 1.0]])
    )
    bars = geosim.error_bars(result, "tip", material=fit)

    def half(name):
        ends = [replace(RUBBER, **{name: values[name] + s * spread[name]}) for s in (-1, 1)]
        low, high = (geosim.solve(arm(material=m), Passive(), FALLS, solver=STATIC).tip[-1] for m in ends)
        return 0.5 * (high - low)

    e, rho = half("youngs_modulus"), half("density")
    np.testing.assert_allclose(bars.material, np.sqrt(e**2 + rho**2 + e * rho), rtol=2e-3, atol=1e-9)
    assert bars.note == ""
    np.testing.assert_array_equal(bars.total, bars.mesh + bars.material)


def test_tolerances_of_rods_are_radius_clamp_marker_and_model():
    result = geosim.solve(arm(), Passive(), FALLS, solver=STATIC)
    given = geosim.Tolerances(wall=1e-4, gauge=100.0, clamp=0.01, marker=5e-4, model=0.1)
    terms = geosim.error_bars(result, "tip", tolerance=given).terms
    thin, thick = (geosim.solve(arm(radius=r), Passive(), FALLS, solver=STATIC).tip[-1] for r in (4.9e-3, 5.1e-3))
    np.testing.assert_allclose(terms["geometry"], 0.5 * np.abs(thick - thin), rtol=1e-2, atol=1e-9)
    about = result.tip[-1] - result.robot.vertices[:2].mean(axis=0)
    np.testing.assert_allclose(terms["clamp"], 0.01 * np.sqrt(about @ about - about**2))
    np.testing.assert_array_equal(terms["marker"], 5e-4)
    np.testing.assert_array_equal(terms["gauge"], 0.0)
    np.testing.assert_allclose(terms["model"], 0.1 * np.abs(result.tip[-1] - result.robot.vertices[-1]))
    bend = geosim.error_bars(result, "bend_angle", tolerance=given).terms
    assert bend["clamp"] == bend["marker"] == 0.0
    assert bend["model"] == pytest.approx(0.1 * result.bend_angle[-1])


def test_a_result_of_rods_keeps_its_bars():
    result = geosim.solve(arm(), Passive(), FALLS, solver=STATIC)
    kept, notes = with_error_bars(result)
    assert kept.extra["tip_error_mesh"][-1] == pytest.approx(np.linalg.norm(geosim.error_bars(result).mesh))
    assert kept.extra["bend_angle_error_mesh"][-1] > 0.0
    assert any("no scatter" in note for note in notes)


def test_rods_without_bars_are_refused_by_name():
    result = geosim.solve(arm(), Passive(steps=2), FALLS, solver=STATIC)
    wrong = Fit({"youngs_modulus": 2e6}, {"youngs_modulus": (1e6, 3e6)})
    for changes, words in (
        ({"of": "chamber_pressures"}, "rods have"),
        ({"frame": 0}, "the last frame alone"),
        ({"material": SimpleNamespace()}, "no Calibration"),
        ({"material": wrong}, "no rod has the calibrated"),
    ):
        with pytest.raises(InputError, match=words):
            geosim.error_bars(result, **changes)
    moving = geosim.solve(arm(), Passive(0.02), FALLS)
    with pytest.raises(InputError, match="no equilibrium"):
        geosim.error_bars(moving)
    again = geosim.solve(arm(), Passive(), FALLS, solver=STATIC, initial=result)
    with pytest.raises(InputError, match="all commands in one solve"):
        geosim.error_bars(again)
