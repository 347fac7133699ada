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
from geosim.geometry.domain import Domain, build_domain, shared_area
from geosim.geometry.forecast import regular_volume
from geosim.geometry.intersections import crossing_pairs, farthest_from
from geosim.geometry.quality import MeshQuality, mesh_quality
from geosim.geometry.simplify import simplified
from geosim.geometry.surface import Surface
from geosim.geometry.widths import widths

# p: keep the triangles; q: radius-edge ratio; A, a: regions, largest volume; o, s: improve angles over 140
# degrees by flips and smoothing (measured on bellows: smallest dihedral angle 3.5 degrees instead of 0.7).
# Coplanar triangles count as one facet, so that the thin triangles of CAD exports leave no trace in the mesh.
# Where facets meet at angles below the 15 degrees that tetgen takes for sharp it moves the surface, on nested tubes until it
# crosses itself; with 8 the surface stays within micrometres of where it was, at the price of twice as many tets there.
MESHER_SWITCHES = ("pq1.4Ao/140s5/10", "p179.9//8q1.5Ao/140s5/10", "pq1.8A")
DEFAULT_EDGES_PER_DIAGONAL = 40.0  # in the bounding-box diagonal
# Of a preview. Slender tets fill thin walls with half as many (measured on bellows: smallest dihedral angle 2.1 degrees); with
# fewer edges in the diagonal a plain finger bends 5 % too little.
PREVIEW_SWITCHES = ("pq2.5Ao/140s5/10", *MESHER_SWITCHES)
PREVIEW_EDGES_PER_DIAGONAL = 15.0
MAX_TETS = 5e6  # more need tens of gigabytes in every solver
# A preview of more tets (of bodies) than this takes minutes. Then the triangles of its surfaces stay whole, where they are well
# shaped and no coarser than the mesh (a fifth of the tets round a slot of half a millimetre), or tets are slenderer (half of
# them in a membrane of 1 mm).
MANY_PREVIEW_TETS, FEWER_PREVIEW_SWITCHES = 15_000, ("pYq1.4Ao/140s5/10", "pq4Ao/150s5/10")
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
    simplify: float | None = None,
    preview: bool = False,
    most: int | None = None,
) -> TetMesh:
    """Mesh bodies and the chambers inside them.

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
    simplify
        Coarsen the surfaces first, by moving them no farther than this [m]. 0 keeps all triangles, and so does None but for
        previews of one body.
    preview
        Take the coarsest mesh that keeps the geometry, whatever `max_edge` says.
    most
        Vertices at which the mesher is stopped, whose mesh is refused then. None: some hundred thousand.

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
    if simplify is None and preview and len(body_surfaces) == 1:
        return _preview(body_surfaces[0], chamber_surfaces, max_edge, allowed)
    if simplify:
        body_surfaces, chamber_surfaces = _coarsened(body_surfaces, chamber_surfaces, simplify)
    domain = build_domain(tuple(body_surfaces), tuple(chamber_surfaces))
    label = body_surfaces[0].label
    if preview and max_edge is not None:
        note = f"{label}: a preview chooses its own edges, not max_edge = {max_edge * 1e3:.4g} mm"
        domain = replace(domain, notices=(*domain.notices, note))
    per_diagonal = PREVIEW_EDGES_PER_DIAGONAL if preview else DEFAULT_EDGES_PER_DIAGONAL
    edge = checked_edge(domain, None if preview else max_edge, label, per_diagonal)
    engine = partial(mesh_domain, switches=PREVIEW_SWITCHES if preview else MESHER_SWITCHES, most=most)
    mesh, failure = attempt(engine, domain, edge, allowed, label)
    if mesh is None:
        raise MeshError(str(failure)) from failure
    if preview:
        mesh = _fewer(
            mesh, lambda s: attempt(partial(mesh_domain, switches=(s,)), domain, edge, allowed, label)[0], domain, label
        )
    return _with_doubt(mesh, label)


def _preview(body: Surface, chambers: Sequence[Surface], max_edge: float | None, allowed: Allowance) -> TetMesh:
    """Mesh simplified surfaces: those that move least of those that give few tets, else those that give the fewest."""
    # Of what the surfaces of a preview may move by at first. The tip of a twister with a fine slot is 1.7 % of its way off that
    # of a fine mesh at 1.25 (12,986 tets for 17,143 at 1), and 5.9 % at 2 (11,641).
    widenings = 1.0, 1.25, 1.6, 2.0
    # of its triangles, which a surface that moves farther must lose to be meshed again
    worthwhile_share = 0.1
    found: TetMesh | None = None
    left = np.inf
    for widening in widenings:
        bodies, hollow = _thinned(body, chambers, widening)
        triangles = sum(len(s.faces) for s in (*bodies, *hollow))
        if triangles > (1.0 - worthwhile_share) * left:
            break
        left = triangles
        try:
            mesh = mesh_surfaces(bodies, hollow, max_edge=max_edge, allowed=allowed, simplify=0.0, preview=True)
        except MeshError:
            break
        found = mesh if found is None or _body_tets(mesh) < _body_tets(found) else found
        if _body_tets(found) <= MANY_PREVIEW_TETS:
            break
    if found is not None:
        return found
    kept = f"{body.label}: the mesher fails on the simplified surfaces of a preview; all triangles are kept"
    whole = mesh_surfaces([body], chambers, max_edge=max_edge, allowed=allowed, simplify=0.0, preview=True)
    return replace(whole, notices=(*whole.notices, kept))


def _body_tets(mesh: TetMesh) -> int:
    return int(np.isin(mesh.regions, mesh.body_regions).sum())


def _fewer(mesh: TetMesh, again: Callable[[str], TetMesh | None], domain: Domain, label: str) -> TetMesh:
    """Return a preview with fewer tets where the usual ones are many; what is still large says why."""
    # Of the longest edge of such surfaces, the edge of the mesh: simplification makes none longer.
    min_whole_edge_share = 0.7
    # Whole triangles on both sides of a thin wall leave single flat tets; a slot with some of 1e-3 was solved as fast
    # as without.
    min_preview_radius_ratio = 5e-4

    corners = domain.vertices[domain.faces]
    longest = float(np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).max())
    for switches in FEWER_PREVIEW_SWITCHES[0 if longest <= mesh.max_edge / min_whole_edge_share else 1 :]:
        if _body_tets(mesh) <= MANY_PREVIEW_TETS:
            return mesh
        other = again(switches)
        worst = min(mesh.quality.radius_ratio_min, min_preview_radius_ratio)
        if other is not None and other.quality.radius_ratio_min >= worst and _body_tets(other) < _body_tets(mesh):
            mesh = other
    if _body_tets(mesh) <= MANY_PREVIEW_TETS:
        return mesh
    why = (
        f"{label}: a preview of {_body_tets(mesh)} tets, because the surfaces keep {len(domain.faces)} triangles and the "
        "walls limit the edge; thicker walls or coarser surfaces need fewer"
    )
    return replace(mesh, notices=(*mesh.notices, why))


def _coarsened(
    bodies: Sequence[Surface], chambers: Sequence[Surface], within: float
) -> tuple[list[Surface], list[Surface]]:
    """Simplify all surfaces; refuse it where the walls that bodies share would not fit any more."""
    # Of the area that bodies share: coarser round walls lose some, walls that no longer fit lose nearly all.
    shared_wall_area_rel = 0.1
    within = number(within, "simplify [m]", above=0.0)
    coarse = [simplified(s, within) for s in bodies]
    before, after = (shared_area(skins) if len(skins) > 1 else 0.0 for skins in (bodies, coarse))
    if after < (1.0 - shared_wall_area_rel) * before:
        raise InputError(
            f"simplify = {within * 1e3:.4g} mm: parts the walls that the bodies share ({before * 1e6:.4g} mm^2 before, "
            f"{after * 1e6:.4g} mm^2 after); give a smaller one, or leave it out"
        )
    return coarse, [simplified(s, within) for s in chambers]


def _thinned(body: Surface, chambers: Sequence[Surface], widening: float) -> tuple[list[Surface], list[Surface]]:
    """Simplify the surfaces of a preview, those that get fewer triangles by it."""
    # Surfaces of a preview move by no more of the diagonal, and of the width of the wall, gap or slot at each of their
    # vertices, times the widening.
    preview_simplify_rel, preview_simplify_widths = 1e-3, 0.1
    equilateral_area = 0.25 * np.sqrt(3.0)  # of a triangle with edges of length 1
    surfaces = [body, *chambers]
    starts = np.cumsum([0, *(len(s.vertices) for s in surfaces)])
    faces = np.vstack([s.faces + k for s, k in zip(surfaces, starts)])
    within = np.full(starts[-1], preview_simplify_rel * body.diagonal)
    local = preview_simplify_widths * widths(np.vstack([s.vertices for s in surfaces]), faces)
    for corner in faces.T:
        np.minimum.at(within, corner, local)

    longest = body.diagonal / PREVIEW_EDGES_PER_DIAGONAL

    def allowed(surface: Surface, within: np.ndarray) -> np.ndarray:
        """What a surface may move by: nothing where the mesh has no fewer triangles on it, and only the shape would be lost."""
        area = 0.5 * float(np.linalg.norm(topology.face_normals(surface.vertices, surface.faces), axis=1).sum())
        fine = len(surface.faces) > area / (equilateral_area * longest**2)
        return within if fine else np.minimum(within, SURFACE_VOLUME_REL * body.diagonal)

    wider = np.split(widening * within, starts[1:-1])
    found = [simplified(s, allowed(s, w), longest) for s, w in zip(surfaces, wider)]
    kept = [new if len(new.faces) < len(old.faces) else old for old, new in zip(surfaces, found)]
    try:
        build_domain(tuple(kept[:1]), tuple(kept[1:]))
    except InputError:
        thin = f"{body.label}: walls are too thin for a preview to simplify the surfaces"
        return [replace(body, notices=(*body.notices, thin))], list(chambers)
    return kept[:1], kept[1:]


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
        f"{apart * 1e3:.2g} mm apart near ({at[0] * 1e3:.4g}, {at[1] * 1e3:.4g}, {at[2] * 1e3:.4g}) mm"
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
    _, inner, outer = topology.face_sides(tets)
    sides = np.stack([regions[inner], np.where(outer >= 0, regions[outer], -1)], axis=1)
    is_chamber = (sides >= 1) & (sides <= chambers)
    bare = is_chamber.any(axis=1) & ((sides[:, 1] < 0) | (is_chamber.all(axis=1) & (sides[:, 0] != sides[:, 1])))
    for side in sides[bare][:1]:
        region = int(side[(side >= 1) & (side <= chambers)][0])
        raise MeshError(f"{domain.names[region]}: has walls without body behind them; leave a wall around the chamber")
