"""The one run of all benchmarks knows every script, and says what failed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def run():
    spec = importlib.util.spec_from_file_location("benchmarks_run", FOLDER / "run.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look their annotations up
    spec.loader.exec_module(module)
    return module


def test_every_script_is_run(run):
    others = {
        "run.py",
        "pinned.py",
        "freeze.py",
        "figures.py",
        "conditioning_beams.py",
    }  # what others import, or writes pages
    assert {section.script for section in run.SECTIONS.values()} == {p.name for p in FOLDER.glob("*.py")} - others


@pytest.mark.slow
def test_the_file_holds_what_was_printed_and_what_failed(run, tmp_path, monkeypatch):
    good, bad, slow, absent = (tmp_path / f"{name}.py" for name in ("good", "bad", "slow", "absent"))
    good.write_text("print('pressure 0.01 % off')")
    bad.write_text("raise SystemExit(3)")
    slow.write_text("import time\nprint('begun', flush=True)\ntime.sleep(60)")
    sections = {p.stem: run.Section(str(p), "", "truth") for p in (good, bad, slow)}
    sections["absent"] = run.Section(str(absent), "", "a peer", ("no_such_program",))
    monkeypatch.setattr(run, "SECTIONS", sections)
    for name in ("good", "bad", "slow"):
        run.run(name, tmp_path, 2.0)
    text = run.written(tmp_path).read_text(encoding="utf-8")
    assert "pressure 0.01 % off" in text
    assert "| FAILED, exit status 3 |" in text
    assert "| ENDED after 2 s |" in text
    page = (tmp_path / "validation.html").read_text(encoding="utf-8")
    assert "pressure 0.01 % off" in page
    assert '<span class="bad">FAILED, exit status 3</span>' in page
    assert "needs no_such_program" in page
    assert "begun" in text
    assert "| needs no_such_program |" in text
