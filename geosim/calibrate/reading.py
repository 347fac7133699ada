"""Reads tests from the CSV files of common machines: what is detected is shown, and can be overridden.

Detected: encoding (UTF-8 with or without BOM, UTF-16, Latin-1), delimiter (tab ; , | or blanks), decimal sign, the
table of numbers, column names and units above it, specimen dimensions in the header, mode of loading. Every
decision stands in `MaterialTest.notes`; what may be a mistake, rows that are left out among it, in `MaterialTest.warnings`.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from geosim.arrays import Floats, floats
from geosim.calibrate.curves import mode_name
from geosim.errors import InputError

__all__ = ["MaterialTest", "decode", "read_test", "without_spikes"]


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
KNOWN_UNITS = {*STRESS_UNITS, *FORCE_UNITS, *LENGTH_UNITS, *RATIO_UNITS, "s", "min", "sec"} - {"1"}

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
LOOKED_AT = 2000  # lines from which delimiter and decimal sign are found
REVERSAL, BREAK = 0.1, 0.8  # part of the range of strain that is unloading, of the largest stress that is a break
PERCENT = 20  # strains above it without a unit are percent: no specimen is stretched to 21 times its length
SPIKE = 2.0  # times its four neighbours that a sample exceeds them, or falls short of them: rising curves do not
NOTICED = 0.05  # part of the largest value from which on a spike matters
FEW = 0.1  # part of the samples that may be spikes; more are no mistakes of single rows
GAUGE = r"(gauge|gage|specimen|sample|initial|grip)[ \w]*length|^l0|^length|height|einspannl"
_MODES = (
    ("equibiaxial", r"equi-?\s?biaxial|biaxial|bulge"),
    ("pure-shear", r"pure[ _-]shear|planar (tension|shear)"),
    ("compression", r"compress|druckversuch|stauch"),
    ("uniaxial", r"uniaxial|tensile|tension|pull-to|zugversuch|traction"),
)
_NUMBER = {
    ".": re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$"),
    ",": re.compile(r"[-+]?(\d+,?\d*|,\d+)([eE][-+]?\d+)?$"),
}
_UNIT = re.compile(r"[\[(]\s*([^\])]*?)\s*[\])]\s*$|_([A-Za-z/%^0-9]+)$|\bin\s+([A-Za-z/%^0-9]+)$")


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
    warnings
        What may be a mistake, one line each.

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
    warnings: tuple[str, ...] = ()

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


@dataclass(frozen=True)
class _Column:
    """One column of a file, as numbers in the file's unit."""

    values: Floats
    name: str
    kind: str
    unit: str


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
    notes: list[str] = []
    warnings: list[str] = []
    header, rows, numbers = _table(path, delimiter, decimal, notes, warnings)
    names, units, header = _columns(header, numbers.shape[1])
    strain = _pick(path, names, units, numbers, _STRAIN, "strain", strain_column, strain_kind, strain_unit)
    stress = _pick(path, names, units, numbers, _STRESS, "stress", stress_column, stress_kind, stress_unit)
    strain, stress = _readable(path, rows, strain, stress, warnings)
    strain = _with_unit(strain, notes)
    for what, column in (("strain", strain), ("stress", stress)):
        notes.append(f"{what}: column {column.name!r}, {column.kind} [{column.unit or '-'}]")
    chosen = _mode(mode, header, path, notes)
    stretch = _stretch(path, strain, chosen, header, gauge_length, notes)
    nominal = _nominal(path, stress, stretch, header, area, notes)
    if chosen == "compression" and nominal.sum() > 0:
        nominal = -nominal
    test = MaterialTest(chosen, stretch, nominal, path.stem, tuple(notes), tuple(warnings))
    test = without_spikes(test, in_time=True)
    return _loading(test) if first_loading else test


def decode(path: Path) -> str:
    """Return the text of a file in UTF-8, UTF-16 or Latin-1.

    Raises
    ------
    InputError
        It cannot be read, is empty, or is no text.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    if not raw.strip():
        raise InputError(f"{path}: the file is empty")
    marked = raw[:2] in (b"\xff\xfe", b"\xfe\xff")
    if b"\x00" in raw and not marked:
        raise InputError(f"{path}: a binary file, not text; export the test as CSV")
    try:
        return raw.decode("utf-16" if marked else "utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _number(field: str, decimal: str) -> float:
    """Return the number in a field, nan if there is none."""
    return float(field.replace(",", ".")) if _NUMBER[decimal].match(field) else np.nan


def _split(line: str, delimiter: str) -> list[str]:
    return line.split() if delimiter == " " else [f.strip().strip('"').strip() for f in line.split(delimiter)]


def _is_heading(row: list[str]) -> bool:
    """Whether a line names columns or units: no numbers, and a strain or a stress or units alone."""
    given = [f.lower() for f in row if f]
    if len(given) < 2 or any(np.isfinite(_number(f, point)) for f in given for point in _NUMBER):
        return False
    kinds = "|".join(pattern for _, pattern in _STRAIN + _STRESS)
    return _is_units(row) or sum(bool(re.search(kinds, f.replace("_", " "))) for f in given) >= 2


def _is_units(row: list[str]) -> bool:
    return sum(map(bool, row)) >= 2 and all(f.strip("[]() ").lower() in KNOWN_UNITS for f in row)


def _layout(path: Path, lines: Sequence[str], delimiter: str | None, decimal: str | None) -> tuple[str, str, int]:
    """Return delimiter, decimal sign and numbers in a row that explain most lines: first those that hold nothing else."""
    found = []
    for d, point in product([delimiter] if delimiter else "\t;,| ", [decimal] if decimal else ".,"):
        if d != point:
            rows = [[f for f in _split(line, d) if f] for line in lines]
            counts = [sum(bool(_NUMBER[point].match(f)) for f in row) for row in rows]
            width, count = Counter(c for c in counts if c >= 2).most_common(1)[0] if max(counts) >= 2 else (0, 0)
            pure = sum(c == len(row) == width for c, row in zip(counts, rows))
            found.append((pure, count, width, d, point))
    _, count, width, d, point = max(found, key=lambda layout: layout[:3], default=(0, 0, 0, "", ""))
    if count < 2:
        raise InputError(
            f"{path}: no table of numbers found (two or more columns, two or more rows); pass delimiter= and "
            f"decimal= if the file holds one"
        )
    return d, point, width


def _table(
    path: Path, delimiter: str | None, decimal: str | None, notes: list[str], warnings: list[str]
) -> tuple[list[list[str]], list[str], Floats]:
    """Return the header's fields, the lines of the first table ("line 7: 'text'") and their numbers, nan where none is."""
    lines = decode(path).splitlines()
    if decimal not in (None, *_NUMBER):
        raise InputError(f"{path}: decimal = {decimal!r}; use '.' or ','")
    d, point, most = _layout(path, lines[:LOOKED_AT], delimiter, decimal)
    split = [_split(line, d) for line in lines]
    counts = [sum(bool(_NUMBER[point].match(f)) for f in row) for row in split]
    first = counts.index(most)
    headings = [i for i, row in enumerate(split) if counts[i] == 0 and _is_heading(row)]
    start = max((i + 1 for i in headings if i < first), default=first)
    end = next((i for i in headings if i > first), len(lines))
    last = max(i for i in range(start, end) if counts[i] >= 2) + 1
    second = sum(c >= 2 for c in counts[end:])
    if second:
        warnings.append(
            f"line {end + 1} begins another table, whose {second} rows are not used: one file for each test"
        )
    rows = [i for i in range(start, last) if any(split[i])]
    width = max(len(split[i]) for i in rows)
    numbers = np.array([[_number(f, point) for f in split[i]] + [np.nan] * (width - len(split[i])) for i in rows])
    shown = {"\t": "tab", " ": "blanks"}.get(d, d)
    notes.append(f"delimiter {shown!r}, decimal {point!r}, {start} header lines, {len(rows)} rows of {width} columns")
    return split[:start], [f"line {i + 1}: {lines[i].strip()[:40]!r}" for i in rows], numbers


def _readable(
    path: Path, rows: list[str], strain: _Column, stress: _Column, warnings: list[str]
) -> tuple[_Column, _Column]:
    """Leave out rows without both numbers, and say which."""
    good = np.isfinite(strain.values) & np.isfinite(stress.values)
    if good.sum() < 2:
        raise InputError(f"{path}: columns {strain.name!r} and {stress.name!r} hold fewer than two samples")
    if not good.all():
        which = [rows[i] for i in np.flatnonzero(~good)]
        more = f" and {len(which) - 3} more" if len(which) > 3 else ""
        warnings.append(
            f"{len(which)} of {len(rows)} rows cannot be read and are left out ({'; '.join(which[:3])}{more})"
        )
    return tuple(dataclasses.replace(c, values=c.values[good]) for c in (strain, stress))


def _columns(header: list[list[str]], width: int) -> tuple[list[str], list[str], list[list[str]]]:
    """Return names and units of the columns and the header lines above them."""
    lines = [row for row in header if any(row)]
    names, units = [f"column {i}" for i in range(width)], [""] * width
    if lines and _is_units(lines[-1]):
        units = ([f.strip("[]() ") for f in lines.pop()] + units)[:width]
    if lines and sum(map(bool, lines[-1])) >= 2:
        names = [g or n for g, n in zip(lines.pop() + [""] * width, names)]
        units = [u or _unit_of(n) for u, n in zip(units, names)]
    return names, units, lines


def _unit_of(name: str) -> str:
    """Unit inside a column name: "(MPa)", "[mm]", "_MPa" or "in MPa"; empty if there is none."""
    found = _UNIT.search(name)
    unit = next((g for g in found.groups() if g), "") if found else ""
    return unit if unit.lower() in KNOWN_UNITS else ""


def _pick(
    path: Path,
    names: list[str],
    units: list[str],
    numbers: Floats,
    patterns: tuple[tuple[str, str], ...],
    what: str,
    column: str | int | None,
    kind: str | None,
    unit: str | None,
) -> _Column:
    """Choose a column: the one asked for, else the first name that matches the patterns in their order."""
    kinds = list(dict.fromkeys(p[0] for p in patterns))
    if kind not in (None, *kinds):
        raise InputError(f"{path}: {what}_kind = {kind!r} is unknown; use one of {', '.join(kinds)}")
    index = None
    if column is not None:
        text = str(column)
        index = names.index(text) if text in names else int(text) if text.isdigit() else -1
        if not 0 <= index < len(names):
            raise InputError(f"{path}: {what}_column = {column!r} is not a column; there are {names}")
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
    table = _KIND_UNITS[kind]
    if unit.lower() not in table or (unit == "" and table is not RATIO_UNITS):
        raise InputError(
            f"{path}: the unit {unit!r} of the {kind} column is not known; pass {what}_unit= one of "
            f"{', '.join(u for u in table if u)}"
        )
    return _Column(numbers[:, index], names[index], kind, unit)


def _factor(column: _Column) -> float:
    """SI per unit of a column; MN is no mN."""
    return 1e6 if column.unit == "MN" else _KIND_UNITS[column.kind][column.unit.lower()]


def _with_unit(strain: _Column, notes: list[str]) -> _Column:
    """Take strains without a unit as percent where no specimen bears the fraction."""
    if strain.kind not in ("engineering strain", "true strain") or strain.unit:
        return strain
    percent = np.abs(strain.values).max() > PERCENT
    notes.append(f"strain without a unit taken as {'percent' if percent else 'a fraction'}")
    return dataclasses.replace(strain, unit="%" if percent else "-")


def _mode(given: str | None, header: list[list[str]], path: Path, notes: list[str]) -> str:
    if given is not None:
        return mode_name(given)
    text = "\n".join(" ".join(row) for row in header).lower()
    ending = path.stem.rsplit("_", 1)[-1].upper()
    found = next(((m, hit) for m, pattern in _MODES if (hit := re.search(pattern, text))), None)
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
    if strain.kind == "displacement":
        length = _dimension(header, GAUGE, LENGTH_UNITS) if gauge is None else gauge
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


def _dimension(header: list[list[str]], pattern: str, table: Mapping[str, float]) -> float | None:
    """Value in SI units of a header line such as "Specimen Width (mm);6" or "Width;6;mm"."""
    for row in header:
        if len(row) == 1 and re.search("[:=]", row[0]):
            row = re.split("[:=]", row[0], maxsplit=1)
        if len(row) < 2 or not re.search(pattern, row[0].lower()) or not row[1].split():
            continue
        text, *after = row[1].split()
        value = _number(text, ".") if _NUMBER["."].match(text) else _number(text, ",")
        inside = _UNIT.search(row[0].strip(": "))
        unit = next((g for g in inside.groups() if g), "") if inside else ""
        unit = (unit or next(iter([*after, *row[2:]]), "")).lower().strip("[]()")
        if np.isfinite(value) and unit in table:
            return value * table[unit]
    return None


def _spikes(values: Floats) -> np.ndarray:
    """Mark values (n,) that stand out of two neighbours on either side: no curve that rises does that, nor a break."""
    padded = np.pad(values, 2, constant_values=np.nan)
    near = np.stack([padded[:-4], padded[1:-3], padded[3:-1], padded[4:]])
    if len(values) > 2:
        near[3, -1] = 2.0 * values[-2] - values[-3]  # the last one may go on rising
    with np.errstate(invalid="ignore"):
        out = (values > SPIKE * np.nanmax(near, axis=0)) | (values < np.nanmin(near, axis=0) / SPIKE)
    out[[0, -1]] &= values[[0, -1]] > values[[1, -2]]  # a curve begins near zero and may end with a break
    rest = values[~out]
    return out & (np.abs(values - np.nanmedian(near, axis=0)) > NOTICED * (rest.max() if len(rest) else 0.0))


def without_spikes(test: MaterialTest, *, in_time: bool) -> MaterialTest:
    """Leave out samples that cannot belong to the curve, such as a misplaced decimal point, and say which.

    `in_time` tells that the samples are in the order in which they were measured, so that strains are judged, too.
    """
    order = np.arange(len(test.stretch)) if in_time else np.argsort(test.stretch, kind="stable")
    if test.mode == "compression" and not in_time:
        order = order[::-1]
    strain, stress = np.abs(test.stretch[order] - 1.0), np.abs(test.nominal_stress[order])
    bad = _spikes(stress) | (_spikes(strain) if in_time else False)
    found = order[bad]
    if len(found) == 0 or len(test.stretch) < 5:
        return test
    if len(found) > max(FEW * len(bad), 1):
        text = f"{len(found)} samples stand out of their neighbours by a factor {SPIKE:g}: no curve of one test; look at it"
        return dataclasses.replace(test, warnings=(*test.warnings, text))
    shown = ", ".join(f"stretch {test.stretch[i]:.4g} with {test.nominal_stress[i] / 1e3:.4g} kPa" for i in found[:3])
    text = f"{len(found)} samples left out, which their neighbours contradict by a factor {SPIKE:g} or more: {shown}"
    keep = np.setdiff1d(np.arange(len(bad)), found)
    return _kept(test, keep, warnings=(*test.warnings, text))


def _kept(test: MaterialTest, keep: np.ndarray | slice, **changes: tuple[str, ...]) -> MaterialTest:
    arrays = {"stretch": test.stretch[keep], "nominal_stress": test.nominal_stress[keep]}
    return dataclasses.replace(test, **arrays, **changes)


def _loading(test: MaterialTest) -> MaterialTest:
    """Keep the first loading: up to the first reversal of more than a tenth of the range, and up to the break."""
    strain, load, notes = np.abs(test.stretch - 1.0), np.abs(test.nominal_stress), []
    drop = np.maximum.accumulate(strain) - strain
    reversal = np.flatnonzero(drop > REVERSAL * np.ptp(strain))
    end = int(np.argmax(strain[: reversal[0]])) + 1 if len(reversal) else len(strain)
    if end < 2:
        text = f"the strain falls from the first sample on, so there is no first loading: all {len(strain)} samples are used"
        return dataclasses.replace(test, warnings=(*test.warnings, text))
    if end < len(strain):
        notes.append(f"first loading kept: {end} of {len(strain)} samples, to stretch {test.stretch[end - 1]:.4g}")
    peak = int(np.argmax(load[:end]))
    if 1 <= peak < end - 1 and load[peak + 1 : end].min() < BREAK * load[peak]:
        notes.append(f"cut at the largest stress (break): {end - peak - 1} samples dropped")
        end = peak + 1
    return _kept(test, slice(end), notes=(*test.notes, *notes))
