"""The folder that a solve leaves: result.npz, frames.pvd with its VTU, picture.png, view.html, summary.csv.

Everything is written into a hidden folder beside and renamed when it is complete.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from geosim.errors import InputError

if TYPE_CHECKING:
    from geosim.result import Result

__all__ = ["check_folder", "complete_folder", "write_folder"]

_OWN = re.compile(r"result\.npz|frames\.pvd|frames_\d+\.vtu|picture\.png|view\.html|summary\.csv")


def check_folder(folder: Path, force: bool) -> None:
    """Refuse a folder that holds something.

    Raises
    ------
    InputError
        It is a file, or not empty while `force` is false, or nothing can be written there.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; choose another --out")
    if folder.is_dir() and any(folder.iterdir()) and not force:
        raise InputError(
            f"{folder} exists and is not empty; give --force to replace the results in it, or another --out"
        )
    above = folder.resolve()
    while not above.exists():
        above = above.parent
    if not os.access(above, os.W_OK):
        raise InputError(f"{above} cannot be written; choose another --out")


def write_folder(result: Result, folder: Path, force: bool = False) -> list[str]:
    """Write all files of a result into a folder.

    Parameters
    ----------
    result
        What was solved; without a frame, only result.npz and summary.csv are written.
    folder
        Made if it does not exist. Files of others in it are left alone.
    force
        Whether results in it are replaced.

    Returns
    -------
    list of str
        Names of the files, in the order written.

    Raises
    ------
    InputError
        As `check_folder`.
    """
    names = ["result.npz", "summary.csv"]
    if len(result.frames):
        names += ["frames.pvd", "picture.png", "view.html"]
    with complete_folder(folder, force) as beside:
        for name in names:
            target = beside / name
            if name == "picture.png":
                result.plot(target)
            elif name == "view.html":
                result.html(target)
            else:
                result.save(target)
    return names


@contextmanager
def complete_folder(folder: Path, force: bool = False) -> Iterator[Path]:
    """Give a hidden folder beside `folder` to write into; it takes its place when the block ends without an error.

    Raises
    ------
    InputError
        As `check_folder`.
    """
    check_folder(folder, force)
    folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = folder.parent / f".{folder.name}.{os.getpid()}.part"
    try:
        beside.mkdir()
        yield beside
        _put_in_place(beside, folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _put_in_place(beside: Path, folder: Path) -> None:
    """Move a complete folder to its place, or its files into a folder that exists already."""
    if not folder.exists():
        beside.rename(folder)
        return
    new = {path.name for path in beside.iterdir()}
    for old in folder.iterdir():
        if old.name not in new and _OWN.fullmatch(old.name):
            old.unlink()
    for path in sorted(beside.iterdir()):
        os.replace(path, folder / path.name)
