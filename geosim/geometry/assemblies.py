"""Parts of assemblies in 3MF and GLB files, by name: "robot.3mf#finger", or by number: "robot.3mf#2".

A 3MF file says its unit, a GLB file is in metres.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from geosim.errors import InputError
from geosim.geometry import shells
from geosim.resources import DAMAGE, check_sizes

ASSEMBLY_SUFFIXES = (".3mf", ".glb")
# Times its length on the disk that an archive may hold: text of coordinates is packed to a fifth.
MAX_UNPACKED_RATIO = 100.0
UNITS = {"micron": 1e-6, "millimeter": 1e-3, "centimeter": 1e-2, "inch": 0.0254, "foot": 0.3048, "meter": 1.0}
Part = tuple[str, np.ndarray, np.ndarray]


def chosen_part(names: Sequence[str], wanted: str, path: Path, label: str, colors: Sequence[str] = ()) -> int:
    """Return the number of the part of a name, a number from 1 on, or a colour; of the only one where nothing is wanted.

    Raises
    ------
    InputError
        None or several are called so; what there is is listed.
    """
    colors = list(colors) or [""] * len(names)
    known = ", ".join(
        f"{i + 1} = {name!r}{color and ' ' + color}" for i, (name, color) in enumerate(zip(names, colors))
    )
    if not wanted and len(names) > 1:
        one = names[0] if names[0] and names.count(names[0]) == 1 else 1
        raise InputError(f"{label}: the file holds {len(names)} solids, {known}; name one: {path.name}#{one}")
    chosen = [i for i, name in enumerate(names) if wanted in (name, str(i + 1), "") or wanted.lower() == colors[i]]
    if len(chosen) != 1:
        what = f"{len(chosen)} solids are called {wanted!r}" if chosen else f"no solid is called {wanted!r}"
        raise InputError(f"{label}: {what}; the file holds {known}; their numbers do, too: {path.name}#1")
    return chosen[0]


def read_assembly(path: Path, part: str, label: str) -> tuple[np.ndarray, np.ndarray, str]:
    """Return the surface of a part of a 3MF or GLB file.

    Parameters
    ----------
    path
        The file.
    part
        Its name, or its number from 1 on; empty for the only one.
    label
        Of the surface, for messages.

    Returns
    -------
    vertices, faces
        Positions [m], shape (n, 3), and triangles (m, 3).
    name
        Of the part; "" where it has none.

    Raises
    ------
    InputError
        The file is damaged, or holds no such part.
    """
    try:
        parts = _read_3mf(path) if path.suffix.lower() == ".3mf" else _read_glb(path)
    except InputError:
        raise
    except DAMAGE as error:
        raise InputError(
            f"{label}: cannot be read as {path.suffix[1:].upper()} ({error or type(error).__name__}); export it again"
        ) from error
    if not parts:
        raise InputError(f"{label}: the file holds no triangles; export it again")
    name, vertices, faces = parts[chosen_part([name for name, _, _ in parts], part, path, label)]
    return *shells.compact(vertices, faces), name


def _read_3mf(path: Path) -> list[Part]:
    """Parts of a 3MF file as it builds them (core specification 1.3)."""
    model = "3D/3dmodel.model"
    check_sizes(path, MAX_UNPACKED_RATIO)
    with zipfile.ZipFile(path) as file:
        names = [n for n in file.namelist() if n.lower() == model.lower()] or [
            n for n in file.namelist() if n.lower().endswith(".model")
        ]
        if not names:
            raise ValueError("it holds no model")
        text = file.read(names[0])
    if b"<!DOCTYPE" in text[:4096] or b"<!ENTITY" in text:
        raise ValueError("its model defines entities")
    root = ElementTree.fromstring(text)
    space = root.tag.partition("}")[0] + "}"
    unit = UNITS[root.get("unit", "millimeter")]
    objects = {o.get("id"): o for o in root.iter(f"{space}object")}
    parts: list[Part] = []
    for item in root.iter(f"{space}item"):
        whole = objects[item.get("objectid")]
        corners, faces = _object(whole, objects, space, 0)
        vertices = _moved(corners, item.get("transform")) * unit
        parts.append((whole.get("name") or item.get("partnumber") or "", vertices, faces))
    return parts


def _object(node: Any, objects: Mapping[Any, Any], space: str, depth: int) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and triangles of an object and of its components, in the unit of the file."""
    deepest = 20  # components within components: more go round in a circle
    if depth > deepest:
        raise ValueError("its components hold each other")
    points, triangles, start = [], [], 0
    for vertices, faces in _meshes(node, objects, space, depth):
        points.append(vertices)
        triangles.append(faces + start)
        start += len(vertices)
    return np.vstack(points), np.vstack(triangles)


def _meshes(node: Any, objects: Mapping[Any, Any], space: str, depth: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield vertices and triangles of an object's own mesh, and of its components."""
    mesh = node.find(f"{space}mesh")
    if mesh is not None:
        corners = [[float(v.get(k)) for k in "xyz"] for v in mesh.iter(f"{space}vertex")]
        triangles = [[int(t.get(k)) for k in ("v1", "v2", "v3")] for t in mesh.iter(f"{space}triangle")]
        yield _checked(
            np.array(corners, dtype=float).reshape(-1, 3), np.array(triangles, dtype=np.int64).reshape(-1, 3)
        )
    for component in node.iter(f"{space}component"):
        vertices, faces = _object(objects[component.get("objectid")], objects, space, depth + 1)
        yield _moved(vertices, component.get("transform")), faces


def _checked(vertices: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return vertices and triangles, all of whose corners there are."""
    missing = faces[(faces < 0) | (faces >= len(vertices))]
    if missing.size:
        raise ValueError(f"a triangle names vertex {missing[0]} of {len(vertices)}")
    return vertices, faces


def _moved(vertices: np.ndarray, transform: str | None) -> np.ndarray:
    """Points (n, 3) after a transform of 3MF: twelve numbers, a row of the matrix for each axis, then the shift."""
    if transform is None:
        return vertices
    matrix = np.array(transform.split(), dtype=float).reshape(4, 3)
    return np.asarray(vertices @ matrix[:3] + matrix[3])


def _read_glb(path: Path) -> list[Part]:
    """Parts of a GLB file, each a node with a mesh, in its place."""
    import trimesh

    scene: Any = trimesh.load(io.BytesIO(path.read_bytes()), file_type="glb", force="scene", process=False)
    parts: list[Part] = []
    for node in scene.graph.nodes_geometry:
        transform, geometry = scene.graph[node]
        mesh = scene.geometry[geometry]
        if isinstance(mesh, trimesh.Trimesh):
            points = trimesh.transform_points(mesh.vertices, transform)
            parts.append((str(node), *_checked(points, np.asarray(mesh.faces, dtype=np.int64))))
    return parts
