"""Select vertices of a robot by where they lie. Lengths in metres."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from geosim.arguments import guarded
from geosim.arrays import ArrayLike, Bools, Floats, Ints, floats, frozen, ints, marked, number, shown, whole
from geosim.collision.queries import closest_points
from geosim.collision.tree import build_tree
from geosim.errors import InputError


@guarded
@dataclass(frozen=True)
class Select:
    """A rule that says which vertices are meant; combine rules with &, | and ~.

    Build one with `Select.plane`, `.box`, `.sphere`, `.nearest` or `.surface`; calling it with positions
    [m] (n, 3) returns a bool array (n,). `rule` is that function and `text` its description. `table` is how a robot file writes a
    plane [m]; None of other rules.
    """

    rule: Callable[[Floats], Bools]
    text: str
    table: Mapping[str, str | float] | None = None

    def __repr__(self) -> str:
        return f"Select({self.text})"

    def __call__(self, vertices: Floats) -> Bools:
        """Return which of the vertices [m] (n, 3) are selected, bool (n,)."""
        points = np.asarray(vertices)
        if points.dtype != float or points.shape[1:] != (3,):
            points = floats(vertices, "Select: vertices", (None, 3))
        return np.asarray(self.rule(points), dtype=bool)

    def __and__(self, other: Select) -> Select:
        return Select(lambda x: self(x) & other(x), f"({self.text} and {other.text})")

    def __or__(self, other: Select) -> Select:
        return Select(lambda x: self(x) | other(x), f"({self.text} or {other.text})")

    def __invert__(self) -> Select:
        return Select(lambda x: ~self(x), f"not {self.text}")

    @staticmethod
    def plane(axis: str, *, below: float | None = None, above: float | None = None) -> Select:
        """Vertices with coordinate <= `below` and/or >= `above` [m] along an axis "x", "y" or "z"."""
        if not isinstance(axis, str) or axis not in ("x", "y", "z"):
            raise InputError(f"Select.plane: axis {shown(axis)} is not 'x', 'y' or 'z'")
        if below is None and above is None:
            raise InputError("Select.plane: give below=..., above=... or both (metres)")
        lower = -np.inf if above is None else number(above, "Select.plane: above [m]")
        upper = np.inf if below is None else number(below, "Select.plane: below [m]")
        i = "xyz".index(axis)
        limits = ", ".join([f"below={upper:g} m"] * (below is not None) + [f"above={lower:g} m"] * (above is not None))

        def rule(x: Floats) -> Bools:
            return np.asarray((x[:, i] >= lower) & (x[:, i] <= upper), dtype=bool)

        table: dict[str, str | float] = {"plane": axis}
        table |= {key: float(v) for key, v in (("below", below), ("above", above)) if v is not None}
        return Select(rule, f"plane {axis} {limits}", table)

    @staticmethod
    def box(lower: Any, upper: Any) -> Select:
        """Vertices inside the axis-aligned box from `lower` to `upper` [m], each (3,)."""
        lo, hi = floats(lower, "Select.box: lower", (3,)), floats(upper, "Select.box: upper", (3,))
        if (lo > hi).any():
            raise InputError(
                f"Select.box: lower {lo.tolist()} m exceeds upper {hi.tolist()} m; give the smaller values first"
            )
        return Select(
            lambda x: np.asarray(((x >= lo) & (x <= hi)).all(axis=1)), f"box {lo.tolist()} .. {hi.tolist()} m"
        )

    @staticmethod
    def sphere(center: Any, radius: float) -> Select:
        """Vertices within `radius` [m] of `center` [m] (3,)."""
        c = floats(center, "Select.sphere: center", (3,))
        radius = number(radius, "Select.sphere: radius [m]", above=0.0)
        return Select(lambda x: _distances(x, c) <= radius, f"sphere {c.tolist()}, {radius:g} m")

    @staticmethod
    def nearest(point: Any, count: int = 1) -> Select:
        """The `count` vertices nearest to `point` [m] (3,)."""
        p = floats(point, "Select.nearest: point", (3,))
        count = whole(count, "Select.nearest: count", least=1)

        def rule(x: Floats) -> Bools:
            return marked(len(x), np.argsort(_distances(x, p), kind="stable")[:count])

        return Select(rule, f"{count} nearest to {p.tolist()} m")

    @staticmethod
    def surface(path: str | Path, *, units: str = "m", within: float = 1e-6) -> Select:
        """Vertices that lie on a surface file (in `units`, default metres), to `within` [m]."""
        from geosim.geometry.surface import read_surface

        surface = read_surface(path, units=units, name=str(path))
        tree = build_tree(surface.vertices, surface.faces)

        def rule(x: Floats) -> Bools:
            return closest_points(x, surface.vertices, tree, reach=within)[1] >= 0

        return Select(rule, f"surface {path}")


def _distances(x: Floats, point: Floats) -> Floats:
    """Distances [m] of (n, 3) from a point; inf where their squares are too large for a number."""
    with np.errstate(over="ignore"):
        return np.asarray(np.sqrt(((x - point) ** 2).sum(axis=1)))


if TYPE_CHECKING:  # which vertices are meant: a rule, ids, a bool array, or a callable (n, 3) -> bool (n,)
    VertexSelection = Select | ArrayLike | Callable[[Floats], ArrayLike]


def selected_ids(selector: VertexSelection, vertices: Floats, name: str, *, among: Bools | None = None) -> Ints:
    """Return the sorted vertex ids that a selector means.

    Parameters
    ----------
    selector
        Vertex ids, a bool array (n,), a `Select`, or a callable (n, 3) -> bool (n,).
    vertices
        Positions [m], shape (n, 3).
    name
        What the selection is for, used in messages.
    among
        Rules (not explicit ids) choose only among these vertices, bool (n,).

    Raises
    ------
    InputError
        It selects nothing, has a wrong shape, or names an id that does not exist.
    """
    count = len(vertices)
    try:
        given = np.asarray(selector(vertices) if callable(selector) else selector)
    except (OverflowError, TypeError, ValueError) as error:
        raise InputError(f"{name}: {shown(selector)} selects no vertices: {error}") from None
    if given.dtype == bool or callable(selector):
        if given.shape != (count,) or given.dtype != bool:
            raise InputError(f"{name}: {given.dtype} of shape {given.shape} given, bool ({count},) needed")
        ids = np.flatnonzero(given & among if callable(selector) and among is not None else given)
    elif (given.dtype.kind in "iu" and given.ndim <= 1) or given.size == 0:
        ids = np.unique(ints(np.atleast_1d(given).ravel(), f"{name}: vertex ids", (None,), below=count))
    else:
        raise InputError(f"{name}: {str(selector)[:60]!r} is not vertex ids, a bool array, a Select or a callable")
    if len(ids) == 0:
        raise _selects_nothing(selector, vertices, name)
    return frozen(ids)


def _selects_nothing(selector: VertexSelection, vertices: Floats, name: str) -> InputError:
    """Return the error of a selector that means no vertex; it says where the robot is."""
    lo, hi = vertices.min(axis=0), vertices.max(axis=0)
    what = f" ({selector.text})" if isinstance(selector, Select) else ""
    return InputError(
        f"{name}{what} selects no vertex; the robot spans {np.round(lo, 6).tolist()} .. {np.round(hi, 6).tolist()} m"
    )
