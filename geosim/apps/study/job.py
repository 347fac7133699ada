"""One design of a study, with all that is needed to solve it anywhere: nothing of it is in a file of the parent."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

# How a design ends besides the names of `Status`.
MESH_FAILED, CRASHED, TIMEOUT, OUT_OF_MEMORY, REFUSED = "MESH_FAILED", "CRASHED", "TIMEOUT", "OUT_OF_MEMORY", "REFUSED"
ROW_FILE, JOB_FILE = "row.json", "job.pickle"  # files of a run: how it ended; what its child was given
ENDING_FILE = "ending"  # stands there while a child whose time is over writes what it reached
MEASURES_ATTRIBUTE = "measures"  # attribute of a trial: its measures as JSON; none where it failed
# As JSON: of a trial the derivatives of its measures; of all trials what refined meshes changed, run by run.
SLOPES_ATTRIBUTE, CONFIRMED_ATTRIBUTE, UNCONFIRMED_ATTRIBUTE = "slopes", "confirmed", "unconfirmed"
WALL_TIME_FACTOR = 5.0  # times the limit of CPU time may pass: a design that waits for something ends, too


@dataclass(frozen=True)
class Job:
    """One design and the settings of its study.

    Parameters
    ----------
    design
        Name of a generator, or module:function; None for a robot file.
    parameters
        Of the generator, SI.
    material
        As in a robot file; None for that of the robot file.
    table
        Of the robot file; for a design, what is added to that which it writes.
    mesh
        As [mesh] of the study.
    actuation
        Tables of an actuation file; empty commands nothing.
    files
        Content of the files that the tables name.
    seconds, memory
        Limits of CPU time [s] and memory [bytes].
    cases
        Name -> tables `environment`, `actuation` and `mesh` in place of those of the design.
    alone
        Whether the design is solved without a case, too.
    asked
        Measures that are taken where they are asked for alone.
    slopes
        Key of the study -> argument of the generator and SI over the key's unit, by which `sloped` are differentiated.
    sloped
        Measures that are differentiated, and have bars where `confirmed`.
    confirmed
        Whether the mesh is refined for bars.
    base
        Arguments of the generator for the design whose mesh is moved to this one; empty where it has a mesh of its own.
    cut
        CPU time [s] at which a search ends the design before its limit, since others take far less.
    """

    design: str | None
    parameters: Mapping[str, Any]
    material: Any
    table: Mapping[str, Any]
    mesh: Mapping[str, Any]
    actuation: Mapping[str, Any]
    files: Mapping[str, bytes]
    seconds: float
    memory: int
    cases: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    alone: bool = True
    asked: tuple[str, ...] = ()
    slopes: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    sloped: tuple[str, ...] = ()
    confirmed: bool = False
    base: Mapping[str, Any] = field(default_factory=dict)
    cut: float = math.inf

    @property
    def budget(self) -> float:
        """CPU time [s] after which the design is ended."""
        return min(self.seconds, self.cut)

    @cached_property
    def run(self) -> str:
        """Digits of the design and of what it is solved with; limits do not change a shape."""
        left_out = (
            "files",
            "seconds",
            "memory",
            "asked",
            "slopes",
            "sloped",
            "confirmed",
            "cut",
            *(() if self.cases else ("cases", "alone")),
            *(() if self.base else ("base",)),
        )
        said = {key: value for key, value in asdict(self).items() if key not in left_out}
        said["files"] = {name: hashlib.sha256(data).hexdigest() for name, data in self.files.items()}
        # of a run: two of a hundred thousand designs have the same by a chance of 2e-5
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:12]


def overrun(seconds: float) -> str:
    """Say that a design took longer than a limit of CPU time [s]."""
    return f"took more than {seconds:g} s of CPU time, or {WALL_TIME_FACTOR * seconds:g} s in all"


@dataclass(frozen=True)
class DesignOutcome:
    """What came of a job.

    Parameters
    ----------
    row
        run, status, message, seconds (CPU) [s], memory_mb (peak), measures (name -> number or None) at the last command, frames
        (measures of every command), cases (name -> status, message, measures, frames).
    files
        Name -> content of the files of its folder.
    """

    row: Mapping[str, Any]
    files: Mapping[str, bytes]
