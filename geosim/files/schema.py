"""The tables of a robot.toml: which keys exist and of what type. Meaning is checked where they are used."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Vector = list[float]


class Table(BaseModel):
    """Root of all tables: no unknown keys, no conversions."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class SelectionTable(Table):
    """[fixed], [tip] and every `vertices = {...}`."""

    plane: Literal["x", "y", "z"] | None = None
    below: float | None = None
    above: float | None = None
    box: list[Vector] | None = None
    sphere: Vector | None = None
    radius: float | None = None
    nearest: Vector | None = None
    count: int | None = None
    surface: str | None = None
    within: float | None = None
    ids: list[int] | None = None


class BodyTable(Table):
    """[body], [[bodies]]."""

    name: str | None = None
    surface: str | None = None
    mesh: str | None = None
    region: int | None = None
    material: Any = None
    max_edge: float | None = None


class ChamberTable(Table):
    """[[chambers]]."""

    surface: str
    name: str | None = None


class CableTable(Table):
    """[[cables]]."""

    points: list[Vector]
    name: str | None = None


class ObstacleTable(Table):
    """[[environment.obstacles]]."""

    shape: Literal["sphere", "cylinder", "box", "plane", "mesh"]
    center: Vector | None = None
    radius: float | None = None
    start: Vector | None = None
    end: Vector | None = None
    lower: Vector | None = None
    upper: Vector | None = None
    point: Vector | None = None
    normal: Vector | None = None
    surface: str | None = None
    friction: float = 0.0
    motion: list[Any] | None = None


class LoadTable(Table):
    """[[environment.loads]]."""

    kind: Literal["force", "traction"]
    vertices: Any = None
    total_force: list[Any] | None = None
    faces: Any = None
    t: list[Any] | None = None


class PrescribedTable(Table):
    """[[environment.prescribed]]."""

    vertices: Any
    displacement: list[Any]


class RigidGroupTable(Table):
    """[[environment.rigid_groups]]; rotation [rad], moment [N m]."""

    vertices: Any
    displacement: list[Any] | None = None
    rotation: list[Any] | None = None
    force: list[Any] | None = None
    moment: list[Any] | None = None
    point: Vector | None = None


class FluidTable(Table):
    """[environment.fluid]."""

    density: float
    viscosity: float = 0.0
    drag_coefficient: float = 0.0


class EnvironmentTable(Table):
    """[environment]."""

    gravity: Vector = [0.0, 0.0, 0.0]
    obstacles: list[ObstacleTable] = []
    loads: list[LoadTable] = []
    prescribed: list[PrescribedTable] = []
    fluid: FluidTable | None = None
    self_contact: bool = True
    self_friction: float = 0.0
    exclude_pairs: list[list[str]] = []
    rigid_groups: list[RigidGroupTable] = []


class RobotFile(Table):
    """A whole robot.toml of kind = "volumetric"."""

    kind: Literal["volumetric"]
    units: Literal["m", "cm", "mm", "in"]
    name: str | None = None
    allow_any_size: bool = False
    body: BodyTable | None = None
    bodies: list[BodyTable] | None = None
    chambers: list[ChamberTable] = []
    cables: list[CableTable] = []
    fixed: Any = None
    tip: Any = None
    environment: EnvironmentTable = EnvironmentTable()
    solver: dict[str, Any] = {}
