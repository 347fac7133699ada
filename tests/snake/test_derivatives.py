"""Every force of the multibody problem is the derivative of its energy, every stiffness that of its force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from geosim.linear.block_tridiagonal import BlockTridiagonal, SparseFactor, multiply
from geosim.material.materials import LinearElastic
from geosim.model.environment import Environment, Obstacle
from geosim.snake.builder import MultibodyBuilder, box_inertia
from geosim.snake.condensed import Kept, primal_direction, solve_contacts
from geosim.snake.contact import add_coupling, contact_law
from geosim.snake.dual import DualDirection
from geosim.snake.problem import MultibodyConfiguration
from geosim.snake.rotation import advance_quaternions, matrices
from geosim.snake.snake import make_snake
from geosim.snake.soft import positive_part
from geosim.snake.stepper import MultibodyStepper
from geosim.snake.system import build_system
from geosim.snake.valves import Valves

TET = np.array([[0, 0, 0], [0.1, 0, 0], [0, 0.1, 0], [0, 0, 0.1]]) + [0.0, 0.0, -0.003]


def everything():
    """A small robot with every kind of element, touching a plane and a sphere."""
    build = MultibodyBuilder("everything")
    ids = build.add_tets(TET, [[0, 1, 2, 3]], LinearElastic(66e3, 0.45))
    build.add_distances([[0, 1], [1, 3]], 500.0)
    chamber = build.add_chamber()
    build.add_line([0, 2, 3], chamber, 300.0, 66e3)
    a = build.add_body(
        0.2, box_inertia(0.2, (0.05, 0.04, 0.03)), (0.12, 0.0, 0.02), size=(0.05, 0.04, 0.03), solid=True
    )
    b = build.add_body(
        0.1, box_inertia(0.1, (0.03, 0.04, 0.05)), (0.2, 0.01, 0.019), (0.9, 0.1, 0.2, 0.3), friction=0.5
    )
    c = build.add_body(0.1, (1e-4, 1.5e-4, 1e-4), (0.3, 0.0, 0.0199))
    build.attach(ids[1:3], a, 2e3)
    build.add_hinge(
        a,
        b,
        (0.16, 0, 0.02),
        (0, 1, 0.2),
        stiffness=3e3,
        axis_stiffness=5.0,
        spring=0.3,
        target=0.2,
        damping=0.01,
        limits=(-0.01, 0.01, 2.0),
    )
    build.add_fixed_joint(b, c, (0.25, 0, 0.02), stiffness=3e3, axis_stiffness=5.0)
    build.add_ball(b, (0.0, 0.0, 0.0), 0.02, friction=0.8)
    build.add_wheel(c, 0.02, friction=0.7)
    build.add_particle_contact(ids, friction=0.9)
    return build.build()


def problem_and_place(friction=True, deform=0.004, seed=3):
    robot = everything()
    mu = 0.6 if friction else 0.0
    world = Environment(
        gravity=(0, 0.3, -9.81),
        obstacles=[
            Obstacle.plane((0, 0, 0), (0.05, 0.02, 1), friction=mu),
            Obstacle.sphere((0.2, 0.005, -0.1), 0.1, friction=mu),
        ],
    )
    stepper = MultibodyStepper(contact_distance=0.05, slip_velocity=0.05, valves=Valves(law="ideal"))
    state = stepper.start(robot, world)
    rng = np.random.default_rng(seed)
    state = replace(
        state,
        pressures=np.array([2e4]),
        velocities=rng.normal(size=(4, 3)),
        spins=np.zeros((3, 3)),
        body_velocities=rng.normal(size=(3, 3)),
    )
    problem = replace(stepper, substeps=1)._problem(state, 0.01, 0)
    step = deform * rng.normal(size=(state.system.slots, 3))
    step[:, 2] -= 0.003
    return problem, problem.moved(problem.start, step), rng


def differentiate(f, h=1e-6):
    """Central difference along a scalar."""
    return (f(h) - f(-h)) / (2 * h)


def test_gradient_is_the_derivative_of_the_merit():
    """Friction at the forces of the point itself is held, as the line search does. Bodies start without spin: the
    momentum of a spin is the one term without a potential (its balance is tested by the free body)."""
    problem, here, rng = problem_and_place()
    now = problem.evaluate(here)
    held = now.normal_forces.copy()
    assert (held > 0).sum() >= 3
    for _ in range(12):
        d = rng.normal(size=now.gradient.shape)
        slope = differentiate(lambda s, d=d: problem.evaluate(problem.moved(here, s * d), held).lagged_merit)
        assert slope == pytest.approx(float(np.vdot(now.gradient, d)), rel=2e-6)


@pytest.mark.parametrize("friction", [False, True])
def test_stiffness_and_coupling_are_the_derivative_of_the_gradient(friction):
    """The exact stiffness plus the friction-normal coupling is the Jacobian, off equilibrium and for every element."""
    problem, here, rng = problem_and_place(friction)
    now = problem.evaluate(here)
    system = problem.system
    blocks = problem.assemble(now, False).copy()
    slots, rows = problem.coupling(now.contact)
    n = system.particles
    worst = 0.0
    for _ in range(12):
        d = rng.normal(size=now.gradient.shape)
        product = np.empty_like(d)
        multiply(blocks, system.pattern.rows, system.pattern.columns, d, product)
        add_coupling(slots, rows, d, product)
        measured = differentiate(lambda s, d=d: problem.evaluate(problem.moved(here, s * d)).gradient)
        # Rotation increments do not commute: d/ds of the torque differs from the Hessian by torque x d / 2 (and the joints'
        # axis and angle rows keep only J^T J): particles and centres must agree, rotations up to the torque's size.
        scale = abs(measured).max()
        worst = max(
            worst, abs(measured[:n] - product[:n]).max() / scale, abs(measured[n::2] - product[n::2]).max() / scale
        )
    assert worst < 3e-6


def test_rotational_stiffness_of_a_pinned_body_is_exact():
    """One body on a stiff pin: the symmetric Hessian along exp(s d) is the second derivative of the merit."""
    build = MultibodyBuilder()
    body = build.add_body(0.3, (2e-4, 3e-4, 4e-4), (0.1, 0, 0), (0.8, 0.2, -0.4, 0.1))
    build.add_ball_joint(body, None, (0.0, 0.02, 0.01), stiffness=50.0)
    stepper = MultibodyStepper()
    state = stepper.start(build.build(), Environment(gravity=(0, 0, -9.81)))
    problem = stepper._problem(state, 0.01, 0)
    rng = np.random.default_rng(0)
    here = problem.moved(problem.start, 0.05 * rng.normal(size=(2, 3)))
    blocks = problem.assemble(problem.evaluate(here), False).copy()
    for _ in range(5):
        d = rng.normal(size=(2, 3))
        out = np.empty_like(d)
        multiply(blocks, state.system.pattern.rows, state.system.pattern.columns, d, out)
        h = 1e-4
        second = (
            sum(w * problem.evaluate(problem.moved(here, k * h * d)).merit for k, w in ((-1, 1), (0, -2), (1, 1)))
            / h**2
        )
        assert second == pytest.approx(float(np.vdot(d, out)), rel=1e-5)


@pytest.mark.parametrize("rough", [True, False])
def test_directions_of_the_multipliers_solve_the_primal_system(rough):
    """All kinds of rows, contacts slip: K dq, with how friction follows the normal force unless it is damped, is -gradient."""
    problem, here, _ = problem_and_place(deform=1e-4)
    problem.creep = 1e-5
    now, pattern, workspace = problem.evaluate(here), problem.system.pattern, problem.system.workspace("block")
    slip = np.hypot(*now.contact.values[:, 1:].T)
    assert (slip[now.normal_forces > 0] > problem.creep).any()
    step, count = DualDirection(problem, workspace, 100, 1e-12).solve(now, rough)
    blocks, product = problem.assemble(now, rough), np.empty_like(step)
    assert workspace.factor.factor(blocks)  # else it is not the exact one that was solved
    multiply(blocks, pattern.rows, pattern.columns, step, product)
    if not rough:
        add_coupling(*problem.coupling(now.contact), step, product)
    assert abs(product + now.gradient).max() < 1e-9 * abs(now.gradient).max()
    assert count <= (2 if rough else 2 + np.count_nonzero(now.normal_forces))  # of rank one a contact


def test_clamped_stiffness_is_semi_definite_where_the_exact_one_is_not():
    """A tetrahedron and a spring under strong compression have negative exact curvature, but no clamped one."""
    build = MultibodyBuilder()
    build.add_tets(TET, [[0, 1, 2, 3]], LinearElastic(66e3, 0.3))
    build.add_distances([[0, 1]], 1e4)
    stepper = MultibodyStepper()
    state = stepper.start(build.build())
    problem = stepper._problem(state, 1e3, 0)
    here = MultibodyConfiguration(0.7 * problem.start.x, problem.start.X, problem.start.Q)
    system, now = state.system, problem.evaluate(here)
    smallest = []
    for clamp in (False, True):
        blocks = problem.assemble(now, clamp)
        A = np.zeros((12, 12))
        for j in range(12):
            out, unit = np.empty((4, 3)), np.zeros(12)
            unit[j] = 1.0
            multiply(blocks, system.pattern.rows, system.pattern.columns, unit.reshape(4, 3), out)
            A[:, j] = out.ravel()
        assert abs(A - A.T).max() < 1e-9 * abs(A).max()
        smallest.append(np.linalg.eigvalsh(A).min())
    assert smallest[0] < -1.0
    assert smallest[1] > -1e-6


def test_a_kept_factor_gives_the_direction_of_the_robot_it_has_turned_with():
    """All of a deformed snake turned by 140 degrees: the direction by the factor of before turns with it, to rounding."""
    turn = np.array([0.3, -0.4, 2.4])
    R, rng = matrices(advance_quaternions(np.array([[1.0, 0, 0, 0]]), turn[None]))[0], np.random.default_rng(0)
    stepper = MultibodyStepper()
    state = stepper.start(make_snake(links=1, sections=4), Environment())
    state = replace(state, velocities=0.1 * rng.normal(size=state.positions.shape))
    turned = replace(
        state,
        positions=state.positions @ R.T,
        velocities=state.velocities @ R.T,
        body_positions=state.body_positions @ R.T,
        orientations=advance_quaternions(state.orientations, np.tile(turn, (len(state.orientations), 1))),
    )
    step, kept, directions = 1e-4 * rng.normal(size=(state.system.slots, 3)), Kept(), []
    for now, Q in ((state, np.eye(3)), (turned, R)):
        problem = stepper._problem(now, 0.01, 0)
        few = primal_direction(problem, state.workspace, 1e-4, kept)
        directions.append(few.solve(problem.evaluate(problem.moved(problem.start, step @ Q.T)), False)[0])
        kept = few.keep(1, False)
    assert few.count == 0
    assert abs(directions[0] @ R.T - directions[1]).max() < 1e-9 * abs(directions[0]).max()


def test_wheels_turn_with_their_carriage_and_attached_particles_with_their_plate():
    """A wheel that rolls leaves the stiff rows of its hinge where they are; all that is not attached turns as its tets."""
    robot = make_snake(links=2, sections=4)
    n, system = len(robot.particles), build_system(robot, Environment())
    where = system.turned_with
    carriages = set(robot.carriages.ravel().tolist())
    assert set(where[n:].tolist()) == carriages
    assert (where[n:].reshape(-1, 2) == where[n::2][:, None]).all()
    attached = np.unique(robot.pairs[robot.pairs < n])
    assert set(where[attached].tolist()) == carriages
    assert (np.delete(where[:n], attached) == -1).all()


def test_a_step_that_turns_a_carriage_leaves_its_hinges_and_attachments_closed():
    """Carriages turn by up to a radian, their wheels roll besides: no stiff row opens, and to first order the step is itself."""
    robot, rng = make_snake(links=2, sections=4), np.random.default_rng(3)
    state = MultibodyStepper().start(robot, Environment())
    problem, n = MultibodyStepper()._problem(state, 0.01, 0), state.system.particles
    places, carriers = problem.start.places, state.system.turned_with
    step = np.zeros((state.system.slots, 3))
    for carriage in robot.carriages.ravel():
        theta, shift = rng.uniform(-0.5, 0.5, 3), 1e-2 * rng.normal(size=3)
        own, centre = np.flatnonzero(carriers == carriage), robot.body_positions[carriage]
        step[own] = shift + np.cross(theta, places[own] - centre)
        for body in (own[own >= n][::2] - n) // 2:
            step[n + 2 * body + 1] = theta + (0.0 if body == carriage else rng.uniform(-1, 1) * np.array([0, 1.0, 0]))
    pairs, axes, _ = problem.evaluate(problem.moved(problem.start, step)).rigid
    assert abs(pairs.values).max() < 1e-13  # round-off; turned apart they open by millimetres
    assert abs(axes.values).max() < 1e-13
    tiny = problem.moved(problem.start, 1e-6 * step).change(problem.start)
    assert abs(tiny - 1e-6 * step).max() < 1e-11


def test_inverted_tetrahedron_is_pushed_back():
    """A reflected tet has a proper rotation and a finite force that undoes the reflection."""
    build = MultibodyBuilder()
    build.add_tets(TET, [[0, 1, 2, 3]], LinearElastic(66e3, 0.3))
    stepper = MultibodyStepper()
    state = stepper.start(build.build())
    problem = stepper._problem(state, 1.0, 0)
    x = problem.start.x.copy()
    x[3, 2] = x[0, 2] - 0.03
    now = problem.evaluate(MultibodyConfiguration(x, problem.start.X, problem.start.Q))
    R = now.rotations[:, 0].reshape(3, 3)
    assert np.allclose(R @ R.T, np.eye(3), atol=1e-9)
    assert np.linalg.det(R) == pytest.approx(1.0)
    assert now.gradient[3, 2] < 0


def test_positive_part_of_a_symmetric_matrix():
    """Against the eigenvalues of numpy."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        A = rng.normal(size=(3, 3))
        A = A + A.T
        w, V = np.linalg.eigh(A)
        B = positive_part(A[None])[0]
        assert np.allclose(B, (V * np.maximum(w, 0)) @ V.T, atol=1e-12)


def chain(blocks=7, size=5, near=5, seed=0):
    """Lower blocks of a random block-tridiagonal positive definite matrix and its dense form; couplings up to `near`."""
    rng = np.random.default_rng(seed)
    level = np.repeat(np.arange(blocks), size)
    level[:2] = 0
    n = blocks * size
    rank = rng.permutation(size)[None] + size * np.arange(blocks)[:, None]
    rank = rank.ravel()
    rows, columns, values = [], [], []
    dense = np.zeros((3 * n, 3 * n))
    for i in range(n):
        for j in range(n):
            if level[i] != level[j] and abs(rank[i] - rank[j]) > size + near:
                continue
            if rank[i] >= rank[j] and level[i] - level[j] in (0, 1):
                B = rng.normal(size=(3, 3))
                if i == j:
                    B = B + B.T + 12 * size * np.eye(3)
                rows.append(i), columns.append(j), values.append(B)
                dense[3 * i : 3 * i + 3, 3 * j : 3 * j + 3] = B
                dense[3 * j : 3 * j + 3, 3 * i : 3 * i + 3] = B.T
    return np.array(rows), np.array(columns), level, rank, np.array(values), dense


@pytest.mark.parametrize(
    ("size", "near", "single", "tolerance"),
    [(5, 5, False, 1e-12), (12, 12, False, 1e-12), (12, 2, False, 1e-12), (12, 2, True, 1e-5)],
)
def test_block_factor_solves(size, near, single, tolerance):
    """The block-tridiagonal and the sparse factorisation solve the dense system, with full and with banded couplings."""
    rows, columns, level, rank, blocks, dense = chain(size=size, near=near)
    right = np.random.default_rng(5).normal(size=(len(level), 3))
    exact = np.linalg.solve(dense, right.ravel()).reshape(-1, 3)
    factor = BlockTridiagonal(rows, columns, level, rank, single)
    assert factor.factor(blocks)
    assert factor.single == single
    assert abs(factor.solve(right) - exact).max() < tolerance * abs(exact).max()
    sparse = SparseFactor(rows, columns, len(level))
    assert sparse.factor(blocks)
    assert np.allclose(sparse.solve(right), exact, rtol=1e-11)


@pytest.mark.parametrize("single", [False, True])
def test_unit_vectors_are_solved_in_groups(single):
    """Of two chains with slots of their own: products E^T A^-1 E of each, and half-solutions that give the rest."""
    rows, columns, level, rank, blocks, dense = chain(size=6)
    n = len(level)
    twice = [np.concatenate([a, a + n]) for a in (rows, columns)]
    levels, ranks = np.concatenate([level, level + level.max() + 1]), np.concatenate([rank, rank + n])
    factor = BlockTridiagonal(*twice, levels, ranks, single)
    assert factor.factor(np.concatenate([blocks, 2.0 * blocks]))
    assert factor.chain_count == 2
    assert (factor.chains == np.repeat([0, 1], n)).all()
    rng = np.random.default_rng(2)
    slots, group = np.array([3, 17, n + 40, 11, n + 30]), np.array([0, 0, 1, 0, 1])
    A = np.block([[dense, np.zeros_like(dense)], [np.zeros_like(dense), 2.0 * dense]])
    inverse = np.linalg.inv(A)
    half, product, column, filled = factor.forward_units(slots, np.arange(2))
    assert not half[np.arange(half.shape[1]) >= filled[:, None]].any()
    rows = 3 * slots[:, None] + np.arange(3)
    tolerance = (1e-4 if single else 1e-12) * abs(inverse[np.ix_(rows.ravel(), rows.ravel())]).max()
    for i in range(5):
        for j in np.flatnonzero(group == group[i]):
            got = product[group[i], column[i] : column[i] + 3, column[j] : column[j] + 3]
            assert got == pytest.approx(inverse[np.ix_(rows[i], rows[j])], abs=tolerance)
    right = rng.normal(size=(2 * n, 3))
    y = factor.forward(right)
    own = factor.row_groups(np.arange(2)) == 1
    got = half[own, column[4] : column[4] + 3].T @ y[own]
    assert got == pytest.approx(inverse[rows[4]] @ right.ravel(), abs=10 * tolerance)


def test_a_definite_matrix_that_fails_in_single_precision_is_factored_in_double_once():
    """Single precision rounds it to an indefinite one; what is factored afterwards is in single again, as if it had not been."""
    rows, columns = np.array([0, 1, 1]), np.array([0, 0, 1])
    K = 1e6 * np.eye(3)
    blocks = np.array([K, -K, K + 1e-4 * np.eye(3)])
    factor = BlockTridiagonal(rows, columns, np.array([0, 1]), np.array([0, 1]), single=True)
    easy, right = np.array([K, -0.3 * K, K]), np.arange(6.0).reshape(2, 3)
    assert factor.factor(easy)
    first = factor.solve(right)
    assert not factor.factor(blocks)
    assert factor.factor(blocks, definite=True)
    assert factor.solve(np.ones((2, 3)))[1] == pytest.approx(2.0 / 1e-4, rel=1e-4)
    assert factor.factor(easy)
    np.testing.assert_array_equal(factor.solve(right), first)
    assert not factor.factor(-blocks, definite=True)


# -- contacts in their own unknowns -----------------------------------------------------------------------------------


def test_contact_law_and_its_slope():
    """Against finite differences in every state: open, sticking, sliding; the force is in the cone."""
    rng = np.random.default_rng(4)
    z = np.column_stack([rng.uniform(-1e-3, 5e-4, 40), rng.normal(size=(40, 2)) * 1e-5])
    z[:20, 1:] *= 0.02
    mu, k, creep = np.full(40, 0.6), 2e4, 1e-6
    p, slope, scrap = np.empty((40, 3)), np.empty((40, 3, 3)), np.empty((40, 3, 3))
    contact_law(z, mu, k, creep, p, slope)
    assert (np.linalg.norm(p[:, 1:], axis=1) <= -0.6 * p[:, 0] * (1 + 1e-12)).all()
    assert (p[z[:, 0] > 0] == 0).all()
    assert (np.linalg.norm(z[:, 1:], axis=1) < creep).any()
    for j in range(3):
        h = 1e-10
        up, down = np.empty((40, 3)), np.empty((40, 3))
        for q, sign in ((up, 1), (down, -1)):
            moved = z.copy()
            moved[:, j] += sign * h
            contact_law(moved, mu, k, creep, q, scrap)
        away = abs(np.linalg.norm(z[:, 1:], axis=1) - creep) > 1e-8
        assert (up - down)[away] / (2 * h) == pytest.approx(slope[away, :, j], rel=1e-4, abs=1e-2)


def test_contacts_are_solved_to_rounding_in_every_state():
    """Random compliances and loads, many contacts at the edge of slipping: z = b - G p(z) holds, friction in the cone."""
    rng = np.random.default_rng(6)
    states = np.zeros(3, dtype=int)
    for _ in range(200):
        c = int(rng.integers(1, 7))
        root = rng.normal(size=(3 * c, 3 * c)) * 1e-2
        G = root @ root.T / (3 * c) + 1e-7 * np.eye(3 * c)
        b = rng.normal(size=3 * c) * np.tile([1e-4, 10.0 ** rng.uniform(-6, -3), 1e-5], c)
        z, p = rng.normal(size=(c, 3)) * 1e-5, np.empty((c, 3))
        mu = rng.uniform(0, 1, c)
        left, _count = solve_contacts(G, b, mu, 2e4, 1e-6, 60, z, p)
        assert left < 1e-12
        assert z.ravel() == pytest.approx(b - G @ p.ravel(), abs=1e-12)
        assert (p[:, 0] <= 0).all()
        slip = np.linalg.norm(z[:, 1:], axis=1)
        for k in range(c):
            states[0 if p[k, 0] == 0 else 1 if slip[k] < 1e-6 else 2] += 1
    assert (states > 50).all()


def test_contact_rows_are_the_derivatives_of_gap_and_slip():
    """Of particles, balls, boxes and wheels on a plane and a sphere, by finite differences."""
    problem, here, rng = problem_and_place()
    found = problem.evaluate(here).contact
    slots, rows = found.slots, found.jacobian
    assert len(found.values) >= 5
    for _ in range(5):
        d = rng.normal(size=(problem.system.slots, 3))
        measured = differentiate(lambda s, d=d: problem.evaluate(problem.moved(here, s * d)).contact.values, 1e-7)
        got = np.einsum("casi,csi->ca", rows, np.where(slots[:, :, None] < 0, 0.0, d[np.maximum(slots, 0)]))
        assert got == pytest.approx(measured, rel=1e-5, abs=1e-6)


def test_factors_refuse_an_indefinite_matrix():
    """A negative pivot is reported, not passed on."""
    rows, columns, level, rank, blocks, _ = chain()
    blocks[(rows == columns)] -= 24 * 5 * np.eye(3)
    assert not BlockTridiagonal(rows, columns, level, rank).factor(blocks)
    assert not SparseFactor(rows, columns, len(level)).factor(blocks)
