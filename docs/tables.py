"""Writes the pages of docs/reference/ from the code, so that they cannot be out of date: every key, option, field, status."""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel

import geosim
from geosim.cli.commands import main
from geosim.contract import Status
from geosim.files import schema
from geosim.files.actuation import actuation_kinds
from geosim.files.robot import SOLVERS

# Pages of the Python reference: title, one sentence, public names of geosim.
PYTHON = {
    "python-solve": (
        "Solve",
        "The one call, its result, and what it may raise.",
        "solve solve_many Result Report Status GeosimError InputError SolveError load_robot load_result",
    ),
    "python-robots": (
        "Robots",
        "What a robot is made of.",
        "VolumetricRobot Select Cable RodShellRobot Limb Section MultibodyRobot SnakeRobot "
        "MultibodyBuilder make_snake Valves SnakeEnvironment",
    ),
    "python-actuations": (
        "Actuations",
        "What is commanded.",
        "Inflation CableLengths CableTensions EdgeLengths FaceAreas NaturalShape Passive Syringe UndulatoryGait ValveCommands",
    ),
    "python-environment": (
        "Environment",
        "What surrounds a robot.",
        "Environment Obstacle Load Prescribed RigidGroup Fluid",
    ),
    "python-materials": (
        "Materials",
        "Hyperelastic laws and the linear one of rods and shells.",
        "NeoHookean MooneyRivlin Yeoh Gent Ogden LinearElastic",
    ),
    "python-solvers": (
        "Solvers",
        "Frozen dataclasses of options.",
        "EnergyShapeSolver ProjectiveShapeSolver RodShellStepper MultibodyStepper",
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


def write_reference(folder: Path) -> None:
    """Write all generated pages to a folder."""
    folder.mkdir(exist_ok=True)
    pages = {
        "robot-file": _robot_file(),
        "actuation-file": _actuation_file(),
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
        [f"`{name}`", _type(field.annotation), _default(field), field.description or "", *_example(field)]
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
    for name, solver in SOLVERS.items():
        rows = [[f"`{f.name}`", f"`{f.default!r}`"] for f in dataclasses.fields(solver)]
        parts.append(
            f'## [solver], name = "{name}"\n\nThe fields of `{solver.__name__}`.\n\n{_table(["key", "default"], rows)}'
        )
    return "\n".join(parts)


def _first_sentence(kind: Any) -> str:
    text = " ".join((kind.__doc__ or "").split("\n\n")[0].split())
    return re.sub(r"\s+", " ", text)


def _actuation_file() -> str:
    parts = [
        "# ACT.toml\n\nOne table for every actuation that goes together. `units` is that of cable lengths, default m.\n"
    ]
    for name, kind in sorted(actuation_kinds().items()):
        rows = [
            [f"`{f.name}{f.metadata.get('suffix', '')}`", "" if f.default is not dataclasses.MISSING else "required"]
            for f in dataclasses.fields(kind)
        ]
        parts.append(f"## [{name}]\n\n{_first_sentence(kind)}\n\n{_table(['key', ''], rows)}")
    return "\n".join(parts)


def _command_line() -> str:
    parts = [
        "# The command line\n\nExit status: 0 done; 1 the input is wrong (nothing is written) or a solve stopped early (the "
        "frames reached are written); 2 wrong arguments; 130 interrupted.\n"
    ]
    for name, command in sorted(main.commands.items()):
        rows = []
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                rows.append([f"`{', '.join(parameter.opts)}`", parameter.help or ""])
            else:
                rows.append([f"`{parameter.make_metavar(click.Context(command))}`", ""])
        text = (command.help or "").split("\b")[0].strip()
        parts.append(f"## geosim {name}\n\n{text}\n\n{_table(['option', 'meaning'], rows) if rows else ''}")
    return "\n".join(parts)


def _status() -> str:
    rows = [[f"`{status.name}`", status.value] for status in Status]
    return "# Status\n\n`result.status`, and what to do.\n\n" + _table(
        ["status", "what it means, and the remedy"], rows
    )


def _results() -> str:
    return "# Result\n\n```{eval-rst}\n.. autoclass:: geosim.Result\n   :members:\n```\n"


def _python(title: str, sentence: str, names: str) -> str:
    parts = [f"# {title}\n\n{sentence}\n\n```{{eval-rst}}"]
    for name in names.split():
        if name == "Result":
            continue
        value = getattr(geosim, name)
        module = value.__module__
        if isinstance(value, type):
            parts.append(f".. autoclass:: {module}.{name}\n   :members:\n   :exclude-members: __new__\n")
        else:
            parts.append(f".. autofunction:: {module}.{name}\n")
    return "\n".join(parts) + "\n```\n"
