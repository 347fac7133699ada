"""Designs of rods: an arm with tendons, a gripper of rods with tendons, filaments that curl and entangle."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from geosim.arguments import guarded
from geosim.arrays import METRES_PER_UNIT, Floats, Ints, brief, choice, floats, ints, number
from geosim.errors import InputError
from geosim.generate import limits
from geosim.generate.design import foot, generator, head, made_folder
from geosim.material.materials import LinearElastic, Material
from geosim.model.actuation import Actuation, CableTensions, NaturalShape
from geosim.model.cable import Cable
from geosim.model.display import later
from geosim.model.fabric import elastic_moduli
from geosim.model.materials import as_material, load_material

ROD_MATERIAL = "smooth-sil-950"  # of designs of rods that are given none
MAX_GUIDE_RADII = 10.0  # radii of a rod that its cables may run off its centre line


@guarded
@dataclass(frozen=True)
class RodDesign:
    """Rods with their cables, where they are held, how they are driven, and the dimensions that they come from.

    Parameters
    ----------
    vertices
        [m], shape (n, 3).
    edges, radius
        Vertices of the edges, shape (E, 2), and their radius [m], shape (E,).
    held
        First vertices of the rods, each clamped with its first edge, shape (r,).
    cables
        `Cable` of every tendon.
    pulls
        Tensions of the cables over Young's modulus [m^2], one row a command, shape (k, w); or None.
    curls
        Natural curvature at the vertices at the end, as the vector from a vertex to the centre of its circle over the square
        of the distance [1/m], shape (n, 3); or None.
    tables
        Tables of the robot file that say how the design is solved: environment, solver.
    name, parameters
        Of the generator, and its arguments in SI units.
    """

    vertices: Floats
    edges: Ints
    radius: Floats
    held: Ints
    cables: tuple[Cable, ...] = ()
    pulls: Floats | None = None
    curls: Floats | None = None
    tables: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)

    __repr__ = brief

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "vertices", floats(self.vertices, "vertices", (None, 3)))
        put(self, "edges", ints(self.edges, "edges", (None, 2), below=len(self.vertices)))
        put(self, "radius", floats(self.radius, "radius", (len(self.edges),)))
        put(self, "held", ints(self.held, "held", (None,), below=len(self.vertices)))
        put(self, "cables", tuple(self.cables))
        if self.pulls is not None:
            put(self, "pulls", floats(self.pulls, "pulls", (None, len(self.cables))))
        if self.curls is not None:
            put(self, "curls", floats(self.curls, "curls", self.vertices.shape))
        put(self, "tables", MappingProxyType(dict(self.tables)))
        put(self, "parameters", MappingProxyType(dict(self.parameters)))

    @property
    def clamped(self) -> tuple[Ints, Ints]:
        """The vertices that are held, the first two of every rod, and the edges between them."""
        first = np.flatnonzero(np.isin(self.edges[:, 0], self.held))
        return np.sort(self.edges[first].ravel()), first

    def robot(self, material: str | Material = ROD_MATERIAL) -> Any:
        """Return the robot, a `RodShellRobot`.

        Parameters
        ----------
        material
            Object, name of a preset, or path of a material file; of rubber the moduli at small strain count.

        Raises
        ------
        InputError
            The material is unknown.
        """
        vertices, edges = self.clamped
        return later("rods.robot.RodShellRobot")(
            self.vertices,
            self.edges,
            radius=self.radius,
            rod_material=rod_material(material),
            fixed_vertices=vertices,
            fixed_edges=edges,
            cables=self.cables,
            name=self.name or "robot",
            design=self,
        )

    def actuation(self, material: str | Material = ROD_MATERIAL) -> Actuation:
        """Return commands that show what the design does: tensions of its cables, or natural curvature over time.

        Raises
        ------
        InputError
            The material is unknown.
        """
        if self.pulls is not None:
            return CableTensions(rod_material(material).youngs_modulus * self.pulls)
        curls, seconds = self.curls if self.curls is not None else np.zeros_like(self.vertices), 2.0
        robot = self.robot(material)
        first = robot.directors[robot.bends.edges]  # m1 of both edges of a stencil; m2 = t x m1
        second = np.cross(robot.tangents[robot.bends.edges], first)
        middle = curls[robot.bends.vertices[:, 1]]
        curvature = np.stack([np.einsum("sed,sd->s", m, middle) / 2.0 for m in (first, second)], axis=1)
        return NaturalShape([0.0, seconds], curvature=np.stack([np.zeros_like(curvature), curvature]))

    def save(self, folder: str | Path, units: str = "mm", material: str | Material = ROD_MATERIAL) -> list[str]:
        """Write robot.toml, which `load_robot` reads, with its geometry and its commands.

        Parameters
        ----------
        folder
            Made if it does not exist.
        units
            "m", "cm", "mm" or "in", of the files.
        material
            As for `robot`.

        Returns
        -------
        list of str
            Names of the files written.

        Raises
        ------
        InputError
            The unit or the material is unknown.
        """
        scale = 1.0 / METRES_PER_UNIT[choice(units, "units", METRES_PER_UNIT)]
        elastic, actuation = rod_material(material), self.actuation(material)
        folder = made_folder(folder)
        rows = ["*Nodes", *(", ".join(f"{scale * v:.12g}" for v in x) for x in self.vertices)]
        rows += ["*Edges", *(f"{a}, {b}" for a, b in self.edges + 1)]
        texts = {"robot.txt": "\n".join(rows)}
        if isinstance(actuation, CableTensions):
            texts["actuation.toml"] = f"[cable_tensions]  # N, one row a command\ntension = {_rows(actuation.tension)}"
        else:
            texts["curvature.csv"] = _table(actuation)
            texts["actuation.toml"] = (
                '[natural_shape]\nfile = "curvature.csv"  # 1/m, of every vertex between two edges'
            )
        texts["robot.toml"] = self._toml(units, elastic, material if isinstance(material, str) else "")
        for file, text in texts.items():
            (folder / file).write_text(text + "\n", encoding="utf-8")
        return list(texts)

    def _toml(self, units: str, elastic: LinearElastic, material: str) -> str:
        scale = 1.0 / METRES_PER_UNIT[units]
        same = float(np.ptp(self.radius)) == 0.0
        radius = f"{scale * self.radius[0]:.12g}" if same else _rows(scale * self.radius)
        vertices, edges = self.clamped
        constants = {"youngs_modulus": elastic.youngs_modulus, "poisson_ratio": elastic.poisson_ratio}
        inline = ", ".join(f"{k} = {v!r}" for k, v in {**constants, "density": elastic.density}.items())
        lines = [
            *head(self, "rod-shell", units),
            f'name = "{self.name}"',
            'geometry = "robot.txt"',
            'actuation = "actuation.toml"',
            *("", "[rod]", f"radius = {radius}"),
            *([f"# {material} at small strain"] if material else []),
            f'material = {{ model = "linear-elastic", {inline} }}',
            *("", "[fixed]", f"ids = {vertices.tolist()}", f"edges = {edges.tolist()}"),
        ]
        for cable in self.cables:
            lines += ["", "[[cables]]", f"points = {_rows(scale * cable.points)}"]
        for table, values in self.tables.items():
            lines += ["", f"[{table}]", *(f"{key} = {_inline(value)}" for key, value in values.items())]
        return "\n".join([*lines, *foot(self)])


def rod_material(material: str | Material) -> LinearElastic:
    """Return the linear elasticity of a material at small strain, which is what rods are made of.

    Raises
    ------
    InputError
        The material is unknown, or has no moduli.
    """
    if isinstance(material, str) and material.lower().endswith(".toml"):
        material = load_material(material)
    found = as_material(material)
    if isinstance(found, LinearElastic):
        return found
    young, nu = elastic_moduli(found)
    return LinearElastic(float(f"{young:.6g}"), float(f"{nu:.9g}"), getattr(found, "density", LinearElastic.density))


@generator
def tendon_arm(
    length: float = 200e-3,
    radius: float = 5e-3,
    tip_radius: float | None = None,
    cables: int = 3,
    offset: float = 8e-3,
    guides: int = 21,
    turns: float = 0.0,
    sections: int = 1,
    edges: int = 40,
) -> RodDesign:
    """Make an arm: a rod along +x from its clamped end x = 0, with tendons through guides around it.

    Its commands pull the tendons in turn; those of the whole arm bend it by a right angle.

    Parameters
    ----------
    length
        Of the rod [m].
    radius
        Of the rod at its clamped end [m].
    tip_radius
        Of the rod at its tip [m], to which it tapers; None: as at its clamped end.
    cables
        Number of tendons of a section, evenly around the rod; the first of the arm lies towards +y.
    offset
        Distance of the tendons from the centre line [m].
    guides
        Number of guides of a tendon along the whole arm; shorter tendons have as many as lie on their way.
    turns
        Turns of the tendons about the rod along the whole arm, counter-clockwise seen from +x.
    sections
        Number of sections of equal length; the tendons of a section end where it ends.
    edges
        Number of edges of the rod.

    Raises
    ------
    InputError
        A dimension cannot be.
    """
    limits.count(cables=cables, sections=sections)
    limits.count(least=4, most=2000, edges=edges)
    limits.count(least=2 * sections, most=2000, guides=guides)
    ends = radius, radius if tip_radius is None else tip_radius
    limits.length(length=length, radius=radius, tip_radius=ends[1], offset=offset)
    _slender(length, *ends)
    limits.less("offset", offset, MAX_GUIDE_RADII * min(ends), "ten radii of the rod where it is thinnest")
    number(turns, "turns", low=-50.0, high=50.0)
    guides_a_turn = 6  # fewer lead a tendon through the rod
    if guides - 1 < guides_a_turn * abs(turns):
        raise InputError(
            f"guides = {guides} are too few for {turns:g} turns; give at least {int(np.ceil(guides_a_turn * abs(turns))) + 1}"
        )
    x = np.linspace(0.0, length, edges + 1)
    thick = np.interp(0.5 * (x[1:] + x[:-1]), [0.0, length], ends)
    led, around, ways = np.linspace(0.0, length, guides), [], []
    for section in range(sections):
        way = led[: max(2, round((guides - 1) * (section + 1) / sections) + 1)]
        for cable in range(cables):
            around.append(2.0 * np.pi * (cable / cables + section / (cables * sections)))
            angle = around[-1] + 2.0 * np.pi * turns * way / length
            ways.append(np.stack([way, offset * np.cos(angle), offset * np.sin(angle)], axis=1))
    right_angle, commands = 0.5 * np.pi, 24
    turn = 2.0 * np.pi * np.arange(1, commands + 1) / commands
    pull = _pull(right_angle, length, float(thick.mean()), offset) / sections
    return RodDesign(
        np.stack([x, 0 * x, 0 * x], axis=1),
        _chain(edges),
        thick,
        np.array([0]),
        _tendons(ways),
        pull * np.maximum(np.cos(turn[:, None] - around), 0.0),
        tables={"solver": {"static": True}},
    )


@generator
def rod_gripper(
    fingers: int = 3,
    length: float = 100e-3,
    radius: float = 4e-3,
    palm_radius: float = 30e-3,
    offset: float = 7e-3,
    guides: int = 11,
    edges: int = 20,
) -> RodDesign:
    """Make a gripper: rods that hang (-z) from a circle about the axis z, each with a tendon on its inside.

    Its commands close it until the tips are near the axis. Finger 1 stands at +x; the end of the last is the tip.

    Parameters
    ----------
    fingers
        Number of fingers, evenly around the axis.
    length, radius
        Of a finger [m].
    palm_radius
        Distance of the fingers from the axis where they are clamped [m].
    offset
        Distance of the tendons from the centre lines [m].
    guides
        Number of guides of a tendon.
    edges
        Number of edges of a finger.

    Raises
    ------
    InputError
        A dimension cannot be.
    """
    limits.count(least=2, most=24, fingers=fingers)
    limits.count(least=4, most=500, edges=edges)
    limits.count(least=2, most=500, guides=guides)
    limits.length(length=length, radius=radius, palm_radius=palm_radius, offset=offset)
    _slender(length, radius)
    limits.less("radius", radius, palm_radius * np.sin(np.pi / fingers), "half the distance of neighbouring fingers")
    limits.less("offset", offset, MAX_GUIDE_RADII * radius, "ten radii of a finger")
    limits.less("offset", offset, palm_radius, "the distance of the fingers from the axis")
    outward = _outward(fingers)
    ways, _ = _hanging(outward, palm_radius - offset, length, guides - 1)
    # a finger that bends by a small angle moves its tip by half of it times its length
    closed_rel, most_bend = 0.8, 1.5
    bend = min(2.0 * closed_rel * palm_radius / length, most_bend)
    commands = 6
    pull = _pull(bend, length, radius, offset) * np.arange(1, commands + 1) / commands
    return RodDesign(
        *_hanging(outward, palm_radius, length, edges),
        np.full(fingers * edges, radius),
        (edges + 1) * np.arange(fingers),
        _tendons(ways.reshape(fingers, guides, 3)),
        np.tile(pull[:, None], (1, fingers)),
        tables={"environment": {"gravity": [0.0, 0.0, -9.81], "self_friction": 0.5}, "solver": {"static": True}},
    )


@generator
def entangler(
    filaments: int = 5,
    length: float = 300e-3,
    radius: float = 4e-3,
    palm_radius: float = 25e-3,
    turns: float = 1.5,
    edges: int = 30,
) -> RodDesign:
    """Make an entanglement gripper: filaments that hang (-z) from a circle about the axis z and curl up to helices.

    After [Choi2024, section V-A2]: contact and friction of the filaments hold what lies between them. Its commands are a table
    of natural curvature over two seconds. All helices have the same hand, and they begin in different directions, so that they
    wind about each other.

    Parameters
    ----------
    filaments
        Number of filaments, evenly around the axis.
    length, radius
        Of a filament [m].
    palm_radius
        Distance of the filaments from the axis where they are clamped [m].
    turns
        Turns that a filament curls by along its length.
    edges
        Number of edges of a filament.

    Raises
    ------
    InputError
        A dimension cannot be.
    """
    limits.count(least=2, most=50, filaments=filaments)
    limits.count(least=4, most=500, edges=edges)
    limits.length(length=length, radius=radius, palm_radius=palm_radius)
    _slender(length, radius)
    limits.less(
        "radius", radius, palm_radius * np.sin(np.pi / filaments), "half the distance of neighbouring filaments"
    )
    number(turns, "turns", above=0.0, high=20.0)
    edges_a_turn = 10
    if edges < edges_a_turn * turns:
        raise InputError(
            f"edges = {edges} are too few for {turns:g} turns; give at least {int(np.ceil(edges_a_turn * turns))}"
        )
    curvature = 2.0 * np.pi * turns / length
    limits.less("radius", radius, 0.5 / curvature, "half the radius of the curl, length / (2 pi turns)")
    outward = _outward(filaments)
    vertices, chains = _hanging(outward, palm_radius, length, edges)
    most_aside, golden = np.pi / 3, 0.618034  # rad from inward; spreads any number of directions evenly
    torsion_rel = 0.3  # over curvature: coils lie beside each other
    s = np.linspace(0.0, length, edges + 1)
    curls = []
    for k, d in enumerate(outward):
        angle = (most_aside * (2.0 * (k * golden % 1.0) - 1.0) + torsion_rel * curvature * s)[:, None]
        curls.append(curvature * (-np.cos(angle) * d + np.sin(angle) * np.cross([0.0, 0.0, 1.0], d)))
    fluid = {"density": 0.0, "viscosity": 5.0}  # the medium of [Choi2024]
    return RodDesign(
        vertices,
        chains,
        np.full(len(chains), radius),
        (edges + 1) * np.arange(filaments),
        curls=np.concatenate(curls),
        tables={
            "environment": {"gravity": [0.0, 0.0, -9.81], "self_friction": 0.5, "fluid": fluid},
            "solver": {"dt": 5e-3, "integrator": "implicit-euler", "frame_interval": 0.1},
        },
    )


def _slender(length: float, *radii: float) -> None:
    limits.less("radius", max(radii), 0.1 * length, "a tenth of the length: what is thicker is no rod")


def _pull(bend: float, length: float, radius: float, offset: float) -> float:
    """Tension over Young's modulus [m^2] that bends a rod by an angle: T d = E I bend / L, I = pi r^4 / 4."""
    return 0.25 * np.pi * radius**4 * bend / (length * offset)


def _tendons(ways: Iterable[Floats]) -> tuple[Cable, ...]:
    """Cables through guides [m], each (g, 3)."""
    return tuple(Cable(way, name=f"cable {k + 1}") for k, way in enumerate(ways))


def _outward(count: int) -> Floats:
    """Directions (count, 3) from the axis z, the first along +x."""
    angle = 2.0 * np.pi * np.arange(count) / count
    return np.stack([np.cos(angle), np.sin(angle), 0.0 * angle], axis=1)


def _chain(edges: int) -> Ints:
    return np.stack([np.arange(edges), np.arange(1, edges + 1)], axis=1)


def _hanging(outward: Floats, distance: float, length: float, edges: int) -> tuple[Floats, Ints]:
    """Vertices [m] and edges of rods that hang at a distance from the axis."""
    down = np.linspace(0.0, -length, edges + 1)[:, None] * [0.0, 0.0, 1.0]
    chains = [_chain(edges) + (edges + 1) * k for k in range(len(outward))]
    return np.concatenate([distance * d + down for d in outward]), np.concatenate(chains)


def _rows(values: Floats) -> str:
    """Numbers as a robot file has them, without the noise of the last digits."""
    return json.dumps(np.vectorize(lambda v: float(f"{v:.9g}"))(np.asarray(values)).tolist())


def _inline(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{k} = {_inline(v)}' for k, v in value.items())} }}"
    return json.dumps(value)


def _table(actuation: Actuation) -> str:
    """Natural curvature over time as a table, see `geosim.rods.files.read_natural_shape`."""
    times, curvature = actuation.times, actuation.curvature  # type: ignore[attr-defined]
    count = curvature.shape[1]
    rows = [",".join(["time", *["curvature_1"] * count, *["curvature_2"] * count])]
    rows += [",".join(f"{v:.9g}" for v in [t, *row.T.ravel()]) for t, row in zip(times, curvature)]
    return "\n".join(rows)
