"""Rods with every edge split in two, and what drives them: what a finer discretisation says.

The middle of an edge lies on the curve through its neighbours where these bend by less than CREASE_ANGLE_RAD: off the edge of
length l by l^2 / 8 times the mean curvature of its ends. Clamps, sections, loads and natural shapes are those of the edges.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.errors import InputError
from geosim.model.actuation import Actuation, NaturalShape
from geosim.model.environment import Environment, Load, Prescribed
from geosim.model.select import selected_ids
from geosim.rods.robot import RodShellRobot
from geosim.rods.section import Section
from geosim.rods.stepper import RodShellStepper

CREASE_ANGLE_RAD = 0.7  # of two edges: from it a corner is one


@dataclass(frozen=True)
class RefinedRods:
    """A robot of rods and the same with every edge split in two.

    The last vertex, which is the tip, stays the last; the middles stand before it. The halves of an edge i are 2 i and 2 i + 1.
    """

    coarse: RodShellRobot

    def __post_init__(self) -> None:
        if len(self.coarse.triangles):
            raise InputError("error_bars: a robot with shells is not refined; its rods alone have bars")

    @cached_property
    def kept(self) -> Ints:
        """Numbers of the old vertices, (n,)."""
        n = len(self.coarse.vertices)
        return np.append(np.arange(n - 1), n - 1 + len(self.coarse.edges))

    @cached_property
    def middles(self) -> Ints:
        """Numbers of the middles of the old edges, (E,)."""
        return len(self.coarse.vertices) - 1 + np.arange(len(self.coarse.edges))

    def _places(self) -> Floats:
        coarse = self.coarse
        bends, n = coarse.bends, len(coarse.vertices)
        t = bends.signs[:, :, None] * coarse.tangents[bends.edges]
        smooth = (t[:, 0] * t[:, 1]).sum(axis=1) > np.cos(CREASE_ANGLE_RAD)
        smooth &= np.bincount(coarse.edges.ravel(), minlength=n)[bends.vertices[:, 1]] == 2
        curvature, count = np.zeros((len(coarse.edges), 3)), np.zeros(len(coarse.edges))
        for side in (0, 1):
            np.add.at(curvature, bends.edges[smooth, side], ((t[:, 1] - t[:, 0]) / bends.length[:, None])[smooth])
            np.add.at(count, bends.edges[smooth, side], 1.0)
        mean = curvature / np.maximum(count, 1.0)[:, None]
        places = np.empty((n + len(coarse.edges), 3))
        places[self.kept] = coarse.vertices
        middle = coarse.vertices[coarse.edges].mean(axis=1)
        places[self.middles] = middle - 0.125 * coarse.rest_lengths[:, None] ** 2 * mean
        return places

    def grown(self, ids: Ints) -> Ints:
        """Return old vertices and the middles of the edges between them, in the numbers of the fine robot."""
        chosen = np.zeros(len(self.coarse.vertices), dtype=bool)
        chosen[ids] = True
        return np.concatenate([self.kept[ids], self.middles[chosen[self.coarse.edges].all(axis=1)]])

    @cached_property
    def fine(self) -> RodShellRobot:
        """The robot with split edges."""
        coarse = self.coarse
        edges, masses = coarse.edges, np.zeros(len(coarse.vertices) + len(coarse.edges))
        halves = np.stack([self.kept[edges[:, 0]], self.middles, self.middles, self.kept[edges[:, 1]]], axis=1)
        held = np.zeros((len(masses), 3), dtype=bool)
        held[self.kept] = coarse.fixed_components
        held[self.middles] = coarse.fixed_components[edges].all(axis=1)
        masses[self.kept] = coarse.masses
        section = coarse.section
        assert section is not None
        sizes = [_repeated(getattr(section, key)) for key in ("area", "inertia1", "inertia2", "torsion")]
        materials = coarse.materials
        plain = replace(
            coarse,
            vertices=self._places(),
            edges=halves.reshape(-1, 2),
            radius=_repeated(coarse.radius),
            rod_material=materials[0] if len(materials) == 1 else tuple(m for m in materials for _ in range(2)),
            fixed_vertices=self.grown(coarse.fixed_vertices),
            fixed_edges=_halves(coarse.fixed_edges),
            fixed_components=held,
            velocities=None,
            twist_angles=_repeated(coarse.twist_angles),
            edge_angular_velocities=None,
            masses=masses,
            section=Section(*sizes),
            stretch_stiffness=_repeated(coarse.stretch_stiffness),
            bend_stiffness=None,
            twist_stiffness=None,
            limbs=(),
            own_edges=None,
        )
        given = {key: getattr(coarse, key) for key in ("bend_stiffness", "twist_stiffness")}
        spread = {k: self.spread(v, plain) if np.ndim(v) else v for k, v in given.items() if v is not None}
        return replace(plain, **cast(Any, spread)) if spread else plain

    def spread(self, values: Floats, fine: RodShellRobot | None = None, *, signed: bool = False) -> Floats:
        """Return values (S,) or (S, 2) of old stencils at those of the fine robot: at middles the mean of both ends.

        `signed`: the first of them is a curvature about m2, which changes its sign with the direction of a stencil.
        """
        old, new = self.coarse.bends, (self.fine if fine is None else fine).bends
        first: dict[tuple[int, ...], int] = {tuple(sorted(pair)): s for s, pair in enumerate(old.edges.tolist())}
        around: dict[int, list[int]] = {}
        for s, pair in enumerate(old.edges.tolist()):
            for edge in pair:
                around.setdefault(edge, []).append(s)
        rows = values.reshape(len(old), -1)
        out = np.zeros((len(new), rows.shape[1]))
        for s, (one, two) in enumerate((new.edges // 2).tolist()):
            sources = around.get(one, []) if one == two else [first[tuple(sorted((one, two)))]]
            for source in sources:
                same = old.signs[source][old.edges[source] == one][0] == new.signs[s, 0]
                turned = np.where((np.arange(rows.shape[1]) == 0) & signed & (not same), -1.0, 1.0)
                out[s] += turned * rows[source] / len(sources)
        return out.reshape(len(new), *values.shape[1:])

    def actuation(self, given: Actuation) -> Actuation:
        """Return what drives the fine robot as `given` drives the coarse one."""
        parts = [self._shape(part) if isinstance(part, NaturalShape) else part for part in given.parts]
        out = parts[0]
        for part in parts[1:]:
            out = out & part
        return out

    def _shape(self, shape: NaturalShape) -> NaturalShape:
        stencils = len(self.coarse.bends)

        def of_stencils(row: Any, *, signed: bool) -> Floats:
            row = np.asarray(row, dtype=float)
            return self.spread(row, signed=signed) if row.ndim and len(row) == stencils and stencils > 1 else row

        maps: dict[str, Callable[[Any], Floats]] = {
            "curvature": lambda row: of_stencils(row, signed=True),
            "twist": lambda row: of_stencils(row, signed=False),
            "stretch": lambda row: _repeated(np.asarray(row)) if np.ndim(row) else np.asarray(row),
        }

        def mapped(key: str, change: Callable[[Any], Floats]) -> Any:
            value = getattr(shape, key)
            if callable(value):
                return lambda time: change(value(time))
            return None if value is None else np.array([change(row) for row in value])

        return replace(shape, **{key: mapped(key, change) for key, change in maps.items()})

    def environment(self, given: Environment) -> Environment:
        """Return what surrounds the fine robot."""
        return replace(
            given,
            loads=tuple(self._load(load) for load in given.loads),
            prescribed=tuple(self._prescribed(item) for item in given.prescribed),
        )

    def _load(self, load: Load) -> Load:
        if load.kind == "force":
            ids = selected_ids(load.where, self.coarse.vertices, "Load.force: vertices")
            return replace(load, where=self.grown(ids))
        return replace(load, where=_halves(load.where), value=0.5 * load.value)

    def _prescribed(self, item: Prescribed) -> Prescribed:
        ids = selected_ids(item.vertices, self.coarse.vertices, "Prescribed: vertices")
        if item.displacement.ndim == 2:
            return Prescribed(self.grown(ids), item.displacement)
        rows = np.full((len(item.displacement), len(self.coarse.vertices), 3), np.nan)
        rows[:, ids] = item.displacement
        every = np.empty((len(rows), len(self.fine.vertices), 3))
        every[:, self.kept], every[:, self.middles] = rows, rows[:, self.coarse.edges].mean(axis=2)
        return Prescribed(grown := self.grown(ids), every[:, grown])

    def solver(self, given: RodShellStepper) -> RodShellStepper:
        """Return the solver of the fine robot."""
        pairs = [
            (
                _halves(np.atleast_1d(np.asarray(edges))),
                np.repeat(np.asarray(angles), 2, axis=-1) if np.ndim(angles) else angles,
            )
            for edges, angles in given.edge_rotations
        ]
        return replace(given, edge_rotations=pairs, on_frame=None)


def _halves(edges: Ints) -> Ints:
    """Return the halves of old edges."""
    return (2 * np.asarray(edges, dtype=np.int64)[:, None] + np.arange(2)).ravel()


def _repeated(values: Any) -> Any:
    """Return values of edges for their halves; a number or None stays."""
    return np.repeat(values, 2, axis=0) if np.ndim(values) else values
