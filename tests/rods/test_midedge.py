"""Mid-edge normals: exact derivatives, published forces, plates of any mesh, frames that do not spin."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.io import loadmat
from scipy.spatial.transform import Rotation

from geosim import Environment, InputError, LinearElastic, Load, NaturalShape, Passive, solve
from geosim.rods.balance import Balance
from geosim.rods.files import read_geometry
from geosim.rods.midedge import midedge_angles
from geosim.rods.robot import RodShellRobot
from geosim.rods.state import carry, evaluate
from geosim.rods.stepper import RodShellStepper
from geosim.rods.system import with_free

SHEET = LinearElastic(2e8, 0.3, 1200.0)


def patch(count: int = 3, seed: int | None = 0) -> tuple[np.ndarray, np.ndarray]:
    """A square of (count, count) cells with inner vertices moved at random."""
    points = np.array([[i, j, 0.0] for j in range(count + 1) for i in range(count + 1)]) / count
    if seed is not None:
        inner = ((points[:, :2] > 1e-9) & (points[:, :2] < 1 - 1e-9)).all(axis=1)
        points[inner, :2] += np.random.default_rng(seed).uniform(-0.25, 0.25, (inner.sum(), 2)) / count
    triangles = []
    for j in range(count):
        for i in range(count):
            a, b = j * (count + 1) + i, (j + 1) * (count + 1) + i
            triangles += [(a, a + 1, b), (a + 1, b + 1, b)] if (i + j) % 2 else [(a, a + 1, b + 1), (a, b + 1, b)]
    return points, np.array(triangles)


def without_membrane(system):
    """The system with bending alone: stretching would hide it."""
    return replace(system, membrane=np.zeros_like(system.membrane))


def crumpled(size: float = 0.15, seed: int = 1):
    """A state far from rest, its frames carried there, with random normals."""
    vertices, triangles = patch()
    vertices[:, 2] = 0.2 * np.sin(3 * vertices[:, 0])
    robot = RodShellRobot(vertices, triangles=triangles, thickness=0.02, shell_material=SHEET, shell_bending="mid-edge")
    state = RodShellStepper().start(robot)
    system = without_membrane(state.system)
    state = replace(state, system=system)
    rng = np.random.default_rng(seed)
    q = state.q + np.concatenate(
        [size * rng.normal(size=state.system.turns) / 3, size * rng.normal(size=robot.turning)]
    )
    return carry(state, q)


def test_force_is_the_gradient_of_the_energy():
    state = crumpled()
    exact = evaluate(state.system, state, state.q).gradient
    h = 1e-6
    numeric = np.array(
        [
            (
                evaluate(state.system, state, state.q + h * v).energy
                - evaluate(state.system, state, state.q - h * v).energy
            )
            / (2 * h)
            for v in np.eye(len(exact))
        ]
    )
    assert np.abs(exact - numeric).max() < 1e-8 * np.abs(exact).max()


def test_hessian_is_the_symmetric_jacobian_of_the_force_and_the_second_derivative_of_the_energy():
    state = crumpled()
    system, order, h = state.system, state.system.pattern.order, 1e-6
    balance = Balance(system, state, state.natural, np.zeros_like(state.q), 0.0)
    values, _ = balance.jacobian(state.q, evaluate(system, state, state.q))
    exact = np.zeros((len(order), len(order)))
    exact[:] = system.pattern.matrix(values).toarray()
    jacobian = np.array(
        [
            (evaluate(system, state, state.q + h * v).gradient - evaluate(system, state, state.q - h * v).gradient)
            / (2 * h)
            for v in np.eye(len(state.q))
        ]
    )[np.ix_(order, order)]
    numeric = 0.5 * (jacobian + jacobian.T)
    assert np.abs(exact - numeric).max() < 1e-8 * np.abs(numeric).max()


def relaxed(robot: RodShellRobot, shape: np.ndarray):
    """The state of a shape [m] with its best normals (the energy is quadratic in them), bending alone."""
    state = RodShellStepper().start(robot)
    system = with_free(state.system, np.arange(state.system.dofs) >= state.system.turns)
    system = without_membrane(system)
    state = carry(replace(state, system=system), np.concatenate([shape.ravel(), np.zeros(robot.turning)]))
    balance = Balance(system, state, state.natural, np.zeros_like(state.q), 0.0)
    trial, f = balance.residual(state.q)
    values, _ = balance.jacobian(state.q, trial)
    q = state.q.copy()
    q[system.pattern.order] -= system.pattern.solve(values, f[system.pattern.order])[0]
    return carry(state, q)


def minimum(robot: RodShellRobot, shape: np.ndarray) -> float:
    """Bending energy [J] of a shape with its best normals."""
    state = relaxed(robot, shape)
    trial = evaluate(state.system, state, state.q)
    assert np.abs(trial.gradient[state.system.turns :]).max() < 1e-9 * max(trial.moment, 1e-300)
    return trial.energy


def test_energy_knows_no_rigid_motion_no_numbering_and_no_orientation():
    vertices, triangles = patch()
    vertices[:, 2] = 0.2 * np.sin(3 * vertices[:, 0])
    shape = vertices + 0.05 * np.random.default_rng(3).normal(size=vertices.shape)

    def sheet(vertices, triangles):
        return RodShellRobot(
            vertices, triangles=triangles, thickness=0.02, shell_material=SHEET, shell_bending="mid-edge"
        )

    energy = minimum(sheet(vertices, triangles), shape)
    turn = Rotation.from_rotvec([1.0, -0.7, 2.0]).as_matrix()
    assert energy > 0
    assert minimum(sheet(vertices, triangles), shape @ turn.T + 1.0) == pytest.approx(energy, rel=1e-9)
    flipped = triangles.copy()
    flipped[::3] = flipped[::3, ::-1]
    assert minimum(sheet(vertices, flipped), shape) == pytest.approx(energy, rel=1e-9)
    order = np.random.default_rng(0).permutation(len(triangles))
    assert minimum(sheet(vertices, np.roll(triangles, 1, axis=1)[order]), shape) == pytest.approx(energy, rel=1e-9)


@pytest.mark.parametrize("seed", [None, 0, 1])
@pytest.mark.parametrize(("kappa", "energy"), [((1, 0), 0.5), ((0, 1), 0.5), ((1, -1), 1 - 0.3), ((1, 1), 1 + 0.3)])
def test_cylinder_saddle_and_dome_bend_as_a_plate_on_any_mesh(seed, kappa, energy):
    """1/2 D (k1^2 + k2^2 + 2 nu k1 k2) for a fine patch, to 2 %; the free rim takes some of the rest."""
    vertices, triangles = patch(24, seed)
    robot = RodShellRobot(vertices, triangles=triangles, thickness=1e-3, shell_material=SHEET, shell_bending="mid-edge")
    plate = 2e8 * 1e-9 / (12 * (1 - 0.3**2))
    shape = vertices.copy()
    shape[:, 2] = 0.005 * (kappa[0] * (vertices[:, 0] - 0.5) ** 2 + kappa[1] * (vertices[:, 1] - 0.5) ** 2)
    state = relaxed(robot, shape)
    system = state.system
    strain = np.zeros((len(triangles), 3))
    midedge_angles(state.q, system.stencils.faces, system.sides, system.signs, state.normals, strain)
    each = 0.5 * np.einsum("ti,tij,tj->t", strain, system.plates, strain)
    middle = vertices[triangles].mean(axis=1)[:, :2]
    inside = (np.abs(middle - 0.5) < 0.3).all(axis=1)
    density = each[inside].sum() / robot.mesh.areas[inside].sum() / plate / 0.01**2
    assert density == pytest.approx(energy, rel=0.02)


def published_force(vertices, triangles, x, xi, tau, edges, plate, poisson):
    """Forces on x and xi by appendix A of [Lahoti], which leaves out how c and t change; k_b of Eq. (20)."""
    number = {tuple(sorted(e)): i for i, e in enumerate(edges)}
    force, turn = np.zeros_like(x), np.zeros(len(edges))
    for corners in triangles:
        p, rest = x[corners], vertices[corners]
        area = np.cross(p[1] - p[0], p[2] - p[0])
        n, twice = area / np.linalg.norm(area), np.linalg.norm(area)
        rest_area = np.linalg.norm(np.cross(rest[1] - rest[0], rest[2] - rest[0])) / 2
        side = [number[tuple(sorted((corners[(k + 1) % 3], corners[(k + 2) % 3])))] for k in range(3)]
        t = np.array([np.cross(p[(k + 2) % 3] - p[(k + 1) % 3], n) for k in range(3)])
        length = [np.linalg.norm(rest[(k + 2) % 3] - rest[(k + 1) % 3]) for k in range(3)]
        c = np.array([1 / (rest_area * length[k] * (t[k] @ tau[side[k]]) / np.linalg.norm(t[k])) for k in range(3)])
        a = c * (xi[side] - tau[side] @ n)
        square = t @ t.T
        matrix = (
            2 * plate * rest_area * ((1 - poisson) * square**2 + poisson * np.outer(np.diag(square), np.diag(square)))
        )
        moment = c * (matrix @ a)
        np.add.at(turn, side, -moment)
        for k in range(3):
            force[corners[k]] += (moment * (tau[side] @ t[k])).sum() * n / twice
    return force, turn


def test_published_midedge_forces(reference_data):
    """The published forces to 1e-8, and their Jacobian to 1e-4 (the size of the angles), with k_b of Eq. (20).

    Their tau is n x e with edge e (run backwards) opposite to the vertices of a triangle in turn; edges are numbered as they
    appear in that order. The published forces leave out how c and t of the appendix change with x, so that they are the
    gradient of no energy; a transcription of the appendix gives them to 1e-12. At their state (angles of 1e-4) that is less
    than 1e-8 of the force; in a shape bent 200 times more it is up to a hundredth.
    """
    folder = reference_data / "rods/matlab/shell_cantilever"
    file = loadmat(folder / "shell_cantilever_n40_get_fb_jb_midedge_shell.mat")
    vertices, _, triangles = read_geometry(folder / "equilateral_mesh_40.txt")
    edges, seen = [], set()
    for corners in triangles.tolist():
        for k in range(3):
            pair = (corners[(k + 2) % 3], corners[(k + 1) % 3])
            if tuple(sorted(pair)) not in seen:
                seen.add(tuple(sorted(pair)))
                edges.append(pair)
    edges = np.array(edges)
    x, xi, tau = file["q"][: vertices.size].reshape(-1, 3), file["q"][vertices.size :, 0], file["tau_0"].T
    published = file["Fb_shell"].ravel()
    plate = 2e8 * 1e-9 / (24 * (1 - 0.5**2))
    force, turn = published_force(vertices, triangles, x, xi, tau, edges, plate, 0.5)
    assert np.abs(np.concatenate([force.ravel(), turn]) - published).max() < 1e-12 * np.abs(published).max()

    robot = RodShellRobot(
        vertices,
        triangles=triangles,
        thickness=1e-3,
        shell_bending="mid-edge",
        shell_membrane="springs",
        shell_material=LinearElastic(2e8, 0.5, 1200.0),
    )
    number = {tuple(sorted(e)): i for i, e in enumerate(robot.mesh.edges.tolist())}
    mine = np.array([number[tuple(sorted(e))] for e in edges.tolist()])
    start = RodShellStepper().start(robot)
    system = replace(start.system, stretch=np.zeros(len(edges)))

    def bent(share):
        """The state bent `share` times as much, and its normals in the frames of the published tau."""
        shape = vertices + share * (x - vertices)
        e = shape[edges[:, 1]] - shape[edges[:, 0]]
        e /= np.linalg.norm(e, axis=1)[:, None]
        frame = tau - (tau * e).sum(axis=1)[:, None] * e
        frame /= np.linalg.norm(frame, axis=1)[:, None]
        state = carry(replace(start, system=system), np.concatenate([shape.ravel(), np.zeros(len(edges))]))
        d, t = state.normals[mine], state.shell_tangents[mine]
        normal = share * xi[:, None] * frame + np.sqrt(1 - (share * xi) ** 2)[:, None] * np.cross(e, frame)
        q = state.q.copy()
        q[system.turns + mine] = np.arctan2((np.cross(t, d) * normal).sum(axis=1), (d * normal).sum(axis=1))
        return state, q, shape, frame

    state, q, _, _ = bent(1.0)
    balance = Balance(system, state, state.natural, np.zeros_like(q), 0.0)
    trial, gradient = balance.residual(q)
    # their xi grows towards tau, this one about the stored direction of the edge
    sense = np.sign((np.cross(state.shell_tangents, state.normals)[mine] * tau).sum(axis=1))
    every = np.concatenate([np.arange(vertices.size), vertices.size + mine])
    signs = np.concatenate([np.ones(vertices.size), sense])
    assert np.abs(-signs * gradient[every] - published).max() < 1e-8 * np.abs(published).max()
    values, _ = balance.jacobian(q, trial)
    hessian = np.zeros((len(q), len(q)))
    order = system.pattern.order
    hessian[np.ix_(order, order)] = system.pattern.matrix(values).toarray()
    hessian = -signs[:, None] * hessian[np.ix_(every, every)] * signs
    jacobian = file["Jb_shell"]
    assert np.abs(hessian - jacobian).max() < 1e-4 * np.abs(jacobian).max()

    state, q, shape, frame = bent(200.0)
    force, _ = published_force(vertices, triangles, shape, 200.0 * xi, frame, edges, plate, 0.5)
    exact = -evaluate(system, state, q).gradient[: system.turns]
    assert 1e-5 < np.abs(exact - force.ravel()).max() / np.abs(force).max() < 0.1


def test_natural_hinge_angle_folds_two_triangles():
    vertices = np.array([[0, 0, 0], [0, 1, 0], [-1, 0.5, 0], [1, 0.5, 0.0]])
    for second in ([1, 0, 3], [0, 1, 3]):
        robot = RodShellRobot(
            vertices,
            triangles=[[0, 1, 2], second],
            thickness=0.01,
            shell_material=SHEET,
            fixed_vertices=[0, 1, 2],
            shell_bending="mid-edge",
        )
        result = solve(
            robot, NaturalShape([1.0], hinge_angle=[0.6]), solver=RodShellStepper(static=True, tolerance=1e-9)
        )
        # either side of the edge takes half, and the normals of the clamped triangle are held
        angle = np.arctan2(abs(result.frames[-1, 3, 2]), result.frames[-1, 3, 0])
        assert angle == pytest.approx(0.3, rel=1e-6)


def test_every_triangle_bends_with_its_own_thickness():
    """A strip, thick in one half: the curvature of a couple is M / (D w) in either, nu = 0."""
    points = np.array([[i * 0.01, j * 0.02, 0.0] for i in range(21) for j in range(2)])
    triangles = np.array(
        [t for i in range(20) for t in ((2 * i, 2 * i + 2, 2 * i + 1), (2 * i + 2, 2 * i + 3, 2 * i + 1))]
    )
    thick = np.where(points[triangles].mean(axis=1)[:, 0] < 0.1, 2e-3, 1e-3)
    robot = RodShellRobot(
        points,
        triangles=triangles,
        thickness=thick,
        shell_material=LinearElastic(1e8, 0.0, 1000.0),
        shell_bending="mid-edge",
        fixed_vertices=points[:, 0] < 0.011,
    )
    force = 1e-5
    loads = [Load.force([40, 41], (0, 0, force)), Load.force([38, 39], (0, 0, -force))]
    result = solve(robot, Passive(), Environment(loads=loads), solver=RodShellStepper(static=True, tolerance=1e-9))
    moment = force * 0.01 / 0.02
    z = result.frames[-1, :, 2].reshape(-1, 2).mean(axis=1)
    curvature = np.diff(z, 2) / 0.01**2  # at columns 1 .. 19
    np.testing.assert_allclose(curvature[2:7], moment / (1e8 * 8e-9 / 12), rtol=0.01)
    np.testing.assert_allclose(curvature[11:16], moment / (1e8 * 1e-9 / 12), rtol=0.01)


def test_explicit_steps_and_hinge_stiffness_are_refused():
    vertices, triangles = patch(1)
    options = dict(triangles=triangles, thickness=0.01, shell_material=SHEET, shell_bending="mid-edge")
    with pytest.raises(InputError, match="no mass"):
        RodShellStepper(integrator="verlet").start(RodShellRobot(vertices, **options))
    with pytest.raises(InputError, match="has no hinges"):
        RodShellRobot(vertices, hinge_stiffness=1.0, **options)


@pytest.mark.parametrize("integrator", ["implicit-euler", "implicit-midpoint"])
def test_a_free_sheet_keeps_its_momenta(integrator):
    vertices, triangles = patch(4)
    vertices = 0.1 * vertices
    velocities = np.cross([3.0, 1.0, 5.0], vertices - vertices.mean(axis=0)) + [0.1, 0.2, 0.3]
    velocities[:, 2] += 0.5 * np.sin(60 * vertices[:, 0])
    robot = RodShellRobot(
        vertices,
        triangles=triangles,
        thickness=2e-3,
        shell_material=LinearElastic(1e6, 0.3, 1000.0),
        velocities=velocities,
        shell_bending="mid-edge",
    )
    result = solve(robot, Passive(0.05), solver=RodShellStepper(dt=1e-3, integrator=integrator, tolerance=1e-12))
    mass = result.state.system.mass[: vertices.size].reshape(-1, 3)
    p = mass * result.extra["velocities"]
    linear, angular = p.sum(axis=1), np.cross(result.frames, p).sum(axis=1)
    assert np.abs(linear - linear[0]).max() < 1e-11 * np.abs(linear).max()
    if integrator == "implicit-midpoint":
        assert np.abs(angular - angular[0]).max() < 1e-8 * np.abs(angular).max()
        # no drift: what kinetic energy loses the sheet stores
        assert np.abs(result.energies - result.energies[0]).max() < 0.02 * result.energies[0]
    else:
        assert (np.diff(result.energies) < 1e-9 * result.energies[0]).all()
    assert np.abs(result.frames[-1] - result.frames[0]).max() > 5e-3
