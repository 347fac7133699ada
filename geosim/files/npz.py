"""The one reader and the one writer of archives of numbers (.npz): a header in JSON, arrays, and a digest of both.

A layout says what an archive holds. The reader checks, in this order: the size that it says to unpack to, the digest, the
header by its schema, and every array by its axes, kind and range:

    arrays = {"places": Numbers(("n", 3), most=1e6), "ids": Numbers(("n",), whole=True, least=0)}
    layout = Layout("scan", "write one with ...", "about", About, lambda about: arrays)
    write_npz(file, layout, {"name": "a"}, {"places": places, "ids": ids})
    about, arrays, sealed = read_npz(path, layout)

An archive of an earlier version has no digest; it is read, and `sealed` is False.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from pydantic import BaseModel

from geosim.arrays import shown
from geosim.errors import InputError
from geosim.files.messages import Place
from geosim.files.values import validated
from geosim.resources import DAMAGE, check_sizes, readable

DIGEST = "digest"  # name of the array with the SHA-256 of all others
# Times its length on the disk that an archive may hold: arrays of positions are packed to a half, of zeros to a thousandth.
MAX_UNPACKED_RATIO = 100.0
MAX_WHOLE = 2.0**53  # up to which floats tell whole numbers apart


@dataclass(frozen=True)
class Numbers:
    """An array of an archive.

    Parameters
    ----------
    axes
        Its lengths: a whole number, or a name that has one length in all arrays; None: any numbers of any shape.
    whole
        Whether its numbers are whole.
    least, most
        Of its numbers.
    gaps
        Whether nan may stand for a number that is not known.
    needed
        Whether an archive without it is refused.
    """

    axes: tuple[int | str, ...] | None
    whole: bool = False
    least: float = -np.inf
    most: float = np.inf
    gaps: bool = False
    needed: bool = True

    def problem(self, array: np.ndarray, lengths: dict[str, int]) -> str:
        """Return what is wrong with an array, or nothing; named axes that are new get their lengths."""
        if array.dtype.kind not in "biuf":
            return f"holds {array.dtype}, not numbers"
        if self.axes is None:
            return ""
        if len(self.axes) == array.ndim:
            for axis, length in zip(self.axes, array.shape):
                lengths.setdefault(str(axis), length if isinstance(axis, str) else axis)
        wanted = tuple(lengths.get(str(axis), axis) for axis in self.axes)
        if wanted != array.shape:
            return f"has shape {array.shape}; {wanted} is needed"
        known = array[~np.isnan(array)] if array.dtype.kind == "f" else array
        if known.size < array.size and not self.gaps:
            return "holds nan"
        if not np.isfinite(known).all():
            return "holds inf"
        broken = known[(known != np.round(known)) | (np.abs(known) > MAX_WHOLE)] if self.whole else known[:0]
        if broken.size:
            return f"= {broken[0]:g} is not whole"
        outside = known[(known < self.least) | (known > self.most)]
        return f"= {outside[0]:g} is impossible" if outside.size else ""


ANYTHING = Numbers(None)


@dataclass(frozen=True)
class Layout:
    """What an archive holds.

    Parameters
    ----------
    called
        For messages: "reduced model".
    remedy
        What to do about an archive that is none.
    header
        Name of the text in it.
    about
        Schema of the header.
    arrays
        Header -> name of an array and what it holds; "" stands for all others.
    """

    called: str
    remedy: str
    header: str
    about: type[BaseModel]
    arrays: Callable[[Any], Mapping[str, Numbers]]


def digest(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the SHA-256 of names, types, shapes and bytes of arrays, uint8 (32,)."""
    found = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        found.update(f"{name}\0{array.dtype.str}\0{np.shape(arrays[name])}\0".encode())
        found.update(array.reshape(-1).view(np.uint8).data)
    return np.frombuffer(found.digest(), dtype=np.uint8)


def write_npz(
    file: IO[bytes], layout: Layout, about: Mapping[str, Any], arrays: Mapping[str, Any], *, packed: bool = True
) -> None:
    """Write an archive to an open file, with its digest.

    Parameters
    ----------
    file
        Open for binary writing.
    layout, about, arrays
        What it is to hold.
    packed
        Whether it is compressed.
    """
    whole: dict[str, Any] = {name: np.asarray(value) for name, value in arrays.items()}
    whole[layout.header] = np.array(json.dumps(about))
    whole[DIGEST] = digest(whole)
    (np.savez_compressed if packed else np.savez)(file, **whole)


def read_npz(path: Path, layout: Layout) -> tuple[Any, dict[str, np.ndarray], bool]:
    """Read an archive: its header as the layout's schema, its arrays, and whether it has a digest.

    Raises
    ------
    InputError
        It is missing, damaged or changed, or it holds something else than the layout says.
    """
    path = readable(path)
    if not path.exists():
        raise InputError(f"{path}: no such {layout.called} file; {layout.remedy}")
    if not path.is_file():
        raise InputError(f"{path}: not a file; {layout.remedy}")
    try:
        header, arrays, sealed = _unpacked(path, layout)
    except InputError:
        raise
    except DAMAGE as error:
        said = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{path}: not a readable {layout.called} file: {said}; {layout.remedy}") from None
    about = validated(layout.about, header, Place(path))
    with Place(path).naming():
        wanted = layout.arrays(about)
    lengths: dict[str, int] = {}
    for name in [*wanted, *(name for name in arrays if name not in wanted)]:
        numbers = wanted.get(name, wanted.get("", ANYTHING))
        if name in arrays:
            problem = numbers.problem(arrays[name], lengths)
        else:
            problem = "is missing" if name and numbers.needed else ""
        if problem:
            raise InputError(f"{path}: {shown(name)[1:-1]} {problem}; {layout.remedy}")
        if name in arrays and numbers.whole and not numbers.gaps:
            arrays[name] = arrays[name].astype(np.int64)  # ids were written as floats, say
    return about, arrays, sealed


def _unpacked(path: Path, layout: Layout) -> tuple[Any, dict[str, np.ndarray], bool]:
    """Return the header and the arrays of an archive as they were written, and whether it has a digest."""
    check_sizes(path, MAX_UNPACKED_RATIO)
    with zipfile.ZipFile(path):  # numpy would take what is no archive for a pickle
        pass
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    if layout.header not in arrays:
        raise InputError(f"{path}: this .npz is not a geosim {layout.called}; {layout.remedy}")
    sealed = arrays.pop(DIGEST, None)
    if sealed is not None and not np.array_equal(sealed, digest(arrays)):
        raise InputError(f"{path}: its numbers are not as they were written (by its digest); {layout.remedy}")
    header = json.loads(str(arrays.pop(layout.header)))
    with np.errstate(over="ignore"):  # beyond doubles is inf, which is refused later
        arrays = {name: a.astype(float, copy=False) if a.dtype.kind == "f" else a for name, a in arrays.items()}
    return header, arrays, sealed is not None
