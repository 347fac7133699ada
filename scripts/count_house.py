"""Count what the package is made of: `python scripts/count_house.py [FOLDER]`, default the checkout that this file stands in.

One line a number: lines and statements (nodes of the syntax tree that are statements), named constants of modules and
how many names stand in more than one module, compiled kernels, functions with more than ten arguments that are none, and
circles of imports, those inside of functions and for typing included.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from pathlib import Path

CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]*")
MOST_ARGUMENTS = 10  # of a function that is no kernel: more are an object that has no name yet


def constants(tree: ast.Module) -> set[str]:
    """Return the names in capitals that a module assigns."""
    found = set()
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            parts = target.elts if isinstance(target, ast.Tuple) else [target]
            found |= {part.id for part in parts if isinstance(part, ast.Name) and CONSTANT.fullmatch(part.id)}
    return found


def is_kernel(node: ast.FunctionDef) -> bool:
    """Whether a function is compiled."""
    return any("kernel" in ast.dump(decorator) for decorator in node.decorator_list)


def is_intrinsic(node: ast.FunctionDef) -> bool:
    """Whether a function writes the compiler's own code for kernels: its arguments are those of what it writes."""
    return [a.arg for a in node.args.args[:1]] == ["typingctx"]


def arguments(node: ast.FunctionDef) -> int:
    """Return the number of arguments without self and cls."""
    names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def imported(tree: ast.Module, modules: dict[str, ast.Module]) -> set[str]:
    """Return the modules of the package that a module imports, wherever in it."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            wholes = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {whole if whole in modules else node.module for whole in wholes}
    return found & modules.keys()


def in_circles(graph: dict[str, set[str]]) -> set[str]:
    """Return the modules that reach themselves: those that import none of the others left are taken away until none is."""
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


def main(folder: Path) -> None:
    """Print the numbers."""
    sources = {path: path.read_text(encoding="utf-8") for path in sorted((folder / "geosim").rglob("*.py"))}
    trees = {}
    for path, text in sources.items():
        name = ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
        trees[name] = ast.parse(text)
    functions = [
        (name, node) for name, tree in trees.items() for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)
    ]
    names = Counter(constant for tree in trees.values() for constant in constants(tree))
    long = [
        f"{name}.{node.name}"
        for name, node in functions
        if not is_kernel(node) and not is_intrinsic(node) and arguments(node) > MOST_ARGUMENTS
    ]
    circles = in_circles({name: imported(tree, trees) for name, tree in trees.items()})
    print(f"modules                     {len(trees)}")
    print(f"lines                       {sum(text.count(chr(10)) for text in sources.values())}")
    print(
        f"statements                  {sum(isinstance(n, ast.stmt) for tree in trees.values() for n in ast.walk(tree))}"
    )
    print(
        f"constants                   {names.total()}, {sum(n > 1 for n in names.values())} names in more than one module"
    )
    print(f"kernels                     {sum(is_kernel(node) for _, node in functions)}")
    print(f"more than {MOST_ARGUMENTS} arguments      {len(long)}: {', '.join(long) or 'none'}")
    print(f"modules in import circles   {len(circles)}: {', '.join(sorted(circles)) or 'none'}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1])
