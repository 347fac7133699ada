"""The tables of a STUDY.toml: which keys exist and of what type. Meaning is checked where they are used."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

from geosim.files.schema import Table

__all__ = ["OptimizeTable", "RangeTable", "SamplingTable", "StudyFile"]


class RangeTable(Table):
    """{ from, to, steps, integer } in [vary]."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True)
    start: float = Field(alias="from")
    to: float
    steps: int | None = Field(default=None, ge=2)
    integer: bool = False


class SamplingTable(Table):
    """[sampling]."""

    method: Literal["grid", "random", "latin-hypercube", "list"] = "grid"
    count: int | None = Field(default=None, ge=1)
    seed: int | None = Field(default=None, ge=0)
    file: str | None = None


class MeshTable(Table):
    """[mesh]: one of the three, or none."""

    max_edge_mm: float | None = Field(default=None, gt=0)
    accuracy: float | None = Field(default=None, gt=0)
    preview: bool = False


class MeasuresTable(Table):
    """[measures]."""

    columns: list[str] = Field(default=["bend_angle_deg", "max_stretch"])


class LimitsTable(Table):
    """[limits] of one design: CPU time [s] and memory [GB]."""

    seconds: float = Field(default=600.0, gt=0)
    memory_gb: float = Field(default=4.0, gt=0)


class OptimizeTable(Table):
    """[optimize]."""

    goals: list[str] = Field(min_length=1)
    constraints: list[str] = Field(default=[])
    trials: int = Field(default=100, ge=1)
    seed: int = Field(default=0, ge=0)


class StudyFile(Table):
    """A whole STUDY.toml; what is Any is validated where it is read."""

    design: Any = None
    robot: str | None = None
    material: Any = None
    fixed: dict[str, Any] = Field(default={})
    vary: dict[str, Any] = Field(default={})
    sampling: SamplingTable = SamplingTable()
    actuation: dict[str, Any] = Field(default={})
    environment: dict[str, Any] = Field(default={})
    mesh: MeshTable = MeshTable()
    solver: dict[str, Any] = Field(default={})
    measures: MeasuresTable = MeasuresTable()
    limits: LimitsTable = LimitsTable()
    optimize: OptimizeTable | None = None
