"""A design: the surfaces of a robot with the dimensions that they come from."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar

import numpy as np

from geosim.arguments import guarded, suggestion
from geosim.arrays import METRES_PER_UNIT, Floats, brief, choice, floats, shown
from geosim.errors import InputError
from geosim.generate import limits
from geosim.material.materials import LinearElastic, Material
from geosim.model.cable import Cable
from geosim.model.fabric import Fibre, Layer, elastic_moduli
from geosim.model.robot import VolumetricRobot
from geosim.model.select import Select

P = ParamSpec("P")
Made = TypeVar("Made")  # a Design, or a RodDesign

UNITLESS_DIMENSIONS = ("turns",)  # of designs: numbers without a unit

# What designs are reinforced with, at small strain: copy paper along its machine direction (2 to 5 GPa), polyester thread.
PAPER = LinearElastic(youngs_modulus=2e9, poisson_ratio=0.3)
THREAD = LinearElastic(youngs_modulus=3e9, poisson_ratio=0.4)


@guarded
@dataclass(frozen=True)
class Design:
    """Closed surfaces of a robot, where it is held, and the dimensions that they come from.

    Parameters
    ----------
    body
        `trimesh.Trimesh` of the outer skin [m], closed and outward; cavities are not cut out.
    chambers
        Closed, outward surfaces of the chambers.
    fixed_box, tip_box
        Corners [m] (2, 3) of the boxes that hold the fixed vertices and the tip.
    layers, fibres, cables
        What the body carries: `Layer`, `Fibre`, `Cable`.
    name, parameters
        Of the generator, and its arguments in SI units; those of a design among them stand under their own names after
        the argument's, like finger_wall.
    """

    body: Any
    chambers: tuple[Any, ...]
    fixed_box: Floats
    tip_box: Floats
    layers: tuple[Layer, ...] = ()
    fibres: tuple[Fibre, ...] = ()
    cables: tuple[Cable, ...] = ()
    name: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)

    __repr__ = brief

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))
        object.__setattr__(self, "chambers", tuple(self.chambers))
        for key in ("fixed_box", "tip_box"):
            object.__setattr__(self, key, floats(getattr(self, key), key, (2, 3)))

    @property
    def fixed(self) -> Select:
        """What is held."""
        return Select.box(*self.fixed_box)

    @property
    def tip(self) -> Select:
        """What the tip of the robot is."""
        return Select.box(*self.tip_box)

    def robot(
        self,
        material: str | Material = "ecoflex-00-30",
        max_edge: float | None = None,
        preview: bool = False,
        symmetry: str | None = None,
    ) -> VolumetricRobot:
        """Mesh the design.

        Parameters
        ----------
        material
            Object or preset name.
        max_edge
            Largest wanted edge [m]; default the diagonal of the bounding box / 40.
        preview
            Take the coarsest mesh that keeps the geometry instead.
        symmetry
            As in `VolumetricRobot.from_surfaces`.

        Raises
        ------
        InputError
            The material is unknown, or the mesher fails.
        """
        robot = VolumetricRobot.from_surfaces(
            self.body,
            self.chambers,
            material=material,
            fixed=self.fixed,
            tip=self.tip,
            max_edge=max_edge,
            simplify=None if preview else 0.0,  # derivatives by dimensions need all vertices of the surfaces
            remesh=False,
            preview=preview,
            symmetry=symmetry,
            name=self.name,
            cables=self.cables,
            layers=self.layers,
            fibres=self.fibres,
        )
        return replace(robot, design=self)

    def save(self, folder: str | Path, units: str = "mm", material: str = "ecoflex-00-30") -> list[str]:
        """Write the surfaces as STL files and a robot.toml that `load_robot` reads.

        Parameters
        ----------
        folder
            Made if it does not exist.
        units
            "m", "cm", "mm" or "in", of the files.
        material
            Name of a preset, or the path of a material file.

        Returns
        -------
        list of str
            Names of the files written.

        Raises
        ------
        InputError
            The unit is unknown.
        """
        scale = 1.0 / METRES_PER_UNIT[choice(units, "units", METRES_PER_UNIT)]
        folder = made_folder(folder)
        surfaces = {"body.stl": self.body, **{f"chamber_{i + 1}.stl": s for i, s in enumerate(self.chambers)}}
        for file, surface in surfaces.items():
            scaled = surface.copy()
            scaled.apply_scale(scale)
            scaled.export(str(folder / file), file_type="stl")
        (folder / "robot.toml").write_text(self._toml(units, material), encoding="utf-8")
        return [*surfaces, "robot.toml"]

    def _toml(self, units: str, material: str) -> str:
        scale = 1.0 / METRES_PER_UNIT[units]
        lines = [
            *head(self, "volumetric", units),
            "",
            "[body]",
            'surface = "body.stl"',
            f"material = {json.dumps(material)}",
            f"# max_edge = {8e-3 * scale:g}  # {units}; default a fortieth of the diagonal: fine, and minutes a solve",
        ]
        for i in range(len(self.chambers)):
            lines += ["", "[[chambers]]", f'surface = "chamber_{i + 1}.stl"']
        for cable in self.cables:
            lines += ["", "[[cables]]", f"points = {json.dumps((cable.points * scale).tolist())}"]
            lines += [f"friction = {cable.friction}", f'pulled = "{cable.pulled}"']
        for layer in self.layers:
            lines += ["", "[[layers]]", f"faces = {_faces(layer, scale)}", f"thickness = {layer.thickness * scale:.9g}"]
            lines += [f"material = {_inline(layer.material)}"]
        for fibre in self.fibres:
            lines += ["", "[[fibres]]", f"points = {json.dumps((fibre.points * scale).tolist())}"]
            lines += [f"radius = {fibre.radius * scale:.9g}", f"material = {_inline(fibre.material)}"]
            lines += [f"tension_only = {json.dumps(fibre.tension_only)}"]
        for key, corners in (("fixed", self.fixed_box), ("tip", self.tip_box)):
            lines += ["", f"[{key}]", f"box = {json.dumps((corners * scale).round(9).tolist())}"]
        return "\n".join([*lines, *foot(self)]) + "\n"


def made_folder(folder: str | Path) -> Path:
    """Make the folder of the files of a design.

    Raises
    ------
    InputError
        It cannot be made.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror or error}; choose another folder") from None
    return folder


def head(design: Any, kind: str, units: str) -> list[str]:
    """Return the first lines of the robot file of a design."""
    made = f"# {design.name}, made by geosim generate; dimensions in [design] are SI."
    return [made, f'kind = "{kind}"', f'units = "{units}"']


def foot(design: Any) -> list[str]:
    """Return the last lines of the robot file of a design: its name and its dimensions."""
    lines = ["", "[design]", f'name = "{design.name}"', "", "[design.parameters]"]
    return lines + [f"{key} = {json.dumps(value)}" for key, value in design.parameters.items()]


def paper(thickness: float | None) -> tuple[Layer, ...]:
    """Return the layer of paper of a thickness [m] on the face z = 0 of a design, or none."""
    if thickness is None:
        return ()
    limits.length(layer=thickness)
    return (Layer(Select.plane("z", below=1e-6), thickness, PAPER, of="skin"),)


def _faces(layer: Layer, scale: float) -> str:
    """The faces of a layer as a robot file has them; those of designs are chosen by planes."""
    table = layer.faces.table or {}
    parts = [f"{k} = {json.dumps(v if isinstance(v, str) else float(f'{v * scale:.9g}'))}" for k, v in table.items()]
    return f"{{ {', '.join([*parts, f'of = {json.dumps(layer.of)}'])} }}"


def _inline(material: Material) -> str:
    """Return a linear-elastic material as a robot file has it."""
    young, nu = elastic_moduli(material)
    return f'{{ model = "linear-elastic", youngs_modulus = {young!r}, poisson_ratio = {nu!r} }}'


def generator(make: Callable[P, Made]) -> Callable[P, Made]:
    """Give a design its name and its parameters, and its name to what is said of impossible ones."""
    name, signature = make.__name__, inspect.signature(make)

    @functools.wraps(make)
    def named(*args: P.args, **kwargs: P.kwargs) -> Made:
        for key in kwargs.keys() - signature.parameters.keys():
            hint = suggestion(key, signature.parameters)
            raise InputError(
                f"{name}: there is no dimension {key!r}{hint}; there are {', '.join(signature.parameters)}"
            )
        try:
            bound = signature.bind(*args, **kwargs)
            design: Any = make(*args, **kwargs)
        except (InputError, TypeError) as error:
            raise InputError(f"{name}: {_at_fault(make, signature, args, kwargs)}{error}") from None
        bound.apply_defaults()
        named_design: Made = replace(design, name=name, parameters=plain(bound.arguments) | dict(design.parameters))
        return named_design

    return guarded(named)


def _at_fault(make: Callable[..., Any], signature: inspect.Signature, args: Any, kwargs: Any) -> str:
    """Name a dimension in front of a refusal that names another: the one whose usual value would not be refused."""

    def refusal(given: Mapping[str, Any]) -> str:
        try:
            make(**given)
        except (InputError, TypeError, ValueError) as error:
            return str(error)
        return ""

    try:
        given = dict(signature.bind(*args, **kwargs).arguments)
    except TypeError:
        return ""
    usual = {name: parameter.default for name, parameter in signature.parameters.items()}
    named = refusal(given).split(" ", 1)[0]
    changed = [name for name, value in given.items() if not isinstance(value, Design) and value != usual[name]]
    culprits = [name for name in changed if not refusal({**given, name: usual[name]})]
    if not culprits or named in culprits:
        return ""
    name, value = culprits[0], given[culprits[0]]
    unit = " m" if isinstance(value, float) and name not in UNITLESS_DIMENSIONS else ""
    return f"{name} = {shown(value)}{unit} does not fit: "


def plain(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as files hold them: None left out, a design among them by its name and its parameters."""
    out: dict[str, Any] = {}
    for key, value in given.items():
        if isinstance(value, Design):
            out |= {key: value.name} | {f"{key}_{k}": v for k, v in value.parameters.items()}
        elif value is not None:
            out[key] = tuple(value) if isinstance(value, (list, tuple)) else value
    return out


def face_box(surface: Any, axis: int, end: int, among: Sequence[Sequence[float]] | None = None) -> Floats:
    """Return the corners [m] (2, 3) of a thin box round an end face of a surface.

    Parameters
    ----------
    axis, end
        0, 1, 2 for x, y, z; 0 for the lowest face, -1 for the highest.
    among
        Corners (2, 3) that the face lies between; default those of the whole surface.
    """
    # of the size: vertices of a plane face lie on it to the rounding of single precision STL files
    on_plane_face_rel = 1e-5
    corners = np.array(surface.bounds if among is None else among, dtype=float)
    corners[:, axis] = corners[end, axis]
    margin = on_plane_face_rel * float(np.linalg.norm(np.ptp(surface.bounds, axis=0)))
    return corners + margin * np.array([[-1.0], [1.0]])
