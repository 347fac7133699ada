"""Compiles what a first solve needs last, in a process of its own, while the first process still reads and meshes.

A kernel is compiled once for all processes (see `geosim.kernels`), so two that begin at different ends share the work, and a
first solve on two cores takes little more than half as long. With one core, or without a place to keep kernels, nothing is done.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from geosim.files.folder import write_folder
from geosim.geometry.cells import cells
from geosim.kernels import cache_folder
from geosim.material.laws import MooneyRivlin
from geosim.model.actuation import Inflation
from geosim.model.environment import Environment
from geosim.model.robot import VolumetricRobot
from geosim.resources import cores
from geosim.shape.energy.discretisation.assembly import assemble
from geosim.shape.energy.problem import ShapeProblem, make_problem
from geosim.solve import solve

# Cells in a row of the block that is solved, of which the one in the middle is its chamber, and their size [m].
CELLS_PER_SIDE, CELL_SIZE_M = 3, 2e-3
# Height to which the block is pressed, over its own, so that the walls of its chamber touch; volumes at which it is solved.
PRESSED_HEIGHT_REL, SOLVED_VOLUME_RATIOS = 0.01, (1.05, 1.1)


def is_cold() -> bool:
    """Whether the kernels of the energy solver have still to be compiled."""
    return not assemble.is_kept


def compile_ahead() -> Callable[[], object]:
    """Start a second process that compiles; return what ends it."""
    if cache_folder() is None or cores() < 2:
        return lambda: None
    quiet = subprocess.DEVNULL
    process = subprocess.Popen([sys.executable, "-m", __name__], stdin=quiet, stdout=quiet, stderr=quiet)
    return process.kill


def block() -> VolumetricRobot:
    """Return a small robot that has all there is: a body, a chamber and what is fixed."""
    inside = np.zeros((CELLS_PER_SIDE,) * 3, dtype=np.int64)
    inside[(CELLS_PER_SIDE // 2,) * 3] = 1
    vertices, tets, regions = cells([CELL_SIZE_M * np.arange(CELLS_PER_SIDE + 1.0)] * 3, inside)
    fixed = np.flatnonzero(vertices[:, 0] == 0.0)
    return VolumetricRobot.from_tets(vertices, tets, regions, material=MooneyRivlin(c1=41.8e3, c2=10.6e3), fixed=fixed)


def touch(problem: ShapeProblem) -> None:
    """Compile contact, which a solve comes to last, on a body pressed flat."""
    contact = problem.contact
    assert contact is not None
    assert contact.neighbourhood is not None
    grip = contact.start(problem.rest)
    flat = problem.rest * (1.0, 1.0, PRESSED_HEIGHT_REL)
    forces = contact.evaluate(flat, grip, matrix=True)
    contact.stiffened(flat, forces, problem.pattern, np.zeros(len(problem.pattern.indices)))
    contact.neighbourhood.safe_share(problem.rest, flat - problem.rest)


def main() -> None:
    """Compile contact first, then all else of a small solve and of the files that are written."""
    robot = block()
    touch(make_problem(robot, Environment(), 2, "auto", isochoric=True))
    result = solve(robot, Inflation(volume_ratio=SOLVED_VOLUME_RATIOS), throw=False)
    with tempfile.TemporaryDirectory() as folder:
        write_folder(result, Path(folder) / "ahead")


if __name__ == "__main__":
    main()
