"""Every derivative of the energy solver against finite differences, and what must not matter to it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from shapes import block, shell

import geosim
from geosim.model.environment import Environment
from geosim.shape.energy.discretisation import threads
from geosim.shape.energy.newton.equations import with_proximal_term
from geosim.shape.energy.problem import make_problem
from geosim.shape.energy.solver import EnergyShapeSolver
from geosim.shape.energy.states.configuration import Configuration, ProximalTerm

MATERIALS = [
    geosim.MooneyRivlin(c1=41.8e3, c2=10.6e3),
    geosim.MooneyRivlin(c1=41.8e3, c2=10.6e3, bulk_modulus=5e6),
    geosim.Yeoh(c1=30e3, c2=-1e3, c3=500.0),
]


def _sphere(material=MATERIALS[0], **more):
    vertices, tets, regions = shell(0.01, 0.02, 1, 2)
    return geosim.VolumetricRobot.from_tets(vertices, tets, regions, material=material, fixed=None, **more)


def _random_point(problem, seed=0):
    rng = np.random.default_rng(seed)
    x = problem.rest * np.array([1.1, 0.9, 1.2]) + 2e-3 * rng.standard_normal(problem.rest.shape)
    return x, rng.standard_normal(len(problem.pressure_vertices)), np.array([0.7])


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("material", MATERIALS, ids=["incompressible", "compressible", "yeoh"])
def test_the_assembled_matrix_is_the_derivative_of_the_residual(order, material):
    """With the chamber's pressure term: the wall is closed, so its Hessian is symmetric."""
    problem = make_problem(_sphere(material), Environment(), order, "superlu")
    x, p, pressures = _random_point(problem)
    rng = np.random.default_rng(1)
    u, q = rng.standard_normal(x.shape), rng.standard_normal(p.shape)
    external = np.zeros_like(x)
    data = problem.evaluate(x, p, pressures, external, matrix=True).data
    product = problem.pattern.product(data, np.r_[u.ravel(), q])
    h = 4e-6
    plus, minus = (problem.evaluate(x + s * h * u, p + s * h * q, pressures, external, matrix=False) for s in (1, -1))
    numeric = np.r_[(plus.force - minus.force).ravel(), plus.constraint - minus.constraint] / (2 * h)
    assert np.abs(numeric - product).max() <= 1e-6 * np.abs(product).max()


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("material", MATERIALS[:2], ids=["incompressible", "compressible"])
def test_forces_of_all_but_flat_elements_are_the_slope_of_an_energy(order, material):
    """Squeezed to a tenth of its volume: the barrier acts, its force is the slope of its energy, its matrix of its force."""
    problem = make_problem(_sphere(material), Environment(), order, "superlu")
    rng = np.random.default_rng(3)
    x = problem.rest * np.array([1.1, 0.8, 0.12]) + 3e-4 * rng.standard_normal(problem.rest.shape)
    zero, none, external = np.zeros(len(problem.pressure_vertices)), np.zeros(1), np.zeros_like(x)
    u, h = rng.standard_normal(x.shape), 1e-7
    here = problem.evaluate(x, zero, none, external, matrix=True)
    assert 0.0 < here.smallest < 0.1
    plus, minus = (problem.evaluate(x + s * h * u, zero, none, external, matrix=False) for s in (1, -1))
    assert (plus.energy - minus.energy) / (2 * h) == pytest.approx(float(np.sum(here.force * u)), rel=1e-6)
    product = problem.pattern.product(here.data, np.r_[u.ravel(), zero])[: x.size]
    numeric = (plus.force - minus.force).ravel() / (2 * h)
    assert np.abs(numeric - product).max() <= 1e-5 * np.abs(product).max()


@pytest.mark.parametrize("order", [1, 2])
def test_the_barrier_holds_volumes_open_and_leaves_sound_shapes_alone(order):
    """One element flatter than the rest: its energy grows without bound, and with it the force that opens it again."""
    vertices = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    material = geosim.NeoHookean(mu=1e3)
    robot = geosim.VolumetricRobot.from_tets(vertices, np.array([[0, 1, 2, 3]]), material=material, fixed=[0, 1, 2])
    problem = make_problem(robot, Environment(), order, "superlu")
    nothing = np.zeros(len(problem.pressure_vertices)), np.zeros(0), np.zeros_like(problem.rest)

    def barrier(height):
        found = problem.evaluate(problem.rest * np.array([1.0, 1.0, height]), *nothing, matrix=False)
        return found.energy

    volume = problem.body_volume
    gap = barrier(1e-6) - barrier(1e-4)  # the strain energy of the full form hardly changes any more
    # of P2 once at the points of incompressibility and once at corners and mid-edges
    assert gap == pytest.approx(order * volume * 0.2**2 * np.log(1e2), rel=5e-3)
    assert barrier(0.0) == barrier(-0.1) == np.inf


@pytest.mark.parametrize("coupled", [False, True])
def test_the_pattern_holds_what_elements_couple_and_no_more(coupled):
    """Against all pairs of nodes of every element, one by one; pressures couple with themselves alone, or with each other."""
    problem = make_problem(_sphere(MATERIALS[int(coupled)]), Environment(), 2, "superlu")
    mesh, pattern, nodes = problem.mesh, problem.pattern, len(problem.rest)
    expected = set()
    for tet, pressures in zip(mesh.tets, mesh.pressure_tets):
        own = [*(3 * tet[:, None] + np.arange(3)).ravel(), *(3 * nodes + pressures)]
        expected |= {(i, j) for i in own for j in own if i == j or (i < j and (coupled or i < 3 * nodes))}
    rows = np.repeat(np.arange(pattern.size), np.diff(pattern.indptr))
    assert set(zip(rows, pattern.indices)) == expected
    assert (np.diff(pattern.indices)[np.diff(rows) == 0] > 0).all()
    np.testing.assert_array_equal(np.sort(pattern.places.order), np.arange(len(mesh.tets)))


def test_drag_pulls_nodes_back_to_where_they_were():
    """Springs k (x - before), and their stiffness on the diagonal."""
    problem = make_problem(_sphere(), Environment(), 2, "superlu")
    x, p, pressures = _random_point(problem)
    rng = np.random.default_rng(2)
    before, stiffness = x + rng.standard_normal(x.shape), rng.uniform(1.0, 2.0, len(x))
    drag = ProximalTerm(before, stiffness, np.zeros((0, 6)), np.zeros((0, 6)))
    free = problem.evaluate(x, p, pressures, np.zeros_like(x), matrix=True)
    held = with_proximal_term(problem, free, Configuration(x, p, pressures, 0.0), drag)
    np.testing.assert_allclose(held.force - free.force, stiffness[:, None] * (x - before), rtol=1e-9)
    u = rng.standard_normal(problem.pattern.size)
    change = problem.pattern.product(held.data - free.data, u)
    np.testing.assert_allclose(change[: x.size], np.repeat(stiffness, 3) * u[: x.size], rtol=1e-9)
    assert np.abs(change[x.size :]).max() == 0.0


@pytest.mark.parametrize("order", [1, 2])
def test_forces_are_the_derivative_of_the_energy(order):
    """Pi = energy + p (J - 1) - P v: the residual is its gradient, with a compressible material for p^2 / 2 kappa."""
    problem = make_problem(_sphere(MATERIALS[1]), Environment(), order, "superlu")
    x, p, pressures = _random_point(problem)
    external = 0.01 * np.random.default_rng(5).standard_normal(x.shape)

    def potential(x, p):
        e = problem.evaluate(x, p, pressures, external, matrix=False)
        # energy holds +p M p / 2 (compressibility, stabilisation), the Lagrangian -p M p / 2: p . constraint is
        # integral p (J - 1) - p M p
        return e.energy + p @ e.constraint - pressures @ e.scalars - (external * x).sum()

    e = problem.evaluate(x, p, pressures, external, matrix=False)
    rng = np.random.default_rng(2)
    h = 3e-6
    for _ in range(3):
        u, q = rng.standard_normal(x.shape), rng.standard_normal(p.shape)
        slope = (potential(x + h * u, p + h * q) - potential(x - h * u, p - h * q)) / (2 * h)
        exact = (e.force * u).sum() + (e.constraint * q).sum()
        assert slope == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("order", [1, 2])
def test_wall_volume_and_its_gradient(order):
    """The curved volume is what a fine subdivision of the wall encloses; its gradient is its derivative."""
    robot = _sphere()
    problem = make_problem(robot, Environment(), order, "superlu")
    x, p, pressures = _random_point(problem)
    evaluation = problem.evaluate(x, p, pressures, np.zeros_like(x), matrix=False)
    faces, _ = problem.closed.walls[0]
    if order == 2:
        import trimesh

        from geosim.geometry.topology import interpolate_p2

        volumes = []
        for level in (3, 4):
            points, triangles, _, _ = interpolate_p2(x, faces, level)
            volumes.append(trimesh.Trimesh(points, triangles, process=False).volume)
        limit = volumes[1] + (volumes[1] - volumes[0]) / 3.0
        assert evaluation.scalars[0] == pytest.approx(limit, rel=1e-6)
        assert abs(volumes[0] / limit - 1) > 1e-6
    rng = np.random.default_rng(3)
    h = 1e-6
    u = rng.standard_normal(x.shape)
    plus, minus = (
        problem.evaluate(x + s * h * u, p, pressures, np.zeros_like(x), matrix=False).scalars[0] for s in (1, -1)
    )
    assert (plus - minus) / (2 * h) == pytest.approx((evaluation.gradients[0] * u).sum(), rel=1e-7)
    # moving or turning the chamber changes no volume
    assert np.abs(evaluation.gradients[0].sum(axis=0)).max() < 1e-12
    assert np.abs(np.cross(x, evaluation.gradients[0]).sum(axis=0)).max() < 1e-12


def test_bernstein_bound_is_below_every_value_of_j():
    problem = make_problem(_sphere(), Environment(), 2, "superlu")
    rng = np.random.default_rng(0)
    x = problem.rest + 8e-3 * rng.standard_normal(problem.rest.shape)
    bounds = problem.jacobian_bounds(x)
    points = rng.dirichlet(np.ones(4), 200)
    F = problem.mesh.deformations(x, problem.element.slopes(points))
    sampled = np.linalg.det(F).min(axis=1)
    assert (sampled >= bounds - 1e-12).all()
    corners = np.linalg.det(problem.mesh.deformations(x, problem.element.slopes(np.eye(4)))).min(axis=1)
    assert (bounds <= corners + 1e-12).all()
    assert np.median(corners - bounds) < 0.2
    assert problem.inverted(x) >= (sampled < 0).sum() * 0.5
    assert problem.inverted(problem.rest) == 0


@pytest.mark.parametrize("element", ["p1", "p2"])
def test_patch_test(element):
    """A linear displacement of the whole surface leaves every inner node of any mesh on the same linear field."""
    vertices, tets = block((0.01, 0.012, 0.015), (3, 2, 2), skew=0.2, seed=4)
    robot = geosim.VolumetricRobot.from_tets(vertices, tets, material=MATERIALS[0], fixed=None)
    rng = np.random.default_rng(0)
    # a (x) b with a . b = 0 keeps the volume all along the load path
    a, b = rng.standard_normal(3), rng.standard_normal(3)
    b -= (a @ b) / (a @ a) * a
    G = np.eye(3) + 0.3 * np.outer(a, b) / np.linalg.norm(a) / np.linalg.norm(b)
    on_surface = np.zeros(len(vertices), dtype=bool)
    on_surface[np.unique(robot.skin)] = True
    shift = (vertices @ G.T - vertices)[on_surface][None]
    result = geosim.solve(
        robot,
        geosim.Passive(),
        Environment(prescribed=geosim.Prescribed(on_surface, shift)),
        solver=EnergyShapeSolver(element=element, tolerance=1e-11),
    )
    np.testing.assert_allclose(result.frames[-1], vertices @ G.T, atol=1e-9 * 0.01)


def _inflated(robot, **options):
    return geosim.solve(robot, geosim.Inflation(volume_ratio=1.5), solver=EnergyShapeSolver(tolerance=1e-9, **options))


def test_rigid_motion_and_renumbering_change_nothing():
    robot = _sphere(allow_any_size=True)
    fixed = np.flatnonzero(robot.vertices[:, 2] < -0.015)
    vertices, tets, regions = robot.vertices, robot.tets, robot.regions
    make = lambda v, t, r, f: geosim.VolumetricRobot.from_tets(v, t, r, material=MATERIALS[0], fixed=f)  # noqa: E731
    one = _inflated(make(vertices, tets, regions, fixed))
    Q, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))
    Q *= np.sign(np.linalg.det(Q))
    turned = _inflated(make(vertices @ Q.T + 0.3, tets, regions, fixed))
    np.testing.assert_allclose(turned.frames[0], one.frames[0] @ Q.T + 0.3, atol=1e-8 * 0.02)
    rng = np.random.default_rng(2)
    new = rng.permutation(len(vertices))  # new number of every vertex
    moved = np.empty_like(vertices)
    moved[new] = vertices
    order = rng.permutation(len(tets))
    shuffled = np.roll(new[tets], 0, axis=1)[order][:, [1, 0, 3, 2]]  # an even permutation of the corners
    other = _inflated(make(moved, shuffled, regions[order], new[fixed]))
    np.testing.assert_allclose(other.frames[0][new], one.frames[0], atol=1e-8 * 0.02)
    assert other.chamber_pressures[0, 0] == pytest.approx(one.chamber_pressures[0, 0], rel=1e-8)


def test_units_change_nothing():
    """1 kPa and 1 GPa, millimetres and metres: the same iterations, the same result to 1e-9."""
    vertices, tets, regions = shell(0.01, 0.02, 1, 2)
    results = []
    for scale, modulus in ((1.0, 40e3), (1000.0, 40e3), (1.0, 1e3), (1.0, 1e9)):
        robot = geosim.VolumetricRobot.from_tets(
            vertices * scale,
            tets,
            regions,
            fixed=np.flatnonzero(vertices[:, 0] < -0.015),
            material=geosim.MooneyRivlin(c1=0.4 * modulus, c2=0.1 * modulus),
            allow_any_size=True,
        )
        result = geosim.solve(robot, geosim.Inflation(volume_ratio=[1.5, 2.5]))
        results.append((len(result.trace), result.frames / scale, result.chamber_pressures / modulus))
    for other in results[1:]:
        assert other[0] == results[0][0]
        np.testing.assert_allclose(other[1], results[0][1], atol=1e-9 * 0.02)
        np.testing.assert_allclose(other[2], results[0][2], rtol=1e-9)


@pytest.mark.parametrize("name", ["pardiso", "rslab"])
def test_all_factorisers_give_the_same_shape(name):
    from geosim.linear.factorise import installed

    if name not in installed():
        pytest.skip(f"{name} is not installed and cannot be compared")
    robot = _sphere()
    one, other = _inflated(robot, factoriser="superlu"), _inflated(robot, factoriser=name)
    np.testing.assert_allclose(other.frames, one.frames, atol=1e-8 * 0.02)
    assert len(one.trace) == len(other.trace)


def test_block_elimination_is_exact():
    """With the factors of the matrix itself GMRES ends at once."""
    from geosim.linear.bordered import BorderedMatrix, BorderedSolver
    from geosim.linear.factorise import make_factoriser

    problem = make_problem(_sphere(), Environment(), 2, "superlu")
    rng = np.random.default_rng(0)
    systems = []
    for seed in (0, 1):
        x, p, pressures = _random_point(problem, seed)
        evaluation = problem.evaluate(x, p, pressures, np.zeros_like(x), matrix=True)
        borders = np.zeros((1, problem.pattern.size))
        borders[0, : x.size] = np.where(problem.held[: x.size], 0.0, evaluation.gradients[0].ravel())
        systems.append((problem.pattern.eliminated(evaluation.data, problem.held), borders))
    right = np.where(problem.held, 0.0, rng.standard_normal(problem.pattern.size))
    gap = np.array([0.3])
    fresh = BorderedSolver(problem.pattern, make_factoriser(problem.pattern.indptr, problem.pattern.indices, "superlu"))
    fresh.solve(BorderedMatrix(*systems[1]), right, gap, 1e-9, reuse=False)
    assert (fresh.factorisations, fresh.krylov) == (1, 1)
    solution, change = fresh.solve(BorderedMatrix(*systems[0]), right, gap, 1e-9, reuse=False)
    data, borders = systems[0]
    np.testing.assert_allclose(problem.pattern.product(data, solution) - change @ borders, right, atol=1e-7)
    assert borders[0] @ solution == pytest.approx(0.3, abs=1e-7)


@pytest.mark.parametrize("order", [1, 2])
def test_elements_that_fill_no_batch_count_once(order):
    vertices, tets = block()
    robot = geosim.VolumetricRobot.from_tets(vertices, tets[:7], material=MATERIALS[1], fixed=None)
    problem = make_problem(robot, Environment(self_contact=False), order, "superlu")
    x = 1.1 * problem.rest
    p, none = np.zeros(len(problem.pressure_vertices)), np.zeros(problem.scalars)
    found = problem.evaluate(x, p, none, np.zeros_like(x), matrix=False)
    assert found.body_volume == pytest.approx(1.1**3 * problem.mesh.volumes.sum(), rel=1e-12)


@pytest.mark.parametrize("order", [1, 2])
def test_threads_assemble_the_same(order, monkeypatch):
    """What two threads find differs by rounding, and a body turned inside out in the share of one is so in both."""
    monkeypatch.setattr(threads, "MIN_ELEMENTS_PER_THREAD", 100)
    one, two = (make_problem(_sphere(MATERIALS[1]), Environment(), order, "superlu", threads=t) for t in (1, 2))
    x, p, pressures = _random_point(one)
    found = [problem.evaluate(x, p, pressures, np.zeros_like(x), matrix=True) for problem in (one, two)]
    for name in ("data", "force", "constraint", "energy", "smallest", "body_volume", "scale"):
        a, b = (np.asarray(getattr(f, name)) for f in found)
        assert np.abs(a - b).max() <= 1e-13 * np.abs(a).max(), name
    x[one.mesh.tets[-1]] *= -1.0
    folded = [problem.evaluate(x, p, pressures, np.zeros_like(x), matrix=False) for problem in (one, two)]
    assert [np.isfinite(f.energy) for f in folded] == [False, False]


def test_what_is_asked_again_is_not_evaluated_again():
    """The same point, in other arrays, at any table that holds the same; not another point, though written over the first."""
    problem = make_problem(_sphere(MATERIALS[1]), Environment(), 2, "superlu")
    x, p, pressures = _random_point(problem)
    evaluate = lambda matrix: problem.evaluate(x, p, pressures, np.zeros_like(x), matrix=matrix)  # noqa: E731
    first = evaluate(False)
    assert evaluate(False) is first
    second = evaluate(True)
    assert second is not first
    assert second.data is not None
    x, p = x.copy(), p.copy()
    assert evaluate(True) is second
    assert evaluate(False) is second
    assert problem.evaluate(x, p, pressures, np.zeros_like(x), matrix=True, table=problem.table.copy()) is second
    other = replace(problem, table=2.0 * problem.table)
    assert other.evaluate(x, p, pressures, np.zeros_like(x), matrix=True).energy != second.energy
    evaluate(True)
    x *= np.array(
        [1.1, 1.0, 1.0]
    )  # the arrays asked with are written over; swollen alike, an isochoric energy would not change
    assert evaluate(True).energy != second.energy
