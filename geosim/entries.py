"""Entry points: what the applications and other distributions add to geosim, by a table in their pyproject.toml.

    [project.entry-points."geosim.commands"]     name -> a click command
    [project.entry-points."geosim.robots"]       `kind` of a robot file -> function (table, place) -> robot
    [project.entry-points."geosim.solvers"]      name -> solver: `kind` under [solver], or what a robot type calls `solver`
    [project.entry-points."geosim.obstacles"]    `shape` of an obstacle -> `Kind` of `geosim.collision.shapes`
    [project.entry-points."geosim.materials"]    `model` of a material -> function of its constants, or a law

The tables are read as text from the metadata on `sys.path`; nothing is imported before it is asked for. An entry that cannot be
imported, or whose name is taken, is named in one line and skipped.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import warnings
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from geosim.errors import GeosimWarning, one_line


@dataclass(frozen=True)
class Entry:
    """An entry point.

    Parameters
    ----------
    group, name, place
        As in the table; the place is "module:attribute".
    source
        The distribution and its version.
    """

    group: str
    name: str
    place: str
    source: str

    def skipped(self, reason: str) -> None:
        """Say in one line why it is left out."""
        warnings.warn(
            f"{self.group} {self.name} = {self.place!r} of {self.source} is skipped: {one_line(reason)}",
            GeosimWarning,
            stacklevel=2,
        )

    def load(self) -> Any:
        """Return the object; None with a warning where it cannot be imported."""
        module, _, attributes = self.place.partition(":")
        try:
            found: Any = importlib.import_module(module)
            for attribute in attributes.split("."):
                found = getattr(found, attribute)
        except Exception as error:  # noqa: BLE001 (a stranger's module may raise anything)
            self.skipped(f"{type(error).__name__}: {error}")
            return None
        return found

    @property
    def summary(self) -> str:
        """The first line of its docstring, from the text of its module; else where it comes from."""
        module, _, attribute = self.place.partition(":")
        for folder in sys.path:
            path = Path(folder, *module.split(".")).with_suffix(".py")
            if path.is_file():
                text = path.read_text(encoding="utf-8", errors="replace")
                said = re.search(rf'^def {re.escape(attribute)}\(.*?"""(.*?)(?:\n|""")', text, re.DOTALL | re.MULTILINE)
                return said[1].strip() if said else f"({self.source})"
        return f"({self.source})"


def entries(group: str, taken: Collection[str] = ()) -> dict[str, Entry]:
    """Return the entries of a group by name, without those whose name is taken.

    Parameters
    ----------
    group
        Name of the group.
    taken
        Names that geosim has itself.
    """
    return dict(_chosen(tuple(sys.path), group, tuple(taken)))


@cache
def _chosen(folders: tuple[str, ...], group: str, taken: tuple[str, ...]) -> dict[str, Entry]:
    out: dict[str, Entry] = {}
    for entry in _known(folders):
        if entry.group == group and (entry.name in taken or entry.name in out):
            entry.skipped(f"{out[entry.name].source if entry.name in out else 'geosim'} has this name")
        elif entry.group == group:
            out[entry.name] = entry
    return out


@cache
def _known(folders: tuple[str, ...]) -> tuple[Entry, ...]:
    """All entries on a path, those of geosim first; of two copies of a distribution the first counts."""
    tree = Path(__file__).resolve().parents[1] / "pyproject.toml"  # of a source tree, installed or not
    found = {"geosim": _read(tree, "geosim")} if tree.is_file() else {}
    for folder in folders:
        try:
            parts = sorted(
                one.path for one in os.scandir(folder or ".") if one.name.endswith((".dist-info", ".egg-info"))
            )
        except OSError:
            continue
        for part in parts:
            name, _, version = os.path.basename(part).rpartition(".")[0].partition("-")
            if name not in found:
                source = name if name == "geosim" else f"{name} {version}".strip()
                found[name] = _read(os.path.join(part, "entry_points.txt"), source)
    own = found.pop("geosim", [])  # on whatever folder it lies: no other takes its names
    return (*own, *(entry for several in found.values() for entry in several))


def _read(path: str | Path, source: str) -> list[Entry]:
    """Return the entries of an entry_points.txt or a pyproject.toml, both of which have a line each below a head."""
    group, out = "", list[Entry]()
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError):
        return out
    for line in text.splitlines() if "geosim." in text else ():  # of hundreds of distributions few have any
        if line.startswith("["):
            group = line.partition("]")[0].replace("[project.entry-points.", "").strip('["')
        elif "=" in line and group.startswith("geosim."):
            name, place = (side.strip(' "') for side in line.split("=", 1))
            out.append(Entry(group, name, place, source))
    return out
