"""Finds the table of numbers in a text file: encoding, delimiter, decimal sign, header, names and units of columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np

from geosim.arrays import Floats
from geosim.errors import InputError
from geosim.tables import read_text

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
KNOWN_UNITS = {*AREA_UNITS, *STRESS_UNITS, *FORCE_UNITS, *LENGTH_UNITS, *RATIO_UNITS, "s", "min", "sec"} - {"1"}

# What a column is, by its name; the first match wins. In order of preference within strain and within stress.
STRAIN_PATTERNS = (
    ("stretch", r"stretch|lambda|λ|extension ratio|draw ratio"),
    ("engineering strain", r"(eng\w*|nominal|techn\w*)[ ._-]*(strain|dehnung)"),
    ("true strain", r"(true|log\w*|hencky|wahre)[ ._-]*(strain|dehnung)"),
    ("engineering strain", r"strain|dehnung|stauchung|d[ée]formation|elongation ?[\[(]?%|epsilon"),
    ("displacement", r"displacement|extension|elongation|crosshead|traverse|weg|d[ée]placement|position|stroke"),
)
STRESS_PATTERNS = (
    ("engineering stress", r"(eng\w*|nominal|techn\w*|first piola\w*)[ ._-]*(stress|spannung)"),
    ("true stress", r"(true|cauchy|wahre)[ ._-]*(stress|spannung)"),
    ("engineering stress", r"stress|spannung|contrainte|sigma"),
    ("force", r"force|load|kraft|charge"),
)
_NUMBER_PATTERN = {
    ".": re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$"),
    ",": re.compile(r"[-+]?(\d+,?\d*|,\d+)([eE][-+]?\d+)?$"),
}
_UNIT = re.compile(r"[\[(]\s*([^\])]*?)\s*[\])]\s*$|_([A-Za-z/%^0-9]+)$|\bin\s+([A-Za-z/%^0-9]+)$")


def number_in(field: str, decimal: str) -> float:
    """Return the number in a field, nan if there is none."""
    return float(field.replace(",", ".")) if _NUMBER_PATTERN[decimal].match(field) else np.nan


def _split(line: str, delimiter: str) -> list[str]:
    return line.split() if delimiter == " " else [f.strip().strip('"').strip() for f in line.split(delimiter)]


def _is_heading(row: list[str]) -> bool:
    """Whether a line names columns or units: no numbers, and a strain or a stress or units alone."""
    given = [f.lower() for f in row if f]
    if len(given) < 2 or any(np.isfinite(number_in(f, point)) for f in given for point in _NUMBER_PATTERN):
        return False
    kinds = "|".join(pattern for _, pattern in STRAIN_PATTERNS + STRESS_PATTERNS)
    return _is_units(row) or sum(bool(re.search(kinds, f.replace("_", " "))) for f in given) >= 2


def _is_units(row: list[str]) -> bool:
    return sum(map(bool, row)) >= 2 and all(f.strip("[]() ").lower() in KNOWN_UNITS for f in row)


def _layout(path: Path, lines: Sequence[str], delimiter: str | None, decimal: str | None) -> tuple[str, str, int]:
    """Return delimiter, decimal sign and numbers in a row that explain most lines: first those that hold nothing else."""
    found = []
    for d, point in product([delimiter] if delimiter else "\t;,| ", [decimal] if decimal else ".,"):
        if d != point:
            rows = [[f for f in _split(line, d) if f] for line in lines]
            counts = [sum(bool(_NUMBER_PATTERN[point].match(f)) for f in row) for row in rows]
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


def _extent(split: list[list[str]], counts: list[int], first: int) -> tuple[int, int]:
    """Return where the table with a line `first` begins and ends: at the headings before and behind it."""
    headings = [i for i, row in enumerate(split) if counts[i] == 0 and _is_heading(row)]
    start = max((i + 1 for i in headings if i < first), default=first)
    return start, next((i for i in headings if i > first), len(split))


def table(
    path: Path, delimiter: str | None, decimal: str | None, notes: list[str], warnings: list[str]
) -> tuple[list[list[str]], list[str], Floats]:
    """Return the header's fields, the lines of the first table ("line 7: 'text'") and their numbers, nan where none is."""
    lines = read_text(path).splitlines()
    if decimal not in (None, *_NUMBER_PATTERN):
        raise InputError(f"{path}: decimal = {decimal!r}; use '.' or ','")
    sniffed_lines = 2000  # lines from which delimiter and decimal sign are found
    d, point, most = _layout(path, lines[:sniffed_lines], delimiter, decimal)
    split = [_split(line, d) for line in lines]
    counts = [sum(bool(_NUMBER_PATTERN[point].match(f)) for f in row) for row in split]
    start, end = _extent(split, counts, counts.index(most))
    second = sum(c >= 2 for c in counts[end:])
    if second:
        warnings.append(
            f"line {end + 1} begins another table, whose {second} rows are not used: one file for each test"
        )
    last = max(i for i in range(start, end) if counts[i] >= 2) + 1
    rows = [i for i in range(start, last) if any(split[i])]
    width = max(len(split[i]) for i in rows)
    numbers = np.array([[number_in(f, point) for f in split[i]] + [np.nan] * (width - len(split[i])) for i in rows])
    shown = {"\t": "tab", " ": "blanks"}.get(d, d)
    notes.append(f"delimiter {shown!r}, decimal {point!r}, {start} header lines, {len(rows)} rows of {width} columns")
    return split[:start], [f"line {i + 1}: {lines[i].strip()[:40]!r}" for i in rows], numbers


def columns(header: list[list[str]], width: int) -> tuple[list[str], list[str], list[list[str]]]:
    """Return names and units of the columns and the header lines above them."""
    lines = [row for row in header if any(row)]
    names, units = [f"column {i}" for i in range(width)], [""] * width
    if lines and _is_units(lines[-1]):
        units = ([f.strip("[]() ") for f in lines.pop()] + units)[:width]
    if lines and sum(map(bool, lines[-1])) >= 2:
        names = [g or n for g, n in zip(lines.pop() + [""] * width, names)]
        units = [u or unit_of(n) for u, n in zip(units, names)]
    return names, units, lines


def unit_of(name: str) -> str:
    """Unit inside a column name: "(MPa)", "[mm]", "_MPa" or "in MPa"; empty if there is none."""
    found = _UNIT.search(name)
    unit = next((g for g in found.groups() if g), "") if found else ""
    return unit if unit.lower() in KNOWN_UNITS else ""
