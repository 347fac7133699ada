"""Rooms and arrows of the package: what each folder holds and imports, drawn from every import of every file.

    python scripts/rooms.py [--folder geosim] [--repo .] [--inside shape/energy]

A room is an entry of the folder, a package or a module. Rooms stand in layers, the lowest last: a room imports those below it
alone. Rooms that import each other are listed as circles; the exit status is 1 where there are any.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import defaultdict
from pathlib import Path


def modules_of(package: Path) -> dict[str, Path]:
    """Return the modules of a package by their names below it."""
    names = {path: path.relative_to(package).with_suffix("").parts for path in package.rglob("*.py")}
    return {".".join(parts).removesuffix("__init__").removesuffix("."): path for path, parts in names.items()}


def imported(path: Path, name: str, modules: dict[str, Path]) -> set[str]:
    """Return the modules that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.removeprefix(f"{name}.") for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == name:
            parent = (node.module or "").removeprefix(name).removeprefix(".")
            wholes = {f"{parent}.{alias.name}".removeprefix(".") for alias in node.names}
            found |= {whole if whole in modules else parent for whole in wholes}
    return found & modules.keys() - {""}


def arrows(package: Path, inside: str) -> tuple[dict[str, set[str]], dict[str, int]]:
    """Return what every room of a folder imports, and its lines."""
    modules, prefix = modules_of(package), f"{inside.replace('/', '.')}." if inside else ""
    out: dict[str, set[str]] = defaultdict(set)
    lines: dict[str, int] = defaultdict(int)
    for module, path in modules.items():
        if not module or not module.startswith(prefix):
            continue
        room = module.removeprefix(prefix).split(".")[0]
        lines[room] += path.read_text(encoding="utf-8").count("\n")
        targets = imported(path, package.name, modules)
        out[room] |= {t.removeprefix(prefix).split(".")[0] for t in targets if t.startswith(prefix)} - {room}
    return dict(out), dict(lines)


def layers(graph: dict[str, set[str]]) -> tuple[list[list[str]], list[str]]:
    """Return the rooms in layers, the lowest first, and those in circles."""
    left, out = dict(graph), []
    while free := sorted(room for room, targets in left.items() if not targets & left.keys()):
        out.append(free)
        for room in free:
            del left[room]
    return out, sorted(left)


def main() -> int:
    """Print the rooms from the top layer down."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repo", type=Path, default=Path(__file__).resolve().parents[1])
    parser.add_argument("--folder", default="geosim")
    parser.add_argument("--inside", default="")
    given = parser.parse_args()
    package = given.repo / given.folder
    graph, lines = arrows(package, given.inside)
    floors, circles = layers(graph)
    folders = [room for room in graph if (package / given.inside / room).is_dir()]
    print(f"{len(folders)} folders, {len(graph) - len(folders)} files, {sum(map(len, graph.values()))} arrows")
    for k, rooms in reversed(list(enumerate(floors, 1))):
        for room in rooms:
            print(f"{k:3d}  {room:14s} {lines[room]:6d} lines  -> {' '.join(sorted(graph[room])) or '-'}")
    print(f"in circles: {', '.join(circles) or 'none'}")
    return 1 if circles else 0


if __name__ == "__main__":
    sys.exit(main())
