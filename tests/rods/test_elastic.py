"""Rod stencils: exact derivatives, frames, and the published forces, Jacobians and static shapes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.io import loadmat
from scipy.spatial.transform import Rotation

from geosim import Environment, LinearElastic, Passive, solve
from geosim.linear.stencils import make_pattern
from geosim.rods.balance import Balance
from geosim.rods.elastic import bend_twist_force, bend_twist_hessian, linear_tensions, stretch_force, stretch_hessian
from geosim.rods.robot import RodShellRobot
from geosim.rods.section import Section
from geosim.rods.state import carry, evaluate
from geosim.rods.stepper import RodShellStepper

RUBBER = LinearElastic(1e6, 0.3, 1000.0)


def twisted_network(seed: int = 3) -> tuple[RodShellRobot, np.ndarray]:
    """Return a small network with a joint of four edges in mixed directions, and a bent and twisted q."""
    rng = np.random.default_rng(seed)
    vertices = np.array(
        [[0, 0, 0], [0.1, 0, 0], [0.2, 0.02, 0], [0.1, 0.1, 0.02], [0.09, -0.1, 0.01], [0.3, 0.02, 0.05]]
    )
    edges = [[0, 1], [1, 2], [3, 1], [1, 4], [5, 2]]
    robot = RodShellRobot(
        vertices,
        edges,
        radius=[0.01, 0.012, 0.01, 0.009, 0.01],
        rod_material=RUBBER,
        section=Section.rectangle(0.02, 0.01),
    )
    q = np.concatenate([(vertices + 0.02 * rng.normal(size=vertices.shape)).ravel(), rng.normal(size=len(edges))])
    return robot, q


def base_state(robot: RodShellRobot, q: np.ndarray):
    """Return a state whose frames live at q, so that small changes of q are parallel transport to first order."""
    return carry(RodShellStepper().start(robot), q)


def dense(state, q):
    """Return the assembled Hessian of stretching, bending and twisting as a dense matrix."""
    system = state.system
    trial = evaluate(system, state, q)
    free = np.ones(system.dofs, dtype=bool)
    pair, bent = system.stencils.springs, system.stencils.bends
    pattern = make_pattern(system.dofs, [pair, bent], free)
    values = np.zeros(pattern.size)
    bends = system.robot.bends
    stretch_hessian(q, pair, system.stretch, system.rest, np.zeros(0), pattern.slots(pair), values)
    bend_twist_hessian(
        q,
        system.stencils.bends,
        bends.edges,
        bends.signs,
        system.bending,
        state.natural,
        trial.t,
        trial.length,
        trial.m1,
        trial.m2,
        trial.twist,
        pattern.slots(system.stencils.bends),
        values,
    )
    return pattern.matrix(values).toarray()[np.ix_(pattern.unknown, pattern.unknown)]


def differences(function, q, scale=1e-7):
    """Central differences of a vector or scalar function, one column a degree of freedom."""
    columns = []
    for i in range(len(q)):
        up, down = q.copy(), q.copy()
        up[i] += scale
        down[i] -= scale
        columns.append((np.asarray(function(up)) - np.asarray(function(down))) / (2 * scale))
    return np.stack(columns, axis=-1)


def test_gradient_is_the_derivative_of_the_energy_at_a_joint_with_reversed_edges():
    robot, q = twisted_network()
    state = base_state(robot, q)
    gradient = evaluate(state.system, state, q).gradient
    numeric = differences(lambda p: evaluate(state.system, state, p).energy, q)
    assert np.abs(gradient - numeric).max() < 1e-6 * np.abs(gradient).max()
    assert (robot.bends.signs < 0).any()


def test_hessian_is_the_symmetric_part_of_the_jacobian_of_the_force():
    robot, q = twisted_network()
    state = base_state(robot, q)
    numeric = differences(lambda p: evaluate(state.system, state, p).gradient, q)
    exact = dense(state, q)
    assert np.abs(exact - 0.5 * (numeric + numeric.T)).max() < 1e-6 * np.abs(exact).max()
    turns = state.system.turns  # entries of theta are small beside EA/l: hold them to their own size
    own = np.abs(exact[turns:]).max()
    assert np.abs(exact - 0.5 * (numeric + numeric.T))[turns:].max() < 1e-6 * own


def test_energy_and_forces_do_not_change_when_an_edge_is_stored_the_other_way_round():
    robot, q = twisted_network()
    state = base_state(robot, q)
    one = evaluate(state.system, state, q)
    edges = np.array(robot.edges)
    edges[[1, 2]] = edges[[1, 2], ::-1]
    section = Section.circle(0.01)
    robots = [
        RodShellRobot(robot.vertices, e, radius=0.01, rod_material=RUBBER, section=section)
        for e in (robot.edges, edges)
    ]
    turned = q.copy()
    for i in (1, 2):
        turned[-5 + i] *= -1.0
    # a round section does not see which director is first, so energies from the rest frames agree
    energies, gradients = [], []
    for r, p in zip(robots, (q, turned)):
        s = base_state(r, p)
        trial = evaluate(s.system, s, p)
        energies.append(trial.energy)
        gradients.append(trial.gradient[: 3 * len(r.vertices)])
    assert energies[0] == pytest.approx(energies[1], rel=1e-9)
    assert np.allclose(gradients[0], gradients[1], rtol=0, atol=1e-8 * np.abs(gradients[0]).max())
    assert one.energy > 0


def test_rigid_motion_costs_nothing_and_forces_have_no_resultant():
    robot, q = twisted_network()
    state = base_state(robot, q)
    trial = evaluate(state.system, state, q)
    force = trial.gradient[: state.system.turns].reshape(-1, 3)
    x = q[: state.system.turns].reshape(-1, 3)
    assert np.abs(force.sum(axis=0)).max() < 1e-12 * np.abs(force).max()
    # a turned robot: theta follows the material frames, since the carried reference frames do not spin
    turn = Rotation.from_rotvec([0.3, -0.2, 0.5])
    moved = np.concatenate([(turn.apply(x) + [1, 2, 3]).ravel(), q[state.system.turns :]])
    carried = evaluate(state.system, state, moved)
    wanted = turn.apply(trial.m1)
    second = np.cross(carried.t, carried.d)
    moved[state.system.turns :] = np.arctan2((wanted * second).sum(axis=1), (wanted * carried.d).sum(axis=1))
    turned = evaluate(state.system, state, moved)
    assert turned.energy == pytest.approx(trial.energy, rel=1e-12)
    assert np.allclose(
        turned.gradient[: state.system.turns].reshape(-1, 3),
        turn.apply(force),
        rtol=0,
        atol=1e-11 * np.abs(force).max(),
    )


@pytest.mark.parametrize("direction", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0, -1, 0), (0, 0.95, 0.31), (1, 1, 1)])
def test_first_frames_are_orthonormal_in_every_direction(direction):
    robot = RodShellRobot(0.5 * np.outer(np.arange(4), direction), radius=0.1, rod_material=RUBBER)
    frame = np.stack([robot.directors, np.cross(robot.tangents, robot.directors), robot.tangents], axis=1)
    assert np.abs(frame @ frame.transpose(0, 2, 1) - np.eye(3)).max() < 1e-12


def test_frames_stay_orthonormal_and_twist_continuous_through_three_full_turns():
    """The free end of a straight rod is spun about its axis; the twist follows without a jump of 2 pi."""
    robot = RodShellRobot([[0, 0, 0], [1, 0, 0], [2, 0, 0]], radius=0.1, rod_material=RUBBER)
    state = RodShellStepper().start(robot)
    q = state.q.copy()
    for angle in np.linspace(0, 6 * np.pi, 61):
        q = q.copy()
        q[-1] = angle
        state = carry(state, q)
        assert state.strains()[0, 2] == pytest.approx(angle, abs=1e-12)


def test_reference_twist_counts_the_writhe_of_a_cone():
    """An edge that circles on a cone of half angle a turns its frame by the solid angle 2 pi (1 - cos a) each round."""
    robot = RodShellRobot([[0, 0, 0], [0, 0, 1], [0, 0, 2]], radius=0.1, rod_material=RUBBER)
    state = RodShellStepper().start(robot)
    half = 0.6
    steps = 400
    turns = 3
    for i in range(turns * steps + 1):
        phase = 2 * np.pi * i / steps
        tip = [np.sin(half) * np.cos(phase), np.sin(half) * np.sin(phase), 1 + np.cos(half)]
        state = carry(state, np.concatenate([[0, 0, 0, 0, 0, 1], tip, [0, 0]]))
        trial = evaluate(state.system, state, state.q)
        frame = np.stack([trial.d[1], np.cross(trial.t[1], trial.d[1]), trial.t[1]])
        assert np.abs(frame @ frame.T - np.eye(3)).max() < 1e-12
    assert abs(state.twist[0]) == pytest.approx(turns * 2 * np.pi * (1 - np.cos(half)), rel=1e-4)


def test_uniform_helix_has_its_curvature_and_torsion():
    """kappa/V and tau/V of material frames that follow the helix tend to the analytic values."""
    radius, pitch, n = 0.02, 0.05, 401
    s = np.linspace(0, 4 * np.pi, n)
    c = np.hypot(radius, pitch / (2 * np.pi))
    x = np.stack([radius * np.cos(s), radius * np.sin(s), pitch * s / (2 * np.pi)], axis=1)
    robot = RodShellRobot(x, radius=1e-3, rod_material=RUBBER)
    natural = RodShellStepper().start(robot).natural[: len(robot.bends.length)]
    size = np.hypot(natural[:, 0], natural[:, 1]) / robot.bends.length
    assert np.allclose(size, radius / c**2, rtol=1e-3)
    angle = np.unwrap(np.arctan2(natural[:, 0], -natural[:, 1]))
    torsion = np.gradient(angle) / robot.bends.length  # space-parallel frames turn against the curvature by the torsion
    assert np.allclose(np.abs(torsion[2:-2]), pitch / (2 * np.pi) / c**2, rtol=1e-3)


# -- published references ---------------------------------------------------------------------------------------------


def matlab_robot(reference_data, **options) -> RodShellRobot:
    b, h = 0.02, 0.001
    material = LinearElastic(2e6, 0.5, 1200.0)
    x = np.stack([np.linspace(0, 0.1, 51), np.zeros(51), np.zeros(51)], axis=1)
    return RodShellRobot(
        x,
        radius=1e-3,
        rod_material=material,
        section=Section(b * h, b * h**3 / 12, h * b**3 / 12, b * h**3 / 6),
        **options,
    )


def test_matlab_stretching_force_and_jacobian(reference_data):
    file = loadmat(reference_data / "rods/matlab/rod_cantilever/rod_cantilever_n51_get_fs_js.mat")
    q = file["q"].ravel().astype(float)
    state = RodShellStepper().start(matlab_robot(reference_data))
    system = state.system
    gradient = np.zeros(system.dofs)
    stretch_force(q, system.stencils.springs, system.stretch, system.rest, gradient)
    assert np.abs(-gradient - file["Fs"].ravel()).max() < 1e-8 * np.abs(file["Fs"]).max()
    soft = RodShellRobot(
        system.robot.vertices,
        radius=1e-3,
        rod_material=system.robot.rod_material,
        section=system.robot.section,
        bend_stiffness=0.0,
        twist_stiffness=0.0,
    )
    exact = dense(RodShellStepper().start(soft), q)
    assert np.abs(-exact - file["Js"]).max() < 1e-8 * np.abs(file["Js"]).max()


@pytest.mark.parametrize("which", ["q", "q0"])
def test_matlab_bending_force_and_jacobian(reference_data, which):
    file = loadmat(reference_data / f"rods/matlab/rod_cantilever/rod_cantilever_n51_get_fb_jb_{which}.mat")
    q = file["q"].ravel().astype(float)
    robot = matlab_robot(reference_data, stretch_stiffness=0.0, twist_stiffness=0.0)
    state = RodShellStepper().start(robot)
    system, bends = state.system, robot.bends
    trial = evaluate(system, state, q)
    m1, m2 = file["m1"].astype(float), file["m2"].astype(float)
    gradient = np.zeros(system.dofs)
    bend_twist_force(
        q,
        system.stencils.bends,
        bends.edges,
        bends.signs,
        system.bending,
        system.natural,
        trial.t,
        trial.length,
        m1,
        m2,
        trial.twist,
        gradient,
    )
    assert np.abs(trial.m1 - m1).max() < 1e-12
    assert np.abs(-gradient - file["Fb"].ravel()).max() < 1e-8 * np.abs(file["Fb"]).max()
    symmetric = 0.5 * (file["Jb"] + file["Jb"].T)
    assert np.abs(-dense(state, q) - symmetric).max() < 1e-8 * np.abs(symmetric).max()


def test_matlab_static_rod_under_ramped_gravity(reference_data):
    """Every published row is one of the Newton iterates that start from the row before (to 1e-8 relative).

    The published run stops each load step after 2 to 7 iterations, up to 0.4 % of the length before equilibrium,
    which is why the rows are compared with iterates; the last rows then come within that of the equilibrium.
    """
    qs = loadmat(reference_data / "rods/matlab/rod_cantilever/rod_cantilever_n51_static_sim.mat")["qs"]
    robot = matlab_robot(reference_data, fixed_vertices=np.arange(6), planar="xz")
    start = RodShellStepper(static=True).start(robot)
    system = start.system
    order = system.pattern.order
    before = np.concatenate([robot.vertices.ravel(), np.zeros(50)])
    iterations = []
    for k, row in enumerate(qs, start=1):
        weight = np.zeros(system.dofs)
        weight[2:153:3] = -9.81 * k / 10 * system.mass[2:153:3]
        balance = Balance(system, replace(start, q=before), system.natural, weight, 0.0)
        q, errors = before.copy(), []
        for _ in range(9):
            trial, f = balance.residual(q)
            values, _ = balance.jacobian(q, trial)
            q = q.copy()
            q[order] += system.pattern.solve(values, -f[order])[0]
            errors.append(np.abs(q - row).max() / np.abs(row[:153]).max())
        assert min(errors) < 1e-8
        iterations.append(int(np.argmin(errors)) + 1)
        assert errors[-1] < 5e-3
        before = row
    assert iterations == [4, 5, 3, 7, 3, 4, 2, 2, 2, 2]
    result = solve(robot, Passive(), Environment(gravity=(0, 0, -9.81)), solver=RodShellStepper(static=True))
    assert np.abs(result.frames[-1].ravel() - qs[-1, :153]).max() < 1e-4


def test_static_helix_tip(reference_data):
    x = np.loadtxt(reference_data / "rods/helix_configuration.txt")
    robot = RodShellRobot(
        x, radius=5e-3, rod_material=LinearElastic(1e7, 0.5, 1273.52), fixed_vertices=[0, 1], fixed_edges=[0]
    )
    result = solve(robot, Passive(), Environment(gravity=(0, 0, -9.8)), solver=RodShellStepper(static=True))
    assert np.abs(result.tip[-1] - [-0.01627491, -0.00059016, -0.19876219]).max() < 1e-7
    published = np.load(reference_data / "rods/b3_static_h5.npz")["x_eq"]
    assert np.abs(result.frames[-1] - published).max() < 1e-9
    assert result.stable[-1] == 1


def test_tensions_after_a_step_are_those_of_strains_that_change_linearly():
    """Exact along the edge, and without the square of a turn across it."""
    q, rest, dofs = np.array([0.0, 0, 0, 1.1, 0, 0]), np.array([1.0]), np.arange(6)[None]
    for dq, strain in (([0, 0, 0, 0.05, 0, 0], 0.15), ([0.02, 0, 0, 0, 0, 0], 0.08), ([0, 0, 0, 0, 0.3, 0], 0.1)):
        tension = linear_tensions(q, np.array(dq, dtype=float), dofs, np.array([40.0]), rest)
        assert tension == pytest.approx(40.0 * strain)
