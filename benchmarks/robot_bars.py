"""Error bars of the robot against robots that are drawn: walls, moduli, gauges and markers off by their tolerances.

    python benchmarks/robot_bars.py [DESIGNS] [ROBOTS]

Designs of a hollow bar (sizes and tolerances drawn) are predicted once each; of every design robots are made whose
surfaces, shear modulus, gauge and marker are drawn within the tolerances, and solved on the same mesh, so that the bar
of the mesh is left out. Printed are the coverage of 95 % bars, terms added as independent (`ErrorBars.expected`) and as
a sum (`total`), and in how many designs the term that is said to dominate moves the tip most when each is drawn alone
by one standard deviation.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np

import geosim
from geosim.model.tolerances import Tolerances
from geosim.response.accuracy.bars import ErrorBars, error_bars
from geosim.response.accuracy.tolerances import offsets

SOLVER = geosim.EnergyShapeSolver(element="p1", check_stability=False)
STILL = geosim.Environment(self_contact=False)
TWO = 1.959964  # standard deviations of a 95 % interval
SEED = 5
ALONG = 2  # the component of the tip that bending moves


def hollow(rng: np.random.Generator) -> geosim.VolumetricRobot:
    """Return a bar of drawn sizes with a chamber near its top, its scatter drawn, too."""
    x = np.linspace(0.0, rng.uniform(0.03, 0.05), 7)
    y = np.array([0.0, 0.25, 0.5, 0.75, 1.0]) * rng.uniform(0.010, 0.014)
    wall = rng.uniform(1.5e-3, 2.5e-3)
    z = np.array([0.0, 0.5, 1.0, 1.0, 1.0]) * rng.uniform(4e-3, 6e-3) + np.array([0.0, 0.0, 0.0, 4e-3, 4e-3 + wall])
    grid = np.stack(np.meshgrid(x, y, z, indexing="ij"), axis=-1).reshape(-1, 3)
    number = np.arange(len(grid)).reshape(7, 5, 5)
    corners = np.stack(
        [number[i : 6 + i, j : 4 + j, k : 4 + k].ravel() for k in (0, 1) for j in (0, 1) for i in (0, 1)], axis=1
    )
    kuhn = np.array([[0, 1, 3, 7], [0, 1, 5, 7], [0, 2, 3, 7], [0, 2, 6, 7], [0, 4, 5, 7], [0, 4, 6, 7]])
    middle = grid[corners].mean(axis=1)
    inside = (middle[:, 0] > x[1]) & (middle[:, 0] < x[5]) & (middle[:, 1] > y[1]) & (middle[:, 1] < y[3])
    inside &= (middle[:, 2] > z[2]) & (middle[:, 2] < z[3])
    rubber = geosim.NeoHookean(40e3).known_as("drawn", 2.0, float(rng.uniform(0.02, 0.12)))
    return geosim.VolumetricRobot.from_tets(
        grid, corners[:, kuhn].reshape(-1, 4), np.repeat(inside.astype(int), 6), material=rubber,
        fixed=geosim.Select.plane("x", below=1e-6), tip=geosim.Select.plane("x", above=x[-1] - 1e-6),
    )  # fmt: skip


def made(
    robot: geosim.VolumetricRobot, moves: list[np.ndarray], given: Tolerances, pressure: float, z: np.ndarray
) -> float:
    """Return where the tip is measured [m] of a robot z standard deviations off: surfaces, modulus, gauge, marker."""
    count = len(moves)
    vertices = robot.vertices + sum(given.wall / TWO * a * m for a, m in zip(z, moves))
    (material,) = robot.materials.values()
    softer = material.stiffened(1.0 + material.scatter * z[count])
    other = replace(robot, vertices=vertices, materials=dict.fromkeys(robot.materials, softer))
    there = geosim.Inflation(pressure=[pressure + given.gauge / TWO * z[count + 1]])
    return float(geosim.solve(other, there, STILL, solver=SOLVER).tip[-1, ALONG]) + given.marker / TWO * z[count + 2]


def study(designs: int, robots: int, seed: int = SEED) -> tuple[float, float, int]:
    """Return the coverage of `expected` and of `total`, without the mesh, and in how many designs the dominant term is right."""
    rng = np.random.default_rng(seed)
    hits = np.zeros(2)
    right = 0
    for _ in range(designs):
        robot = hollow(rng)
        pressure = float(rng.uniform(1.5e3, 3e3))
        given = Tolerances(
            wall=rng.uniform(0.02e-3, 0.2e-3), gauge=rng.uniform(10.0, 150.0), marker=rng.uniform(0.02e-3, 0.3e-3)
        )
        result = geosim.solve(robot, geosim.Inflation(pressure=[pressure]), STILL, solver=SOLVER)
        bars = error_bars(result, "tip", tolerance=given)
        value, mesh = bars.value[ALONG], bars.mesh[ALONG] + bars.faceting[ALONG]
        moves = offsets(robot)
        size = len(moves) + 3
        for z in rng.standard_normal((robots, size)):
            off = abs(made(robot, moves, given, pressure, z) - value)
            hits += [off <= bars.expected[ALONG] - mesh, off <= bars.total[ALONG] - mesh]
        right += _largest(bars) == _alone(robot, moves, given, pressure, float(value), size)
    return float(hits[0] / designs / robots), float(hits[1] / designs / robots), right


def _largest(bars: ErrorBars) -> str:
    """Return the term along the tip's motion that is said to be the largest, the mesh left out."""
    terms = {k: float(t[ALONG]) for k, t in bars.terms.items() if k not in ("mesh", "faceting")}
    return max(terms, key=terms.__getitem__)


def _alone(
    robot: geosim.VolumetricRobot, moves: list[np.ndarray], given: Tolerances, pressure: float, value: float, size: int
) -> str:
    """Return what moves the tip most when it alone is one standard deviation off."""
    off = [abs(made(robot, moves, given, pressure, one) - value) for one in np.eye(size)]
    walls = float(np.linalg.norm(off[: len(moves)]))
    found = dict(zip(("geometry", "material", "gauge", "marker"), (walls, *off[len(moves) :])))
    return max(found, key=found.__getitem__)


def main(designs: int = 40, robots: int = 10) -> int:
    """Print the table; 1 where the coverage is not 93 .. 97 % or fewer than 38 of 40 dominant terms are right."""
    expected, total, right = study(designs, robots)
    sys.stdout.write(
        f"{designs} designs, {robots} robots of each: {100 * expected:.1f} % inside of the 95 % bars (terms independent), "
        f"{100 * total:.1f} % inside of their sum; dominant term right in {right} of {designs}\n"
    )
    return int(not (0.93 <= expected <= 0.97 and right >= 0.95 * designs))


if __name__ == "__main__":
    sys.exit(main(*(int(a) for a in sys.argv[1:])))
