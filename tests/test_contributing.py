"""CONTRIBUTING.md and docs: their Python runs, and what they name is there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "docs" / "house.md"]
LOAD_PATHS = ROOT / "docs" / "load-paths.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGES[0].read_text(), re.S)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_examples_run(block, tmp_path):
    """Each in a process of its own: the kinds that they add stay unknown to the other tests."""
    (tmp_path / "example.py").write_text(block)
    done = subprocess.run([sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_example_of_load_paths_reaches_its_command():
    names: dict = {}
    (block,) = re.findall(r"```python\n(.*?)```", LOAD_PATHS.read_text(), re.S)
    exec(compile(block, "load-paths.md", "exec"), names)
    result = names["result"]
    assert result.converged
    np.testing.assert_allclose(result.chamber_pressures, [[10e3]], rtol=1e-9)
    assert result.residual[-1] < 1e-6
    assert 1.3 < result.volume_ratios[-1, 0] < 1.8  # the stiff faces of so few bellows: 1.5


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_are_named_exist(page):
    named = re.findall(r"`((?:[\w.]+/)+[\w.]*|[\w.]+\.(?:py|sh|md))`", page.read_text())
    assert len(named) > 10
    for name in named:
        places = [ROOT / name, ROOT / "geosim" / name, ROOT / "tests" / name]
        assert any(place.exists() for place in places), f"{page.name} names {name}, which is not there"


def test_every_folder_of_the_package_is_described():
    folders = {p.parent.relative_to(ROOT).as_posix() + "/" for p in (ROOT / "geosim").rglob("__init__.py")}
    text = PAGES[0].read_text()
    assert {f for f in folders if f"`{f}`" not in text} <= {"geosim/shape/"}
