"""Execution of designs by child processes on this machine or by a Dask cluster, behind one interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from geosim.apps.study.children import Children, limits
from geosim.apps.study.job import CRASHED, DesignOutcome, Job
from geosim.arrays import whole
from geosim.errors import InputError
from geosim.resources import cores


@dataclass(frozen=True)
class Workforce:
    """Solves designs beside each other.

    Parameters
    ----------
    executor
        Who is asked.
    solve
        What is asked of it.
    size
        Designs that are solved at a time.
    """

    executor: Executor
    solve: Callable[[Job], DesignOutcome]
    size: int

    def start(self, job: Job) -> Future[DesignOutcome]:
        """Have a design solved."""
        return self.executor.submit(self.solve, job)


def outcome(future: Future[DesignOutcome], job: Job) -> DesignOutcome:
    """Return what came of a design; one that took its workers down has crashed."""
    error = future.exception()
    if error is None:
        return future.result()
    message = f"the cluster gave it up: {type(error).__name__}: {error}"
    row = {"run": job.run, "status": CRASHED, "message": message, "seconds": 0.0, "memory_mb": 0.0, "measures": {}}
    return DesignOutcome({**row, "limits": limits(job, False)}, {"log.txt": message.encode()})


@contextmanager
def workforce(workers: int | None, scheduler: str | None) -> Iterator[Workforce]:
    """Give who solves the designs.

    Parameters
    ----------
    workers
        Designs at a time on this machine; default one a core.
    scheduler
        Address of a Dask scheduler, which decides instead.

    Raises
    ------
    InputError
        Both are given, a number is impossible, or the scheduler does not answer.
    """
    if scheduler is not None:
        if workers is not None:
            raise InputError("workers and scheduler exclude each other: a cluster has its own workers")
        try:
            from geosim.apps.study import cluster
        except ImportError:
            raise InputError("a scheduler needs dask: pip install 'geosim[study]'") from None
        with cluster.executor(scheduler) as (executor, size):
            yield Workforce(executor, cluster.solved, size)
        return
    size = cores() if workers is None else workers
    whole(size, "workers", least=1)
    children = Children()
    with ThreadPoolExecutor(size) as threads:
        try:
            yield Workforce(threads, children.run, size)
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            children.close()
