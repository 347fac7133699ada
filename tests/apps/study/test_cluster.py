"""On a Dask cluster: what a killed worker had is solved by another, once."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest
from apps.study.planted import BAR, solve_here
from distributed import Client, Nanny, Scheduler, SpecCluster, Worker

import geosim
from geosim.errors import InputError

LENGTHS = [16.0, 19.0, 22.0]


@pytest.mark.slow
def test_a_killed_worker_loses_nothing_and_doubles_nothing(tmp_path, monkeypatch):
    out, killed = tmp_path / "out", []
    solve_here(monkeypatch)

    def kill(cluster):
        """Kill the first worker as soon as a run is kept."""
        for _ in range(6000):
            if list((out / "runs").glob("[0-9a-f]*/row.json")):
                break
            time.sleep(0.01)
        pid = cluster.workers[0].pid
        os.kill(pid, signal.SIGKILL)
        killed.append(pid)

    workers = {0: {"cls": Nanny, "options": {"nthreads": 1}}, 1: {"cls": Worker, "options": {"nthreads": 1}}}
    scheduler = {"cls": Scheduler, "options": {"port": 0, "dashboard": False}}
    with SpecCluster(workers=workers, scheduler=scheduler) as cluster:  # the first in a process, the other in this one
        cluster.workers[0].auto_restart = False  # who is killed stays away: the other has to solve the rest
        with Client(cluster) as client:
            client.run(lambda: solve_here(pytest.MonkeyPatch()), workers=[cluster.workers[0].worker_address])
        thread = threading.Thread(target=kill, args=(cluster,))
        thread.start()
        study = {**BAR, "vary": {"length_mm": LENGTHS}}
        table = geosim.sweep(study, scheduler=cluster.scheduler_address, out=out)
        thread.join()
    assert len(killed) == 1
    assert table["status"].tolist() == ["CONVERGED"] * 3, table["message"].tolist()
    assert table["length_mm"].tolist() == LENGTHS
    assert table["run"].is_unique
    assert {p.name for p in (out / "runs").iterdir()} == set(table["run"])


def test_a_scheduler_that_is_not_there_is_said():
    with pytest.raises(InputError, match="exclude each other"):
        geosim.sweep({**BAR, "vary": {"length_mm": [20.0]}}, workers=1, scheduler="tcp://127.0.0.1:1")
