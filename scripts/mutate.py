"""Mutate the kernels and formulas, run their tests, and report which mutations no test detects.

    python scripts/mutate.py --count 50                 a sample of 50 mutations of all kernels and formulas
    python scripts/mutate.py --count 20 rods/ --seed 3  another sample, of files whose path contains "rods/"
    python scripts/mutate.py --faults                   the faults of scripts/faults.toml
    python scripts/mutate.py --faults cable             those whose name contains "cable"

Cosmic Ray (`pip install 'geosim[mutation]'`) makes the mutations: an operator, a comparison or a number of a kernel, or of a
function of the folders in FORMULAS. Package and tests are copied to a temporary folder first. The tests of a module are those
of its folder that name the module or, if none does, all of the folder. The exit status is 1 if a mutation survives.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from count_house import is_kernel

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT_S = 600.0  # for the tests of one mutation
FORMULAS = ("material", "measures", "response/derivatives")  # folders whose functions are formulas
# Swaps that change a result: one for each operator, so that a sample is not filled with shifts of bits.
OPERATORS = (
    *(f"core/ReplaceBinaryOperator_{swap}" for swap in ("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "Pow_Mul")),
    *(f"core/ReplaceComparisonOperator_{swap}" for swap in ("Lt_GtE", "Gt_LtE", "LtE_Gt", "GtE_Lt", "Eq_NotEq")),
    *("core/ReplaceUnaryOperator_Delete_USub", "core/ReplaceAndWithOr", "core/ReplaceOrWithAnd", "core/NumberReplacer"),
)


@dataclass(frozen=True)
class Fault:
    """A change of a file, its new text, and the arguments of pytest that are to detect it."""

    name: str
    path: str
    text: str
    tests: tuple[str, ...]


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.ClassDef]]:
    """Yield the functions and classes of a module by their dotted names."""
    stack: list[tuple[str, ast.AST]] = [("", tree)]
    while stack:
        before, node = stack.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                yield before + child.name, child
                stack.append((f"{before}{child.name}.", child))


def spans(path: Path) -> list[tuple[int, int]]:
    """Return the lines of a module that are mutated: kernels, and all functions of a folder of formulas."""
    folder = path.relative_to(ROOT / "geosim").parent.as_posix()
    found = [n for _, n in functions(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, ast.FunctionDef)]
    return [(n.lineno, n.end_lineno or n.lineno) for n in found if folder in FORMULAS or is_kernel(n)]


def tests_of(path: Path) -> tuple[str, ...]:
    """Return the tests of a module: files of its folder in tests/ that name it, else the nearest folder with tests."""
    folder = ROOT / "tests" / path.relative_to(ROOT / "geosim").parent
    while not any(folder.glob("test_*.py")) and folder != ROOT / "tests":
        folder = folder.parent
    name = re.compile(rf"\b{path.stem}\b")
    named = [p for p in sorted(folder.glob("test_*.py")) if name.search(p.read_text(encoding="utf-8"))]
    return tuple(p.relative_to(ROOT).as_posix() for p in named or [folder])


def mutations(words: list[str], count: int, seed: int) -> list[Fault]:
    """Return a sample of mutations of the files whose path contains one of the words; of no words, of all."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    places = []
    for path in sorted((ROOT / "geosim").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        lines = spans(path) if not words or any(word in name for word in words) else []
        nodes = list(ast_nodes(get_ast(path.read_text(encoding="utf-8")))) if lines else []
        for operator in OPERATORS if lines else ():
            made = get_operator(operator)()
            starts = [start for node in nodes for start, _ in made.mutation_positions(node)]
            inside = [any(first < line <= last for first, last in lines) for line, _ in starts]
            places += [(path, operator, k, starts[k][0]) for k, kept in enumerate(inside) if kept]
    out = []
    for path, operator, k, line in random.Random(seed).sample(places, min(count, len(places))):
        text = mutate_code(path.read_text(encoding="utf-8"), get_operator(operator)(), k)
        name = path.relative_to(ROOT).as_posix()
        out.append(Fault(f"{name}:{line} {operator.removeprefix('core/')}", name, text, tests_of(path)))
    return out


def faults(words: list[str]) -> list[Fault]:
    """Return the faults of scripts/faults.toml whose name contains one of the words; of no words, all.

    Raises
    ------
    ValueError
        The right text does not occur once in its function.
    """
    rows = tomllib.loads((ROOT / "scripts" / "faults.toml").read_text(encoding="utf-8"))["fault"]
    return [fault(row) for row in rows if not words or any(word in row["name"] for word in words)]


def fault(row: dict[str, str]) -> Fault:
    """Return the fault of a row: `wrong` in place of `right` in a function of a file."""
    path, _, name = row["place"].partition("::")
    source = (ROOT / path).read_text(encoding="utf-8")
    found = dict(functions(ast.parse(source))).get(name) if name else ast.parse(source)
    inside = "" if found is None else source if not name else ast.get_source_segment(source, found) or ""
    if inside.count(row["right"]) != 1:
        raise ValueError(f"{row['name']}: {row['right']!r} occurs {inside.count(row['right'])} times in {row['place']}")
    text = source.replace(inside, inside.replace(row["right"], row["wrong"]))
    return Fault(row["name"], path, text, tuple(shlex.split(row["tests"])))


def copied(folder: Path) -> None:
    """Copy the package, its tests and what they read."""
    for part in ("geosim", "tests", "meshes", "calibration", "scripts"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    shutil.copy(ROOT / "pyproject.toml", folder)


def outcome(folder: Path, planted: Fault) -> str:
    """Return "caught", "SURVIVED" or "NOT RUN" of a fault in the copy, which is mended again."""
    path = folder / planted.path
    source = path.read_text(encoding="utf-8")
    path.write_text(planted.text, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *planted.tests]
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return "caught"
    finally:
        path.write_text(source, encoding="utf-8")
    if done.returncode in (1, 2) or done.returncode < 0:  # 2: an import fails; negative: the interpreter ends
        return "caught"
    return "SURVIVED" if done.returncode == 0 else "NOT RUN"


def main() -> int:
    """Plant what is asked for; return whether anything survived."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("words", nargs="*", help="parts of file paths, or of names with --faults")
    parser.add_argument("--faults", action="store_true", help="plant the faults of scripts/faults.toml")
    parser.add_argument("--count", type=int, default=50, help="mutations of the sample")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    given = parser.parse_args()
    chosen = faults(given.words) if given.faults else mutations(given.words, given.count, given.seed)
    ends: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="geosim-mutations-") as name:
        copied(Path(name))
        for planted in chosen:
            start = time.perf_counter()
            end = outcome(Path(name), planted)
            ends[end] = ends.get(end, 0) + 1
            print(f"{end:9s}{time.perf_counter() - start:6.1f} s  {planted.name}", flush=True)
    print(", ".join(f"{count} {end}" for end, count in sorted(ends.items())) or "nothing to plant")
    return int("SURVIVED" in ends)


if __name__ == "__main__":
    sys.exit(main())
