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
    _, where, right, wrong, tests = fault
    path, text = faults.plant(ROOT, where, right, wrong)
    assert text != path.read_text(encoding="utf-8")
    ast.parse(text)
    for argument in shlex.split(tests.split(" -k ")[0]):
        path, _, name = argument.partition("::")
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8") if name else (ROOT / path).is_file()


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


def test_a_function_says_which_of_two_places_is_meant():
    source = "def f():\n    return a + b\n\n\nclass C:\n    def f(self):\n        return a + b\n"
    with pytest.raises(ValueError, match="2 times"):
        faults.planted(source, "a + b", "a")
    assert faults.planted(source, "a + b", "a", "C.f").endswith("b\n\n\nclass C:\n    def f(self):\n        return a\n")
    with pytest.raises(ValueError, match="0 times"):
        faults.planted(source, "a + b", "a", "C.g")


def test_a_whole_expression_is_found_as_the_parser_sees_it():
    source = "def f(x):\n    µ = 1\n    return g((x * 2), 'a')\n"
    assert faults.planted(source, 'g(x * 2, "a")', "0") == "def f(x):\n    µ = 1\n    return 0\n"
    assert faults.planted(source, "return g(x*2,('a'))", "pass") == "def f(x):\n    µ = 1\n    pass\n"


def test_a_file_and_a_function_may_be_renamed(tmp_path):
    package = tmp_path / "geosim"
    package.mkdir()
    text = "def f():\n    return a - b\n\n\ndef g():\n    return a + b\n"
    (package / "new.py").write_text(text)
    (package / "other.py").write_text("def f():\n    return a + b\n")
    for where in ("geosim/new.py::gone", "geosim/old.py::g"):
        assert faults.plant(tmp_path, where, "a + b", "a") == (package / "new.py", text.replace("a + b", "a"))
    with pytest.raises(ValueError, match="mend this list"):
        faults.plant(tmp_path, "geosim/old.py", "a + b", "a")


@pytest.mark.slow
def test_a_fault_is_planted_in_a_copy_and_what_became_of_it_is_kept(tmp_path, monkeypatch):
    """By the narrowest test once that is known; a row of the list that has changed is judged again."""
    root, copy = tmp_path / "root", tmp_path / "copy"
    for name, text in {
        "geosim/__init__.py": "",
        "geosim/sums.py": "def total(a, b):\n    return a + b\n",
        "tests/test_sums.py": "from geosim.sums import total\n\n\ndef test_nothing():\n    pass\n\n\n"
        "def test_two():\n    assert total(1, 1) == 2\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    monkeypatch.setattr(faults, "ROOT", root)
    copy.mkdir()
    faults.linked(copy)
    fault = ("a sum", "geosim/sums.py", "a + b", "a - b", "tests/test_sums.py")
    found = faults.judged(copy, fault, {})
    assert found["test"] == "tests/test_sums.py::test_two"
    for folder in (root, copy):
        assert "a + b" in (folder / "geosim" / "sums.py").read_text()
    runs = []
    monkeypatch.setattr(faults, "caught_by", lambda folder, path, text, tests: runs.append(tests) or "")
    assert faults.judged(copy, fault, found) == found
    assert not runs
    assert faults.judged(copy, ("another sum", *fault[1:]), found)["test"] == ""
    assert runs == [["tests/test_sums.py::test_two"], ["tests/test_sums.py"]]


def test_a_fault_that_ends_the_interpreter_is_caught(tmp_path):
    (tmp_path / "thing.py").write_text("def value():\n    return 1\n")
    (tmp_path / "test_thing.py").write_text("import thing\n\n\ndef test_value():\n    assert thing.value() == 1\n")
    planted = "import os\n\n\ndef value():\n    os.abort()\n"
    found = faults.caught_by(tmp_path, tmp_path / "thing.py", planted, ["test_thing.py"])
    assert found == "a test that ends the interpreter"
    assert "return 1" in (tmp_path / "thing.py").read_text()
