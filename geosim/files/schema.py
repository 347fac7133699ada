"""The tables of a robot.toml: which keys exist and of what type. Meaning is checked where they are used."""

from __future__ import annotations

from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, create_model

from geosim.collision.shapes import KINDS, LENGTH

Vector = list[float]
# Keys of all shapes of obstacles, and what stands there: a mesh is read from a file, of others come lengths and vectors.
_OBSTACLE_KEYS: dict[str, Any] = {
    key: str if key == "surface" else float if kind.parameters[key] == LENGTH else Vector
    for kind in KINDS.values()
    for key in kind.keys
}


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


_ANY_SHAPE: Any = create_model(
    "_ANY_SHAPE", __base__=Table, **cast(Any, {key: (sort | None, None) for key, sort in _OBSTACLE_KEYS.items()})
)


class ObstacleTable(_ANY_SHAPE):
    """[[environment.obstacles]]; beside these keys those of `KINDS`, as far as they go with the shape."""

    shape: Literal[tuple(KINDS)]  # type: ignore[valid-type]
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


class DesignTable(Table):
    """[design]: the generator and the dimensions [SI] that the surfaces come from."""

    name: str
    parameters: dict[str, Any] = {}


class RobotFile(Table):
    """What the robot.toml of every kind has; what is Any is validated where it is read."""

    kind: str
    units: Literal["m", "cm", "mm", "in"]
    environment: Any = None
    solver: Any = None


class VolumetricFile(RobotFile):
    """A whole robot.toml of kind = "volumetric"."""

    name: str | None = None
    allow_any_size: bool = False
    body: BodyTable | None = None
    bodies: list[BodyTable] | None = None
    chambers: list[ChamberTable] = []
    cables: list[CableTable] = []
    design: DesignTable | None = None
    fixed: Any = None
    tip: Any = None


class SectionTable(Table):
    """[rod] section."""

    width: float | None = None
    height: float | None = None
    outer: float | None = None
    inner: float | None = None


class RodTable(Table):
    """[rod]."""

    radius: float | list[float] | None = None
    material: Any = None
    section: SectionTable | None = None


class ShellTable(Table):
    """[shell]."""

    thickness: float | list[float] | None = None
    material: Any = None
    bending: Literal["hinge", "mid-edge"] = "hinge"
    constants: Literal["plate", "published", "matlab"] = "plate"


class LimbTable(Table):
    """[[limbs]]."""

    start: Vector
    end: Vector
    nodes: int
    radius: float | None = None
    material: Any = None


class RodShellFile(RobotFile):
    """A whole robot.toml of kind = "rod-shell"."""

    name: str | None = None
    geometry: str | None = None
    limbs: list[LimbTable] | None = None
    rod: RodTable = RodTable()
    shell: ShellTable = ShellTable()
    fixed: Any = None
    planar: bool | Literal["xz", "xy", "yz"] = False
    masses: dict[str, float] | None = None


class SnakeFile(RobotFile):
    """A whole robot.toml of kind = "snake"; [snake] holds the arguments of `make_snake`."""

    snake: dict[str, Any] = {}
