"""Reads tests from the CSV files of common machines: what is detected is shown, and can be overridden.

Detected: encoding (UTF-8 with or without BOM, UTF-16, Latin-1), delimiter (tab ; , | or blanks), decimal sign, the
table of numbers, column names and units above it, specimen dimensions in the header, mode of loading. Every
decision is in `MaterialTest.notes`; what may be a mistake, rows that are left out among it, in `MaterialTest.warnings`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np

from geosim.apps.calibrate.curves import mode_name
from geosim.apps.calibrate.samples import MAX_PLAUSIBLE_STRETCH, MaterialTest, loading_of, without_spikes
from geosim.apps.calibrate.tables import (
    AREA_UNITS,
    FORCE_UNITS,
    LENGTH_UNITS,
    RATIO_UNITS,
    STRAIN_PATTERNS,
    STRESS_PATTERNS,
    STRESS_UNITS,
    columns,
    number_in,
    table,
    unit_of,
)
from geosim.arguments import guarded
from geosim.arrays import Floats, choice
from geosim.errors import InputError

_KIND_UNITS = {
    "stretch": RATIO_UNITS,
    "engineering strain": RATIO_UNITS,
    "true strain": RATIO_UNITS,
    "displacement": LENGTH_UNITS,
    "engineering stress": STRESS_UNITS,
    "true stress": STRESS_UNITS,
    "force": FORCE_UNITS,
}


@dataclass(frozen=True)
class _Column:
    """One column of a file, as numbers in the file's unit."""

    values: Floats
    name: str
    kind: str
    unit: str


class ReadingOptions(TypedDict, total=False):
    """What a file of a test may be told: see `read_test`."""

    delimiter: str | None
    decimal: str | None
    strain_column: str | int | None
    stress_column: str | int | None
    strain_kind: str | None
    stress_kind: str | None
    strain_unit: str | None
    stress_unit: str | None
    area: float | None
    gauge_length: float | None
    compliance: float | None


@guarded
def read_test(
    path: str | Path, mode: str | None = None, *, first_loading: bool = True, **options: Unpack[ReadingOptions]
) -> MaterialTest:
    """Read a material test; what is not given is detected.

    Parameters
    ----------
    path
        CSV or text file.
    mode
        Mode of loading; else from the header, then from a name ending _UT, _ET, _PS or _C, else uniaxial.
    first_loading
        Whether to keep only the first loading, up to unloading or break.
    **options
        What the file does not say itself. `delimiter`, `decimal`: one character each. `strain_column`, `stress_column`: name or
        index (from 0). `strain_kind`: "stretch", "engineering strain", "true strain" or "displacement". `stress_kind`:
        "engineering stress", "true stress" or "force". `strain_unit`, `stress_unit`: for example "%", "mm", "MPa", "kPa", "N".
        `area`, `gauge_length`: rest cross-section [m^2] and length [m], for forces and displacements; else from the header.
        `compliance`: how far machine and grips give way under a force [m/N], taken from displacements; default nothing.

    Raises
    ------
    InputError
        The file is missing, empty or holds no table, or something cannot be detected; the remedy is named.
    """
    if unknown := options.keys() - ReadingOptions.__annotations__.keys():
        raise InputError(
            f"read_test: {min(unknown)!r} is no option; there are {', '.join(ReadingOptions.__annotations__)}"
        )
    path = Path(path)
    notes, warnings = list[str](), list[str]()
    header, rows, numbers = table(path, options.get("delimiter"), options.get("decimal"), notes, warnings)
    names, units, header = columns(header, numbers.shape[1])
    strain = _pick(path, names, units, numbers, STRAIN_PATTERNS, "strain", options)
    stress = _pick(path, names, units, numbers, STRESS_PATTERNS, "stress", options)
    used = np.isfinite(strain.values) & np.isfinite(stress.values)
    strain, stress = _readable(path, rows, strain, stress, notes, warnings)
    strain = _without_compliance(path, strain, stress, options.get("compliance"), notes)
    chosen = _mode(mode, header, path, notes)
    stretch = _stretch(path, strain, chosen, header, options.get("gauge_length"), notes)
    nominal = _nominal(path, stress, stretch, header, options.get("area"), notes)
    nominal = -nominal if chosen == "compression" and nominal.sum() > 0 else nominal
    notes += _pace(names, units, numbers[used], stretch, nominal)
    test = MaterialTest(chosen, stretch, nominal, path.stem, tuple(notes), tuple(warnings))
    test = without_spikes(test, in_time=True)
    return loading_of(test) if first_loading else test


def _without_compliance(
    path: Path, strain: _Column, stress: _Column, compliance: float | None, notes: list[str]
) -> _Column:
    """Return displacements without what machine and grips give way under the force."""
    if compliance is None:
        return strain
    if strain.kind != "displacement" or stress.kind != "force" or not compliance >= 0:
        raise InputError(
            f"{path}: compliance = {compliance!r} m/N must be >= 0, and needs columns of displacement and force; the file has "
            f"{strain.kind} and {stress.kind}: leave it out"
        )
    notes.append(f"compliance of the machine {compliance * 1e6:.4g} um/N taken from the displacements")
    own = compliance * stress.values * _factor(stress) / _factor(strain)
    return dataclasses.replace(strain, values=strain.values - own)


def _pace(names: list[str], units: list[str], numbers: Floats, stretch: Floats, stress: Floats) -> list[str]:
    """Return how fast the specimen was pulled and how long it was held, where a column tells the time."""
    found = next((i for i, name in enumerate(names) if re.match(r"(pr.fz|z)eit|time|temps", name.lower())), None)
    if found is None:
        return []
    seconds = numbers[:, found] * (60.0 if units[found].lower() == "min" else 1.0)
    known = np.isfinite(seconds)
    time, s, p = seconds[known], stretch[known], stress[known]
    if len(time) < 3 or (np.diff(time) < 0).any() or not time[-1] > time[0]:
        return []
    hold_band = 0.005  # of the range of stretch, within which it is held
    far = int(np.argmax(np.abs(s - 1.0)))
    held = np.flatnonzero(np.abs(s - s[far]) <= hold_band * np.ptp(s))
    start, end = int(held[0]), int(held[-1])
    out = [f"pulled at {100.0 * abs(s[start] - s[0]) / max(time[start] - time[0], 1e-9):.3g} %/s"] if start else []
    min_hold_share = 0.1  # of the time to get there from which on standing still is a hold
    if time[end] - time[start] > max(min_hold_share * (time[start] - time[0]), 1e-9) and end - start >= 3:
        lost = 100.0 * (1.0 - p[end] / p[start : end + 1].max())
        out.append(
            f"held for {time[end] - time[start]:.3g} s at stretch {s[far]:.4g}, where the stress falls by {lost:.2g} %: "
            "fit_relaxation takes it"
        )
    return out


def _readable(
    path: Path, rows: list[str], strain: _Column, stress: _Column, notes: list[str], warnings: list[str]
) -> tuple[_Column, _Column]:
    """Return the rows that hold both numbers, with the unit that strains have; say what was left out and taken."""
    good = np.isfinite(strain.values) & np.isfinite(stress.values)
    if good.sum() < 2:
        raise InputError(f"{path}: columns {strain.name!r} and {stress.name!r} hold fewer than two samples")
    if not good.all():
        which = [rows[i] for i in np.flatnonzero(~good)]
        more = f" and {len(which) - 3} more" if len(which) > 3 else ""
        warnings.append(
            f"{len(which)} of {len(rows)} rows cannot be read and are left out ({'; '.join(which[:3])}{more})"
        )
    strain = _with_unit(dataclasses.replace(strain, values=strain.values[good]), notes)
    for what, column in (("strain", strain), ("stress", stress)):
        notes.append(f"{what}: column {column.name!r}, {column.kind} [{column.unit or '-'}]")
    return strain, dataclasses.replace(stress, values=stress.values[good])


def _pick(
    path: Path,
    names: list[str],
    units: list[str],
    numbers: Floats,
    patterns: tuple[tuple[str, str], ...],
    what: str,
    options: ReadingOptions,
) -> _Column:
    """Choose a column: the one asked for, else the first name that matches the patterns in their order."""
    asked: dict[str, Any] = {**options}
    column, kind, unit = (asked.get(f"{what}_{key}") for key in ("column", "kind", "unit"))
    kinds = list(dict.fromkeys(name for name, _ in patterns))
    if kind is not None:
        choice(kind, f"{path}: {what}_kind", kinds)
    index = None if column is None else _index(column, names, f"{path}: {what}_column")
    found = (
        (i, name)
        for name, pattern in patterns
        for i, text in enumerate(names)
        if kind in (None, name) and index in (None, i) and "rate" not in text.lower()
        if re.search(pattern, text.lower().replace("_", " "))
    )
    index, kind = next(found, (index, kind))
    if index is None or kind is None:
        raise InputError(
            f"{path}: no {what} column recognised among {names}; pass {what}_column= and {what}_kind= "
            f"({', '.join(kinds)})"
        )
    unit = units[index] if unit is None else unit
    known = _KIND_UNITS[kind]
    if unit.lower() not in known:
        raise InputError(
            f"{path}: the unit {unit!r} of the {kind} column is not known; pass {what}_unit= one of "
            f"{', '.join(filter(None, known))}"
        )
    return _Column(numbers[:, index], names[index], kind, unit)


def _index(column: str | int, names: list[str], what: str) -> int:
    """Return the column of a name, or of a number from 0."""
    text = str(column)
    index = names.index(text) if text in names else int(text) if text.isdigit() else -1
    if not 0 <= index < len(names):
        raise InputError(f"{what} = {column!r} is not a column; there are {names}")
    return index


def _factor(column: _Column) -> float:
    """SI per unit of a column; MN is no mN."""
    return 1e6 if column.unit == "MN" else _KIND_UNITS[column.kind][column.unit.lower()]


def _with_unit(strain: _Column, notes: list[str]) -> _Column:
    """Take strains without a unit as percent where no specimen bears the fraction."""
    if strain.kind not in ("engineering strain", "true strain") or strain.unit:
        return strain
    percent = np.abs(strain.values).max() > MAX_PLAUSIBLE_STRETCH
    notes.append(f"strain without a unit taken as {'percent' if percent else 'a fraction'}")
    return dataclasses.replace(strain, unit="%" if percent else "-")


def _mode(given: str | None, header: list[list[str]], path: Path, notes: list[str]) -> str:
    if given is not None:
        return mode_name(given)
    text = "\n".join(" ".join(row) for row in header).lower()
    ending = path.stem.rsplit("_", 1)[-1].upper()
    mode_patterns = (
        ("equibiaxial", r"equi-?\s?biaxial|biaxial|bulge"),
        ("pure-shear", r"pure[ _-]shear|planar (tension|shear)"),
        ("compression", r"compress|druckversuch|stauch"),
        ("uniaxial", r"uniaxial|tensile|tension|pull-to|zugversuch|traction"),
    )
    found = next(((m, hit) for m, pattern in mode_patterns if (hit := re.search(pattern, text))), None)
    if found:
        name, why = found[0], f"from {found[1].group(0)!r} in the header"
    elif "_" in path.stem and ending in ("UT", "ET", "PS", "C"):
        name, why = mode_name(ending), f"from the file name ending _{ending}"
    else:
        name, why = "uniaxial", "assumed: neither header nor file name says it"
    notes.append(f"mode {name}, {why}")
    return name


def _stretch(
    path: Path, strain: _Column, mode: str, header: list[list[str]], gauge: float | None, notes: list[str]
) -> Floats:
    """Turn strains into stretches; machines count compression positive."""
    e = strain.values * _factor(strain)
    if strain.kind == "stretch":
        return e
    if mode == "compression" and e.sum() > 0:
        e = -e
        notes.append("compressive strain counted positive in the file: sign turned")
    if strain.kind == "true strain":
        return np.exp(e)
    gauge_length_pattern = r"(gauge|gage|specimen|sample|initial|grip)[ \w]*length|^l0|^length|height|einspannl"
    if strain.kind == "displacement":
        length = _dimension(header, gauge_length_pattern, LENGTH_UNITS) if gauge is None else gauge
        if length is None or not length > 0:
            raise InputError(f"{path}: displacements need the rest length of the specimen; pass gauge_length= [m]")
        notes.append(f"rest length {length * 1e3:.4g} mm")
        e = e / length
    return 1.0 + e


def _nominal(
    path: Path, stress: _Column, stretch: Floats, header: list[list[str]], area: float | None, notes: list[str]
) -> Floats:
    """Turn stresses or forces into nominal stresses [Pa]."""
    s = stress.values * _factor(stress)
    if stress.kind == "true stress":
        return s / stretch
    if stress.kind == "engineering stress":
        return s
    if area is None:
        area = _dimension(header, r"cross-? ?section|area|querschnitt", AREA_UNITS)
    if area is None:
        patterns = r"width|breite", r"thickness|dicke", r"diameter|durchmesser"
        width, thick, diameter = (_dimension(header, p, LENGTH_UNITS) or np.nan for p in patterns)
        area = 0.25 * np.pi * diameter**2 if np.isnan(width * thick) else width * thick
    if not area > 0:
        raise InputError(f"{path}: forces need the rest cross-section of the specimen; pass area= [m^2]")
    notes.append(f"cross-section {area * 1e6:.4g} mm^2")
    return s / area


def _dimension(header: list[list[str]], pattern: str, known: Mapping[str, float]) -> float | None:
    """Value in SI units of a header line such as "Specimen Width (mm);6" or "Width;6;mm"."""
    for row in header:
        name, *fields = re.split("[:=]", row[0], maxsplit=1) if len(row) == 1 else row
        value, *after = " ".join(fields).split() or [""]
        size = max(number_in(value, point) for point in ".,") if re.search(pattern, name.lower()) else np.nan
        unit = (unit_of(name.strip(": ")) or (after[0] if after else "")).lower().strip("[]()")
        if np.isfinite(size) and unit in known:
            return size * known[unit]
    return None
