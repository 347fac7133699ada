"""A small, seeded part of scripts/fuzz.py: whatever is changed in a file, geosim accepts it or refuses it in one line."""

from __future__ import annotations

import random
import sys
import warnings
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))
import fuzz

KINDS = ("robot.toml", "act.toml", "test.csv", "result.npz", "box.stl", "box.obj", "box.ply", "box.off")
SEEN = {
    "robot.toml": [(1, 10), (2, 88)],
    "result.npz": [(2, 38)],
    "test.csv": [(0, 23)],
    "box.ply": [(0, 36), (1, 112)],
}  # inputs that were faults once


@pytest.mark.parametrize("kind", KINDS)
def test_changed_files_are_accepted_or_refused_in_one_line(kind, tmp_path):
    data, read = fuzz.cases(tmp_path)[kind]
    path = tmp_path / f"changed-{kind}"
    path.write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert fuzz.outcome(read, path) == ("accepted", "")
        for seed, i in [*((7, i) for i in range(25)), *SEEN.get(kind, [])]:
            path.write_bytes(fuzz.changed(kind, data, random.Random(f"{seed} {kind} {i}")))
            outcome = fuzz.outcome(read, path)
            assert outcome[0] in ("accepted", "refused"), (seed, i, outcome)
