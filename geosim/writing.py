"""Files that are never half there, pages from templates, and the one writer of surfaces for ParaView (VTP)."""

from __future__ import annotations

import base64
import html
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.errors import InputError

XML = '<?xml version="1.0"?>\n<VTKFile type="{kind}" version="1.0" byte_order="LittleEndian" header_type="UInt64">\n'


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a sibling to write to; it takes the place of `path` when everything went well.

    Raises
    ------
    InputError
        The system refuses to write there: the disk is full, the name too long, the folder gone.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield beside
        os.replace(beside, path)
    except (OSError, UnicodeEncodeError) as error:
        reason = (error.strerror or error) if isinstance(error, OSError) else "its name is not UTF-8"
        raise InputError(f"{str(path)!r} cannot be written: {reason}") from None
    finally:
        with suppress(OSError, UnicodeEncodeError):
            beside.unlink(missing_ok=True)


def checked_target(path: str | Path, *suffixes: str) -> Path:
    """Return the path of a file to write.

    Raises
    ------
    InputError
        It has another suffix, or its folder does not exist.
    """
    path = Path(path)
    if path.suffix.lower() not in suffixes:
        raise InputError(
            f"{path.name!r} must end in {suffixes[0] if len(suffixes) == 1 else 'one of ' + ', '.join(suffixes)}"
        )
    if not path.parent.is_dir():
        raise InputError(f"folder {str(path.parent)!r} does not exist; create it first")
    return path


def filled(template: str, parts: Mapping[str, str]) -> str:
    """Return a template with @KEY@ replaced by the part of that name; what a part holds is no place for another part."""
    return re.sub(f"@({'|'.join(parts)})@", lambda place: parts[place[1]], template)


def in_script(data: Any) -> str:
    """Return JSON that may be in a script of a page: "</script" would end it and "<!--<script" keep it open."""
    return json.dumps(data).replace("<", "\\u003c")


def write_vtp(
    path: Path,
    points: Floats,
    triangles: Ints | None,
    point_data: Mapping[str, Floats],
    cell_data: Mapping[str, Ints] | None = None,
) -> Path:
    """Write a surface, or a cloud of points; the path is returned.

    Parameters
    ----------
    path
        .vtp file.
    points
        Positions [m], shape (p, 3).
    triangles
        Vertex ids (t, 3); None draws every point by itself.
    point_data, cell_data
        Fields of the points (p,) or (p, 3), and of the triangles (t,).
    """
    cells = np.arange(len(points))[:, None] if triangles is None else triangles
    tag, other = ("Verts", "Polys") if triangles is None else ("Polys", "Verts")
    ends = cells.shape[1] * np.arange(1, len(cells) + 1)
    body = "".join(
        f"<{name}>\n{''.join(_array(key, values) for key, values in fields.items())}</{name}>\n"
        for name, fields in (
            ("PointData", point_data),
            ("CellData", cell_data or {}),
            ("Points", {"Points": points}),
            (tag, {"connectivity": cells.ravel(), "offsets": ends}),
        )
    )
    counts = f'NumberOfPoints="{len(points)}" NumberOf{tag}="{len(cells)}" NumberOf{other}="0"'
    piece = f'<Piece {counts} NumberOfLines="0" NumberOfStrips="0">\n{body}</Piece>\n'
    with replacing(path) as beside:
        beside.write_text(
            f"{XML.format(kind='PolyData')}<PolyData>\n{piece}</PolyData>\n</VTKFile>\n", encoding="ascii"
        )
    return path


def _array(name: str, values: Floats | Ints) -> str:
    """One DataArray in base64, preceded by its length in bytes (UInt64)."""
    kind, dtype = ("Int64", "<i8") if values.dtype.kind in "iu" else ("Float64", "<f8")
    array = np.ascontiguousarray(values, dtype=dtype)
    width = f' NumberOfComponents="{array.shape[1]}"' if array.ndim == 2 else ""
    text = base64.b64encode(np.uint64(array.nbytes).astype("<u8").tobytes() + array.tobytes()).decode("ascii")
    return f'<DataArray type="{kind}" Name="{name}"{width} format="binary">{text}</DataArray>\n'


def figure_and_text(picture: Path, alt: str, lines: Iterable[str]) -> str:
    """Return a picture and lines of text as HTML that holds both."""
    image = base64.b64encode(picture.read_bytes()).decode("ascii")
    text = html.escape("\n".join(lines))
    return (
        f'<img style="max-width:100%" src="data:image/png;base64,{image}" alt="{html.escape(alt)}">\n'
        f'<pre style="font-size:90%;white-space:pre-wrap">{text}</pre>'
    )
