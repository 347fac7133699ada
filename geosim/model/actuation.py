"""Actuations: sequences of commands. `act1 & act2` goes together, command by command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

import numpy as np

from geosim.arguments import guarded
from geosim.arrays import Bools, Floats, brief, floats, frozen, ints, number, real_array, shown, whole
from geosim.errors import InputError
from geosim.model.cable import Cable

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
    "Syringe",
    "UndulatoryGait",
    "ValveCommands",
    "cable_targets",
    "open_only",
    "timeless",
]

A = TypeVar("A", bound="Actuation")

# How files write a field: under another name times a factor to SI, as a length in the file's unit, or as vertex ids.
KPA, LENGTH, VERTEX_IDS = {"suffix": "_kpa", "factor": 1e3}, {"length": True}, {"ids": True}
VOLUME, PLAIN = {"suffix": "_mm3", "factor": 1e-9}, {"plain": True}

AMBIENT_PRESSURE_PA = 101325.0  # standard atmosphere [Pa]


@guarded
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

    def lasting(self, count: int) -> Actuation:
        """Return this actuation for this many commands if it commands nothing that changes, else as it is."""
        return self

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
        parts = self.parts  # once: they and `times` may be made anew at every call
        return [Command(i, float(time), parts) for i, time in enumerate(self.times)]

    def frames(self, interval: float) -> list[Command]:
        """Return one command a frame of a motion: every interval [s], and at the times of the commands themselves."""
        times, parts = np.asarray(self.times, dtype=float), self.parts
        time_rounding_rel = 1e-12  # of a time: below it two times differ by round-off
        frame_rounding_rel = 1e-9  # of the interval: below it two frames are one
        time_digits = 12  # of times [s], so that frames and rows of a table that mean the same time meet
        count = int(np.floor(times[-1] / interval * (1.0 + time_rounding_rel)))
        found = np.union1d(np.round(np.arange(1, count + 1) * interval, time_digits), np.round(times, time_digits))
        near = np.concatenate([[False], np.diff(found) < frame_rounding_rel * interval])
        rows = np.searchsorted(times, found * (1.0 - time_rounding_rel))
        return [
            Command(min(int(row), len(times) - 1), float(at), parts)
            for row, at, same in zip(rows, found, near)
            if at > 0.0 and not same
        ]

    def refuse_all_but(self, kinds: tuple[type[Actuation], ...], solver: str) -> None:
        """Raise `InputError` if a part is neither one of the kinds that a solver knows nor `Passive`."""
        for part in self.parts:
            if not isinstance(part, (*kinds, Passive)):
                names = ", ".join(k.__name__ for k in kinds)
                raise InputError(f"{type(part).__name__} does not actuate this robot: {solver} takes {names}, Passive")


@guarded
@dataclass(frozen=True)
class Command:
    """One command: what every part of an actuation asks at one time."""

    index: int
    time: float
    parts: tuple[Actuation, ...]

    def find(self, kind: type[A]) -> A | None:
        """Return the part of this kind, or None."""
        return next((part for part in self.parts if isinstance(part, kind)), None)


@guarded
@dataclass(frozen=True)
class Combined(Actuation):
    """Several actuations that go together; all have the same number of commands."""

    members: tuple[Actuation, ...]

    def __post_init__(self) -> None:
        if not self.members or not all(isinstance(member, Actuation) for member in self.members):
            raise InputError(f"Combined: members = {shown(self.members)} must be actuations, one at least")
        longest = max(map(len, self.members))
        object.__setattr__(self, "members", tuple(m.lasting(longest) for m in self.members))
        counts = {type(m).__name__: len(m) for m in self.members}
        if len(set(counts.values())) > 1:
            raise InputError(f"actuations joined by & need equally many steps; given {counts}")
        kinds = [type(m) for m in self.members]
        if len(set(kinds)) < len(kinds):
            raise InputError(f"two actuations of the same kind cannot go together: {[k.__name__ for k in kinds]}")

    def lasting(self, count: int) -> Actuation:
        """Return the members for this many commands, if all of them command nothing that changes."""
        longer = tuple(m.lasting(count) for m in self.members)
        return Combined(longer) if all(len(m) == count for m in longer) else self

    @property
    def times(self) -> Floats:
        """Times of the first member [s or load parameter], shape (k,)."""
        return np.asarray(self.members[0].times)

    @property
    def parts(self) -> tuple[Actuation, ...]:
        """The members."""
        return self.members


class LoadPath(Actuation):
    """Root of actuations without a clock: one command a row of a table, at the load parameters 1 .. k."""

    rows: ClassVar[str]  # the field that holds the table

    @property
    def times(self) -> Floats:
        """Load parameter 1 .. k."""
        return frozen(np.arange(1.0, len(getattr(self, self.rows)) + 1.0))

    def _set(self, key: str, wrong: Callable[[Floats], Bools], remedy: str) -> None:
        """Replace a field by its table, and refuse values that are wrong."""
        value = _table(getattr(self, key), f"{type(self).__name__}: {key}")
        bad = wrong(value)
        if bad.any():
            raise InputError(f"{type(self).__name__}: {key} = {value[bad][0]:g} {remedy}")
        object.__setattr__(self, key, value)

    def _columns(self, key: str, index: int, count: int, noun: str) -> Floats:
        """Return a row of a table, one value for each of this many parts of the robot, (count,)."""
        whole(count, f"{type(self).__name__}: {noun}s")
        row = getattr(self, key)[whole(index, f"{type(self).__name__}: index", most=len(self) - 1)]
        if len(row) not in (1, count):
            many, unit = f"{count} {noun}{'s' if count != 1 else ''}", {"pressure": " Pa", "length": " m"}.get(key, "")
            raise InputError(
                f"{type(self).__name__}: {key} = {shown(row.tolist())}{unit}: {len(row)} columns given for a robot with {many}; "
                f"rows are commands, columns {noun}s: give 1{f' or {count}' if count > 1 else ''} in a row"
            )
        return np.broadcast_to(row, count).copy()


def _table(value: Any, name: str) -> Floats:
    """Return (k, columns) from a scalar, (k,) or (k, columns); nan allowed."""
    most_values = 10_000_000  # of one table: more would be copied for minutes and never be solved
    if getattr(value, "size", 0) > most_values:
        raise InputError(f"{name}: {value.size} values are more than any solve has commands; at most {most_values}")
    array = real_array(value, name)
    if array.ndim > 2 or array.size == 0:
        raise InputError(f"{name}: {str(value)[:60]!r} must be a number, (k,) or (k, columns)")
    if array.ndim < 2:
        array = array.reshape(-1, 1)
    if np.isinf(array).any():
        raise InputError(
            f"{name}: {str(value)[:60]} holds inf; give finite numbers, or nan where nothing is prescribed"
        )
    return frozen(array.copy())


@guarded
@dataclass(frozen=True)
class Inflation(LoadPath):
    """Chambers driven to a volume or to a pressure, or closed with a gas in them.

    Parameters
    ----------
    volume_ratio
        Volumes over the meshed rest volumes, V / V0 > 0: scalar, (k,) for all chambers alike, or (k, chambers).
    pressure
        Gauge pressures [Pa] (negative = vacuum, not below -ambient), likewise. nan where `volume_ratio` is nan, too, is no gap
        in the commands: it vents the chamber, whose gauge pressure is 0 then and whose volume follows.
    gas
        Which chambers hold a closed gas: bool, or bool (chambers,). Its law is
        (gauge pressure + ambient) (volume + extra_volume - s)^exponent = constant x temperature_ratio, closed at rest (gauge
        0) or, with `initial=`, at that state; s from a `Syringe`.
    connected
        Tuples of chambers, counted from 0, that share one gas: their volumes add up.
    ambient
        Absolute pressure outside [Pa].
    exponent
        1: slow enough to stay as warm as what is around; 1.4: fast, air.
    extra_volume
        Of tubes and syringe at every gas [m^3].
    temperature_ratio
        Absolute temperature over that of closing: scalar or (k,); with exponent 1 only.

    Per step and chamber at most one of volume_ratio and pressure is finite, and none where it is closed. Every step starts
    from the frame before. Closed chambers alone have as many steps as what they go together with.
    """

    volume_ratio: Any = None
    pressure: Any = field(default=None, metadata=KPA)
    gas: Any = field(default=False, metadata=PLAIN)
    connected: Any = field(default=(), metadata=PLAIN)
    ambient: float = field(default=AMBIENT_PRESSURE_PA, metadata=KPA)
    exponent: float = 1.0
    extra_volume: float = field(default=0.0, metadata=VOLUME)
    temperature_ratio: Any = 1.0

    __repr__ = brief
    rows = "volume_ratio"

    def __post_init__(self) -> None:
        if self.volume_ratio is None and self.pressure is None and not np.any(self.gas):
            raise InputError(
                "Inflation: give volume_ratio=... (V/V0) or pressure=... (Pa), or close the chambers: gas=True"
            )
        self._check_gas()
        given = {
            k: _table(getattr(self, k), f"Inflation: {k}")
            for k in ("volume_ratio", "pressure")
            if getattr(self, k) is not None
        }
        for key, value in given.items():
            if np.ndim(getattr(self, key)) == 0 and np.isnan(value).all():
                raise InputError(f"Inflation: {key} = nan commands nothing; give a number, or Passive() for none")
        first = next(iter(given.values()), np.full((np.size(self.temperature_ratio), 1), np.nan))
        for key in ("volume_ratio", "pressure"):
            value = given.get(key, np.full(first.shape, np.nan))
            if value.shape != first.shape:
                raise InputError(
                    f"Inflation: volume_ratio has shape {first.shape}, pressure {value.shape}; make them equal"
                )
            object.__setattr__(self, key, frozen(value))
        if np.size(self.temperature_ratio) not in (1, len(first)):
            raise InputError(
                f"Inflation: temperature_ratio has {np.size(self.temperature_ratio)} values for {len(first)} steps"
            )
        both = np.isfinite(self.volume_ratio) & np.isfinite(self.pressure)
        if both.any():
            step, chamber = np.argwhere(both)[0]
            raise InputError(
                f"Inflation: step {step + 1}, chamber {chamber + 1} has both a volume ratio and a pressure; "
                f"prescribe one, the other is returned"
            )
        self._set("volume_ratio", lambda v: v <= 0, "is impossible; V/V0 is positive (1 is the rest volume)")
        self._set(
            "pressure", lambda v: v < -self.ambient, f"Pa is below vacuum; give -{self.ambient:g} Pa gauge or more"
        )

    def _check_gas(self) -> None:
        number(self.ambient, "Inflation: ambient [Pa]", above=0.0)
        number(self.exponent, "Inflation: exponent", low=1.0)
        number(self.extra_volume, "Inflation: extra_volume [m^3]", low=0.0)
        gas = np.array(self.gas, dtype=object if isinstance(self.gas, (list, tuple)) else None)
        gas = gas.astype(bool) if all(isinstance(one, (bool, np.bool_)) for one in gas.ravel().tolist()) else gas
        if gas.dtype != bool or gas.ndim > 1:
            raise InputError(f"Inflation: gas = {self.gas!r} must be true or false, or one of them for every chamber")
        object.__setattr__(self, "gas", bool(gas) if gas.ndim == 0 else tuple(gas.tolist()))
        self._check_connected()
        warmth = _table(self.temperature_ratio, "Inflation: temperature_ratio").ravel()
        if not (warmth > 0.0).all():
            raise InputError("Inflation: temperature_ratio must be positive; it is one of absolute temperatures")
        if (warmth != 1.0).any() and (self.exponent != 1.0 or not np.any(gas)):
            raise InputError(
                "Inflation: temperature_ratio goes with gas and exponent = 1: heat and an exponent exclude each other"
            )
        object.__setattr__(self, "temperature_ratio", float(warmth[0]) if len(warmth) == 1 else frozen(warmth))

    def _check_connected(self) -> None:
        if not isinstance(self.connected, (list, tuple)):
            raise InputError(
                f"Inflation: connected = {shown(self.connected)} must be groups of chambers, [(0, 1), (2, 3)]"
            )
        groups = tuple(
            tuple(ints(np.atleast_1d(ids), "Inflation: connected", (None,)).tolist())
            if np.ndim(np.array(ids, dtype=object)) < 2
            else (-1,)
            for ids in self.connected
        )
        flat = [c for ids in groups for c in ids]
        if len(set(flat)) < len(flat) or min(flat, default=0) < 0:
            raise InputError(f"Inflation: connected = {groups} must name chambers from 0 on, each once")
        object.__setattr__(self, "connected", groups)
        if groups and not np.any(self.gas):
            raise InputError("Inflation: connected goes with gas=True: open chambers are connected by equal pressures")

    def lasting(self, count: int) -> Inflation:
        """Return closed chambers, of which nothing else is asked, for this many commands."""
        if len(self) > 1 or not np.any(self.gas) or np.isfinite([self.volume_ratio, self.pressure]).any():
            return self
        rows = np.repeat(self.volume_ratio, count, axis=0)
        return replace(self, volume_ratio=rows, pressure=rows)

    def closed(self, chambers: int) -> Bools:
        """Return which of this many chambers hold a closed gas, (chambers,)."""
        if not isinstance(self.gas, bool) and len(self.gas) != chambers:
            raise InputError(f"Inflation: gas has {len(self.gas)} entries for a robot with {chambers} chambers")
        return np.broadcast_to(self.gas, chambers).copy()

    def gases(self, chambers: int) -> list[tuple[int, ...]]:
        """Return the chambers of every gas.

        Raises
        ------
        InputError
            A connected chamber does not exist or is open.
        """
        closed = self.closed(chambers)
        for c in (c for ids in self.connected for c in ids):
            if c >= chambers or not closed[c]:
                raise InputError(
                    f"Inflation: connected names chamber {c} (counted from 0), which is not closed with a gas"
                )
        alone = set(np.flatnonzero(closed).tolist()) - {c for ids in self.connected for c in ids}
        return sorted([*self.connected, *((c,) for c in alone)])

    def warmth(self, index: int) -> float:
        """Return the temperature ratio of one command."""
        return float(np.broadcast_to(self.temperature_ratio, len(self))[index])

    def targets(self, index: int, chambers: int) -> tuple[Floats, Floats]:
        """Return (volume ratios, pressures [Pa]) of one command, each (chambers,); open, vented chambers have pressure 0."""
        if chambers == 0:
            raise InputError(
                "Inflation: this robot has no chamber to inflate; give it one, or leave inflation out (Passive() in Python)"
            )
        self._columns("pressure" if np.isnan(self.volume_ratio).all() else "volume_ratio", index, chambers, "chamber")
        ratio, pressure = (self._columns(k, index, chambers, "chamber") for k in ("volume_ratio", "pressure"))
        closed = self.closed(chambers)
        given = closed & (np.isfinite(ratio) | np.isfinite(pressure))
        if given.any():
            c = int(np.flatnonzero(given)[0]) + 1
            raise InputError(
                f"Inflation: chamber {c} is closed, so neither its volume nor its pressure can be given: use nan"
            )
        pressure[np.isnan(ratio) & np.isnan(pressure) & ~closed] = 0.0
        return ratio, pressure


@guarded
@dataclass(frozen=True)
class Syringe(LoadPath):
    """`volumes` [m^3] that a syringe has pushed into closed chambers since they were closed: scalar, (k,) or (k, chambers).

    One column is one syringe at every gas; of connected chambers the columns add up. It goes with `Inflation(gas=True)`,
    whose `extra_volume` holds that of the syringe.
    """

    volumes: Any = field(metadata=VOLUME)
    rows = "volumes"

    def __post_init__(self) -> None:
        self._set("volumes", np.isnan, "must be a number [m^3]")

    def at(self, index: int, gases: Sequence[tuple[int, ...]], chambers: int) -> Floats:
        """Return what is pushed into every gas in one command [m^3], (g,)."""
        row = self._columns("volumes", index, chambers, "chamber")
        if self.volumes.shape[1] == 1:
            return row[:1].repeat(len(gases))
        return np.array([row[list(ids)].sum() for ids in gases])


@guarded
@dataclass(frozen=True)
class SupplyLine(LoadPath):
    """Tubes between chambers and their sources, of solvers in time; `Inflation(pressure=...)` is the pressure of the sources.

    The amount of gas n = a (v + d) grows by dn/dt = C (a_s^2 - a^2) / 2, with the absolute pressures a of the chamber and a_s of
    the source, its volume v, the dead volume d and the conductance C [Poiseuille's law of an ideal gas].

    Parameters
    ----------
    conductance
        Volume flow per difference of pressure [m^3/(Pa s)]: scalar, (k,) or (k, chambers). A row of 0 shuts the valve.
    dead_volume
        Of the tube behind the valve at every chamber [m^3], likewise; one row holds for all commands.
    """

    conductance: Any = field(metadata=PLAIN)
    dead_volume: Any = field(default=0.0, metadata=VOLUME)
    rows = "conductance"

    def __post_init__(self) -> None:
        for key, unit in (("conductance", "m^3/(Pa s)"), ("dead_volume", "m^3")):
            self._set(key, lambda v: ~(v >= 0.0), f"{unit} must not be negative")
        if len(self.dead_volume) != 1:
            raise InputError(
                f"SupplyLine: dead_volume has {len(self.dead_volume)} rows; a tube keeps its volume: give one"
            )

    def lasting(self, count: int) -> SupplyLine:
        """Return a line whose valves stay as they are for this many commands."""
        return self if len(self) > 1 else replace(self, conductance=np.repeat(self.conductance, count, axis=0))

    def row(self, key: str, index: int, chambers: int) -> Floats:
        """Return a field in one command, (chambers,)."""
        return self._columns(key, index if key == self.rows else 0, chambers, "chamber")


def open_only(command: Command, solver: str) -> None:
    """Raise `InputError` if a command closes chambers with a gas, for a solver that cannot."""
    inflation = command.find(Inflation)
    if inflation is not None and np.any(inflation.gas):
        raise InputError(f"Inflation: {solver} knows no gas (gas=True); use EnergyShapeSolver")


@guarded
@dataclass(frozen=True)
class CableLengths(LoadPath):
    """Cables pulled to a `length` [m]: scalar, (k,) or (k, cables); nan = slack."""

    length: Any = field(metadata=LENGTH)
    rows = "length"

    def __post_init__(self) -> None:
        self._set("length", lambda v: v <= 0, "m must be positive")

    def at(self, index: int, cables: int) -> Floats:
        """Return the lengths [m] of one command, (cables,); nan = slack."""
        return self._columns("length", index, cables, "cable")


@guarded
@dataclass(frozen=True)
class CableTensions(LoadPath):
    """Cables pulled with a `tension` >= 0 [N]: scalar, (k,) or (k, cables); nan = slack."""

    tension: Any
    rows = "tension"

    def __post_init__(self) -> None:
        self._set("tension", lambda v: v < 0, "N is negative; a cable only pulls")

    def at(self, index: int, cables: int) -> Floats:
        """Return the tensions [N] of one command, (cables,); nan = slack."""
        return self._columns("tension", index, cables, "cable")


def cable_targets(command: Command, cables: int) -> tuple[Floats, Floats]:
    """Return lengths [m] (nan = not prescribed) and tensions [N] of all cables in a command, each (cables,).

    Raises
    ------
    InputError
        A cable has both a length and a tension, or columns and cables differ in number.
    """
    lengths, tensions = command.find(CableLengths), command.find(CableTensions)
    if (lengths is not None or tensions is not None) and cables == 0:
        raise InputError(
            f"{type(lengths or tensions).__name__} does not actuate this robot: this robot has no cables; give "
            "cables=[Cable(points), ...] or write [[cables]] into its file"
        )
    length = np.full(cables, np.nan) if lengths is None else lengths.at(command.index, cables)
    tension = np.full(cables, np.nan) if tensions is None else tensions.at(command.index, cables)
    both = np.isfinite(length) & np.isfinite(tension)
    if both.any():
        raise InputError(
            f"cable {int(np.flatnonzero(both)[0]) + 1}: both a length and a tension are prescribed; prescribe one, "
            f"the other is returned"
        )
    return length, np.nan_to_num(tension)


def unlikely_lengths(actuation: Actuation, cables: Sequence[Cable]) -> list[str]:
    """Say which length of a cable looks as if given in another unit; of several the first."""
    # over the length at rest: a slack cable is a few times as long, and no body is compressed so far
    max_ratio, min_ratio = 20.0, 0.02
    lengths = [part.length for part in actuation.parts if isinstance(part, CableLengths)]
    if not lengths:
        return []
    rest = np.array([cable.length for cable in cables])
    ratio = lengths[0] / rest
    odd = np.argwhere((ratio > max_ratio) | (ratio < min_ratio))
    return [
        f"CableLengths: cable {c + 1} is {rest[c]:.3g} m long at rest and pulled to {ratio[k, c] * rest[c]:.3g} m; check the "
        'unit: an actuation file without units = "mm" is in m'
        for k, c in odd[:1]
    ]


class _Ratios(LoadPath):
    """Ratios to rest of parts of the mesh that vertex ids name."""

    rows = "ratio"

    def _check(self, key: str, width: int) -> None:
        try:
            array = np.asarray(getattr(self, key))
        except ValueError:  # rows of different length
            array = np.empty(0)
        good = array.ndim == 2 and array.shape[1] == width and len(array) and array.dtype.kind in "iu"
        if not good or array.min() < 0:
            raise InputError(
                f"{type(self).__name__}: {key}: shape {array.shape} of {array.dtype}; vertex ids of shape (m, {width}) "
                f"are needed"
            )
        object.__setattr__(self, key, frozen(array.astype(np.int64)))
        self._set("ratio", lambda v: ~(v > 0), "is impossible; a ratio to rest is positive (1 is rest)")


@guarded
@dataclass(frozen=True)
class EdgeLengths(_Ratios):
    """Edges of the mesh driven to a share of their rest lengths, every edge on its own; it pulls and pushes.

    Parameters
    ----------
    edges
        Vertex ids, shape (m, 2).
    ratio
        Length over rest length > 0: scalar, (k,) for all alike, or (k, m).
    """

    edges: Any = field(metadata=VERTEX_IDS)
    ratio: Any

    def __post_init__(self) -> None:
        self._check("edges", 2)
        if self.ratio.shape[1] not in (1, len(self.edges)):
            raise InputError(f"EdgeLengths: ratio has {self.ratio.shape[1]} columns for {len(self.edges)} edges")

    def at(self, index: int) -> Floats:
        """Return the ratios of one command, (m,)."""
        return np.broadcast_to(self.ratio[index], len(self.edges)).copy()


@guarded
@dataclass(frozen=True)
class FaceAreas(_Ratios):
    """Faces of the mesh driven to a share of their total rest area by one surface tension; it pulls and pushes.

    Parameters
    ----------
    faces
        Vertex ids, shape (m, 3).
    ratio
        Total area over total rest area > 0: scalar or (k,).
    """

    faces: Any = field(metadata=VERTEX_IDS)
    ratio: Any

    def __post_init__(self) -> None:
        self._check("faces", 3)
        if self.ratio.shape[1] != 1:
            raise InputError(f"FaceAreas: ratio has {self.ratio.shape[1]} columns; the set has one area: give (k,)")

    def at(self, index: int) -> float:
        """Return the ratio of one command."""
        return float(self.ratio[index, 0])


MAX_COMMANDS = 1_000_000  # of a solve, which keeps a frame of each: beyond it the frames of a small rod fill the memory


@guarded
@dataclass(frozen=True)
class Passive(Actuation):
    """Commands nothing: loads only; in dynamics `duration` [s] in `steps` commands.

    With one step it has as many commands as what it goes together with, or as `motion`, `displacement`, loads and so on of the
    environment have rows.
    """

    duration: float = 0.0
    steps: int = 1

    def __post_init__(self) -> None:
        whole(self.steps, "Passive: steps", least=1, most=MAX_COMMANDS)
        number(self.duration, "Passive: duration [s]", low=0.0)

    def lasting(self, count: int) -> Passive:
        """Return the same for this many commands, unless it says itself how many they are."""
        return self if self.steps > 1 or count == 1 else replace(self, steps=count)

    @property
    def times(self) -> Floats:
        """Load parameter 1 .. k without a duration, else equal times up to the duration [s]."""
        count = np.arange(1.0, self.steps + 1.0)
        return frozen(count * (self.duration / self.steps) if self.duration > 0 else count)


def timeless(actuation: Actuation, solver: str) -> None:
    """Raise `InputError` if a `Passive` part has a duration or a line supplies chambers, for a solver without time."""
    for part in actuation.parts:
        if isinstance(part, SupplyLine):
            raise InputError(f"SupplyLine: {solver} knows no time; use EnergyShapeStepper, or leave the line out")
        if isinstance(part, Passive) and part.duration > 0.0:
            raise InputError(f"Passive: duration = {part.duration:g} s, but {solver} knows no time; leave duration out")


def _times(value: Any, owner: str) -> Floats:
    times = floats(np.atleast_1d(real_array(value, f"{owner}: times")), f"{owner}: times", (None,))
    if len(times) == 0 or (np.diff(times) <= 0).any() or times[0] < 0:
        raise InputError(f"{owner}: times must be at least one, not negative and increasing [s]")
    return times


# What a `NaturalShape` commands.
NATURAL_SHAPE_KINDS = ("curvature", "twist", "hinge_angle", "stretch")


@guarded
@dataclass(frozen=True)
class NaturalShape(Actuation):
    """Natural curvature, twist, hinge angles and stretch of rods and shells over time, linear between the given times.

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
    stretch
        Natural lengths of the edges of rods over those at rest, positive: (k,) or (k, edges); or a callable. The axial stiffness
        stays as it is.
    """

    times: Any
    curvature: Any = None
    twist: Any = None
    hinge_angle: Any = None
    stretch: Any = None

    __repr__ = brief

    def __post_init__(self) -> None:
        object.__setattr__(self, "times", _times(self.times, "NaturalShape"))
        for key in NATURAL_SHAPE_KINDS:
            value = getattr(self, key)
            if value is None or callable(value):
                continue
            array = np.atleast_1d(real_array(value, f"NaturalShape: {key}"))
            if array.shape[0] != len(self.times) or not np.isfinite(array).all():
                raise InputError(
                    f"NaturalShape: {key} has shape {array.shape}; {len(self.times)} finite rows are needed, one a time"
                )
            if key == "stretch" and not (array > 0.0).all():
                raise InputError(f"NaturalShape: stretch = {array.min():g} must be above 0: 1 is the length at rest")
            object.__setattr__(self, key, frozen(array))

    def at(self, key: str, time: float) -> Any:
        """Return `key`, one of `NATURAL_SHAPE_KINDS`, at a time [s], or None if it is not commanded."""
        value = getattr(self, key)
        if value is None or callable(value):
            return None if value is None else np.asarray(value(time), dtype=float)
        if time <= self.times[0] or len(self.times) == 1:
            return value[0]
        if time >= self.times[-1]:
            return value[-1]
        i = int(np.searchsorted(self.times, time, side="right")) - 1
        s = (time - self.times[i]) / (self.times[i + 1] - self.times[i])
        return (1.0 - s) * value[i] + s * value[i + 1]


@guarded
@dataclass(frozen=True)
class ValveCommands(Actuation):
    """Commanded pressures [Pa] of the valves at times [s]: `pressures` (k, links), held until the next time."""

    times: Any
    pressures: Any = field(metadata=KPA)

    __repr__ = brief

    def __post_init__(self) -> None:
        object.__setattr__(self, "times", _times(self.times, "ValveCommands"))
        pressures = _table(self.pressures, "ValveCommands: pressures")
        if len(pressures) != len(self.times) or np.isnan(pressures).any():
            raise InputError(
                f"ValveCommands: {len(pressures)} rows of pressures for {len(self.times)} times; give one finite "
                f"row a time [Pa]"
            )
        object.__setattr__(self, "pressures", pressures)


@guarded
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

    amplitude: float = field(metadata=KPA)
    frequency: float
    phase_lag: float
    offset: float = 0.0
    duration: float = 1.0

    def __post_init__(self) -> None:
        for key in ("amplitude", "phase_lag", "offset"):
            number(getattr(self, key), f"UndulatoryGait: {key}")
        number(self.frequency, "UndulatoryGait: frequency [Hz]", low=0.0)
        number(self.duration, "UndulatoryGait: duration [s]", above=0.0)

    @property
    def times(self) -> Floats:
        """End of every 60 Hz frame [s]."""
        frame_rate = 60.0  # Hz
        return frozen(np.arange(1.0, max(1, round(self.duration * frame_rate)) + 1.0) / frame_rate)

    def pressures(self, time: float, links: int) -> Floats:
        """Return the commanded pressures [Pa] of all links at a time [s], shape (links,)."""
        phase = 2.0 * np.pi * self.frequency * time + np.arange(links) * self.phase_lag
        return np.asarray(self.amplitude * (np.sin(phase) + self.offset))
