"""Viscous materials in time: relaxation, creep, damping, derivatives, objectivity, energy; and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq
from shapes import block

import geosim
from geosim.shape.energy.discretisation.node_potential import NodePotential
from geosim.shape.energy.motion.viscosity import make_viscosity

MU, SHARES, TIMES, DT = 1e5, np.array([0.3, 0.2]), np.array([0.02, 0.3]), 0.01
PRONY = {"relaxation_shares": tuple(SHARES), "relaxation_times": tuple(TIMES)}
LIGHT = geosim.NeoHookean(mu=MU, density=1e-3, **PRONY)
ALONE = geosim.Environment(self_contact=False)
SIZE = (0.02, 0.01, 0.01)


def _robot(material, size=SIZE, cells=(1, 1, 1), fixed=None):
    vertices, tets = block(size, cells)
    tip = np.flatnonzero(vertices[:, 0] > size[0] - 1e-9)
    return geosim.VolumetricRobot.from_tets(vertices, tets, material=material, fixed=fixed, tip=tip)


def _planes(robot):
    nan, out = np.nan, []
    for axis in range(3):
        ids = np.flatnonzero(robot.vertices[:, axis] < 1e-9)
        out.append(geosim.Prescribed(ids, np.where(np.arange(3) == axis, 0.0, nan)))
    return out


def _move(robot, duration, environment=ALONE, *, steps=1, **options):
    solver = geosim.EnergyShapeStepper(**{"dt": DT, "integrator": "implicit-euler", "tolerance": 1e-9, **options})
    return geosim.solve(robot, geosim.Passive(duration, steps=steps), environment, solver=solver)


def _slope(span):
    return TIMES / span * -np.expm1(-span / TIMES)


@pytest.mark.parametrize("element", ["p2", "p1"])
def test_a_held_bar_relaxes_by_its_series(element):
    """P = mu (stretch - stretch^-2) G(t): of a stretch that came linearly in one increment the series is exact."""
    robot, stretch = _robot(LIGHT), 1.3
    far = np.flatnonzero(robot.vertices[:, 0] > SIZE[0] - 1e-9)
    pull = geosim.Prescribed(far, ((stretch - 1.0) * SIZE[0], np.nan, np.nan))
    environment = geosim.Environment(prescribed=[*_planes(robot), pull], self_contact=False)
    result = _move(robot, 0.2, environment, steps=20, element=element)
    force = [frame[far, 0].sum() for frame in result.reactions[1:]]
    left = np.exp(-(result.times[1:, None] - DT) / TIMES)
    expected = MU * (stretch - stretch**-2) * 1e-4 * (1.0 - SHARES.sum() + (SHARES * _slope(DT) * left).sum(axis=1))
    assert np.abs(force) == pytest.approx(expected, rel=1e-6)
    energies, extra = result.energies, result.extra
    assert energies - energies[0] == pytest.approx(extra["work"] - extra["dissipated"] + extra["drift"], abs=1e-12)
    assert extra["dissipated"][-1] > extra["dissipated"][0] == 0.0


def _creep(stress, spans):
    """Stretches of a bar under a dead load, by the series after steps of these spans."""
    branches, before, out = np.zeros((2, 2)), np.zeros(2), []

    def stresses(at):
        return MU * (1.0 - (at**2 + 2.0 / at) / 3.0 / np.array([at**2, 1.0 / at]))

    for span in spans:
        kept, slope = np.exp(-span / TIMES), SHARES * _slope(span)
        pull = kept @ branches - slope.sum() * before
        share = 1.0 - SHARES.sum() + slope.sum()

        def missing(at, pull=pull, share=share):
            first, second = share * stresses(at) + pull
            return at * (first - second / at**3) - stress

        stretch = brentq(missing, 0.9, 3.0, xtol=1e-13)
        branches = kept[:, None] * branches + slope[:, None] * (stresses(stretch) - before)
        before = stresses(stretch)
        out.append(stretch)
    return np.array(out)


def _loaded(robot, stress):
    """Surroundings that pull a bar by a nominal stress."""
    far = np.flatnonzero(robot.vertices[:, 0] > SIZE[0] - 1e-9)
    pull = geosim.Load.force(far, (stress * 1e-4, 0, 0))
    return geosim.Environment(prescribed=_planes(robot), loads=[pull], self_contact=False)


def test_a_loaded_bar_creeps():
    robot, stress = _robot(LIGHT), 5e4
    environment = _loaded(robot, stress)
    result = _move(robot, 0.4, environment)
    stretches = result.tip[1:, 0] / SIZE[0]
    assert stretches == pytest.approx(_creep(stress, np.full(40, DT)), abs=2e-6)
    assert stretches[-1] == pytest.approx(_creep(stress, np.full(2000, DT / 50.0))[-1], rel=1e-3)
    assert stretches[-1] > 1.05 * stretches[0]


def test_a_load_that_is_held_makes_a_bar_creep_through_equilibria():
    """Without mass, against the equation of the bar in eight times smaller steps; with mass the bar swings about it."""
    stress, at_once, hold, steps = 5e4, 1e-6, 0.4, 50
    reference = _creep(stress, [at_once, *np.full(8 * steps, hold / steps / 8)])[::8]

    def stretches(material, **options):
        robot = _robot(material)
        pulled = _move(robot, at_once, _loaded(robot, stress), dt=at_once, **options)
        solver = geosim.EnergyShapeStepper(
            **{"dt": hold / steps, "integrator": "implicit-euler", "tolerance": 1e-9, **options}
        )
        held = geosim.solve(robot, geosim.Passive(hold), _loaded(robot, stress), solver=solver, initial=pulled)
        return held, held.tip[:, 0] / SIZE[0]

    held, found = stretches(replace(LIGHT, density=1070.0), inertia=False)
    assert found == pytest.approx(reference, rel=1e-4)
    assert found[-1] > 1.1 * found[0]
    assert not held.extra["kinetic_energy"].any()
    energies, extra = held.energies, held.extra
    assert energies - energies[0] == pytest.approx(extra["work"] - extra["dissipated"] + extra["drift"], abs=1e-12)
    _, swung = stretches(replace(LIGHT, density=1070.0))
    assert np.abs(swung - reference).max() > 0.01


def test_a_chamber_under_pressure_creeps_from_one_equilibrium_of_statics_to_another():
    """At once the instantaneous moduli answer, after a long hold the relaxed ones."""
    from cubes import block as hollow

    vertices, tets, regions = hollow((3, 3, 3), 0.005, ((1, 2), (1, 2), (1, 2)))
    rubber = geosim.NeoHookean(mu=MU, bulk_modulus=1e6, density=0.0, **PRONY)
    make = lambda m: geosim.VolumetricRobot.from_tets(  # noqa: E731
        vertices, tets, regions, material=m, fixed=np.flatnonzero(vertices[:, 0] < 1e-9)
    )
    press = geosim.Passive(6.0, steps=20) & geosim.Inflation(pressure=np.full(20, 8e3))
    options = {"integrator": "implicit-euler", "inertia": False, "tolerance": 1e-8}
    first = geosim.solve(
        make(rubber), geosim.Passive(1e-6) & geosim.Inflation(pressure=8e3), ALONE,
        solver=geosim.EnergyShapeStepper(dt=1e-6, **options),
    )  # fmt: skip
    held = geosim.solve(make(rubber), press, ALONE, solver=geosim.EnergyShapeStepper(dt=0.3, **options), initial=first)
    statics = [
        geosim.solve(make(m), geosim.Inflation(pressure=8e3), ALONE, solver=geosim.EnergyShapeSolver())
        for m in (rubber.relaxed(0.0), rubber.relaxed())
    ]
    stiff, soft = (still.volume_ratios[-1, 0] for still in statics)
    assert soft - 1.0 > 1.8 * (stiff - 1.0)
    assert first.volume_ratios[-1, 0] == pytest.approx(stiff, rel=1e-4)
    assert held.volume_ratios[-1, 0] == pytest.approx(soft, rel=1e-4)
    assert (np.diff(held.volume_ratios[:, 0]) > -1e-9).all()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dt": "auto", "integrator": "implicit-euler"}, "dt = 'auto'"),
        ({"integrator": "generalized-alpha"}, "generalized-alpha"),
        ({"damping": 2.0}, "damping = 2"),
        ({"spin": (0, 0, 1)}, "spin"),
    ],
)
def test_options_of_mass_are_refused_without_inertia(options, said):
    with pytest.raises(geosim.InputError, match=said):
        geosim.EnergyShapeStepper(**{"dt": DT, "integrator": "implicit-euler", "inertia": False, **options})


def test_a_body_without_inertia_must_be_held():
    solver = geosim.EnergyShapeStepper(dt=DT, integrator="implicit-euler", inertia=False)
    weight = geosim.Environment(gravity=(0, 0, -9.81), self_contact=False)
    with pytest.raises(geosim.InputError, match="no resting place"):
        geosim.solve(_robot(replace(LIGHT, density=1070.0)), geosim.Passive(DT), weight, solver=solver)


def test_a_viscous_bar_swings_out():
    """The logarithmic decrement is pi Im E / Re E with the complex shear modulus mu + i w viscosity."""
    length, mu, lame, viscosity, density = 0.04, 1e5, 1e5 / 3.0, 12.0, 1070.0
    material = geosim.NeoHookean(mu=mu, bulk_modulus=lame + 2.0 * mu / 3.0, density=density, viscosity=viscosity)
    robot = _robot(material, (length, 0.004, 0.004), (4, 1, 1))
    modulus = mu * (3.0 * lame + 2.0 * mu) / (lame + mu)
    rate = 0.5 * np.pi / length * np.sqrt(modulus / density)
    soft = mu + 1j * rate * viscosity
    complex_modulus = soft * (3.0 * lame + 2.0 * soft) / (lame + soft)
    decrement = np.pi * complex_modulus.imag / complex_modulus.real
    velocity = np.zeros_like(robot.vertices)
    velocity[:, 0] = 1e-2 * np.sin(0.5 * np.pi * robot.vertices[:, 0] / length)
    environment = geosim.Environment(prescribed=_planes(robot), self_contact=False)
    period = 2.0 * np.pi / rate
    result = _move(
        robot, 2.0 * period, environment, dt=period / 80.0, velocity=velocity, integrator="generalized-alpha",
        spectral_radius=1.0, element="p1",
    )  # fmt: skip
    way = result.tip[:, 0] - result.tip[0, 0]
    half = len(way) // 2
    found = np.log(way[:half].max() / way[half:].max())
    assert found == pytest.approx(decrement, rel=0.03)
    extra = result.extra
    assert abs(extra["drift"][-1]) < 0.03 * result.energies[0]
    assert extra["dissipated"][-1] > 0.5 * result.energies[0]


@pytest.fixture(scope="module", params=["p2", "p1"])
def remembering(request):
    """Problem, history and positions after two increments of a body of both kinds of viscosity."""
    material = replace(LIGHT, viscosity=50.0)
    stepper = geosim.EnergyShapeStepper(element=request.param, dt=DT)
    problem = stepper.start(_robot(material), ALONE).shape.problem
    rng, x = np.random.default_rng(4), problem.rest
    moved = [x + 0.02 * rng.standard_normal(x.shape) for _ in range(3)]
    history = make_viscosity(problem).relaxed(x).ended(moved[0], 0.01).ended(moved[1], 0.02)
    return problem, history, moved


def _evaluated(problem, potential, x, *, matrix=False):
    inertia = NodePotential((), viscous=potential, table=potential.table)
    p, d = np.zeros(len(problem.pressure_vertices)), np.zeros(problem.scalars)
    return problem.evaluate(x, p, d, np.zeros_like(x), matrix=matrix, inertia=inertia)


def test_forces_and_tangent_are_derivatives(remembering):
    problem, history, (_, _, x) = remembering
    potential = history.potential(0.005)
    way = np.random.default_rng(5).standard_normal(x.shape)
    h = 1e-5
    here = _evaluated(problem, potential, x, matrix=True)
    ahead, behind = (_evaluated(problem, potential, x + s * h * way) for s in (1.0, -1.0))
    assert np.sum(here.force * way) == pytest.approx((ahead.energy - behind.energy) / (2.0 * h), rel=1e-7)
    product = here.sparsity.product(here.data, np.append(way.ravel(), np.zeros(len(here.constraint))))[: way.size]
    expected = ((ahead.force - behind.force) / (2.0 * h)).ravel()
    assert np.abs(product - expected).max() < 1e-6 * np.abs(expected).max()


def test_a_rigid_turn_makes_no_viscous_stress(remembering):
    problem, history, (_, x, _) = remembering
    angle = 0.7
    turn = np.array([[np.cos(angle), -np.sin(angle), 0.0], [np.sin(angle), np.cos(angle), 0.0], [0.0, 0.0, 1.0]])
    potential = history.potential(0.005)
    still, turned = (_evaluated(problem, potential, at) for at in (x, x @ turn.T))
    assert turned.energy == pytest.approx(still.energy, rel=1e-12)
    assert np.abs(turned.force - still.force @ turn.T).max() < 1e-10 * np.abs(still.force).max()
    ended = history.ended(x @ turn.T, 0.005)
    assert np.abs(ended.strains - history.strains).max() < 1e-13


def test_a_material_without_viscosity_remembers_nothing():
    assert make_viscosity(geosim.EnergyShapeStepper().start(_robot(LIGHT.relaxed()), ALONE).shape.problem) is None


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"relaxation_shares": (0.5, 0.5), "relaxation_times": (1.0, 2.0)}, "less than 1"),
        ({"relaxation_shares": (-0.1,), "relaxation_times": (1.0,)}, "positive"),
        ({"relaxation_shares": (0.1,), "relaxation_times": (0.0,)}, "increase"),
        ({"relaxation_shares": (0.1, 0.1), "relaxation_times": (2.0, 1.0)}, "increase"),
        ({"relaxation_shares": (0.1, 0.1), "relaxation_times": (2.0,)}, "give as many"),
        ({"viscosity": -1.0}, "viscosity"),
    ],
)
def test_impossible_series_are_refused(wrong, said):
    with pytest.raises(geosim.InputError, match=said):
        geosim.NeoHookean(mu=MU, **wrong)


@pytest.mark.parametrize("solver", [geosim.EnergyShapeSolver(), geosim.ProjectiveShapeSolver()])
def test_a_solver_without_time_refuses_a_viscous_material(solver):
    with pytest.raises(geosim.InputError, match="use EnergyShapeStepper"):
        geosim.solve(_robot(LIGHT), geosim.Passive(), ALONE, solver=solver)


def test_a_hold_relaxes_the_moduli():
    assert LIGHT.relaxed().mu == pytest.approx(MU * 0.5)
    assert LIGHT.relaxed(0.02).mu == pytest.approx(MU * (1.0 - SHARES @ -np.expm1(-0.02 / TIMES)))
    assert LIGHT.relaxed(0.0) == geosim.NeoHookean(mu=MU, density=1e-3)
    table = LIGHT.to_dict()
    assert table["relaxation_shares"] == tuple(SHARES)
    assert "viscosity" not in table
