"""Membranes of shells: exact derivatives, and the material's modulus and Poisson's ratio on every triangulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from geosim import Environment, InputError, LinearElastic, Load, Passive, solve
from geosim.rods.membrane import membrane_force, membrane_hessian, membrane_matrices
from geosim.rods.robot import RodShellRobot
from geosim.rods.state import evaluate
from geosim.rods.stepper import RodShellStepper

THICK, MODULUS = 2e-3, 1e6
MESHES = ("equilateral", "diagonal", "union jack", "random")


def square(kind: str, cells: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """A square of side 1 m (equilateral: a parallelogram) cut into triangles of one kind."""
    grid = np.array([[i, j, 0.0] for j in range(cells + 1) for i in range(cells + 1)]) / cells
    if kind == "equilateral":
        grid = grid @ np.array([[1, 0, 0], [0.5, np.sqrt(0.75), 0], [0, 0, 1]])
    if kind == "random":
        inner = ((grid[:, :2] > 1e-9) & (grid[:, :2] < 1 - 1e-9)).all(axis=1)
        grid[inner, :2] += np.random.default_rng(3).uniform(-0.3, 0.3, (inner.sum(), 2)) / cells
    triangles = []
    for j in range(cells):
        for i in range(cells):
            a, b = j * (cells + 1) + i, (j + 1) * (cells + 1) + i
            other = kind in ("union jack", "equilateral") and ((i + j) % 2 == 1 or kind == "equilateral")
            triangles += [(a, a + 1, b), (a + 1, b + 1, b)] if other else [(a, a + 1, b + 1), (a, b + 1, b)]
    return grid, np.array(triangles)


def sheet(kind: str, poisson: float, **options) -> RodShellRobot:
    vertices, triangles = square(kind)
    material = LinearElastic(MODULUS, poisson, 1000.0)
    return RodShellRobot(
        vertices, triangles=triangles, thickness=THICK, shell_bending="hinge", shell_material=material, **options
    )


def stretched(robot: RodShellRobot, gradient: np.ndarray):
    """Energy and forces (n, 3) of an affine deformation."""
    state = RodShellStepper().start(robot)
    trial = evaluate(state.system, state, (robot.vertices @ gradient.T).ravel())
    return trial.energy, trial.gradient.reshape(-1, 3)


@pytest.mark.parametrize("kind", MESHES)
@pytest.mark.parametrize("poisson", [0.0, 0.3, 0.45])
def test_a_uniform_strain_has_the_energy_and_the_forces_of_the_material(kind, poisson):
    """Uniaxial stress: W = E e^2 / 2 in Green's strain e on every mesh; inside nothing pulls (the patch test)."""
    robot = sheet(kind, poisson)
    e = 0.02
    gradient = Rotation.from_rotvec([0.3, -0.5, 0.8]).as_matrix() @ np.diag(
        [np.sqrt(1 + 2 * e), np.sqrt(1 - 2 * poisson * e), 1.0]
    )
    energy, force = stretched(robot, gradient)
    area = robot.mesh.areas.sum()
    assert energy == pytest.approx(0.5 * MODULUS * e**2 * THICK * area, rel=1e-12)
    rim = np.unique(robot.mesh.edges[robot.mesh.faces[:, 1] < 0])
    inner = np.setdiff1d(np.arange(len(robot.vertices)), rim)
    assert np.abs(force[inner]).max() < 1e-12 * np.abs(force).max()
    shear = np.array([[1.0, 0.02, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    green = 0.5 * (shear.T @ shear - np.eye(3))[:2, :2]
    lame, mu = MODULUS * poisson / (1 - poisson**2), 0.5 * MODULUS / (1 + poisson)
    exact = 0.5 * lame * np.trace(green) ** 2 + mu * (green**2).sum()
    assert stretched(robot, shear)[0] == pytest.approx(exact * THICK * area, rel=1e-12)


def test_springs_have_the_modulus_of_their_mesh_and_not_that_of_the_material():
    """Right-angled triangles: springs store 0.75 .. 1.3 of E e^2 / 2, and the direction decides (why they are no default)."""
    e = 1e-4
    found = [
        stretched(sheet(kind, 1 / 3, shell_membrane="springs"), np.diag([1 + e, 1 - e / 3, 1]))[0]
        / (0.5 * MODULUS * e**2 * THICK)
        for kind in ("diagonal", "union jack")
    ]
    assert max(abs(f - 1) for f in found) > 0.08


@pytest.mark.parametrize("poisson", [0.0, 0.45])
def test_a_strip_pulled_at_its_ends_shows_young_and_poisson(poisson):
    """F = E h w e and a lateral strain -nu e of a square between free sides, on right-angled triangles, by the solver."""
    vertices, triangles = square("diagonal")
    held = np.zeros(vertices.shape, dtype=bool)
    held[:, 2] = True
    held[vertices[:, 0] < 1e-9, 0] = True
    held[0] = True
    material = LinearElastic(MODULUS, poisson, 1000.0)
    robot = RodShellRobot(
        vertices,
        triangles=triangles,
        thickness=THICK,
        shell_bending="hinge",
        shell_material=material,
        fixed_components=held,
    )
    end = np.flatnonzero(vertices[:, 0] > 1 - 1e-9)
    e = 1e-4
    share = np.where(np.isin(vertices[end, 1], (0.0, 1.0)), 0.5, 1.0)
    loads = [Load.force([v], (MODULUS * THICK * e * s / share.sum(), 0, 0)) for v, s in zip(end, share)]
    solver = RodShellStepper(static=True, tolerance=1e-9)
    moved = solve(robot, Passive(), Environment(loads=loads), solver=solver).frames[-1] - vertices
    assert moved[end, 0] == pytest.approx(e, rel=3e-4)  # Green's strain is e + e^2 / 2, and the load acts on the length
    top = vertices[:, 1] > 1 - 1e-9
    assert moved[top, 1] == pytest.approx(-poisson * e, rel=1e-3, abs=1e-10)


def test_gradient_and_hessian_are_exact():
    vertices, triangles = square("random", 1)
    rng = np.random.default_rng(2)
    stiffness = membrane_matrices(vertices, triangles[:1], np.array([0.1]), 3.0, 0.35)
    x = vertices[triangles[0]]
    rest = ((np.roll(x, -2, axis=0) - np.roll(x, -1, axis=0)) ** 2).sum(axis=1)[None]
    q, dofs = x.ravel() + 0.2 * rng.normal(size=9), np.arange(9)[None]

    def both(p):
        gradient = np.zeros(9)
        return membrane_force(p, dofs, stiffness, rest, gradient)[0], gradient

    h, steps = 1e-6, 1e-6 * np.eye(9)
    exact = both(q)[1]
    assert np.abs(exact - [(both(q + v)[0] - both(q - v)[0]) / (2 * h) for v in steps]).max() < 1e-9
    values = np.zeros(81)
    slots = np.array([[m * 9 + n for m in range(9) for n in range(m + 1)]])
    membrane_hessian(q, dofs, stiffness, rest, slots, values)
    lower = np.tril(values.reshape(9, 9))
    numeric = np.array([(both(q + v)[1] - both(q - v)[1]) / (2 * h) for v in steps])
    assert np.abs(lower + np.tril(lower, -1).T - numeric).max() < 1e-9


def test_an_unknown_membrane_is_refused():
    with pytest.raises(InputError, match="shell_membrane"):
        sheet("diagonal", 0.3, shell_membrane="rubber")
