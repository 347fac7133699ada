"""What a second process compiles while the first one meshes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import geosim
from geosim.cli import ahead
from geosim.kernels import cache_folder
from geosim.model.environment import Environment
from geosim.shape.energy.problem import make_problem


def test_the_block_has_a_body_a_chamber_and_what_is_fixed():
    robot = ahead.block()
    sizes = [robot.body_volume, *robot.chamber_volumes]
    cell = ahead.CELL_SIZE_M**3
    assert np.allclose(sizes, [cell * (ahead.CELLS_PER_SIDE**3 - 1), cell])
    assert len(robot.fixed) == (ahead.CELLS_PER_SIDE + 1) ** 2


@pytest.mark.slow
def test_contact_is_compiled_on_surfaces_that_touch():
    """Where nothing touched, the kernels of near pairs would have nothing to do and might be left out."""
    problem = make_problem(ahead.block(), Environment(), 2, "auto", isochoric=True)
    flat = problem.rest * (1.0, 1.0, ahead.PRESSED_HEIGHT_REL)
    assert problem.contact.evaluate(flat, problem.contact.start(problem.rest), matrix=True).count > 0
    ahead.touch(problem)


@pytest.mark.slow
def test_nothing_is_left_to_compile_when_it_has_ended(tmp_path):
    """From an empty cache: afterwards an inflation with contact compiles no kernel of the solver."""
    ahead.main()
    solve = (
        "import geosim; from geosim.cli import ahead; geosim.solve(ahead.block(), geosim.Inflation(volume_ratio=[1.2]))"
    )
    listen = (
        "from numba.core import event\n"
        "with event.install_recorder('numba:compile') as seen:\n"
        f"    {solve}\n"
        "print(sorted({e.data['dispatcher'].py_func.__qualname__ for _, e in seen.buffer}))"
    )
    # Another copy of the package: kernels are found by content.
    folder = Path(geosim.__file__).parent
    shutil.copytree(folder, tmp_path / "geosim", ignore=shutil.ignore_patterns("__pycache__"))
    env = {**os.environ, "GEOSIM_CACHE_DIR": str(cache_folder()), "PYTHONPATH": ""}
    program = [sys.executable, "-c", listen]
    run = subprocess.run(program, capture_output=True, text=True, check=True, cwd=tmp_path, env=env)
    assert run.stdout.strip() == "[]", run.stdout


def test_nothing_is_started_where_there_is_one_core_or_no_place_to_keep_kernels(monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: (_ for _ in ()).throw(AssertionError("started")))
    monkeypatch.setattr(ahead, "cores", lambda: 1)
    ahead.compile_ahead()()
    monkeypatch.setattr(ahead, "cores", lambda: 2)
    monkeypatch.setattr(ahead, "cache_folder", lambda: None)
    ahead.compile_ahead()()
    assert geosim.__version__
