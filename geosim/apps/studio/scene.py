"""What is chosen in the studio, as the tables of a study with one design: all that a robot and an actuation file say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from geosim import materials
from geosim.apps.study.job import Job
from geosim.apps.study.schema import StudyFile
from geosim.apps.study.study import INFLATION_KEYS, Study, put
from geosim.arrays import METRES_PER_UNIT
from geosim.errors import InputError
from geosim.files.messages import Place
from geosim.files.robot import KINDS
from geosim.files.values import validated
from geosim.generate import GENERATORS, Design, make
from geosim.generate.dimensions import Dimension, dimensions
from geosim.model.environment import EARTH_GRAVITY
from geosim.resources import read_toml

__all__ = ["MESHES", "Knob", "Scene", "of_design", "of_file", "of_result"]

Value = float | int | str

DEFAULT_MATERIAL = "ecoflex-00-30"
# Dimensions can be turned to between a third and three times their default, counts from 1 to twice; typed values may go beyond.
DIMENSION_RANGE, COUNT_RANGE, TURNS_RANGE = (1 / 3, 3.0), 2, (-3.0, 3.0)
# What drives a robot: its word, its unit; least, largest and first value of its knob.
DRIVES = {
    "pressure_kpa": ("pressure", "kPa", (0.0, 20.0, 4.0)),
    "volume_ratio": ("volume", "V/V0", (0.5, 3.0, 1.3)),
    "tension_n": ("cable", "N", (0.0, 10.0, 1.0)),
}
STEPS = (1, 20, 4)  # frames on the way to the command: least, largest, first
DIRECTIONS = {"none": (0, 0, 0)} | {
    f"{sign}{axis}": tuple((1 if sign == "+" else -1) * (i == k) for k in range(3))
    for i, axis in enumerate("xyz")
    for sign in "-+"
}
MESHES = ("default", "preview", "edges")  # as robot files have it: nothing, preview = true, max_edge
LAYER_MM = (0.0, 1.0)
EDGE_MM = (1.0, 20.0, 6.0)
OBJECTS = ("none", "sphere", "plane")
PLACE_MM, RADIUS_MM, FRICTION = (-200.0, 200.0), (2.0, 60.0, 15.0), (0.0, 1.5, 0.5)
NUMBER_RANGE = (0.0, 2.0)  # a number of a file can be turned to between these shares of it
MOST_PARTS = 8  # numbers of one row that have a knob each
UNITS = {  # of the numbers in files, by how their keys end; "length" stands for the unit of the file
    **{f"_{unit.lower()}": unit for unit in ("kPa", "mm", "N")},
    **dict.fromkeys(("radius", "thickness", "width", "height", "outer", "inner", "link_length", "length"), "length"),
    **{"modulus": "Pa", "density": "kg/m^3", "viscosity": "Pa s", "curvature": "1/m", "tension": "N"},
    **{"frequency": "Hz", "duration": "s", "_time": "s", "phase_lag": "rad"},
}


@dataclass(frozen=True)
class Knob:
    """Something that can be turned.

    Parameters
    ----------
    key, group, label, unit
        Its name; under which heading it stands; what is written beside it.
    value
        At first.
    low, high
        Of its slider; None for a choice.
    whole
        Whether it counts.
    choices
        Of a choice.
    """

    key: str
    group: str
    label: str
    value: Value
    unit: str = ""
    low: float | None = None
    high: float | None = None
    whole: bool = False
    choices: tuple[str, ...] = ()

    @property
    def size(self) -> bool:
        """Whether it is a dimension that may be any number of a range."""
        return self.group == "Dimensions" and not self.whole and not self.choices

    def taken(self, value: object) -> Value:
        """Return a value that this knob can have.

        Raises
        ------
        InputError
            It is of another kind, or beyond what any robot has.
        """
        if self.choices:
            if value not in self.choices:
                raise InputError(f"{self.label} = {value!r} is none of {', '.join(self.choices)}")
            return str(value)
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e9:
            raise InputError(f"{self.label} = {value!r} must be a number")
        if self.whole and value != int(value):
            raise InputError(f"{self.label} = {value!r} must be a whole number")
        return int(value) if self.whole else float(value)


@dataclass(frozen=True)
class Scene:
    """What is chosen: a design or a robot file, and the values of its knobs.

    Parameters
    ----------
    design
        Name of a generator; "" for a robot file.
    path
        The robot file; None for a design.
    values
        Of knobs that were turned, by key.
    base, actuation
        Tables of the robot file and of the actuation file beside it.
    chambers, cables
        How many the robot has.
    """

    design: str = ""
    path: Path | None = None
    values: Mapping[str, Value] = field(default_factory=dict)
    base: Mapping[str, Any] = field(default_factory=dict)
    actuation: Mapping[str, Any] = field(default_factory=dict)
    chambers: int = 0
    cables: int = 0

    @property
    def volumetric(self) -> bool:
        """Whether it is a body of tetrahedra."""
        return bool(self.design) or self.base.get("kind") == "volumetric"

    @property
    def chamber_names(self) -> tuple[str, ...]:
        """Names of the chambers of a robot file, its numbers where it gives none; empty where none has a name."""
        tables = self.base.get("chambers", [])
        names = [table.get("name") for table in tables if isinstance(table, dict)] if isinstance(tables, list) else []
        return tuple(str(name or c + 1) for c, name in enumerate(names)) if any(names) else ()

    @cached_property
    def knobs(self) -> Mapping[str, Knob]:
        """All knobs by their keys, in the order in which they are shown."""
        found = [*self._drive(), *(self._dimensions() if self.design else self._numbers()), *self._around()]
        return {knob.key: knob for knob in found}

    def value(self, key: str) -> Value:
        """Return what a knob stands at."""
        return self.values.get(key, self.knobs[key].value)

    def turned(self, key: str, value: object) -> Scene:
        """Return the scene with a knob at another value; what follows from it is checked where it is used.

        Raises
        ------
        InputError
            There is no such knob, or it cannot have the value.
        """
        if key not in self.knobs:
            raise InputError(f"{key!r} is no knob of this robot")
        made = replace(self, values={**self.values, key: self.knobs[key].taken(value)})
        if made.design:  # a choice of fingers, or of their number, changes which knobs there are
            drawn = made.drawn()
            made = replace(made, chambers=len(drawn.chambers), cables=len(drawn.cables))
            made = replace(made, values={k: v for k, v in made.values.items() if k in made.knobs})
        made.job()
        return made

    def drawn(self) -> Design:
        """Return the design.

        Raises
        ------
        InputError
            A dimension cannot be.
        """
        design: Design = make(self.design, **self.parameters())
        return design

    def parameters(self) -> dict[str, Any]:
        """Return the dimensions of the design [SI] that are not at their defaults."""
        given = self._given()
        return {d.name: d.si(given[d.key]) for d in self._known() if d.key in given}

    def _given(self) -> dict[str, Any]:
        """Return the dimensions that are not at their defaults, by their keys and in the units of those; pairs as lists."""
        given: dict[str, Any] = {}
        for d in self._known():
            if isinstance(d.default, tuple):
                keys = [f"{d.key}:{i}" for i in range(len(d.default))]
                if any(key in self.values for key in keys):
                    given[d.key] = [self.values.get(key, _round(v)) for key, v in zip(keys, d.shown)]
            elif d.key in self.values and (self.values[d.key] or d.default is not None):
                given[d.key] = self.values[d.key]
        return given

    def _known(self) -> Sequence[Any]:
        return _dimensions_of(self.design, self.values)

    # ---- knobs

    @property
    def driven(self) -> str:
        """What the knobs command: "volume_ratio" or "pressure_kpa" of chambers, "tension_n" of cables, "" nothing."""
        if self.chambers and not (self.actuation and "inflation" not in self.actuation):
            first = "volume" if "volume_ratio" in self.actuation.get("inflation", {}) else "pressure"
            return "volume_ratio" if self.values.get("drive", first) == "volume" else "pressure_kpa"
        return "tension_n" if self.cables and not self.actuation else ""

    def _drive(self) -> list[Knob]:
        before, driven = self.actuation.get("inflation", {}), self.driven
        label, unit, (low, high, first) = DRIVES.get(driven, DRIVES["pressure_kpa"])
        out = []
        if driven in INFLATION_KEYS:
            by_volume = "volume" if "volume_ratio" in before else "pressure"
            out.append(Knob("drive", "Actuation", "prescribed", by_volume, choices=("pressure", "volume")))
        count = {"": 0, "tension_n": self.cables}.get(driven, self.chambers)
        plain = tuple(str(n + 1) for n in range(count)) if count > 1 or driven == "tension_n" else ("",)
        for c, which in zip(range(count), (driven in INFLATION_KEYS and self.chamber_names) or plain):
            value = _last(before.get(driven), c, first)
            said = f"{label} {which}".strip()
            out.append(Knob(f"{driven}:{c}", "Actuation", said, value, unit, low, max(high, 2 * value)))
        if driven:
            out.append(Knob("steps", "Actuation", "frames", STEPS[2], "", STEPS[0], STEPS[1], whole=True))
        own = _numbers_of(self.actuation, self.actuation.get("units", "m"), ends=True)
        named = [replace(k, group="Actuation", key=f"actuation.{k.key}") for k in own]
        return out + [k for k in named if driven not in INFLATION_KEYS and not k.key.startswith("actuation.inflation.")]

    def _dimensions(self) -> list[Knob]:
        known = self._known()
        shown = {d.key: d.shown for d in known}
        # a tip_height, which may be left out, goes as far as the height
        return [knob for d in known for knob in _dimension_knobs(d, shown.get(d.key.replace("tip_", "")))]

    def _numbers(self) -> list[Knob]:
        parts = {
            k: v for k, v in self.base.items() if k in ("environment", "cables", "snake", "rod", "shell", "layers")
        }
        return [
            k
            for k in _numbers_of(parts, self.base.get("units", "mm"))
            if "gravity" not in k.key and "motion" not in k.key
        ]

    def _around(self) -> list[Knob]:
        body, around = self.base.get("body", {}), self.base.get("environment", {})
        single, names = body.get("material", DEFAULT_MATERIAL), materials.names()
        shape, mesh = self.values.get("object", "none"), "preview" if self.base.get("preview") else "default"
        free = self.volumetric and not around.get("obstacles")
        placed = free and shape != "none"
        meshed = self.volumetric and "mesh" not in body
        places = zip("xyz", self._object_at() if placed else ())
        rows = [
            (
                self.volumetric and isinstance(single, str) and "bodies" not in self.base,
                Knob("material", "Material", "material", single, choices=(*[single][single in names :], *names)),
            ),
            (not around, Knob("gravity", "Surroundings", "gravity", "none", choices=tuple(DIRECTIONS))),
            (free, Knob("object", "Surroundings", "object", "none", choices=OBJECTS)),
            *((True, Knob(f"object_{a}_mm", "Surroundings", f"its {a}", v, "mm", *PLACE_MM)) for a, v in places),
            (placed and shape == "sphere", _ranged("object_radius_mm", "Surroundings", "its radius", "mm", RADIUS_MM)),
            (placed, _ranged("object_friction", "Surroundings", "its friction", "", FRICTION)),
            (meshed, Knob("mesh", "Mesh", "finest", mesh, choices=MESHES)),
            (
                meshed and self.values.get("mesh", mesh) == "edges",
                _ranged("max_edge_mm", "Mesh", "edges up to", "mm", EDGE_MM),
            ),
        ]
        return [knob for shown, knob in rows if shown]

    def _object_at(self) -> tuple[float, float, float]:
        """Where an object is [mm] until it is moved: below the finger of a design, within its reach."""
        if not self.design:
            return (0.0, 0.0, -60.0)
        box = 1e3 * self.drawn().tip_box
        x, y, _ = (float(v) for v in 0.5 * (box[0] + box[1]))
        if self.design == "gripper":
            return (0.0, 0.0, _round(float(box[0, 2])))
        return (_round(0.75 * x), _round(y), _round(float(box[0, 2]) - 30.0))

    # ---- files

    @cached_property
    def tables(self) -> dict[str, Any]:
        """The tables of a study with this one design."""
        out: dict[str, Any] = {"actuation": self.commands(), "environment": self.surroundings()}
        if "material" in self.knobs:
            out["material"] = self.value("material")
        if "mesh" in self.knobs and (mesh := self.value("mesh")) != "default":
            out["mesh"] = {"preview": True} if mesh == "preview" else {"max_edge_mm": float(self.value("max_edge_mm"))}
        if self.design:
            return {"design": self.design, "fixed": self._given(), **out}
        assert self.path is not None
        own = {k.key for k in self._numbers()}
        return {"robot": self.path.name, "fixed": {k: v for k, v in self.values.items() if k in own}, **out}

    def commands(self) -> dict[str, Any]:
        """Return the tables of the actuation file."""
        steps, driven = int(self.value("steps")) if "steps" in self.knobs else 1, self.driven
        rest = 1.0 if driven == "volume_ratio" else 0.0
        ends = [float(self.value(key)) for key in self.knobs if driven and key.startswith(f"{driven}:")]
        table = [[_exact(rest + (i + 1) / steps * (end - rest)) for end in ends] for i in range(steps)]
        if driven in INFLATION_KEYS:
            kept = {k: v for k, v in self.actuation.get("inflation", {}).items() if k not in INFLATION_KEYS}
            return {"inflation": {driven: table, **kept}}
        if driven:
            return {"cable_tensions": {"tension": table}}
        out = dict(self.actuation)
        for key, value in self.values.items():
            if key.startswith("actuation."):
                out = put(out, key.removeprefix("actuation."), value)
        return out

    def surroundings(self) -> dict[str, Any]:
        """Return the table [environment] of the robot file; lengths in its unit."""
        out: dict[str, Any] = {}
        obstacle: dict[str, Any]
        if "gravity" in self.knobs and (way := str(self.value("gravity"))) != "none":
            out["gravity"] = [EARTH_GRAVITY * v for v in DIRECTIONS[way]]
        if "object" in self.knobs and (shape := self.value("object")) != "none":
            scale = METRES_PER_UNIT["mm"] / METRES_PER_UNIT[str(self.base.get("units", "mm"))]
            point = [float(self.value(f"object_{axis}_mm")) * scale for axis in "xyz"]
            friction = float(self.value("object_friction"))
            if shape == "sphere":
                obstacle = {"center": point, "radius": float(self.value("object_radius_mm")) * scale}
            else:
                obstacle = {"point": point, "normal": [0.0, 0.0, 1.0]}
            out["obstacles"] = [{"shape": str(shape), **obstacle, "friction": friction}]
        return out

    def job(self) -> Job:
        """Return what is solved, with all that its files are written from.

        Raises
        ------
        InputError
            A value cannot be.
        """
        folder = Path.cwd() if self.path is None else self.path.parent
        place = Place(folder / "studio.toml")
        file: StudyFile = validated(StudyFile, self.tables, place)
        study = Study("studio", file, place, "", None if self.path is None else self.base)
        return study.job({})

    # ---- words

    def command(self, name: str) -> str:
        """Return the command that solves the files saved under a name."""
        given = f" --actuation {name}/actuation.toml" if self.commands() else ""
        return f"geosim solve {name}/robot.toml{given} --out {name}/result"

    def python(self, name: str) -> str:
        """Return the Python that makes and solves this state."""
        commands = self.commands()
        if not self.design:
            loaded = f'load_actuation("{name}/actuation.toml", robot)' if commands else "geosim.Passive()"
            return FILE_PYTHON.format(name=name, actuation=loaded)
        mesh = self.tables.get("mesh", {})
        options = {"max_edge": _exact(1e-3 * mesh["max_edge_mm"])} if "max_edge_mm" in mesh else mesh
        return DESIGN_PYTHON.format(
            design="".join([f'"{self.design}"', *(f", {k}={v!r}" for k, v in self.parameters().items())]),
            robot="".join([f'"{self.value("material")}"', *(f", {k}={v!r}" for k, v in options.items())]),
            actuation=_actuation_python(commands),
            environment=", ".join(_environment_python(self.surroundings())),
        )


FILE_PYTHON = """import geosim
from geosim.files.actuation import load_actuation
from geosim.files.robot import load_problem

robot, environment, solver = load_problem("{name}/robot.toml")
result = geosim.solve(robot, {actuation}, environment, solver=solver)"""
DESIGN_PYTHON = """import geosim

design = geosim.generate.make({design})
robot = design.robot(material={robot})
actuation = geosim.{actuation}
result = geosim.solve(robot, actuation, geosim.Environment({environment}))"""


def _actuation_python(commands: Mapping[str, Any]) -> str:
    """The actuation of an actuation file of a design, as it is made in Python."""
    if "cable_tensions" in commands:
        return f"CableTensions({commands['cable_tensions']['tension']})"
    if "inflation" not in commands:
        return "Passive()"
    (key, rows), *_ = commands["inflation"].items()
    scale = 1e3 if key == "pressure_kpa" else 1.0
    return f"Inflation({key.removesuffix('_kpa')}={[[_exact(v * scale) for v in row] for row in rows]})"


def _environment_python(around: Mapping[str, Any]) -> list[str]:
    """The arguments of `Environment` of a table [environment] in mm."""
    made = [f"gravity={tuple(around['gravity'])}"] if "gravity" in around else []
    for obstacle in around.get("obstacles", []):
        parts = {key: value for key, value in obstacle.items() if key != "shape"}
        for key in parts.keys() & {"center", "point", "radius"}:
            mm = parts[key]
            parts[key] = [_exact(1e-3 * x) for x in mm] if isinstance(mm, list) else _exact(1e-3 * mm)
        said = ", ".join(f"{k}={v!r}" for k, v in parts.items())
        made.append(f"obstacles=[geosim.Obstacle.{obstacle['shape']}({said})]")
    return made


def of_design(name: str, values: Mapping[str, Value] | None = None) -> Scene:
    """Return the scene of a generator at its defaults.

    Raises
    ------
    InputError
        There is no such generator.
    """
    if name not in GENERATORS:
        raise InputError(f"no design is called {name!r}; choose one of {', '.join(GENERATORS)}")
    made = make(name)
    scene = Scene(name, chambers=len(made.chambers), cables=len(made.cables))
    for key, value in (values or {}).items():
        if key in scene.knobs and value != scene.knobs[key].value:
            scene = scene.turned(key, value)
    return scene


def of_file(path: Path) -> Scene:
    """Return the scene of a robot file, with the actuation.toml beside it; a design that was generated keeps its dimensions.

    Raises
    ------
    InputError
        The file is missing, not TOML, or of no kind or unit that is known.
    """
    base = read_toml(path, "robot file")
    for key, known in (("kind", tuple(KINDS)), ("units", tuple(METRES_PER_UNIT))):
        if base.get(key) not in known:
            raise Place(path).error(f"{key} = {base.get(key)!r} is none of {', '.join(known)}")
    beside = path.parent / "actuation.toml"
    actuation = read_toml(beside, "actuation file") if beside.is_file() else {}
    values = _values(base, actuation)
    if values is not None:
        return of_design(str(base["design"]["name"]), values)
    chambers = base.get("chambers", [])
    count = len(chambers) if isinstance(chambers, list) else 1
    cables = base.get("cables", [])
    return Scene("", path.resolve(), base=base, actuation=actuation, chambers=count, cables=len(cables))


def _values(base: Mapping[str, Any], actuation: Mapping[str, Any]) -> dict[str, Value] | None:
    """Values of knobs that say the same as the files of a design; None where they say more than knobs do."""
    made, body, unit = base.get("design", {}), base.get("body", {}), base.get("units")
    generated = isinstance(made, dict) and made.get("name") in GENERATORS and unit == "mm"
    more = base.get("solver") or set(actuation) - {"inflation", "cable_tensions"}
    if not generated or not isinstance(body.get("material"), str) or more:
        return None
    around = _placed(base.get("environment", {}))
    if around is None or not _has_knobs(str(made["name"]), made.get("parameters", {})):
        return None
    values = _shown(str(made["name"]), made.get("parameters", {})) | {"material": body["material"]}
    values |= _commanded(actuation)
    values |= {"mesh": "preview"} if base.get("preview") else {}
    values |= {"mesh": "edges", "max_edge_mm": float(body["max_edge"])} if "max_edge" in body else {}
    return values | around


def _commanded(actuation: Mapping[str, Any]) -> dict[str, Value]:
    """Values of the knobs that drive a robot, of its actuation file."""
    values: dict[str, Value] = {}
    for table, name in (("inflation", "pressure_kpa"), ("inflation", "volume_ratio"), ("cable_tensions", "tension")):
        rows = actuation.get(table, {}).get(name)
        if isinstance(rows, list) and rows:
            last = rows[-1] if isinstance(rows[-1], list) else [rows[-1]]
            key = {"tension": "tension_n"}.get(name, name)
            values |= {"drive": "volume"} if name == "volume_ratio" else {}
            values |= {"steps": len(rows)} | {f"{key}:{c}": _last(rows, c, 0.0) for c in range(len(last))}
    return values


def _placed(environment: Mapping[str, Any]) -> dict[str, Value] | None:
    """Values of the knobs around a robot, of its table [environment]; None where that says more than knobs do."""
    around = dict(environment)
    gravity = tuple(v / EARTH_GRAVITY for v in around.pop("gravity", (0, 0, 0)))
    obstacles = around.pop("obstacles", [])
    if gravity not in DIRECTIONS.values() or around or len(obstacles) > 1:
        return None
    values: dict[str, Value] = {"gravity": next(name for name, way in DIRECTIONS.items() if way == gravity)}
    for o in obstacles:
        at = o.get("center", o.get("point"))
        known = o.get("shape") in OBJECTS and not o.keys() - {
            "shape",
            "center",
            "point",
            "normal",
            "radius",
            "friction",
        }
        if not known or o.get("normal", [0, 0, 1]) != [0, 0, 1]:
            return None
        values |= {"object": o["shape"]} | {f"object_{axis}_mm": float(v) for axis, v in zip("xyz", at)}
        values |= {"object_friction": float(o.get("friction", 0.0))}
        values |= {"object_radius_mm": float(o["radius"])} if "radius" in o else {}
    return values


def of_result(path: Path) -> Scene:
    """Return the scene of a result: its design at its last command, or the robot file beside its folder.

    Raises
    ------
    InputError
        It is no result, or neither is known.
    """
    from geosim.files.archive import load_result
    from geosim.model.actuation import Inflation

    result = load_result(path)
    design = getattr(result.robot, "design", None)
    if isinstance(design, Design) and design.name in GENERATORS and _has_knobs(design.name, design.parameters):
        values = _shown(design.name, design.parameters)
        if isinstance(result.actuation, Inflation) and len(result.frames):
            for c, pressure in enumerate(result.chamber_pressures[-1]):
                values[f"pressure_kpa:{c}"] = _exact(float(f"{1e-3 * pressure:.6g}"))
        return of_design(design.name, values)
    for folder in (path.resolve().parent, path.resolve().parent.parent):
        if (folder / "robot.toml").is_file():
            return of_file(folder / "robot.toml")
    raise InputError(
        f"{path}: its robot has no design with a knob for each dimension, and no robot.toml lies beside it; open the robot file"
    )


def _dimensions_of(name: str, values: Mapping[str, Any]) -> Sequence[Dimension]:
    """Dimensions of a design; those of the finger of a gripper by the values that it has."""
    return tuple(dimensions(GENERATORS[name], GENERATORS.get(str(values.get("finger", "pneunet")))).values())


def _dimension_knobs(d: Dimension, like: Any) -> list[Knob]:
    """The knobs of a dimension, a knob each for the parts of a pair; `like` is what one that may be left out goes along with."""
    label, unit, shown = d.name.replace("_", " "), "mm" if d.key.endswith("_mm") else "", d.shown
    whole = isinstance(shown, int)
    if isinstance(shown, str):
        fingers = tuple(name for name in GENERATORS if name not in ("gripper", "membrane"))
        return [Knob(d.key, "Dimensions", label, shown, choices=fingers)]
    if isinstance(shown, tuple):
        sides = ("width", "height") if "channel" in d.key else range(1, len(shown) + 1)
        pairs = zip(sides, shown)
        return [
            Knob(f"{d.key}:{i}", "Dimensions", f"{label} {side}", _round(v), unit, *_scaled(v))
            for i, (side, v) in enumerate(pairs)
        ]
    if shown is None:  # a length that may be left out: 0 is none
        low, high = LAYER_MM if like is None else (0.0, _scaled(like)[1])
    elif whole:
        low, high, unit = 1, max(4, COUNT_RANGE * shown), ""
    else:
        low, high = _scaled(shown) if unit else TURNS_RANGE
    value = 0.0 if shown is None else shown if whole else _round(shown)
    return [Knob(d.key, "Dimensions", label, value, unit, low, high, whole=whole)]


def _scaled(value: float) -> tuple[float, float]:
    """Least and largest value of the knob of a length."""
    low, high = (_round(share * value) for share in DIMENSION_RANGE)
    return low, high


def _has_knobs(name: str, parameters: Mapping[str, Any]) -> bool:
    """Whether knobs say a design: not one whose chambers have lengths of their own."""
    return not any(
        d.of_each and isinstance(parameters.get(d.name), list | tuple) for d in _dimensions_of(name, parameters)
    )


def _shown(name: str, parameters: Mapping[str, Any]) -> dict[str, Value]:
    """Values of knobs at the dimensions [SI] of a design."""
    out: dict[str, Value] = {}
    for d in _dimensions_of(name, parameters):
        value = parameters.get(d.name)
        if isinstance(value, list | tuple):
            out |= {f"{d.key}:{i}": _exact(v / d.scale) for i, v in enumerate(value)}
        elif isinstance(value, float):
            out[d.key] = _exact(value / d.scale)
        elif value is not None:
            out[d.key] = value
    return out


def _numbers_of(tables: Any, length: str, before: str = "", ends: bool = False) -> list[Knob]:
    """Knobs for the numbers in tables, by their dotted keys; with `ends` also for where rows of numbers end."""
    out = []
    pairs = tables.items() if isinstance(tables, dict) else enumerate(tables)
    for key, value in pairs:
        name = f"{before}{key}"
        if ends and key != "times" and isinstance(value, list) and value:
            name, value = f"{name}.-1", value[-1]
            if isinstance(value, list) and len(value) <= MOST_PARTS:
                out += _numbers_of(value, length, f"{name}.")
        if _holds_tables(value):
            out += _numbers_of(value, length, f"{name}.", ends)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            out.append(_number_knob(name, value, length))
    return out


def _holds_tables(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(v, dict) for v in value))


def _number_knob(name: str, value: float, length: str) -> Knob:
    """A knob for the number of a file, with the unit that its key says; `length` is the unit of lengths."""
    low, high = sorted(share * (value or 1.0) for share in NUMBER_RANGE)
    words = [p for p in name.split(".") if p != "-1"]
    word = next(p for p in reversed(words) if not p.isdigit())
    unit = next((u for end, u in UNITS.items() if word.endswith(end)), "").replace("length", length)
    said = word.removesuffix(f"_{unit.lower()}").replace("_", " ")
    label = f"{said} {int(words[-1]) + 1}" if words[-1].isdigit() else said
    count = isinstance(value, int)
    return Knob(
        name, "Robot", label, value, unit, *((max(1, low), max(2, high)) if count else (low, high)), whole=count
    )


def _ranged(key: str, group: str, label: str, unit: str, ends: tuple[float, float, float]) -> Knob:
    """A knob for a number of a least, a largest and a first value."""
    return Knob(key, group, label, ends[2], unit, *ends[:2])


def _last(given: Any, chamber: int, default: float) -> float:
    """The last row of a table of commands, at a chamber."""
    last = given[-1] if isinstance(given, list) and given else given
    row = last if isinstance(last, list) else [last]
    value = row[min(chamber, len(row) - 1)] if row else None
    return float(value) if isinstance(value, int | float) else default


def _round(value: float) -> float:
    return float(f"{value:.3g}")


def _exact(value: float) -> float:
    """A number without what rounding adds."""
    return float(f"{value:.12g}")
