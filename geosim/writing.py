"""Files that are never half there, pages from templates, and the one writer of files for ParaView (VTP, VTU)."""

from __future__ import annotations

import base64
import html
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
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


def write_whole(path: Path, content: str | bytes) -> Path:
    """Write a file of text (UTF-8) or of bytes, whole or not at all (see `replacing`); the path is returned."""
    with replacing(path) as beside:
        beside.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return path


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
    counts = f'NumberOf{tag}="{len(cells)}" NumberOf{other}="0" NumberOfLines="0" NumberOfStrips="0"'
    ends = cells.shape[1] * np.arange(1, len(cells) + 1)
    parts = {tag: {"connectivity": cells.ravel(), "offsets": ends}}
    with replacing(path) as beside:
        _write_vtk(beside, ("PolyData", counts), points, parts, point_data, cell_data or {}, deflated=False)
    return path


def write_vtu(
    path: Path,
    points: Floats,
    cells: Sequence[tuple[str, Ints]],
    point_data: Mapping[str, Floats],
    cell_data: Mapping[str, Sequence[Floats | Ints]],
) -> None:
    """Write a mesh in metres: points (p, 3), cells of each kind, fields of the points and of the cells of each kind."""
    kinds = {"line": 3, "triangle": 5, "tetra": 10, "tetra10": 24}  # numbers of VTK
    sizes = np.concatenate([np.full(len(ids), ids.shape[1]) for _, ids in cells])
    parts = {
        "Cells": {
            "connectivity": np.concatenate([ids.ravel() for _, ids in cells]),
            "offsets": np.cumsum(sizes),
            "types": np.concatenate([np.full(len(ids), kinds[kind]) for kind, ids in cells]),
        }
    }
    fields: dict[str, Any] = {key: np.concatenate(values) for key, values in cell_data.items()}
    head = "UnstructuredGrid", f'NumberOfCells="{len(sizes)}"'
    _write_vtk(path, head, points, parts, point_data, fields, deflated=True)


def _write_vtk(
    path: Path,
    head: tuple[str, str],
    points: Floats,
    parts: Mapping[str, Mapping[str, Ints]],
    point_data: Mapping[str, Floats],
    cell_data: Mapping[str, Floats | Ints],
    *,
    deflated: bool,
) -> None:
    """Write a file of VTK of one piece: its kind and counts, its points, their fields, its cells and theirs."""
    kind, counts = head
    sections = {"PointData": point_data, "CellData": cell_data, "Points": {"Points": points}, **parts}
    body = "".join(
        f"<{name}>\n{''.join(_array(key, values, deflated) for key, values in fields.items())}</{name}>\n"
        for name, fields in sections.items()
    )
    piece = f'<Piece NumberOfPoints="{len(points)}" {counts}>\n{body}</Piece>\n'
    packed = '" compressor="vtkZLibDataCompressor' if deflated else ""
    path.write_text(f"{XML.format(kind=kind + packed)}<{kind}>\n{piece}</{kind}>\n</VTKFile>\n", encoding="ascii")


def _array(name: str, values: Floats | Ints, deflated: bool) -> str:
    """One DataArray in base64, preceded by its length in bytes (UInt64), or deflated in blocks.

    Blocks are preceded by how many they are, their bytes, those of the last and the bytes of each deflated.
    """
    block_bytes = 2**15
    kind, dtype = ("Int64", "<i8") if values.dtype.kind in "iu" else ("Float64", "<f8")
    array = np.ascontiguousarray(values, dtype=dtype)
    width = f' NumberOfComponents="{array.shape[1]}"' if array.ndim == 2 else ""
    raw, sizes = array.tobytes(), [array.nbytes]
    parts = [np.array(sizes, "<u8").tobytes() + raw]
    if deflated:
        blocks = [_deflated(raw[first : first + block_bytes]) for first in range(0, len(raw), block_bytes)]
        sizes = [len(blocks), block_bytes, len(raw) % block_bytes, *map(len, blocks)]
        parts = [np.array(sizes, "<u8").tobytes(), b"".join(blocks)]
    text = "".join(base64.b64encode(part).decode("ascii") for part in parts)
    return f'<DataArray type="{kind}" Name="{name}"{width} format="binary">{text}</DataArray>\n'


def _deflated(raw: bytes) -> bytes:
    """Bytes in which runs of one byte are short: positions hold nothing else to find, and looking takes five times as long."""
    packer = zlib.compressobj(1, strategy=zlib.Z_RLE)
    return packer.compress(raw) + packer.flush()


def figure_and_text(picture: Path, alt: str, lines: Iterable[str]) -> str:
    """Return a picture and lines of text as HTML that holds both."""
    image = base64.b64encode(picture.read_bytes()).decode("ascii")
    text = html.escape("\n".join(lines))
    return (
        f'<img style="max-width:100%" src="data:image/png;base64,{image}" alt="{html.escape(alt)}">\n'
        f'<pre style="font-size:90%;white-space:pre-wrap">{text}</pre>'
    )
