"""Count what the package is made of: `python scripts/count_house.py [FOLDER] [--list KIND]`, default this checkout.

It prints one line a count:

- lines, statements, and statements without docstrings and imports;
- deciding numbers: numeric literals that a name, a default or an expression holds, by the place where they stand;
- functions over twelve branches (if, for, while, except, match case, conditional expression, comprehension, and, or);
- classes over six fields that their methods change after construction, fields of fields and of arguments included;
- functions with more than ten arguments that are no kernels, compiled kernels, and modules in import circles.

`--list numbers|branches|fields` prints the places, the worst first.
"""

from __future__ import annotations

import argparse
import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]*")
MOST_ARGUMENTS = 10  # of a function that is no kernel
MOST_BRANCHES = 12  # of a function that a reader follows without a map
MOST_FIELDS = 6  # of a class that change after construction
# Literals that decide nothing: identities, halves, doubles, squares, corners of a tet, axes, conversions of units.
PLAIN = {0, 1, 2, 3, 4, 0.5, 0.25, 10, 100, 1e3, 1e6, 1e9, 1e-3, 1e-6, 1e-9, 180, 360}
CONSTRUCTORS = {"__init__", "__post_init__"}
CHANGERS = {
    *("append", "appendleft", "extend", "update", "add", "discard", "remove", "insert", "setdefault"),
    *("pop", "popleft", "popitem", "clear", "sort", "fill"),
}


@dataclass(frozen=True)
class Module:
    """A file of the package: its dotted name, its path and its syntax tree."""

    name: str
    path: Path
    tree: ast.Module

    @property
    def folder(self) -> str:
        """Its folder, `shape/energy` for `geosim.shape.energy.newton.step`."""
        parts = self.name.split(".")[1:]
        return "/".join(parts[: 2 if parts[:1] in (["shape"], ["apps"]) else 1])


@dataclass(frozen=True)
class Place:
    """Where something was counted."""

    module: Module
    line: int
    name: str
    size: float

    def __str__(self) -> str:
        return f"{self.module.path}:{self.line}: {self.name} {self.size:g}"


def modules(root: Path) -> list[Module]:
    """Return the modules of a checkout."""
    out = []
    for path in sorted((root / "geosim").rglob("*.py")):
        name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        out.append(Module(name, path.relative_to(root), ast.parse(path.read_text(encoding="utf-8"))))
    return out


def effective(node: ast.AST) -> bool:
    """Whether a node is a statement that does something: no docstring and no import."""
    text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    return isinstance(node, ast.stmt) and not text and not isinstance(node, ast.Import | ast.ImportFrom)


# ---- numbers that decide


def numbers(node: ast.AST) -> list[ast.Constant]:
    """Return the numeric literals of an expression."""
    found = [n for n in ast.walk(node) if isinstance(n, ast.Constant)]
    return [n for n in found if isinstance(n.value, int | float) and not isinstance(n.value, bool)]


def literal(node: ast.AST) -> bool:
    """Whether an expression is made of numeric literals alone: `1e-3`, `(2, 0.5)`, `-0.1 * 3`."""
    parts = ast.Constant | ast.UnaryOp | ast.BinOp | ast.Tuple | ast.operator | ast.unaryop | ast.expr_context
    return bool(numbers(node)) and all(isinstance(n, parts) for n in ast.walk(node))


def parts_of(target: ast.AST, value: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Pair the names of an assignment with their values."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        yield from zip(target.elts, value.elts)
    else:
        yield target, value


def assigned(node: ast.AST) -> list[tuple[ast.AST, ast.AST]]:
    """Return the names and values of an assignment; nothing of another statement."""
    if isinstance(node, ast.Assign):
        return [pair for target in node.targets for pair in parts_of(target, node.value)]
    return [(node.target, node.value)] if isinstance(node, ast.AnnAssign) and node.value is not None else []


def constants(module: Module) -> dict[str, ast.AST]:
    """Return the names in capitals that a module assigns, with their values."""
    pairs = [pair for node in module.tree.body for pair in assigned(node)]
    return {t.id: v for t, v in pairs if isinstance(t, ast.Name) and CONSTANT.fullmatch(t.id)}


def deciding(module: Module) -> dict[str, list[Place]]:
    """Return the places of the deciding numbers of a module by kind."""
    found: dict[str, list[Place]] = {kind: [] for kind in ("module", "local", "default", "inline")}
    counted: set[int] = set()

    def note(kind: str, name: str, value: ast.AST) -> None:
        literals = numbers(value)
        counted.update(map(id, literals))
        found[kind].append(Place(module, value.lineno, name, float(literals[0].value)))  # type: ignore[attr-defined]

    for name, value in constants(module).items():
        if numbers(value):
            note("module", name, value)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ClassDef):
            for target, value in (pair for statement in node.body for pair in assigned(statement)):
                if isinstance(target, ast.Name) and numbers(value):
                    note("default", f"{node.name}.{target.id}", value)
        elif isinstance(node, ast.FunctionDef):
            given = [d for d in (*node.args.defaults, *node.args.kw_defaults) if d is not None and numbers(d)]
            for value in given:
                note("default", node.name, value)
            pairs = [pair for inner in ast.walk(node) for pair in assigned(inner)]
            times = Counter(n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
            for target, value in pairs:
                once = isinstance(target, ast.Name) and times[target.id] == 1 and literal(value)
                if once and id(numbers(value)[0]) not in counted:
                    note("local", f"{node.name}: {target.id}", value)  # type: ignore[attr-defined]
    for node in ast.walk(module.tree):
        unnamed = isinstance(node, ast.Constant) and isinstance(node.value, float) and id(node) not in counted
        if unnamed and abs(node.value) not in PLAIN:  # type: ignore[attr-defined]
            found["inline"].append(Place(module, node.lineno, "", node.value))  # type: ignore[attr-defined]
    return found


def in_data(root: Path) -> int:
    """Return the numbers of the package's data files that are no material constant, no mesh and no robot."""

    def held(value: object) -> int:
        if isinstance(value, dict | list):
            return sum(map(held, value.values() if isinstance(value, dict) else value))
        return isinstance(value, int | float) and not isinstance(value, bool)

    files = [p for p in (root / "geosim").rglob("*.toml") if not {"data", "meshes"} & set(p.parts)]
    return sum(held(tomllib.loads(path.read_text(encoding="utf-8"))) for path in files)


# ---- branches


def branches(function: ast.FunctionDef) -> int:
    """Return the branches of a function with those of functions in it."""
    splits = ast.If | ast.For | ast.While | ast.ExceptHandler | ast.IfExp | ast.comprehension | ast.match_case
    nodes = list(ast.walk(function))
    return sum(isinstance(n, splits) for n in nodes) + sum(
        len(n.values) - 1 for n in nodes if isinstance(n, ast.BoolOp)
    )


# ---- fields that change


def path_of(node: ast.AST, roots: dict[str, str]) -> str | None:
    """Return the path of an attribute below a root, `state.point` of `self.state.point[3]`; None of something else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in roots:
        return None
    return ".".join(filter(None, [roots[node.id], *reversed(parts)])) or None


def changed(node: ast.AST, roots: dict[str, str]) -> Iterator[str]:
    """Yield the fields below the roots that a statement or a call changes."""
    targets: list[ast.AST] = []
    if isinstance(node, ast.Assign | ast.Delete):
        targets = list(node.targets)
    elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For):
        targets = [node.target]
    elif isinstance(node, ast.With):
        targets = [item.optional_vars for item in node.items if item.optional_vars is not None]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGERS:
        targets = [node.func.value]
    while targets:
        target = targets.pop()
        if isinstance(target, ast.Tuple | ast.List):
            targets += target.elts
        elif isinstance(target, ast.Starred):
            targets.append(target.value)
        elif isinstance(target, ast.Attribute | ast.Subscript) and (field := path_of(target, roots)):
            yield field


def noted(annotation: ast.AST | None) -> str | None:
    """Return the class that an annotation names; None where it names none alone."""
    if isinstance(annotation, ast.Constant):
        return str(annotation.value)
    return annotation.id if isinstance(annotation, ast.Name) else None


def changing_fields(node: ast.ClassDef) -> set[str]:
    """Return the fields that methods change, of self, of their arguments and of what they make, whoever calls the methods.

    Only what `__init__` and `__post_init__` set themselves is left out: what their helpers set can be set again.
    After `here = self.state` the statement `here.x = 1` changes state.x; of an argument `now: Iterate` it changes Iterate.x.
    """
    found: set[str] = set()
    for method in node.body:
        if not isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) or method.name in CONSTRUCTORS:
            continue
        given = [*method.args.posonlyargs, *method.args.args, *method.args.kwonlyargs]
        roots = {a.arg: noted(a.annotation) or a.arg for a in given}
        roots["self"] = ""
        parts = list(ast.walk(method))
        for target, value in (pair for inner in parts for pair in assigned(inner)):
            made = value.func if isinstance(value, ast.Call) else None
            if isinstance(target, ast.Name) and isinstance(made, ast.Name) and made.id[0].isupper():
                roots[target.id] = made.id
            elif isinstance(target, ast.Name) and isinstance(value, ast.Attribute) and (field := path_of(value, roots)):
                roots[target.id] = field
        found |= {field.removeprefix(f"{node.name}.") for inner in parts for field in changed(inner, roots)}
    return found


# ---- arguments and imports


def is_kernel(node: ast.FunctionDef) -> bool:
    """Whether a function is compiled."""
    return any("kernel" in ast.dump(decorator) for decorator in node.decorator_list)


def arguments(node: ast.FunctionDef) -> int:
    """Return the number of arguments without self and cls; 0 of a function that writes the compiler's own code."""
    names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return 0 if names[:1] == ["typingctx"] else len(names) - (names[:1] in (["self"], ["cls"]))


def imported(tree: ast.Module, names: set[str]) -> set[str]:
    """Return the modules of the package that a module imports, wherever in it."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            wholes = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {whole if whole in names else node.module for whole in wholes}
    return found & names


def in_circles(graph: dict[str, set[str]]) -> set[str]:
    """Return the modules that reach themselves: modules without imports or importers are taken away until none is left."""
    left = {name: targets - {name} for name, targets in graph.items()}
    while free := [name for name, targets in left.items() if not targets & left.keys()]:
        for name in free:
            del left[name]
    while free := [
        name for name in left if not any(name in targets for other, targets in left.items() if other != name)
    ]:
        for name in free:
            del left[name]
    return set(left)


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT)
    parser.add_argument("--list", choices=("numbers", "branches", "fields"), help="print the places instead")
    given = parser.parse_args()
    found = modules(given.folder)
    functions = [(m, n) for m in found for n in ast.walk(m.tree) if isinstance(n, ast.FunctionDef)]
    sizes = [(Place(m, n.lineno, n.name, branches(n)), m.folder) for m, n in functions]
    wide = sorted((row for row in sizes if row[0].size > MOST_BRANCHES), key=lambda row: -row[0].size)
    defined = [(m, n) for m in found for n in ast.walk(m.tree) if isinstance(n, ast.ClassDef)]
    classes = [(m, n, changing_fields(n)) for m, n in defined]
    heavy = sorted((row for row in classes if len(row[2]) > MOST_FIELDS), key=lambda row: -len(row[2]))
    kinds: dict[str, list[Place]] = {}
    for module in found:
        for kind, places in deciding(module).items():
            kinds.setdefault(kind, []).extend(places)
    if given.list == "numbers":
        print("\n".join(f"{kind:8s}{place}" for kind, places in kinds.items() for place in places))
        return
    if given.list == "branches":
        print("\n".join(str(place) for place, _ in wide))
        return
    if given.list == "fields":
        print("\n".join(f"{m.path}:{n.lineno}: {n.name} {len(f)}: {', '.join(sorted(f))}" for m, n, f in heavy))
        return
    nodes = [node for m in found for node in ast.walk(m.tree)]
    names = {m.name for m in found}
    circles = in_circles({m.name: imported(m.tree, names) for m in found})
    long = [f"{m.name}.{n.name}" for m, n in functions if not is_kernel(n) and arguments(n) > MOST_ARGUMENTS]
    named = sum(len(kinds[kind]) for kind in ("module", "local", "default"))
    energy = [place for place, folder in wide if folder == "shape/energy"]
    lines = sum((given.folder / m.path).read_text(encoding="utf-8").count("\n") for m in found)
    print(f"modules                     {len(found)}, {lines} lines")
    print(f"statements                  {sum(isinstance(n, ast.stmt) for n in nodes)}")
    print(f"  without docs and imports  {sum(map(effective, nodes))}")
    print(f"deciding numbers with names {named}")
    print(f"  in modules                {len(kinds['module'])}")
    print(f"  in functions              {len(kinds['local'])}")
    print(f"  defaults                  {len(kinds['default'])}")
    print(f"  in data files             {in_data(given.folder)}")
    print(f"without names, in formulas  {len(kinds['inline'])}")
    print(f"over {MOST_BRANCHES} branches            {len(wide)}, of them {len(energy)} in shape/energy")
    print(f"over 20 branches            {sum(place.size > 20 for place, _ in wide)}")
    print(f"over {MOST_FIELDS} changing fields      {len(heavy)}")
    print(f"kernels                     {sum(is_kernel(node) for _, node in functions)}")
    print(f"more than {MOST_ARGUMENTS} arguments      {len(long)}: {', '.join(long) or 'none'}")
    print(f"modules in import circles   {len(circles)}: {', '.join(sorted(circles)) or 'none'}")


if __name__ == "__main__":
    main()
