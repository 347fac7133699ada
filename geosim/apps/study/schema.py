"""The tables of a STUDY.toml: which keys exist and of what type. Meaning is checked where they are used."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

from geosim.files.schema import Table

# Designs of a study at most: all are drawn and checked before the first is solved, 2 KB and 0.3 ms each.
MAX_DESIGNS = 100_000


class RangeTable(Table):
    """{ from, to, steps, integer } in [vary]."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True)
    start: float = Field(alias="from", description="Least value, in the unit of the dimension.", examples=["1.0"])
    to: float = Field(description="Largest value.", examples=["3.0"])
    steps: int | None = Field(
        default=None,
        ge=2,
        le=MAX_DESIGNS,
        description="Values of a grid; without it a range to sample.",
        examples=["5"],
    )
    integer: bool = Field(default=False, description="Whole numbers only.", examples=["true"])


class SamplingTable(Table):
    """[sampling]."""

    method: Literal["grid", "random", "latin-hypercube", "list"] = Field(
        default="grid", description="All combinations, draws, or the rows of `file`.", examples=['"latin-hypercube"']
    )
    count: int = Field(default=100, ge=1, le=MAX_DESIGNS, description="Designs that are drawn.", examples=["50"])
    seed: int = Field(default=0, ge=0, description="Of the draws.", examples=["1"])
    file: str | None = Field(
        default=None, description='CSV with one column a parameter, of `method = "list"`.', examples=['"designs.csv"']
    )


class MeshTable(Table):
    """[mesh]: one of the three, or none."""

    max_edge_mm: float | None = Field(
        default=None, gt=0, description="Longest edge of the tetrahedra [mm].", examples=["10.0"]
    )
    accuracy: float | None = Field(
        default=None, gt=0, description="Refine until the tip's bar is this share of its way.", examples=["0.05"]
    )
    preview: bool = Field(default=False, description="The coarsest mesh that keeps the geometry.", examples=["true"])


class CaseTable(Table):
    """[cases.NAME]: another load of the same designs; what is left out is as in the study."""

    actuation: dict[str, Any] | None = Field(
        default=None, description="In place of [actuation].", examples=["{ pressure_kpa = [10] }"]
    )
    environment: dict[str, Any] = Field(
        default={},
        description="Added to [environment], key by key.",
        examples=['{ prescribed = [{ vertices = "tip", displacement = [0, 0, 0] }] }'],
    )
    mesh: MeshTable | None = Field(default=None, description="In place of [mesh].", examples=["{ preview = true }"])


class MeasuresTable(Table):
    """[measures]."""

    columns: list[str] = Field(
        default=["bend_angle_deg", "max_stretch"],
        description="Measures or expressions of them, `NAME = EXPRESSION` to give one a name.",
        examples=['["bend_angle_deg[10kPa]@free", "specific = blocked_force_n@blocked / mass_g"]'],
    )


class LimitsTable(Table):
    """[limits] of one design: CPU time [s] and memory [GB]."""

    seconds: float = Field(
        default=600.0,
        gt=0,
        allow_inf_nan=False,
        description="Of CPU time; five times that in all [s].",
        examples=["120.0"],
    )
    memory_gb: float = Field(default=4.0, gt=0, le=1e6, description="Of memory [GB].", examples=["8.0"])


class OptimizeTable(Table):
    """[optimize]."""

    goals: list[str] = Field(
        min_length=1,
        description="`maximize C`, `minimize C` or `target C VALUE` of an expression C; the first decides first.",
        examples=['["target bend_angle_deg 90", "minimize mass_g"]'],
    )
    constraints: list[str] = Field(
        default=[],
        description="`C <= VALUE` or `C >= VALUE`; both may be expressions.",
        examples=['["max_stretch <= 2.0"]'],
    )
    draws: str | None = Field(
        default=None,
        description="A CSV of what robots do over what their designs do, a measure a column (`Posterior.ratios`).",
        examples=['"ratios.csv"'],
    )
    share: float = Field(
        default=0.95,
        gt=0,
        lt=1,
        description="With `draws`: the share of robots that reach the value of a goal and keep to the constraints.",
        examples=["0.9"],
    )
    trials: int = Field(default=100, ge=1, description="Designs that are solved.", examples=["16"])
    confirm: int = Field(
        default=2,
        ge=0,
        description="How often the best is held against a refined mesh, which corrects the search.",
        examples=["0"],
    )
    seed: int = Field(default=0, ge=0, description="Of what is proposed.", examples=["1"])


class StudyFile(Table):
    """A whole STUDY.toml; what is Any is validated where it is read."""

    design: Any = Field(default=None, description="A generator (`geosim generate` lists them).", examples=['"pneunet"'])
    robot: str | None = Field(
        default=None, description="A robot file in place of a generator.", examples=['"robot.toml"']
    )
    material: Any = Field(default=None, description="A preset or a material file.", examples=['"ecoflex-00-30"'])
    fixed: dict[str, Any] = Field(
        default={},
        description="Dimensions of every design, with their unit; of a robot file quoted dotted keys.",
        examples=["{ chambers = 4 }"],
    )
    vary: dict[str, Any] = Field(
        default={},
        description="What differs: a list of choices, or a range (below).",
        examples=["{ wall_mm = [1.5, 2.0] }"],
    )
    sampling: SamplingTable = Field(default=SamplingTable(), description="See below.")
    actuation: dict[str, Any] = Field(
        default={},
        description="As in an ACT.toml; `pressure_kpa` and `volume_ratio` may stand alone.",
        examples=["{ pressure_kpa = [10] }"],
    )
    environment: dict[str, Any] = Field(
        default={}, description="As in a robot file.", examples=["{ gravity = [0, 0, -9.81] }"]
    )
    mesh: MeshTable = Field(default=MeshTable(), description="See below.")
    solver: dict[str, Any] = Field(default={}, description="As in a robot file.", examples=['{ element = "p1" }'])
    cases: dict[str, CaseTable] = Field(default={}, description="Loads beside each other, by name; see below.")
    measures: MeasuresTable | None = Field(default=None, description="See below.")
    limits: LimitsTable = Field(default=LimitsTable(), description="See below.")
    optimize: OptimizeTable | None = Field(default=None, description="See below; of `geosim optimize`.")
