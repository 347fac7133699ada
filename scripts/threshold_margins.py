"""Print how far what the tests measure stays away from their thresholds, the nearest first.

    python scripts/threshold_margins.py tests/shape        every assertion with less than a factor 1.5 to its threshold

A threshold that a measured number nearly touches is decided by the processor, the number of threads or a seed. Looked at
are `<` and `>` between numbers of one sign, `pytest.approx` and `allclose` in assertions; a factor of 1.1 to a bound that
the physics gives (an order above 1.8, a coefficient of friction below 1) is no fault: this lists, and a reader judges.
"""

from __future__ import annotations

import ast
import inspect
import operator
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _pytest.assertion import rewrite

NEAR = 1.5  # the project's rule: measured values keep this factor from their thresholds
_ORDERS = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"}  # node -> function of the module operator
_found: dict[str, float] = {}  # file and line -> smallest factor seen


def _note(place: str, factors: Any) -> None:
    factors = np.asarray(factors, dtype=float)
    if factors.size:
        _found[place] = min(_found.get(place, np.inf), float(np.nanmin(factors)))


def ordered(left: Any, order: str, right: Any, place: str) -> Any:
    """Compare as the test does, and note the factor between the two sides."""
    small, large = (left, right) if order in ("lt", "le") else (right, left)
    try:
        a, b = np.broadcast_arrays(np.asarray(small, float), np.asarray(large, float))
        with np.errstate(all="ignore"):
            holds = (a < b) & (a * b > 0)
            _note(place, np.where(b > 0, b / a, a / b)[holds])
    except (TypeError, ValueError):
        pass  # no numbers
    return getattr(operator, order)(left, right)


def _gap(place: str, found: Any, wanted: Any, tolerance: Any) -> None:
    try:
        gap = np.abs(np.asarray(found, float) - np.asarray(wanted, float))
    except (TypeError, ValueError):
        return
    with np.errstate(all="ignore"):
        factors = np.broadcast_to(tolerance, gap.shape) / gap
    _note(place, factors[gap > 0])


def approx(found: Any, wanted: Any, place: str) -> Any:
    """Compare with a `pytest.approx`, and note the factor between its tolerance and the difference."""
    rel = wanted.rel if wanted.rel is not None else (0.0 if wanted.abs is not None else 1e-6)
    if not isinstance(wanted.expected, dict):
        exact = np.asarray(wanted.expected, float)
        _gap(place, found, exact, np.maximum(rel * np.abs(exact), wanted.abs or 1e-12))
    return found == wanted


def close(function: Any, place: str, *args: Any, **options: Any) -> Any:
    """Call `allclose` or `assert_allclose`, and note the same factor."""
    given = inspect.signature(function).bind(*args, **options)
    given.apply_defaults()
    found, wanted, rel, tolerance = list(given.arguments.values())[:4]
    if "atol" in given.arguments:
        rel, tolerance = given.arguments["rtol"], given.arguments["atol"]
    _gap(place, found, wanted, tolerance + rel * np.abs(np.asarray(wanted, float)))
    return function(*args, **options)


class _Measured(ast.NodeTransformer):
    """Puts the functions above in the place of the comparisons of a test module."""

    def __init__(self, file: str) -> None:
        self.file = file

    def _call(
        self, name: str, at: ast.AST, arguments: list[ast.expr], keywords: list[ast.keyword] | None = None
    ) -> Any:
        module = ast.parse("__import__('threshold_margins')", mode="eval").body
        return ast.Call(ast.Attribute(module, name, ast.Load()), arguments, keywords or [])

    def _place(self, node: Any) -> ast.expr:
        return ast.Constant(f"{self.file}:{node.lineno}")

    def visit_Compare(self, node: ast.Compare) -> Any:
        self.generic_visit(node)
        sides, out = [node.left, *node.comparators], []
        for a, op, b in zip(sides, node.ops, sides[1:]):
            if type(op) in _ORDERS:
                out.append(self._call("ordered", node, [a, ast.Constant(_ORDERS[type(op)]), b, self._place(node)]))
            elif isinstance(op, ast.Eq) and isinstance(b, ast.Call) and ast.unparse(b.func) == "pytest.approx":
                out.append(self._call("approx", node, [a, b, self._place(node)]))
            else:
                out.append(ast.Compare(a, [op], [b]))
        return out[0] if len(out) == 1 else ast.BoolOp(ast.And(), out)

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("allclose", "assert_allclose"):
            return self._call("close", node, [node.func, self._place(node), *node.args], node.keywords)
        return node


class _Asserts(ast.NodeTransformer):
    def __init__(self, file: str) -> None:
        self.measured = _Measured(file)

    def visit_Assert(self, node: ast.Assert) -> Any:
        node.test = self.measured.visit(node.test)
        return node

    def visit_Expr(self, node: ast.Expr) -> Any:
        named = isinstance(node.value, ast.Call) and ast.unparse(node.value.func).endswith("assert_allclose")
        return self.measured.visit(node) if named else node


def pytest_configure(config: pytest.Config) -> None:
    """Measure in the modules that pytest rewrites; what it has kept from other runs is not read."""
    plain = rewrite.rewrite_asserts

    def measured(module: ast.Module, source: bytes, path: str | None = None, *more: Any) -> None:
        _Asserts(str(Path(path or "?").resolve())).visit(module)
        plain(ast.fix_missing_locations(module), source, path, *more)

    rewrite.rewrite_asserts = measured
    rewrite._read_pyc = lambda *_, **__: None
    sys.dont_write_bytecode = True


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what is near."""
    here = f"{Path.cwd()}/"
    for place, factor in sorted(_found.items(), key=lambda item: item[1]):
        if factor < NEAR:
            terminalreporter.write_line(f"{factor:6.3f}  {place.removeprefix(here)}")
    terminalreporter.write_line(f"{sum(f < NEAR for f in _found.values())} of {len(_found)} are nearer than {NEAR}")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    sys.exit(pytest.main(["-p", "threshold_margins", "-n", "0", *sys.argv[1:]]))
