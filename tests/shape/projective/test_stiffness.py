"""The global matrix that follows the material: derivatives, turned steps, and the fixed point of the scalar matrix."""

from __future__ import annotations

import numpy as np
import pytest
from cubes import beam, solve, two_fingers
from scipy.spatial.transform import Rotation

import geosim
from geosim.linear.factorise import make_factoriser
from geosim.shape.projective import mesh
from geosim.shape.projective.elements import rest_shapes
from geosim.shape.projective.relaxation import Iterate
from geosim.shape.projective.solver import ProjectiveShapeSolver
from geosim.shape.projective.stiffness import LOOSEN, Cut
from geosim.shape.projective.stiffness_kernels import cut_off, turning_forces

# Whether factors tell that a matrix is not positive definite: those of SuperLU do not.
TELLS = make_factoriser(np.array([0, 1], dtype=np.int32), np.array([0], dtype=np.int32)).counts
MATERIALS = ("ecoflex-00-30-fang2022", geosim.Gent(mu=3e4, jm=20.0), geosim.Ogden(mu=(3e4, -1e4), alpha=(2.0, -2.0)))


def state_of(environment=None, material="ecoflex-00-30-fang2022", acceleration="newton"):
    """State of a beam at V/V0 = 1.3 with a tight tolerance."""
    solver = ProjectiveShapeSolver(acceleration=acceleration, tolerance=1e-7, error_estimate=False)
    state = solver.start(beam(material=material), environment or geosim.Environment())
    return solver.step(state, geosim.Inflation(volume_ratio=[1.3]).command(0))[0]


def displaced(seed):
    """Matrix of a beam whose vertices have been moved at random after its last factorisation, its positions, and the dice."""
    state = state_of()
    matrix, x, rng = state.work.matrix, np.array(state.x), np.random.default_rng(seed)
    x[matrix.free] += 4e-4 * rng.normal(size=(len(matrix.free), 3))
    matrix.follow(x, -state.pressures)
    return matrix, x, rng


def energy(matrix, step):
    """Energy of a displacement (free, 3) in the matrix of the day."""
    whole = np.zeros((matrix.elements.count, 3))
    whole[matrix.free] = step
    moved = whole[matrix.moving].ravel()
    return float(moved @ matrix.product(moved))


@pytest.mark.parametrize("material", MATERIALS, ids=["mooney-rivlin", "gent", "ogden"])
@pytest.mark.parametrize("touching", [False, True])
def test_the_matrix_is_the_derivative_of_the_forces(material, touching):
    """A displacement d changes the forces by H d (central differences), and the solve returns d."""
    plane = geosim.Obstacle.plane((0, 0, -1e-4), (0, 0, 1))
    state = state_of(geosim.Environment(obstacles=[plane] if touching else []), material)
    work, x, elements = state.work, np.array(state.x), state.work.elements
    assert (len(elements.springs.ids) > 0) == touching
    targets = elements.pressed(x, elements.volumes(x), state.pressures)
    work.matrix.follow(x, -state.pressures)
    free = work.matrix.free
    d = np.zeros_like(x)
    d[free] = np.random.default_rng(0).normal(size=(len(free), 3))
    h = 1e-8
    change = (elements.evaluate(x + h * d, targets).force - elements.evaluate(x - h * d, targets).force) / (2 * h)
    assert np.abs(work.matrix.solve(change[free]) - d[free]).max() < 1e-3 * np.abs(d).max()


def test_far_from_balance_steps_still_go_downhill():
    """What is not convex is cut off: at shapes with inverted elements the step and the force point apart."""
    state = state_of()
    work, rng = state.work, np.random.default_rng(1)
    free, scalar = work.matrix.free, []
    for size in (1e-4, 5e-4, 2e-3):
        x = np.array(state.x)
        x[free] += size * rng.normal(size=(len(free), 3))
        evaluation = work.elements.evaluate(x, work.elements.volumes(x))
        work.matrix.follow(x, np.zeros(1))
        force = evaluation.force[free]
        step = -work.matrix.solve(force)
        assert float((step * force).sum()) < 0.0
        scalar.append(int((evaluation.jacobians <= 0.0).sum()))
    assert scalar[-1] > 0, "the last shape has inverted elements"


def test_what_is_cut_off_in_parts_is_cut_off():
    """The matrix is linear in the share that is cut off. Kept factors tell that more must go: fewer are made than shares."""
    shares, made = 0, 0
    for seed in range(1, 5):
        matrix, _, rng = displaced(seed)
        taken, tighten, before = [], matrix.tighten, matrix.factorisations
        matrix.tighten = lambda cut, tighten=tighten, taken=taken, matrix=matrix: (
            tighten(cut),
            taken.append(matrix.cut.share),
        )
        matrix.solve(rng.normal(size=(len(matrix.free), 3)))
        now = matrix.linearised
        whole = matrix.assembled(now.x, now.pulls, taken[-1])
        assert np.abs(now.data - whole).max() < 1e-12 * np.abs(whole).max()
        shares, made = shares + len(taken), made + matrix.factorisations - before
    assert made < shares


def test_factors_that_are_not_positive_definite_twice_are_followed_by_those_of_the_whole_cut():
    """Far from balance those of the first are."""
    for residual, most in ((0.0, 3), (1.0, 2)):
        matrix, x, rng = displaced(1)
        matrix.forget()  # as if there were no factors that tell
        matrix.follow(x, matrix.linearised.pulls, residual)
        before = matrix.factorisations
        matrix.solve(rng.normal(size=(len(matrix.free), 3)))
        assert matrix.factorisations <= before + most
        assert matrix.cut.share == 1.0 or not TELLS


def test_what_is_cut_off_lifts_the_lowest_eigenvalues():
    """The derivative by the nine parts of a stretch, and what it is where its eigenvalues below the least are raised to it."""
    rng, least = np.random.default_rng(0), 0.1
    for share in (0.3, 1.0):
        for shift in ([-9.0] * 3, [-9.0, -9.0, 9.0], [0.5] * 3, [9.0] * 3):  # none to all of the scalings are convex
            twist, flip, root = rng.normal(size=3), rng.normal(size=3), rng.normal(size=(3, 3))
            scaling = root + root.T + np.diag(shift)
            found = twist.copy(), flip.copy(), scaling.copy()
            cut_off(*found, least, share, np.empty(3), np.empty((3, 3)))
            values, vectors = np.linalg.eigh(scaling)
            lifted = (vectors * (values + share * np.maximum(0.0, least - values))) @ vectors.T
            raised = [v + share * np.maximum(0.0, 2.0 * least - v) for v in (twist, flip)]
            for mine, theirs in zip(found, (*raised, lifted)):
                assert np.allclose(mine, theirs, atol=1e-12)


def test_a_step_from_a_guess_makes_no_factors():
    """Where those at hand do not lead to the new step it is nearer than the guess all the same."""
    matrix, _, rng = displaced(1)
    force = rng.normal(size=(len(matrix.free), 3))
    exact, cut = matrix.solve(force, 1e-8), matrix.cut.share
    matrix, _, _ = displaced(1)
    matrix.tighten(cut)
    before, guess = matrix.factorisations, exact + 0.3 * np.abs(exact).mean() * rng.normal(size=exact.shape)
    error = [energy(matrix, step - exact) for step in (guess, matrix.solve(force, 1e-8, guess))]
    assert matrix.factorisations == before
    assert error[1] < 0.5 * error[0]


def test_the_pattern_tells_whether_it_holds_the_springs():
    """New springs couple what is far apart on the mesh: before they are factorised the pattern has no place for them."""
    robot = two_fingers()
    solver = ProjectiveShapeSolver(error_estimate=False)
    start = solver.start(robot, geosim.Environment(gravity=(0, 0, -40.0)))
    state = solver.step(start, geosim.Passive().command(0))[0]
    matrix = mesh.make_work(robot, geosim.Environment(), solver.targets).matrix
    x = np.array(state.x)
    matrix.elements.springs = state.springs
    matrix.elements.compliances[:] = state.work.elements.compliances
    matrix.follow(x, -state.pressures)
    assert state.springs.pushing(x).any()
    assert not matrix.fits()
    matrix.solve(np.ones((len(matrix.free), 3)), 1e-2)
    assert matrix.fits()


def test_what_is_cut_off_falls_with_the_residual():
    """By its own factor where the residual falls slowly, but not far from balance;
    as fast as that where it falls faster; not after it had to grow.
    """
    state = state_of()
    matrix, at = state.work.matrix, (np.array(state.x), -state.pressures)
    for tightened, residual, fall, left in (
        (False, 0.01, 1.0, 1.0 / LOOSEN),
        (False, 0.01, 5.0, 0.2),
        (False, 0.01, 100.0, 0.0),
        (True, 0.01, 100.0, 1.0),
        (False, 0.5, 1.0, 1.0),
        (False, 0.5, 5.0, 0.2),
    ):
        matrix.cut = Cut(1.0, tightened)
        matrix.follow(*at, residual, fall)
        assert matrix.cut.share == pytest.approx(left)


def test_a_turned_step_turns():
    """Of the step omega x (x - c), a rotation by a large angle is asked for; of a stretch, the stretch itself."""
    vertices = np.vstack([np.zeros(3), np.eye(3)]) + 0.1 * np.random.default_rng(0).normal(size=(4, 3))
    tets = np.array([[0, 1, 2, 3]])
    gradients, _ = rest_shapes(vertices, tets)
    vector = np.array([0.3, -1.1, 0.7])
    stretch = np.diag([0.2, -0.1, 0.05])
    for slope, target in (
        (np.cross(np.eye(3), vector), Rotation.from_rotvec(vector).as_matrix()),
        (stretch, np.eye(3) + stretch),
    ):
        forces = np.empty((1, 4, 3))
        turning_forces(vertices, vertices @ slope.T, tets, gradients, np.array([2.0]), forces)
        expected = 2.0 * gradients[0] @ (target - np.eye(3) - slope).T
        assert np.allclose(forces[0], expected, atol=1e-12)


def test_it_goes_where_the_scalar_matrix_goes_in_a_tenth_of_the_iterations():
    options = {"tolerance": 1e-6, "volume_tolerance": 1e-6, "error_estimate": False}
    newton, scalar = (solve(beam(), [1.5], acceleration=a, **options) for a in ("newton", "anderson"))
    assert newton.converged, newton.message
    assert np.abs(newton.frames[0] - scalar.frames[0])[beam().body_vertices].max() < 1e-5 * beam().size
    assert newton.chamber_pressures[0, 0] == pytest.approx(scalar.chamber_pressures[0, 0], rel=1e-4)
    assert 10 * len(newton.trace) < len(scalar.trace)


@pytest.mark.slow
def test_with_contact_it_goes_where_the_scalar_matrix_goes():
    """Up to the offset that springs keep: which of them are there depends on the way. The iterations are fewer."""
    robot, heavy = two_fingers(), geosim.Environment(gravity=(0, 0, -40.0))
    newton, scalar = (
        geosim.solve(robot, geosim.Passive(), heavy, solver=ProjectiveShapeSolver(acceleration=a, tolerance=1e-5))
        for a in ("newton", "anderson")
    )
    assert newton.converged
    assert newton.contact_count[0] > 0
    offset = newton.state.work.elements.springs.offset
    assert np.abs(newton.frames[0] - scalar.frames[0]).max() < offset
    assert 3 * len(newton.trace) < len(scalar.trace)


def test_factors_serve_more_than_one_matrix():
    """Conjugate gradients with old factors and with new ones of the same matrix end in the same step."""
    state = state_of()
    work, x = state.work, np.array(state.x)
    free, rng = work.matrix.free, np.random.default_rng(2)
    force = rng.normal(size=(len(free), 3))
    before = work.matrix.factorisations
    x[free] += 2e-6 * rng.normal(size=(len(free), 3))
    work.matrix.follow(x, -state.pressures)
    kept = work.matrix.solve(force, 1e-3)
    assert work.matrix.factorisations == before
    fresh = mesh.make_work(beam(), geosim.Environment(), ProjectiveShapeSolver().targets)
    fresh.elements.compliances[:] = work.elements.compliances
    fresh.matrix.follow(x, -state.pressures)
    assert np.abs(fresh.matrix.solve(force) - kept).max() < 1e-2 * np.abs(kept).max()


def test_a_long_step_ends_at_the_first_collision():
    """A step that carries the tip through a block and out of it on the other side ends where the block is met."""
    block = geosim.Obstacle.box((0.0, -0.05, -0.02), (0.2, 0.05, -0.005))
    environment = geosim.Environment(obstacles=[block], self_contact=False)
    solver = ProjectiveShapeSolver()
    state = solver.start(beam(), environment)
    work, x = state.work, np.array(state.x)
    contact = solver._contact(work, 0)
    now = Iterate(x, work.elements.evaluate(x, work.elements.volumes(x)), None, None, None, contact.longest)
    step = np.zeros_like(x[work.matrix.free])
    step[:, 2] = -40.0 * x[work.matrix.free, 0] ** 2  # 64 mm at the tip
    whole = work.matrix.turned(x, step)
    assert (x[work.matrix.free] + whole)[:, 2].min() < -0.02 - contact.longest
    share = solver.relaxation._clear_share(work.matrix, contact, now, step)
    deepest = (x[work.matrix.free] + work.matrix.turned(x, share * step))[:, 2].min()
    assert -0.005 - contact.longest < deepest < -0.005


def test_a_step_knows_which_springs_push_at_its_end():
    """Lifted off a plane, a beam leaves springs behind: the step is that of the matrix and forces with those that still push.

    Which those are is told from steps that are less exact than the first.
    """
    plane = geosim.Obstacle.plane((0, 0, -1e-4), (0, 0, 1))
    state, solver = state_of(geosim.Environment(obstacles=[plane])), ProjectiveShapeSolver()
    work, x, springs = state.work, np.array(state.x), state.work.elements.springs
    matrix, free = work.matrix, work.matrix.free
    work.elements.load = work.elements.load + [0.0, 0.0, 2e-4]
    targets = work.elements.pressed(x, work.elements.volumes(x), state.pressures)
    now = Iterate(x, work.elements.evaluate(x, targets), None, targets, -state.pressures, np.inf, residual=1e-12)
    matrix.follow(x, now.pulls)
    step, asked, solve = np.zeros_like(x), [], matrix.solve
    matrix.solve = lambda force, tolerance, *guess: (asked.append(tolerance), solve(force, tolerance, *guess))[1]
    step[free] = solver.relaxation.step(matrix, now)
    assert len(asked) > 1
    assert asked[0] < min(asked[1:])
    start, end = springs.pushing(x), springs.pushing(x + step)
    assert 0 < end.sum() < start.sum()
    matrix.touch(end)
    force = now.evaluation.force + springs.on_vertices(x)[0] - springs.on_vertices(x, end)[0]
    assert np.abs(solve(-force[free], 1e-8) - step[free]).max() < 1e-4 * np.abs(step).max()


def test_a_step_that_springs_at_its_end_send_uphill_is_not_taken():
    """Nothing along it is better, so that the iteration would end: a robot that winds round a rod did so at V/V0 = 8.5."""
    plane = geosim.Obstacle.plane((0, 0, -1e-4), (0, 0, 1))
    state, solver = state_of(geosim.Environment(obstacles=[plane])), ProjectiveShapeSolver()
    work, x = state.work, np.array(state.x)
    matrix, free = work.matrix, work.matrix.free
    work.elements.load = work.elements.load + [0.0, 0.0, 2e-4]
    targets = work.elements.pressed(x, work.elements.volumes(x), state.pressures)
    now = Iterate(x, work.elements.evaluate(x, targets), None, targets, -state.pressures, np.inf, residual=1e-12)
    matrix.follow(x, now.pulls)
    steps, solve = [], matrix.solve

    def uphill_from_a_guess(force, tolerance, *guess):
        steps.append(solve(force, tolerance) if not guess else -steps[0])
        return steps[-1]

    matrix.solve = uphill_from_a_guess
    step = solver.relaxation.step(matrix, now)
    assert len(steps) > 1
    assert float((step * now.evaluation.force[free]).sum()) < 0.0
    np.testing.assert_array_equal(step, -steps[0])


def test_it_goes_on_to_a_tenth_of_the_tolerance_as_long_as_it_comes_nearer():
    """Springs that go to and fro between faces at every check hold the residual where it is; then the tolerance will do."""
    state, solver = state_of(), ProjectiveShapeSolver()
    for residuals, share in (
        ([5.9e-5, 5.5e-5] * 10, 1.0),
        ([5.9e-5, 5.5e-5] * 9, 0.1),
        ([1e-2] * 15 + [5.5e-5] * 5, 0.1),
        (list(1e-4 * 0.99 ** np.arange(20)), 0.1),
    ):
        records = tuple({"residual": r} for r in residuals)
        now = Iterate(np.array(state.x), None, None, None, None, np.inf, records=records)
        assert solver.relaxation.goal(state.work, now) == pytest.approx(share * solver.tolerance)
