"""Loads, supports, several chambers, continuation, and every input that cannot be solved."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from shapes import block, shell

import geosim
from geosim import Environment, Inflation, Load, Passive, Prescribed, Select, VolumetricRobot

SOFT = geosim.MooneyRivlin(c1=41.8e3, c2=10.6e3)


def _bar(cells=(8, 2, 2), size=(0.08, 0.01, 0.01), **more):
    vertices, tets = block(size, cells)
    options = {"material": SOFT, "fixed": Select.plane("x", below=1e-6), "tip": Select.plane("x", above=size[0] - 1e-6)}
    return VolumetricRobot.from_tets(vertices, tets, **{**options, **more})


def test_small_bending_is_euler_bernoulli_with_timoshenko_shear():
    """The root may contract sideways: its plane is held, and its middle lines."""
    robot = _bar((12, 2, 2), fixed=None)
    x, nan, force = robot.vertices, np.nan, 1e-5
    root = x[:, 0] < 1e-9
    supports = [
        Prescribed(root, (0.0, nan, nan)),
        Prescribed(root & (np.abs(x[:, 1] - 0.005) < 1e-9), (nan, 0.0, nan)),
        Prescribed(root & (np.abs(x[:, 2] - 0.005) < 1e-9), (nan, nan, 0.0)),
    ]
    result = geosim.solve(
        robot, Passive(), Environment(loads=Load.force(robot.tip, (0, 0, -force)), prescribed=supports)
    )
    E, L, inertia, A = 3 * SOFT.shear_modulus, 0.08, 0.01**4 / 12, 1e-4
    expected = force * L**3 / (3 * E * inertia) + force * L / (5 / 6 * SOFT.shear_modulus * A)
    assert x[robot.tip, 2].mean() - result.tip[-1, 2] == pytest.approx(expected, rel=0.02)
    assert result.reactions[-1].sum(axis=0) == pytest.approx([0, 0, force], abs=1e-6 * force)
    moment = np.cross(x, result.reactions[-1]).sum(axis=0)
    assert moment[1] == pytest.approx(-force * L, rel=0.01)


def test_gravity_weighs_what_the_body_weighs():
    robot = _bar()
    result = geosim.solve(robot, Passive(), Environment(gravity=(0, 0, -9.81)))
    weight = SOFT.density * robot.body_volume * 9.81
    assert result.reactions[-1].sum(axis=0) == pytest.approx([0, 0, weight], abs=1e-6 * weight)
    assert result.tip[-1, 2] < robot.vertices[robot.tip, 2].mean()


def test_every_body_weighs_by_its_own_density():
    """Two halves of a bar, one twice as heavy as the other; the nodes between carry a share of both."""
    vertices, tets = block((0.04, 0.01, 0.01), (4, 1, 1))
    regions = (vertices[tets].mean(axis=1)[:, 0] > 0.02).astype(int)
    materials = {0: SOFT, 1: replace(SOFT, density=2.0 * SOFT.density)}
    robot = VolumetricRobot.from_tets(vertices, tets, regions, material=materials, fixed=Select.plane("x", below=1e-6))
    result = geosim.solve(robot, Passive(), Environment(gravity=(0, 0, -1.0)))
    weight = 1.5 * SOFT.density * robot.body_volume
    assert result.reactions[-1].sum(axis=0) == pytest.approx([0, 0, weight], abs=1e-6 * weight)
    moment = np.cross(result.frames[-1], result.reactions[-1]).sum(axis=0)
    assert moment[1] == pytest.approx(-weight * (0.01 + 2 * 0.03) / 3, rel=0.01)  # about the middles of the halves


def test_what_is_given_for_a_command_acts_in_that_command():
    """Forces, torques, displacements, plates and obstacles, two commands each; in a solve the reactions are those forces."""
    pushed = Load.force([0], [[1.0, 0, 0], [2.0, 0, 0]])
    np.testing.assert_array_equal([pushed.at(i)[0] for i in (0, 1)], [1.0, 2.0])
    np.testing.assert_array_equal([Load.torque([0], [3.0, 4.0]).at(i) for i in (0, 1)], [3.0, 4.0])
    held = Prescribed([0], [[0, 0, 1.0], [0, 0, 2.0]])
    np.testing.assert_array_equal([held.at(i, 1)[0, 2] for i in (0, 1)], [1.0, 2.0])
    plate = geosim.RigidGroup([0, 1, 2], force=[[5.0, 0, 0], [6.0, 0, 0]])
    np.testing.assert_array_equal([plate.at("force", i)[0] for i in (0, 1)], [5.0, 6.0])
    ball = geosim.Obstacle.sphere((0, 0, 0), 1.0, motion=[[7.0, 0, 0], [8.0, 0, 0]])
    np.testing.assert_array_equal([ball.pose(i)[0, 3] for i in (-1, 0, 1)], [0.0, 7.0, 8.0])
    robot, forces = _bar((4, 1, 1)), np.array([[0, 0, 1e-4], [0, 0, 3e-4]])
    result = geosim.solve(robot, Passive(steps=2), Environment(loads=Load.force(robot.tip, forces)))
    np.testing.assert_allclose(result.reactions.sum(axis=1), -forces, atol=1e-9)


def test_a_force_spreads_by_area_by_length_or_equally():
    robot = _bar()
    face = robot.tip
    edge = np.flatnonzero((robot.vertices[:, 0] > 0.0799) & (robot.vertices[:, 2] > 0.00999))
    for ids in (face, edge, edge[:1]):
        result = geosim.solve(robot, Passive(), Environment(loads=Load.force(ids, (0, 0, -2e-4))))
        assert result.reactions[-1].sum(axis=0) == pytest.approx([0, 0, 2e-4], abs=1e-9)


@pytest.mark.parametrize("order", [1, 2])
def test_a_spread_load_does_the_work_of_a_uniform_one(order):
    """Weights integrate the element's own displacements exactly: y^2 over an edge or a face gives a third of L^2."""
    from geosim.shape.energy.discretisation.loads import load_shapes

    robot = _bar()
    edge = np.flatnonzero((robot.vertices[:, 0] > 0.0799) & (robot.vertices[:, 2] > 0.00999))
    loads = [Load.force(robot.tip, (1, 0, 0)), Load.force(edge, (1, 0, 0)), Load.traction(_end_faces(robot), (1, 0, 0))]
    y = np.concatenate([robot.vertices, robot.vertices[robot.p2_edges].mean(axis=1)])[:, 1] / 0.01
    for (weights, _), total in zip(load_shapes(robot, Environment(loads=loads), order), (1.0, 1.0, 1e-4)):
        assert weights.sum() == pytest.approx(total, rel=1e-12)
        assert weights @ y == pytest.approx(total / 2, rel=1e-12)
        if order == 2:
            assert weights @ y**2 == pytest.approx(total / 3, rel=1e-12)


def _end_faces(robot):
    return robot.skin[(robot.vertices[robot.skin][:, :, 0] > 0.08 - 1e-9).all(axis=1)]


def test_mid_edge_nodes_are_held_by_faces_and_tets_never_by_their_ends_alone():
    from geosim.shape.energy.constraints.supports import held_nodes

    robot = _bar((4, 4, 4))
    n = len(robot.vertices)

    def mid_edges(vertices):
        chosen = np.zeros(n, dtype=bool)
        chosen[vertices] = True
        return {tuple(e) for e in robot.p2_edges[held_nodes(robot, chosen)[n:]].tolist()}

    face = np.sort(robot.skin[0])
    assert mid_edges(face[:2]) == set()
    assert mid_edges(face) == {(face[0], face[1]), (face[0], face[2]), (face[1], face[2])}
    on_skin = np.isin(robot.body_tets, robot.skin)
    inner = np.sort(robot.body_tets[np.argmin(on_skin.sum(axis=1))])
    assert not np.isin(inner, robot.skin).all()
    assert len(mid_edges(inner)) == 6
    assert mid_edges(inner[:3]) == set()


def test_tip_is_the_area_weighted_mean():
    """On an end with unequal triangles the tip is the centroid of the face, not the mean of its vertices."""
    vertices, tets = block((0.08, 0.01, 0.01), (6, 3, 3))
    vertices = vertices * [1, 1, 1] + np.outer((vertices[:, 1] / 0.01) ** 2 * (1 - vertices[:, 1] / 0.01), [0, 0.01, 0])
    robot = VolumetricRobot.from_tets(
        vertices, tets, material=SOFT, fixed=Select.plane("x", below=1e-6), tip=Select.plane("x", above=0.08 - 1e-6)
    )
    assert robot.tip_weights @ robot.vertices[robot.tip] == pytest.approx([0.08, 0.005, 0.005], rel=1e-9)
    assert abs(robot.vertices[robot.tip][:, 1].mean() - 0.005) > 1e-4


def test_loads_may_change_with_the_command_and_act_in_full():
    robot = _bar()
    load = Load.force(robot.tip, [(0, 0, -1e-3), (0, 0, -2e-3), (0, 0, 0)])
    result = geosim.solve(robot, Passive(steps=3), Environment(loads=load))
    np.testing.assert_allclose(result.reactions.sum(axis=1)[:, 2], [1e-3, 2e-3, 0], atol=1e-8)
    np.testing.assert_allclose(result.frames[2], robot.vertices, atol=1e-6 * 0.08)


def test_prescribed_displacements_are_met_and_their_force_is_returned():
    robot = _bar()
    pulled = Prescribed(robot.tip, [(0.004, np.nan, np.nan), (0.008, np.nan, np.nan)])
    result = geosim.solve(robot, Passive(steps=2), Environment(prescribed=pulled))
    np.testing.assert_allclose(
        result.frames[:, robot.tip, 0] - 0.08, [[0.004] * len(robot.tip), [0.008] * len(robot.tip)], atol=1e-15
    )
    stretch = 1.1
    c1, c2 = SOFT.constants()
    force = 2 * (c1 + c2 / stretch) * (stretch - stretch**-2) * 1e-4
    assert result.reactions[-1][robot.tip, 0].sum() == pytest.approx(force, rel=0.02)


def _two_chambers():
    """Two thick spheres side by side in one robot: two bodies, two chambers."""
    vertices, tets, regions = shell(0.01, 0.02, 1, 2)
    n = len(vertices)
    return VolumetricRobot.from_tets(
        np.vstack([vertices, vertices + [0.05, 0, 0]]),
        np.vstack([tets, tets + n]),
        np.r_[np.where(regions == 0, 0, 1), np.where(regions == 0, 0, 2)],
        material=SOFT,
        fixed=None,
    )


def test_chambers_by_volume_and_by_pressure_together():
    robot, flat = _two_chambers(), geosim.EnergyShapeSolver(element="p1")
    single = geosim.solve(robot, Inflation(volume_ratio=[[1.5, 1.5]]), solver=flat)
    p = single.chamber_pressures[0, 0]
    mixed = geosim.solve(robot, Inflation(volume_ratio=[[1.5, np.nan]], pressure=[[np.nan, p]]), solver=flat)
    np.testing.assert_allclose(mixed.volume_ratios[0], [1.5, 1.5], rtol=1e-5)
    np.testing.assert_allclose(mixed.chamber_pressures[0], [p, p], rtol=1e-5)
    vented = geosim.solve(robot, Inflation(volume_ratio=[[1.5, np.nan]]), solver=flat)
    np.testing.assert_allclose(vented.volume_ratios[0], [1.5, 1.0], rtol=1e-6)
    assert vented.chamber_pressures[0, 1] == 0.0


def test_vacuum_and_deflation():
    robot = _two_chambers()
    result = geosim.solve(robot, Inflation(volume_ratio=0.8))
    assert (result.chamber_pressures < 0).all()
    back = geosim.solve(robot, Inflation(pressure=result.chamber_pressures))
    np.testing.assert_allclose(back.volume_ratios, 0.8, rtol=1e-5)


def test_volume_that_held_walls_displace_is_seen_by_the_first_newton_step():
    """A part of the chamber's wall is pushed by 1 % of the radius while the volume is held: an error of second order."""
    vertices, tets, regions = shell(0.01, 0.02, 1, 2)
    robot = VolumetricRobot.from_tets(
        vertices, tets, regions, material=SOFT, fixed=np.flatnonzero(vertices[:, 0] > 0.015)
    )
    wall = np.unique(robot.chamber_walls[0])
    pushed = wall[robot.vertices[wall, 0] < -0.004]
    environment = Environment(prescribed=Prescribed(pushed, (-1e-4, 0, 0)))
    result = geosim.solve(robot, Inflation(volume_ratio=1.0), environment)
    assert result.trace[1]["volume_residual"] < 3e-4
    assert result.volume_ratios[0, 0] == pytest.approx(1.0, abs=1e-8)


def test_a_solve_continues_from_a_result():
    robot = _two_chambers()
    whole = geosim.solve(robot, Inflation(volume_ratio=[1.3, 1.6]))
    half = geosim.solve(robot, Inflation(volume_ratio=1.3))
    rest = geosim.solve(robot, Inflation(volume_ratio=1.6), initial=half)
    np.testing.assert_allclose(rest.frames[-1], whole.frames[-1], atol=1e-6 * 0.05)


def test_p2_result_gives_nodes_and_a_curved_surface():
    robot = _two_chambers()
    result = geosim.solve(robot, Inflation(volume_ratio=1.5))
    assert result.nodes().shape == (len(robot.vertices) + len(robot.p2_edges), 3)
    flat, curved = result.surface(subdivide=0), result.surface(subdivide=2)
    assert len(curved.faces) == 16 * len(flat.faces)
    assert curved.is_watertight
    assert curved.volume > flat.volume
    assert result.trace[0]["iteration"] == 1
    assert set(result.trace[0]["seconds"]) >= {"assembly", "factorisation"}
    assert (result.stable == 1).all()


def test_volume_of_a_chamber_closed_by_a_fixed_plate():
    """The cap belongs to the chamber's wall; an open chamber is refused."""
    vertices, tets, regions = shell(0.01, 0.02, 1, 2)
    centers = vertices[tets].mean(axis=1)
    keep = (vertices[tets][:, :, 0] < 0.006).any(axis=1) & (centers[:, 0] < 0.006)
    tets, regions = tets[keep], regions[keep]
    used = np.unique(tets)
    new = np.full(len(vertices), -1)
    new[used] = np.arange(len(used))
    tets, vertices = new[tets], vertices[used]
    probe = VolumetricRobot.from_tets(vertices, tets, regions, material=SOFT, fixed=np.array([0]))
    cap = np.unique(probe.chamber_caps[0])
    body_rim = cap[probe.body_vertices[cap]]
    robot = VolumetricRobot.from_tets(vertices, tets, regions, material=SOFT, fixed=np.union1d(cap, body_rim))
    result = geosim.solve(robot, Inflation(volume_ratio=1.2))
    assert result.volume_ratios[0, 0] == pytest.approx(1.2)
    with pytest.raises(geosim.InputError, match="open"):
        geosim.solve(probe, Inflation(volume_ratio=1.2))


def _squeezed():
    robot = _bar(fixed=None)
    surface = np.unique(robot.skin)
    geosim.solve(robot, Passive(), Environment(prescribed=Prescribed(surface, 0.1 * robot.vertices[surface][None])))


def test_a_loose_body_beside_one_that_is_held_is_named_by_its_place():
    points, tets = block((0.02, 0.01, 0.01), (2, 1, 1))
    both = np.vstack([points, points + (0.0, 0.05, 0.0)])
    robot = VolumetricRobot.from_tets(
        both,
        np.vstack([tets, tets + len(points)]),
        material=SOFT,
        fixed=np.flatnonzero((both[:, 0] < 1e-9) & (both[:, 1] < 0.03)),
    )
    with pytest.raises(
        geosim.InputError, match=r"1 of 2 separate bodies .* around \(10, 55, 5\) mm has no resting place"
    ):
        geosim.solve(robot, Passive(), Environment(gravity=(0, 0, -9.81)))


REFUSED = {
    "no number": (lambda r: Inflation(pressure=np.nan), "pressure = nan commands nothing"),
    "two constraints": (lambda r: Inflation(volume_ratio=1.5, pressure=1e3), "both a volume ratio and a pressure"),
    "negative ratio": (lambda r: Inflation(volume_ratio=-1.0), "impossible"),
    "zero ratio": (lambda r: Inflation(volume_ratio=0.0), "impossible"),
    "nothing given": (lambda r: Inflation(), "give volume_ratio"),
    "too many chambers": (lambda r: geosim.solve(r, Inflation(volume_ratio=[[1, 2, 3]])), "3 columns given"),
    "gravity on a free body": (
        lambda r: geosim.solve(r, Inflation(volume_ratio=1.5), Environment(gravity=(0, 0, -9.81))),
        "resultant",
    ),
    "force on a free body": (
        lambda r: geosim.solve(r, Passive(), Environment(loads=Load.force([0], (1, 0, 0)))),
        "resultant",
    ),
    "gravity in mm": (lambda r: Environment(gravity=(0, 0, -9810)), "Earth"),
    "unknown element": (lambda r: geosim.EnergyShapeSolver(element="p3"), "'p3'"),
    "silly tolerance": (lambda r: geosim.EnergyShapeSolver(tolerance=1.0), "tolerance"),
    "obstacle against a free body": (
        lambda r: geosim.solve(
            r, Inflation(volume_ratio=2), Environment(obstacles=geosim.Obstacle.sphere((1, 0, 0), 0.1))
        ),
        "hold it somewhere",
    ),
    "gait": (lambda r: geosim.solve(r, geosim.UndulatoryGait(1e3, 1.0, 0.5)), "UndulatoryGait"),
    "not an actuation": (lambda r: geosim.solve(r, 2.0), "not an actuation"),
    "solver class": (lambda r: geosim.solve(r, Passive(), solver=geosim.EnergyShapeSolver), "solver object"),
    "MPa for Pa": (lambda r: geosim.MooneyRivlin(c1=0.0418, c2=0.0106), "moduli are in Pa"),
    "negative modulus": (lambda r: geosim.NeoHookean(mu=-1.0), "positive"),
    "face that is none": (
        lambda r: geosim.solve(r, Passive(), Environment(loads=Load.traction([[0, 1, 2000]], (1, 0, 0)))),
        "not a face",
    ),
    "one vertex fixed": (
        lambda r: geosim.solve(
            VolumetricRobot.from_tets(
                r.vertices, r.tets, r.regions, material=SOFT, fixed=np.flatnonzero(r.body_vertices)[:1]
            ),
            Passive(),
        ),
        "rigid body",
    ),
    "linear elastic": (
        lambda r: VolumetricRobot.from_tets(
            r.vertices, r.tets, r.regions, fixed=None, material=geosim.LinearElastic(1e5)
        ),
        "NeoHookean",
    ),
    "unknown preset": (
        lambda r: VolumetricRobot.from_tets(r.vertices, r.tets, r.regions, fixed=None, material="ecoflex-0030"),
        "ecoflex-00-30",
    ),
    "metres for mm": (
        lambda r: VolumetricRobot.from_tets(r.vertices * 1e3, r.tets, r.regions, fixed=None, material=SOFT),
        "mistaken unit",
    ),
    "empty selection": (
        lambda r: VolumetricRobot.from_tets(
            r.vertices, r.tets, r.regions, material=SOFT, fixed=Select.plane("x", below=-9)
        ),
        "selects no vertex",
    ),
    "id that does not exist": (
        lambda r: VolumetricRobot.from_tets(r.vertices, r.tets, r.regions, material=SOFT, fixed=[99999]),
        "99999",
    ),
    "nan": (
        lambda r: VolumetricRobot.from_tets(
            np.where(r.vertices == r.vertices[0], np.nan, r.vertices), r.tets, r.regions, material=SOFT, fixed=None
        ),
        "nan",
    ),
    "flat tet": (
        lambda r: VolumetricRobot.from_tets(
            [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]], [[0, 1, 2, 3]], material=SOFT, fixed=None
        ),
        "zero volume",
    ),
    "whole surface squeezed": (lambda r: _squeezed(), "change its volume by 33.1 %"),
    "prescribed twice": (
        lambda r: geosim.solve(
            _bar(), Passive(), Environment(prescribed=[Prescribed(Select.plane("x", below=1e-6), (0.001, 0, 0))])
        ),
        "already held",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_in_one_clear_line(case):
    robot = _two_chambers()
    make, words = REFUSED[case]
    with pytest.raises(geosim.InputError, match=words) as caught:
        make(robot)
    assert "\n" not in str(caught.value)


def test_what_cannot_be_reached_says_so_and_keeps_what_was():
    robot = _two_chambers()
    solver = geosim.EnergyShapeSolver(max_iterations=2, min_increment=0.4)
    with pytest.raises(geosim.SolveError) as caught:
        geosim.solve(robot, Inflation(volume_ratio=[1.0, 4.0]), solver=solver)
    result = caught.value.result
    assert not result.converged
    assert result.status is geosim.Status.NOT_CONVERGED
    assert len(result.frames) == 1
    assert "Take smaller steps" in str(caught.value)


def test_interruption_keeps_the_frames(monkeypatch):
    robot = _two_chambers()
    original = geosim.EnergyShapeSolver.step

    def step(self, state, command, progress=None):
        if command.index == 1:
            raise KeyboardInterrupt
        return original(self, state, command, progress)

    monkeypatch.setattr(geosim.EnergyShapeSolver, "step", step)
    result = geosim.solve(robot, Inflation(volume_ratio=[1.2, 1.4]), throw=False)
    assert result.status is geosim.Status.INTERRUPTED
    assert len(result.frames) == 1
    assert not result.converged


def test_a_system_that_does_not_fit_is_refused_before_it_is_factorised(monkeypatch):
    from geosim.linear import factoriser
    from geosim.linear.factorise import installed

    monkeypatch.setattr(factoriser, "available_bytes", lambda: 1e5)
    for name in installed():
        with pytest.raises(geosim.InputError, match=r"GB to factorise.*max_edge"):
            geosim.solve(_two_chambers(), Inflation(volume_ratio=1.5), solver=geosim.EnergyShapeSolver(factoriser=name))


def test_the_solver_goes_on_without_the_fast_factorisers(monkeypatch):
    from geosim.linear import factorise

    monkeypatch.setattr(factorise, "mkl", lambda: None)
    assert "pardiso" not in factorise.installed()
    monkeypatch.setattr(factorise, "library", lambda: None)
    assert factorise.describe()["factoriser"] == "superlu"
    result = geosim.solve(_two_chambers(), Inflation(volume_ratio=1.2))
    assert result.converged
    with pytest.raises(geosim.InputError, match="pip install pypardiso"):
        geosim.solve(
            _two_chambers(), Inflation(volume_ratio=1.2), solver=geosim.EnergyShapeSolver(factoriser="pardiso")
        )
