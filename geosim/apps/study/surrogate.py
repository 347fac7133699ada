"""Surrogates of a study: Gaussian processes through its table, callable, with gradients and bars; they do not extrapolate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel, Field

from geosim.apps.study.processes import BAND_DEVIATIONS, Process, fitted
from geosim.arguments import guarded, suggestion
from geosim.arrays import Floats, choice, shown
from geosim.errors import InputError
from geosim.files.npz import Layout, Numbers, read_npz, write_npz
from geosim.resources import readable
from geosim.writing import replacing

if TYPE_CHECKING:
    import pandas


SURROGATE_FILE = "surrogate.npz"


@dataclass(frozen=True)
class VariedDimension:
    """What one dimension was in the designs of a study; its features lie between 0 and 1.

    Parameters
    ----------
    name
        As the study has it.
    choices
        Of one that is no number, and of one that has a single value; () for numbers.
    low, high
        Least and largest number, nan for choices.
    whole
        Whether it is a count.
    """

    name: str
    choices: tuple[str, ...]
    low: float
    high: float
    whole: bool

    @classmethod
    def of_column(cls, name: str, column: pandas.Series) -> VariedDimension:
        """Return what the designs of a table have been."""
        number = column.dtype.kind in "iuf" and column.nunique() > 1
        choices = () if number else tuple(sorted({_written(v) for v in column}))
        low, high = (float(column.min()), float(column.max())) if number else (np.nan, np.nan)
        return cls(name, choices, low, high, column.dtype.kind in "iu")

    @property
    def count(self) -> int:
        """Of its features: a number has one, a choice one for each, what stays none."""
        return 0 if len(self.choices) == 1 else len(self.choices) or 1

    def features(self, value: Any) -> list[float]:
        """Return its features at a value.

        Raises
        ------
        InputError
            It is outside of what was solved.
        """
        name, low, high = self.name, self.low, self.high
        if self.choices:
            if _written(value) not in self.choices:
                known = ", ".join(self.choices)
                raise InputError(
                    f"{name} = {shown(value)} was not solved, and nothing is known of it; there are {known}"
                )
            return [float(_written(value) == one) for one in self.choices] if self.count else []
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not np.isfinite(value):
            raise InputError(f"{name} = {shown(value)} must be a number")
        if self.whole and float(value) != int(value):
            raise InputError(f"{name} = {shown(value)} must be a whole number")
        inside_rel = 1e-9  # of a range: rounding at its ends
        slack = inside_rel * (high - low)
        if not low - slack <= value <= high + slack:
            raise InputError(
                f"{name} = {shown(float(value))} is outside of what was solved, {low:g} .. {high:g}; there is no extrapolation"
            )
        return [(float(value) - low) / (high - low)]


@dataclass(frozen=True)
class Space:
    """What is varied in a study, dimension by dimension."""

    dimensions: tuple[VariedDimension, ...]

    def features(self, design: Mapping[str, Any]) -> Floats:
        """Return the features of a design, dimension after dimension.

        Raises
        ------
        InputError
            A dimension is missing or unknown, or outside of what was solved.
        """
        names = [one.name for one in self.dimensions]
        for key in design:
            if key not in names:
                raise InputError(f"{key!r} was not varied{suggestion(key, names)}; there are {', '.join(names)}")
        out: list[float] = []
        for one in self.dimensions:
            if one.name not in design and one.count:
                raise InputError(f"{one.name} is missing; give a value of every dimension: {', '.join(names)}")
            out += one.features(design[one.name] if one.name in design else one.choices[0])
        return np.array(out)

    def plain(self) -> dict[str, Any]:
        """As JSON holds it: a list of every field of the dimensions."""
        none = (None, None)
        rows = [
            (one.name, one.choices, *(none if one.choices else (one.low, one.high)), one.whole)
            for one in self.dimensions
        ]
        plain_keys = ("names", "choices", "low", "high", "whole")  # of a space in files and on the page
        return dict(zip(plain_keys, map(list, zip(*rows))))


def _written(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float | np.number) and not isinstance(value, bool) else str(value)


@guarded
@dataclass(frozen=True)
class Surrogate:
    """Measures of a study as functions of what was varied; call it with a design.

    Parameters
    ----------
    space
        What was varied, and how far.
    processes
        Measure -> the process through its values.
    """

    space: Space
    processes: Mapping[str, Process]

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of what it knows: columns of the table."""
        return tuple(self.processes)

    def _process(self, measure: str | None) -> Process:
        chosen = self.measures[0] if measure is None else choice(measure, "surrogate: measure", self.measures)
        return self.processes[chosen]

    def __call__(self, design: Mapping[str, Any], measure: str | None = None) -> tuple[float, float, float]:
        """Return the value of a measure for a design, and the ends of its 95 % band.

        Parameters
        ----------
        design
            Dimension -> value, in the units of the study.
        measure
            A column of the table; default the first.

        Raises
        ------
        InputError
            The design is outside of what was solved, or there is no such measure.
        """
        process = self._process(measure)
        (mean,), (deviation,) = process(self.space.features(design)[None])
        band = BAND_DEVIATIONS * float(np.hypot(deviation, process.scale * process.noise))
        return float(mean), float(mean) - band, float(mean) + band

    def gradient(self, design: Mapping[str, Any], measure: str | None = None) -> dict[str, float]:
        """Return the derivatives of a measure by every dimension that is a number, in the units of the study.

        Raises
        ------
        InputError
            As a call.
        """
        slope = self._process(measure).slope(self.space.features(design)[None])[0]
        dimensions, starts = self.space.dimensions, np.cumsum([0, *(one.count for one in self.space.dimensions)])
        return {
            one.name: float(slope[at] / (one.high - one.low)) for one, at in zip(dimensions, starts) if not one.choices
        }

    def effects(self, measure: str) -> dict[str, tuple[list[Any], list[float]]]:
        """Return the main effect of every dimension: its values, and the mean over all solved designs with each."""
        process, out, at = self._process(measure), {}, 0
        effect_points = 13  # of the line of a main effect
        for one in self.space.dimensions:
            if not one.count:
                continue
            shares = np.eye(one.count) if one.choices else np.linspace(0.0, 1.0, effect_points)[:, None]
            values = list(one.choices) or (one.low + (one.high - one.low) * shares[:, 0]).tolist()
            means = []
            for share in shares:
                designs = process.at.copy()
                designs[:, at : at + len(share)] = share
                means.append(float(process(designs)[0].mean()))
            out[one.name] = (values, means)
            at += one.count
        return out

    def save(self, path: Path) -> None:
        """Write it as a file that `surrogate` reads."""
        arrays = {f"{i}/{k}": v for i, p in enumerate(self.processes.values()) for k, v in p.arrays().items()}
        with replacing(path) as beside, beside.open("wb") as file:
            write_npz(file, SURROGATE, {"space": self.space.plain(), "measures": self.measures}, arrays)

    def export_onnx(self, path: str | Path, measure: str | None = None) -> Path:
        """Write a measure as ONNX: `design` (n, features) -> `value`, `low`, `high` (n,), double precision; the path is returned.

        The columns of `design` are the dimensions in the order and the units of the study, of a choice one column for each (1
        where it is chosen). The model's `columns` lists them. It does not know where it extrapolates.

        Raises
        ------
        InputError
            The package onnx is not installed.
        """
        from geosim.files.onnx import write_process

        columns, offset, factor = [], [], []
        for one in self.space.dimensions:
            if one.count:
                columns += [f"{one.name}={choice}" for choice in one.choices] or [one.name]
                offset += [0.0] * len(one.choices) or [one.low]
                factor += [1.0] * len(one.choices) or [1.0 / (one.high - one.low)]
        return write_process(
            columns, np.array(offset), np.array(factor), self._process(measure), Path(path), BAND_DEVIATIONS
        )


class SpaceTable(BaseModel):
    """What `Space.plain` returns."""

    names: list[str]
    choices: list[tuple[str, ...]]
    low: list[float | None]
    high: list[float | None]
    whole: list[bool]

    @property
    def space(self) -> Space:
        """The space of it."""
        columns = (self.names, self.choices, self.low, self.high, self.whole)
        try:
            rows = list(zip(*columns, strict=True))
        except ValueError:
            raise InputError(f"space has {', '.join(str(len(c)) for c in columns)} columns") from None
        dimensions = []
        for name, choices, *ends, whole in rows:
            low, high = (np.nan if end is None else end for end in ends)
            if not choices and not -np.inf < low < high < np.inf:
                raise InputError(f"space: {name} = {low:g} .. {high:g} is no range")
            dimensions.append(VariedDimension(name, choices, low, high, whole))
        return Space(tuple(dimensions))


class SurrogateTable(BaseModel):
    """The header of a surrogate."""

    space: SpaceTable
    measures: list[str] = Field(min_length=1)


def _numbers(about: SurrogateTable) -> dict[str, Numbers]:
    count = sum(one.count for one in about.space.space.dimensions)
    out: dict[str, Numbers] = {}
    for i in range(len(about.measures)):
        n, observed = f"designs of {i}", f"observations of {i}"
        positive = Numbers((), least=np.nextafter(0.0, 1.0))
        own = {"at": Numbers((n, count)), "gradients": Numbers((f"gradients of {i}",), whole=True, least=0)}
        own |= {"lengths": Numbers((count,), least=np.nextafter(0.0, 1.0)), "amplitude": positive, "scale": positive}
        own |= {"noise": Numbers((), least=0.0), "center": Numbers(()), "weights": Numbers((observed,))}
        out |= {f"{i}/{name}": one for name, one in {**own, "factor": Numbers((observed, observed))}.items()}
    return out


SURROGATE = Layout("surrogate", "geosim sweep STUDY.toml --resume writes it again", "about", SurrogateTable, _numbers)


def learned(table: pandas.DataFrame, names: Sequence[str], measures: Sequence[str]) -> Surrogate:
    """Return the surrogate of a study's table; measures that too few designs have are left out.

    Raises
    ------
    InputError
        No measure has enough.
    """
    reached = table[table["status"] == "CONVERGED"]
    # Designs of a process: at least the first, and two more than features; beyond the second evenly chosen ones.
    min_designs, max_designs = 4, 200
    if len(reached) > max_designs:
        reached = reached.iloc[np.linspace(0, len(reached) - 1, max_designs).astype(int)]
    processes: dict[str, Process] = {}
    space, least = Space(()), min_designs
    if len(reached):
        space = Space(tuple(VariedDimension.of_column(name, reached[name]) for name in names))
        count = sum(one.count for one in space.dimensions)
        least = max(min_designs, count + 2)
        features = np.array(
            [space.features(dict(zip(names, row))) for row in reached[list(names)].itertuples(index=False)]
        )
        for measure in measures:
            values = reached[measure].to_numpy(dtype=float)
            known = np.isfinite(values)
            if count and known.sum() >= least and np.ptp(values[known]) > 0.0:
                processes[measure] = fitted(features[known], values[known])
    if not processes:
        raise InputError(
            f"surrogate: {len(reached)} converged designs are too few; at least {least} with values that differ are needed"
        )
    return Surrogate(space, processes)


@guarded
def surrogate(folder: str | Path) -> Surrogate:
    """Return the surrogate of a study from the folder that `sweep` or `optimize` wrote.

    Raises
    ------
    InputError
        There is none: no study, or too few designs converged.
    """
    path = readable(Path(folder) / SURROGATE_FILE)
    if not path.is_file():
        raise InputError(
            f"{path} does not exist; geosim sweep and optimize write it where enough designs converge (geosim sweep STUDY.toml "
            "--resume)"
        )
    about, arrays, _ = read_npz(path, SURROGATE)
    processes = {}
    for i, measure in enumerate(about.measures):
        process = Process.of_arrays({name: arrays[f"{i}/{name}"] for name in Process.__dataclass_fields__})
        wrong = process.problem()
        if wrong:
            raise InputError(f"{path}: {measure}: {wrong}; {SURROGATE.remedy}")
        processes[measure] = process
    return Surrogate(about.space.space, processes)
