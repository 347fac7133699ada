"""Writes the pages of docs/reference/ from the code, so that they cannot be out of date: every key, option, field, status."""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import click
from pydantic import BaseModel

import geosim
from geosim.apps.study import schema as study
from geosim.cli.commands import main
from geosim.cli.wording import meanings
from geosim.files import schema
from geosim.files.actuation import actuation_kinds
from geosim.files.robot import SOLVER_NAMES
from geosim.model.contract import Status
from geosim.model.display import later

# Pages of the Python reference: title, one sentence, public names of geosim; a module lists its own members.
PYTHON = {
    "python-solve": (
        "Solve",
        "The one call, what it may raise, and what reads files.",
        "solve solve_many Report Status GeosimError InputError SolveError load_robot load_case load_result __version__",
    ),
    "python-robots": (
        "Robots",
        "What a robot is made of.",
        "VolumetricRobot Select Cable Layer Fibre RodShellRobot Limb Section MultibodyRobot SnakeRobot "
        "MultibodyBuilder make_snake Valves",
    ),
    "python-generate": ("Designs", "Robots from a few dimensions.", "generate"),
    "python-actuations": (
        "Actuations",
        "What is commanded.",
        "Actuation Inflation CableLengths CableTensions EdgeLengths FaceAreas NaturalShape Passive SupplyLine Syringe "
        "UndulatoryGait ValveCommands",
    ),
    "python-environment": (
        "Environment",
        "What surrounds a robot.",
        "Environment Obstacle Load Prescribed RigidGroup Fluid",
    ),
    "python-materials": (
        "Materials",
        "Hyperelastic laws, the linear law of rods and shells, and the presets.",
        "NeoHookean MooneyRivlin Yeoh Gent Ogden LinearElastic materials",
    ),
    "python-solvers": (
        "Solvers",
        "Frozen dataclasses of options.",
        "EnergyShapeSolver EnergyShapeStepper ProjectiveShapeSolver RodShellStepper MultibodyStepper",
    ),
    "python-questions": (
        "Questions about a result",
        "Slopes, error bars, and the command that reaches a goal.",
        "sensitivity Sensitivity RodMotion error_bars ErrorBars Tolerances adapt solve_for Goal Inverse time_to_pressure",
    ),
    "python-measured": (
        "Measurements",
        "Materials from tests, and robots against markers, scans and load tests.",
        "calibrate compare condition Posterior",
    ),
    "python-studies": ("Studies", "Many designs: tables, searches, surrogates.", "sweep optimize surrogate Surrogate"),
    "python-made": (
        "What is made of a robot",
        "Moulds, reduced models, models of other simulators.",
        "make Made reduce ReducedModel write_mjcf",
    ),
}
ROBOT_FILES = {"volumetric": schema.VolumetricFile, "rod-shell": schema.RodShellFile, "snake": schema.SnakeFile}
TABLES: dict[str, tuple[str, type[BaseModel], str]] = {  # heading: where it stands in the file, its keys, a sentence
    "[body], [[bodies]]": ("body", schema.BodyTable, "A solid of one material."),
    "[[chambers]]": ("chambers", schema.ChamberTable, "A closed cavity that can be inflated."),
    "[fixed], [tip], vertices = {...}": (
        "fixed",
        schema.SelectionTable,
        "Which vertices; several rules in one table all hold.",
    ),
    "[[cables]]": ("cables", schema.CableTable, "A cable through points of the body."),
    "[design]": ("design", schema.DesignTable, "The generator that the robot came from."),
    "[tolerances]": ("tolerances", schema.TolerancesTable, "How well the robot is known, for its error bars."),
    "[environment]": ("environment", schema.EnvironmentTable, "What surrounds the robot."),
    "[[environment.obstacles]]": (
        "obstacles",
        schema.ObstacleTable,
        "A rigid solid; the keys beside `shape` go with it.",
    ),
    "[[environment.loads]]": ("loads", schema.LoadTable, "A dead load."),
    "[[environment.prescribed]]": ("prescribed", schema.PrescribedTable, "Displacements that are given."),
    "[[environment.rigid_groups]]": ("rigid_groups", schema.RigidGroupTable, "Vertices that move as one body."),
    "[environment.fluid]": ("fluid", schema.FluidTable, "Drag of a resting fluid (rods and shells)."),
    "[rod]": ("rod", schema.RodTable, "Of a rod-shell robot."),
    "[rod] section": ("section", schema.SectionTable, "A cross-section that is not round."),
    "[shell]": ("shell", schema.ShellTable, "Of a rod-shell robot."),
    "[[limbs]]": ("limbs", schema.LimbTable, "A straight rod between two points."),
}
STUDY_TABLES: dict[str, tuple[type[BaseModel], str]] = {
    "[vary], a value": (study.RangeTable, "A range in place of a list of choices."),
    "[sampling]": (study.SamplingTable, "Which designs of [vary] a sweep solves."),
    "[mesh]": (study.MeshTable, "One of the three, or none."),
    "[measures]": (study.MeasuresTable, "What the table holds of each design, at the last command."),
    "[limits]": (study.LimitsTable, "At which a design is ended."),
    "[optimize]": (study.OptimizeTable, "What a search looks for."),
}
ACTUATIONS = {  # of each what a file may say
    "cable_lengths": "length = [[55.0], [50.0]]  # one cable, two commands",
    "cable_tensions": "tension = [0.5, 1.0]",
    "edge_lengths": "edges = [[0, 1], [1, 2]]\nratio = [0.9, 0.8]",
    "face_areas": "faces = [[0, 1, 2]]\nratio = [0.9]",
    "inflation": "pressure_kpa = [5.0, 10.0]  # or volume_ratio; [[5, 0], [10, 0]]: two chambers",
    "natural_shape": "times = [0.0, 0.5]\ncurvature = [0.0, 10.0]",
    "passive": "duration = 1.0\nsteps = 10",
    "supply_line": "conductance = 1e-9\ndead_volume_mm3 = 200.0  # with [inflation] pressure_kpa, the source",
    "syringe": "volumes_mm3 = [500.0, 1000.0]",
    "undulatory_gait": "amplitude_kpa = 40.0\nfrequency = 1.0\nphase_lag = 1.5\nduration = 2.0",
    "valve_commands": "times = [0.0, 0.5]\npressures_kpa = [[20, 0, -20, 0], [0, 20, 0, -20]]",
}


def write_reference(folder: Path) -> None:
    """Write all generated pages to a folder."""
    folder.mkdir(exist_ok=True)
    pages = {
        "robot-file": _robot_file(),
        "actuation-file": _actuation_file(),
        "study-file": _study_file(),
        "command-line": _command_line(),
        "status": _status(),
        "results": _results(),
        **{name: _python(*page) for name, page in PYTHON.items()},
    }
    for name, text in pages.items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text() != text:  # an unchanged page is not built again
            path.write_text(text)
    (folder / "index.md").write_text(
        "# Reference\n\nThese pages are made from the code of this version.\n\n"
        "```{toctree}\n:maxdepth: 1\n\n" + "\n".join(pages) + "\n```\n"
    )


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return (
        "\n".join("| " + " | ".join(c.replace("|", "\\|").replace("\n", " ") for c in row) + " |" for row in lines)
        + "\n"
    )


def _type(kind: Any) -> str:
    """A type as a reader of a TOML file knows it."""
    if kind is Any:
        return "see below"
    origin, given = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return " or ".join(f'"{word}"' if isinstance(word, str) else str(word).lower() for word in given)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type(k) for k in given if k is not type(None))
    if origin is list:
        return f"list of {_type(given[0])}" if given[0] is not Any else "list"
    if origin is dict:
        return "table"
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return "table"
    return {float: "number", int: "whole number", str: "text", bool: "true or false"}.get(
        kind, getattr(kind, "__name__", str(kind))
    )


def _default(field: Any) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or isinstance(value, BaseModel):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else repr(value)}`"


def _example(field: Any) -> list[str]:
    return [f"`{text}`" for text in field.examples] if field.examples else [""]


def _keys(model: type[BaseModel]) -> str:
    rows = [
        [
            f"`{field.alias or name}`",
            _type(field.annotation),
            _default(field),
            field.description or "",
            *_example(field),
        ]
        for name, field in model.model_fields.items()
    ]
    return _table(["key", "type", "default", "meaning [unit]", "example"], rows)


def _robot_file() -> str:
    parts = [
        "# robot.toml\n\nEvery length is in the `units` of the file; moduli in Pa, densities in kg/m^3, forces in N.\n"
    ]
    for kind, model in ROBOT_FILES.items():
        parts.append(f'## kind = "{kind}"\n\n{_keys(model)}')
    parts += [f"## {heading}\n\n{sentence}\n\n{_keys(model)}" for heading, (_, model, sentence) in TABLES.items()]
    for name, where in SOLVER_NAMES.items():
        solver = cast(type[Any], later(where))
        said = meanings(solver)
        rows = [[f"`{f.name}`", f"`{f.default!r}`", said[f.name]] for f in dataclasses.fields(solver) if f.name in said]
        table = _table(["key", "default", "meaning [unit]"], rows)
        parts.append(f'## [solver], name = "{name}"\n\nThe fields of `{solver.__name__}`.\n\n{table}')
    return "\n".join(parts)


def _first_sentence(kind: Any) -> str:
    text = " ".join((kind.__doc__ or "").split("\n\n")[0].split())
    return re.sub(r"\s+", " ", text)


def _actuation_file() -> str:
    parts = [
        "# ACT.toml\n\nOne table for every actuation that goes together; (k,) and (k, chambers) count commands. "
        "`units` before the first table is that of cable lengths, default m.\n"
    ]
    for name, kind in sorted(actuation_kinds().items()):
        said = meanings(kind)
        rows = [[_key(f), _start(f), _in_file(said.get(f.name, ""), f)] for f in dataclasses.fields(kind)]
        table = _table(["key", "default", "meaning [unit]"], rows)
        example = f"```toml\n[{name}]\n{ACTUATIONS[name]}\n```\n"
        parts.append(
            f"## [{name}]\n\n{_in_file(_first_sentence(kind), *dataclasses.fields(kind))}\n\n{table}\n{example}"
        )
    return "\n".join(parts)


def _key(field: dataclasses.Field[Any]) -> str:
    return f"`{field.name}{field.metadata.get('suffix', '')}`"


def _start(field: dataclasses.Field[Any]) -> str:
    """The default as the file would write it."""
    if field.default is dataclasses.MISSING:
        return "required"
    if field.default is None or field.default == ():
        return ""
    if isinstance(field.default, bool):
        return f"`{str(field.default).lower()}`"
    return f"`{field.default / field.metadata.get('factor', 1):g}`"


def _in_file(text: str, *fields: dataclasses.Field[Any]) -> str:
    """What the code says of fields [Pa], [m^3], in the unit that the file's keys name."""
    suffixes = {field.metadata.get("suffix") for field in fields}
    text = text.replace("[Pa]", "[kPa]") if "_kpa" in suffixes else text
    return text.replace("[m^3]", "[mm^3]") if "_mm3" in suffixes else text


def _study_file() -> str:
    parts = [
        "# STUDY.toml\n\nOf `geosim sweep` and `geosim optimize`, see [design studies](../design-studies.md).\n",
        _keys(study.StudyFile),
    ]
    parts += [f"## {heading}\n\n{sentence}\n\n{_keys(model)}" for heading, (model, sentence) in STUDY_TABLES.items()]
    return "\n".join(parts)


def _command_line() -> str:
    parts = [
        "# The command line\n\nExit status: 0 done; 1 the input is wrong (nothing is written) or a solve stopped early (the "
        "frames reached are written); 2 wrong arguments; 130 interrupted.\n"
    ]
    for name in main.list_commands(click.Context(main)):
        command = main.get_command(click.Context(main), name)
        parts.append(_command(f"geosim {name}", command, "##"))
        if name == "generate":
            context = click.Context(command)
            for design in command.list_commands(context):
                parts.append(_command(f"geosim generate {design}", command.get_command(context, design), "###"))
    return "\n".join(parts)


def _command(name: str, command: click.Command, level: str) -> str:
    """Sentence, usage, examples and options of a command."""
    context = click.Context(command)
    text, _, example = (command.help or "").partition("\b")[0].partition("Example: ")
    words = [p.make_metavar(context) for p in command.params if not isinstance(p, click.Option)]
    words += ["NAME"] if isinstance(command, click.Group) else []
    examples = getattr(command, "examples", ()) or example.split("\n")[:1]
    shown = "\n".join([" ".join([name, *words, "[OPTIONS]"]), *filter(None, examples)])
    rows = [[f"`{', '.join(p.opts)}`", p.help or ""] for p in command.params if isinstance(p, click.Option)]
    table = _table(["option", "meaning"], rows) if rows else ""
    return f"{level} {name}\n\n{text.strip()}\n\n```text\n{shown}\n```\n\n{table}"


def _status() -> str:
    rows = [[f"`{status.name}`", status.value] for status in Status]
    return "# Status\n\n`result.status`, and what to do.\n\n" + _table(
        ["status", "what it means, and the remedy"], rows
    )


def _results() -> str:
    return _python("Result", "What `geosim.solve` returns.", "Result")


def _python(title: str, sentence: str, names: str) -> str:
    """Entries of public names, each under the name by which a user imports it."""
    parts = [f"# {title}\n\n{sentence}\n\n```{{eval-rst}}"]
    for name in names.split():
        value = getattr(geosim, name)
        if isinstance(value, types.ModuleType):
            parts.append(f".. automodule:: geosim.{name}\n   :members:\n")
        elif isinstance(value, type):
            bases = any(base.__name__ in geosim.__all__ for base in value.__bases__)
            options = ["members:", *["show-inheritance:"] * bases, "exclude-members: __new__"]
            parts.append(f".. autoclass:: geosim.{name}\n" + "".join(f"   :{option}\n" for option in options))
        elif isinstance(value, str):
            parts.append(f".. py:data:: geosim.{name}\n\n   Version of the package, a text.\n")
        else:
            parts.append(f".. autofunction:: geosim.{name}\n")
    return "\n".join(parts) + "\n```\n"
