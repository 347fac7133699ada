"""The folder of a study: runs/HASH of every design that has been solved, and the table of them.

A run is written beside and renamed when it is whole, by the process that leads the study alone. A study that is killed
has every run or has it not, and goes on with those that it has not.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tomllib
import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geosim.apps.study.job import CRASHED, OUT_OF_MEMORY, ROW_FILE, TIMEOUT, DesignOutcome, Job
from geosim.apps.study.sampling import Row
from geosim.apps.study.study import Study
from geosim.arrays import shown
from geosim.errors import GeosimWarning, InputError
from geosim.files.folder import check_folder
from geosim.writing import replacing, write_whole

if TYPE_CHECKING:
    import pandas


# What a study writes besides runs/; --force removes it.
_OWN_STUDY_FILES = re.compile(
    r"table\.csv|table\.parquet|report\.html|study\.toml|surrogate\.npz|trials\.db|best|runs|\..*\.part"
)


class Runs:
    """The runs of a study in a folder.

    Parameters
    ----------
    folder
        Of the study; made if it does not exist.
    resume
        Whether runs that are there are kept.
    force
        Whether what a study wrote there is removed first.

    Raises
    ------
    InputError
        The folder holds something and neither is asked for, or nothing can be written there.
    """

    def __init__(self, folder: Path, resume: bool, force: bool) -> None:
        check_folder(folder, resume or force)
        self.folder = folder
        if force and folder.is_dir():
            for path in folder.iterdir():
                if _OWN_STUDY_FILES.fullmatch(path.name):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
        (folder / "runs").mkdir(parents=True, exist_ok=True)
        for part in (folder / "runs").glob(".*.part"):
            shutil.rmtree(part)

    def row(self, job: Job) -> Mapping[str, Any] | None:
        """Return what is known of a design; None if it is to be solved.

        So it is where a limit ended it that is wider now, or something from outside.
        """
        path = self.folder / "runs" / job.run / ROW_FILE
        if not path.is_file():
            return None
        row = _read_row(path)
        if row is None:
            return None
        if any(_lacks(row, name) for name in job.asked):
            return None  # it was measured when nobody asked for that
        longer, larger = job.seconds > row["limits"]["seconds"], job.memory > row["limits"]["memory"]
        wider = {TIMEOUT: longer, OUT_OF_MEMORY: larger, CRASHED: longer and not row["limits"]["seconds"]}
        return None if wider.get(row["status"]) else row

    def keep(self, outcome: DesignOutcome) -> None:
        """Write a run: whole, or not at all."""
        run = str(outcome.row["run"])
        beside, target = self.folder / "runs" / f".{run}.part", self.folder / "runs" / run
        for name, data in {**outcome.files, ROW_FILE: json.dumps(outcome.row, indent=1).encode()}.items():
            path = beside / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        if target.exists():
            shutil.rmtree(target)
        os.rename(beside, target)

    def refuse_another(self, study: Study, designs: Collection[str] = ()) -> None:
        """Refuse a folder that holds another study, whose table would be lost; values and settings of one may change.

        Parameters
        ----------
        designs
            Runs of the study that are known already; where one of them is there it is no other.

        Raises
        ------
        InputError
            The folder was written by a study of another robot or of other parameters.
        """
        there = {path.name for path in (self.folder / "runs").iterdir()}
        if not there or not there.isdisjoint(designs):
            return
        try:
            before = tomllib.loads((self.folder / "study.toml").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return  # nothing says what it was
        now = tomllib.loads(study.text)
        for key in ("design", "robot", "vary"):
            was, asked = _what(before.get(key)), _what(now.get(key))
            if was != asked:
                raise InputError(
                    f"{self.folder} holds another study: {key} was {shown(was)} there and is {shown(asked)} here; give another "
                    "--out, or --force to remove it"
                )

    def best(self, run: str) -> None:
        """Put a copy of a run into best/."""
        target = self.folder / "best"
        if target.exists():
            shutil.rmtree(target)
        shutil.copytree(self.folder / "runs" / run, target)

    def write_study(self, study: Study) -> None:
        """Keep the study beside its runs."""
        write_whole(self.folder / "study.toml", study.text)

    def write_table(self, table: pandas.DataFrame) -> None:
        """Write table.csv and table.parquet."""
        with replacing(self.folder / "table.csv") as beside:
            table.to_csv(beside, index=False)
        with replacing(self.folder / "table.parquet") as beside:
            table.to_parquet(beside, index=False)


def _lacks(row: Mapping[str, Any], name: str) -> bool:
    """Whether a run that has measures lacks one that is taken only where it is asked for."""
    tables = [row, *row.get("cases", {}).values()]
    return any(table["measures"] and name not in table["measures"] for table in tables)


def _what(given: Any) -> Any:
    """What two studies are compared by: a name, or the names of what is varied."""
    return sorted(given) if isinstance(given, dict) else given


def _read_row(path: Path) -> Mapping[str, Any] | None:
    """Return what a run has left; None with a warning where that is damaged, so that the design is solved again."""
    try:
        row: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        known = all(isinstance(row[key], str) for key in ("run", "status", "message"))
        numbers = [
            *(row[key] for key in ("seconds", "memory_mb")),
            *(row["limits"][key] for key in ("seconds", "memory")),
        ]
        if known and all(isinstance(value, int | float) for value in numbers) and isinstance(row["measures"], dict):
            return row
    except (OSError, KeyError, TypeError, ValueError, RecursionError):
        pass
    warnings.warn(f"{path} is damaged; the design is solved again", GeosimWarning, stacklevel=2)
    return None


def table(study: Study, done: Sequence[tuple[Row, Mapping[str, Any]]]) -> pandas.DataFrame:
    """Return the table of designs: what was varied, how each ended, what was measured.

    Parameters
    ----------
    done
        Values of what is varied and the row of the run, one a design.
    """
    import pandas

    heads = ("run", *study.keys, "status", "message", "seconds", "memory_mb", *study.columns)
    lines = [
        [
            row["run"],
            *(_cell(values[key]) for key in study.keys),
            *(row[key] for key in ("status", "message", "seconds", "memory_mb")),
            *(float(of(known)) for of in study.expressions.values()),
        ]
        for values, row in done
        for known in [study.measured(row)]
    ]
    frame = pandas.DataFrame(lines, columns=heads)
    return frame.astype(dict.fromkeys(("seconds", "memory_mb", *study.columns), float))


def _cell(value: Any) -> Any:
    """A parameter as a table holds it: pairs as on the command line, tables as JSON."""
    if isinstance(value, list | tuple):
        return ",".join(f"{v:g}" if isinstance(v, int | float) else str(v) for v in value)
    return json.dumps(value) if isinstance(value, dict) else value


def missing(name: str) -> InputError:
    """Return the error that says which extra is not installed."""
    return InputError(f"studies need {name}: pip install 'geosim[study]'")
