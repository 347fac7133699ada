"""geosim.sweep: every design of a study, solved and measured."""

from __future__ import annotations

import importlib.util
import signal
import sys
import threading
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TextIO

from geosim.apps.study.job import DesignOutcome, Job
from geosim.apps.study.report import write_report
from geosim.apps.study.runs import Runs, missing, table
from geosim.apps.study.study import Study, read_study
from geosim.apps.study.workforce import Workforce, outcome, workforce
from geosim.arguments import guarded

if TYPE_CHECKING:
    import pandas


@guarded
def sweep(
    study: str | Path | Mapping[str, Any],
    workers: int | None = None,
    scheduler: str | None = None,
    out: str | Path | None = None,
    *,
    resume: bool = True,
    force: bool = False,
    progress: bool = False,
    at: Mapping[str, Any] | None = None,
) -> pandas.DataFrame:
    """Solve every design of a study, each in a child process with limits of time and memory.

    Parameters
    ----------
    study
        Path of a STUDY.toml, or its tables as a dict.
    workers
        Designs at a time; default one a core, one thread each.
    scheduler
        Address of a Dask scheduler to solve them on, tcp://...
    out
        Folder for table.csv, table.parquet, report.html, study.toml and runs/; default ./geosim-STUDYNAME.
    resume
        Keep the designs that are solved there.
    force
        Remove what a study wrote there first.
    progress
        Show a line with the time that is left on stderr.
    at
        One design to solve in place of those of [vary] and [sampling]: dimension -> value; default folder ./geosim-STUDYNAME-at.

    Returns
    -------
    pandas.DataFrame
        One row a design in the order of the sampling: run, what is varied, status, message, seconds (CPU), memory_mb
        (peak), measures at the last command.

    Raises
    ------
    InputError
        The study is wrong, or the folder holds something.
    KeyboardInterrupt
        After the table of the designs solved so far is written.
    """
    read = needed_and_read(study)
    read = read if at is None else read.alone_at(at)
    jobs = [read.job(row) for row in read.rows]
    with workforce(workers, scheduler) as work:  # before anything is written: a scheduler may not answer
        runs = opened(read, out, [job.run for job in jobs], resume=resume, force=force)
        done = {job.run: row for job in jobs if (row := runs.row(job)) is not None}

        def written() -> pandas.DataFrame:
            found = table(read, [(row, done[job.run]) for row, job in zip(read.rows, jobs) if job.run in done])
            runs.write_table(found)
            write_report(read, found, runs.folder)
            return found

        try:
            _solve_all(work, {job.run: job for job in jobs if job.run not in done}, runs, done, progress)
        except KeyboardInterrupt:
            written()
            raise
        return written()


def needed_and_read(study: str | Path | Mapping[str, Any]) -> Study:
    """Read a study.

    Raises
    ------
    InputError
        It is wrong, or the extra `study` is not installed.
    """
    needed_packages = ("pandas", "pyarrow", "psutil", "plotly", "tomli_w")  # of the extra `study`
    for name in needed_packages:
        if importlib.util.find_spec(name) is None:
            raise missing(name)
    return read_study(study)


def opened(study: Study, out: str | Path | None, designs: Collection[str] = (), *, resume: bool, force: bool) -> Runs:
    """Open the folder of a study; `designs` are those of its runs that are known already.

    Raises
    ------
    InputError
        As `Runs`, or it holds another study.
    """
    runs = Runs(Path(f"geosim-{study.name}" if out is None else out), resume, force)
    runs.refuse_another(study, designs)
    runs.write_study(study)
    return runs


def _solve_all(
    work: Workforce, jobs: Mapping[str, Job], runs: Runs, done: dict[str, Mapping[str, Any]], progress: bool
) -> None:
    """Have all jobs solved, and keep each as it comes."""
    waiting: dict[Future[DesignOutcome], Job] = {work.start(job): job for job in jobs.values()}
    with progress_line(len(jobs), progress) as line, interrupts() as interrupted:
        while waiting:
            for job, row in arrived(waiting, runs, interrupted):
                done[job.run] = row
                line.update()
                line.set_postfix_str(f"last {row['status']}")


def arrived(
    waiting: dict[Future[DesignOutcome], Job], runs: Runs, interrupted: threading.Event
) -> Iterator[tuple[Job, Mapping[str, Any]]]:
    """Wait for the next designs, take them out of `waiting`, keep them, and give each with its row.

    Raises
    ------
    KeyboardInterrupt
        Ctrl-C was noticed, see `interrupts`.
    """
    if interrupted.is_set():
        raise KeyboardInterrupt
    for future in wait(waiting, return_when=FIRST_COMPLETED).done:
        job = waiting.pop(future)
        came = outcome(future, job)
        runs.keep(came)
        yield job, came.row


@contextmanager
def interrupts() -> Iterator[threading.Event]:
    """Give an event that Ctrl-C sets, beside what it raises: what is raised while an object is deleted is lost."""
    interrupted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return
    before = signal.getsignal(signal.SIGINT)

    def noticed(number: int, frame: FrameType | None) -> None:
        interrupted.set()
        if callable(before):
            before(number, frame)

    signal.signal(signal.SIGINT, noticed)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


def progress_line(total: int, shown: bool) -> Any:
    """Return a line of progress on stderr with the time that is left; without a terminal, a new line now and then."""
    from tqdm import tqdm

    if sys.stderr.isatty():
        return tqdm(total=total, unit="design", dynamic_ncols=True, disable=not shown)
    seconds_between_lines = 10.0  # a log of an hour has a few hundred lines
    return tqdm(
        total=total,
        unit="design",
        ncols=100,
        disable=not shown,
        file=_Lines(sys.stderr),
        mininterval=seconds_between_lines,
    )


class _Lines:
    """A stream in which every state of a line of progress is a line of its own."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> None:
        """Write what a terminal would write over."""
        if said := text.strip():
            self.stream.write(f"{said}\n")

    def flush(self) -> None:
        """Hand on what is written."""
        self.stream.flush()
