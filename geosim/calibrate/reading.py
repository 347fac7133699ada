"""Reads tests from the CSV files of common machines: what is detected is shown, and can be overridden.

Detected: encoding (UTF-8 with or without BOM, UTF-16, Latin-1), delimiter (tab ; , | or blanks), decimal sign, the
block of numbers, column names and units above it, specimen dimensions in the header, mode of loading. Every
decision stands in `MaterialTest.notes`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby, product
from pathlib import Path

import numpy as np

from geosim.arrays import Floats, floats
from geosim.calibrate.curves import mode_name
from geosim.errors import InputError

__all__ = ["MaterialTest", "read_test"]


STRESS_UNITS = {
    "pa": 1.0,
    "kpa": 1e3,
    "mpa": 1e6,
    "gpa": 1e9,
    "n/mm2": 1e6,
    "n/mm^2": 1e6,
    "n/mm²": 1e6,
    "n/m2": 1.0,
    "n/m^2": 1.0,
    "psi": 6894.757293168,
    "bar": 1e5,
}
FORCE_UNITS = {"n": 1.0, "kn": 1e3, "mn": 1e-3, "lbf": 4.4482216152605, "kgf": 9.80665, "gf": 9.80665e-3}
LENGTH_UNITS = {"mm": 1e-3, "cm": 1e-2, "m": 1.0, "um": 1e-6, "in": 0.0254}
RATIO_UNITS = {
    "": 1.0,
    "-": 1.0,
    "1": 1.0,
    "%": 1e-2,
    "percent": 1e-2,
    "pct": 1e-2,
    "mm/mm": 1.0,
    "m/m": 1.0,
    "in/in": 1.0,
}
AREA_UNITS = {"mm^2": 1e-6, "mm2": 1e-6, "mm²": 1e-6, "cm^2": 1e-4, "cm2": 1e-4, "cm²": 1e-4, "m^2": 1.0, "m2": 1.0}

# What a column is, by its name; the first match wins. In order of preference within strain and within stress.
_STRAIN = (
    ("stretch", r"stretch|lambda|λ|extension ratio|draw ratio"),
    ("engineering strain", r"(eng\w*|nominal|techn\w*)[ ._-]*(strain|dehnung)"),
    ("true strain", r"(true|log\w*|hencky|wahre)[ ._-]*(strain|dehnung)"),
    ("engineering strain", r"strain|dehnung|stauchung|d[ée]formation|elongation ?[\[(]?%|epsilon"),
    ("displacement", r"displacement|extension|elongation|crosshead|traverse|weg|d[ée]placement|position|stroke"),
)
_STRESS = (
    ("engineering stress", r"(eng\w*|nominal|techn\w*|first piola\w*)[ ._-]*(stress|spannung)"),
    ("true stress", r"(true|cauchy|wahre)[ ._-]*(stress|spannung)"),
    ("engineering stress", r"stress|spannung|contrainte|sigma"),
    ("force", r"force|load|kraft|charge"),
)
_KIND_UNITS = {
    "stretch": RATIO_UNITS,
    "engineering strain": RATIO_UNITS,
    "true strain": RATIO_UNITS,
    "displacement": LENGTH_UNITS,
    "engineering stress": STRESS_UNITS,
    "true stress": STRESS_UNITS,
    "force": FORCE_UNITS,
}
REVERSAL, BREAK = 0.1, 0.8  # part of the range of strain that is unloading, of the largest stress that is a break
PERCENT = 20  # strains above it without a unit are percent: no specimen is stretched to 21 times its length
GAUGE = r"(gauge|gage|specimen|sample|initial|grip)[ \w]*length|^l0|^length|height|einspannl"
_MODES = (
    ("equibiaxial", r"equi-?\s?biaxial|biaxial|bulge"),
    ("pure-shear", r"pure[ _-]shear|planar (tension|shear)"),
    ("compression", r"compress|druckversuch|stauch"),
    ("uniaxial", r"uniaxial|tensile|tension|pull-to|zugversuch|traction"),
)


@dataclass(frozen=True)
class MaterialTest:
    """One material test: nominal stress over stretch.

    Parameters
    ----------
    mode
        "uniaxial", "equibiaxial", "pure-shear" or "compression" (UT, ET, PS, C for short).
    stretch
        Current over rest length along the load, shape (n,); below 1 in compression.
    nominal_stress
        Force over rest area [Pa], shape (n,); negative in compression.
    name
        Shown in tables.
    notes
        What a reader detected, one line each.

    Raises
    ------
    InputError
        Shapes differ, a value is not finite, or a stretch is not positive.
    """

    mode: str
    stretch: Floats
    nominal_stress: Floats
    name: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "mode", mode_name(self.mode))
        name = f"test {self.name or self.mode!r}"
        for key in ("stretch", "nominal_stress"):
            object.__setattr__(self, key, floats(np.ravel(getattr(self, key)), f"{name}: {key}", (None,)))
        stretch = self.stretch
        if len(stretch) != len(self.nominal_stress) or len(stretch) < 2:
            raise InputError(
                f"{name}: stretch has {len(stretch)} and nominal_stress {len(self.nominal_stress)} values; give "
                f"equally many, at least two"
            )
        if (stretch <= 0).any():
            raise InputError(
                f"{name}: a stretch of {stretch.min():.4g} is impossible; stretch = current / rest length "
                f"(1 at rest), strain = stretch - 1"
            )
        if self.mode == "compression" and stretch.mean() > 1:
            raise InputError(f"{name}: a compression test has stretches below 1; the mean here is {stretch.mean():.3g}")


def read_test(
    path: str | Path,
    mode: str | None = None,
    *,
    delimiter: str | None = None,
    decimal: str | None = None,
    strain_column: str | int | None = None,
    stress_column: str | int | None = None,
    strain_kind: str | None = None,
    stress_kind: str | None = None,
    strain_unit: str | None = None,
    stress_unit: str | None = None,
    area: float | None = None,
    gauge_length: float | None = None,
    first_loading: bool = True,
) -> MaterialTest:
    """Read a material test; what is None is detected.

    Parameters
    ----------
    path
        CSV or text file.
    mode
        Mode of loading; else from the header, then from a name ending _UT, _ET, _PS or _C, else uniaxial.
    delimiter, decimal
        One character each.
    strain_column, stress_column
        Name or index (from 0) of the columns.
    strain_kind
        "stretch", "engineering strain", "true strain" or "displacement".
    stress_kind
        "engineering stress", "true stress" or "force".
    strain_unit, stress_unit
        For example "%", "mm", "MPa", "kPa", "N".
    area, gauge_length
        Rest cross-section [m^2] and length [m], for forces and displacements; else from the header.
    first_loading
        Whether to keep only the first loading, up to unloading or break.

    Raises
    ------
    InputError
        The file is missing, empty or holds no table, or something cannot be detected; the argument that settles it
        is named.
    """
    path = Path(path)
    text = _decode(path)
    table, header, notes = _block(text, path, delimiter, decimal)
    names, units, header = _columns(header, table.shape[1])
    strain, kind_e, unit_e = _pick(path, names, units, _STRAIN, "strain", strain_column, strain_kind, strain_unit)
    stress, kind_s, unit_s = _pick(path, names, units, _STRESS, "stress", stress_column, stress_kind, stress_unit)
    e, s = table[:, strain], table[:, stress]
    good = np.isfinite(e) & np.isfinite(s)
    if good.sum() < 2:
        raise InputError(f"{path}: columns {names[strain]!r} and {names[stress]!r} hold fewer than two samples")
    if not good.all():
        notes.append(f"{(~good).sum()} rows without numbers dropped")
    e, s = e[good], s[good]
    if kind_e in ("engineering strain", "true strain") and unit_e == "":
        unit_e = "%" if np.abs(e).max() > PERCENT else ""
        notes.append(f"strain without a unit taken as {'percent' if unit_e else 'a fraction'}")
    notes.append(f"strain: column {names[strain]!r}, {kind_e}" + (f" [{unit_e}]" if unit_e else ""))
    notes.append(f"stress: column {names[stress]!r}, {kind_s} [{unit_s}]")
    chosen = _mode(mode, header, path, notes)
    e = e * _unit(path, kind_e, unit_e, "strain_unit")
    s = s * _unit(path, kind_s, unit_s, "stress_unit")
    stretch = _stretch(path, e, kind_e, chosen, header, gauge_length, notes)
    if chosen == "compression" and s.sum() > 0:
        s = -s
    if kind_s == "true stress":
        s = s / stretch
    elif kind_s == "force":
        s = s / _area(path, header, area, notes)
    if first_loading:
        stretch, s = _loading(stretch, s, notes)
    return MaterialTest(chosen, stretch, s, path.stem, tuple(notes))


def _decode(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    if not raw.strip():
        raise InputError(f"{path}: the file is empty")
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return raw.decode("utf-16")
    if b"\x00" in raw:
        raise InputError(f"{path}: a binary file, not text; export the test as CSV")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


_NUMBER = {
    ".": re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$"),
    ",": re.compile(r"[-+]?(\d+,?\d*|,\d+)([eE][-+]?\d+)?$"),
}


def _number(field: str, decimal: str) -> float:
    """Return the number in a field, nan if there is none."""
    field = field.strip().strip('"').strip()
    return float(field.replace(",", ".")) if _NUMBER[decimal].match(field) else np.nan


def _split(line: str, delimiter: str) -> list[str]:
    return line.split() if delimiter == " " else [f.strip().strip('"').strip() for f in line.split(delimiter)]


def _block(
    text: str, path: Path, delimiter: str | None, decimal: str | None
) -> tuple[Floats, list[list[str]], list[str]]:
    """Find delimiter, decimal sign and the longest block of rows of numbers; return it with the lines above it."""
    lines = text.splitlines()
    if decimal not in (None, *_NUMBER):
        raise InputError(f"{path}: decimal = {decimal!r}; use '.' or ','")
    found = []
    for d, point in product([delimiter] if delimiter else "\t;,| ", [decimal] if decimal else ".,"):
        if d != point:
            length, start = _longest([sum(np.isfinite(_number(f, point)) for f in _split(line, d)) for line in lines])
            width = min((len(_split(line, d)) for line in lines[start : start + length]), default=0)
            found.append((length, width, start, d, point))
    length, _, start, d, point = max(found, key=lambda block: block[:2], default=(0, 0, 0, "", ""))
    if length < 2:
        raise InputError(
            f"{path}: no table of numbers found (two or more columns, two or more rows); pass delimiter= and "
            f"decimal= if the file holds one"
        )
    rows = [_split(line, d) for line in lines[start : start + length]]
    width = max(map(len, rows))
    table = np.array([[_number(f, point) for f in row] + [np.nan] * (width - len(row)) for row in rows])
    shown = {"\t": "tab", " ": "blanks"}.get(d, d)
    notes = [f"delimiter {shown!r}, decimal {point!r}, {start} header lines, {length} rows of {width} columns"]
    return table, [_split(line, d) for line in lines[:start]], notes


def _longest(counts: list[int]) -> tuple[int, int]:
    """Return length and start of the longest run of lines with two or more numbers (the same number throughout)."""
    runs, start = [(0, 0)], 0
    for count, run in groupby(counts):
        length = len(list(run))
        runs += [(length, -start)] if count >= 2 else []
        start += length
    length, start = max(runs)  # the first of the longest
    return length, -start


_UNIT = re.compile(r"[\[(]\s*([^\])]*?)\s*[\])]\s*$|_([A-Za-z/%^0-9]+)$|\bin\s+([A-Za-z/%^0-9]+)$")


def _known(unit: str) -> bool:
    return unit.lower() in {*STRESS_UNITS, *FORCE_UNITS, *LENGTH_UNITS, *RATIO_UNITS, "s", "min", "sec"}


def _unit_of(name: str) -> str:
    """Unit inside a column name: "(MPa)", "[mm]", "_MPa" or "in MPa"; empty if there is none."""
    found = _UNIT.search(name)
    unit = next((g for g in found.groups() if g), "") if found else ""
    return unit if _known(unit) else ""


def _columns(header: list[list[str]], width: int) -> tuple[list[str], list[str], list[list[str]]]:
    """Return names and units of the columns and the header lines above them."""
    lines = [row for row in header if any(row)]
    names, units = [f"column {i}" for i in range(width)], [""] * width

    def bare(row: list[str]) -> list[str]:
        return [f.strip("[]() ") for f in row]

    unit_row = bool(lines) and sum(bool(f) for f in lines[-1]) >= 2 and all(_known(f) for f in bare(lines[-1]))
    if unit_row:
        units = (bare(lines[-1]) + [""] * width)[:width]
        lines = lines[:-1]
    if lines and sum(bool(f) for f in lines[-1]) >= 2:
        given = (lines[-1] + [""] * width)[:width]
        names = [g or n for g, n in zip(given, names)]
        units = [u or _unit_of(n) for u, n in zip(units, names)]
        lines = lines[:-1]
    return names, units, lines


def _pick(
    path: Path,
    names: list[str],
    units: list[str],
    patterns: tuple[tuple[str, str], ...],
    what: str,
    column: str | int | None,
    kind: str | None,
    unit: str | None,
) -> tuple[int, str, str]:
    """Choose a column: the one asked for, else the first name that matches the patterns in their order."""
    index = None
    if column is not None:
        index = column if isinstance(column, int) else next((i for i, n in enumerate(names) if n == column), None)
        if index is None or not 0 <= index < len(names):
            raise InputError(f"{path}: {what}_column = {column!r} is not a column; there are {names}")
    for name, pattern in patterns:
        for i, text in enumerate(names):
            if kind not in (None, name) or (index is not None and i != index):
                continue
            if re.search(pattern, text.lower().replace("_", " ")) and "rate" not in text.lower():
                return i, name, units[i] if unit is None else unit
    if index is None or kind is None:
        raise InputError(
            f"{path}: no {what} column recognised among {names}; pass {what}_column= and {what}_kind= "
            f"({', '.join(dict.fromkeys(p[0] for p in patterns))})"
        )
    if kind not in _KIND_UNITS:
        raise InputError(f"{path}: {what}_kind = {kind!r} is unknown; use one of {', '.join(p[0] for p in patterns)}")
    return index, kind, units[index] if unit is None else unit


def _unit(path: Path, kind: str, unit: str, argument: str) -> float:
    table = _KIND_UNITS[kind]
    if unit.lower() not in table or (unit == "" and table is not RATIO_UNITS):
        raise InputError(
            f"{path}: the unit {unit!r} of the {kind} column is not known; pass {argument}= one of "
            f"{', '.join(u for u in table if u)}"
        )
    return table["mn"] * 1e9 if unit == "MN" else table[unit.lower()]


def _mode(given: str | None, header: list[list[str]], path: Path, notes: list[str]) -> str:
    if given is not None:
        return mode_name(given)
    text = "\n".join(" ".join(row) for row in header).lower()
    for name, pattern in _MODES:
        found = re.search(pattern, text)
        if found:
            notes.append(f"mode {name}, from {found.group(0)!r} in the header")
            return name
    ending = path.stem.rsplit("_", 1)[-1].upper()
    if "_" in path.stem and ending in ("UT", "ET", "PS", "C"):
        notes.append(f"mode {mode_name(ending)}, from the file name ending _{ending}")
        return mode_name(ending)
    notes.append("mode uniaxial, assumed: neither header nor file name says it")
    return "uniaxial"


def _stretch(
    path: Path, e: Floats, kind: str, mode: str, header: list[list[str]], gauge: float | None, notes: list[str]
) -> Floats:
    """Turn strains into stretches; machines count compression positive."""
    if kind == "stretch":
        return e
    if mode == "compression" and e.sum() > 0:
        e = -e
        notes.append("compressive strain counted positive in the file: sign turned")
    if kind == "true strain":
        return np.exp(e)
    if kind == "displacement":
        length = _dimension(header, GAUGE, LENGTH_UNITS) if gauge is None else gauge
        if length is None:
            raise InputError(f"{path}: displacements need the rest length of the specimen; pass gauge_length= [m]")
        notes.append(f"rest length {length * 1e3:.4g} mm")
        e = e / length
    return 1.0 + e


def _dimension(header: list[list[str]], pattern: str, table: Mapping[str, float]) -> float | None:
    """Value in SI units of a header line such as "Specimen Width (mm);6" or "Width;6;mm"."""
    for row in header:
        if len(row) == 1 and re.search("[:=]", row[0]):
            row = re.split("[:=]", row[0], maxsplit=1)
        if len(row) < 2 or not re.search(pattern, row[0].lower()):
            continue
        parts = row[1].split()
        value = _number(parts[0], ".") if parts else np.nan
        value = _number(parts[0], ",") if parts and not np.isfinite(value) else value
        places = [_UNIT.search(row[0].strip(": ")), None]
        unit = next((g for g in places[0].groups() if g), "") if places[0] else ""
        unit = unit or (parts[1] if len(parts) > 1 else row[2] if len(row) > 2 else "")
        if np.isfinite(value) and unit.lower().strip("[]()") in table:
            return value * table[unit.lower().strip("[]()")]
    return None


def _area(path: Path, header: list[list[str]], given: float | None, notes: list[str]) -> float:
    """Rest cross-section [m^2]: given, else from the header's area, width and thickness, or diameter."""
    area = given if given is not None else _dimension(header, r"cross-? ?section|area|querschnitt", AREA_UNITS)
    if area is None:
        width, thick = (_dimension(header, p, LENGTH_UNITS) for p in (r"width|breite", r"thickness|dicke"))
        diameter = _dimension(header, r"diameter|durchmesser", LENGTH_UNITS)
        if width is not None and thick is not None:
            area = width * thick
        elif diameter is not None:
            area = 0.25 * np.pi * diameter**2
    if area is None or not area > 0:
        raise InputError(f"{path}: forces need the rest cross-section of the specimen; pass area= [m^2]")
    notes.append(f"cross-section {area * 1e6:.4g} mm^2")
    return float(area)


def _loading(stretch: Floats, stress: Floats, notes: list[str]) -> tuple[Floats, Floats]:
    """Keep the first loading: up to the first reversal of more than a tenth of the range, and up to the break."""
    strain = np.abs(stretch - 1.0)
    drop = np.maximum.accumulate(strain) - strain
    reversal = np.flatnonzero(drop > REVERSAL * (strain.max() - strain.min()))
    end = len(strain)
    if len(reversal):
        end = int(np.argmax(strain[: reversal[0]])) + 1
        notes.append(f"first loading kept: {end} of {len(strain)} samples, to stretch {stretch[end - 1]:.4g}")
    load = np.abs(stress[:end])
    peak = int(np.argmax(load))
    if peak + 1 < end and load[peak + 1 :].min() < BREAK * load[peak]:
        notes.append(f"cut at the largest stress (break): {end - peak - 1} samples dropped")
        end = peak + 1
    if end < 2:
        return stretch, stress
    return stretch[:end], stress[:end]
