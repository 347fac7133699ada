"""Supply lines: a rigid chamber against closed forms, conserved gas, valves; and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from cubes import block as hollow

import geosim

AMBIENT = 101325.0
ALONE = geosim.Environment(self_contact=False)
STIFF = geosim.NeoHookean(mu=1e9, bulk_modulus=1e9, density=1070.0)
SOFT = geosim.NeoHookean(mu=1e5, bulk_modulus=1e5, density=1070.0)
DEAD, CONDUCTANCE = 2e-6, 1e-9  # m^3, m^3/(Pa s): a time constant of some 20 ms


def _robot(material):
    vertices, tets, regions = hollow((2, 3, 3), 0.005, ((0, 2), (1, 2), (1, 2)))
    held = np.flatnonzero((vertices[:, 0] < 1e-9) | (vertices[:, 0] > 0.01 - 1e-9))
    return geosim.VolumetricRobot.from_tets(vertices, tets, regions, material=material, fixed=held)


def _move(material, pressures, conductances, duration, *, dt=1e-3, integrator="implicit-euler", dead=DEAD):
    solver = geosim.EnergyShapeStepper(dt=dt, integrator=integrator, element="p1")
    line = geosim.SupplyLine(conductance=conductances, dead_volume=dead)
    rows = geosim.Passive(duration, steps=len(pressures))
    return geosim.solve(_robot(material), rows & geosim.Inflation(pressure=pressures) & line, ALONE, solver=solver)


def _filled(pressure, duration, volume):
    """Pressure in a rigid chamber, by small steps of the midpoint rule; the source rises within 1 ms."""
    absolute, steps = AMBIENT, 20000
    span = duration / steps

    def rate(at, now):
        source = AMBIENT + pressure * min(at / 1e-3, 1.0)
        return 0.5 * CONDUCTANCE * (source**2 - now**2) / volume

    for i in range(steps):
        middle = absolute + 0.5 * span * rate(i * span, absolute)
        absolute += span * rate((i + 0.5) * span, middle)
    return absolute - AMBIENT


def test_a_rigid_chamber_fills_as_the_closed_form_says():
    """a = a_s tanh(a_s C t / (2 V) + artanh(a_0 / a_s)): of small pressures exponential with the constant V / (C a_s)."""
    pressure, duration, runs = 2e3, 0.02, []
    for dt in (1e-3, 5e-4):
        runs.append(_move(STIFF, np.full(20, pressure), CONDUCTANCE, duration, dt=dt))
    fine = runs[-1]
    volume, source = fine.chamber_volumes[0, 0] + DEAD, pressure + AMBIENT
    first = np.searchsorted(fine.times, 1e-3 - 1e-9)  # the source rises linearly in the first row
    start, t = fine.chamber_pressures[first, 0] + AMBIENT, fine.times[first:] - fine.times[first]
    exact = source * np.tanh(0.5 * source * CONDUCTANCE * t / volume + np.arctanh(start / source)) - AMBIENT
    assert fine.chamber_pressures[first:, 0] == pytest.approx(exact, abs=0.01 * pressure)
    ends = [run.chamber_pressures[-1, 0] for run in runs]
    errors = np.abs(np.array(ends) - _filled(pressure, duration, volume))
    assert errors[-1] < 1e-3 * pressure
    assert (errors[:-1] > 1.8 * errors[1:]).all()  # first order
    reached = geosim.time_to_pressure(fine, 0.5 * pressure)
    before = np.interp(reached, fine.times, fine.chamber_pressures[:, 0])
    assert before == pytest.approx(0.5 * pressure)
    assert np.isnan(geosim.time_to_pressure(fine, pressure)).all()
    rate = CONDUCTANCE * source / volume
    linear = pressure * (1.0 - np.exp(-rate * (duration - 5e-4)))  # the rise delays by half of it
    assert ends[-1] == pytest.approx(linear, rel=0.015)


@pytest.mark.parametrize("integrator", ["implicit-euler", "generalized-alpha"])
def test_gas_is_conserved(integrator):
    """What the geometry holds is what came in; behind a shut valve nothing comes in, and the pressure stays."""
    result = _move(SOFT, [10e3] * 4, [CONDUCTANCE, CONDUCTANCE, 0.0, 0.0], 0.04, integrator=integrator)
    amounts = result.extra["gas_amounts"][1:, 0]
    held = (result.chamber_pressures[1:, 0] + AMBIENT) * (result.chamber_volumes[1:, 0] + DEAD)
    assert held == pytest.approx(amounts, rel=1e-8)
    shut = result.times[1:] > 0.02 + 1e-9
    assert np.ptp(amounts[shut]) < 1e-12 * amounts[0]
    assert amounts[~shut][-1] > 1.01 * amounts[0]
    assert result.chamber_pressures[-1, 0] > 1e3


def test_what_a_line_cannot_be_is_refused():
    for wrong in ({"conductance": -1.0}, {"conductance": 1.0, "dead_volume": np.nan}):
        with pytest.raises(geosim.InputError, match="must not be negative"):
            geosim.SupplyLine(**wrong)
    with pytest.raises(geosim.InputError, match="keeps its volume"):
        geosim.SupplyLine(conductance=[1.0, 1.0], dead_volume=[1e-6, 2e-6])
    with pytest.raises(geosim.InputError, match="implicit-midpoint"):
        _move(SOFT, [1e3], CONDUCTANCE, 0.01, integrator="implicit-midpoint")
    line = geosim.SupplyLine(conductance=CONDUCTANCE)
    with pytest.raises(geosim.InputError, match="pressure of its source"):
        geosim.solve(
            _robot(SOFT),
            geosim.Passive(0.01) & geosim.Inflation(volume_ratio=1.1) & line,
            ALONE,
            solver=geosim.EnergyShapeStepper(element="p1"),
        )
    with pytest.raises(geosim.InputError, match="knows no time"):
        geosim.solve(_robot(SOFT), geosim.Inflation(pressure=1e3) & line, ALONE)
