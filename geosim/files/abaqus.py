"""Reads INP files with parts and an assembly, as Abaqus/CAE writes them: mesh, sets, surfaces, kinematic couplings.

meshio reads flat files and knows neither parts nor instances, whose sets count their own elements from 1 on. Read here are
*Node, *Element, *Nset, *Elset (with generate), *Solid Section, *Instance with a translation, *Surface of type ELEMENT and
*Coupling with *Kinematic. Steps, materials and amplitudes are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.errors import InputError
from geosim.model.environment import RigidGroup

# Corners of the faces S1 .. S4 of a tetrahedron [Abaqus Analysis User's Guide, three-dimensional solid element library].
ABAQUS_TET_FACES = np.array([[0, 1, 2], [0, 3, 1], [1, 3, 2], [2, 3, 0]])


@dataclass(frozen=True)
class Coupling:
    """Vertices that move rigidly with a reference point at rest [file unit], (3,)."""

    name: str
    point: Floats
    vertices: Ints

    def group(self, scale: float = 1.0, **given: Any) -> RigidGroup:
        """Return the rigid group, its point in metres by `scale` [m per file unit], `given` its pose or loads."""
        return RigidGroup(self.vertices, point=self.point * scale, **given)


@dataclass(frozen=True)
class AbaqusModel:
    """A mesh of tetrahedra with its sets, in the unit of its file.

    Parameters
    ----------
    vertices, tets
        (n, 3) and (m, 4); corners alone of quadratic tets.
    regions
        Which solid section a tet belongs to, in the order of the file, (m,).
    sections
        Names of the element sets of the solid sections.
    node_sets, element_sets
        Vertices and tets by name, in lower case.
    couplings
        Kinematic ones.
    """

    vertices: Floats
    tets: Ints
    regions: Ints
    sections: tuple[str, ...]
    node_sets: Mapping[str, Ints]
    element_sets: Mapping[str, Ints]
    couplings: tuple[Coupling, ...]


@dataclass
class _Part:
    nodes: dict[int, tuple[float, ...]] = field(default_factory=dict)
    elements: dict[int, list[int]] = field(default_factory=dict)
    nsets: dict[str, list[int]] = field(default_factory=dict)
    elsets: dict[str, list[int]] = field(default_factory=dict)
    sections: list[str] = field(default_factory=list)


@dataclass
class _Card:
    """A keyword line with its options in lower case, and its data lines."""

    line: int
    keyword: str
    options: dict[str, str]
    data: list[list[str]]


def has_parts(path: Path) -> bool:
    """Whether an INP file has an assembly."""
    with path.open(encoding="utf-8", errors="replace") as file:
        return any(line.lower().lstrip().startswith("*assembly") for line in file)


def read_abaqus(path: Path) -> AbaqusModel:
    """Read an INP file with one instance of one part that has tetrahedra.

    Raises
    ------
    InputError
        A line cannot be read, an element is no tetrahedron, a name is unknown, or there are several instances.
    """
    parts: dict[str, _Part] = {}
    assembly, placed, couplings, surfaces = _Part(), _Part(), [], {}  # placed: sets of the instance
    instance: tuple[str, Floats] | None = None
    part: _Part | None = None
    try:
        for card in _cards(path):
            name = card.options.get("name", "").lower()
            if card.keyword == "part":
                part = parts.setdefault(name, _Part())
            elif card.keyword in ("end part", "assembly"):
                part = assembly if card.keyword == "assembly" else None
            elif card.keyword == "end assembly":
                part = None
            elif card.keyword == "instance":
                if instance is not None:
                    raise InputError(f"{path.name}, line {card.line}: a second instance; merge the parts into one")
                instance = card.options["part"].lower(), _shift(card, path.name)
            elif card.keyword == "surface" and card.options.get("type", "element").lower() == "element":
                surfaces[name] = [(row[0].lower(), row[1].upper()) for row in card.data]
            elif card.keyword == "coupling":
                couplings.append(card)
            elif part is not None:
                _collect(placed if "instance" in card.options else part, card, path.name)
        if instance is None or instance[0] not in parts:
            raise InputError(f"mesh = {path.name!r} has no instance of a part; write the assembly with it")
        return _model(parts[instance[0]], instance[1], assembly, placed, couplings, surfaces, path.name)
    except (ValueError, KeyError, IndexError) as error:
        text = f"{type(error).__name__} {error}"
        raise InputError(f"mesh = {path.name!r} cannot be read ({text[:120]}); write it again") from None
    except OSError as error:
        raise InputError(f"mesh = {path.name!r} cannot be read ({error.strerror})") from None


def _shift(card: _Card, file: str) -> Floats:
    """Where an instance puts its part, (3,)."""
    shift = [float(v) for v in card.data[0]] if card.data else [0.0, 0.0, 0.0]
    if len(card.data) > 1 or len(shift) != 3:
        raise InputError(f"{file}, line {card.line}: a turned instance; turn the part before it is written")
    return np.array(shift)


def _cards(path: Path) -> Iterator[_Card]:
    card: _Card | None = None
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, raw in enumerate(file, 1):
            line = raw.strip()
            if not line or line.startswith("**"):
                continue
            if line.startswith("*"):
                if card is not None:
                    yield card
                keyword, *options = (word.strip() for word in line[1:].split(","))
                pairs = (word.partition("=") for word in options)
                card = _Card(number, keyword.lower(), {k.strip().lower(): v.strip() for k, _, v in pairs}, [])
            elif card is not None:
                card.data.append([word.strip() for word in line.rstrip(",").split(",")])
    if card is not None:
        yield card


def _collect(part: _Part, card: _Card, file: str) -> None:
    """Put what a keyword says into a part."""
    tet_element_types = ("C3D4", "C3D10")
    if card.keyword == "node":
        nodes = {int(row[0]): tuple(float(v) for v in row[1:4]) for row in card.data}
        part.nodes.update(nodes)
        if "nset" in card.options:
            part.nsets.setdefault(card.options["nset"].lower(), []).extend(nodes)
    elif card.keyword == "element":
        kind = card.options.get("type", "").upper()
        if not kind.startswith(tet_element_types):
            raise InputError(f"{file}, line {card.line}: elements of type {kind or '?'}; only tetrahedra are read")
        flat = [int(v) for row in card.data for v in row if v]
        width = 11 if kind.startswith("C3D10") else 5
        if len(flat) % width:
            raise InputError(f"{file}, line {card.line}: an element of type {kind} has {width - 1} nodes; one has not")
        part.elements.update({flat[i]: flat[i + 1 : i + 5] for i in range(0, len(flat), width)})
        if "elset" in card.options:
            part.elsets.setdefault(card.options["elset"].lower(), []).extend(flat[::width])
    elif card.keyword in ("nset", "elset"):
        target = part.nsets if card.keyword == "nset" else part.elsets
        target.setdefault(card.options[card.keyword].lower(), []).extend(_members(card, target, file))
    elif card.keyword == "solid section":
        part.sections.append(card.options["elset"].lower())


def _members(card: _Card, known: Mapping[str, list[int]], file: str) -> list[int]:
    """Return the numbers of a set: a list, ranges, or other sets of the same kind."""
    out: list[int] = []
    max_set_entries = 100_000_000  # entries of one set by generate: more is a mistake
    for row in card.data:
        if "generate" in card.options:
            first, last, step = (*(int(v) for v in row), 1)[:3]
            if step < 1 or not 0 <= last - first < max_set_entries:
                raise InputError(f"{file}, line {card.line}: a set from {first} to {last} in steps of {step}")
            out += range(first, last + 1, step)
            continue
        for word in filter(None, row):
            out += [int(word)] if word.lstrip("-").isdigit() else known[word.lower()]
    return out


def _model(
    part: _Part,
    shift: Floats,
    assembly: _Part,
    placed: _Part,
    couplings: list[_Card],
    surfaces: Mapping[str, list[tuple[str, str]]],
    file: str,
) -> AbaqusModel:
    if not part.elements:
        raise InputError(f"mesh = {file!r} holds no tetrahedra; use surface = ... for a surface")
    used = sorted({v for four in part.elements.values() for v in four})
    missing = [v for v in used if v not in part.nodes]
    if missing:
        raise InputError(f"mesh = {file!r}: elements use node {missing[0]}, which is not there")
    row = {v: i for i, v in enumerate(used)}
    cell = {e: i for i, e in enumerate(part.elements)}
    vertices = np.array([part.nodes[v] for v in used]) + shift
    tets = np.array([[row[v] for v in four] for four in part.elements.values()], dtype=np.int64)
    named = {**part.nsets, **placed.nsets}
    nsets = {k: np.array([row[v] for v in ids if v in row], dtype=np.int64) for k, ids in named.items()}
    elsets = {k: _known(ids, cell, k, file) for k, ids in {**part.elsets, **placed.elsets}.items()}
    regions = np.zeros(len(tets), dtype=np.int64)
    for i, name in enumerate(part.sections):
        if name not in part.elsets:
            raise InputError(f"mesh = {file!r}: a solid section names the set {name!r}, which is not there")
        regions[_known(part.elsets[name], cell, name, file)] = i
    found = tuple(_coupling(card, assembly, surfaces, elsets, tets, file) for card in couplings)
    return AbaqusModel(vertices, tets, regions, tuple(part.sections), nsets, elsets, found)


def _coupling(
    card: _Card,
    assembly: _Part,
    surfaces: Mapping[str, list[tuple[str, str]]],
    elsets: Mapping[str, Ints],
    tets: Ints,
    file: str,
) -> Coupling:
    reference, name = card.options.get("ref node", "").lower(), card.options.get("surface", "").lower()
    if name not in surfaces or (not reference.isdigit() and reference not in assembly.nsets):
        raise InputError(
            f"{file}, line {card.line}: the coupling needs a surface of elements and a node of the assembly; it names "
            f"{name!r} and {reference!r}"
        )
    point = int(reference) if reference.isdigit() else assembly.nsets[reference][0]
    parts = [tets[elsets[ids]][:, ABAQUS_TET_FACES[int(side[1:]) - 1]].ravel() for ids, side in surfaces[name]]
    return Coupling(
        card.options.get("constraint name", ""), np.array(assembly.nodes[point]), np.unique(np.concatenate(parts))
    )


def _known(ids: list[int], cell: Mapping[int, int], name: str, file: str) -> Ints:
    bad = [e for e in ids if e not in cell]
    if bad:
        raise InputError(f"mesh = {file!r}: the set {name!r} names element {bad[0]}, which is not there")
    return np.array([cell[e] for e in ids], dtype=np.int64)
