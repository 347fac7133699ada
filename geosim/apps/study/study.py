"""A study: what is varied, how every design is solved, and what is measured of it; read from a STUDY.toml or a dict.

Whatever is wrong with it is said in one line with the file and the key, before a design is solved.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np

from geosim.apps.study import measures
from geosim.apps.study.expressions import Expression, MeasuredColumn
from geosim.apps.study.goals import (
    Constraint,
    DesignGoal,
    RobotDraws,
    read_about,
    read_constraint,
    read_draws,
    read_goal,
    spoken_of,
)
from geosim.apps.study.job import Job
from geosim.apps.study.sampling import Axis, Row, read_axis, read_list, rows
from geosim.apps.study.schema import MeasuresTable, MeshTable, SamplingTable, StudyFile
from geosim.arguments import suggestion
from geosim.arrays import METRES_PER_UNIT
from geosim.errors import InputError
from geosim.files.actuation import actuation_kinds, read_actuation
from geosim.files.messages import Place
from geosim.files.robot import fill, make_solver
from geosim.files.schema import EnvironmentTable
from geosim.files.values import inside, read_material, validated
from geosim.generate import ALL_GENERATORS, GENERATORS, ROD_GENERATORS, Design
from geosim.generate.dimensions import Dimension, dimensions
from geosim.model.actuation import Actuation
from geosim.resources import read_toml
from geosim.rods.stepper import RodShellStepper

INFLATION_KEYS = ("volume_ratio", "pressure_kpa")  # may stand in [actuation] itself


@dataclass(frozen=True)
class Study:
    """A validated study.

    Parameters
    ----------
    name
        Of its file without the suffix.
    file
        Its tables.
    place
        Its file, for messages.
    text
        Its TOML.
    base
        Tables of the robot file that it varies; None for a design.
    """

    name: str
    file: StudyFile
    place: Place
    text: str = field(repr=False)
    base: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def folder(self) -> Path:
        """Where the files lie that its designs are made of."""
        path = self.place.path.resolve().parent
        return path if self.file.robot is None else (path / self.file.robot).parent

    @cached_property
    def dimensions(self) -> Mapping[str, Dimension]:
        """Dimensions of the design by their keys; empty for a robot file."""
        if self.base is not None:
            return {}
        finger = self.file.fixed.get("finger", "pneunet")
        return dimensions(_generator(self.file.design), GENERATORS.get(str(finger)))

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """What is varied."""
        spot = self.place.at("vary")
        axes = tuple(read_axis(key, given, spot.at(key)) for key, given in self.file.vary.items())
        for axis in axes:
            if axis.key in self.file.fixed:
                raise spot.at(axis.key).error("is also in [fixed]; remove one of them")
            for value in axis.values or (axis.low, axis.high):
                self.check(axis.key, value, spot.at(axis.key))
        return axes

    @cached_property
    def rows(self) -> list[Row]:
        """Values of what is varied, one row a design."""
        spot, sampling = self.place.at("sampling"), self.file.sampling
        if sampling.method != "list":
            if sampling.file is not None:
                raise spot.at("file").error(f'= {sampling.file!r} goes with method = "list"')
            return rows(self.axes, sampling, spot)
        if self.axes:
            raise self.place.at("vary").error('does not go with method = "list", whose file says every design')
        return read_list(sampling, spot, self.check)

    @property
    def keys(self) -> list[str]:
        """Names of what is varied: columns of the table."""
        return [axis.key for axis in self.axes] or list(self.rows[0])

    @cached_property
    def goals(self) -> tuple[DesignGoal, ...]:
        """What `optimize` is to reach; empty where the study does not say."""
        return self._asked("goals", read_goal)

    @cached_property
    def _draws(self) -> RobotDraws | None:
        """What robots do over what their designs do; None where no file says."""
        asked = self.file.optimize
        if asked is None or asked.draws is None:
            return None
        return read_draws(asked.draws, asked.share, self.place.at("optimize", "draws"))

    @cached_property
    def constraints(self) -> tuple[Constraint, ...]:
        """What a design must keep to."""
        return self._asked("constraints", read_constraint)

    def _asked(self, key: str, read: Callable[[str, Place], Any]) -> tuple[Any, ...]:
        """Return the sentences under a key of [optimize] as they are read, each for the share of the robots."""
        spot = self.place.at("optimize", key)
        return tuple(replace(read(text, spot), draws=self._draws) for text in getattr(self.file.optimize, key, ()))

    @property
    def columns(self) -> list[str]:
        """Measures in the table: those of the study, and those that its goals and constraints speak of."""
        return list(self.expressions)

    @cached_property
    def expressions(self) -> Mapping[str, Expression]:
        """What is in the columns of measures, by their heads."""
        found = dict(self._columns)
        for goal in self.goals:
            found.setdefault(goal.of.text, goal.of)
        for constraint in self.constraints:
            for side in (constraint.of, constraint.limit):
                if not side.constant:
                    found.setdefault(side.text, side)
        taken = {"run", "status", "message", "seconds", "memory_mb", "pareto", *self.keys}
        return {f"{head} (measured)" if head in taken else head: of for head, of in found.items()}

    @cached_property
    def _columns(self) -> Mapping[str, Expression]:
        """[measures] columns by their heads."""
        place = self.place.at("measures", "columns")
        if self.file.measures is None:
            usual = MeasuresTable().columns
            texts = [f"{m}@{case}" if case else m for case in (self.file.cases or ("",)) for m in usual]
        else:
            texts = self.file.measures.columns
        found: dict[str, Expression] = {}
        for text in texts:
            name, of = _read_column(text, place)
            if found.setdefault(name, of) != of:
                raise place.error(f"= {text!r}: another column is called {name!r}")
        return found

    @cached_property
    def cases(self) -> Mapping[str, Actuation | None]:
        """What is commanded in every case, None where nothing is; "" is the case without a name."""
        out: dict[str, Actuation | None] = {}
        for name, table in self._commands.items():
            place = self.place.at("cases", name, "actuation") if name else self.place.at("actuation")
            out[name] = read_actuation(table, place) if table else None
        return out

    @cached_property
    def _commands(self) -> Mapping[str, dict[str, Any]]:
        """Tables of the actuation file of every case; a case without its own has that of the study."""
        own = {"": self.file.actuation} if self.alone else {}
        given = {name: case.actuation for name, case in self.file.cases.items()}
        return {k: _commanded(self.file.actuation if table is None else table) for k, table in (own | given).items()}

    @cached_property
    def alone(self) -> bool:
        """Whether designs are solved without a case, too: where there are no cases, or a measure asks for it."""
        if not self.file.cases or not self.file.actuation:
            return not self.file.cases
        spoken = [*(c for of in self._columns.values() for c in of.columns), *self.sought.values()]
        return any(not c.case and c.name not in measures.DESIGN_MEASURES for c in spoken)

    def measured(self, row: Mapping[str, Any]) -> dict[str, float]:
        """Return the measures of a run that the study speaks of, by their text; nan where one is missing."""
        out: dict[str, float] = {}
        for expression in [*self.expressions.values(), *(g.of for g in self.goals)]:
            for column in expression.columns:
                number = None if column.command is None else measures.command_number(column, self.cases[column.case])
                value = measures.value_of(column, row, number)
                out[str(column)] = np.nan if value is None else value
        return out

    def alone_at(self, design: Mapping[str, Any]) -> Study:
        """Return the study of one design.

        Raises
        ------
        InputError
            A value is missing, of an unknown dimension, or impossible.
        """
        for key in self.keys:
            if key not in design:
                raise self.place.at("vary", key).error(f"is not given; say --at {key}=VALUE")
        for key in design:
            if key not in self.keys:
                raise InputError(
                    f"--at {key}: is not varied{suggestion(key, self.keys)}; there are {', '.join(self.keys)}"
                )
        one = {"vary": {key: [value] for key, value in design.items()}, "sampling": SamplingTable(), "optimize": None}
        return replace(self, name=f"{self.name}-at", file=self.file.model_copy(update=one))

    def check(self, key: str, value: Any, place: Place) -> None:
        """Refuse a parameter that does not exist, or a value that it cannot have.

        Raises
        ------
        InputError
            So it is.
        """
        if key == "material":
            read_material(value, place)
        elif self.base is not None:
            with place.naming():
                put(dict(self.base), key, value)
        elif key not in self.dimensions:
            raise place.error(
                f"is no dimension of {_name(self.file.design)}{suggestion(key, self.dimensions)}; "
                f"it has {', '.join(self.dimensions)}"
            )
        else:
            with place.naming():
                self.dimensions[key].si(value)

    @cached_property
    def sought(self) -> dict[str, MeasuredColumn]:
        """Measures that goals and constraints speak of, by their text."""
        return spoken_of(self.goals, self.constraints)

    def beside(self, row: Mapping[str, Any], key: str) -> dict[str, Any]:
        """Return "slopes" or "bars" of a run for what is sought, at the last commands."""
        out = {}
        for text, column in self.sought.items():
            of_case = row.get("cases", {}).get(column.case, {}) if column.case else row
            if column.name in measures.DESIGN_MEASURES and not column.case and self.file.cases and not self.alone:
                of_case = next(iter(row.get("cases", {}).values()), {})
            if column.command is None and column.name in of_case.get(key, {}):
                out[text] = of_case[key][column.name]
        return out

    def job(self, row: Row, *, confirmed: bool = False) -> Job:
        """Return one design with everything that is needed to solve it; `confirmed`: with bars of its mesh."""
        given = {**self.file.fixed, **row}
        material = given.pop("material", self.file.material)
        parameters, table = self._parameters(given), dict(self.base or {})
        if self.base is not None:
            for key, value in given.items():
                table = put(table, key, value)
        for key in ("environment", "solver"):
            if added := getattr(self.file, key):
                table[key] = {**table.get(key, {}), **added}
        around = table.get("environment", {})
        cases = {
            name: {
                "environment": {**around, **case.environment},
                "actuation": self._commands[name],
                "mesh": (case.mesh or self.file.mesh).model_dump(),
            }
            for name, case in self.file.cases.items()
        }
        spoken = {column.name for of in self.expressions.values() for column in of.columns}
        return Job(
            design=None if self.base is not None else _name(self.file.design),
            parameters=parameters,
            material=material,
            table=table,
            mesh=self.file.mesh.model_dump(),
            actuation=self._commands.get("", {}),
            files=self._files([table, material, cases]),
            seconds=self.file.limits.seconds,
            memory=int(self.file.limits.memory_gb * 1e9),
            cases=cases,
            alone=self.alone,
            asked=tuple(sorted(spoken & {"tip_stiffness_n_m"})),
            slopes=self._sloped() if self.goals else {},
            sloped=tuple(sorted({column.name for column in self.sought.values()})),
            confirmed=confirmed,
        )

    def _parameters(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments of the generator [SI]; none for a robot file."""
        if self.base is not None:
            return {}
        known = self.dimensions
        defaults = {d.name: d.default for d in dimensions(_generator(self.file.design)).values()}
        return defaults | {known[key].name: known[key].si(value) for key, value in given.items()}

    def _sloped(self) -> dict[str, tuple[str, float]]:
        """Dimensions that measures are differentiated by: those that a range varies."""
        ranges = [axis.key for axis in self.axes if not axis.values and axis.key in self.dimensions]
        return {key: (self.dimensions[key].name, self.dimensions[key].scale) for key in ranges}

    def _files(self, tables: Any) -> dict[str, bytes]:
        """Files of the study's folder that the tables name."""
        if isinstance(tables, dict | list):
            values = tables.values() if isinstance(tables, dict) else tables
            return {name: data for value in values for name, data in self._files(value).items()}
        if isinstance(tables, str) and re.search(r"\.\w+$", tables) and os.path.isfile(self.folder / tables):
            return {tables: inside(tables, Place(self.folder / "robot.toml")).read_bytes()}
        return {}


def read_study(study: str | Path | Mapping[str, Any]) -> Study:
    """Return a validated study.

    Parameters
    ----------
    study
        A STUDY.toml or its tables as a dict; in a dict, `design` may also be a function with named dimensions that
        returns a `Design`, in a module that can be imported.

    Raises
    ------
    InputError
        A key is unknown, a value impossible, or a file missing; file and key are named.
    """
    if isinstance(study, Mapping):
        table, place = dict(study), Place(Path("study"))
    else:
        table, place = read_toml(Path(study), "study"), Place(Path(study))
    file: StudyFile = validated(StudyFile, table, place)
    if (file.design is None) == (file.robot is None):
        raise place.error('needs either design = "pneunet" or robot = "robot.toml"')
    base = None
    if file.robot is not None:
        base = read_toml(inside(file.robot, place.at("robot")), "robot file")
        if not isinstance(base.get("units"), str) or base["units"] not in METRES_PER_UNIT:
            raise place.at("robot").error(f'= {file.robot!r}: units is missing there; write units = "mm"')
    if isinstance(study, Mapping):
        import tomli_w

        text = tomli_w.dumps({k: v if k != "design" else _name(v) for k, v in table.items()})
    else:
        text = place.path.read_text(encoding="utf-8-sig")
    read = Study(place.path.stem, file, place, text, base)
    _check(read)
    return read


def _check(study: Study) -> None:
    """Read everything once that a design will be made of."""
    file, place = study.file, study.place
    if study.base is None:
        _check_design(file, place)
    if file.material is not None:
        study.check("material", file.material, place)
    validated(EnvironmentTable, file.environment, place.at("environment"))
    for key, value in file.fixed.items():
        study.check(key, value, place.at("fixed", key))
    given = _meshed(file.mesh, place)
    if study.base is not None and not {"body", "bodies"} & study.base.keys() and (given or file.material is not None):
        raise place.error(f"material and [mesh] are for robots with a [body], which {file.robot} has not")
    _check_cases(study)
    _check_measures(study)
    study.job(study.rows[0] if file.optimize is None else {axis.key: axis.at(0.0) for axis in study.axes})


def _check_design(file: StudyFile, place: Place) -> None:
    """Refuse a generator that there is not, and settings that do not go with it."""
    if isinstance(file.design, str) and file.design not in ALL_GENERATORS:
        near, known = suggestion(file.design, ALL_GENERATORS), ", ".join(ALL_GENERATORS)
        raise place.at("design").error(f"= {file.design!r} is unknown{near}; use one of {known}")
    if not isinstance(file.design, str) and not inspect.isfunction(file.design):
        raise place.at("design").error(f"= {file.design!r} must be the name of a generator")
    rods = file.design in ROD_GENERATORS
    if file.solver and rods:
        fill(RodShellStepper, file.solver, place.at("solver"))
    elif file.solver:
        make_solver(file.solver, place.at("solver"))
    if rods and _meshed(file.mesh, place):
        raise place.at("mesh").error(f"is for bodies; {file.design} has rods: vary or fix its edges")
    if file.material is None and "material" not in file.vary:
        raise place.at("material").error('is missing; write material = "ecoflex-00-30"')


def _check_cases(study: Study) -> None:
    """Read every case."""
    file, place = study.file, study.place
    spots = {place.at("actuation"): file.actuation}
    for name, case in file.cases.items():
        spot = place.at("cases", name)
        if not re.fullmatch(r"[A-Za-z][\w-]*", name):
            raise spot.error("is no name of a case: letters, digits, _ and -, a letter first")
        validated(EnvironmentTable, case.environment, spot.at("environment"))
        _meshed(case.mesh, spot)
        if case.actuation is not None:
            spots[spot.at("actuation")] = case.actuation
    for spot, actuation in spots.items():
        for key in actuation:
            kin = sorted((*INFLATION_KEYS, *actuation_kinds(), "units"), key=lambda k: not k.startswith(key))
            if key not in kin:
                near = f", did you mean {kin[0]!r}?" if kin[0].startswith(key) else suggestion(key, kin)
                raise spot.at(key).error(f"is not an actuation{near}; use one of {', '.join(sorted(kin))}")


def _meshed(mesh: MeshTable | None, place: Place) -> list[str]:
    """Return what a table [mesh] asks for, at most one thing."""
    given = [key for key, value in (mesh.model_dump() if mesh else {}).items() if value]
    if len(given) > 1:
        raise place.at("mesh").error(f"has {' and '.join(given)}; give one of them")
    return given


def _check_measures(study: Study) -> None:
    """Read all that is said of measures: columns, goals, constraints, draws."""
    place = study.place
    spoken = [(place.at("measures", "columns"), of.columns) for of in study._columns.values()]
    spoken += [(place.at("optimize", "goals"), goal.of.columns) for goal in study.goals]
    spoken += [(place.at("optimize", "constraints"), one.columns) for one in study.constraints]
    for where, columns in spoken:
        measures.check(columns, where, study.cases, unnamed=study.alone)
    names = {column.name for column in study.sought.values()}
    if (draws := study._draws) is not None and not names & draws.ratios.keys():
        raise place.at("optimize", "draws").error(
            f"has {', '.join(draws.ratios)}, none of which a goal or a constraint speaks of ({', '.join(sorted(names))})"
        )


def _commanded(actuation: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of an actuation file; what inflates may stand without its own."""
    flat = {key: value for key, value in actuation.items() if key in INFLATION_KEYS}
    return {k: v for k, v in actuation.items() if k not in flat} | ({"inflation": flat} if flat else {})


def _read_column(text: str, place: Place) -> tuple[str, Expression]:
    """Return the head of a column and what is in it: an expression, or NAME = EXPRESSION."""
    head, sign, rest = text.partition("=")
    if sign and not re.fullmatch(r"\s*[A-Za-z_]\w*\s*", head):
        raise place.error(f"= {text!r}: {head.strip()!r} is no name of a column")
    of = read_about(rest if sign else text, text, place)
    return head.strip() if sign else of.text, of


def _generator(design: str | Callable[..., Design]) -> Callable[..., Any]:
    return ALL_GENERATORS[design] if isinstance(design, str) else design


def _name(design: str | Callable[..., Design]) -> str:
    """Name of a generator, or where a function stands."""
    return design if isinstance(design, str) else f"{design.__module__}:{design.__qualname__}"


def put(table: Mapping[str, Any], key: str, value: Any) -> dict[str, Any]:
    """Return tables with another value under a dotted key; numbers count the items of a list from 0, and -1 is the last.

    Raises
    ------
    InputError
        What the key leads through is not there.
    """
    head, _, rest = key.partition(".")
    out: Any = dict(table) if isinstance(table, Mapping) else list(table)
    spot: Any = int(head) if isinstance(out, list) and (head.isdigit() or head == "-1") else head
    there = spot in out if isinstance(out, dict) else isinstance(spot, int) and -len(out) <= spot < len(out)
    if not rest:
        if not there and isinstance(out, list):
            raise InputError(f"{head!r} is not there")
        out[spot] = value
    elif not there or not isinstance(out[spot], dict | list):
        known = ", ".join(map(str, out)) if isinstance(out, dict) else f"0 .. {len(out) - 1}"
        raise InputError(f"{head!r} is not in the robot file; there is {known}")
    else:
        out[spot] = put(out[spot], rest, value)
    return cast(dict[str, Any], out)
