"""Closed surfaces to one conforming tetrahedral mesh with a region for the body and for every chamber."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from geosim.arrays import number
from geosim.errors import GeosimError, InputError, MeshError
from geosim.geometry import shells, topology
from geosim.geometry.child import RESCUE_ADVICE, Allowance, run_mesher
from geosim.geometry.domain import Domain, build_domain
from geosim.geometry.forecast import regular_volume
from geosim.geometry.holes import place
from geosim.geometry.intersections import crossing_pairs, farthest_from
from geosim.geometry.quality import MeshQuality, mesh_quality
from geosim.geometry.surface import Surface

# p: keep the triangles; q: radius-edge ratio; A, a: regions, largest volume; o, s: improve angles over 140
# degrees by flips and smoothing (measured on bellows: smallest dihedral angle 3.5 degrees instead of 0.7).
# Coplanar triangles count as one facet, so that the thin triangles of CAD exports leave no trace in the mesh.
# Where facets meet at angles below the 15 degrees that tetgen takes for sharp it moves the surface, on nested tubes until it
# crosses itself; with 8 the surface stays within micrometres of where it was, at the price of twice as many tets there.
MESHER_SWITCHES = ("pq1.4Ao/140s5/10", "p179.9//8q1.5Ao/140s5/10", "pq1.8A")
DEFAULT_EDGES_PER_DIAGONAL = 40.0  # in the bounding-box diagonal
MAX_TETS = 5e6  # more need tens of gigabytes in every solver
MAX_INSERTED_POINTS = 2e5  # that the mesher may always insert (beyond, four times the expected number of tets)
# Relative: volumes kept to the first are those of the surfaces (STL rounds planes to 1e-7 of their size); a loss beyond the
# second is a lost part. In between the mesher has merged nearly flat facets, or moved the surface to rescue it.
# Of surfaces that were remeshed, differences below the last are a part of what was said of that.
SURFACE_VOLUME_REL, LOST_VOLUME_REL, REMESHED_VOLUME_REL = 1e-7, 2e-2, 1e-3


@dataclass(frozen=True)
class TetMesh:
    """A conforming mesh.

    vertices [m] (n, 3); tets (m, 4), positively oriented; regions (m,): 0 the first body, 1..k the chambers, k+1.. the
    further bodies; `body_regions` and `chamber_regions` name them in the order given; notices, one line each; `names`:
    {region: name} of those that are named parts of assemblies.
    """

    vertices: np.ndarray
    tets: np.ndarray
    regions: np.ndarray
    body_regions: tuple[int, ...]
    chamber_regions: tuple[int, ...]
    max_edge: float
    notices: tuple[str, ...] = ()
    names: Mapping[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for array in (self.vertices, self.tets, self.regions):
            array.flags.writeable = False

    @property
    def quality(self) -> MeshQuality:
        """Angles, radius ratios and edges of the body's tets."""
        return mesh_quality(self.vertices, self.tets[np.isin(self.regions, self.body_regions)])

    def region_volume(self, region: int) -> float:
        """Volume [m^3] of a region."""
        return float(topology.tet_volumes(self.vertices, self.tets[self.regions == region]).sum())


def mesh_surfaces(
    body_surfaces: Sequence[Surface],
    chamber_surfaces: Sequence[Surface] = (),
    *,
    max_edge: float | None = None,
    allowed: Allowance | None = None,
    most: int | None = None,
    switches: Sequence[str] = MESHER_SWITCHES,
) -> TetMesh:
    """Mesh bodies and the chambers inside them, with the triangles that they have.

    Parameters
    ----------
    body_surfaces, chamber_surfaces
        Surfaces from `check_surface`. The bodies may already contain the cavities of the chambers. Bodies may touch or
        lie inside each other, and a chamber may be closed by several bodies together.
    max_edge
        Wanted edge [m]: tets are split until none is larger than the regular one of this edge (the smoothing that
        follows enlarges a few). Default: diagonal of the bounding box / 40.
    allowed
        What all runs of the mesher may take together. None: `MESHING_SECONDS`.
    most
        Vertices at which the mesher is stopped, whose mesh is refused then. None: some hundred thousand.
    switches
        Of tetgen, those of one attempt after the other.

    Raises
    ------
    InputError
        If a surface is misplaced (see `build_domain`), the mesh would have millions of tets, or the mesher crashes,
        takes too long, gives up, or loses a part.
    """
    meshing_seconds = 300.0  # for all runs of the mesher together
    if not body_surfaces:
        raise InputError("body surfaces: none given; give at least one closed surface")
    max_edge = None if max_edge is None else number(max_edge, "max_edge [m]", above=0.0)
    allowed = allowed or Allowance.of(meshing_seconds)
    domain = build_domain(tuple(body_surfaces), tuple(chamber_surfaces))
    label = body_surfaces[0].label
    edge = checked_edge(domain, max_edge, label, DEFAULT_EDGES_PER_DIAGONAL)
    mesh, failure = attempt(partial(mesh_domain, switches=switches, most=most), domain, edge, allowed, label)
    if mesh is None:
        raise MeshError(str(failure)) from failure
    return _with_doubt(mesh, label)


def checked_edge(domain: Domain, max_edge: float | None, label: str, edges: float) -> float:
    """Return the wanted edge [m], not of another unit and not for millions of tets; default so many in the diagonal."""
    most_diagonals = 10.0  # a few ask for as few tets as the shape allows; metres for millimetres are far beyond
    diagonal = float(np.linalg.norm(np.ptp(domain.vertices, axis=0)))
    usual = diagonal / edges
    edge = usual if max_edge is None else max_edge
    if edge > most_diagonals * diagonal:
        raise InputError(
            f"max_edge = {edge * 1e3:.4g} mm: {label} is {diagonal * 1e3:.4g} mm from corner to corner; give a shorter one "
            f"(default {usual * 1e3:.4g} mm), in metres in Python and in the units of the file in a robot file"
        )
    expected = _expected_tets(domain, edge)
    if expected > MAX_TETS:
        raise InputError(
            f"max_edge = {edge * 1e3:.4g} mm: {label} would get about {expected / 1e6:.0f} million tets; "
            f"choose a larger one (default {usual * 1e3:.4g} mm)"
        )
    return edge


def attempt(
    engine: Callable[..., TetMesh], domain: Domain, edge: float, allowed: Allowance, label: str
) -> tuple[TetMesh | None, MesherError | None]:
    """Return the mesh, or what went wrong."""
    try:
        return engine(domain, edge, allowed, label), None
    except MesherError as error:
        return None, error


class MesherError(Exception):
    """The mesher failed on surfaces that passed all checks."""


def _with_doubt(mesh: TetMesh, label: str) -> TetMesh:
    """Say where tets are so flat or small that the surface must have tiny details: on clean ones they are ten times that."""
    poor_radius_ratio, tiny_edge_rel = 2e-3, 2e-3  # radius ratio, and edge over max_edge
    ratio, edge = mesh.quality.radius_ratio_min, mesh.quality.edge_min
    if ratio >= poor_radius_ratio and edge >= tiny_edge_rel * mesh.max_edge:
        return mesh
    poor = f"{label}: tiny details of the surface give flat or tiny tets (radius ratio {ratio:.1e})"
    remedy = "remesh = true removes them, or simplify, or the CAD program"
    return replace(mesh, notices=(*mesh.notices, f"{poor}; {remedy}"))


def mesh_domain(
    domain: Domain,
    edge: float,
    allowed: Allowance,
    label: str,
    switches: Sequence[str],
    most: int | None = None,
    named_change: float = SURFACE_VOLUME_REL,
) -> TetMesh:
    """Mesh with tetgen; after a failure again with weaker demands on the shape of the tets.

    Of more points than `most` that it inserts, it is stopped and has failed. Volumes that differ from those of the surfaces by
    more than a share get a notice.
    """
    scale = float(2.0 ** -np.round(np.log2(edge)))  # a power of two keeps the surface vertices exact
    failures: list[str] = []
    # Walls much thinner than max_edge can ask for any number of tets: S bounds the inserted points.
    stopped_early, most = most is not None, most or int(max(MAX_INSERTED_POINTS, 4.0 * _expected_tets(domain, edge)))
    for chosen in switches:
        inputs = dict(
            engine="tetgen",
            vertices=domain.vertices * scale,
            faces=domain.faces,
            seeds=domain.seeds * scale,
            holes=domain.holes * scale,
            switches=f"{chosen}a{regular_volume(edge * scale):.12g}S{most}Q",
        )
        found = run_mesher(inputs, allowed, label)
        if isinstance(found, str):
            failures.append(found)
            continue
        if len(found["vertices"]) >= most + len(domain.vertices) * stopped_early:
            raise (MesherError if stopped_early else MeshError)(
                f"{label}: thin walls or tiny details ask for more than {most} vertices at max_edge = "
                f"{edge * 1e3:.4g} mm; thicken or remove them, or {RESCUE_ADVICE}"
            )
        notices = (f"{label}: meshed with weaker quality bounds, since {failures[0]}",) if failures else ()
        seed = found["seed"]
        regions = np.where(seed >= 0, domain.seed_regions[seed], -1)
        try:
            return verified(domain, found["vertices"] / scale, found["tets"], regions, edge, notices, named_change)
        except MesherError as error:
            failures.append(str(error))
    raise MesherError(f"{label}: {failures[0]}; clean and re-export the surface, or {RESCUE_ADVICE}")


def verified(
    domain: Domain,
    vertices: np.ndarray,
    tets: np.ndarray,
    regions: np.ndarray,
    edge: float,
    notices: tuple[str, ...],
    named: float = SURFACE_VOLUME_REL,
) -> TetMesh:
    """Orient, drop what belongs to no region, and hold volumes and chambers against the surfaces."""
    notices, label = domain.notices + notices, domain.names[domain.body_regions[0]]
    tets, volume = topology.oriented(vertices, tets)
    if np.any(regions < 0):
        notices += (
            f"{label}: an enclosed space of {volume[regions < 0].sum() * 1e6:.4g} cm^3 is neither body nor "
            "chamber; it is kept as a hole",
        )
    kept = regions >= 0
    tets, regions, volume = tets[kept], regions[kept], volume[kept]
    flat = topology.flat_tets(vertices, tets)
    if len(flat):
        raise MesherError(f"the mesh has {len(flat)} tets of zero volume")
    crowded = len(topology.crowded_faces(tets))
    if crowded:
        raise MesherError(f"the mesh has tets that overlap at {crowded} faces")
    moved = False
    for region, wanted in domain.volumes.items():
        got = float(volume[regions == region].sum())
        change = abs(got - wanted) / abs(wanted)
        if change > LOST_VOLUME_REL:
            raise MesherError(
                f"the mesh of the {domain.names[region]} has {got * 1e6:.6g} cm^3 where the surface encloses "
                f"{wanted * 1e6:.6g} cm^3"
            )
        if change > SURFACE_VOLUME_REL:
            moved = True
        if change > named:
            notices += (_moved(domain, region, vertices, tets[regions == region], change),)
    crossed = len(crossing_pairs(vertices, topology.boundary_faces(tets), tolerance=0.0)) if moved else 0
    if crossed:
        raise MesherError(f"the mesh has a surface that crosses itself, {crossed} pairs of triangles")
    _refuse_bare_walls(domain, tets, regions, len(domain.chamber_regions))
    vertices, tets = shells.compact(vertices, tets)
    return TetMesh(
        vertices, tets, np.ascontiguousarray(regions), domain.body_regions, domain.chamber_regions, edge, notices
    )


def _moved(domain: Domain, region: int, vertices: np.ndarray, tets: np.ndarray, change: float) -> str:
    """Notice of a volume that is not the surface's, with the place where the mesh is farthest from it."""
    surface = dict(domain.solids)[region]
    points = np.vstack([domain.vertices[surface[:, i]] for i in range(3)] + [domain.vertices[surface].mean(axis=1)])
    apart, at = farthest_from(points, vertices, topology.boundary_faces(tets))
    return (
        f"{domain.names[region]}: the meshed volume differs by {100 * change:.2g} % from the surface's; they are "
        f"{apart * 1e3:.2g} mm apart near {place(at)}"
    )


def fill(x: np.ndarray, wall: np.ndarray, first: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Tetrahedralise the inside of a closed wall, its triangles kept; None if the mesher cannot (it crosses itself).

    Parameters
    ----------
    x
        Positions [m], shape (n, 3).
    wall
        Vertex ids, shape (f, 3), oriented out of the cavity.
    first
        Number of the first new vertex.

    Returns
    -------
    points, tets
        The new vertices [m] (k, 3), and the tets (m, 4) in the numbering of x, positively oriented.
    """
    # Of a cavity that is filled with tets: radius-edge ratio, largest tet over the cube of the wall's mean edge (twice the
    # regular tet of that edge), and over the cube of the cavity's size what the mesher leaves flat on flat walls.
    cavity_quality, max_cavity_cell, flat_cell_volume_rel = 1.4, 0.25, 1e-14
    cavity_seconds = 120.0  # a cavity takes some; longer is a wall that the mesher cannot handle
    ids, faces = np.unique(wall, return_inverse=True)
    faces = faces.reshape(-1, 3)
    scale = 1.0 / float(np.ptp(x[ids], axis=0).max())
    vertices = x[ids] * scale
    length = float(np.linalg.norm(vertices[faces] - vertices[np.roll(faces, 1, axis=1)], axis=2).mean())
    inputs = dict(
        engine="tetgen",
        vertices=vertices,
        faces=faces,
        seeds=np.empty((0, 3)),
        holes=np.empty((0, 3)),
        switches=f"pYq{cavity_quality}a{max_cavity_cell * length**3:.6g}Q",
    )
    found = run_mesher(inputs, Allowance.of(cavity_seconds), "chamber")
    if isinstance(found, str):
        return None
    points, tets = found["vertices"], found["tets"]
    if not np.array_equal(points[: len(ids)], vertices):
        raise GeosimError("the mesher moved vertices of a chamber's wall")
    tets, volumes = topology.oriented(points, tets)
    numbers = np.concatenate([ids, first + np.arange(len(points) - len(ids))])
    return points[len(ids) :] / scale, numbers[tets[volumes > flat_cell_volume_rel]]


def _expected_tets(domain: Domain, edge: float) -> float:
    """Number of tets of a mesh whose surfaces ask for nothing smaller (measured: half the largest volume each)."""
    return sum(domain.volumes.values()) / (0.5 * regular_volume(edge))


def _refuse_bare_walls(domain: Domain, tets: np.ndarray, regions: np.ndarray, chambers: int) -> None:
    """Every wall of a chamber must have body tets behind it."""
    sides = topology.walls(tets, regions)[3]
    is_chamber = (sides >= 1) & (sides <= chambers)
    bare = is_chamber.any(axis=1) & ((sides[:, 1] < 0) | is_chamber.all(axis=1))
    for side in sides[bare][:1]:
        region = int(side[(side >= 1) & (side <= chambers)][0])
        raise MeshError(f"{domain.names[region]}: has walls without body behind them; leave a wall around the chamber")
