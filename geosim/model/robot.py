"""The volumetric robot: a tetrahedral body of hyperelastic material with closed chambers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from geosim.arguments import guarded
from geosim.arrays import (
    METRES_PER_UNIT,
    NO_EDGES,
    ArrayLike,
    Bools,
    Floats,
    Ints,
    brief,
    choice,
    floats,
    frozen,
    ints,
    marked,
    number,
    whole,
)
from geosim.errors import InputError
from geosim.geometry import topology
from geosim.geometry.surface import MAX_PLAUSIBLE_SIZE_M, MIN_PLAUSIBLE_SIZE_M
from geosim.material.materials import Hyperelastic, LinearElastic
from geosim.model.cable import Anchors, Cable, anchors, as_cables
from geosim.model.display import Displayed
from geosim.model.fabric import Fibre, Layer
from geosim.model.materials import as_material
from geosim.model.select import selected_ids
from geosim.model.tolerances import Tolerances

if TYPE_CHECKING:
    from geosim.model.materials import MaterialLike
    from geosim.model.select import VertexSelection


NO_IDS = np.empty(0, dtype=np.int64)
BODY_END_SHARE = 0.02  # of the length of a body: its end


@guarded
@dataclass(frozen=True)
class VolumetricRobot(Displayed):
    """A soft body in tetrahedra, its chambers, its materials and where it is held.

    Build it with `from_surfaces` or `from_tets`, or read it with `geosim.load_robot`.

    Parameters
    ----------
    vertices
        Rest positions [m], shape (n, 3).
    tets
        Vertex ids, positively oriented, shape (m, 4).
    regions
        Region of every tet, shape (m,).
    materials
        {region: Hyperelastic}; these regions are bodies, all others chambers.
    fixed, tip
        Vertex ids; `fixed` may be empty (a free body).
    name
        Shown in summaries.
    units
        Unit of the files that the robot came from ("m", "cm", "mm", "in"), used when surfaces are saved.
    notices
        One line for everything that was repaired on the way in.
    allow_any_size
        Whether a diagonal below 1 mm or above 5 m is accepted.
    cables
        Cables that pull on the body.
    layers, fibres
        What is bonded to it: stiff sheets and threads; a layer on faces knows them by their vertex ids.
    design
        The `generate.Design` that it was made from, or None.
    remesh
        Makes it again from the same surfaces, with another `max_edge`; None where it did not come from surfaces.
    preview
        Whether its mesh is the coarsest that keeps the geometry (see `from_surfaces`).
    tolerances
        How well it is known, for `error_bars`; None where nobody said.
    chamber_names
        Names of the chambers in pictures and tables; by default those of their regions, or their numbers from 1.
    region_names
        {region: name} of bodies and chambers that have names, as solids of CAD files do; for tables and pictures.
    """

    vertices: Floats
    tets: Ints
    regions: Ints
    materials: Mapping[int, Hyperelastic]
    fixed: Ints
    tip: Ints
    name: str = "robot"
    units: str = "mm"
    notices: tuple[str, ...] = field(default=(), repr=False)
    allow_any_size: bool = field(default=False, repr=False)
    cables: tuple[Cable, ...] = ()
    layers: tuple[Layer, ...] = ()
    fibres: tuple[Fibre, ...] = ()
    design: object = field(default=None, repr=False, compare=False)
    remesh: partial[VolumetricRobot] | None = field(default=None, repr=False, compare=False)
    preview: bool = field(default=False, repr=False)
    tolerances: Tolerances | None = field(default=None, repr=False, compare=False)
    chamber_names: tuple[str, ...] = field(default=(), repr=False, compare=False)
    region_names: Mapping[int, str] = field(default_factory=dict, repr=False, compare=False)

    __repr__ = brief

    # rods, which other kinds of robot have
    edges = NO_EDGES
    radius = frozen(np.empty(0))

    def __post_init__(self) -> None:
        put = partial(object.__setattr__, self)
        put("vertices", floats(self.vertices, "vertices", (None, 3)))
        for key, shape in (("tets", (None, 4)), ("fixed", (None,)), ("tip", (None,))):
            put(key, ints(getattr(self, key), key, shape, below=len(self.vertices)))
        put("regions", ints(self.regions, "regions", (len(self.tets),)))
        put("materials", MappingProxyType({int(r): m for r, m in sorted(dict(self.materials).items())}))
        put("region_names", MappingProxyType({int(r): str(n) for r, n in dict(self.region_names).items()}))
        self._check_elements()
        self._check_regions()
        put("chamber_names", tuple(map(str, self.chamber_names)) or self._named_chambers())
        if len(self.chamber_names) not in (0, self.chambers):
            raise InputError(
                f"chamber_names: {len(self.chamber_names)} names of {self.chambers} chambers; name all or none"
            )
        put("cables", as_cables(self.cables))
        _ = self.cable_anchors  # refuses points outside of the body
        put("fibres", tuple(self.fibres))
        surfaces = {"skin": self.skin, **{f"chamber:{c}": faces for c, faces in enumerate(self.chamber_walls)}}
        put("layers", tuple(layer.on(self.vertices, surfaces, self.p2_edges) for layer in self.layers))

    def _check_elements(self) -> None:
        if len(self.tets) == 0:
            raise InputError("tets: none given; a robot needs at least one tetrahedron")
        choice(self.units, "units", METRES_PER_UNIT)
        used = self.vertices[np.unique(self.tets)]
        size = float(np.linalg.norm(used.max(axis=0) - used.min(axis=0)))
        if not self.allow_any_size and not MIN_PLAUSIBLE_SIZE_M <= size <= MAX_PLAUSIBLE_SIZE_M:
            raise InputError(
                f"vertices: the bounding-box diagonal is {size:.4g} m, which looks like a mistaken unit "
                f"({MIN_PLAUSIBLE_SIZE_M:g} .. {MAX_PLAUSIBLE_SIZE_M:g} m is usual); positions are in metres, or set "
                f"allow_any_size=True"
            )
        volumes = topology.tet_volumes(self.vertices, self.tets)
        flipped = volumes < 0
        if flipped.any():
            turned = np.where(flipped[:, None], self.tets[:, [0, 2, 1, 3]], self.tets)
            object.__setattr__(self, "tets", frozen(turned))
            object.__setattr__(
                self, "notices", (*self.notices, f"{flipped.sum()} tets were negatively oriented and have been turned")
            )
        flat = topology.flat_tets(self.vertices, self.tets)
        if len(flat):
            raise InputError(
                f"tets: tet {flat[0]} (vertices {self.tets[flat[0]].tolist()}) has zero volume; remove it or mesh again"
            )

    def _check_regions(self) -> None:
        present = set(np.unique(self.regions).tolist())
        if not self.materials:
            raise InputError("material: none given; pass a material or a preset name such as 'ecoflex-00-30'")
        for region, material in self.materials.items():
            if region not in present:
                raise InputError(f"material: region {region} has a material but no tets; regions are {sorted(present)}")
            if isinstance(material, LinearElastic):
                raise InputError(
                    "material: LinearElastic is for rods, shells and snake links; for a volumetric robot use "
                    f"NeoHookean(mu={material.shear_modulus:.6g}, bulk_modulus=...)"
                )
            if not isinstance(material, Hyperelastic):
                raise InputError(f"material: {material!r} is not a hyperelastic material")

    @classmethod
    def from_tets(
        cls,
        vertices: ArrayLike,
        tets: ArrayLike,
        regions: ArrayLike | None = None,
        *,
        material: MaterialLike | Mapping[int, MaterialLike],
        fixed: VertexSelection | None,
        tip: VertexSelection | None = None,
        name: str = "robot",
        units: str = "mm",
        allow_any_size: bool = False,
        notices: Sequence[str] = (),
        cables: Sequence[Any] = (),
        chambers: str | None = None,
        layers: Sequence[Layer] = (),
        fibres: Sequence[Fibre] = (),
    ) -> VolumetricRobot:
        """Build a robot from a tetrahedral mesh; the numbering of the vertices is kept.

        Parameters
        ----------
        vertices
            Rest positions [m], shape (n, 3).
        tets
            Vertex ids, shape (m, 4); negatively oriented ones are turned with a notice.
        regions
            Region of every tet, shape (m,); default all 0.
        material
            One material or preset name (then region 0 is the body and 1..k are chambers), or
            {region: material} (those regions are bodies, the rest are chambers).
        fixed
            What is held: vertex ids, a bool array (n,), a `Select`, a callable (n, 3) -> bool, or None for a
            free body.
        tip
            Likewise the vertices whose area-weighted mean is `Result.tip`; default the end of the body that is
            farthest from what is fixed.
        cables
            `Cable` objects, or arrays of the points [m] (q, 3) that each passes through.
        chambers
            "cavities": the mesh is hollow, and every cavity that the bodies enclose becomes a chamber, in the order of their
            places along x, y, z. Vertices inside them are appended.
        layers, fibres
            `Layer` and `Fibre` objects that are bonded to the body.

        Raises
        ------
        InputError
            Anything that cannot be solved: a wrong shape, an id that does not exist, nan, an element of zero volume, tets
            that overlap, a suspicious size, a selection of nothing, a cable outside of the body.
        """
        from geosim.geometry.build import CAVITIES, check_tets, fill_cavities

        vertices = floats(vertices, "vertices", (None, 3))
        tets = ints(tets, "tets", (None, 4), below=len(vertices))
        regions = np.zeros(len(tets), dtype=np.int64) if regions is None else ints(regions, "regions", (len(tets),))
        materials = _of_regions(material if isinstance(material, Mapping) else {0: material})
        check_tets(vertices, tets)
        fixed_ids = NO_IDS if fixed is None else selected_ids(fixed, vertices, "fixed")
        solid = tets[np.isin(regions, list(materials))]
        body = marked(len(vertices), solid)
        tip_ids = (
            _far_end(vertices, body, topology.boundary_faces(solid), fixed_ids)
            if tip is None
            else selected_ids(tip, vertices, "tip", among=body)
        )
        if np.isin(np.flatnonzero(body), fixed_ids).all():
            notices = (
                *notices,
                "every vertex of the body is held, so that nothing can move: check `fixed` and its unit",
            )
        max_tip_share = 0.9  # of the vertices of a body: the mean of more is that of the body, not of an end
        if tip is not None and len(tip_ids) > max_tip_share * body.sum():
            many = f"{len(tip_ids)} of {body.sum()} vertices of the body"
            notices = (*notices, f"`tip` selects {many}, so `Result.tip` is their mean: check `tip` and its unit")
        notices = (*notices, *_unlikely(np.ptp(vertices[body], axis=0), units, materials))
        if chambers is not None:
            choice(chambers, "chambers", (CAVITIES,))
            vertices, tets, regions, found = fill_cavities(vertices, tets, regions, list(materials))
            notices = (*notices, *found)
        return cls(
            vertices,
            tets,
            regions,
            materials,
            fixed_ids,
            tip_ids,
            name=name,
            units=units,
            notices=tuple(notices),
            allow_any_size=allow_any_size,
            cables=tuple(cables),
            layers=tuple(layers),
            fibres=tuple(fibres),
        )

    @classmethod
    def from_surfaces(
        cls,
        body: Any,
        chambers: Sequence[Any] | str = (),
        *,
        material: MaterialLike | Sequence[MaterialLike],
        fixed: VertexSelection | None,
        tip: VertexSelection | None = None,
        max_edge: float | None = None,
        units: str | None = None,
        name: str | None = None,
        allow_any_size: bool = False,
        time_limit: float = 300.0,
        rescue: bool = False,
        simplify: float | None = None,
        remesh: bool | Mapping[str, float] = True,
        preview: bool = False,
        symmetry: str | None = None,
        inlet: str | None = None,
        inlet_depth: float = 0.0,
        cables: Sequence[Any] = (),
        layers: Sequence[Layer] = (),
        fibres: Sequence[Fibre] = (),
    ) -> VolumetricRobot:
        """Build a robot from closed surfaces: check them, mesh them, choose what is held.

        Parameters
        ----------
        body
            Path of a surface file, a trimesh.Trimesh (metres unless `units` is given), or several of them for
            several bodies (then `material` may be a list, one each).
        chambers
            Paths or Trimeshes of the chambers' walls, in the order of the chambers; or "cavities": the inner shells of the
            body, in the order of their places along x, y, z.
        material, fixed, tip
            As in `from_tets`; selectors see the vertices of the mesh [m].
        max_edge
            Largest wanted edge [m]; default the diagonal of the bounding box / 40.
        units
            "m", "cm", "mm" or "in": unit of the surfaces; required for paths.
        time_limit
            Seconds that the mesher may take; with `rescue` all its runs together, and 60 s of processor time at most.
        rescue
            Repair what is refused otherwise (small holes, stray triangles, overlapping shells) and say what was
            changed and how far the surface moved. What no repair mends is cut out of an envelope mesh by fTetWild
            (pip install 'geosim[rescue]'), within a thousandth of the diagonal; refused then are chambers open to the outside.
        simplify
            Coarsen the surfaces by moving them no farther than this [m], as `remesh={"distance": ...}`; 0 keeps all triangles.
        remesh
            Give the surfaces triangles of half of `max_edge` before they are meshed, where they have smaller ones, and
            say so: sharp edges, flat faces and seams stay, others move by at most 15 % of a wall and 6 % of `max_edge`, or
            {"distance": ...} [m]. False keeps their triangles.
        preview
            Take the coarsest mesh that keeps the geometry, in place of `max_edge`: surfaces remeshed (by 0.1 % of the diagonal
            and 15 % of the width of each wall or slot, where `simplify` says nothing), slender tets allowed. With the default
            element a tenth of the time, and a few percent off.
        symmetry
            "x", "y" or "z": mesh one half and mirror it in the plane normal to that axis through the middle of the body, as
            `EnergyShapeSolver(symmetry="auto")` asks of a mesh. "auto": the first of y, x, z in which the surfaces are their own
            images; a notice where there is none.
        inlet
            "close": a chamber that runs out through the skin is closed there by a wall as thick as its walls are in the median,
            and a notice says where. With "cavities", bores of the body that open its cavities are found and plugged; the notice
            names each with its place and width. None refuses both.
        inlet_depth
            How deep below the skin bores are plugged [m].
        cables, layers, fibres
            As in `from_tets`.

        Raises
        ------
        InputError
            A surface is missing, open, self-intersecting, empty, in a suspicious unit, ...; or the mesher
            fails. The message names the surface and the remedy.
        """
        from geosim.geometry.build import mesh_given

        bodies = list(body) if isinstance(body, (list, tuple)) else [body]
        if max_edge is not None:
            number(max_edge, "max_edge [m]", above=0.0)
        if not isinstance(preview, bool):
            raise InputError(f"preview = {preview!r} must be True or False")
        of_surfaces: dict[str, Any] = {
            "allow_any_size": allow_any_size,
            "rescue": rescue,
            "simplify": simplify,
            "time_limit": time_limit,
            "symmetry": symmetry,
            "inlet": inlet,
            "inlet_depth": inlet_depth,
            "remesh": remesh,
        }
        mesh = mesh_given(
            bodies,
            chambers,
            units=units,
            max_edge=max_edge,
            preview=preview,
            **{**of_surfaces, "remesh": _distance(remesh)},
        )
        held: dict[str, Any] = {"fixed": fixed, "tip": tip, "cables": cables, "layers": layers, "fibres": fibres}
        again = partial(
            cls.from_surfaces, body, chambers, material=material, units=units, name=name, **of_surfaces, **held
        )
        given = list(material) if isinstance(material, (list, tuple)) else [material] * len(bodies)
        if len(given) != len(bodies):
            raise InputError(f"material: {len(given)} given for {len(bodies)} bodies; give one, or one for each")
        materials = _of_regions(dict(zip(mesh.body_regions, given)))
        if name is None:
            name = Path(bodies[0]).stem if isinstance(bodies[0], (str, Path)) else "robot"
        tets = mesh.vertices, mesh.tets, mesh.regions
        made = cls.from_tets(
            *tets, material=materials, name=name, units=units or "m", allow_any_size=allow_any_size, notices=mesh.notices,
            **held,
        )  # fmt: skip
        return replace(made, remesh=again, preview=preview, region_names=mesh.names)

    def with_materials(self, material: MaterialLike | Mapping[int, MaterialLike]) -> VolumetricRobot:
        """Return the same robot of another material (one for all bodies, or {region: material})."""
        new = material if isinstance(material, Mapping) else dict.fromkeys(self.materials, material)
        return replace(self, materials=_of_regions(new))

    def moved(self, vertices: Floats, **changes: Any) -> VolumetricRobot:
        """Return the same tets with vertices elsewhere (n, 3) [m], and other fields that number nothing anew.

        All is checked again; what follows from the tets and their regions alone is not found again.
        """
        of_tets = (
            "is_body", "body_tets", "body_vertices", "chamber_regions", "_p2", "p2_edges", "p2_tets", "_sides", "skin",
            "chamber_walls", "chamber_caps", "body_labels",
        )  # fmt: skip
        out = object.__new__(type(self))
        known = vars(self)
        vars(out).update({f.name: known[f.name] for f in fields(self)} | {k: known[k] for k in of_tets if k in known})
        vars(out).update({"vertices": vertices, **changes})
        out.__post_init__()
        return out

    @property
    def size(self) -> float:
        """Diagonal of the bounding box of the body at rest [m]."""
        used = self.vertices[self.body_vertices]
        return float(np.linalg.norm(used.max(axis=0) - used.min(axis=0)))

    @cached_property
    def is_body(self) -> Bools:
        """Which tets are body tets, bool (m,)."""
        return frozen(np.isin(self.regions, list(self.materials)))

    @cached_property
    def body_tets(self) -> Ints:
        """Vertex ids of the body tets, shape (mb, 4)."""
        return frozen(self.tets[self.is_body])

    @cached_property
    def body_gradients(self) -> Floats:
        """Gradients at rest of the barycentric coordinates in the body tets [1/m], shape (mb, 4, 3)."""
        return frozen(topology.tet_gradients(self.vertices, self.body_tets))

    @cached_property
    def body_vertices(self) -> Bools:
        """Which vertices belong to a body tet, bool (n,)."""
        return frozen(marked(len(self.vertices), self.body_tets))

    @cached_property
    def chamber_regions(self) -> tuple[int, ...]:
        """Regions that are chambers, in ascending order."""
        return tuple(r for r in np.unique(self.regions).tolist() if r not in self.materials)

    @property
    def chambers(self) -> int:
        """Number of chambers."""
        return len(self.chamber_regions)

    @cached_property
    def _p2(self) -> tuple[Ints, Ints]:
        return topology.mid_edges(self.body_tets, len(self.vertices))

    @cached_property
    def p2_edges(self) -> Ints:
        """End vertices of the mid-edge nodes, shape (e, 2); node n + i lies on edge i of the body."""
        return frozen(self._p2[0])

    @cached_property
    def p2_tets(self) -> Ints:
        """Ten nodes of every body tet, shape (mb, 10)."""
        return frozen(self._p2[1])

    @cached_property
    def _sides(self) -> tuple[Ints, Ints, Ints]:
        return topology.face_sides(self.tets)

    @cached_property
    def skin(self) -> Ints:
        """Faces of the body towards the outside, oriented outward, shape (f, 3)."""
        faces, inner, outer = self._sides
        return frozen(faces[(outer < 0) & self.is_body[inner]])

    @cached_property
    def chamber_walls(self) -> tuple[Ints, ...]:
        """Faces of every chamber that a body touches, oriented out of the chamber, each (f, 3)."""
        faces, inner, outer = self._sides
        walls = []
        for region in self.chamber_regions:
            inside = (self.regions[inner] == region) & (outer >= 0) & self.is_body[outer]
            beyond = (outer >= 0) & (self.regions[outer] == region) & self.is_body[inner]
            walls.append(frozen(np.vstack([faces[inside], faces[beyond][:, ::-1]])))
        return tuple(walls)

    @cached_property
    def chamber_caps(self) -> tuple[Ints, ...]:
        """Faces of every chamber that no body touches (a fixed plate closes it there), each (f, 3)."""
        faces, inner, outer = self._sides
        caps = []
        for region in self.chamber_regions:
            own, twin = self.regions[inner] == region, np.where(outer >= 0, self.regions[outer], -1) == region
            bare = own & (outer < 0)
            other = (outer >= 0) & ~self.is_body[inner] & ~self.is_body[outer] & (own != twin)
            caps.append(frozen(np.vstack([faces[bare], faces[other & own], faces[other & twin][:, ::-1]])))
        return tuple(caps)

    @cached_property
    def chamber_volumes(self) -> Floats:
        """Rest volumes of the chambers' tets [m^3], shape (c,)."""
        volumes = topology.tet_volumes(self.vertices, self.tets)
        return frozen(np.array([volumes[self.regions == r].sum() for r in self.chamber_regions]))

    def _named_chambers(self) -> tuple[str, ...]:
        regions = [int(region) for region in self.chamber_regions]
        if not any(region in self.region_names for region in regions):
            return ()
        return tuple(self.region_names.get(region, f"chamber {c + 1}") for c, region in enumerate(regions))

    @cached_property
    def body_volume(self) -> float:
        """Rest volume of the body tets [m^3]."""
        return float(topology.tet_volumes(self.vertices, self.body_tets).sum())

    @cached_property
    def mass(self) -> float:
        """Mass of the bodies at rest [kg]; layers and fibres that are bonded to them weigh nothing."""
        volumes = topology.tet_volumes(self.vertices, self.tets)
        return float(sum(m.density * volumes[self.regions == region].sum() for region, m in self.materials.items()))

    @cached_property
    def body_labels(self) -> Ints:
        """Connected body that every vertex belongs to, shape (n,); -1 for vertices of chamber tets only."""
        return frozen(topology.components(self.body_tets, len(self.vertices)))

    @cached_property
    def cable_anchors(self) -> tuple[Anchors, ...]:
        """Where every cable is fastened in the body tets."""
        return tuple(
            anchors(cable.points, self.vertices, self.body_tets, self.size, cable.name or f"cable {i + 1}")
            for i, cable in enumerate(self.cables)
        )

    @cached_property
    def tip_weights(self) -> Floats:
        """Weights whose product with the vertices is `Result.tip`: skin area of the tip vertices, shape (t,)."""
        return frozen(_area_weights(self.vertices, self.skin, self.tip))


def _distance(remesh: bool | Mapping[str, float]) -> bool | float:
    """Return whether surfaces are remeshed, or how far they may move [m]."""
    if isinstance(remesh, bool):
        return remesh
    if not isinstance(remesh, Mapping) or set(remesh) != {"distance"}:
        raise InputError(f'remesh = {remesh!r} must be True, False or {{"distance": 1e-4}} [m]')
    return number(remesh["distance"], "remesh: distance [m]", above=0.0)


def _unlikely(size: Floats, units: str, materials: Mapping[int, Hyperelastic]) -> list[str]:
    """Say which numbers look like those of another unit: sides of the body [m] (3,), moduli."""
    out, diagonal = [], float(np.linalg.norm(size))
    # one [m] from which on centimetres or inches are doubted: soft robots that are cast or printed are smaller
    doubtful_large_size_m = 0.5
    other = "mm" if diagonal > doubtful_large_size_m and units in ("cm", "in") else ""
    # one [m] up to which millimetres or centimetres are doubted: a finger in inches is then 4 mm long
    doubtful_small_size_m = 15e-3
    if diagonal < doubtful_small_size_m and units in ("mm", "cm"):
        other = "in"
    if other:
        sides = " x ".join(f"{1e3 * v:.4g}" for v in size)
        meant = "inches" if other == "in" else other
        out.append(
            f'the body measures {sides} mm with units = "{units}"; if its files are in {meant}, write units = "{other}"'
        )
    # shear moduli [Pa]: silicone gels begin at 1 kPa, the hardest rubbers end at 20 MPa
    min_robot_modulus_pa, max_robot_modulus_pa = 500.0, 1e8
    for material in dict.fromkeys(materials.values()):
        mu = material.shear_modulus
        if not min_robot_modulus_pa <= mu <= max_robot_modulus_pa:
            other = "softer than a gel" if mu < min_robot_modulus_pa else "stiffer than any rubber"
            out.append(f"a shear modulus of {mu:.4g} Pa is {other}; moduli are in Pa, 50 kPa is 50e3")
    return out


def _of_regions(given: Mapping[Any, Any]) -> dict[int, Hyperelastic]:
    """Return {region: material}; the robot itself refuses materials that are not hyperelastic."""
    numbers = {whole(region, "material: region", least=-(2**31), most=2**31): given[region] for region in given}
    return {region: as_material(material) for region, material in numbers.items()}  # type: ignore[misc]


def _far_end(vertices: Floats, body: Bools, faces: Ints, fixed: Ints) -> Ints:
    """Body vertices at the end of the body that is farthest from what is fixed: within 2 % of its length along the way there.

    The path leads from the centroid of the fixed faces to the centroid of the end. It begins at the vertices with the
    largest straight distance, the corners of a flat face. A free body has no end: then those are the tip.
    """
    max_direction_updates = 5  # looks at the direction of the end
    ids = np.flatnonzero(body)
    start = _middle(vertices, faces, fixed) if len(fixed) else vertices[ids].mean(axis=0)
    distance = np.linalg.norm(vertices[ids] - start, axis=1)
    tip = ids[distance >= (1.0 - BODY_END_SHARE) * distance.max()]
    for _ in range(max_direction_updates if len(fixed) else 0):
        way = _middle(vertices, faces, tip) - start
        length = float(np.linalg.norm(way))
        if length <= BODY_END_SHARE * distance.max():  # it is held all around: no end is farther than another
            break
        along = (vertices[ids] - start) @ way / length
        last, tip = tip, ids[along >= (1.0 - BODY_END_SHARE) * along.max()]
        if np.array_equal(last, tip):
            break
    return frozen(tip)


def _middle(vertices: Floats, faces: Ints, ids: Ints) -> Floats:
    """Return the middle of the faces among some vertices by area, of vertices that have none among them that of their box."""
    if np.isin(faces, ids).all(axis=1).any():
        return np.asarray(_area_weights(vertices, faces, ids) @ vertices[ids])
    return np.asarray(0.5 * (vertices[ids].min(axis=0) + vertices[ids].max(axis=0)))


def _area_weights(vertices: Floats, faces: Ints, ids: Ints) -> Floats:
    """Share of every vertex of `ids` in the area of the faces that lie wholly among them (else of all faces)."""
    chosen = marked(len(vertices), ids)
    inside = chosen[faces].all(axis=1)
    use = faces[inside] if inside.any() else faces
    a, b, c = (vertices[use[:, i]] for i in range(3))
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1) / 6.0
    share = np.zeros(len(vertices))
    np.add.at(share, use.ravel(), np.repeat(area, 3))
    share = share[ids]
    return share / share.sum() if share.sum() > 0 else np.full(len(ids), 1.0 / max(len(ids), 1))
