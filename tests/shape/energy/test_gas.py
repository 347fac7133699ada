"""Gas that is shut in: its law, its stiffness, syringes, connected chambers, and what does not go together."""

import numpy as np
import pytest
import shapes

import geosim
from geosim import Inflation, InputError, NeoHookean, Passive, Syringe, VolumetricRobot
from geosim.model.actuation import AMBIENT_PRESSURE_PA
from geosim.shape.energy.constraints.gas import Gas

MU, RATIO = 50e3, 1.3  # shear modulus [Pa], outer over inner radius


@pytest.fixture(scope="module")
def ball():
    vertices, tets, regions = shapes.shell(0.01, 0.01 * RATIO, 1, 1)
    return VolumetricRobot.from_tets(vertices, tets, regions, material=NeoHookean(mu=MU), fixed=None)


@pytest.fixture(scope="module")
def blown(ball):
    rest = float(ball.chamber_volumes[0])
    pushed = np.linspace(0.0, 1.0, 9)[1:] * rest
    return geosim.solve(ball, Inflation(gas=True, extra_volume=2 * rest) & Syringe(pushed)), pushed


def test_a_syringe_follows_the_law_of_the_gas(ball, blown):
    result, pushed = blown
    rest = ball.chamber_volumes[0]
    product = (result.chamber_pressures[:, 0] + AMBIENT_PRESSURE_PA) * (
        result.chamber_volumes[:, 0] + 2 * rest - pushed
    )
    np.testing.assert_allclose(product, AMBIENT_PRESSURE_PA * 3 * rest, rtol=1e-7)
    assert (np.diff(result.volume_ratios[:, 0]) > 0.03).all()


def test_the_state_is_that_of_the_same_volume(ball, blown):
    result, _ = blown
    again = geosim.solve(ball, Inflation(volume_ratio=result.volume_ratios[-1]))
    np.testing.assert_allclose(again.chamber_pressures[-1], result.chamber_pressures[-1], rtol=1e-5)


def test_the_work_of_the_gas_is_stored(ball, blown):
    """Integral of P dv over the frames, by splines of P over v; measured 4e-6."""
    from scipy.interpolate import CubicSpline

    result, _ = blown
    v = np.concatenate([ball.chamber_volumes, result.chamber_volumes[:, 0]])
    P = np.concatenate([[0.0], result.chamber_pressures[:, 0]])
    work = float(CubicSpline(v, P).integrate(v[0], v[-1]))
    assert work == pytest.approx(result.work[-1], rel=1e-4)


def test_warmth_and_exponent_and_an_initial_state(ball):
    rest = float(ball.chamber_volumes[0])
    first = geosim.solve(ball, Inflation(pressure=3e3))
    warm = geosim.solve(ball, Inflation(gas=True, temperature_ratio=[1.05, 1.1]), initial=first)
    product = (warm.chamber_pressures[:, 0] + AMBIENT_PRESSURE_PA) * warm.chamber_volumes[:, 0]
    closed = (3e3 + AMBIENT_PRESSURE_PA) * first.chamber_volumes[-1, 0]
    np.testing.assert_allclose(product / closed, [1.05, 1.1], rtol=1e-7)
    fast = geosim.solve(ball, Inflation(gas=True, exponent=1.4, extra_volume=rest) & Syringe(0.3 * rest))
    space = fast.chamber_volumes[-1, 0] + rest - 0.3 * rest
    law = (fast.chamber_pressures[-1, 0] + AMBIENT_PRESSURE_PA) * space**1.4
    assert law == pytest.approx(AMBIENT_PRESSURE_PA * (2 * rest) ** 1.4, rel=1e-7)


def test_a_closed_chamber_at_rest_stays_there(ball):
    result = geosim.solve(ball, Inflation(gas=True) & Passive(steps=2))
    assert len(result.frames) == 2
    np.testing.assert_allclose(result.chamber_pressures, 0.0, atol=1e-6)


def test_connected_chambers_share_one_pressure():
    """Two balls of different walls on one gas: their volumes add up in the law, the pressures are equal."""
    parts = [shapes.shell(0.01, 0.01 * b, 1, 1) for b in (1.3, 1.5)]
    count = len(parts[0][0])
    vertices = np.vstack([parts[0][0], parts[1][0] + [0.05, 0.0, 0.0]])
    tets = np.vstack([parts[0][1], parts[1][1] + count])
    regions = np.concatenate([parts[0][2], np.where(parts[1][2] == 1, 2, 0)])
    robot = VolumetricRobot.from_tets(vertices, tets, regions, material=NeoHookean(mu=MU), fixed=None)
    rest, extra = robot.chamber_volumes.sum(), 1e-5
    together = geosim.solve(
        robot, Inflation(gas=True, connected=[(0, 1)], extra_volume=extra) & Syringe(3e-6), throw=True
    )
    first, second = together.chamber_pressures[-1]
    assert first == pytest.approx(second, rel=1e-9)
    space = together.chamber_volumes[-1].sum() + extra - 3e-6
    assert (first + AMBIENT_PRESSURE_PA) * space == pytest.approx(AMBIENT_PRESSURE_PA * (rest + extra), rel=1e-7)
    ratios = together.volume_ratios[-1]
    np.testing.assert_allclose(geosim.solve(robot, Inflation(pressure=first)).volume_ratios[-1], ratios, rtol=1e-6)
    assert ratios[0] > ratios[1] > 1.0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Inflation(pressure=-2e5), "below vacuum"),
        (lambda: Inflation(gas=True, temperature_ratio=1.1, exponent=1.4), "exclude each other"),
        (lambda: Inflation(pressure=1.0, connected=[(0, 1)]), "connected goes with gas"),
        (lambda: Inflation(gas=True, ambient=0.0), "ambient"),
        (lambda: Inflation(), "gas=True"),
    ],
)
def test_impossible_gases_are_refused_when_they_are_made(make, words):
    with pytest.raises(InputError, match=words):
        make()


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (Inflation(gas=True) & Syringe(1.0), "extra_volume"),
        (Syringe(1e-9), "no chamber is closed"),
        (Inflation(gas=True, volume_ratio=2.0), "is closed"),
        (Inflation(gas=True, connected=[(0, 1)]), "chamber 1"),
        (Inflation(gas=[True, False]), "2 entries"),
    ],
)
def test_gases_that_the_robot_cannot_hold_are_refused(ball, act, words):
    with pytest.raises(InputError, match=words):
        geosim.solve(ball, act)


def test_less_than_vacuum_is_no_answer(ball):
    """A stiff ball at an eighth of its volume needs more than a vacuum pump."""
    stiff = ball.with_materials(NeoHookean(mu=5e6))
    with pytest.raises(geosim.SolveError, match="below vacuum"):
        geosim.solve(stiff, Inflation(volume_ratio=0.97))


def test_the_projective_solver_says_that_it_knows_no_gas(ball):
    with pytest.raises(InputError, match="knows no gas"):
        geosim.solve(ball, Inflation(gas=True), solver=geosim.ProjectiveShapeSolver())


def test_a_sealed_shell_under_a_plate_by_hand():
    """p V holds with the volume that was solved; what the plate gives is stored in wall, contact and gas; measured 2e-5.

    From where three points touch on: where the first one does the force has a kink, which no spline integrates.
    """
    from scipy.interpolate import CubicSpline

    vertices, tets, regions = shapes.shell(0.01, 0.01 * RATIO, 1, 1)
    below = geosim.Select.plane("z", below=-0.008)
    shell = VolumetricRobot.from_tets(vertices, tets, regions, material=NeoHookean(mu=MU), fixed=below)
    ways = np.linspace(0.5e-3, 2e-3, 13)
    plate = geosim.Obstacle.plane((0, 0, 0.01 * RATIO), (0, 0, -1), motion=[(0, 0, -way) for way in ways])
    around = geosim.Environment(obstacles=[plate], self_contact=False)
    pressed = geosim.solve(shell, Inflation(gas=True) & Passive(steps=len(ways)), around)
    rest, v = float(shell.chamber_volumes[0]), pressed.chamber_volumes[:, 0]
    by_hand = AMBIENT_PRESSURE_PA * (rest / v - 1.0)
    np.testing.assert_allclose(pressed.chamber_pressures[:, 0], by_hand, rtol=1e-6)
    pushed = CubicSpline(ways, pressed.obstacle_forces[:, 0, 2]).integrate(ways[0], ways[-1])
    stored = pressed.work + AMBIENT_PRESSURE_PA * (rest * np.log(rest / v) - (rest - v))  # the gas in closed form
    assert pushed == pytest.approx(stored[-1] - stored[0], rel=1e-4)


@pytest.mark.parametrize("exponent", [1.0, 1.4])
def test_the_volume_of_a_gas_falls_with_its_pressure_as_its_slope_says(exponent):
    gas = Gas(2, np.eye(2), np.array([3.0, 2.0]), np.array([1.0, 1.2]), np.array([0.1, -0.2]), 2.0, exponent)
    pressures, h = np.array([0.5, -0.3]), 1e-6
    volumes, slopes = gas.volumes(pressures)
    np.testing.assert_allclose((pressures + 2.0) * (volumes + gas.beyond) ** exponent, gas.amounts * gas.warmth)
    differences = (gas.volumes(pressures + h)[0] - gas.volumes(pressures - h)[0]) / (2 * h)
    np.testing.assert_allclose(slopes, differences, rtol=1e-8)
