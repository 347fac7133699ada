"""The folder that a solve leaves: result.npz, summary.csv, frames.pvd with its VTU, picture.png, view.html.

Everything is written into a hidden folder beside, the numbers before the pictures, and only when it is whole takes the place
of what was there: a new folder in one rename, and so the results in one that holds nothing else. Where others keep files too,
a log that is being written or a shell that works there, the folder stays and file after file is replaced.
"""

from __future__ import annotations

import ctypes
import glob
import logging
import os
import re
import shutil
import socket
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from geosim.errors import GeosimError, GeosimWarning, InputError

if TYPE_CHECKING:
    from geosim.result import Result


_OWN_RESULT_FILES = re.compile(
    r"result\.npz|frames\.pvd|frames_\d+\.vtu|frames_obstacles_\d+\.vtp|picture\.png|view\.html|summary\.csv|partial\.npz|partial\.png"
)
log = logging.getLogger("geosim.files")


def check_folder(folder: Path, force: bool) -> None:
    """Refuse a folder that holds something.

    Parameters
    ----------
    folder, force
        Where results go, and whether they may take the place of others there.

    Raises
    ------
    InputError
        It is a file, or not empty while `force` is false, or nothing can be written there.
    """
    with saying_where(folder):
        str(folder).encode("utf-8")
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is a file; choose another --out")
        if folder.is_dir() and any(folder.iterdir()) and not force:
            raise InputError(
                f"{folder} exists and is not empty; give --force to replace the results in it, or another --out"
            )
        for path in folder.iterdir() if folder.is_dir() else ():
            if _OWN_RESULT_FILES.fullmatch(path.name) and not (path.is_file() or path.is_symlink()):
                kind = "a folder" if path.is_dir() else "a pipe or a device"
                raise InputError(f"{path} is {kind}, and a result of this name is to be written; choose another --out")
        _check_writable(folder)


def _check_writable(folder: Path) -> None:
    """Refuse a folder that exists and cannot be written, or whose nearest folder above cannot."""
    above = folder.resolve()
    while not above.exists():
        above = above.parent
    try:  # rights are not all: a system folder refuses its owner, too
        os.rmdir(tempfile.mkdtemp(prefix=".geosim-", dir=above))
    except OSError:
        raise InputError(f"{above} cannot be written; choose another --out") from None


@contextmanager
def saying_where(path: Path) -> Iterator[None]:
    """Turn what the system refuses (a full disk, a long path, a folder that is gone) into an `InputError` with the path."""
    try:
        yield
    except UnicodeEncodeError:
        raise InputError(f"{str(path)!r} is not UTF-8; choose another name") from None
    except (RuntimeError, ValueError) as error:  # a loop of links, a NUL
        if isinstance(error, GeosimError):
            raise
        raise InputError(f"{str(path)!r} is no folder: {error}; choose another --out") from None
    except OSError as error:
        where = error.filename or path
        raise InputError(f"{where}: {error.strerror or error}; choose another --out, or make room") from None


def write_folder(result: Result, folder: Path, force: bool = False) -> list[str]:
    """Write all files of a result into a folder, the numbers first; what cannot be drawn is a warning.

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
    partial = result.partial
    with complete_folder(folder, force) as beside:
        names = ["result.npz", "summary.csv"]
        for name in names:
            result.save(beside / name)
        if partial is not None:
            names.append("partial.npz")
            partial.save(beside / "partial.npz")
        drawn: dict[str, Callable[[Path], object]] = {}
        if len(result.frames):
            drawn = {"frames.pvd": result.save, "picture.png": result.plot, "view.html": result.html}
        if partial is not None:
            drawn["partial.png"] = partial.plot
        for name, write in drawn.items():
            try:
                write(beside / name)
            except Exception as error:  # the numbers are there: no picture is worth losing them
                log.warning("%s could not be written", name, exc_info=True)
                warnings.warn(
                    f"{name} could not be written: {' '.join(str(error).split())}", GeosimWarning, stacklevel=2
                )
            else:
                names.append(name)
    log.info("wrote %s to %s", ", ".join(names), folder)
    return names


@contextmanager
def complete_folder(folder: Path, force: bool = False) -> Iterator[Path]:
    """Give a hidden folder beside `folder` to write into; it takes its place when the block ends without an error.

    Raises
    ------
    InputError
        As `check_folder`, or the system refuses to write.
    """
    check_folder(folder, force)
    with saying_where(folder):
        folder = folder.resolve()
        folder.parent.mkdir(parents=True, exist_ok=True)
        _clean_up(folder)
        beside = _place(folder) / f".{folder.name}.{_here()}-{os.getpid()}.part"
        absent = not folder.exists()
        try:
            beside.mkdir()
            yield beside
            if absent and folder.exists() and not force:
                raise InputError(
                    f"{folder}: another process wrote there meanwhile; choose another folder and run again"
                )
            _put_in_place(beside, folder)
        finally:
            shutil.rmtree(beside, ignore_errors=True)


def _place(folder: Path) -> Path:
    """Where files can be written that are to be renamed into a folder: beside it, or inside where only that can be written."""
    above = folder.parent
    inside = folder.exists() and (not os.access(above, os.W_OK) or folder.stat().st_dev != above.stat().st_dev)
    return folder if inside else above


def _here() -> str:
    """Name of this machine as it is in the names of folders: a number of a process means nothing on another."""
    return re.sub(r"\W", "_", socket.gethostname())


def _clean_up(folder: Path) -> None:
    """Remove what processes of this machine that died left beside a folder."""
    for left in _place(folder).glob(f".{glob.escape(folder.name)}.{_here()}-*.part"):
        number = left.name.split("-")[-1].removesuffix(".part")
        if number.isdigit() and not _alive(int(number)):
            shutil.rmtree(left, ignore_errors=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def _put_in_place(beside: Path, folder: Path) -> None:
    """Let complete files take the place of the results in a folder: in one rename where it holds nothing else."""
    if not folder.exists():
        beside.rename(folder)
        return
    there = [path for path in folder.iterdir() if path != beside]
    new = {path.name for path in beside.iterdir()}
    old = [path for path in there if _OWN_RESULT_FILES.fullmatch(path.name) and path.name not in new]
    ours = all(_OWN_RESULT_FILES.fullmatch(path.name) or path.name in new for path in there)
    # the shell that began this process may work in the folder
    if ours and not Path.cwd().is_relative_to(folder) and _exchange(beside, folder):
        return
    for path in sorted(beside.iterdir()):
        os.replace(path, folder / path.name)
    for path in old:
        path.unlink(missing_ok=True)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders at once (Linux); return whether it was done."""
    try:
        rename = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    paths = [os.fsencode(p) for p in (one, other)]
    at_folder, exchange = -100, 2  # of renameat2(2)
    return int(rename(at_folder, paths[0], at_folder, paths[1], exchange)) == 0
