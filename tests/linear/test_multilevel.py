"""The preconditioner on two levels: what it is made of, against dense matrices, and what it is good for."""

from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from shapes import block

import geosim
from geosim.linear.bordered import BorderedMatrix
from geosim.linear.factorise import installed, make_factoriser
from geosim.linear.krylov import flexible_gmres
from geosim.linear.multilevel import Multilevel
from geosim.model.environment import Environment
from geosim.shape.energy.problem import make_problem

DOWN = Environment(gravity=(0.0, 0.0, -400.0))  # forty times that of the earth


def _robot(parts, second=False):
    vertices, tets = block((0.02, 0.01, 0.01), parts)
    middles = vertices[tets].mean(axis=1)
    materials = {0: geosim.NeoHookean(mu=50e3), 1: geosim.NeoHookean(mu=400e3)}
    regions = (second & (middles[:, 0] > 0.01)).astype(int)
    return geosim.VolumetricRobot.from_tets(
        vertices,
        tets,
        regions,
        material=materials if second else materials[0],
        fixed=vertices[:, 0] < 1e-9,
        tip=vertices[:, 0] > 0.02 - 1e-9,
    )


def _system(parts, second=False, strain=0.02, order=2):
    """A problem, its whole matrix at a strained place, and the preconditioner set up there."""
    problem = make_problem(_robot(parts, second), Environment(), order, "multilevel")
    assert isinstance(problem.linear.factoriser, Multilevel)
    rng = np.random.default_rng(1)
    edge = 0.5 / max(parts)
    x = problem.rest * [1.0, 1.0 + strain, 1.0] + strain * edge * rng.standard_normal(problem.rest.shape)
    p = 0.1 * rng.standard_normal(len(problem.pressure_vertices))
    evaluation = problem.evaluate(x, p, np.zeros(0), np.zeros_like(x), matrix=True)
    data = problem.pattern.eliminated(evaluation.data, problem.held)
    upper = csr_matrix((data, problem.pattern.indices, problem.pattern.indptr), shape=(problem.pattern.size,) * 2)
    matrix = upper.toarray()
    matrix = matrix + np.triu(matrix, 1).T
    two = problem.linear.factoriser
    two.place(x)
    two.factorise(data)
    return problem, x, matrix, two


def _blocks(two, size):
    """The matrix of displacements with the penalty, dense."""
    out = np.zeros((size // 3, size // 3, 3, 3))
    rows = np.repeat(np.arange(size // 3), np.diff(two.graph.indptr))
    out[rows, two.graph.indices] = two.made.blocks
    return out.transpose(0, 2, 1, 3).reshape(size, size)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("second", [False, True])
def test_the_penalty_is_the_square_of_the_change_of_volume(second, order):
    """v P v = integral mu (dJ v)^2, the derivative of J by differences, at free nodes; the rest is K."""
    problem, x, matrix, two = _system((3, 2, 2), second, order=order)
    size, element = x.size, problem.element.energy
    rng = np.random.default_rng(2)
    v = np.where(problem.held[:size], 0.0, rng.standard_normal(size))
    step = 1e-6 * v.reshape(-1, 3)
    J = [np.linalg.det(problem.mesh.deformations(x + s * step, element.slopes)) for s in (1.0, -1.0)]
    change = (J[0] - J[1]) / 2e-6
    moduli = 1.0 / problem.table[problem.mesh.material, 2]
    work = np.einsum("e,e,q,eq->", moduli, problem.mesh.volumes, element.weights, change**2)
    added = _blocks(two, size) - matrix[:size, :size]
    assert v @ added @ v == pytest.approx(work, rel=1e-5)
    assert not added[problem.held[:size]].any()
    assert not added[:, problem.held[:size]].any()


def test_the_coarse_matrix_is_that_of_linear_functions():
    """R A R^T, where R takes half of every node to either vertex that it lies between, and held nodes nowhere."""
    problem, x, matrix, two = _system((3, 2, 1))
    size, parents = x.size, two.points
    np.testing.assert_allclose(problem.rest[_vertices(problem)][parents].mean(axis=1), problem.rest, atol=1e-12)
    lift = np.zeros((size, 3 * (parents.max() + 1)))
    for k in range(2):
        for i in range(3):
            np.add.at(lift, (3 * np.arange(len(x)) + i, 3 * parents[:, k] + i), 0.5)
    lift[problem.held[:size]] = 0.0
    _is_galerkin(two, matrix, x, lift)


def test_the_coarse_matrix_of_flat_elements_is_that_of_rigid_groups():
    """Groups move rigidly about what is the middle of their free nodes; those on a line do not turn."""
    problem, x, matrix, two = _system((5, 3, 2), order=1)
    groups, free = two.points[:, 0] // 2, ~problem.held[: x.size].reshape(-1, 3).any(axis=1)
    assert 1 < groups.max() < len(x) / 4
    lift, turned = np.zeros((len(x), 3, groups.max() + 1, 2, 3)), 0
    for group in np.unique(groups):
        mine = np.flatnonzero((groups == group) & free)
        if not len(mine):
            continue
        arms = x[mine] - x[mine].mean(axis=0)
        lift[mine, :, group, 0] = np.eye(3)
        if np.linalg.svd(arms)[1][1] > 0.1 * np.linalg.svd(arms)[1][0]:
            lift[mine, :, group, 1] = [np.cross(np.eye(3), arm).T for arm in arms]
            turned += 1
    assert turned
    made = two.made.lift.toarray().reshape(lift.shape)
    lift[:, :, :, 1] *= np.linalg.norm(made[:, :, :, 1]) / np.linalg.norm(
        lift[:, :, :, 1]
    )  # turns have a unit of their own
    lift = lift.reshape(x.size, -1)
    np.testing.assert_allclose(two.made.lift.toarray(), lift, atol=1e-12)
    _is_galerkin(two, matrix, x, lift)


class _Noted:
    """In the place of factors on the coarse level: takes note of pattern and values."""

    def made(self, indptr, indices):
        self.indptr, self.indices = indptr, indices
        return self

    def factorise(self, data):
        self.data = data


def _is_galerkin(two, matrix, x, lift):
    size = x.size
    expected = lift.T @ _blocks(two, size) @ lift
    expected[np.diag_indices(len(expected))] += np.diag(expected) == 0.0
    coarse = _Noted()
    again = Multilevel(two.pattern, two.levels, coarse.made)
    again.place(x)
    again.factorise(np.triu(matrix)[_places(two.pattern)])
    upper = csr_matrix((coarse.data, coarse.indices, coarse.indptr), shape=expected.shape).toarray()
    np.testing.assert_allclose(upper, np.triu(expected), atol=1e-6 * np.abs(expected).max())


def _places(pattern):
    """Rows and columns of the entries of a pattern."""
    return np.repeat(np.arange(pattern.size), np.diff(pattern.indptr)), pattern.indices


def _vertices(problem):
    """Node of every pressure vertex."""
    out = np.empty(len(problem.pressure_vertices), dtype=int)
    out[problem.mesh.pressure_tets] = problem.mesh.tets[:, :4]
    return out


@pytest.mark.parametrize("element", ["p1", "p2"])
@pytest.mark.parametrize("second", [False, True])
def test_iterations_do_not_grow_with_the_mesh(second, element):
    """Of the first two steps of a bar that gravity bends, of one material and of two that differ eightfold."""
    counts, solver = [], geosim.EnergyShapeSolver(factoriser="multilevel", element=element)
    for parts in ((4, 2, 2), (8, 4, 4)) if element == "p2" else ((8, 4, 4), (16, 8, 8)):  # of as many nodes
        result = geosim.solve(_robot(parts, second), geosim.Passive(), DOWN, solver=solver)
        counts.append([(step["krylov"], step["factorisations"]) for step in result.trace][:2])
    (first, second_step), (fine, finer) = counts
    assert first[1] == fine[1] == 1  # one set-up each: no factors were called for
    assert fine[0] <= 1.2 * first[0] <= 45
    assert finer[0] <= second_step[0] + 3  # an inexact step of some ten iterations


def test_where_it_fails_factors_take_its_place():
    _, _, matrix, two = _system((3, 2, 2))
    assert not two.exact
    assert two.count_negative() == -1
    assert two.strengthen()
    two.factorise(np.triu(matrix)[_places(two.pattern)])
    assert two.exact
    assert two.count_negative() == int((np.linalg.eigvalsh(matrix) < 0.0).sum()) or not two.counts
    right = np.random.default_rng(4).standard_normal(len(matrix))
    found, _, left = flexible_gmres(lambda v: matrix @ v, two.solve, right, 1e-10, 6)
    assert left <= 1e-10
    np.testing.assert_allclose(matrix @ found, right, atol=1e-8)


def test_the_same_shape_without_factors():
    """A bar that gravity bends, two materials, default sizes and forced levels; what is stable nobody can say then."""
    robot = _robot((6, 2, 2), second=True)
    shapes = [
        geosim.solve(robot, geosim.Passive(), DOWN, solver=geosim.EnergyShapeSolver(factoriser=name, tolerance=1e-9))
        for name in ("auto", "multilevel")
    ]
    np.testing.assert_allclose(shapes[1].frames[-1], shapes[0].frames[-1], atol=1e-9)
    assert abs(shapes[0].tip[-1, 2] - robot.vertices[robot.tip, 2].mean()) > 1e-3
    assert shapes[0].stable[-1] == 1.0
    assert np.isnan(shapes[1].stable[-1])


COUNTING = [name for name in installed() if name != "superlu"]  # their analyses tell flops


@pytest.mark.parametrize("name", COUNTING)
def test_the_flops_of_the_analysis_choose(name, monkeypatch):
    """A cube gets two levels and a bar of more unknowns factors, by either analysis: nothing is solved."""
    monkeypatch.setattr("geosim.linear.bordered.make_factoriser", partial(_only, name))
    alone = Environment(self_contact=False)
    cube, bar = (make_problem(_robot(parts), alone, 2, "auto").linear for parts in ((15,) * 3, (600, 2, 3)))
    assert isinstance(cube.factoriser, Multilevel)
    assert bar.factoriser.name == name
    assert bar.pattern.size > 1.4 * cube.pattern.size


def _only(chosen, indptr, indices, name="auto", **options):
    """Make the chosen factoriser, whatever is installed besides."""
    return make_factoriser(indptr, indices, chosen, **options)


@pytest.mark.skipif(len(COUNTING) < 2, reason="one analysis alone cannot be compared")
@pytest.mark.parametrize("order", [1, 2])
def test_two_analyses_foretell_about_the_same_flops(order):
    pattern = make_problem(_robot((8, 8, 8)), Environment(self_contact=False), order, "auto").linear.pattern
    one, other = (make_factoriser(pattern.indptr, pattern.indices, name).foretell() for name in COUNTING)
    assert 0.75 < one / other < 1.35
    assert one > 3.0 * pattern.size**2


def test_memory_grows_with_the_mesh_alone():
    """What two levels ask for beforehand, an unknown: factors on the coarse level ask for themselves."""
    alone = Environment(self_contact=False)
    small, large = (make_problem(_robot((n,) * 3), alone, 2, "multilevel").linear.factoriser for n in (6, 12))
    assert large.memory / large.size < 1.25 * small.memory / small.size


def test_where_a_level_is_singular_factors_take_its_place():
    """The block of a node of a P2 element that vanishes: the whole matrix need not be singular."""
    problem, x, matrix, two = _system((3, 2, 2))
    node = int(np.flatnonzero(~problem.held[: 3 * len(problem.rest)].reshape(-1, 3).any(axis=1))[0])
    rows = 3 * node + np.arange(3)
    matrix[np.ix_(rows, rows)] = 0.0
    ptr, ind, penalty = two.graph.indptr, two.graph.indices, np.zeros_like(two.made.blocks)
    two.levels.penalty(x, ptr, ind, penalty)
    at = ptr[node] + int(np.flatnonzero(ind[ptr[node] : ptr[node + 1]] == node)[0])
    matrix[np.ix_(rows, rows)] = -penalty[at]
    two.factorise(np.triu(matrix)[_places(two.pattern)])
    assert two.exact
    right = np.ones(len(matrix))
    _, _, left = flexible_gmres(lambda v: matrix @ v, two.solve, right, 1e-8, 20)
    assert left <= 1e-8


def test_all_rows_become_small_together():
    """Where forces are large and volumes nearly met, a step that is solved roughly leaves no more of either than it may."""
    problem, _, matrix, two = _system((4, 2, 2))
    size, count = len(matrix), 3 * len(problem.rest)
    right = np.where(problem.held, 0.0, np.random.default_rng(5).standard_normal(size))
    right[count:] *= 1e-5
    weights = np.where(np.arange(size) < count, 1.0, 1e5)
    none = np.zeros((0, size))
    left = []
    for given in (None, weights):
        solver = problem.linear
        system = BorderedMatrix(np.triu(matrix)[_places(two.pattern)], none)
        found, _ = solver.solve(system, right, np.zeros(0), 1e-3, reuse=False, weights=given)
        rest = (right - matrix @ found)[count:]
        left.append(np.linalg.norm(rest) / np.linalg.norm(right[count:]))
    assert left[1] < 5e-3
    assert left[0] > 10.0 * left[1]
