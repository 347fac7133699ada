"""Designs for studies: a small bar that bends under its weight, and bars with a fault."""

from __future__ import annotations

import os
import pickle
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import trimesh

from geosim.apps.study import solving
from geosim.apps.study.children import Children
from geosim.apps.study.job import JOB_FILE
from geosim.generate import limits
from geosim.generate.design import Design, face_box
from geosim.geometry import mesher, remedies


def bar(length: float = 20e-3, height: float = 6e-3) -> Design:
    """A bar along x, held at x = 0."""
    limits.length(length=length, height=height)
    body = trimesh.creation.box(bounds=[(0, 0, 0), (length, 6e-3, height)])
    return Design(body, (), face_box(body, 0, 0), face_box(body, 0, -1), name="bar")


def faulty(length: float = 20e-3, fault: int = 0) -> Design:
    """A bar; fault 1 crashes, 2 waits for ever, 3 computes for ever, 4 takes all memory, 5 crashes the only mesher."""
    if fault == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    while fault == 2:
        time.sleep(0.1)
    while fault == 3:
        pass
    hoard = []
    while fault == 4:
        hoard.append(bytearray(os.urandom(1 << 20) * 50))
    if fault == 5:
        mesher.ENGINES["tetgen"] = lambda data: os.kill(os.getpid(), signal.SIGSEGV)
        remedies.is_available = lambda: False  # an envelope would mesh the bar
    return bar(length)


def solve_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let designs be solved in this process: for tests of what a study makes of them, not of what may happen to a child."""

    def asked(self: Children, request: dict[str, Any]) -> dict[str, Any]:
        folder, start = Path(request["folder"]), time.process_time()
        solving.run(pickle.loads((folder / JOB_FILE).read_bytes()), folder)
        return {"ended": 0, "reason": None, "seconds": time.process_time() - start, "memory": 1}

    monkeypatch.setattr(Children, "_asked", asked)


BAR = {
    "design": bar,
    "material": "ecoflex-00-30-fang2022",
    "environment": {"gravity": [0, 0, -9.81]},
    "mesh": {"max_edge_mm": 6.0},
    "solver": {"element": "p1"},
    "measures": {"columns": ["tip_z_mm", "mass_g", "tets", "pressure_kpa_1"]},
}
