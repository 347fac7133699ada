"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def reference_data() -> Path:
    """Folder of the reference data, or a skip that says how to provide it."""
    folder = os.environ.get("GEOSIM_REFERENCE_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("reference data not found: set GEOSIM_REFERENCE_DATA to its folder")
    return Path(folder).resolve()
