"""Reinforcement of a body: stiff layers on its faces or inside it, and fibres."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from geosim.arguments import guarded
from geosim.arrays import ArrayLike, Floats, Ints, brief, floats, frozen, ints, marked, number
from geosim.errors import InputError
from geosim.geometry import topology
from geosim.material.materials import Hyperelastic, LinearElastic, Material
from geosim.model.materials import as_material
from geosim.model.select import selected_ids

if TYPE_CHECKING:
    from geosim.model.materials import MaterialLike


def elastic_moduli(material: Material) -> tuple[float, float]:
    """Return Young's modulus [Pa] and Poisson's ratio of a material at small strain.

    Raises
    ------
    InputError
        It has none.
    """
    if isinstance(material, LinearElastic):
        return material.youngs_modulus, material.poisson_ratio
    if not isinstance(material, Hyperelastic):
        raise InputError(
            f"{type(material).__name__} has no moduli at small strain; give LinearElastic or a hyperelastic law"
        )
    mu, kappa = material.shear_modulus, material.bulk_modulus
    if not np.isfinite(kappa):
        return 3.0 * mu, 0.5
    return 9.0 * kappa * mu / (3.0 * kappa + mu), (3.0 * kappa - 2.0 * mu) / (2.0 * (3.0 * kappa + mu))


@guarded
@dataclass(frozen=True)
class Layer:
    """A thin sheet that is bonded to the body: it resists stretch and shear in its plane, not bending; it has no weight.

    Parameters
    ----------
    faces
        What it covers: a `Select` (a face counts when its three vertices do), vertex ids of faces (m, 3), or a
        `trimesh.Trimesh` [m] inside the body, which need not follow the mesh.
    thickness
        [m].
    material
        Object or preset name. Its moduli at small strain enter a St Venant-Kirchhoff membrane in plane stress, so it is for
        sheets that are much stiffer than the body: paper, fabric, film. It resists being shortened, too.
    of
        Which faces a `Select` chooses among: "skin", "chamber:0" (counted from 0), "any".
    vertices
        Points [m] (p, 3) that `faces` number where the layer lies inside the body; None where they number the robot's.
    """

    faces: Any
    thickness: float
    material: Any
    of: str = "any"
    vertices: Any = None

    __repr__ = brief

    def __post_init__(self) -> None:
        put = partial(object.__setattr__, self)
        number(self.thickness, "Layer: thickness [m]", above=0.0)
        put("material", as_material(self.material, "Layer: material"))
        if hasattr(self.faces, "faces") and hasattr(self.faces, "vertices"):
            put("vertices", np.array(self.faces.vertices, dtype=float))
            put("faces", np.array(self.faces.faces, dtype=np.int64))
        if self.vertices is not None:
            put("vertices", floats(self.vertices, "Layer: vertices", (None, 3)))
        if not callable(self.faces):
            below = None if self.vertices is None else len(self.vertices)
            put("faces", ints(self.faces, "Layer: faces", (None, 3), below=below))

    def on(self, vertices: Floats, surfaces: dict[str, Ints], edges: Ints) -> Layer:
        """Return the layer with vertex ids for its faces.

        Parameters
        ----------
        vertices, surfaces, edges
            Rest positions [m] (n, 3), faces (f, 3) by the names that `of` knows, edges of the mesh (e, 2), of a robot.

        Raises
        ------
        InputError
            It covers nothing, or names faces that the mesh does not have.
        """
        if self.vertices is not None:
            return self
        if callable(self.faces):
            if self.of != "any" and self.of not in surfaces:
                raise InputError(f"Layer: of = {self.of!r} is unknown; use any, {', '.join(surfaces)}")
            among = np.vstack(list(surfaces.values())) if self.of == "any" else surfaces[self.of]
            used = marked(len(vertices), among)
            chosen = marked(len(vertices), selected_ids(self.faces, vertices, "Layer", among=used))
            faces = among[chosen[among].all(axis=1)]
            if len(faces) == 0:
                raise InputError("Layer: no face has all three vertices in the selection; widen it")
            return replace(self, faces=frozen(faces))
        strange = topology.rows_of(edges, self.faces[:, topology.TRIANGLE_EDGES].reshape(-1, 2)) < 0
        if strange.any():
            face = self.faces[int(np.flatnonzero(strange)[0]) // 3].tolist()
            raise InputError(
                f"Layer: {face} is not a face of the mesh; take faces from robot.skin or robot.chamber_walls"
            )
        return self


@guarded
@dataclass(frozen=True)
class Fibre:
    """A thin thread that is bonded to the body along a polyline: it resists stretch; it has no weight.

    Parameters
    ----------
    points
        Rest positions [m] (p, 3), inside the body or on its surface.
    radius
        Of its section [m].
    material
        Object or preset name; its Young's modulus at small strain counts.
    tension_only
        Whether it gives way, as threads do, where it is shortened.
    """

    points: Any
    radius: float
    material: Any
    tension_only: bool = True

    __repr__ = brief

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", floats(self.points, "Fibre: points", (None, 3)))
        number(self.radius, "Fibre: radius [m]", above=0.0)
        object.__setattr__(self, "material", as_material(self.material, "Fibre: material"))
        steps = np.linalg.norm(np.diff(self.points, axis=0), axis=1)
        if len(steps) == 0 or (steps == 0.0).any():
            raise InputError("Fibre: points must be at least two, and no two neighbours the same")

    @property
    def stiffness(self) -> float:
        """Young's modulus times section [N]."""
        return elastic_moduli(self.material)[0] * np.pi * self.radius**2

    @staticmethod
    def helix(
        start: ArrayLike,
        end: ArrayLike,
        helix_radius: float,
        turns: float,
        radius: float,
        material: MaterialLike,
        phase: float = 0.0,
        tension_only: bool = True,
    ) -> Fibre:
        """Return a fibre along a helix round the way from `start` to `end` [m], right-handed where `turns` > 0.

        Parameters
        ----------
        start, end
            Of its axis [m], (3,).
        helix_radius, turns
            [m] of the helix, and its turns, which may be a fraction.
        radius, material, tension_only
            Of the fibre.
        phase
            Angle [rad] of its beginning, from the coordinate axis that is farthest from the helix's.
        """
        # [m], and turns of a fibre: more than any robot has
        max_fibre_coordinate_m, max_fibre_turns = 1e6, 1e4
        a, b = (floats(point, "Fibre.helix: start, end", (3,), most=max_fibre_coordinate_m) for point in (start, end))
        number(helix_radius, "Fibre.helix: helix_radius [m]", above=0.0)
        number(helix_radius, "Fibre.helix: helix_radius [m]", high=max_fibre_coordinate_m)
        turns, phase = (
            number(turns, "Fibre.helix: turns", low=-max_fibre_turns, high=max_fibre_turns),
            number(phase, "Fibre.helix: phase"),
        )
        length = float(np.linalg.norm(b - a))
        if length == 0.0 or turns == 0.0:
            raise InputError("Fibre.helix: the axis needs a length and the helix turns")
        axis = (b - a) / length
        aside = np.eye(3)[int(np.argmin(np.abs(axis)))]
        u = aside - (aside @ axis) * axis
        u /= np.linalg.norm(u)
        helix_pieces_per_turn = 32  # pieces of a turn of a helix: the chords are 0.2 % shorter than the arc
        s = np.linspace(0.0, 1.0, int(np.ceil(helix_pieces_per_turn * abs(turns))) + 1)
        angle = (phase + 2.0 * np.pi * turns * s)[:, None]
        ring = np.cos(angle) * u + np.sin(angle) * np.cross(axis, u)
        return Fibre(a + s[:, None] * (b - a) + helix_radius * ring, radius, material, tension_only)
