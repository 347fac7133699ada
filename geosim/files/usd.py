"""USD of a result: tetrahedra and skin with time samples, rods as curves, obstacles, materials by name.

Bodies are described as the proposal of OpenUSD for deformable bodies has them (`PhysicsDeformableBodyAPI`,
`PhysicsVolumeDeformableSimAPI`, `PhysicsVolumeDeformableMaterialAPI`), which importers of simulators read by name.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.errors import InputError
from geosim.geometry.topology import boundary_faces
from geosim.material.materials import Material
from geosim.model.materials import source_of
from geosim.model.robot import VolumetricRobot
from geosim.result import Result
from geosim.show.contact import obstacle_surfaces
from geosim.writing import replacing


def write_usd(result: Result, path: Path, unit: str) -> None:
    """Write all frames in metres, z up; the rest shape is the default value of the points.

    Raises
    ------
    InputError
        usd-core is not installed.
    """
    try:
        from pxr import Tf, Usd, UsdGeom
    except ImportError:
        raise InputError(f"{path.name}: USD needs usd-core: pip install 'geosim[usd]'") from None
    stage = Usd.Stage.CreateInMemory()
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.z)
    time_codes_per_second = 24.0  # a second of a motion, or one command of a load path
    stage.SetTimeCodesPerSecond(time_codes_per_second)
    codes = time_codes_per_second * (result.times - min(0.0, float(result.times[0])))
    stage.SetStartTimeCode(float(codes[0]))
    stage.SetEndTimeCode(float(codes[-1]))
    robot = result.robot
    root = UsdGeom.Xform.Define(stage, f"/{Tf.MakeValidIdentifier(robot.name)}")
    stage.SetDefaultPrim(root.GetPrim())
    root.GetPrim().SetDocumentation(f"{result.status.name}: {result.message}")
    place = str(root.GetPath())
    if isinstance(robot, VolumetricRobot):
        root.GetPrim().AddAppliedSchema("PhysicsDeformableBodyAPI")
        _tets(stage, f"{place}/sim", result, codes, _materials(stage, f"{place}/materials", robot))
    if len(robot.skin):
        used, faces = np.unique(robot.skin, return_inverse=True)
        mesh = UsdGeom.Mesh.Define(stage, f"{place}/skin")
        _points(mesh, robot.vertices[used], result.frames[:, used], codes)
        _faces(mesh, faces.reshape(-1, 3))
    if len(robot.edges):
        curves = UsdGeom.BasisCurves.Define(stage, f"{place}/rods")
        ends = robot.edges.ravel()
        _points(curves, robot.vertices[ends], result.frames[:, ends], codes, width=2.0 * float(robot.radius.max()))
        curves.CreateTypeAttr(UsdGeom.Tokens.linear)
        curves.CreateCurveVertexCountsAttr(np.full(len(robot.edges), 2, dtype=np.int32))
        curves.CreateWidthsAttr(2.0 * robot.radius.astype(np.float32))
        curves.SetWidthsInterpolation(UsdGeom.Tokens.uniform)
    _obstacles(stage, result, codes)
    with replacing(path) as beside:
        whole = beside.with_name(f"{beside.stem}{path.suffix}")  # the suffix says in which form USD writes
        stage.GetRootLayer().Export(str(whole))
        os.replace(whole, beside)


def _points(mesh: Any, rest: Floats, frames: Floats, codes: Floats, width: float = 0.0) -> None:
    """Write points, at rest and in every frame, with their bounds."""
    bounds = lambda x: np.array([x.min(axis=0) - 0.5 * width, x.max(axis=0) + 0.5 * width])  # noqa: E731
    for attribute, values in ((mesh.CreatePointsAttr(), lambda x: x), (mesh.CreateExtentAttr(), bounds)):
        attribute.Set(values(rest).astype(np.float32))
        for code, frame in zip(codes, frames):
            attribute.Set(values(frame).astype(np.float32), float(code))


def _faces(mesh: Any, faces: Ints) -> None:
    from pxr import UsdGeom

    mesh.CreateFaceVertexCountsAttr(np.full(len(faces), 3, dtype=np.int32))
    mesh.CreateFaceVertexIndicesAttr(faces.ravel().astype(np.int32))
    mesh.CreateSubdivisionSchemeAttr(UsdGeom.Tokens.none)


def _tets(stage: Any, place: str, result: Result, codes: Floats, materials: dict[int, Any]) -> None:
    """Write the tets of the bodies, their boundary, and which material they are of."""
    from pxr import UsdGeom, UsdShade, Vt

    robot = result.robot
    assert isinstance(robot, VolumetricRobot)
    used, tets = np.unique(robot.body_tets, return_inverse=True)
    mesh = UsdGeom.TetMesh.Define(stage, place)
    _points(mesh, robot.vertices[used], result.frames[:, used], codes)
    tets = tets.reshape(-1, 4)
    mesh.CreateTetVertexIndicesAttr(Vt.Vec4iArray.FromNumpy(np.ascontiguousarray(tets, dtype=np.int32)))
    surface = boundary_faces(tets)
    mesh.CreateSurfaceFaceVertexIndicesAttr(Vt.Vec3iArray.FromNumpy(np.ascontiguousarray(surface, dtype=np.int32)))
    mesh.CreateOrientationAttr(UsdGeom.Tokens.rightHanded)
    mesh.CreatePurposeAttr(UsdGeom.Tokens.guide)  # the skin is what is drawn
    mesh.GetPrim().AddAppliedSchema("PhysicsVolumeDeformableSimAPI")
    UsdShade.MaterialBindingAPI.Apply(mesh.GetPrim()).Bind(next(iter(materials.values())), materialPurpose="physics")
    regions = robot.regions[robot.is_body]
    if len(materials) > 1:
        for region, material in materials.items():
            ids = np.flatnonzero(regions == region).astype(np.int32)
            part = UsdGeom.Subset.CreateGeomSubset(
                mesh, f"region_{region}", UsdGeom.Tokens.tetrahedron, Vt.IntArray.FromNumpy(ids), "materialBind"
            )
            UsdShade.MaterialBindingAPI.Apply(part.GetPrim()).Bind(material, materialPurpose="physics")
        UsdGeom.Subset.SetFamilyType(mesh, "materialBind", UsdGeom.Tokens.partition)


def _materials(stage: Any, place: str, robot: VolumetricRobot) -> dict[int, Any]:
    """Write the materials, linear where other codes know no more, with all constants beside; return them by region."""
    from pxr import Sdf, Tf, UsdGeom, UsdPhysics, UsdShade

    UsdGeom.Scope.Define(stage, place)
    made: dict[str, Any] = {}
    out = {}
    incompressible_poisson_ratio = 0.49  # of materials without a bulk modulus, for codes that know no such
    for region, material in robot.materials.items():
        name = Tf.MakeValidIdentifier(_name(material))
        same = [key for key, (known, _) in made.items() if known == material]
        if not same:
            name = name if name not in made else f"{name}_{region}"
            prim = UsdShade.Material.Define(stage, f"{place}/{name}")
            UsdPhysics.MaterialAPI.Apply(prim.GetPrim()).CreateDensityAttr(float(material.density))
            prim.GetPrim().AddAppliedSchema("PhysicsVolumeDeformableMaterialAPI")
            bulk, shear = float(getattr(material, "bulk_modulus", np.inf)), float(material.shear_modulus)
            poisson = incompressible_poisson_ratio
            if np.isfinite(bulk):
                poisson = min(poisson, (3.0 * bulk - 2.0 * shear) / (6.0 * bulk + 2.0 * shear))
            for key, value in {"youngsModulus": 2.0 * shear * (1.0 + poisson), "poissonsRatio": poisson}.items():
                prim.GetPrim().CreateAttribute(f"physics:{key}", Sdf.ValueTypeNames.Float).Set(float(value))
            for key, value in material.to_dict().items():
                kind = Sdf.ValueTypeNames.String if isinstance(value, str) else Sdf.ValueTypeNames.DoubleArray
                given = value if isinstance(value, str) else [float(v) for v in np.ravel(value)]
                prim.GetPrim().CreateAttribute(f"geosim:{key}", kind, custom=True).Set(given)
            made[name] = (material, prim)
            same = [name]
        out[region] = made[same[0]][1]
    return out


def _name(material: Material) -> str:
    """Name of the preset, else of the law."""
    found = source_of(material)
    return found.partition(":")[0] if found != str(material) else material.model


def _obstacles(stage: Any, result: Result, codes: Floats) -> None:
    """Write the surfaces of obstacles where they are; free ones that were lost stay where they were last."""
    from pxr import UsdGeom

    if not result.environment.obstacles:
        return
    UsdGeom.Scope.Define(stage, "/obstacles")
    around = np.vstack([result.robot.vertices[None], result.frames]).reshape(-1, 3)
    held = np.ones_like(result.obstacle_held)
    shown = replace(result, obstacle_held=held)
    frames = [obstacle_surfaces(shown, i, around) for i in range(len(codes))]
    for o, (first, faces) in enumerate(frames[0]):
        mesh = UsdGeom.Mesh.Define(stage, f"/obstacles/obstacle_{o + 1}")
        _points(mesh, first, np.array([frame[o][0] for frame in frames]), codes)
        _faces(mesh, faces)
