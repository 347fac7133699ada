"""Local step of the projective solver: rotations, closest volumes, blending laws, and the merit's derivative."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from geosim.errors import InputError
from geosim.linear.polar import polar
from geosim.material.laws import Gent, MooneyRivlin, NeoHookean, Ogden, Yeoh
from geosim.material.materials import LinearElastic
from geosim.material.tensors import row
from geosim.shape.projective import kernels
from geosim.shape.projective.acceleration import Anderson
from geosim.shape.projective.elements import Body, Cells, Elements, Patches, rest_shapes
from geosim.shape.projective.material import STRAIN_SPACING, blend_table, uniaxial_stress


def matrices(count: int, seed: int = 0, spread: float = 0.5) -> np.ndarray:
    return np.eye(3) + spread * np.random.default_rng(seed).normal(size=(count, 3, 3))


def small_robot(targets: str, cell_targets: str, material=None):
    """A few random tets around the origin: half of them body, half chamber."""
    grid = np.stack(np.meshgrid(*[np.arange(3.0)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    rng = np.random.default_rng(3)
    grid += 0.1 * rng.normal(size=grid.shape)
    from scipy.spatial import Delaunay

    tets = Delaunay(grid).simplices.astype(np.int64)
    gradients, volumes = rest_shapes(grid, tets)
    flip = volumes < 0
    tets[flip] = tets[flip][:, [0, 2, 1, 3]]
    gradients, volumes = rest_shapes(grid, tets)
    keep = volumes > 0.02
    tets, gradients, volumes = tets[keep], gradients[keep], volumes[keep]
    material = MooneyRivlin() if material is None else material
    k, table = blend_table(material, 0.1)
    half = len(tets) // 2
    body = Body(
        tets[:half],
        gradients[:half],
        volumes[:half],
        np.full(half, k),
        np.full(half, 0.3 * k),
        np.zeros(half, np.int64),
        table[None],
        row(material, 1.0, isochoric=False)[None],
        targets,
        1.0,
    )
    rest = np.array([volumes[half:].sum()])
    from geosim.geometry.topology import boundary_faces

    cells = Cells(
        tets[half:],
        gradients[half:],
        volumes[half:],
        np.full(len(tets) - half, k),
        np.zeros(len(tets) - half, np.int64),
        (boundary_faces(tets[half:]),),
        rest,
        rest.copy(),
        cell_targets,
    )
    load = rng.normal(size=grid.shape) * 1e3
    return grid, Elements(len(grid), body, cells, load), rest


def test_rotations_are_the_closest_proper_ones():
    """The Newton iteration equals the singular value decomposition with its last sign mended, inverted elements too."""
    F = matrices(3000, spread=0.7)
    F[:5] *= 1e-6
    F[5] = np.diag([2.0, 1.0, 0.0])
    F[6] = np.diag([2.0, 0.0, 0.0])
    found = np.array([polar(tuple(f)) for f in F.reshape(-1, 9)]).reshape(-1, 3, 3)
    U, _, V = np.linalg.svd(F)
    U[:, :, 2] *= np.linalg.det(U @ V)[:, None]
    assert (np.linalg.det(F) < 0).sum() > 100
    assert np.allclose(np.linalg.det(found), 1.0, atol=1e-12), "proper, also where F is inverted or flat"
    assert np.allclose(found @ found.transpose(0, 2, 1), np.eye(3), atol=1e-12)
    s = np.linalg.svd(F, compute_uv=False)
    clear = s[:, 1] + np.sign(np.linalg.det(F)) * s[:, 2] > 1e-3 * s[:, 0]  # where the closest rotation is unique
    assert np.abs(found - U @ V)[clear].max() < 1e-10


@pytest.mark.parametrize("chamber", ["total", "uniform"])
def test_force_is_the_derivative_of_the_merit(chamber):
    """Central differences of the merit, with loads, chambers and inverted elements."""
    x, elements, rest = small_robot("material", chamber)
    rng = np.random.default_rng(5)
    x = x + 0.15 * rng.normal(size=x.shape)
    target = 1.4 * rest
    here = elements.evaluate(x, target)
    for seed in range(3):
        way = np.random.default_rng(seed).normal(size=x.shape)
        h = 1e-6
        slope = (elements.evaluate(x + h * way, target).merit - elements.evaluate(x - h * way, target).merit) / (2 * h)
        assert slope == pytest.approx(np.sum(here.force * way), rel=2e-6)


@pytest.mark.parametrize(
    "material",
    [NeoHookean(mu=1e5), Yeoh(c1=5e4, c2=2e3, c3=1e2), Gent(mu=1e5, jm=40.0), Ogden(mu=(6e4, 1e3), alpha=(2.0, 4.0))],
)
def test_force_of_every_material_is_the_derivative_of_its_energy(material):
    x, elements, rest = small_robot("material", "total", material)
    rng = np.random.default_rng(5)
    x = x + 0.02 * rng.normal(size=x.shape)
    way, h = rng.normal(size=x.shape), 1e-6
    slope = (elements.evaluate(x + h * way, rest).merit - elements.evaluate(x - h * way, rest).merit) / (2 * h)
    assert slope == pytest.approx(np.sum(elements.evaluate(x, rest).force * way), rel=5e-6)
    at_rest = elements.evaluate(small_robot("material", "total", material)[0], rest)
    assert np.abs(at_rest.force + elements.load).max() < 1e-6 * 1e5, "no stress at rest"


def test_law_of_the_volume_is_smooth_and_a_barrier():
    """Derivatives by central differences, squeezed, at rest, swollen and inverted; no kink in U where it is continued."""
    for J in (-0.3, 0.1, 0.3, 1.0, 2.5):
        h = 1e-5
        low, at, high = (np.array(kernels.volume_law(J + d)) for d in (-h, 0.0, h))
        for k in (0, 1, 3, 4):
            assert (high[k] - low[k]) / (2 * h) == pytest.approx(at[k + 1], rel=1e-4, abs=1e-7)
    below, above = (kernels.volume_law(kernels.FLATTENED + d) for d in (-1e-9, 1e-9))
    assert np.allclose(below[3:], above[3:], rtol=1e-6)
    assert kernels.volume_law(1.0)[3:] == pytest.approx((0.0, 0.0, 1.0))
    assert kernels.volume_law(0.3)[5] > 100.0, "stiff long before it is flat"


def test_a_pressure_is_not_stabilised_where_it_is_even():
    """Patches that all grow by one share have the pressure of the bulk alone; alternating ones have less."""
    x, elements, _ = small_robot("material", "total")
    body = replace(elements.body, bulk=100.0 * elements.body.bulk)
    patches = Patches(len(x), body)
    weight = np.bincount(body.tets.ravel(), np.repeat(body.volumes / 4, 4), minlength=len(x))
    bulk = 0.999 * body.bulk[0]
    assert patches.pressures(1e-3 * weight)[patches.ids] == pytest.approx(1e-3 * bulk, rel=1e-9)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], len(x))
    assert np.abs(patches.pressures(1e-3 * weight * signs)).mean() < 0.5 * 1e-3 * bulk


def test_total_targets_push_on_the_wall_alone():
    """The closest shapes of a total volume exert one pressure on the wall and nothing inside."""
    x, elements, rest = small_robot("material", "total")
    x = x + 0.02 * np.random.default_rng(2).normal(size=x.shape)
    elements.load[:] = 0.0
    force = elements.evaluate(x, 1.5 * rest).force - elements.evaluate(x, np.array([np.nan])).force
    pressure = elements.evaluate(x, 1.5 * rest).pressures[0]
    wall = elements.cells.walls[0]
    a, b, c = (x[wall[:, i]] for i in range(3))
    area = np.zeros_like(x)
    np.add.at(area, wall.ravel(), np.repeat(np.cross(b - a, c - a) / 6, 3, axis=0))
    assert pressure > 0
    assert np.allclose(force, -pressure * area, atol=1e-9 * np.abs(force).max())


def test_pressure_stands_on_the_wall_whatever_the_cells():
    """Without one of the cells, as beside a vertex that the mesher puts on a wall: the same pressure pushes the same."""
    x, whole, rest = small_robot("material", "total")
    c = whole.cells
    fewer = replace(c, tets=c.tets[1:], gradients=c.gradients[1:], volumes=c.volumes[1:], weights=c.weights[1:])
    fewer = replace(fewer, chamber=c.chamber[1:])
    pushes = []
    for cells in (c, fewer):
        elements = Elements(len(x), whole.body, cells, np.zeros_like(x))
        pressed, free = (elements.evaluate(x, volumes) for volumes in (1.5 * rest, np.array([np.nan])))
        pushes.append((pressed.force - free.force) / pressed.pressures[0])
    assert np.allclose(*pushes, atol=1e-12 * np.abs(pushes[0]).max())


def test_paper_blend_takes_the_cube_root():
    """A swollen element is pulled back to volume one by the length ratio, Eq. (7) with its exponent mended."""
    table = np.full((1, 3), 0.5)
    tets, x = np.array([[0, 1, 2, 3]]), np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]])
    gradients, _ = rest_shapes(x, tets)
    out = np.empty((1, 4, 3)), np.empty(1), np.empty(1)
    kernels.paper_targets(2.0 * x, tets, gradients, np.ones(1), np.zeros(1, np.int64), table, STRAIN_SPACING, *out)
    assert np.allclose(out[0][0, 1:], np.eye(3) * (2.0 - 1.0)), (
        "T = I: a uniform swelling leaves no shape but the rest shape"
    )
    assert out[2][0] == pytest.approx(8.0)


@pytest.mark.parametrize(
    "material", [MooneyRivlin(), NeoHookean(mu=1e5), Yeoh(c1=5e4, c2=1e2, c3=1.0), Ogden(mu=(1e5,), alpha=(1.8,))]
)
def test_blended_bar_follows_the_material(material):
    """A bar in tension: reaction within 5 % of the nominal stress up to stretch 2, contraction within 2 %."""
    k, table = blend_table(material, 0.02)
    body = np.array([0, 1, 2, 3])
    gradients, volumes = rest_shapes(np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]]), body[None])
    for stretch in (1.05, 1.2, 1.5, 2.0):
        side, stress = bar_in_tension(material, k, table, gradients, volumes, stretch)
        assert stress == pytest.approx(float(uniaxial_stress(material, np.array([stretch]))[0]), rel=0.05)
        assert side == pytest.approx(stretch**-0.5, rel=0.02)


def test_the_table_is_the_secant_of_the_material():
    """k R (l - 1 - l^-2 + l^-3/2) is the nominal stress of a bar at the strain of the table, within its spacing."""
    for ratio in (0.02, 0.2):
        k, R = blend_table(MooneyRivlin(), ratio)
        stretch = np.array([1.3, 2.0, 3.0])
        strain = np.sqrt((stretch - 1.0) ** 2 + 2.0 * (stretch**-0.5 - 1.0) ** 2)
        secant = k * np.interp(strain, np.arange(len(R)) * STRAIN_SPACING, R)
        stress = secant * (stretch - 1.0 - stretch**-2 + stretch**-1.5)
        assert R[0] == pytest.approx(ratio)
        assert R.max() <= 1.0
        assert stress == pytest.approx(uniaxial_stress(MooneyRivlin(), stretch), rel=0.01)


def bar_in_tension(material, k, table, gradients, volumes, stretch):
    """Side stretch and nominal stress of one element with free sides: the homogeneous bar."""
    from scipy.optimize import brentq

    body = Body(
        np.array([[0, 1, 2, 3]]),
        gradients,
        volumes,
        np.array([k]),
        np.array([k * 0.98 / 3]),
        np.zeros(1, np.int64),
        table[None],
        row(material, 1.0, isochoric=False)[None],
        "material",
        1.0,
    )
    empty = np.empty((0, 4), np.int64)
    cells = Cells(
        empty,
        np.empty((0, 4, 3)),
        np.empty(0),
        np.empty(0),
        np.empty(0, np.int64),
        (),
        np.empty(0),
        np.empty(0),
        "total",
    )
    elements = Elements(4, body, cells, np.zeros((4, 3)))

    def forces(side):
        x = np.vstack([np.zeros(3), np.diag([stretch, side, side])])
        return elements.evaluate(x, np.empty(0)).force / volumes[0]

    side = brentq(lambda s: forces(s)[2, 1], 0.5 * stretch**-0.5, 1.5 * stretch**-0.5, xtol=1e-12)
    return side, forces(side)[1, 0]


def test_linear_elastic_has_no_blending_law():
    with pytest.raises(InputError, match="no blending law"):
        uniaxial_stress(LinearElastic(youngs_modulus=1e5), np.array([1.1]))


def test_anderson_solves_a_linear_problem_in_as_many_steps_as_unknowns():
    rng = np.random.default_rng(0)
    A = np.diag([1.0, 3.0, 10.0])
    H = A @ np.diag([0.9, 0.2, 0.05])
    b = rng.normal(size=3)
    for window, limit in ((0, 100), (5, 5)):
        memory, x = Anderson(window), np.zeros(3)
        for count in range(100):  # noqa: B007 (the count is the answer)
            force = H @ x - b
            if np.linalg.norm(force) < 1e-8:
                break
            x = x + memory.direction(x, force, lambda f: np.linalg.solve(A, f))
        assert count <= limit
    assert np.allclose(x, np.linalg.solve(H, b), rtol=1e-6)
