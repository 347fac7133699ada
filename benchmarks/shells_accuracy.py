"""Rods, hinges and mid-edge normals against beams, the elastica and plates; mesh dependence of both shells.

python benchmarks/shells_accuracy.py [cantilever] [plates] [strip] [energies] [meshes]
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
from scipy.integrate import solve_bvp
from scipy.spatial import Delaunay

from geosim import Environment, LinearElastic, Load, Passive, RodShellRobot, RodShellStepper, solve
from geosim.rods.balance import Balance
from geosim.rods.section import Section
from geosim.rods.shells import hinge_angles
from geosim.rods.state import carry, evaluate
from geosim.rods.system import with_free

GRAVITY = 9.81
BENDINGS = ("hinge", "mid-edge")
MESHES = ("equilateral", "diagonal", "crossed", "random")


def mesh(
    kind: str, lower: tuple[float, float], upper: tuple[float, float], step: float
) -> tuple[np.ndarray, np.ndarray]:
    """Vertices [m] and triangles of a rectangle with straight sides; columns of vertices at constant x every `step`."""
    width, height = upper[0] - lower[0], upper[1] - lower[1]
    m = max(2, round(width / step))
    n = max(2, round(height / (step * 2 / np.sqrt(3)) if kind == "equilateral" else height / step))
    points, triangles = [], []
    if kind == "equilateral":
        for i in range(m + 1):
            y = np.linspace(0, 1, n + 1) if i % 2 == 0 else np.concatenate([[0], (np.arange(n) + 0.5) / n, [1]])
            points += [(lower[0] + width * i / m, lower[1] + height * v) for v in y]
        first = np.cumsum([0] + [n + 1 + i % 2 for i in range(m + 1)])
        for i in range(m):
            a, b = first[i], first[i + 1]
            if i % 2 == 0:
                triangles += [(a + j, b + j, b + j + 1) for j in range(n + 1)]
                triangles += [(a + j, b + j + 1, a + j + 1) for j in range(n)]
            else:
                triangles += [(a + j, b + j, a + j + 1) for j in range(n + 1)]
                triangles += [(a + j + 1, b + j, b + j + 1) for j in range(n)]
    else:
        points = [(lower[0] + width * i / m, lower[1] + height * j / n) for i in range(m + 1) for j in range(n + 1)]
        for i in range(m):
            for j in range(n):
                a, b = i * (n + 1) + j, (i + 1) * (n + 1) + j
                if kind == "crossed" and (i + j) % 2:
                    triangles += [(a, b, a + 1), (b, b + 1, a + 1)]
                else:
                    triangles += [(a, b, b + 1), (a, b + 1, a + 1)]
    flat = np.array(points)
    if kind == "random":
        inner = (flat > np.array(lower) + 1.4 * step).all(axis=1) & (flat < np.array(upper) - 1.4 * step).all(axis=1)
        flat[inner] += np.random.default_rng(5).uniform(-0.3, 0.3, (inner.sum(), 2)) * step
        triangles = [
            t for t in Delaunay(flat).simplices if abs(np.linalg.det(flat[t[1:]] - flat[t[0]])) > 1e-3 * step**2
        ]
    corners = np.array(triangles)
    edge1, edge2 = flat[corners[:, 1]] - flat[corners[:, 0]], flat[corners[:, 2]] - flat[corners[:, 0]]
    backwards = edge1[:, 0] * edge2[:, 1] - edge1[:, 1] * edge2[:, 0] < 0
    corners[backwards] = corners[backwards][:, ::-1]
    return np.column_stack([flat, np.zeros(len(flat))]), corners


def statics(robot: RodShellRobot, environment: Environment) -> np.ndarray:
    """Positions of the equilibrium [m]."""
    return solve(robot, Passive(), environment, solver=RodShellStepper(static=True, tolerance=1e-7)).frames[-1]


# -- cantilever --------------------------------------------------------------------------------------------------------


def elastica(load: float) -> float:
    """Drop of the tip over length of a heavy inextensible beam, load = w L^3 / E I: t'' = -load (1 - s) cos t."""
    s = np.linspace(0, 1, 201)
    answer = solve_bvp(
        lambda s, y: np.array([y[1], -load * (1 - s) * np.cos(y[0]), np.sin(y[0])]),
        lambda a, b: np.array([a[0], b[1], a[2]]),
        s,
        np.zeros((3, 201)),
        tol=1e-9,
        max_nodes=20000,
    )
    return float(answer.y[2, -1])


def cantilever() -> None:
    """Fig. 8 of [Lahoti]: 0.1 m x 1 cm x 1 mm under its weight; E from 20 GPa to 20 MPa.

    The clamp holds two columns of vertices; it ends half a step before the second for rods and hinges, at it for mid-edge. A
    strip of hinges with free edges bends like the beam if nu = 1/3; a plate does if nu = 0, and at 1/3 the clamp stiffens it.
    """
    length, width, thick, density, columns = 0.1, 0.01, 1e-3, 1200.0, 40
    step = length / columns
    print(f"cantilever 0.1 m under its weight, {columns} edges along: tip drop [mm], error against the elastica")
    print(
        f"{'E [Pa]':>9} {'Euler-B.':>9} {'elastica':>9} {'rod':>18} {'hinge':>18} {'mid-edge nu = 0':>18} {'nu = 1/3':>18}"
    )
    for modulus in (20e9, 2e9, 200e6, 20e6):
        load = 12 * density * GRAVITY * length**3 / (modulus * thick**2)
        exact = length * elastica(load)
        drops = []
        for kind, poisson in (("rod", 1 / 3), ("hinge", 1 / 3), ("mid-edge", 0.0), ("mid-edge", 1 / 3)):
            material = LinearElastic(modulus, poisson, density)
            start = -step if kind == "mid-edge" else -0.5 * step
            reach = columns + 1 if kind == "mid-edge" else columns
            size = (length - start) / reach
            clamped = start + 1.01 * size
            if kind == "rod":
                x = np.column_stack([np.linspace(start, length, reach + 1), np.zeros((reach + 1, 2))])
                robot = RodShellRobot(
                    x,
                    radius=thick,
                    rod_material=material,
                    section=Section.rectangle(width, thick),
                    fixed_vertices=x[:, 0] < clamped,
                    fixed_edges=[0],
                    planar="xz",
                )
                tips = x[:, 0] > length - 1e-9
            else:
                x, triangles = mesh("equilateral", (start, 0), (length, width), size)
                robot = RodShellRobot(
                    x,
                    triangles=triangles,
                    thickness=thick,
                    shell_material=material,
                    fixed_vertices=x[:, 0] < clamped,
                    shell_bending=kind,
                )
                tips = x[:, 0] > length - 1e-9
            drops.append(-statics(robot, Environment(gravity=(0, 0, -GRAVITY)))[tips, 2].mean())
        print(
            f"{modulus:9.0e} {1e3 * load * length / 8:9.4f} {1e3 * exact:9.4f} "
            + " ".join(f"{1e3 * d:9.4f} {100 * (d / exact - 1):+7.2f}%" for d in drops)
        )


# -- plates ------------------------------------------------------------------------------------------------------------

CLAMPED, SUPPORTED = 0.00126532, 0.00406235  # w D / (q a^4) in the middle (Timoshenko and Woinowsky-Krieger 1959)


def plate_deflection(kind: str, bending: str, clamped: bool, cells: int) -> float:
    """Deflection in the middle of a square plate under its weight, w D / (q a^4)."""
    side, thick, poisson = 1.0, 1e-2, 0.3
    step = side / cells
    rim = 0.0 if not clamped else (step if bending == "mid-edge" else 0.5 * step)
    count = cells + (0 if not clamped else (2 if bending == "mid-edge" else 1))
    low, high = -rim, side + rim
    x, triangles = mesh(kind, (low, low), (high, high), (high - low) / count)
    material = LinearElastic(1e9, poisson, 1000.0)
    held = np.zeros(x.shape, dtype=bool)
    spacing = np.array(
        [
            (high - low) / count,
            (high - low) / max(2, round((high - low) / ((high - low) / count * 2 / np.sqrt(3))))
            if kind == "equilateral"
            else (high - low) / count,
        ]
    )
    reach = 1.01 * spacing if clamped else 1e-9
    outer = ((x[:, :2] < low + reach) | (x[:, :2] > high - reach)).any(axis=1)
    held[outer, 2] = True
    held[(x[:, :2] < low + 1e-9).any(axis=1)] = True
    if clamped:
        held[outer] = True
    robot = RodShellRobot(
        x, triangles=triangles, thickness=thick, shell_material=material, fixed_components=held, shell_bending=bending
    )
    gravity = 1e-4
    shape = statics(robot, Environment(gravity=(0, 0, -gravity)))
    middle = np.argsort(((x[:, :2] - 0.5 * side) ** 2).sum(axis=1))[:12]
    # the deflection at the middle from a paraboloid through the nearest vertices
    d = x[middle, :2] - 0.5 * side
    fit = np.linalg.lstsq(np.column_stack([np.ones(12), d, d**2, d.prod(axis=1)]), shape[middle, 2], rcond=None)[0]
    plate = 1e9 * thick**3 / (12 * (1 - poisson**2))
    return -float(fit[0]) * plate / (1000.0 * thick * gravity * side**4)


def plates() -> None:
    """A square plate with clamped and with simply supported sides against the series of Kirchhoff's plate."""
    print("\nsquare plate under uniform load, deflection in the middle against Kirchhoff's series")
    print(
        f"{'mesh':12} {'cells':>5} "
        + " ".join(f"{b + ' ' + e:>22}" for e in ("clamped", "supported") for b in BENDINGS)
    )
    for kind in MESHES:
        for cells in (16, 32, 64) if kind == "equilateral" else (32,):
            row = [
                plate_deflection(kind, b, clamped, cells) / exact - 1
                for clamped, exact in ((True, CLAMPED), (False, SUPPORTED))
                for b in BENDINGS
            ]
            print(f"{kind:12} {cells:5d} " + " ".join(f"{100 * r:+21.2f}%" for r in row))


# -- strip -------------------------------------------------------------------------------------------------------------


def strip() -> None:
    """A free-edged strip bent by couples at its ends: M = D (1 - nu^2) k_x w and k_y = -nu k_x."""
    length, width, step, thick = 1.0, 0.3, 0.02, 1e-3
    print(
        "\nfree-edged wide strip bent by end couples: k_x over M / (D w), exact 1 / (1 - nu^2), and -k_y / k_x, exact nu"
    )
    print("(hinges have nu = -1/3 whatever the material: 1.125 and -0.333)")
    for poisson in (0.0, 0.3, 0.45):
        material = LinearElastic(1e9, poisson, 1000.0)
        plate = 1e9 * thick**3 / (12 * (1 - poisson**2))
        for bending in BENDINGS:
            x, triangles = mesh("equilateral", (-length / 2, -width / 2), (length / 2, width / 2), step)
            column = np.unique(np.round(x[:, 0], 9))
            held = np.zeros(x.shape, dtype=bool)
            axis = np.argsort(np.abs(x[:, 0]) + np.abs(x[:, 1]))[0]
            held[axis] = True
            far = np.argsort(np.abs(x[:, 0] - 0.2) + np.abs(x[:, 1] - x[axis, 1]))[0]
            held[far, 1:] = True
            held[np.argsort(np.abs(x[:, 0] - x[axis, 0]) + np.abs(x[:, 1] - 0.1))[0], 2] = True
            couple = 1e-6 * plate * width
            force = couple / (column[1] - column[0])
            loads = []
            for first, second in ((0, 1), (-1, -2)):
                for which, sign in ((first, 1.0), (second, -1.0)):
                    ids = np.flatnonzero(np.abs(x[:, 0] - column[which]) < 1e-6)
                    share = np.ones(len(ids))
                    share[[np.argmin(x[ids, 1]), np.argmax(x[ids, 1])]] = 0.5
                    loads += [Load.force([v], (0, 0, sign * force * s / share.sum())) for v, s in zip(ids, share)]
            robot = RodShellRobot(
                x,
                triangles=triangles,
                thickness=thick,
                shell_material=material,
                fixed_components=held,
                shell_bending=bending,
            )
            shape = statics(robot, Environment(loads=loads))
            near = (np.abs(x[:, 0]) < 0.2) & (np.abs(x[:, 1]) < 0.12)
            u, v = x[near, 0], x[near, 1]
            fit = np.linalg.lstsq(
                np.column_stack([np.ones(near.sum()), u, v, u * u / 2, v * v / 2, u * v]), shape[near, 2], rcond=None
            )[0]
            print(
                f"nu {poisson:4.2f} {bending:9} k_x {fit[3] / 1e-6:6.4f} (plate {1 / (1 - poisson**2):6.4f})   "
                f"-k_y/k_x {-fit[4] / fit[3]:+7.4f}"
            )


# -- energies and meshes -----------------------------------------------------------------------------------------------


def energy_ratio(
    kind: str, bending: str, curvature: tuple[float, float, float], cells: int = 32, poisson: float = 0.3
) -> float:
    """Bending energy of a small quadratic surface (k_x, k_y, k_xy) over the plate's, away from the rim."""
    # as high as makes the equilateral triangles equilateral
    height = round(cells * np.sqrt(3) / 2) * 2 / np.sqrt(3) / cells if kind == "equilateral" else 1.0
    x, triangles = mesh(kind, (0, 0), (1, height), 1 / cells)
    robot = RodShellRobot(
        x,
        triangles=triangles,
        thickness=1e-3,
        shell_material=LinearElastic(1e9, poisson, 1000.0),
        shell_bending=bending,
    )
    kx, ky, kxy = (1e-3 * k for k in curvature)
    u, v = x[:, 0] - 0.5, x[:, 1] - 0.5
    shape = x.copy()
    shape[:, 2] = 0.5 * kx * u * u + 0.5 * ky * v * v + kxy * u * v
    plate = 1e9 * 1e-9 / (12 * (1 - poisson**2))
    density = 0.5 * plate * ((kx + ky) ** 2 - 2 * (1 - poisson) * (kx * ky - kxy**2))
    state = RodShellStepper().start(robot)
    low, high = 0.2, 0.8
    if bending == "hinge":
        angles = np.zeros(len(robot.mesh.hinges))
        hinge_angles(shape.ravel(), state.system.stencils.hinges, angles)
        energy = np.zeros(len(triangles))
        for side in range(2):  # half to either triangle
            np.add.at(
                energy, robot.mesh.faces[robot.mesh.hinge_edges, side], 0.25 * state.system.hinge_bending * angles**2
            )
    else:
        energy = _midedge_energies(state, shape)
    place = x[triangles].mean(axis=1)[:, :2]
    inside = ((place > low) & (place < high)).all(axis=1)
    return float(energy[inside].sum() / robot.mesh.areas[inside].sum() / density)


def _midedge_energies(state, shape: np.ndarray) -> np.ndarray:
    """Energies of all triangles of a shape with its best normals."""
    from geosim.rods.midedge import midedge_angles

    system = with_free(state.system, np.arange(state.system.dofs) >= state.system.turns)
    state = carry(replace(state, system=system), np.concatenate([shape.ravel(), state.q[system.turns :]]))
    balance = Balance(system, state, state.natural, np.zeros_like(state.q), 0.0)
    trial, f = balance.residual(state.q)
    values, _ = balance.jacobian(state.q, trial)
    q, order = state.q.copy(), system.pattern.order
    q[order] -= system.pattern.solve(values, f[order])[0]
    trial = evaluate(system, state, q)
    angles = np.zeros((len(system.robot.triangles), 3))
    midedge_angles(q, system.stencils.faces, system.sides, system.signs, trial.normals, angles)
    angles -= state.natural[system.faces_at :]
    return 0.5 * np.einsum("ti,tij,tj->t", angles, system.plates, angles)


SHAPES = {
    "cylinder x": (1, 0, 0),
    "cylinder y": (0, 1, 0),
    "cylinder 30": (0.75, 0.25, np.sqrt(3) / 4),
    "saddle": (1, -1, 0),
    "twist": (0, 0, 1),
    "dome": (1, 1, 0),
}


def energies() -> None:
    """Bending energies of quadratic surfaces over those of the plate, nu = 0.3, on four triangulations."""
    print("\nbending energy over the plate's, nu = 0.3 (hinges on equilateral triangles: saddle (4/3) / 0.7 = 1.905)")
    print(f"{'mesh':12} {'bending':9} " + " ".join(f"{name:>12}" for name in SHAPES))
    for bending in BENDINGS:
        for kind in MESHES:
            print(
                f"{kind:12} {bending:9} " + " ".join(f"{energy_ratio(kind, bending, k):12.4f}" for k in SHAPES.values())
            )


def meshes() -> None:
    """Mesh dependence of both bendings in one table: the cantilever's and the clamped plate's deflection over the exact one."""
    print("\nmesh dependence: deflection over the exact one, and its spread over the meshes")
    print(
        f"{'mesh':12} "
        + " ".join(f"{case + ' ' + b:>24}" for case in ("cantilever", "clamped plate") for b in BENDINGS)
    )
    table = []
    for kind in MESHES:
        row = [_cantilever_ratio(kind, b) for b in BENDINGS]
        row += [plate_deflection(kind, b, True, 24) / CLAMPED for b in BENDINGS]
        table.append(row)
        print(f"{kind:12} " + " ".join(f"{value:24.4f}" for value in row))
    print(f"{'spread':12} " + " ".join(f"{100 * value:23.2f}%" for value in np.ptp(np.array(table), axis=0)))


def _cantilever_ratio(kind: str, bending: str) -> float:
    """Tip drop of a stiff cantilever (20 GPa) over the beam's, nu = 1/3."""
    length, width, thick, columns = 0.1, 0.01, 1e-3, 40
    step = length / columns
    start = -step if bending == "mid-edge" else -0.5 * step
    size = (length - start) / (columns + (1 if bending == "mid-edge" else 0))
    x, triangles = mesh(kind, (start, 0), (length, width), size)
    robot = RodShellRobot(
        x,
        triangles=triangles,
        thickness=thick,
        shell_material=LinearElastic(20e9, 1 / 3, 1200.0),
        fixed_vertices=x[:, 0] < start + 1.01 * size,
        shell_bending=bending,
    )
    drop = -statics(robot, Environment(gravity=(0, 0, -GRAVITY)))[x[:, 0] > length - 1e-9, 2].mean()
    return float(drop / (12 * 1200.0 * GRAVITY * length**4 / (20e9 * thick**2) / 8))


SECTIONS = {"cantilever": cantilever, "plates": plates, "strip": strip, "energies": energies, "meshes": meshes}

if __name__ == "__main__":
    for name in sys.argv[1:] or SECTIONS:
        SECTIONS[name]()
