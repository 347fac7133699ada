"""CONTRIBUTING.md and docs: their Python runs, and what they name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "docs" / "house.md"]
BLOCKS = re.findall(r"```python\n(.*?)```", PAGES[0].read_text(), re.S)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_examples_run(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "CONTRIBUTING.md", "exec"), {})


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
