"""The list of faults in scripts/plant_faults.py: each is there to plant, once, and its tests exist."""

from __future__ import annotations

import ast
import importlib.util
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
_spec = importlib.util.spec_from_file_location("plant_faults", ROOT / "scripts" / "plant_faults.py")
assert _spec is not None
assert _spec.loader is not None
faults = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(faults)


@pytest.mark.parametrize("fault", faults.FAULTS, ids=[fault[0] for fault in faults.FAULTS])
def test_every_fault_can_be_planted_and_has_its_tests(fault):
    _, file, right, wrong, tests = fault
    source = (ROOT / file).read_text()
    ast.parse(faults.planted(source, right, wrong))
    for argument in shlex.split(tests.split(" -k ")[0]):
        path, _, name = argument.partition("::")
        assert f"def {name}(" in (ROOT / path).read_text() if name else (ROOT / path).is_file()


def test_names_are_unique():
    assert len({fault[0] for fault in faults.FAULTS}) == len(faults.FAULTS)


def test_the_layout_does_not_matter():
    source = "def f():\n    return g(\n        1.0e-3,  # why\n        x[ 0],\n    )\n"
    planted = faults.planted(source, "g(1.0e-3, x[0])", "0\nreturn 1")
    assert planted == "def f():\n    return 0\n    return 1\n"
    with pytest.raises(ValueError, match="2 times"):
        faults.planted("a = b\na = b", "a=b", "")
    with pytest.raises(ValueError, match="0 times"):
        faults.planted("ab = b", "a", "")
