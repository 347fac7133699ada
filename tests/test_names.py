"""Every backticked name in README and docs resolves: imports, members, keywords, files, tests, commands, options."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import geosim
from geosim.cli.commands import main

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXTRAS = ("torch", "jax")  # modules of geosim that import an optional dependency of the same name
FOREIGN = {
    *("TetMesh", "BasisCurves", "Mesh"),  # prims of USD
    *("SurfacePressureConstraint", "CableConstraint", "RestShapeSpringsForceField", "EulerImplicitSolver"),  # of SOFA
    "FrictionContactConstraint",
    *("EndpointForces", "MuscleTorques", "FixedJoint", "HingeJoint", "RodPlaneContact"),  # of PyElastica
    *("AnisotropicFrictionalPlane", "AnalyticalLinearDamper", "CallBackBaseClass", "rest_kappa"),
}
FOREIGN_STARTS = ("Physics", "CMake")
PATH = re.compile(r"(?:[\w.-]+/)+[\w.-]*\.(?:py|md|toml|sh|ipynb)|(?:\w+/)+|[a-z]\w*\.py")
WRITTEN = {"runs/", "best/", "result/", "table/"}  # folders that commands write


def _spans(page: Path) -> Iterator[str]:
    """Yield the inline code of a page, without the glossary's column of names that were replaced."""
    text = page.read_text(encoding="utf-8")
    yield from (line for block in re.findall(r"^```sh\n(.*?)^```", text, re.S | re.M) for line in block.split("\n"))
    text = re.sub(r"^( *)(`{3,}).*?^\1\2\s*$", "", text, flags=re.S | re.M)
    if page.name == "glossary.md":
        text = "\n".join(
            line.rstrip("| ").rpartition(" | ")[0] if line.startswith("|") else line for line in text.split("\n")
        )
        text = re.sub(r"^\|[^|]*now called.*", "", text, flags=re.M)
    yield from re.findall(r"`([^`\n]+)`", text)


@functools.cache
def _source() -> str:
    """Return the text of the package, and of all that the pages run."""
    folders = ("geosim", "benchmarks", "scripts", "calibration", "docs/gallery", "tests/fields.py")
    paths = [
        p for folder in folders for p in ([ROOT / folder] if folder.endswith(".py") else (ROOT / folder).rglob("*.py"))
    ]
    return "\n".join(p.read_text(encoding="utf-8") for p in paths)


@functools.cache
def _words() -> frozenset[str]:
    return frozenset(re.findall(r"\w+", _source()))


@functools.cache
def _definitions() -> tuple[frozenset[str], frozenset[str]]:
    """Return the classes of the package, and its arguments and fields."""
    classes, arguments = set(), set()
    for path in (ROOT / "geosim").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                classes.add(node.name)
            elif isinstance(node, ast.arg):
                arguments.add(node.arg)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                arguments.add(node.target.id)
    return frozenset(classes), frozenset(arguments)


@functools.cache
def _options() -> frozenset[str]:
    """Return the options of all commands."""

    def of(command: click.Command) -> Iterator[str]:
        context = click.Context(command)
        for parameter in command.params:
            yield from (*parameter.opts, *parameter.secondary_opts)
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                yield from of(command.get_command(context, name))

    return frozenset(of(main))


def _imported(dotted: str) -> bool:
    """Whether a dotted name is a module, or a member of one, or a field of a class there."""
    parts = dotted.split(".")
    if len(parts) > 1 and parts[1] in EXTRAS and importlib.util.find_spec(parts[1]) is None:
        return True
    found = geosim
    for i, part in enumerate(parts[1:], 2):
        if inspect.ismodule(found) and not hasattr(found, part):
            try:
                found = importlib.import_module(".".join(parts[:i]))
            except ImportError:
                return False
        elif not hasattr(found, part):
            return part in getattr(found, "__dataclass_fields__", {})
        else:
            found = getattr(found, part)
    return True


def _member(class_name: str, member: str) -> bool:
    """Whether a public class has this attribute, field or argument."""
    owner = getattr(geosim, class_name)
    fields = getattr(owner, "__dataclass_fields__", {})
    return hasattr(owner, member) or member in fields or member in inspect.signature(owner).parameters


def _is_public_class(name: str) -> bool:
    return name in geosim.__all__ and isinstance(getattr(geosim, name), type)


def _wrong_python(span: str) -> Iterator[str]:
    """Yield the imports, members, classes and keywords of a span that the package does not have."""
    for dotted in re.findall(r"(?<![\w./])geosim(?:\.[A-Za-z_]\w*)+", span):
        if (
            dotted.rpartition(".")[2] not in ("toml", "py", "md")
            and not _imported(dotted)
            and f'"{dotted}"' not in _source()
        ):
            yield dotted
    for owner, member in re.findall(r"(?<![\w.])([A-Z]\w+)\.([a-z_]\w*)", span):
        if _is_public_class(owner) and not _member(owner, member):
            yield f"{owner}.{member}"
    classes, arguments = _definitions()
    is_class = re.fullmatch(r"(?:[A-Z][a-z0-9]+){2,}", span) and not span.startswith(FOREIGN_STARTS)
    if is_class and span not in classes | FOREIGN | _words():
        yield span
    for keyword in re.findall(r"(?:\(|, )([a-z_]\w*)=(?!=)", span):
        if keyword not in arguments:
            yield f"{keyword}="
    for called, given in re.findall(r"(?:geosim\.|^)([A-Za-z]\w*)\(([^()]*)\)", span):
        if called in geosim.__all__ and callable(getattr(geosim, called)):
            known = inspect.signature(getattr(geosim, called)).parameters
            open_ended = any(p.kind is p.VAR_KEYWORD for p in known.values())  # as of a wrapper
            keywords = [] if open_ended else re.findall(r"(?:^|, )([a-z_]\w*)=", given)
            yield from (f"{called}({keyword}=)" for keyword in keywords if keyword not in known)
    if re.fullmatch(r"[a-z]+(?:_[a-z0-9]+)+", span) and not _is_word(span):
        yield span


def _is_word(name: str) -> bool:
    """Whether a name, or the name that it numbers or composes, is written in the package or its data."""
    known = _words() | _described() | FOREIGN
    numbered = re.sub(r"_\d+$", "", name)
    composed = name.rpartition("_")  # "kinetic" of f"{part}_energy"
    return bool({name, numbered, re.sub(r"(_[xyz])?_n$", "", numbered)} & known) or (
        composed[0] in known and f"}}_{composed[2]}" in _source()
    )


@functools.cache
def _described() -> frozenset[str]:
    """Return the words of the reference of files, which is written from their schemas, and of board and workbook columns."""
    data = [*(ROOT / "calibration").rglob("*.toml"), *(ROOT / "geosim" / "data").rglob("*.toml")]
    stems = {p.stem for p in [*(ROOT / "docs").rglob("*.*"), *(ROOT / "calibration").rglob("*.*")]}
    return frozenset(re.findall(r"\w+", " ".join(p.read_text(encoding="utf-8") for p in data))) | stems


def _wrong_path(span: str) -> Iterator[str]:
    """Yield the files, folders and tests of a span that are not in the repository."""
    path, _, test = span.partition("::")
    if not PATH.fullmatch(path) or path in WRITTEN or path.startswith(("runs/", "./", "board/")):
        return
    places = [
        base / path
        for base in (ROOT, ROOT / "geosim", ROOT / "docs" / "gallery", ROOT / "calibration", ROOT / "benchmarks")
    ]
    found = next((place for place in places if place.exists()), None)
    if found is None and "/" not in path:
        found = next(
            iter(p for folder in ("calibration", "geosim", "tests") for p in (ROOT / folder).rglob(path)), None
        )
    if found is None or (test and f"def {test}" not in found.read_text(encoding="utf-8")):
        yield span


def _wrong_command(span: str) -> Iterator[str]:
    """Yield the commands and options of a span that neither geosim nor a script of the repository has."""
    words = span.replace("[", " ").split()
    flags = re.findall(r"(?<![\w-])--[a-z][\w-]*", span)
    if words[:1] == ["geosim"] and len(words) > 1 and re.fullmatch("[a-z]+", words[1]):
        command = main.get_command(click.Context(main), words[1])
        if command is None:
            yield span
            return
        known = {o for p in command.params for o in (*p.opts, *p.secondary_opts)} | {"--help"}
        known |= _options() if isinstance(command, click.Group) else set()
        yield from (f"{span}: {flag}" for flag in flags if flag not in known)
    elif script := next((w for w in words if w.endswith(".py")), None):
        found = [ROOT / script] if "/" in script else list((ROOT / "benchmarks").glob(script))
        if words[0] == "python" or flags:
            if not found or not found[0].exists():
                yield span
            else:
                text = _source()  # of scripts that share their options, too
                yield from (f"{span}: {flag}" for flag in flags if f'"{flag}"' not in text)
    elif words and words[0].startswith("--"):
        yield from (flag for flag in flags if flag not in _options() and f'"{flag}"' not in _source())


def wrong(span: str) -> list[str]:
    """Return all in a span that does not resolve."""
    return [*_wrong_python(span), *_wrong_path(span), *_wrong_command(span)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_backticked_name_resolves(page):
    assert [found for span in _spans(page) for found in wrong(span)] == []


@pytest.mark.parametrize(
    "span",
    [
        "geosim.calibrate.fitt",
        "geosim.no_such_module.fit",
        "Result.nonsense",
        "EnergyShapeSolver(elements='p1')",
        "NoSuchSolver",
        "no_such_measure_at_all",
        "geosim/no_such_file.py",
        "tests/test_solve.py::test_that_is_not_there",
        "geosim solvee robot.toml",
        "geosim solve robot.toml --presure-kpa 5",
        "--no-such-option",
        "python benchmarks/no_such_script.py",
    ],
)
def test_a_wrong_name_is_found(span):
    assert wrong(span)


def test_paths_that_stay_resolve():
    assert not wrong("geosim.calibrate.fit_robot")
    assert not wrong("geosim.actuation.Inflation")
