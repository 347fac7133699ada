"""Designs on a Dask cluster, each in a child process of the worker that has it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import cast

from distributed import Client, Worker, WorkerPlugin, get_worker

from geosim.apps.study.children import Children
from geosim.apps.study.job import DesignOutcome, Job
from geosim.errors import InputError

PLUGIN = "geosim"
ANSWER_SECONDS = 8.0  # for the scheduler to answer, and for its first worker


class _Plugin(WorkerPlugin):
    """Holds the children of one worker, and ends them with it."""

    name = PLUGIN

    def setup(self, worker: Worker) -> None:
        """Start with no child."""
        self.children = Children()

    def teardown(self, worker: Worker) -> None:
        """End the children."""
        self.children.close()


def solved(job: Job) -> DesignOutcome:
    """Solve a design on the worker that runs this."""
    plugin = cast(_Plugin, get_worker().plugins[PLUGIN])
    return plugin.children.run(job)


@contextmanager
def executor(scheduler: str) -> Iterator[tuple[Executor, int]]:
    """Give an executor of the cluster, and how many designs it solves at a time.

    A design whose worker dies is solved by another; the cluster gives a design up that took several workers down.

    Raises
    ------
    InputError
        The scheduler does not answer, or has no worker.
    """
    client, failed = None, ""
    try:
        client = Client(scheduler, timeout=ANSWER_SECONDS, set_as_default=False)
    except Exception as error:  # noqa: BLE001 (OSError, ValueError, and what asyncio and urllib make of an address)
        failed = str(error)
    if client is None:
        # What failed is closed as it is collected. If that came while another one is made, in the lock of Dask's loop, that
        # would wait for itself: so it comes now, when nothing holds the failed one any more, the error least of all.
        gc.collect()
        raise InputError(f"--scheduler {scheduler}: no Dask scheduler answers there ({failed})")
    with client:
        try:
            client.wait_for_workers(1, timeout=ANSWER_SECONDS)
        except TimeoutError:
            raise InputError(
                f"--scheduler {scheduler}: it has no worker; start one with dask worker {scheduler}"
            ) from None
        client.register_plugin(_Plugin())
        yield client.get_executor(pure=False), sum(client.nthreads().values())
