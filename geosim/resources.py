"""Shipped files, checks of paths that users name, and the number of cores."""

from __future__ import annotations

import errno
import lzma
import os
import stat
import struct
import tokenize
import tomllib
import zipfile
import zlib
from pathlib import Path
from typing import Any

from geosim.errors import InputError

# What numpy, json and the libraries of archives, XML and meshes raise where bytes are not what they say.
DAMAGE = (
    *(
        ArithmeticError,
        AttributeError,
        EOFError,
        LookupError,
        MemoryError,
        OSError,
        RuntimeError,
        SyntaxError,
        TypeError,
    ),
    *(ValueError, lzma.LZMAError, struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error),
)
ALWAYS_ALLOWED_BYTES = 64 << 20  # bytes that any archive may unpack to


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def resource(name: str) -> Path:
    """Return the path of what geosim ships under `name`: "meshes" (the folders of robots) or "materials.toml".

    Raises
    ------
    InputError
        It does not exist: the installation is incomplete.
    """
    path = Path(__file__).resolve().parent / "data" / name
    if not path.exists():
        raise InputError(f"{path} is missing: the installation is incomplete; run pip install --force-reinstall geosim")
    return path


def readable(given: str | os.PathLike[str]) -> Path:
    """Return the path of a file that a user names, unless reading it would never end or the system knows no such name.

    A folder and a file that is missing pass: who reads says what file it should be.

    Raises
    ------
    InputError
        It is a pipe or a device, a loop of links, not permitted, or no name of a file.
    """
    try:
        path = Path(given)
        mode = path.stat().st_mode
    except TypeError:
        raise InputError(f"{_shown(given)} is no path of a file") from None
    except (FileNotFoundError, NotADirectoryError):
        return path
    except (OSError, ValueError) as error:
        reason = "its links lead in a circle" if getattr(error, "errno", 0) == errno.ELOOP else None
        raise InputError(
            f"{_shown(given)}: cannot be read: {reason or getattr(error, 'strerror', None) or error}; check its name"
        ) from None
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InputError(f"{_shown(given)}: a pipe or a device, not a file; write it to a file and give that")
    return path


def read_toml(given: str | os.PathLike[str], what: str) -> dict[str, Any]:
    """Return the tables of a TOML file.

    Parameters
    ----------
    given
        The file.
    what
        What it is, for messages: "robot file".

    Raises
    ------
    InputError
        It is missing, a folder, not UTF-8 or not TOML.
    """
    path = readable(given)
    if path.is_dir():
        raise InputError(f"{path}: this is a folder; name the {what} in it, for example {path / 'robot.toml'}")
    if path.suffix.lower() != ".toml":
        raise InputError(f"{path}: a {what} is a .toml file; docs/tutorial.md has one, and `geosim new` writes one")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such {what}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    except ValueError as error:  # no TOML, or an integer of more digits than Python converts
        reason = str(error).partition("; use sys.")[0]
        raise InputError(f"{path}: not valid TOML: {reason}; strings need quotes and every key its own line") from None
    except RecursionError:
        raise InputError(f"{path}: its lists are nested too deeply; no {what} needs that") from None


def check_sizes(path: Path, most: float) -> None:
    """Refuse a zip archive that says to hold many times its length: it is damaged, or made to fill the memory.

    Parameters
    ----------
    path
        A file; what is no zip archive passes, who reads it says so.
    most
        Times its length, beyond `ALWAYS_ALLOWED_BYTES` bytes.

    Raises
    ------
    InputError
        How much it says to hold.
    """
    if not zipfile.is_zipfile(path):
        return
    with zipfile.ZipFile(path) as archive:
        holds = sum(part.file_size for part in archive.infolist())
    if holds > max(ALWAYS_ALLOWED_BYTES, most * path.stat().st_size):
        raise InputError(
            f"{path}: says to hold {holds / 1e9:.3g} GB in {path.stat().st_size / 1e6:.3g} MB; it is damaged, or made to fill "
            "the memory"
        )


def _shown(given: object) -> str:
    text = str(given)
    max_shown_path = 120  # characters of a path in a message
    return repr(text if len(text) <= max_shown_path else f"{text[:max_shown_path]}...")
