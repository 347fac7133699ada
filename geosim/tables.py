"""Tables of text: one reader of encodings, delimiters, decimal signs, gaps, units and limits.

Encodings: UTF-8 with or without a byte-order mark, UTF-16 with one, else Latin-1. Delimiters: tab, semicolon, comma, or blanks.
A decimal comma is known where commas do not separate cells: `1,5;2,5`. Rows keep their line numbers, nothing is dropped:

    table = read_table_text("markers.csv")
    table.cells(0)                             # the first line: ["frame", "tip_x_mm", "tip_y_mm", "tip_z_mm"]
    table.numbers(range(1, 4), (1, 2, 3), 4)   # numbers of three lines of four cells; nan where a cell is empty
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from geosim.arrays import METRES_PER_UNIT, Floats
from geosim.errors import InputError
from geosim.resources import readable

# Bytes of a table, at most: an hour of 60 markers at 100 Hz takes 0.6 GB as text.
MAX_TABLE_BYTES = 1 << 30
DELIMITERS = {"\t": "tab", ";": "semicolon", ",": "comma", " ": "blanks"}
# What exporters, spreadsheets and C libraries write where there is no number, in small letters.
GAPS = frozenset(
    ["", "nan", "-nan", "nan(ind)", "-nan(ind)", "null", "na", "n/a", "#n/a", "none", "1.#qnan", "-1.#qnan", "-1.#ind"]
)
UNIT_WORDS = {
    "meters": "m",
    "metres": "m",
    "meter": "m",
    "metre": "m",
    "millimeters": "mm",
    "millimetres": "mm",
    "millimeter": "mm",
    "millimetre": "mm",
    "centimeters": "cm",
    "centimetres": "cm",
    "centimeter": "cm",
    "inches": "in",
    "inch": "in",
}
_BRACKET_UNIT = re.compile(r"^(.*?)[ _]*[\[(]\s*([^\[\]()]*?)\s*[\])]$")
_PLAIN_UNIT = re.compile(r"^(.*?)[ _](mm|cm|m|in)$")
DECIMAL_COMMA = re.compile(r"[-+]?(\d+,\d*|,\d+)([eE][-+]?\d+)?$")


def unit_scale(unit: str | None, source: str) -> float:
    """Return metres per unit.

    Raises
    ------
    InputError
        There is no unit, or it is unknown; `source` is named.
    """
    if not unit:
        raise InputError(
            f"{source}: no unit of length is given in the file; pass units= one of {', '.join(METRES_PER_UNIT)}"
        )
    name = str(unit).strip().lower()
    name = UNIT_WORDS.get(name, name)
    if name not in METRES_PER_UNIT:
        raise InputError(f"{source}: the unit {unit!r} is unknown; pass units= one of {', '.join(METRES_PER_UNIT)}")
    return METRES_PER_UNIT[name]


def agreed_unit(stated: str | None, given: str | None, source: str) -> str | None:
    """Return the unit of a file, which states one or is given one.

    Raises
    ------
    InputError
        Both are there and differ.
    """
    if stated and given and unit_scale(stated, source) != unit_scale(given, source):
        raise InputError(f"{source}: the file says {stated!r}, units={given!r}: leave units out, or correct the file")
    return stated or given


def split_unit(name: str) -> tuple[str, str | None]:
    """Return the name of a column without its unit, and the unit: of "tip x [mm]" and of "tip_x_mm" it is "mm"."""
    found = _BRACKET_UNIT.match(name) or _PLAIN_UNIT.match(name)
    return (found[1], found[2] or None) if found else (name, None)


def read_text(path: str | Path) -> str:
    """Return the text of a file in UTF-8, UTF-16 or Latin-1.

    Raises
    ------
    InputError
        It is missing, a folder, empty, too long, or no text.
    """
    path = readable(path)
    if not path.is_file():
        raise InputError(
            f"{path}: cannot be read: {'it is a folder' if path.is_dir() else 'no such file'}; name a file"
        )
    if path.stat().st_size > MAX_TABLE_BYTES:
        raise InputError(f"{path}: {path.stat().st_size / 1e9:.2f} GB of text; export fewer frames or columns")
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    if not raw.strip():
        raise InputError(f"{path}: the file is empty")
    wide = raw[:2] in (b"\xff\xfe", b"\xfe\xff")
    if b"\x00" in raw and not wide:
        raise InputError(f"{path}: a binary file, not text; export it as text")
    try:
        return raw.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError:
        if wide:
            raise InputError(f"{path}: begins as UTF-16 and is none; export it again as UTF-8") from None
        return raw.decode("latin-1")


def delimiter_of(line: str) -> str:
    """Return what separates the cells of a header: the first of tab, semicolon and comma that is in it, else blanks."""
    return next((d for d in "\t;," if d in line), " ")


@dataclass(frozen=True)
class Table:
    """The lines of a table.

    Parameters
    ----------
    source
        The file, named in messages.
    lines
        As in the file; line k of messages is `lines[k - 1]`.
    delimiter
        One of `DELIMITERS`.
    decimal
        "." or ","; None: found in the numbers.
    """

    source: str
    lines: tuple[str, ...]
    delimiter: str
    decimal: str | None = None

    def error(self, line: int, problem: str, column: int | None = None) -> InputError:
        """Return the error of a line (from 0) and, where it is one cell's, of a column (from 0)."""
        at = "" if column is None else f", column {column + 1}"
        return InputError(f"{self.source}: line {line + 1}{at}: {problem}")

    def cells(self, line: int) -> list[str]:
        """Return the cells of a line (from 0), without the blanks around them."""
        return self._split([line])[0]

    def filled(self, start: int, end: int | None = None) -> list[int]:
        """Return the lines from `start` on that are not blank; a line of delimiters alone is a row."""
        return [i for i in range(start, len(self.lines) if end is None else end) if self.lines[i].strip(" \r\n\f")]

    def find(self, word: str, start: int = 0) -> int | None:
        """Return the first line whose first cell is a word; capitals do not matter."""
        for i in range(start, len(self.lines)):
            if self.lines[i].lstrip(' "').lower().startswith(word.lower()) and self.cells(i)[0].lower() == word.lower():
                return i
        return None

    def rows(self) -> list[tuple[int, dict[str, str]]]:
        """Return the lines (from 0) below the first that is not blank, with their cells by the names in that.

        Raises
        ------
        InputError
            A name is there twice, or a line has another number of cells.
        """
        first, *lines = self.filled(0)
        names = self.cells(first)
        twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
        if twice is not None:
            raise self.error(first, f"two columns are called {twice[:40]!r}; rename one")
        out = []
        for line, cells in zip(lines, self._split(lines)):
            if len(cells) != len(names):
                raise self.error(line, f"{len(cells)} cells under {len(names)} names")
            out.append((line, dict(zip(names, cells))))
        return out

    def numbers(self, lines: Sequence[int], columns: Sequence[int], width: int) -> Floats:
        """Return the numbers in some columns of rows that have `width` cells, (rows, columns); nan in gaps.

        Raises
        ------
        InputError
            A row has another number of cells, or a cell is neither a number nor a gap; line and column are named.
        """
        rows = self._split(lines)
        for line, row in zip(lines, rows):
            if len(row) < width:
                raise self.error(
                    line, f"{len(row)} cells, the header names {width}: the line is cut off; export it again"
                )
            if any(row[width:]):
                extra = next(i for i in range(width, len(row)) if row[i])
                raise self.error(
                    line, f"{row[extra][:40]!r} is beyond the {width} columns that the header names", extra
                )
        comma = self.decimal == ","
        out = np.empty((len(rows), len(columns)))
        try:
            self._fill(out, lines, rows, columns, comma)
        except _CommaFound:
            self._fill(out, lines, rows, columns, True)
        return out

    def _fill(
        self, out: Floats, lines: Sequence[int], rows: list[list[str]], columns: Sequence[int], comma: bool
    ) -> None:
        """Write the numbers of rows, read with decimal points or commas."""
        for k, row in enumerate(rows):
            for j, column in enumerate(columns):
                text = row[column]
                if text.lower() in GAPS:
                    out[k, j] = np.nan
                    continue
                out[k, j] = self._number(text, comma, lines[k], column)

    def _number(self, text: str, comma: bool, line: int, column: int) -> float:
        if comma and "." in text:
            raise self.error(
                line, f"{text[:40]!r} has a decimal point, other cells a decimal comma; use one sign", column
            )
        try:
            value = float(text.replace(",", ".") if comma else text)
        except ValueError:
            if not comma and self.decimal is None and self.delimiter != "," and DECIMAL_COMMA.match(text):
                raise _CommaFound from None
            raise self.error(line, f"{text[:40]!r} is not a number; a gap is an empty cell or nan", column) from None
        if not np.isfinite(value) or "_" in text:
            raise self.error(line, f"{text[:40]!r} is not a finite number; a gap is an empty cell or nan", column)
        return value

    def _split(self, lines: Iterable[int]) -> list[list[str]]:
        """Return the cells of lines."""
        lines = list(lines)
        if max(lines, default=0) >= len(self.lines):
            raise self.error(
                len(self.lines) - 1, "the file ends here, where more lines of its layout are due; export it again"
            )
        if self.delimiter == " ":
            return [self.lines[i].split() for i in lines]
        out: list[list[str]] = []
        reader = csv.reader((self.lines[i] for i in lines), delimiter=self.delimiter, strict=True)
        while len(out) < len(lines):
            line = lines[len(out)]
            try:
                row = next(reader)
            except (csv.Error, StopIteration) as error:
                raise self.error(line, f"cannot be parted into cells ({error or 'a quote is not closed'})") from None
            if reader.line_num != len(out) + 1:
                raise self.error(line, "a quote is not closed on its line; export the file again")
            out.append([cell.strip() for cell in row] or [""])
        return out


class _CommaFound(Exception):  # noqa: N818 - no error: the numbers are read once more
    """A number has a decimal comma."""


def read_table_text(path: str | Path, delimiter: str | None = None, decimal: str | None = None) -> Table:
    """Read the lines of a table; unless it is given, the first line that is not blank tells the delimiter.

    Raises
    ------
    InputError
        See `read_text`; or `delimiter` or `decimal` is unknown.
    """
    if decimal not in (None, ".", ",") or delimiter not in (None, *DELIMITERS):
        raise InputError(f"{path}: decimal= '.' or ',', delimiter= one of {', '.join(map(repr, DELIMITERS))}")
    lines = tuple(re.split(r"\r\n|\n|\r", read_text(path)))
    if delimiter is None:
        delimiter = delimiter_of(next(line for line in lines if line.strip()))
    return Table(str(path), lines, delimiter, decimal)
