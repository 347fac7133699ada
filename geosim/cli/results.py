"""`geosim compare RESULT RESULT`: two results held against each other."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from geosim.errors import InputError
from geosim.model.robot import VolumetricRobot
from geosim.result import Result


def compare_results(first: Path, second: Path, folder: Path) -> Iterator[str]:
    """Write an overlay of two results into a folder; return the lines that say how their last frames differ.

    Raises
    ------
    InputError
        A file is no result, or holds no frame.
    """
    from geosim.files.archive import load_result
    from geosim.measures.provenance import mesh_hash
    from geosim.show.overlay import overlay

    one, two = load_result(first), load_result(second)
    for path, result in ((first, one), (second, two)):
        if not len(result.frames):
            raise InputError(f"{path}: it has no frame to compare: {result.message}")
    same = mesh_hash(one.robot) == mesh_hash(two.robot)
    yield f"{first}: {one.robot.name}, {one.status.name}, {len(one.frames)} frames"
    yield f"{second}: {two.robot.name}, {two.status.name}, {len(two.frames)} frames"
    yield from otherwise(one, two)
    yield from difference(one, two) if same else ("the robots differ: shapes are laid over each other as they stand",)
    yield from table(one.summary()[-1], two.summary()[-1])
    overlay(one, two, folder / "overlay.png")
    yield f"wrote {folder / 'overlay.png'}"


def otherwise(one: Result, two: Result) -> Iterator[str]:
    """Return a line for everything besides the mesh that two results do not have in common: materials, solver, surroundings."""
    pairs: list[tuple[str, object, object]] = [("solver", one.solver, two.solver)]
    if isinstance(one.robot, VolumetricRobot) and isinstance(two.robot, VolumetricRobot):
        regions = one.robot.materials.keys() & two.robot.materials.keys()
        pairs += [(f"material of region {r}", one.robot.materials[r], two.robot.materials[r]) for r in sorted(regions)]
    for name in ("gravity", "obstacles", "loads", "prescribed", "self_contact"):
        pairs.append((name, *(getattr(r.environment, name) for r in (one, two))))
    for name, a, b in pairs:
        if not _alike(a, b):
            yield f"other {name}: {_short(a)} | {_short(b)}"


def _alike(a: object, b: object) -> bool:
    """Whether two options say the same: their words leave out large arrays, so these are compared."""
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_alike, a, b))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_alike(a[key], b[key]) for key in a)
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.array_equal(a, b, equal_nan=a.dtype.kind == b.dtype.kind == "f")
    if dataclasses.is_dataclass(a) and type(a) is type(b):
        return all(_alike(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    return str(a) == str(b)


def _short(value: object) -> str:
    """Return a value on one line, cut where it is long; of a record the fields that are not as by default."""
    text = " ".join(str(value).split())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        given = [(f.name, getattr(value, f.name), f.default) for f in dataclasses.fields(value) if f.repr]
        parts = [f"{name}={found!r}" for name, found, default in given if not _alike(found, default)]
        text = f"{type(value).__name__}({', '.join(parts)})"
    max_shown_characters = 100  # characters of a value that are shown
    return text if len(text) <= max_shown_characters else f"{text[:max_shown_characters]} ..."


def difference(one: Result, two: Result) -> Iterator[str]:
    """Return how far the vertices of two results of one mesh are apart."""
    count = min(len(one.frames), len(two.frames))
    apart = np.linalg.norm(one.frames[:count] - two.frames[:count], axis=2)[:, one.robot.body_vertices]
    frame = int(np.argmax(apart.max(axis=1)))
    materials = [getattr(r.robot, "materials", {}) for r in (one, two)]
    which = "the same robot" if _alike(*materials) else "the same mesh of another material"
    yield (
        f"{which}: vertices are at most {1e3 * apart.max():.4g} mm apart (frame {frame}), "
        f"{1e3 * np.sqrt(np.mean(apart[-1] ** 2)):.4g} mm rms in frame {count - 1}"
    )


def table(one: dict[str, Any], two: dict[str, Any]) -> Iterator[str]:
    """Return the columns that two rows of summary.csv share, side by side, with their difference."""
    rows = [("measure", "first", "second", "second - first")]
    for key in one.keys() & two.keys() - {"frame", "status", "iterations", "seconds"}:
        a, b = one[key], two[key]
        if np.isfinite([a, b]).any():
            rows.append((key, f"{a:.6g}", f"{b:.6g}", f"{b - a:.4g}"))
    order = {key: i for i, key in enumerate(["measure", *one])}
    rows.sort(key=lambda row: order[row[0]])
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        yield "  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))])
