"""Contact of a robot with itself: near pairs against brute force, derivatives, no crossing, and what stays untouched."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import trimesh
from pairs import pair
from shapes import block

import geosim
from geosim import Environment, Passive, Prescribed, Select
from geosim.collision import proximity
from geosim.collision.crossings import count_crossings
from geosim.collision.proximity import make_neighbourhood
from geosim.geometry import topology
from geosim.shape.energy.contact.laws import pair_blocks
from geosim.shape.energy.measures import _crossings, placed
from geosim.shape.energy.newton.steps import step_limit
from geosim.shape.energy.states.configuration import ArcLengthConstraint, Configuration

MU = 20e3  # Pa


def _sheets(gap, cells=5, shift=0.0):
    """Two parallel triangulated squares that face each other, one above the other."""
    s = np.linspace(0, 1, cells + 1)
    grid = np.stack(np.meshgrid(s, s, indexing="ij"), axis=-1).reshape(-1, 2)
    i = np.arange(len(grid)).reshape(cells + 1, cells + 1)
    a, b, c, d = i[:-1, :-1].ravel(), i[1:, :-1].ravel(), i[1:, 1:].ravel(), i[:-1, 1:].ravel()
    faces = np.vstack([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)])
    low = np.column_stack([grid, np.zeros(len(grid))])
    high = np.column_stack([grid + shift, np.full(len(grid), gap)])
    return np.vstack([low, high]), np.vstack([faces, faces[:, ::-1] + len(grid)])


def test_walls_of_chambers_that_cross_are_counted_without_contact():
    """The middle of a chamber's upper wall goes through its lower one; the skin is as it was."""
    vertices, tets = block((0.02, 0.02, 0.02), (4, 4, 4))
    at = vertices[tets].mean(axis=1)
    inside = (np.abs(at - 0.01) < 0.005).all(axis=1)
    robot = geosim.VolumetricRobot.from_tets(
        vertices, tets, inside.astype(int), material=geosim.NeoHookean(mu=MU), fixed=None
    )
    solver = geosim.EnergyShapeSolver(element="p1")
    state = solver.start(robot, Environment(self_contact=False))
    assert _crossings(state.problem, state.point, placed(state.problem, state.point.x), folded=False) == 0
    middle = int(np.argmin(np.linalg.norm(vertices - [0.01, 0.01, 0.015], axis=1)))
    x = state.point.x.copy()
    x[state.problem.place[middle]] += np.array([0.0, 0.0, -0.012]) / state.problem.length
    moved = placed(state.problem, x)
    assert count_crossings(moved[: len(vertices)], robot.skin).count == 0
    assert (
        _crossings(state.problem, Configuration(x, state.point.p, state.point.scalar_forces), moved, folded=False) > 0
    )


def test_near_pairs_are_those_of_brute_force():
    rest, faces = _sheets(2.0)
    around = make_neighbourhood(rest, faces, np.zeros(len(faces), int), np.full(len(rest), 0.06))
    rng = np.random.default_rng(0)
    x, _ = _sheets(0.05, shift=0.037)
    x = x + 0.004 * rng.normal(size=x.shape)
    near = around.near(x)
    found = {
        (e, *sorted(p[: 2 if e else 1]), *sorted(p[2 if e else 1 :]))
        for p, e in zip(near.points.tolist(), near.edges.tolist())
    }
    assert len(found) == len(near.points)  # every pair once
    want = set()
    half = len(x) // 2
    for face in faces.tolist():
        for v in range(len(x)):
            if (v < half) != (face[0] < half) and pair(np.ascontiguousarray(x[[v, *face]]), False)[0] < 0.06:
                want.add((False, v, *sorted(face)))
    edges = {tuple(sorted((f[i], f[(i + 1) % 3]))) for f in faces.tolist() for i in range(3)}
    for e in edges:
        for g in edges:
            if e < g and (e[0] < half) != (g[0] < half) and pair(np.ascontiguousarray(x[[*e, *g]]), True)[0] < 0.06:
                want.add((True, *e, *g))
    assert {w for w in want if not w[0]} == {f for f in found if not f[0]}
    same = lambda w: frozenset([frozenset(w[1:3]), frozenset(w[3:])])  # noqa: E731 (an edge pair has no order)
    assert {same(w) for w in want if w[0]} == {same(f) for f in found if f[0]}


def test_different_spaces_and_excluded_faces_never_meet():
    rest, faces = _sheets(2.0)
    x, _ = _sheets(0.05)
    half = len(faces) // 2
    spaces = np.repeat([0, 1], half)
    reach = np.full(len(rest), 0.06)
    assert len(make_neighbourhood(rest, faces, np.zeros(2 * half, int), reach).near(x).points) > 0
    assert len(make_neighbourhood(rest, faces, spaces, reach).near(x).points) == 0
    masks = np.zeros((2 * half, 2), dtype=int)
    masks[:half, 0] = masks[half:, 1] = 1
    assert len(make_neighbourhood(rest, faces, np.zeros(2 * half, int), reach, masks).near(x).points) == 0


def test_no_step_passes_through():
    rest, faces = _sheets(2.0)
    around = make_neighbourhood(rest, faces, np.zeros(len(faces), int), np.full(len(rest), 0.05))
    rng = np.random.default_rng(1)
    half = len(rest) // 2
    for trial in range(20):
        x, _ = _sheets(0.3, shift=0.02 * trial)
        step = np.zeros_like(x)
        step[half:] = [0.3, -0.2, -1.0 - trial]
        step += 0.1 * rng.normal(size=x.shape)
        share = around.safe_share(x, step)
        assert 0.0 < share < 1.0
        for s in np.linspace(0, share, 6):
            assert count_crossings(x + s * step, faces).count == 0
        assert (x + share * step)[half:, 2].min() < 0.2  # it came as near as it may


def test_what_was_found_for_a_step_serves_its_end_and_nothing_else(monkeypatch):
    rest, faces = _sheets(2.0)
    make = lambda: make_neighbourhood(rest, faces, np.zeros(len(faces), int), np.full(len(rest), 0.06))  # noqa: E731
    around, descents, search = make(), [], proximity.ContactNeighbourhood._candidates
    monkeypatch.setattr(
        proximity.ContactNeighbourhood,
        "_candidates",
        lambda self, *given: descents.append(id(self)) or search(self, *given),
    )
    x, rng = _sheets(0.2)[0], np.random.default_rng(4)
    step = 0.004 * rng.normal(size=x.shape)
    step[len(x) // 2 :, 2] -= 0.16
    aside = x + step * (1.0 + 0.3 * rng.normal(size=x.shape))
    pairs = lambda near: sorted((*map(int, p), bool(e)) for p, e in zip(near.points, near.edges))  # noqa: E731
    for at, way, searches in (
        (x, step, 1),  # a step is looked at
        (x, 0.5 * step, 0),  # shortened
        (x + 0.9 * step, None, 0),  # its end, where parts touch
        (x + step, None, 0),
        (x + 1.1 * step, None, 1),  # beyond it
        (x + 1.1 * step, None, 0),
        (aside, None, 1),  # beside it
        (aside, -step, 1),
    ):
        before = descents.count(id(around))
        if way is not None:
            around.safe_share(at, way)
            assert descents.count(id(around)) - before == searches
            continue
        found = pairs(around.near(at))
        assert descents.count(id(around)) - before == searches
        assert len(found) > 0
        assert found == pairs(make().near(at))


def test_no_pair_that_touches_is_left_out_as_a_neighbour():
    """In a sheet squeezed and folded along a band the near pairs are those of a search without neighbours left out."""
    n = 25
    rest = np.array([[i + 0.5 * (j % 2), 0.87 * j, 0.0] for j in range(n) for i in range(n)])
    corner = (np.arange(n - 1)[:, None] * n + np.arange(n - 1)).ravel()
    even = (corner // n % 2 == 0)[:, None]
    quads = np.stack([corner, corner + 1, corner + n + 1, corner + n], axis=1)
    faces = np.vstack(
        [np.where(even, quads[:, [0, 1, 3]], quads[:, :3]), np.where(even, quads[:, 1:], quads[:, [0, 2, 3]])]
    )

    culled = make_neighbourhood(rest, faces, np.zeros(len(faces), int), np.full(len(rest), 0.4))
    uncertain = replace(culled.clearance, straightness=np.zeros(len(rest)))  # no vertex is ever clear
    whole = replace(culled, clearance=uncertain, memory=proximity.Memory())
    assert len(culled.clearance.pairs(rest, rest[:0])) < 0.3 * len(uncertain.pairs(rest, rest[:0]))
    pairs = lambda near: {(*map(int, p), bool(e)) for p, e in zip(near.points, near.edges)}  # noqa: E731
    rng, found = np.random.default_rng(0), 0
    for _ in range(12):
        x, d = rest.copy(), rest[:, 0] - 12.0 - rng.normal()
        width, squeeze = rng.uniform(0.5, 1.5), rng.uniform(0.1, 0.5)
        x[:, 0] -= np.clip(d, -width, width) * (1.0 - squeeze)
        x[:, 1] += 0.5 * rng.normal() * np.tanh(d / width)
        x[:, 2] = rng.uniform(0.0, 1.5) * np.exp(-((d / width) ** 2))
        all_pairs = pairs(whole.near(x))
        assert all_pairs == pairs(culled.near(x))
        found += len(all_pairs)
    assert found > 100


def test_common_motion_of_a_fold_is_free():
    rest, faces = _sheets(2.0)
    around = make_neighbourhood(rest, faces, np.zeros(len(faces), int), np.full(len(rest), 0.05))
    x, _ = _sheets(0.1)
    assert around.safe_share(x, np.broadcast_to([3.0, -2.0, 5.0], x.shape).copy()) == 1.0


def test_pair_energy_derivatives():
    rng = np.random.default_rng(4)
    rest = np.vstack(
        [
            np.array([[0.3, 0.3, 1.0], [0, 0, 0], [1, 0, 0], [0, 1, 0]]),
            np.array([[0, 0, 1.0], [1, 0, 1], [0.5, -0.5, 0], [0.5, 0.5, 0]]),
            np.array([[0, 0, 1.0], [1, 0.0, 1], [0.1, -0.01, 0], [0.9, 0.01, 0]]),
        ]
    )
    points, edges = np.arange(12).reshape(3, 4), np.array([False, True, True])
    x = rest.copy()
    x[[0, 4, 5, 8, 9], 2] = 0.03
    x += 0.003 * rng.normal(size=x.shape)
    one = np.ones(3)

    def at(y, matrix=False):
        gradients = np.zeros((3, 4, 3))
        hessians, bends = (np.zeros((3 if matrix else 0, 4, 4, 3, 3)) for _ in range(2))
        energy = pair_blocks(
            y,
            rest,
            np.full(12, 6.0),
            points,
            edges,
            0.05 * one,
            0.7 * one,
            1.3 * one,
            gradients,
            hessians,
            bends,
            np.zeros(3),
            matrix,
        )
        return energy, gradients, hessians + bends

    energy, gradients, hessians = at(x, True)
    assert energy > 0
    assert np.abs(gradients).max(axis=(1, 2)).min() > 1e-6
    h = 1e-7
    for q in range(3):
        for i in range(4):
            for k in range(3):
                move = np.zeros_like(x)
                move[points[q, i], k] = h
                up, down = at(x + move), at(x - move)
                assert gradients[q, i, k] == pytest.approx(
                    (up[0] - down[0]) / (2 * h), abs=1e-6 * np.abs(gradients[q]).max()
                )
                want = (up[1][q] - down[1][q]) / (2 * h)
                assert hessians[q, :, i, :, k] == pytest.approx(want, abs=1e-5 * np.abs(hessians[q]).max())


def test_what_slides_over_a_flat_surface_feels_it_once():
    """Above faces, edges and corners the energy of a vertex is that above one face, and nothing pushes it sideways."""
    n = 5
    plane = np.array([[i + 0.3 * j, j, 0.0] for j in range(n) for i in range(n)])
    squares = [(j * n + i, j * n + i + 1, (j + 1) * n + i + 1, (j + 1) * n + i) for j in range(4) for i in range(4)]
    faces = np.array([face for a, b, c, d in squares for face in ((a, b, d), (b, c, d))])
    around, k = np.append(np.bincount(faces.ravel()), 1).astype(float), len(faces)
    points = np.column_stack([np.full(k, len(plane)), faces])
    found = []
    for at in [(1.7, 1.6), (2.3, 1.0), (2.1, 1.5), (2.6, 2.0), (2.4, 2.4)]:  # the second and the fourth: a corner
        x, gradients, nothing = np.vstack([plane, [*at, 0.2]]), np.zeros((k, 4, 3)), np.zeros((0, 4, 4, 3, 3))
        one, edges = np.ones(k), np.zeros(k, dtype=bool)
        energy = pair_blocks(
            x, x, around, points, edges, 0.7 * one, one, one, gradients, nothing, nothing, np.zeros(k), False
        )
        found.append([energy, *gradients[:, 0].sum(axis=0)])
    assert found[0][3] < -1.0
    np.testing.assert_allclose(found, np.tile([*found[0][:1], 0.0, 0.0, found[0][3]], (5, 1)), atol=1e-12)


def _stack(gap):
    """Two blocks of unlike meshes, one above the other."""
    low, first = block((0.02, 0.02, 0.01), (3, 3, 2))
    high, second = block((0.012, 0.012, 0.01), (2, 2, 2))
    vertices = np.vstack([low, high + [0.004, 0.004, 0.01 + gap]])
    return geosim.VolumetricRobot.from_tets(
        vertices,
        np.vstack([first, second + len(low)]),
        material=geosim.NeoHookean(mu=MU),
        fixed=np.flatnonzero(vertices[:, 2] < 1e-9),
    ), len(low)


@pytest.mark.parametrize("element", ["p1", "p2"])
def test_a_block_presses_another(element):
    robot, split = _stack(0.0005)
    top = np.flatnonzero(robot.vertices[:, 2] > robot.vertices[:, 2].max() - 1e-9)
    env = Environment(prescribed=Prescribed(top, [(0, 0, -0.001), (0, 0, -0.002)]))
    result = geosim.solve(
        robot, Passive(steps=2), env, solver=geosim.EnergyShapeSolver(element=element, invariants="isochoric")
    )
    assert result.crossings.max() == 0
    assert result.contact_count[-1] > 0
    force = result.contact_forces[-1]
    low, high = force[:split].sum(axis=0), force[split:].sum(axis=0)
    assert high[2] > 0
    assert low == pytest.approx(-high, abs=1e-9 * high[2])  # action and reaction
    held = result.reactions[-1]
    assert held[:split].sum(axis=0) == pytest.approx(high, abs=1e-5 * high[2])
    gap = result.frames[-1][split:, 2].min() - 0.01
    assert gap < 0  # the upper block dents the lower


def test_parts_that_almost_touch_at_rest_feel_nothing_yet():
    robot, _ = _stack(1e-5)  # far less than the contact thickness
    top = np.flatnonzero(robot.vertices[:, 2] > robot.vertices[:, 2].max() - 1e-9)
    result = geosim.solve(robot, Passive(), Environment(prescribed=Prescribed(top, (0, 0, 0))))
    assert result.contact_count[0] == 0
    assert np.abs(result.frames[0] - robot.vertices).max() < 1e-12


def test_passing_through_is_seen_where_contact_is_off():
    robot, _ = _stack(0.0005)
    high = np.flatnonzero(robot.vertices[:, 2] > 0.0102)
    result = geosim.solve(
        robot,
        Passive(),
        Environment(prescribed=Prescribed(high, (0, 0, -0.002)), self_contact=False),
        solver=geosim.EnergyShapeSolver(element="p1"),
    )
    assert result.status is geosim.Status.CROSSED
    assert result.crossings[0] == count_crossings(result.frames[0], robot.skin).count > 0
    assert "self_contact = False" in result.message


@pytest.mark.parametrize("self_contact", [True, False])
def test_nested_curved_walls_do_not_cross_and_pushed_together_they_do(self_contact):
    """Both blocks are bent alike, z += k x^2: quadratic faces keep their distance exactly, and facets of half an edge do not."""
    gap = 0.0005
    robot, _ = _stack(gap)
    problem = geosim.EnergyShapeSolver().start(robot, Environment(self_contact=self_contact)).problem
    place = problem.rest * problem.length + problem.center
    edge = 0.02 / 3.0
    k = 2.0 * gap / ((0.5 * edge) ** 2 / 4.0)  # a chord of half an edge rises by two gaps over the curve

    def crossings(closer):
        bent = place + np.column_stack([np.zeros((len(place), 2)), k * place[:, 0] ** 2])
        bent[place[:, 2] > 0.01 + 0.5 * gap, 2] -= closer
        point = Configuration((bent - problem.center) / problem.length, np.zeros(0), np.zeros(0))
        faces6 = topology.curved_faces(robot.skin, robot.p2_edges, len(robot.vertices))
        coarse, triangles, _, _ = topology.interpolate_p2(placed(problem, point.x), faces6, 1)
        return _crossings(problem, point, placed(problem, point.x), folded=False), count_crossings(
            coarse, triangles
        ).count

    ours, coarse = crossings(0.0)
    assert ours == 0
    assert coarse > 0  # the case tells
    assert crossings(2.0 * gap)[0] > 0


def test_touching_at_rest_is_refused():
    robot, _ = _stack(0.0)
    with pytest.raises(geosim.InputError, match=r"(touch|cross) at rest, at vertices"):
        geosim.solve(
            robot,
            Passive(),
            Environment(prescribed=Prescribed(np.flatnonzero(robot.vertices[:, 2] > 0.0199), (0, 0, -0.001))),
        )


@pytest.mark.parametrize("element", ["p1", "p2"])
def test_sharpened_tangent_is_the_derivative_of_the_forces(element):
    robot, _ = _stack(0.0005)
    solver = geosim.EnergyShapeSolver(element=element)
    state = solver.start(robot, Environment())
    problem, contact, contact_state = state.problem, state.problem.contact, state.target.contact_state
    x = state.point.x.copy()
    high = x[:, 2] > (0.0102 - contact.at_rest.body.center[2]) / contact.length
    x[high, 2] -= 0.9 * 0.0005 / contact.length  # pairs begin at a quarter of their distance at rest
    x += (
        1e-3
        * np.random.default_rng(3).normal(size=x.shape)[np.argsort(np.argsort(problem.nodes))]
        * contact.thickness.min()
    )
    at = lambda y: contact.evaluate(y, contact_state, matrix=True)  # noqa: E731
    forces = at(x)
    assert forces.count > 0
    pattern, blunt = contact.stiffened(x, forces, problem.pattern, np.zeros(len(problem.pattern.indices)))
    sharp = contact.added(forces.bends, pattern, blunt)

    def product(data, d):
        out = pattern.product(data, np.concatenate([d.ravel(), np.zeros(pattern.size - d.size)]))
        return out[: d.size].reshape(d.shape)

    for seed in range(2):
        d = np.random.default_rng(seed).normal(size=x.shape)
        want = (at(x + 1e-8 * d).force - at(x - 1e-8 * d).force) / 2e-8
        assert product(sharp, d) == pytest.approx(want, abs=1e-5 * np.abs(want).max())
        assert np.sum(d * product(blunt, d)) > 0.0


def test_a_block_that_is_pushed_through_another_presses_it():
    """The first step of the upper block goes right through the lower one; what comes of it crosses nothing."""
    robot, _ = _stack(0.0005)
    top = np.flatnonzero(robot.vertices[:, 2] > robot.vertices[:, 2].max() - 1e-9)
    pushed = Environment(prescribed=Prescribed(top, (0, 0, -0.003)))
    result = geosim.solve(robot, Passive(), pushed, solver=geosim.EnergyShapeSolver(check_stability=False))
    assert result.status is geosim.Status.CONVERGED
    assert result.crossings.max() == 0


def test_a_step_changes_a_chamber_by_a_part_of_its_volume():
    """A vacuum of 30 times the shear modulus asks the walls of a box to pass through each other, all over."""
    shape = [trimesh.creation.box(extents=size) for size in ((0.02, 0.012, 0.01), (0.016, 0.009, 0.006))]
    robot = geosim.VolumetricRobot.from_surfaces(
        shape[0], [shape[1]], material=geosim.NeoHookean(3e3), max_edge=3e-3, fixed=Select.plane("x", below=-9.9e-3))  # fmt: skip
    solver = geosim.EnergyShapeSolver(element="p1", check_stability=False)
    state = solver.start(robot, Environment())
    problem, point, newton = state.problem, state.point, solver._newton
    end = solver.target(problem, state, solver.commands(robot, geosim.Inflation(pressure=-90e3))[0])
    aim = ArcLengthConstraint(state.target, end, 1.0, end.contact_state)
    evaluation = newton.evaluate(problem, point, end, matrix=True)
    step = newton.direction(problem, point, aim, evaluation, 1e-3, reuse=False)
    share = step_limit(problem, aim, step, evaluation)
    change = share * np.sum(evaluation.gradients[0] * step.x) / problem.rest_chamber_volumes[0]
    assert change == pytest.approx(-0.3)  # of its volume, at most, whatever the nodes' displacement
