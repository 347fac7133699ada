"""The board's scripts, as modules."""

from __future__ import annotations

import importlib
import sys

import pytest

from geosim.resources import resource


@pytest.fixture(scope="session")
def board():
    """Import a script of the board by name."""
    folder = str(resource("calibration") / "board")
    sys.path.insert(0, folder)
    yield importlib.import_module
    sys.path.remove(folder)
