"""CONTRIBUTING.md and docs: their Python runs, and what they name is there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "docs" / "house.md"]
BLOCKS = re.findall(r"```python\n(.*?)```", PAGES[0].read_text(), re.S)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_examples_run(block, tmp_path):
    """Each in a process of its own: the kinds that they add stay unknown to the other tests."""
    (tmp_path / "example.py").write_text(block)
    done = subprocess.run([sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


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
