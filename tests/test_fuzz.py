"""A small, seeded part of scripts/fuzz.py: what is changed in a file or a call is accepted, or refused in one line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))
import fuzz
import fuzz_inputs


@pytest.mark.parametrize("kind", [*fuzz_inputs.readers(), "calls", "arguments"])
def test_what_is_changed_is_accepted_or_refused_in_one_line(kind, tmp_path, monkeypatch):
    if kind == "markers.c3d":
        pytest.importorskip("ezc3d")
    for sound, count in ((True, 2), (False, {"calls": 80, "arguments": 80, "markers.c3d": 4}.get(kind, 25))):
        if kind == "markers.c3d" and not sound:
            monkeypatch.setattr("geosim.apps.compare.markers.READING_SECONDS", 0.5)  # one of them is never read
        for number in range(count):
            _, came, said = fuzz.one_input(kind, sound, number, 7, tmp_path)
            assert came in (("solved",) if sound else ("solved", "refused")), (number, came, said)
