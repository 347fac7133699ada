"""Surrogates of a study: Gaussian processes through its table, callable, with gradients and bars; they do not extrapolate."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from geosim.arguments import guarded
from geosim.arrays import Floats, choice, shown
from geosim.errors import InputError
from geosim.files.messages import suggestion
from geosim.study.processes import BAND_DEVIATIONS, Process, fitted
from geosim.writing import replacing

if TYPE_CHECKING:
    import pandas

__all__ = ["SURROGATE_FILE", "Space", "Surrogate", "learned", "surrogate"]

SURROGATE_FILE = "surrogate.npz"
# Designs of a process: at least the first, and two more than features; beyond the second evenly chosen ones.
MIN_DESIGNS, MAX_DESIGNS = 4, 200
INSIDE_REL = 1e-9  # of a range: rounding at its ends
EFFECT_POINTS = 13  # of the line of a main effect


@dataclass(frozen=True)
class Space:
    """What is varied in a study, as features between 0 and 1.

    Parameters
    ----------
    names
        Of the dimensions, as the study has them.
    choices
        Of each dimension that is no number, and of one that has a single value; () for numbers.
    low, high
        Least and largest number of each dimension, nan for choices.
    whole
        Which dimensions are counts.
    """

    names: tuple[str, ...]
    choices: tuple[tuple[str, ...], ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    whole: tuple[bool, ...]

    @classmethod
    def of_table(cls, table: pandas.DataFrame, names: Sequence[str]) -> Space:
        """Return the space that the designs of a table fill."""
        choices, low, high, counts = [], [], [], []
        for name in names:
            column = table[name]
            number = column.dtype.kind in "iuf" and column.nunique() > 1
            choices.append(() if number else tuple(sorted({_written(v) for v in column})))
            low.append(float(column.min()) if number else np.nan)
            high.append(float(column.max()) if number else np.nan)
            counts.append(column.dtype.kind in "iu")
        return cls(tuple(names), tuple(choices), tuple(low), tuple(high), tuple(counts))

    @property
    def count(self) -> int:
        """Of features."""
        return sum(len(c) if len(c) > 1 else 0 if c else 1 for c in self.choices)

    def features(self, design: Mapping[str, Any]) -> Floats:
        """Return the features of a design, (count,).

        Raises
        ------
        InputError
            A dimension is missing or unknown, or outside of what was solved.
        """
        for key in design:
            if key not in self.names:
                raise InputError(
                    f"{key!r} was not varied{suggestion(key, self.names)}; there are {', '.join(self.names)}"
                )
        out: list[float] = []
        for name, some, low, high, whole in zip(self.names, self.choices, self.low, self.high, self.whole):
            if name not in design and len(some) != 1:
                raise InputError(f"{name} is missing; give a value of every dimension: {', '.join(self.names)}")
            value = design.get(name, some[0] if some else None)
            if some:
                if _written(value) not in some:
                    raise InputError(
                        f"{name} = {shown(value)} was not solved, and nothing is known of it; there are {', '.join(some)}"
                    )
                out += [float(_written(value) == one) for one in some] if len(some) > 1 else []
                continue
            if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not np.isfinite(value):
                raise InputError(f"{name} = {shown(value)} must be a number")
            if whole and float(value) != int(value):
                raise InputError(f"{name} = {shown(value)} must be a whole number")
            slack = INSIDE_REL * (high - low)
            if not low - slack <= value <= high + slack:
                raise InputError(
                    f"{name} = {shown(float(value))} is outside of what was solved, {low:g} .. {high:g}; there is no "
                    "extrapolation"
                )
            out.append((float(value) - low) / (high - low))
        return np.array(out)

    def numbers(self) -> list[tuple[str, int, float]]:
        """Return name, feature and range of every dimension that is a number."""
        found, at = [], 0
        for name, some, low, high in zip(self.names, self.choices, self.low, self.high):
            if not some:
                found.append((name, at, high - low))
            at += len(some) if len(some) > 1 else 0 if some else 1
        return found

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        none: Callable[[Iterable[float]], list[float | None]] = lambda values: [None if v != v else v for v in values]  # noqa: E731
        return {
            "names": self.names, "choices": self.choices, "low": none(self.low), "high": none(self.high), "whole": self.whole
        }  # fmt: skip

    @classmethod
    def of_plain(cls, given: Mapping[str, Any]) -> Space:
        """Return the space of what JSON holds."""

        def number(values: Iterable[float | None]) -> tuple[float, ...]:
            return tuple(np.nan if v is None else float(v) for v in values)

        return cls(
            tuple(given["names"]),
            tuple(map(tuple, given["choices"])),
            number(given["low"]),
            number(given["high"]),
            tuple(given["whole"]),
        )


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
        band = BAND_DEVIATIONS * float(np.hypot(deviation, process.deviation_of_noise))
        return float(mean), float(mean) - band, float(mean) + band

    def gradient(self, design: Mapping[str, Any], measure: str | None = None) -> dict[str, float]:
        """Return the derivatives of a measure by every dimension that is a number, in the units of the study.

        Raises
        ------
        InputError
            As a call.
        """
        slope = self._process(measure).slope(self.space.features(design)[None])[0]
        return {name: float(slope[at] / width) for name, at, width in self.space.numbers()}

    def effects(self, measure: str) -> dict[str, tuple[list[Any], list[float]]]:
        """Return the main effect of every dimension: its values, and the mean over all solved designs with each."""
        process, out, at = self._process(measure), {}, 0
        for name, some, low, high in zip(self.space.names, self.space.choices, self.space.low, self.space.high):
            if len(some) == 1:
                continue
            shares = np.eye(len(some)) if some else np.linspace(0.0, 1.0, EFFECT_POINTS)[:, None]
            values = list(some) if some else (low + (high - low) * shares[:, 0]).tolist()
            means = []
            for share in shares:
                designs = process.at.copy()
                designs[:, at : at + len(share)] = share
                means.append(float(process(designs)[0].mean()))
            out[name] = (values, means)
            at += shares.shape[1]
        return out

    def save(self, path: Path) -> None:
        """Write it as a file that `surrogate` reads."""
        arrays = {f"{i}/{k}": v for i, p in enumerate(self.processes.values()) for k, v in p.arrays().items()}
        about = json.dumps({"space": self.space.plain(), "measures": self.measures})
        with replacing(path) as beside, beside.open("wb") as file:
            np.savez_compressed(file, about=np.array(about), **arrays)

    def export_onnx(self, path: str | Path, measure: str | None = None) -> Path:
        """Write a measure as ONNX: `design` (n, features) -> `value`, `low`, `high` (n,), double precision; the path is returned.

        The columns of `design` are the dimensions in the order and the units of the study, of a choice one column for each (1
        where it is chosen); the model's `columns` lists them. It does not know where it extrapolates.

        Raises
        ------
        InputError
            The package onnx is not installed.
        """
        from geosim.files.onnx import needs_onnx
        from geosim.study.onnx import write

        needs_onnx("a surrogate")

        columns, offset, factor = [], [], []
        for name, some, low, high in zip(self.space.names, self.space.choices, self.space.low, self.space.high):
            if len(some) != 1:
                columns += [f"{name}={one}" for one in some] or [name]
                offset += [0.0] * len(some) or [low]
                factor += [1.0] * len(some) or [1.0 / (high - low)]
        return write(columns, np.array(offset), np.array(factor), self._process(measure), Path(path))


def learned(table: pandas.DataFrame, names: Sequence[str], measures: Sequence[str]) -> Surrogate:
    """Return the surrogate of a study's table; measures that too few designs have are left out.

    Raises
    ------
    InputError
        No measure has enough.
    """
    reached = table[table["status"] == "CONVERGED"]
    if len(reached) > MAX_DESIGNS:
        reached = reached.iloc[np.linspace(0, len(reached) - 1, MAX_DESIGNS).astype(int)]
    processes: dict[str, Process] = {}
    space, least = Space((), (), (), (), ()), MIN_DESIGNS
    if len(reached):
        space = Space.of_table(reached, names)
        least = max(MIN_DESIGNS, space.count + 2)
        features = np.array(
            [space.features(dict(zip(names, row))) for row in reached[list(names)].itertuples(index=False)]
        )
        for measure in measures:
            values = reached[measure].to_numpy(dtype=float)
            known = np.isfinite(values)
            if space.count and known.sum() >= least and np.ptp(values[known]) > 0.0:
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
    path = Path(folder) / SURROGATE_FILE
    if not path.is_file():
        raise InputError(
            f"{path} does not exist; geosim sweep and optimize write it where enough designs converge (geosim sweep STUDY.toml "
            "--resume)"
        )
    try:
        with np.load(path, allow_pickle=False) as given:
            about = json.loads(str(given["about"]))
            processes = {}
            for i, measure in enumerate(about["measures"]):
                own = {name.split("/")[1]: given[name] for name in given.files if name.startswith(f"{i}/")}
                processes[measure] = Process.of_arrays(own)
    except (OSError, KeyError, ValueError, EOFError) as error:
        raise InputError(
            f"{path} is damaged ({type(error).__name__}); geosim sweep STUDY.toml --resume writes it again"
        ) from None
    return Surrogate(Space.of_plain(about["space"]), processes)
