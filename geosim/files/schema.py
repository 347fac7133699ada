"""The tables of a robot.toml: which keys exist and of what type. Meaning is checked where they are used."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model, model_validator
from pydantic_core import PydanticCustomError

from geosim.arguments import suggestion
from geosim.collision.shapes import KINDS, LENGTH, OBSTACLES, kind_of
from geosim.entries import entries
from geosim.errors import InputError
from geosim.model.cable import Cable
from geosim.model.environment import Environment, Fluid, Obstacle
from geosim.model.tolerances import Tolerances

Vector = list[float]

# Keys of all shapes of obstacles, and what stands there: a mesh is read from a file, of others come lengths and vectors.
_OBSTACLE_KEYS: dict[str, Any] = {
    key: str if key == "surface" else float if kind.parameters[key] == LENGTH else Vector
    for kind in KINDS.values()
    for key in kind.keys
}


class Table(BaseModel):
    """Root of all tables: no unknown keys, no conversions."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, defer_build=True
    )  # a file needs few of the tables


class SelectionTable(Table):
    """[fixed], [tip] and every `vertices = {...}`."""

    plane: Literal["x", "y", "z"] | None = Field(
        default=None,
        description="Vertices on one side of a plane across this axis; with `below` or `above`.",
        examples=['"x"'],
    )
    below: float | None = Field(
        default=None, description="Coordinate up to which vertices count [units].", examples=["0.1"]
    )
    above: float | None = Field(
        default=None, description="Coordinate from which vertices count [units].", examples=["99.9"]
    )
    box: list[Vector] | None = Field(
        default=None, description="Two opposite corners [units].", examples=["[[0, 0, 0], [1, 20, 20]]"]
    )
    sphere: Vector | None = Field(
        default=None, description="Centre [units]; with `radius`.", examples=["[100, 10, 10]"]
    )
    radius: float | None = Field(default=None, description="Of the sphere [units].", examples=["5.0"])
    nearest: Vector | None = Field(
        default=None, description="The vertices nearest to a point [units]; with `count`.", examples=["[100, 10, 10]"]
    )
    count: int | None = Field(default=None, description="How many vertices, default 1.", examples=["3"])
    surface: str | None = Field(
        default=None, description="Vertices on a surface from a file; with `within`.", examples=['"plate.stl"']
    )
    within: float | None = Field(default=None, description="Distance from that surface [units].", examples=["0.1"])
    ids: list[int] | None = Field(
        default=None, description="Vertex numbers of a tetrahedral mesh file.", examples=["[0, 1, 2]"]
    )


class BodyTable(Table):
    """[body], [[bodies]]."""

    name: str | None = Field(
        default=None, description="Shown in messages; named by `exclude_pairs`.", examples=['"palm"']
    )
    surface: str | None = Field(
        default=None, description="Closed surface, STL, OBJ, PLY or OFF, beside the file.", examples=['"body.stl"']
    )
    mesh: str | None = Field(
        default=None, description="Tetrahedral mesh, VTU or MSH, instead of surfaces.", examples=['"robot.vtu"']
    )
    region: int | None = Field(default=None, description="Region number of this body in the mesh.", examples=["0"])
    material: Any = Field(
        default=None,
        description="A preset, a material file, or a table {model = ..., constants [Pa]}.",
        examples=['"ecoflex-00-30"'],
    )
    state: str | None = Field(
        default=None,
        description="Of a material file with cycles: first pull or conditioned; error bars hold what is not said.",
        examples=['"conditioned"'],
    )
    hold_s: float | None = Field(
        default=None,
        description="How long loads are held [s], of a material file with a relaxation.",
        examples=["60.0"],
    )
    max_edge: float | None = Field(
        default=None,
        description="Longest edge of the tetrahedra [units]; default from the thinnest walls.",
        examples=["6.0"],
    )


class ChamberTable(Table):
    """[[chambers]]."""

    surface: str = Field(description="Closed surface of the cavity.", examples=['"chamber.stl"'])
    name: str | None = Field(default=None, description="Shown in messages, pictures and tables.", examples=['"left"'])


class RemeshTable(Table):
    """`remesh = { ... }`."""

    distance: float = Field(description="How far surfaces may move [units].", examples=["0.05"])


class CableTable(Table):
    """[[cables]]."""

    points: list[Vector] = Field(
        description="Points [units] that the cable passes through.", examples=["[[0, 10, 16], [100, 10, 16]]"]
    )
    friction: float = Field(default=Cable.friction, description="Coefficient at the points between.", examples=["0.2"])
    pulled: Literal["first", "last"] = Field(
        default="first",
        description="At which point it is pulled; at the other end it is fastened.",
        examples=['"last"'],
    )
    name: str | None = Field(default=None, description="Shown in messages.", examples=['"flexor"'])


class LayerTable(Table):
    """[[layers]]."""

    faces: dict[str, Any] | None = Field(
        default=None,
        description='Selection of the faces it covers, with `of = "skin"`, "chamber:0" or "any".',
        examples=['{ plane = "z", below = 0.1, of = "skin" }'],
    )
    surface: str | None = Field(
        default=None, description="Or a surface inside the body, from a file.", examples=['"paper.stl"']
    )
    thickness: float = Field(description="[units]", examples=["0.3"])
    material: Any = Field(
        description="As of a body, or linear-elastic.", examples=['{ model = "linear-elastic", youngs_modulus = 2e9 }']
    )


class FibreTable(Table):
    """[[fibres]]."""

    points: list[Vector] = Field(
        description="Points [units] of the polyline along which it is bonded.",
        examples=["[[0, 10, 16], [100, 10, 16]]"],
    )
    radius: float = Field(description="Of its section [units].", examples=["0.1"])
    material: Any = Field(
        description="As of a body, or linear-elastic.", examples=['{ model = "linear-elastic", youngs_modulus = 3e9 }']
    )
    tension_only: bool = Field(default=True, description="Whether it gives way when shortened.", examples=["false"])


_ANY_SHAPE: Any = create_model(
    "_ANY_SHAPE", __base__=Table, **cast(Any, {key: (sort | None, None) for key, sort in _OBSTACLE_KEYS.items()})
)


def _other_shape(shape: str) -> str:
    try:
        kind_of(shape)
    except InputError as error:
        raise ValueError(str(error)) from None
    return shape


_Shape = Literal[tuple(KINDS)] | Annotated[str, AfterValidator(_other_shape)]  # type: ignore[valid-type]


class ObstacleTable(_ANY_SHAPE):  # type: ignore[misc]  # its base is made when this is read
    """[[environment.obstacles]]; beside these keys those of `KINDS`, as far as they go with the shape."""

    model_config = ConfigDict(extra="allow")  # keys of shapes that are entry points; `_own_keys` refuses others

    shape: _Shape = Field(  # type: ignore[valid-type]
        description="What kind of solid; its keys go with it.", examples=['"sphere"']
    )
    friction: float = Field(default=Obstacle.friction, description="Coefficient of friction.", examples=["0.3"])
    motion: list[Any] | None = Field(
        default=None,
        description="Displacement [units] or pose (4 x 4) at every command.",
        examples=["[[0, 0, -2], [0, 0, -4]]"],
    )
    free: bool = Field(default=False, description="Whether it moves by weight, contact, friction.", examples=["true"])
    mass: float | None = Field(default=None, description="Of a free one [kg].", examples=["0.05"])
    released: int = Field(
        default=Obstacle.released, description="For how many commands a free one is held first.", examples=["2"]
    )

    @model_validator(mode="before")
    @classmethod
    def _own_keys(cls, table: Any) -> Any:
        """Refuse a key that the shape does not have, and name those that it has."""
        shape = table.get("shape") if isinstance(table, dict) else None
        if isinstance(shape, str) and (shape in KINDS or shape in entries(OBSTACLES, KINDS)):
            known = [*kind_of(shape).keys, "friction", "motion", "free", "mass", "released"]
            for key in table.keys() - {*known, "shape"}:
                said = (
                    f"{key} does not go with shape = {shape!r}{suggestion(str(key), known)}; it has {', '.join(known)}"
                )
                raise PydanticCustomError("foreign_key", "{said}", {"said": said})
        return table


class LoadTable(Table):
    """[[environment.loads]]."""

    kind: Literal["force", "traction", "pressure", "torque", "moment"] = Field(
        description="A total force, a dead traction or follower pressure on faces, a torque (turns along) or moment (fixed "
        "axes) on edges of rods.",
        examples=['"force"'],
    )
    vertices: Any = Field(
        default=None, description="Of a force: a selection.", examples=['{ plane = "x", above = 99.9 }']
    )
    total_force: list[Any] | None = Field(
        default=None, description="[N], one or one a command.", examples=["[0, 0, -0.1]"]
    )
    faces: Any = Field(
        default=None, description="Of a traction or pressure: vertex ids of the faces.", examples=["[[0, 1, 2]]"]
    )
    t: list[Any] | None = Field(
        default=None, description="Traction [Pa], one or one a command.", examples=["[0, 0, -500]"]
    )
    p: float | list[float] | None = Field(
        default=None,
        description="Pressure [Pa] against the outward normal, which follows the faces; one or one a command.",
        examples=["500"],
    )
    edges: list[int] | None = Field(
        default=None, description="Of a torque or moment: numbers of edges.", examples=["[19]"]
    )
    torque: float | list[float] | None = Field(
        default=None, description="[N m] about each edge, one or one a command.", examples=["2e-4"]
    )
    moment: list[Any] | None = Field(
        default=None, description="[N m] about fixed axes, one or one a command.", examples=["[0, 0, 2e-4]"]
    )


class PrescribedTable(Table):
    """[[environment.prescribed]]."""

    vertices: Any = Field(description="A selection.", examples=['{ plane = "x", above = 99.9 }'])
    displacement: list[Any] = Field(
        description="[units], one or one a command; nan leaves a component free.", examples=["[0, 0, -5]"]
    )


class RigidGroupTable(Table):
    """[[environment.rigid_groups]]; rotation [rad], moment [N m]."""

    vertices: Any = Field(description="A selection.", examples=['{ plane = "x", above = 99.9 }'])
    displacement: list[Any] | None = Field(
        default=None,
        description="Of the reference point [units]; nan leaves a component free.",
        examples=["[nan, nan, 2]"],
    )
    rotation: list[Any] | None = Field(
        default=None, description="Rotation vector from rest [rad]; absent: it turns freely.", examples=["[0.5, 0, 0]"]
    )
    force: list[Any] | None = Field(default=None, description="At the reference point [N].", examples=["[0, 0, -1]"])
    moment: list[Any] | None = Field(default=None, description="[N m], about fixed axes.", examples=["[0, 0.01, 0]"])
    point: Vector | None = Field(
        default=None,
        description="Reference point at rest [units]; default the middle of the group.",
        examples=["[100, 10, 10]"],
    )


class FluidTable(Table):
    """[environment.fluid]."""

    density: float = Field(description="[kg/m^3]", examples=["1000.0"])
    viscosity: float = Field(default=Fluid.viscosity, description="[Pa s]", examples=["0.1"])
    drag_coefficient: float = Field(
        default=Fluid.drag_coefficient, description="Of drag that grows with the square of the speed.", examples=["1.0"]
    )


class EnvironmentTable(Table):
    """[environment]."""

    gravity: Vector = Field(default=list(Environment.gravity), description="[m/s^2]", examples=["[0, 0, -9.81]"])
    obstacles: list[ObstacleTable] = Field(default=[], description="See below.")
    loads: list[LoadTable] = Field(default=[], description="See below.")
    prescribed: list[PrescribedTable] = Field(default=[], description="See below.")
    fluid: FluidTable | None = Field(default=None, description="See below.")
    self_contact: bool = Field(
        default=True, description="Whether parts of the robot hold each other apart.", examples=["false"]
    )
    self_friction: float = Field(
        default=Environment.self_friction,
        description="Coefficient of friction between parts of the robot.",
        examples=["0.5"],
    )
    exclude_pairs: list[list[str]] = Field(
        default=[], description="Pairs of bodies that do not see each other.", examples=['[["palm", "finger_1"]]']
    )
    rigid_groups: list[RigidGroupTable] = Field(default=[], description="See below.")


class DesignTable(Table):
    """[design]: the generator and the dimensions [SI] that the surfaces come from."""

    name: str = Field(description="Of the generator.", examples=['"pneunet"'])
    parameters: dict[str, Any] = Field(default={}, description="Its dimensions [SI].", examples=["{ wall = 2e-3 }"])


class TolerancesTable(Table):
    """[tolerances]: half-widths of 95 % intervals of what a robot was made and is measured like, for error bars."""

    wall: float = Field(
        default=Tolerances.wall, description="How far a surface may lie from where it was drawn.", examples=["0.2"]
    )
    gauge_kpa: float = Field(default=Tolerances.gauge, description="How far the gauge may be off.", examples=["0.1"])
    clamp_deg: float = Field(default=Tolerances.clamp, description="How far the support may turn.", examples=["0.5"])
    marker: float = Field(
        default=Tolerances.marker, description="How far from the tip the marker may sit.", examples=["0.5"]
    )
    model: float = Field(
        default=Tolerances.model,
        description="What the model leaves out, a share of the change since rest.",
        examples=["0.1"],
    )


class RobotFile(Table):
    """What the robot.toml of every kind has; what is Any is validated where it is read."""

    kind: str = Field(description="Which kind of robot.", examples=['"volumetric"'])
    units: Literal["m", "cm", "mm", "in"] = Field(
        description="Of every length in the file and in its surfaces.", examples=['"mm"']
    )
    environment: Any = Field(default=None, description="See below.")
    actuation: Any = Field(
        default=None,
        description="Actuation file in the same folder, or its tables as [actuation.inflation] and so on.",
        examples=['"actuation.toml"'],
    )
    solver: Any = Field(default=None, description="See below.")


class VolumetricFile(RobotFile):
    """A whole robot.toml of kind = "volumetric"."""

    name: str | None = Field(default=None, description="Shown in results; default the folder.", examples=['"finger"'])
    allow_any_size: bool = Field(default=False, description="Take bodies under 2 mm or over 5 m.", examples=["true"])
    body: BodyTable | None = Field(default=None, description="The one body; or `bodies`.")
    bodies: list[BodyTable] | None = Field(default=None, description="Several bodies, which may touch.")
    chambers: list[ChamberTable] | Literal["cavities"] = Field(
        default=[],
        description='See below; or "cavities": every cavity that the body encloses.',
        examples=['"cavities"'],
    )
    rescue: bool = Field(
        default=False, description="Repair surfaces that would be refused, and say what changed.", examples=["true"]
    )
    simplify: float | None = Field(
        default=None,
        description="Coarsen the surfaces within this distance instead of remeshing; 0 keeps all triangles.",
        examples=["0.1"],
    )
    remesh: bool | RemeshTable | None = Field(
        default=None,
        description="Replace triangles smaller than `max_edge` before meshing (default, except for designs); false: keep "
        "them; { distance = 0.05 }: the largest distance to the given surfaces.",
        examples=["false", "{ distance = 0.05 }"],
    )
    preview: bool = Field(
        default=False, description="Take the coarsest mesh that keeps the geometry.", examples=["true"]
    )
    symmetry: Literal["auto", "x", "y", "z"] | None = Field(
        default=None,
        description="Mesh one half of the surfaces and mirror it in the middle plane normal to this axis.",
        examples=['"auto"'],
    )
    inlet: Literal["close"] | None = Field(
        default=None,
        description="Close a chamber that runs out through the skin by a wall there, and say where.",
        examples=['"close"'],
    )
    inlet_depth: float = Field(default=0.0, description="How deep below the skin bores are closed.", examples=["2"])
    cables: list[CableTable] = Field(default=[], description="See below.")
    layers: list[LayerTable] = Field(default=[], description="See below.")
    fibres: list[FibreTable] = Field(default=[], description="See below.")
    design: DesignTable | None = Field(default=None, description="See below.")
    tolerances: TolerancesTable | None = Field(default=None, description="See below.")
    fixed: Any = Field(
        default=None,
        description='Selection of what is held, or "none": a free body.',
        examples=['{ plane = "x", below = 0.1 }'],
    )
    tip: Any = Field(
        default=None,
        description="Selection of what is called the tip; default the far end.",
        examples=['{ plane = "x", above = 99.9 }'],
    )


class SectionTable(Table):
    """[rod] section."""

    width: float | None = Field(default=None, description="Of a rectangle [units].", examples=["4.0"])
    height: float | None = Field(default=None, description="Of a rectangle [units].", examples=["2.0"])
    outer: float | None = Field(default=None, description="Radius of a tube [units].", examples=["5.0"])
    inner: float | None = Field(default=None, description="Radius of its bore [units].", examples=["4.0"])


class RodTable(Table):
    """[rod]."""

    radius: float | list[float] | None = Field(
        default=None, description="Of all rods, or one an edge [units].", examples=["4.0"]
    )
    material: Any = Field(
        default=None,
        description='A table {model = "linear-elastic", constants [Pa]}, or a material file.',
        examples=['{ model = "linear-elastic", youngs_modulus = 1e6 }'],
    )
    section: SectionTable | None = Field(default=None, description="A section that is not round.")
    retardation_time: float = Field(default=0.0, description="Of rods that creep [s].", examples=["0.05"])


class ShellTable(Table):
    """[shell]."""

    thickness: float | list[float] | None = Field(
        default=None, description="Of all triangles, or one a triangle [units].", examples=["0.5"]
    )
    material: Any = Field(default=None, description="As for rods.")
    bending: Literal["hinge", "mid-edge"] | None = Field(
        default=None,
        description="Bending by mid-edge normals, a plate on any mesh, or by the hinges of [Lahoti], which depend on it.",
        examples=['"mid-edge"'],
    )
    constants: Literal["plate", "published", "matlab"] = Field(
        default="plate", description="Stiffness of hinges: of a plate, or as in the two papers.", examples=['"plate"']
    )
    membrane: Literal["cst", "springs"] = Field(
        default="cst",
        description="Stretching by triangles with the material's Poisson ratio, or by springs on the edges, as published.",
        examples=['"cst"'],
    )


class LimbTable(Table):
    """[[limbs]]."""

    start: Vector = Field(description="[units]", examples=["[0, 0, 0]"])
    end: Vector = Field(description="[units]", examples=["[200, 0, 0]"])
    nodes: int = Field(description="Along the limb, both ends among them.", examples=["41"])
    radius: float | None = Field(default=None, description="[units]; default that of [rod].", examples=["4.0"])
    material: Any = Field(default=None, description="Default that of [rod].")


class RodShellFile(RobotFile):
    """A whole robot.toml of kind = "rod-shell"."""

    name: str | None = Field(default=None, description="Shown in results.", examples=['"arm"'])
    geometry: str | None = Field(
        default=None, description="File of nodes, edges and triangles.", examples=['"robot.txt"']
    )
    limbs: list[LimbTable] | None = Field(default=None, description="Or rods between points.")
    rod: RodTable = Field(default=RodTable(), description="See below.")
    shell: ShellTable = Field(default=ShellTable(), description="See below.")
    fixed: Any = Field(default=None, description="Selection of what is held.", examples=["{ ids = [0, 1] }"])
    cables: list[CableTable] = Field(default=[], description="Tendons through guides along the rods.")
    planar: bool | Literal["xz", "xy", "yz"] = Field(
        default=False, description='Motion in this plane only; true is "xz".', examples=['"xz"']
    )
    design: DesignTable | None = Field(default=None, description="See below.")
    masses: dict[str, float] | None = Field(
        default=None, description="Point masses [kg] by vertex number.", examples=['{ "40" = 0.05 }']
    )
    allow_any_size: bool = Field(default=False, description="Take robots under 1 mm or over 5 m.", examples=["true"])


class SnakeFile(RobotFile):
    """A whole robot.toml of kind = "snake"; [snake] holds the arguments of `make_snake`."""

    snake: dict[str, Any] = Field(default={}, description="Arguments of `make_snake`.", examples=["{ links = 4 }"])
