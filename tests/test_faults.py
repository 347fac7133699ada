"""The faults of scripts/faults.toml can be planted, and a mutation changes the line that its name states."""

from __future__ import annotations

import ast
import tomllib

import mutate
import pytest

ROWS = tomllib.loads((mutate.ROOT / "scripts" / "faults.toml").read_text(encoding="utf-8"))["fault"]


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_a_fault_is_planted_once_and_its_tests_exist(row):
    planted = mutate.fault(row)
    assert planted.text != (mutate.ROOT / planted.path).read_text(encoding="utf-8")
    ast.parse(planted.text)
    assert (mutate.ROOT / planted.tests[0].partition("::")[0]).exists()


def test_names_of_faults_are_unique():
    assert len({row["name"] for row in ROWS}) == len(ROWS)


def test_a_fault_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="occurs 0 times"):
        mutate.fault({**ROWS[0], "right": "no such text"})


def test_a_mutation_changes_one_kernel_line():
    pytest.importorskip("cosmic_ray", reason="needs Cosmic Ray, which no other test needs: pip install '.[mutation]'")
    for planted in mutate.mutations(["linear/polar.py"], 10, 0):
        before = (mutate.ROOT / planted.path).read_text(encoding="utf-8").split("\n")
        line = int(planted.name.split(":")[1].split()[0])
        assert [n for n, (a, b) in enumerate(zip(before, planted.text.split("\n")), 1) if a != b] == [line]
        assert any(first < line <= last for first, last in mutate.spans(mutate.ROOT / planted.path))
