"""The largest stretch and stress as balls of half the local wall read them: closed forms, meshes, derivatives."""

from dataclasses import replace

import numpy as np
import pytest
import shapes

import geosim
from geosim import EnergyShapeSolver, Goal, Inflation, InputError, NeoHookean, VolumetricRobot, generate
from geosim.geometry import topology
from geosim.measures.gauges import Gauges, walls
from geosim.measures.strain import equivalent_stress, stretch
from geosim.response.accuracy.bars import bars_of

MU = 50e3
RUBBER = NeoHookean(mu=MU)
SIZE = np.array([0.03, 0.02, 0.008])  # of a slab; its wall is its height


def slab(cells=(6, 4, 2), material=RUBBER):
    vertices, tets = shapes.block(SIZE, cells)
    return VolumetricRobot.from_tets(vertices, tets, material=material, fixed=vertices[:, 0] < 1e-9)


def at_rest(robot):
    return topology.with_mid_edges(robot.vertices, robot.p2_edges)


def bent(robot, curvature):
    """u_x = curvature x (z - middle): the stretch is linear through the slab; quadratic, so P2 elements have it exactly."""
    rest = at_rest(robot)
    out = rest.copy()
    out[:, 0] += curvature * rest[:, 0] * (rest[:, 2] - 0.5 * SIZE[2])
    return out


def test_a_homogeneous_deformation_is_read_as_it_is():
    robot = slab()
    F = np.array([[1.5, 0.2, 0.0], [0.0, 0.8, 0.1], [0.0, 0.0, 0.9]])
    nodes, gauges = at_rest(robot) @ F.T, Gauges(robot)
    (found,), (stress,) = gauges.stretches(nodes), gauges.stresses(nodes)
    assert found.value == pytest.approx(np.linalg.svd(F)[1][0], rel=1e-9)
    J = np.linalg.det(F)
    left = MU * J ** (-5 / 3) * (F @ F.T - np.trace(F @ F.T) / 3 * np.eye(3))
    assert stress.value == pytest.approx(np.sqrt(1.5 * (left**2).sum()), rel=1e-9)


def test_the_largest_stretch_is_that_of_the_singular_values():
    """Also where two principal stretches are equal, or nearly: there the closed form of the eigenvalue has half the digits."""
    random = np.random.default_rng(1)
    turned = np.linalg.qr(random.standard_normal((60, 3, 3)))[0]
    F = np.concatenate(
        [turned * s for s in ([1.3, 1.3, 0.6], [1.3, 1.3 - 1e-7, 0.6], [1.3, 0.9, 0.9], [1.0, 1.0, 1.0])]
    )
    F = np.concatenate([F, random.standard_normal((60, 3, 3)), np.zeros((1, 3, 3))])
    np.testing.assert_allclose(stretch(F), np.linalg.svd(F)[1][:, 0], rtol=4e-15)


def test_the_wall_is_the_least_that_a_place_is_within():
    robot = slab()
    np.testing.assert_allclose(walls(robot, at_rest(robot)), SIZE[2], rtol=1e-5)
    finger = generate.round_finger(length=30e-3, radius=10e-3, wall=2e-3, cap=5e-3).robot(RUBBER, max_edge=10e-3)
    middle = (np.abs(finger.vertices[:, 0] - 15e-3) < 6e-3) & finger.body_vertices
    np.testing.assert_allclose(walls(finger, finger.vertices[middle]), 2e-3, rtol=0.05)


@pytest.mark.parametrize("cells", [(3, 2, 1), (6, 4, 3)])
def test_a_bent_slab_is_read_below_its_surface_on_every_mesh(cells):
    """A half ball of radius h / 4 at the surface has its mean 3 / 32 h below it: there the gauge reads, not at the surface."""
    robot = slab(cells)
    (found,) = Gauges(robot).stretches(bent(robot, 40.0))
    shear = 40.0 * SIZE[0]  # du_x / dz at the free end
    depth = 40.0 * SIZE[2] * (0.5 - 3.0 / 32.0)
    F = np.eye(3) + np.outer([1.0, 0.0, 0.0], [depth, 0.0, shear * (1.0 - 3.0 / 32.0 * SIZE[2] / SIZE[0])])
    assert found.value == pytest.approx(float(stretch(F)), rel=4e-3)


@pytest.mark.parametrize("kind", ["stretch", "stress"])
def test_slopes_agree_with_differences(kind):
    robot = slab((3, 2, 1))
    random = np.random.default_rng(0)
    nodes = bent(robot, 40.0) + 2e-4 * random.standard_normal((len(at_rest(robot)), 3))
    gauges = Gauges(robot)
    (found,) = gauges.stretches(nodes) if kind == "stretch" else gauges.stresses(nodes)
    by_nodes, by_rest = gauges.slopes(found, nodes, kind)
    of = stretch if kind == "stretch" else lambda F: equivalent_stress(RUBBER, F)
    way, moved = random.standard_normal(nodes.shape), random.standard_normal(robot.vertices.shape)
    h = 1e-8
    high, low = (float(of(gauges.mean(found, nodes + s * h * way))) for s in (1.0, -1.0))
    assert np.sum(by_nodes * way) == pytest.approx((high - low) / (2 * h), rel=1e-5)
    high, low = (
        float(of(Gauges(replace(robot, vertices=robot.vertices + s * h * moved)).mean(found, nodes)))
        for s in (1.0, -1.0)
    )
    assert np.sum(by_rest * moved) == pytest.approx((high - low) / (2 * h), rel=1e-5)


def test_share_beyond_a_limit_is_that_of_a_linear_field():
    """u_x = a x^2 / 2: the stretch 1 + a x is beyond 1 + a s on the share 1 - s / length."""
    robot = slab((3, 1, 1))
    nodes = at_rest(robot)
    nodes[:, 0] += 0.5 * 20.0 * nodes[:, 0] ** 2
    for share in (0.1, 0.5, 0.77):
        limit = np.array([1.0 + 20.0 * (1.0 - share) * SIZE[0]])
        assert Gauges(robot).share_beyond(nodes, limit) == pytest.approx(share, abs=1e-4)
    assert Gauges(robot).share_beyond(nodes, np.array([2.0])) == 0.0
    assert Gauges(robot).share_beyond(nodes, np.array([0.9])) == 1.0


@pytest.fixture(scope="module")
def blown():
    known = RUBBER.known_as("a test", 1.06, 0.1)
    robot = generate.pneunet(chambers=1, chamber_length=12e-3).robot(known, max_edge=12e-3)
    return geosim.solve(robot, Inflation(pressure=[1e3, 3e3]), solver=EnergyShapeSolver(element="p1"))


@pytest.mark.slow
def test_sensitivities_bars_and_goals_take_them(blown):
    more, less = (
        geosim.solve(blown.robot, Inflation(pressure=[p]), solver=blown.solver) for p in (3.0e3 + 8.0, 3.0e3 - 8.0)
    )
    measures = ("max_stretch", "max_von_mises")
    for of, bars in zip(measures, bars_of(blown, measures)):
        value = getattr(blown, of)[-1]
        slope = geosim.sensitivity(blown, of, "pressure")
        assert slope.value == value
        assert slope.jacobian[0] == pytest.approx((getattr(more, of)[-1] - getattr(less, of)[-1]) / 16.0, rel=1e-5)
        assert bars.value == value
        assert 0.0 < bars.mesh < value
    vertices = geosim.sensitivity(blown, "max_stretch", "vertices").jacobian
    wall = geosim.sensitivity(blown, "max_stretch", "design.wall").jacobian
    from geosim.response.derivatives.rest_shape import design_motion

    assert np.sum(vertices * design_motion(blown.robot, "wall")) == pytest.approx(float(wall), rel=1e-5)
    found = geosim.solve_for(blown.robot, Goal(max_stretch=1.05), vary="pressure", solver=blown.solver)
    assert found.reached
    assert found.result.max_stretch[-1] == pytest.approx(1.05, rel=1e-3)


def test_the_margin_is_said_with_its_place_and_share(blown):
    place, most, known = blown.stretch_place()
    assert blown.stretch_margin[-1] == pytest.approx(1.06 / most)
    assert known == 1.06
    assert most == blown.max_stretch[-1] > 1.06
    assert np.linalg.norm(blown.nodes(1) - place, axis=1).min() == 0.0
    (said,) = [s for s in blown.trust() if "is known" in s]
    assert "frame 1, at (" in said
    assert 0.0 < blown.share_beyond() < blown.share_beyond(1.02) < 1.0
    soft = geosim.solve(blown.robot.with_materials(RUBBER), Inflation(pressure=[1e3]), solver=blown.solver)
    assert np.isnan(soft.stretch_margin).all()
    with pytest.raises(InputError, match=r"limit=1\.5"):
        soft.share_beyond()
    with pytest.raises(InputError, match=r"Goal\(max_stretch=1\.5\)"):
        Goal()


@pytest.mark.parametrize(("cells", "resolved"), [(1, False), (5, True)])
def test_a_gauge_narrower_than_its_elements_is_not_resolved(cells, resolved):
    """A gauge is half a wall wide: one cell through the wall is wider, five are not; edges include diagonals."""
    vertices, tets = shapes.block(np.full(3, 0.01), (cells,) * 3)
    robot = VolumetricRobot.from_tets(vertices, tets, material=NeoHookean(mu=35e3), fixed=vertices[:, 0] < 1e-9)
    nodes = topology.with_mid_edges(robot.vertices, robot.p2_edges) * [1.2, 1.0, 1.0]
    gauges = Gauges(robot)
    (reading,) = gauges.stretches(nodes)
    assert (gauges.coarseness(reading) < 0.75) == resolved
    assert (gauges.coarseness(reading) > 1.5) != resolved
