"""Actuations: sequences of commands. `act1 & act2` goes together, command by command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from geosim.arrays import Floats, floats, frozen
from geosim.errors import InputError

__all__ = [
    "Actuation",
    "CableLengths",
    "CableTensions",
    "Combined",
    "Command",
    "EdgeLengths",
    "FaceAreas",
    "Inflation",
    "NaturalShape",
    "Passive",
    "UndulatoryGait",
    "ValveCommands",
]

A = TypeVar("A", bound="Actuation")


class Actuation:
    """Root of all actuations: a number of commands, each at a time.

    `times` (k,) is the load parameter or the time [s] of every command.
    """

    times: Any

    @property
    def parts(self) -> tuple[Actuation, ...]:
        """The actuations that go together here."""
        return (self,)

    def __and__(self, other: Actuation) -> Combined:
        return Combined((*self.parts, *other.parts))

    def __len__(self) -> int:
        return len(self.times)

    def command(self, index: int) -> Command:
        """Return command `index`, 0 <= index < len(self)."""
        return Command(index, float(self.times[index]), self.parts)

    def commands(self, kinds: tuple[type[Actuation], ...], solver: str) -> list[Command]:
        """Return all commands.

        Raises
        ------
        InputError
            A part is not one of the kinds that a solver knows.
        """
        self.refuse_all_but(kinds, solver)
        return [self.command(i) for i in range(len(self))]

    def refuse_all_but(self, kinds: tuple[type[Actuation], ...], solver: str) -> None:
        """Raise `InputError` if a part is neither one of the kinds that a solver knows nor `Passive`."""
        for part in self.parts:
            if not isinstance(part, (*kinds, Passive)):
                names = ", ".join(k.__name__ for k in kinds)
                raise InputError(f"{type(part).__name__} does not actuate this robot: {solver} takes {names}, Passive")


@dataclass(frozen=True)
class Command:
    """One command: what every part of an actuation asks at one time."""

    index: int
    time: float
    parts: tuple[Actuation, ...]

    def find(self, kind: type[A]) -> A | None:
        """Return the part of this kind, or None."""
        return next((part for part in self.parts if isinstance(part, kind)), None)


@dataclass(frozen=True)
class Combined(Actuation):
    """Several actuations that go together; all have the same number of commands."""

    members: tuple[Actuation, ...]

    def __post_init__(self) -> None:
        counts = {type(m).__name__: len(m) for m in self.members}
        if len(set(counts.values())) > 1:
            raise InputError(f"actuations joined by & need equally many steps; given {counts}")
        kinds = [type(m) for m in self.members]
        if len(set(kinds)) < len(kinds):
            raise InputError(f"two actuations of the same kind cannot go together: {[k.__name__ for k in kinds]}")

    @property
    def times(self) -> Floats:
        """Times of the first member [s or load parameter], shape (k,)."""
        return self.members[0].times

    @property
    def parts(self) -> tuple[Actuation, ...]:
        """The members."""
        return self.members


def _table(value: Any, name: str) -> Floats:
    """Return (k, columns) from a scalar, (k,) or (k, columns); nan allowed."""
    array = np.asarray(value, dtype=float) if not isinstance(value, str) else None
    if array is None or array.ndim > 2 or array.size == 0:
        raise InputError(f"{name}: {str(value)[:60]!r} must be a number, (k,) or (k, columns)")
    if array.ndim < 2:
        array = array.reshape(-1, 1)
    if np.isinf(array).any():
        raise InputError(
            f"{name}: {str(value)[:60]} holds inf; give finite numbers, or nan where nothing is prescribed"
        )
    return frozen(array.copy())


@dataclass(frozen=True)
class Inflation(Actuation):
    """Chambers driven to a volume or to a pressure.

    Parameters
    ----------
    volume_ratio
        Volumes over the meshed rest volumes, V / V0 > 0: scalar, (k,) for all chambers alike, or (k, chambers).
    pressure
        Gauge pressures [Pa] (negative = vacuum), likewise.

    Per step and chamber at most one of the two is finite; where both are nan the chamber is vented (gauge
    pressure 0). Every step starts from the frame before.
    """

    volume_ratio: Any = None
    pressure: Any = None

    def __post_init__(self) -> None:
        if self.volume_ratio is None and self.pressure is None:
            raise InputError("Inflation: give volume_ratio=... (V/V0) or pressure=... (Pa)")
        given = {
            k: _table(getattr(self, k), f"Inflation: {k}")
            for k in ("volume_ratio", "pressure")
            if getattr(self, k) is not None
        }
        first = next(iter(given.values()))
        for key in ("volume_ratio", "pressure"):
            value = given.get(key, np.full(first.shape, np.nan))
            if value.shape != first.shape:
                raise InputError(
                    f"Inflation: volume_ratio has shape {first.shape}, pressure {value.shape}; make them equal"
                )
            object.__setattr__(self, key, frozen(value))
        both = np.isfinite(self.volume_ratio) & np.isfinite(self.pressure)
        if both.any():
            step, chamber = np.argwhere(both)[0]
            raise InputError(
                f"Inflation: step {step + 1}, chamber {chamber + 1} has both a volume ratio and a pressure; "
                f"prescribe one, the other is returned"
            )
        bad = np.isfinite(self.volume_ratio) & (self.volume_ratio <= 0)
        if bad.any():
            raise InputError(
                f"Inflation: volume_ratio = {self.volume_ratio[bad][0]:g} is impossible; V/V0 is positive "
                f"(1 is the rest volume)"
            )

    @property
    def times(self) -> Floats:
        """Load parameter 1 .. k."""
        return frozen(np.arange(1.0, len(self.volume_ratio) + 1.0))

    def targets(self, index: int, chambers: int) -> tuple[Floats, Floats]:
        """Return (volume ratios, pressures [Pa]) of one command, each (chambers,); vented chambers have pressure 0."""
        if chambers == 0:
            raise InputError("Inflation: this robot has no chamber to inflate; use Passive")
        columns = self.volume_ratio.shape[1]
        if columns not in (1, chambers):
            raise InputError(
                f"Inflation: {columns} columns given for a robot with {chambers} chamber{'s' if chambers > 1 else ''}"
            )
        ratio = np.broadcast_to(self.volume_ratio[index], chambers).copy()
        pressure = np.broadcast_to(self.pressure[index], chambers).copy()
        pressure[np.isnan(ratio) & np.isnan(pressure)] = 0.0
        return ratio, pressure


@dataclass(frozen=True)
class CableLengths(Actuation):
    """Cables pulled to a length [m]: scalar, (k,) or (k, cables); nan = slack."""

    length: Any

    def __post_init__(self) -> None:
        value = _table(self.length, "CableLengths: length")
        if (value <= 0).any():
            raise InputError(f"CableLengths: length = {value[value <= 0][0]:g} m must be positive")
        object.__setattr__(self, "length", value)

    @property
    def times(self) -> Floats:
        """Load parameter 1 .. k."""
        return frozen(np.arange(1.0, len(self.length) + 1.0))

    def at(self, index: int, cables: int) -> Floats:
        """Return the lengths [m] of one command, (cables,); nan = slack."""
        return _columns(self.length[index], cables, "CableLengths")


@dataclass(frozen=True)
class CableTensions(Actuation):
    """Cables pulled with a tension >= 0 [N]: scalar, (k,) or (k, cables); nan = slack."""

    tension: Any

    def __post_init__(self) -> None:
        value = _table(self.tension, "CableTensions: tension")
        if (value < 0).any():
            raise InputError(f"CableTensions: tension = {value[value < 0][0]:g} N is negative; a cable only pulls")
        object.__setattr__(self, "tension", value)

    @property
    def times(self) -> Floats:
        """Load parameter 1 .. k."""
        return frozen(np.arange(1.0, len(self.tension) + 1.0))

    def at(self, index: int, cables: int) -> Floats:
        """Return the tensions [N] of one command, (cables,); nan = slack."""
        return _columns(self.tension[index], cables, "CableTensions")


def _columns(row: Floats, cables: int, owner: str) -> Floats:
    if len(row) not in (1, cables):
        raise InputError(
            f"{owner}: {len(row)} columns given for a robot with {cables} cable{'s' if cables != 1 else ''}"
        )
    return np.broadcast_to(row, cables).copy()


def _ids(value: Any, name: str, width: int) -> Any:
    array = np.asarray(value)
    if array.ndim != 2 or array.shape[1] != width or len(array) == 0 or array.dtype.kind not in "iu" or array.min() < 0:
        raise InputError(f"{name}: shape {array.shape} of {array.dtype}; vertex ids of shape (m, {width}) are needed")
    return frozen(array.astype(np.int64))


def _ratios(value: Any, name: str) -> Floats:
    table = _table(value, name)
    if np.isnan(table).any() or (table <= 0).any():
        raise InputError(f"{name}: {table[~(table > 0)][0]:g} is impossible; a ratio to rest is positive (1 is rest)")
    return table


@dataclass(frozen=True)
class EdgeLengths(Actuation):
    """Edges of the mesh driven to a share of their rest lengths, every edge on its own; it pulls and pushes.

    Parameters
    ----------
    edges
        Vertex ids, shape (m, 2).
    ratio
        Length over rest length > 0: scalar, (k,) for all alike, or (k, m).
    """

    edges: Any
    ratio: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", _ids(self.edges, "EdgeLengths: edges", 2))
        object.__setattr__(self, "ratio", _ratios(self.ratio, "EdgeLengths: ratio"))
        if self.ratio.shape[1] not in (1, len(self.edges)):
            raise InputError(f"EdgeLengths: ratio has {self.ratio.shape[1]} columns for {len(self.edges)} edges")

    @property
    def times(self) -> Floats:
        """Load parameter 1 .. k."""
        return frozen(np.arange(1.0, len(self.ratio) + 1.0))

    def at(self, index: int) -> Floats:
        """Return the ratios of one command, (m,)."""
        return np.broadcast_to(self.ratio[index], len(self.edges)).copy()


@dataclass(frozen=True)
class FaceAreas(Actuation):
    """Faces of the mesh driven to a share of their total rest area by one surface tension; it pulls and pushes.

    Parameters
    ----------
    faces
        Vertex ids, shape (m, 3).
    ratio
        Total area over total rest area > 0: scalar or (k,).
    """

    faces: Any
    ratio: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "faces", _ids(self.faces, "FaceAreas: faces", 3))
        object.__setattr__(self, "ratio", _ratios(self.ratio, "FaceAreas: ratio"))
        if self.ratio.shape[1] != 1:
            raise InputError(f"FaceAreas: ratio has {self.ratio.shape[1]} columns; the set has one area: give (k,)")

    @property
    def times(self) -> Floats:
        """Load parameter 1 .. k."""
        return frozen(np.arange(1.0, len(self.ratio) + 1.0))

    def at(self, index: int) -> float:
        """Return the ratio of one command."""
        return float(self.ratio[index, 0])


@dataclass(frozen=True)
class Passive(Actuation):
    """Commands nothing: loads only; in dynamics `duration` [s] in `steps` commands."""

    duration: float = 0.0
    steps: int = 1

    def __post_init__(self) -> None:
        if not (isinstance(self.steps, (int, np.integer)) and self.steps >= 1):
            raise InputError(f"Passive: steps = {self.steps!r} must be a whole number of at least 1")
        if not (np.isfinite(self.duration) and self.duration >= 0):
            raise InputError(f"Passive: duration = {self.duration!r} s must be finite and not negative")

    @property
    def times(self) -> Floats:
        """Load parameter 1 .. k without a duration, else equal times up to the duration [s]."""
        count = np.arange(1.0, self.steps + 1.0)
        return frozen(count * (self.duration / self.steps) if self.duration > 0 else count)


def _times(value: Any, owner: str) -> Floats:
    times = floats(np.atleast_1d(np.asarray(value, dtype=float)), f"{owner}: times", (None,))
    if len(times) == 0 or (np.diff(times) <= 0).any() or times[0] < 0:
        raise InputError(f"{owner}: times must be at least one, not negative and increasing [s]")
    return times


@dataclass(frozen=True)
class NaturalShape(Actuation):
    """Natural curvature, twist and hinge angles of rods and shells over time, linear between the given times.

    Parameters
    ----------
    times
        [s], increasing, shape (k,).
    curvature
        Natural curvature [1/m]: (k,), (k, stencils) or (k, stencils, 2); or a callable time -> array.
    twist
        Natural twist [rad/m]: (k,) or (k, stencils); or a callable.
    hinge_angle
        Natural hinge angles [rad]: (k,) or (k, hinges); or a callable.
    """

    times: Any
    curvature: Any = None
    twist: Any = None
    hinge_angle: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "times", _times(self.times, "NaturalShape"))
        for key in ("curvature", "twist", "hinge_angle"):
            value = getattr(self, key)
            if value is None or callable(value):
                continue
            try:
                array = np.atleast_1d(np.array(value, dtype=float))
            except (TypeError, ValueError):
                raise InputError(f"NaturalShape: {key} is not an array of numbers") from None
            if array.shape[0] != len(self.times) or not np.isfinite(array).all():
                raise InputError(
                    f"NaturalShape: {key} has shape {array.shape}; {len(self.times)} finite rows are needed, one a time"
                )
            object.__setattr__(self, key, frozen(array))

    def at(self, key: str, time: float) -> Any:
        """Return `key` ("curvature", "twist", "hinge_angle") at a time [s], or None if it is not commanded."""
        value = getattr(self, key)
        if value is None or isinstance(value, Callable):  # type: ignore[arg-type]
            return None if value is None else np.asarray(value(time), dtype=float)
        if time <= self.times[0] or len(self.times) == 1:
            return value[0]
        if time >= self.times[-1]:
            return value[-1]
        i = int(np.searchsorted(self.times, time, side="right")) - 1
        s = (time - self.times[i]) / (self.times[i + 1] - self.times[i])
        return (1.0 - s) * value[i] + s * value[i + 1]


@dataclass(frozen=True)
class ValveCommands(Actuation):
    """Commanded pressures [Pa] of the valves at times [s]: `pressures` (k, links), held until the next time."""

    times: Any
    pressures: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "times", _times(self.times, "ValveCommands"))
        pressures = _table(self.pressures, "ValveCommands: pressures")
        if len(pressures) != len(self.times) or np.isnan(pressures).any():
            raise InputError(
                f"ValveCommands: {len(pressures)} rows of pressures for {len(self.times)} times; give one finite "
                f"row a time [Pa]"
            )
        object.__setattr__(self, "pressures", pressures)


@dataclass(frozen=True)
class UndulatoryGait(Actuation):
    """Travelling wave of pressures p_i(t) = A (sin(2 pi f t + i beta) + phi), Eq. (9) of [Gasoto2019].

    Parameters
    ----------
    amplitude
        A [Pa].
    frequency
        f [Hz].
    phase_lag
        beta between neighbouring links [rad].
    offset
        phi, dimensionless; its sign steers.
    duration
        [s].
    """

    amplitude: float
    frequency: float
    phase_lag: float
    offset: float = 0.0
    duration: float = 1.0

    def __post_init__(self) -> None:
        for key in ("amplitude", "frequency", "phase_lag", "offset", "duration"):
            if not np.isfinite(getattr(self, key)):
                raise InputError(f"UndulatoryGait: {key} = {getattr(self, key)!r} must be finite")
        if self.duration <= 0 or self.frequency < 0:
            raise InputError("UndulatoryGait: duration [s] must be positive and frequency [Hz] not negative")

    @property
    def times(self) -> Floats:
        """End of every 60 Hz frame [s]."""
        return frozen(np.arange(1.0, max(1, round(self.duration * 60.0)) + 1.0) / 60.0)

    def pressures(self, time: float, links: int) -> Floats:
        """Return the commanded pressures [Pa] of all links at a time [s], shape (links,)."""
        phase = 2.0 * np.pi * self.frequency * time + np.arange(links) * self.phase_lag
        return self.amplitude * (np.sin(phase) + self.offset)
