"""Tetgen in a process of its own: `python -m geosim.geometry.mesher IN.npz OUT.npz`.

Tetgen ends the interpreter on surfaces that it cannot handle and drops files where it is, so it never runs in
the user's process. Input arrays: vertices (n, 3), faces (m, 3), seeds (k, 3), holes (h, 3), and the strings
`switches` and `engine` ("tetgen" or "pytetwild", with `edge`, `eps`, `rounds`, `energy` and `coarsen`). Output: vertices,
tets, seed (the index of the seed whose region holds each tet, -1 if none; absent for pytetwild, which knows no regions). Exit
status 3 with one line on stderr if the engine says what is wrong, SIGXCPU after `cpu_seconds` of processor time (-1: no limit).

Open CASCADE reads STEP files here for the same reasons (engine "Open CASCADE"): from a path, the distance of the triangles from
the surface [mm] (below 0: a share of the size), their largest angle [rad] and the largest relative loss of a volume come names
and colours of the solids, vertices [mm] (n, 3), faces (m, 3) and the solid of every face (m,). It writes closed STL files as
named solids of one (engine "STEP writer"). ezc3d reads the markers of a C3D file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np


def _tetgen(data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    import tetgen

    engine = tetgen.TetGen(data["vertices"], data["faces"].astype(np.int32))
    for k, seed in enumerate(data["seeds"]):
        engine.add_region(k + 1, seed)
    for hole in data["holes"]:
        engine.add_hole(hole)
    vertices, tets, attributes, _ = engine.tetrahedralize(switches=str(data["switches"]))
    # Unseeded regions get numbers past the seeds' (switch A) or 0.
    seed = np.rint(np.asarray(attributes).ravel()).astype(np.int64) - 1
    seed[seed >= len(data["seeds"])] = -1
    return {"vertices": np.asarray(vertices), "tets": np.asarray(tets).astype(np.int64), "seed": seed}


def _pytetwild(data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    import pytetwild

    low, high = data["vertices"].min(axis=0), data["vertices"].max(axis=0)
    vertices, tets = pytetwild.tetrahedralize(
        data["vertices"],
        data["faces"].astype(np.int32),
        edge_length_fac=float(data["edge"]) / float(np.linalg.norm(high - low)),
        epsilon=float(data["eps"]),
        num_opt_iter=int(data["rounds"]),
        stop_energy=float(data["energy"]),
        coarsen=bool(data["coarsen"]),
        num_threads=1,
        disable_filtering=True,
        quiet=True,
    )
    return {"vertices": np.asarray(vertices, dtype=np.float64), "tets": np.asarray(tets)[:, :4].astype(np.int64)}


def _step(data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    from OCP.Bnd import Bnd_Box
    from OCP.BRepBndLib import BRepBndLib
    from OCP.BRepGProp import BRepGProp
    from OCP.BRepMesh import BRepMesh_IncrementalMesh
    from OCP.BRepTools import BRepTools
    from OCP.GProp import GProp_GProps

    max_rounds = 3  # the loss falls with the square of the angle; what is left then is a fault of the solid
    solids = _solids(str(data["path"]))
    if not solids:
        raise ValueError("it holds no solid, only faces or curves")
    vertices, faces, owner, start = [], [], [], 0
    for k, (solid, _, _) in enumerate(solids):
        box, exact = Bnd_Box(), GProp_GProps()
        BRepBndLib.Add_s(solid, box)
        BRepGProp.VolumeProperties_s(solid, exact)
        deflection, angle = float(data["deflection"]), float(data["angle"])
        if deflection < 0.0:
            deflection *= -box.CornerMin().Distance(box.CornerMax())
        for _ in range(max_rounds):
            BRepTools.Clean_s(solid)  # else faces that are fine enough stay, and no longer fit their neighbours
            BRepMesh_IncrementalMesh(solid, deflection, False, angle, True)
            parts = list(_triangles(solid))
            corners = np.vstack([points[triangles] for points, triangles in parts])
            volume = float(np.einsum("ij,ij->", corners[:, 0], np.cross(corners[:, 1], corners[:, 2]))) / 6.0
            finer = float(data["loss"]) / max(abs(abs(volume / exact.Mass()) - 1.0), 1e-12) if exact.Mass() else np.inf
            if finer >= 1.0:
                break
            deflection, angle = deflection * finer, angle * finer**0.5
        for points, triangles in parts:
            vertices.append(points)
            faces.append(triangles + start)
            owner.append(np.full(len(triangles), k))
            start += len(points)
    return {
        "names": np.array([name for _, name, _ in solids]),
        "colors": np.array([color for _, _, color in solids]),
        "vertices": np.vstack(vertices),
        "faces": np.vstack(faces),
        "solid": np.concatenate(owner),
    }


def _solids(path: str) -> list[tuple[Any, str, str]]:
    """Solids of a STEP file where the assembly has them, their names, and their colours like "#ff8000"; "" for none."""
    from OCP.collections import Sequence_TDF_Label
    from OCP.IFSelect import IFSelect_RetDone
    from OCP.STEPCAFControl import STEPCAFControl_Reader
    from OCP.TCollection import TCollection_ExtendedString
    from OCP.TDataStd import TDataStd_Name
    from OCP.TDocStd import TDocStd_Document
    from OCP.TopAbs import TopAbs_SOLID
    from OCP.TopExp import TopExp_Explorer
    from OCP.TopLoc import TopLoc_Location
    from OCP.XCAFDoc import XCAFDoc_DocumentTool, XCAFDoc_ShapeTool

    document = TDocStd_Document(TCollection_ExtendedString("XmlOcaf"))
    reader = STEPCAFControl_Reader()
    reader.SetNameMode(True)
    reader.SetColorMode(True)
    if reader.ReadFile(path) != IFSelect_RetDone or not reader.Transfer(document):
        raise ValueError("it is no STEP file, or a damaged one")
    colors = XCAFDoc_DocumentTool.ColorTool_s(document.Main())
    out = []

    def collect(label: Any, place: Any, name: str) -> None:
        found = TDataStd_Name()
        name = found.Get().ToExtString() if label.FindAttribute(TDataStd_Name.GetID_s(), found) else name
        if XCAFDoc_ShapeTool.IsAssembly_s(label):
            parts = Sequence_TDF_Label()
            XCAFDoc_ShapeTool.GetComponents_s(label, parts)
            for i in range(parts.Length()):
                part, whole = parts.Value(i + 1), type(label)()
                XCAFDoc_ShapeTool.GetReferredShape_s(part, whole)
                collect(whole, place * XCAFDoc_ShapeTool.GetLocation_s(part), name)
            return
        shape = XCAFDoc_ShapeTool.GetShape_s(label)
        explorer = TopExp_Explorer(shape.Moved(place), TopAbs_SOLID)
        while explorer.More():
            out.append((explorer.Current(), name, _color(colors, shape)))
            explorer.Next()

    tops = Sequence_TDF_Label()
    XCAFDoc_DocumentTool.ShapeTool_s(document.Main()).GetFreeShapes(tops)
    for i in range(tops.Length()):
        collect(tops.Value(i + 1), TopLoc_Location(), "")
    return out


def _color(colors: Any, shape: Any) -> str:
    """Colour of a shape, of its surface or of itself; "" for none."""
    from OCP.Quantity import Quantity_Color
    from OCP.XCAFDoc import XCAFDoc_ColorGen, XCAFDoc_ColorSurf

    found = Quantity_Color()
    if any(colors.GetColor(shape, kind, found) for kind in (XCAFDoc_ColorSurf, XCAFDoc_ColorGen)):
        return str(Quantity_Color.ColorToHex_s(found, True).ToCString()).lower()
    return ""


def _triangles(solid: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the points [mm] (n, 3) and the outward triangles (m, 3) of every face of a solid."""
    from OCP.BRep import BRep_Tool
    from OCP.TopAbs import TopAbs_FACE, TopAbs_REVERSED
    from OCP.TopExp import TopExp_Explorer
    from OCP.TopLoc import TopLoc_Location
    from OCP.TopoDS import TopoDS

    explorer = TopExp_Explorer(solid, TopAbs_FACE)
    while explorer.More():
        face, place = TopoDS.Face(explorer.Current()), TopLoc_Location()
        mesh = BRep_Tool.Triangulation_s(face, place)
        if mesh is None:
            raise ValueError("a face of a solid cannot be cut into triangles")
        moved = [mesh.Node(i + 1).Transformed(place.Transformation()) for i in range(mesh.NbNodes())]
        triangles = np.array([mesh.Triangle(i + 1).Get() for i in range(mesh.NbTriangles())])[:, -3:] - 1
        turned = face.Orientation() == TopAbs_REVERSED
        yield np.array([(p.X(), p.Y(), p.Z()) for p in moved]), triangles[:, ::-1] if turned else triangles
        explorer.Next()


def _step_of_triangles(data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Write closed STL files [mm] as named solids of one STEP file; triangles in one plane become one face."""
    from OCP.IFSelect import IFSelect_RetDone
    from OCP.STEPCAFControl import STEPCAFControl_Writer
    from OCP.STEPControl import STEPControl_AsIs
    from OCP.TCollection import TCollection_ExtendedString
    from OCP.TDataStd import TDataStd_Name
    from OCP.TDocStd import TDocStd_Document
    from OCP.XCAFDoc import XCAFDoc_DocumentTool

    document = TDocStd_Document(TCollection_ExtendedString("XmlOcaf"))
    tool = XCAFDoc_DocumentTool.ShapeTool_s(document.Main())
    for name, file in zip(data["names"], data["files"]):
        label = tool.AddShape(_sewn(str(file)), False)
        TDataStd_Name.Set_s(label, TCollection_ExtendedString(str(name)))
    writer = STEPCAFControl_Writer()
    writer.SetNameMode(True)
    if not writer.Transfer(document, STEPControl_AsIs) or writer.Write(str(data["path"])) != IFSelect_RetDone:
        raise ValueError("the solids could not be written")
    return {"written": np.array(len(data["names"]))}


def _sewn(file: str) -> Any:
    """Return the solid that the triangles of an STL file bound."""
    from OCP.BRepBuilderAPI import BRepBuilderAPI_MakeSolid, BRepBuilderAPI_Sewing
    from OCP.ShapeUpgrade import ShapeUpgrade_UnifySameDomain
    from OCP.StlAPI import StlAPI_Reader
    from OCP.TopAbs import TopAbs_SHELL
    from OCP.TopExp import TopExp_Explorer
    from OCP.TopoDS import TopoDS, TopoDS_Shape

    triangles, sewing, solid = TopoDS_Shape(), BRepBuilderAPI_Sewing(), BRepBuilderAPI_MakeSolid()
    if not StlAPI_Reader().Read(triangles, file):
        raise ValueError(f"{file} could not be read")
    sewing.Add(triangles)
    sewing.Perform()
    explorer = TopExp_Explorer(sewing.SewedShape(), TopAbs_SHELL)
    while explorer.More():
        solid.Add(TopoDS.Shell(explorer.Current()))
        explorer.Next()
    joined = ShapeUpgrade_UnifySameDomain(solid.Solid(), True, True, False)
    joined.Build()
    return joined.Shape()


def _c3d(data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    import ezc3d

    path = str(data["path"])
    if sys.platform != "win32":
        import resource

        least, ratio = (
            1.5e9,
            40.0,
        )  # bytes of the interpreter, and of memory for one in the file; damaged counts ask for more
        most, hard = int(least + ratio * os.path.getsize(path)), resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    file = ezc3d.c3d(path)
    group = file["parameters"]["POINT"]
    known = {key: group[key]["value"] for key in group if "value" in group[key]}
    labels = [label for key in ("LABELS", *(f"LABELS{i}" for i in range(2, 9))) for label in known.get(key, [])]
    return {
        "points": np.asarray(file["data"]["points"]),
        "residuals": np.asarray(file["data"]["meta_points"]["residuals"]),
        "labels": np.array(labels, dtype=str),
        "units": np.array((known.get("UNITS") or [""])[0]),
        "screen": np.array((known.get("Y_SCREEN") or [""])[0]),
        "rate": np.array(float(group["RATE"]["value"][0])),
    }


ENGINES = {
    "tetgen": _tetgen,
    "pytetwild": _pytetwild,
    "Open CASCADE": _step,
    "STEP writer": _step_of_triangles,
    "ezc3d": _c3d,
}


def main(arguments: list[str]) -> int:
    """Mesh the arrays of the first file into the second; return the exit status."""
    source, target = arguments
    with np.load(source) as file:
        data = {key: file[key] for key in file.files}
    if (
        data["cpu_seconds"] >= 0 and sys.platform != "win32"
    ):  # which counts no processor time; the wall's limit holds there
        import resource

        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        most = int(data["cpu_seconds"])  # below the hard limit, whose signal says nothing of the cause
        most = most if hard == resource.RLIM_INFINITY else max(min(most, hard - 1), 1)
        resource.setrlimit(resource.RLIMIT_CPU, (most, hard))
    try:
        result = ENGINES[str(data["engine"])](data)
    except (ArithmeticError, LookupError, MemoryError, OSError, RuntimeError, TypeError, ValueError) as error:
        sys.stderr.write((" ".join(str(error).split()) or type(error).__name__) + "\n")
        return 3
    np.savez(target, **result)  # type: ignore[arg-type]
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
