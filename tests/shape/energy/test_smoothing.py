"""Smoothed strain of linear tets, and what goes from one element or form of the energy to another."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import trimesh
from shapes import block

import geosim
from geosim import EnergyShapeSolver, generate
from geosim.geometry import topology
from geosim.shape.energy.problem import make_problem

RUBBER = geosim.MooneyRivlin(c1=40e3, c2=10e3)


def _two_materials():
    vertices, tets = block((0.01, 0.01, 0.02), (2, 2, 4), skew=0.2)
    regions = (vertices[tets].mean(axis=1)[:, 2] > 0.01).astype(int)
    materials = {0: RUBBER, 1: geosim.NeoHookean(mu=1e6)}
    return geosim.VolumetricRobot.from_tets(vertices, tets, regions, material=materials, fixed=None)


def test_domains_share_out_the_body_without_mixing_regions():
    """Their volumes are the body's, the slopes of each are those of every linear field, and each is of one region."""
    problem = make_problem(_two_materials(), geosim.Environment(), 1, "superlu")
    domains, mesh = problem.smoothing, problem.mesh
    for region in (0, 1):
        mine = domains.material == region
        assert domains.volumes[mine].sum() == pytest.approx(mesh.volumes[mesh.material == region].sum(), rel=1e-12)
    assert (domains.material[domains.of_tets] == mesh.material[:, None]).all()
    edges = {
        (*edge, m)
        for t, m in zip(mesh.tets, mesh.material)
        for edge in map(tuple, np.sort(t[topology.TET_EDGES], axis=1))
    }
    corners = {(v, m) for t, m in zip(mesh.tets, mesh.material) for v in t}
    assert len(domains.volumes) == len(edges) + len(corners)
    G = np.random.default_rng(0).standard_normal((3, 3))
    np.testing.assert_allclose(
        domains.deformations(problem.rest @ G.T + 1.0), np.tile(G, (len(domains.volumes), 1, 1)), atol=1e-12
    )


def test_a_tet_cannot_turn_inside_out_where_no_domain_does():
    """One tet is no domain, yet the energy feels it: forces are its derivative near J = 0, and beyond there is no energy."""
    problem = make_problem(_two_materials(), geosim.Environment(), 1, "superlu", isochoric=True)
    mesh, rest = problem.mesh, problem.rest
    node = int(np.argmin(np.linalg.norm(rest - rest.mean(axis=0), axis=1)))
    mine = int(np.argmin(np.where((mesh.tets == node).any(axis=1), mesh.volumes, np.inf)))
    height = mesh.barycentric[mine, list(mesh.tets[mine]).index(node)]
    p = np.zeros(len(problem.pressure_vertices))
    here = lambda y: problem.evaluate(y, p, np.zeros(0), np.zeros_like(y), matrix=False)  # noqa: E731
    flat, turned = rest.copy(), rest.copy()
    flat[node] -= 0.95 * height / (height @ height)
    turned[node] -= 1.05 * height / (height @ height)
    assert problem.inverted(turned) > 0
    assert np.linalg.det(problem.smoothing.deformations(turned)).min() > 0.0
    assert here(turned).energy == np.inf
    assert 0.0 < here(flat).smallest < 0.1
    way, h = np.random.default_rng(1).standard_normal(flat.shape), 1e-7
    slope = (here(flat + h * way).energy - here(flat - h * way).energy) / (2 * h)
    assert slope == pytest.approx((here(flat).force * way).sum(), rel=1e-5)


@pytest.fixture(scope="module")
def bent():
    """A coarse PneuNet at V/V0 = 1.3: a function of the element and the form of the energy."""
    robot = generate.pneunet(chambers=2).robot(RUBBER, max_edge=8e-3)

    @cache
    def solved(element, form=None):
        solver = EnergyShapeSolver(element=element, invariants=form, check_stability=False)
        return geosim.solve(robot, geosim.Inflation(volume_ratio=1.3), solver=solver)

    return solved


@pytest.mark.slow
def test_p1_is_near_p2_on_the_same_mesh(bent):
    """Tip within 6 %, pressure within 10 %; plain P1-P1 is off by a third on such meshes."""
    fine, quick = bent("p2", "isochoric"), bent("p1")
    moved = lambda r: r.tip[-1] - r.robot.tip_weights @ r.robot.vertices[r.robot.tip]  # noqa: E731
    assert np.linalg.norm(moved(quick) - moved(fine)) < 0.06 * np.linalg.norm(moved(fine))
    assert quick.chamber_pressures[-1] == pytest.approx(fine.chamber_pressures[-1], rel=0.1)


@pytest.mark.parametrize("kind", [("p2", "full"), ("p1",)])
def test_a_state_goes_over_to_another_form_or_element(bent, kind):
    """It leads to the same solution as the way from rest."""
    wanted = bent("p2", "isochoric")
    again = geosim.solve(wanted.robot, geosim.Inflation(volume_ratio=1.3), solver=wanted.solver, initial=bent(*kind))
    np.testing.assert_allclose(again.frames[-1], wanted.frames[-1], atol=1e-6 * wanted.robot.size)
    assert again.chamber_pressures[-1] == pytest.approx(wanted.chamber_pressures[-1], rel=1e-5)


@pytest.mark.parametrize("order", [1, 2])
def test_pressures_go_from_one_form_to_the_other(order):
    """On a stretched bar the mean stress of the full form is (2 c1 I1 + 4 c2 I2) / 3 - 2 c1 - 4 c2; and back it is gone."""
    vertices, tets = block((0.01, 0.01, 0.02), (2, 2, 3), skew=0.2)
    robot = geosim.VolumetricRobot.from_tets(vertices, tets, material=RUBBER, fixed=None)
    full, isochoric = (
        make_problem(robot, geosim.Environment(), order, "superlu", isochoric=form) for form in (False, True)
    )
    x = full.rest * np.array([2.0, 0.5**0.5, 0.5**0.5])
    p = np.random.default_rng(0).standard_normal(len(full.pressure_vertices))
    c1, c2 = (c / full.stress for c in RUBBER.constants())
    exact = (2.0 * c1 * 5.0 + 4.0 * c2 * 4.25) / 3.0 - 2.0 * c1 - 4.0 * c2  # I1 = 4 + 2 / 2, I2 = 4 + 1 / 4
    given = full.isochoric_pressures(x, p)
    np.testing.assert_allclose(given, p + exact, atol=1e-12)
    np.testing.assert_allclose(full.isochoric_pressures(x, given, back=True), p, atol=1e-12)
    np.testing.assert_array_equal(isochoric.isochoric_pressures(x, p), p)


def test_the_stress_does_not_depend_on_the_form(bent):
    """The mean stress of the full form is split between strain energy and pressure, that of the isochoric one is pressure."""
    one, other = (bent("p2", form).stress(kind="cauchy") for form in ("isochoric", "full"))
    body = ~np.isnan(one[:, 0, 0])
    assert np.linalg.norm((one - other)[body]) < 0.15 * np.linalg.norm(one[body])


def test_a_finger_that_swells_fivefold_turns_no_tet_inside_out():
    """The domains of the smoothed strain stay sound whatever single tets do: without the barrier two are inside out here."""
    length, radius, wall, cap = 30e-3, 8e-3, 1.6e-3, 4e-3
    outer = np.array([[0.0, 0.0], [radius, 0.0], [radius, length], [0.0, length]])
    hollow = np.array([[0.0, cap], [radius - wall, cap], [radius - wall, length - cap], [0.0, length - cap]])
    body, chamber = (trimesh.creation.revolve(profile, sections=8) for profile in (outer, hollow))
    chamber.apply_translation([0.3 * wall, 0.0, 0.0])
    for surface in (body, chamber):
        surface.apply_transform(trimesh.transformations.rotation_matrix(0.5 * np.pi, [0.0, 1.0, 0.0]))
    robot = geosim.VolumetricRobot.from_surfaces(
        body, [chamber], material="ecoflex-00-30", max_edge=7e-3, fixed=geosim.Select.plane("x", below=1e-5)
    )
    solver = geosim.EnergyShapeSolver(element="p1")
    result = geosim.solve(robot, geosim.Inflation(volume_ratio=[5.0]), solver=solver)
    assert result.converged
    assert result.inverted_elements[-1] == 0
    assert result.crossings[-1] == 0
