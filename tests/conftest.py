"""Fixtures shared by all tests, and how many of them run at once."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

# One thread for each worker: workers that share the cores gain nothing by more, and lose much by waiting for each other.
# A library reads its variable when it is loaded, so they are set here, before any is; what is set already is kept.
for _name in ("OMP", "MKL", "OPENBLAS", "NUMBA"):
    os.environ.setdefault(f"{_name}_NUM_THREADS", "1")

GARBAGE = 20_000  # new objects after which the collector looks at them; Python's 700 is for small heaps
MOST_WORKERS = 8  # a worker needs up to 1 GB, and beyond this number the longest folder decides


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return the workers of `-n auto`: one for each core; none for tests of one file, which start sooner without."""
    files = {argument.split("::")[0] for argument in config.args}
    if len(files) == 1 and Path(files.pop()).is_file():
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_WORKERS)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Leave the long tests to `pytest tests`, `-m slow`, or whoever names one, where nothing is asked for but `pytest`."""
    option = config.option
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS and not (option.markexpr or option.keyword):
        option.markexpr = "not slow"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what asks for the reference data, so that `-m reference` runs all of that and nothing else."""
    for item in items:
        if "reference_data" in getattr(item, "fixturenames", ()):
            item.add_marker("reference")


def pytest_collection_finish() -> None:
    """Leave what has been imported out of the garbage collector's rounds, and make them rarer: they took 4 % of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE)


def pytest_unconfigure() -> None:
    """Let go of what only cycles hold: libraries complain of solids that are there when the interpreter ends."""
    gc.collect()
    gc.freeze()  # pytest collects five times more


@pytest.fixture(scope="session", autouse=True)
def _mesher() -> Iterator[None]:
    """Have one process fork for all meshes of a worker: their starts of Python took a fourteenth of the time."""
    from geosim.geometry.child import mesher_waiting

    with mesher_waiting():
        yield


@pytest.fixture(scope="session")
def reference_data() -> Path:
    """Folder of the reference data, or a skip that says how to provide it."""
    folder = os.environ.get("GEOSIM_REFERENCE_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("reference data not found: set GEOSIM_REFERENCE_DATA to its folder")
    return Path(folder).resolve()
