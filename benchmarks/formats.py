"""The same robot as STEP, INP, MSH and hollow VTK: volumes, tip and bend angle after inflation, and how far the shapes lie apart.

    python benchmarks/formats.py            # needs the extra `step`

The robot is a finger with a round cavity, drawn in Open CASCADE and written to one STEP file with the solids "finger" and
"chamber". Its tets, without those of the chamber, are then written in the other formats, and each file is read from a robot.toml
with chambers = "cavities". One row is of another mesh of the same STEP file, for scale.
"""

from __future__ import annotations

import math
import sys
import tempfile
from pathlib import Path

import meshio
import numpy as np
from OCP.BRepPrimAPI import BRepPrimAPI_MakeBox, BRepPrimAPI_MakeCylinder
from OCP.gp import gp_Ax2, gp_Dir, gp_Pnt
from OCP.Message import Message
from OCP.STEPCAFControl import STEPCAFControl_Writer
from OCP.TCollection import TCollection_ExtendedString
from OCP.TDataStd import TDataStd_Name
from OCP.TDocStd import TDocStd_Document
from OCP.XCAFDoc import XCAFDoc_DocumentTool

import geosim
from geosim.files.robot import load_robot

RATIO = 1.2
SOLVER = geosim.EnergyShapeSolver(element="p1")  # what is compared are files, not elements
HEAD = 'kind = "volumetric"\nunits = "mm"\n'
TAIL = (
    'material = "ecoflex-00-30-fang2022"\n{edge}[fixed]\nplane = "x"\nbelow = 0.01\n[tip]\nplane = "x"\nabove = 59.99\n'
)
STEP = HEAD + '[[chambers]]\nsurface = "robot.step#chamber"\n[body]\nsurface = "robot.step#finger"\n' + TAIL
TETS = HEAD + 'chambers = "cavities"\n[body]\nmesh = "{name}"\n' + TAIL


def write_step(path: Path) -> None:
    """Write a finger of 60 x 16 x 14 mm with a cylindrical chamber nearer to its top."""
    axis = gp_Ax2(gp_Pnt(6, 0, 2), gp_Dir(1, 0, 0))
    solids = {
        "finger": BRepPrimAPI_MakeBox(gp_Pnt(0, -8, -7), 60, 16, 14).Solid(),
        "chamber": BRepPrimAPI_MakeCylinder(axis, 3.0, 48.0).Solid(),
    }
    document = TDocStd_Document(TCollection_ExtendedString("XmlOcaf"))
    tool = XCAFDoc_DocumentTool.ShapeTool_s(document.Main())
    for name, solid in solids.items():
        TDataStd_Name.Set_s(tool.AddShape(solid, False), TCollection_ExtendedString(name))
    Message.DefaultMessenger_s().ChangePrinters().Clear()  # it prints banners between the rows of the table
    writer = STEPCAFControl_Writer()
    writer.Transfer(document)
    writer.Write(str(path))


def main() -> int:
    """Print the table; return 1 if two formats give shapes that differ by more than the solver's tolerance."""
    rows, shapes = [], {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_step(folder / "robot.step")

        def solved(title: str, text: str) -> geosim.Result:
            (folder / "robot.toml").write_text(text)
            robot = load_robot(folder / "robot.toml")
            result = geosim.solve(robot, geosim.Inflation(volume_ratio=[RATIO]), solver=SOLVER)
            volumes = [robot.body_volume * 1e9, robot.chamber_volumes[0] * 1e9]
            tip = result.tip[-1] * 1e3
            rows.append((title, len(robot.body_tets), *volumes, *tip, math.degrees(result.bend_angle[-1])))
            return result

        first = solved("STEP", STEP.format(edge="max_edge = 5.0\n"))
        robot = first.robot
        used, cells = np.unique(robot.body_tets, return_inverse=True)
        points, cells = robot.vertices[used] * 1e3, cells.reshape(-1, 4)
        shapes["STEP"] = first.frames[-1][used]
        tags = {"gmsh:physical": [np.ones(len(cells), int)], "gmsh:geometrical": [np.ones(len(cells), int)]}
        writers = {
            "robot.inp": lambda path: meshio.abaqus.write(path, meshio.Mesh(points, [("tetra", cells)])),
            "robot.msh": lambda path: meshio.gmsh.write(
                path, meshio.Mesh(points, [("tetra", cells)], cell_data=tags), fmt_version="4.1"
            ),
            "robot.vtk": lambda path: meshio.vtk.write(path, meshio.Mesh(points, [("tetra", cells)])),
        }
        for file, write in writers.items():
            write(folder / file)
            shapes[file] = solved(file, TETS.format(name=file, edge="")).frames[-1][: len(used)]
        solved("STEP, coarser", STEP.format(edge="max_edge = 8.0\n"))
    heads = ("from", "tets", "body mm^3", "chamber", "tip x mm", "y", "z", "bend deg")
    sys.stdout.write("{:14}{:>7}{:>11}{:>10}{:>11}{:>9}{:>9}{:>10}\n".format(*heads))
    for row in rows:
        sys.stdout.write("{:14}{:7d}{:11.3f}{:10.3f}{:11.5f}{:9.5f}{:9.5f}{:10.5f}\n".format(*row))
    apart = max(float(np.abs(shape - shapes["STEP"]).max()) for shape in shapes.values())
    moved = float(np.abs(shapes["STEP"] - robot.vertices[used]).max())
    sys.stdout.write(
        f"vertices of the four formats are at most {apart * 1e3:.2g} mm apart, they moved {moved * 1e3:.3g} mm\n"
    )
    return int(apart > 1e-5 * moved)


if __name__ == "__main__":
    sys.exit(main())
