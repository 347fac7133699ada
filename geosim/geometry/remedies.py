"""Meshes of surfaces as CAD programs write them: remeshed first, and cut out of an envelope where tets are too flat.

Tets are foretold from volumes and walls (`geometry/forecast.py`). Where the mesher makes three times as many, details of the
surface ask for them, and a notice says so. Triangles of twice the edge gave at most 10 % fewer there (a thread of 0.5 mm).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from geosim.arrays import number
from geosim.errors import InputError, MeshError
from geosim.geometry import shells, topology
from geosim.geometry.child import RESCUE_ADVICE, Allowance, cpu_seconds
from geosim.geometry.domain import Domain, build_domain
from geosim.geometry.envelope import MAX_ENVELOPE_REL, is_available, tets_in_envelope
from geosim.geometry.forecast import foretold_tets, solve_seconds
from geosim.geometry.holes import place
from geosim.geometry.intersections import crossing_pairs, deviation, farthest_from
from geosim.geometry.mesh import (
    DEFAULT_EDGES_PER_DIAGONAL,
    MAX_TETS,
    MESHER_SWITCHES,
    REMESHED_VOLUME_REL,
    MesherError,
    TetMesh,
    attempt,
    checked_edge,
    mesh_domain,
    mesh_surfaces,
    verified,
)
from geosim.geometry.polish import polished, radius_ratios
from geosim.geometry.progress import log
from geosim.geometry.remesh import WALL_SHARE, remeshed
from geosim.geometry.surface import Surface, check_surface
from geosim.geometry.widths import thin_width, wall_samples

# Of max_edge: the edge of triangles (those of 0.7 give as many tets), and how far surfaces move, so that a small fillet becomes
# one or two segments.
TRIANGLE_EDGE_REL, WITHIN_REL = 0.5, 0.06
MOST_EDGE_REL = 0.5  # max_edge over the second length of the box round everything: longer ones make no fewer sound tets
# Tets over those foretold: more than the first are named, at the second the mesher is stopped. It makes so many tets of a vertex
# in thin walls, and ten thousand vertices take half a second.
TOO_MANY, STOPPED_AT, TETS_PER_VERTEX, MIN_STOPPED_VERTICES = 3.0, 10.0, 3.5, 15_000
# Radius ratios of the worst tet: polishing and envelopes end at the first; below the second an envelope is tried.
GOOD_RADIUS_RATIO, FLAT_RADIUS_RATIO = 0.05, 1e-3
# Of the usual envelope, in turn: wider ones need fewer tets, and narrower ones fit thinner walls. The mesher draws its own random
# numbers, so each is another draw, too.
ENVELOPE_SHARES = 1.4, 1.0, 0.5
# Of the distance that surfaces may move, for the shape of tets: those remeshed, and those whose triangles stay, which is none.
POLISHED_SHARE, STILL_SHARE = 0.25, 1e-3
REMEDIES_SECONDS = 60.0  # of processor time, for all remedies together, and for all attempts of a rescue
# Of a preview. Slender tets fill thin walls with half as many (measured on bellows: smallest dihedral angle 2.1 degrees); with
# fewer edges in the diagonal a plain finger bends 5 % too little. Surfaces may move by the last share of the diagonal.
PREVIEW_SWITCHES = ("pq2.5Ao/140s5/10", *MESHER_SWITCHES)
PREVIEW_EDGES_PER_DIAGONAL, PREVIEW_WITHIN_REL = 15.0, 1e-3
MANY_PREVIEW_TETS = 15_000  # of bodies: a preview of more takes minutes
MAX_VOLUME_CHANGE = 0.01


@dataclass(frozen=True)
class _Try:
    """A mesh by one remedy, or why there is none; whether it has surfaces in the place of those given."""

    remedy: str
    foretold: float
    mesh: TetMesh | None = None
    is_remeshed: bool = True
    why: str = ""

    @property
    def tets(self) -> float:
        return np.inf if self.mesh is None else len(self.mesh.tets)

    @property
    def ratio(self) -> float:
        return 0.0 if self.mesh is None else self.mesh.quality.radius_ratio_min

    @property
    def is_small(self) -> bool:
        """Whether the tets are about as many as foretold."""
        return bool(self.tets <= TOO_MANY * self.foretold)

    @property
    def is_usable(self) -> bool:
        return self.ratio >= FLAT_RADIUS_RATIO

    @property
    def fault(self) -> str:
        """Why another remedy was tried."""
        if self.mesh is None:
            return f"{self.remedy} gave no mesh ({self.why})"
        if not self.is_small:
            return f"{self.remedy} gave {self.tets} tets where {self.foretold:.2g} were foretold"
        return f"{self.remedy} gave tets of a radius ratio of {self.ratio:.2g}"


@dataclass(frozen=True)
class _Task:
    """Surfaces to mesh, the wanted edge [m], how far they may move [m], and what all remedies may take.

    A preview, and surfaces whose distance is given (`is_free` false), take as many tets as they ask for.
    """

    bodies: Sequence[Surface]
    chambers: Sequence[Surface]
    domain: Domain
    edge: float
    within: float
    allowed: Allowance
    is_free: bool
    preview: bool

    @property
    def switches(self) -> tuple[str, ...]:
        """Of the mesher, one attempt after the other."""
        return PREVIEW_SWITCHES if self.preview else MESHER_SWITCHES

    @property
    def label(self) -> str:
        return self.bodies[0].label

    def remeshed(self) -> _Try | None:
        """Mesh surfaces with triangles of the usual edge; None where their triangles are as large already."""
        edge = TRIANGLE_EDGE_REL * self.edge
        remedy = f"triangles of {edge * 1e3:.3g} mm"
        # the other half is for the mesher
        until = time.process_time() + 0.5 * self.allowed.cpu_left
        try:
            found = remeshed_surfaces(self.domain, self.bodies, self.chambers, edge, self.within, until)
        except InputError as error:
            return _Try(remedy, foretold_tets(self.domain, self.edge), why=self.reason(error))
        if found is None:
            return None
        coarse = replace(build_domain(*found), notices=self.domain.notices)
        foretold = self.tell(coarse, stays=False)
        most = self.most(foretold)
        engine = partial(mesh_domain, switches=self.switches, most=most, named_change=REMESHED_VOLUME_REL)
        try:
            mesh, failure = attempt(engine, coarse, self.edge, self.allowed, self.label)
        except MeshError as error:
            return _Try(remedy, foretold, why=self.reason(error))
        if mesh is None:
            return _Try(remedy, foretold, why=self.reason(failure))
        return _Try(remedy, foretold, mesh if self.preview else _polished(mesh, POLISHED_SHARE * self.within))

    def most(self, foretold: float) -> int | None:
        """Vertices at which the mesher is stopped; None for some hundred thousand."""
        return int(max(STOPPED_AT * foretold / TETS_PER_VERTEX, MIN_STOPPED_VERTICES)) if self.is_free else None

    def tell(self, domain: Domain, *, stays: bool) -> float:
        """Return the number of tets that is foretold, and tell of it; any number of a preview, whose tets are slender."""
        if self.preview:
            return np.inf
        foretold = foretold_tets(domain, self.edge, stays=stays)
        log.info(
            "%s: about %.2g tets at max_edge = %.4g mm, some %.2g s a solve",
            *(self.label, foretold, 1e3 * self.edge, solve_seconds(foretold)),
        )
        return foretold

    def as_given(self) -> _Try:
        """Mesh the triangles that there are."""
        foretold = self.tell(self.domain, stays=True)
        try:
            mesh = mesh_surfaces(
                self.bodies,
                self.chambers,
                max_edge=self.edge,
                allowed=self.allowed,
                most=self.most(foretold),
                switches=self.switches,
            )
        except MeshError as error:
            return _Try("the triangles as given", foretold, why=self.reason(error))
        if not self.preview and mesh.quality.radius_ratio_min < GOOD_RADIUS_RATIO:
            mesh = _polished(mesh, STILL_SHARE * self.within)
        return _Try("the triangles as given", foretold, mesh, is_remeshed=False)

    def envelope_width(self) -> float:
        """How far the walls of an envelope may move [m]: less than the distance given, a share of thin walls, or as time asks."""
        thin = WALL_SHARE * thin_width(self.domain.vertices, self.domain.faces, 0.5 * self.edge)
        least = MAX_ENVELOPE_REL * float(np.linalg.norm(np.ptp(self.domain.vertices, axis=0)))
        return min(0.5 * self.within, max(thin, least))

    def in_envelope(self, eps: float) -> TetMesh:
        """Take the tets of an envelope of a width [m], if walls move no farther than surfaces may.

        Raises
        ------
        InputError, MesherError
            The mesher fails, walls move too far, or volumes change too much.
        """
        edge_share = 0.7  # of max_edge: it gives about as many tets as foretold
        vertices, tets, owner = tets_in_envelope(
            self.bodies, self.chambers, eps, edge_share * self.edge, self.allowed.part(0.5)
        )
        regions = np.array([*self.domain.body_regions, *self.domain.chamber_regions])[owner]
        mesh = verified(self.domain, vertices, tets, regions, self.edge, (), REMESHED_VOLUME_REL)
        walls = topology.walls(mesh.tets, mesh.regions)[0]
        points = np.concatenate([mesh.vertices[np.unique(walls)], mesh.vertices[walls].mean(axis=1)])
        apart, at = farthest_from(points, self.domain.vertices, self.domain.faces)
        if apart > self.within:
            raise InputError(f"a wall is {apart * 1e3:.2g} mm from the surface near {place(at)}")
        _refuse_lost_volume(
            self.domain.names, self.domain.volumes, {r: mesh.region_volume(r) for r in self.domain.volumes}
        )
        return _polished(mesh, POLISHED_SHARE * self.within)

    def reason(self, error: Exception | None) -> str:
        """What an error says, without the place where and the advice: those are for the last attempt."""
        return str(error).removeprefix(f"{self.label}: ").partition("; ")[0]

    def said(self, tries: Sequence[_Try], chosen: _Try) -> str:
        """Notice of what was done, how far the surfaces moved, and why."""
        assert chosen.mesh is not None
        mesh, volumes = chosen.mesh, self.domain.volumes
        walls = topology.walls(mesh.tets, mesh.regions)[0]
        apart, at = deviation(Surface(self.domain.vertices, self.domain.faces), Surface(mesh.vertices, walls))
        regions = (*self.domain.body_regions, *self.domain.chamber_regions)
        changes = [mesh.region_volume(region) / volumes[region] - 1.0 for region in regions]
        worst = int(np.argmax(np.abs(changes)))
        what = (
            f"{self.label}: surfaces remeshed from {len(self.domain.faces)} to {len(walls)} triangles, within "
            f"{apart * 1e3:.2g} mm (farthest near {place(at)}); volumes change by at most {100.0 * changes[worst]:+.2g} % "
            f"({[*self.bodies, *self.chambers][worst].name})"
        )
        faults = [t.fault for t in tries if t is not chosen]
        why = [f"{chosen.remedy} after {' and '.join(faults)}"] if faults else []
        return "; ".join([what, *why, "remesh = False keeps all triangles"])

    def left_over(self, chosen: _Try) -> list[str]:
        """Notices of what no remedy has mended."""
        assert chosen.mesh is not None
        out = []
        if not chosen.is_small:
            out.append(
                f"{self.label}: details of the surface ask for {chosen.tets} tets, where volumes and walls ask for "
                f"{chosen.foretold:.2g}; remove them in the CAD program, or give a larger remesh distance"
            )
        if not chosen.is_usable:
            mesh = chosen.mesh
            tets = np.ascontiguousarray(mesh.tets[np.isin(mesh.regions, mesh.body_regions)])
            flat = tets[np.argmin(radius_ratios(mesh.vertices, tets))]
            out.append(
                f"{self.label}: flat tets (radius ratio {chosen.ratio:.1e}) near {place(mesh.vertices[flat].mean(axis=0))}; "
                f"remove small details there in the CAD program, or {RESCUE_ADVICE}"
            )
        return out

    def refusal(self, why: str) -> MeshError:
        """One line for surfaces that no remedy turns into a mesh: what is narrow, where, and what to change."""
        points, _, wide = wall_samples(self.domain.vertices, self.domain.faces, 0.5 * self.edge)
        narrow = int(np.argmin(wide.min(axis=1)))
        width = float(wide[narrow].min())
        what = "wall or gap" if np.isfinite(width) else "detail"
        seen = f"the narrowest {what} is {width * 1e3:.2g} mm wide near {place(points[narrow])}"
        advice = "" if is_available() else f", or {RESCUE_ADVICE}"
        return MeshError(
            f"{self.label}: no remedy gives a mesh ({why}); {seen}; widen or remove it in the CAD program{advice}"
        )

    def refuse_too_many(self, tets: float) -> None:
        """Refuse a mesh of more tets than `MAX_TETS`."""
        if tets > MAX_TETS:
            raise self.refusal(
                f"its walls ask for {1e-6 * tets:.2g} million tets, and {1e-6 * MAX_TETS:.2g} are too many"
            )


def mesh_remeshed(
    bodies: Sequence[Surface],
    chambers: Sequence[Surface] = (),
    *,
    max_edge: float | None = None,
    allowed: Allowance,
    remesh: bool | float = True,
    preview: bool = False,
) -> TetMesh:
    """Mesh bodies and the chambers inside them, by the first remedy that gives sound tets in about the foretold number.

    Parameters
    ----------
    bodies, chambers, max_edge
        As in `mesh_surfaces`.
    allowed
        What all remedies may take together; never more than 60 s of processor time.
    remesh
        How far surfaces may move [m], which is kept then whatever it costs; True: a share of `max_edge`, of a preview of the
        diagonal; False: not at all.
    preview
        Take the coarsest mesh that keeps the geometry, whatever `max_edge` says.

    Raises
    ------
    InputError
        Surfaces are misplaced, or no remedy gives a mesh.
    """
    domain, label = build_domain(tuple(bodies), tuple(chambers)), bodies[0].label
    per_diagonal = PREVIEW_EDGES_PER_DIAGONAL if preview else DEFAULT_EDGES_PER_DIAGONAL
    edge = checked_edge(domain, None if preview else max_edge, label, per_diagonal)
    taken, within = _bounds(domain, edge, remesh, preview=preview)
    is_free = remesh is True and not preview
    given = min(allowed.cpu_until, cpu_seconds() + REMEDIES_SECONDS)
    task = _Task(bodies, chambers, domain, taken, within, replace(allowed, cpu_until=given), is_free, preview)
    if not preview:
        task.refuse_too_many(foretold_tets(domain, edge))
    tries = _tried(task, edge, keep=remesh is False)
    made = [t for t in tries if t.mesh is not None]
    if not made:
        raise task.refusal(tries[-1].why)
    chosen = _chosen(made)
    assert chosen.mesh is not None
    if not (chosen.is_remeshed or preview) and chosen.is_small and chosen.ratio >= GOOD_RADIUS_RATIO:
        return chosen.mesh  # as coarse as asked: its triangles stay
    notices = _of_preview(tries, chosen, domain, label, max_edge) if preview else []
    if chosen.is_remeshed:
        notices.append(task.said(tries, chosen))
        if edge > 1.01 * taken:  # not for rounding
            wide = f"is over half of the width of {taken / MOST_EDGE_REL * 1e3:.4g} mm; {taken * 1e3:.4g} mm is taken"
            notices.append(f"{label}: max_edge = {edge * 1e3:.4g} mm {wide}")
    return replace(chosen.mesh, notices=(*chosen.mesh.notices, *notices, *task.left_over(chosen)))


def _bounds(domain: Domain, edge: float, remesh: bool | float, *, preview: bool) -> tuple[float, float]:
    """Return the edge [m] that is taken for a wanted one, and how far surfaces may move [m]."""
    spans = np.ptp(domain.vertices, axis=0)
    width = float(np.sort(spans)[1])  # of a slender body, or the second length of a plate
    taken = edge if preview else min(edge, MOST_EDGE_REL * width)
    if not isinstance(remesh, bool):
        return taken, number(remesh, "remesh distance [m]", above=0.0)
    return taken, PREVIEW_WITHIN_REL * float(np.linalg.norm(spans)) if preview else WITHIN_REL * taken


def _tried(task: _Task, edge: float, *, keep: bool) -> list[_Try]:
    """Return what was tried until it would do: remeshed surfaces, the triangles as given (all that `keep` allows), envelopes."""
    as_given = replace(task, edge=edge).as_given
    tries = [(None if keep else task.remeshed()) or as_given()]
    if task.preview and tries[0].mesh is None:
        tries.append(as_given())
    if not tries[0].is_usable and task.is_free and is_available():
        _try_envelopes(task, tries)
    return tries


def _of_preview(tries: Sequence[_Try], chosen: _Try, domain: Domain, label: str, max_edge: float | None) -> list[str]:
    """Notices of a preview: what it does not heed, where it failed, and why it is large."""
    assert chosen.mesh is not None
    out = []
    if max_edge is not None:
        out.append(f"{label}: a preview chooses its own edges, not max_edge = {max_edge * 1e3:.4g} mm")
    if chosen is not tries[0]:
        out.append(f"{label}: the mesher fails on the simplified surfaces of a preview; all triangles are kept")
    tets = int(np.isin(chosen.mesh.regions, chosen.mesh.body_regions).sum())
    if tets > MANY_PREVIEW_TETS:
        out.append(
            f"{label}: a preview of {tets} tets, because its {len(domain.faces)} triangles and its walls limit the edge; "
            "thicker walls or coarser surfaces need fewer"
        )
    return out


def _chosen(made: Sequence[_Try]) -> _Try:
    """Return the mesh to take: sound, then small, then round."""
    return max(made, key=lambda t: (t.is_usable, t.is_small, min(t.ratio, GOOD_RADIUS_RATIO)))


def _try_envelopes(task: _Task, tries: list[_Try]) -> None:
    """Append what envelopes give, until one is good."""
    width = task.envelope_width()
    for share in ENVELOPE_SHARES:
        remedy = f"an envelope of {share * width * 1e3:.2g} mm"
        try:
            tries.append(_Try(remedy, tries[0].foretold, task.in_envelope(share * width)))
        except (InputError, MesherError) as error:
            tries.append(_Try(remedy, tries[0].foretold, why=task.reason(error)))
        if tries[-1].ratio >= GOOD_RADIUS_RATIO:
            break


def remeshed_surfaces(
    domain: Domain,
    bodies: Sequence[Surface],
    chambers: Sequence[Surface],
    edge: float,
    within: float,
    until: float = np.inf,
) -> tuple[list[Surface], list[Surface]] | None:
    """Return bodies and chambers with triangles of an edge [m], within a distance [m] of those given.

    None where their triangles are as large already. Where what is made crosses itself or takes too much of a volume, it may move
    half as far the next time.

    Raises
    ------
    InputError
        What is made still crosses itself, or takes too much of a volume.
    """
    rounds = 4
    given, regions = [*bodies, *chambers], (*domain.body_regions, *domain.chamber_regions)
    kinds, label = _sides(domain, regions)
    failure: InputError | None = None
    for _ in range(rounds):
        found = remeshed(domain.vertices, domain.faces, label, edge, within, until)
        if found is None:
            break
        vertices, faces, of_face = found
        made = []
        try:
            for k, surface in enumerate(given):
                side = kinds[of_face, k]
                mine = np.where(side[:, None] < 0, faces[:, ::-1], faces)[side != 0]
                fresh = replace(surface, vertices=vertices, faces=np.ascontiguousarray(mine), notices=())
                made.append(replace(check_surface(fresh, allow_any_size=True), notices=surface.notices))
            again = build_domain(made[: len(bodies)], made[len(bodies) :])
            old, new = ({region: Surface(d.vertices, f).volume for region, f in d.solids} for d in (domain, again))
            _refuse_lost_volume(domain.names, old, new)
        except InputError as error:
            failure = error
            within *= 0.5
            continue
        return made[: len(bodies)], made[len(bodies) :]
    if failure is not None:
        raise failure
    return None


def _sides(domain: Domain, regions: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Kinds of triangles (k, s): 1 or -1 for each solid that they bound, by its side, else 0; and the kind of each (m,)."""
    rows = {tuple(row): i for i, row in enumerate(np.sort(domain.faces, axis=1).tolist())}
    sides = np.zeros((len(domain.faces), len(regions)), dtype=np.int64)
    turns, solids = np.array([-1, 1]), dict(domain.solids)
    for k, region in enumerate(regions):
        of_solid = solids[region]
        at = np.array([rows[tuple(row)] for row in np.sort(of_solid, axis=1).tolist()])
        first = np.argmin(of_solid, axis=1)[:, None]
        other = np.argmin(domain.faces[at], axis=1)[:, None]
        same = np.take_along_axis(of_solid, (first + 1) % 3, 1) == np.take_along_axis(
            domain.faces[at], (other + 1) % 3, 1
        )
        sides[at, k] = turns[same[:, 0].astype(int)]
    kinds, label = np.unique(sides, axis=0, return_inverse=True)
    return kinds, label.ravel()


def _refuse_lost_volume(names: Mapping[int, str], old: dict[int, float], new: dict[int, float]) -> None:
    """Refuse solids whose volumes [m^3] change too much."""
    worst = max(old, key=lambda region: abs(new[region] / old[region] - 1.0))
    change = new[worst] / old[worst] - 1.0
    if abs(change) > MAX_VOLUME_CHANGE:
        raise InputError(f"the volume of the {names[worst]} changes by {100.0 * change:+.2g} %")


def _polished(mesh: TetMesh, off: float) -> TetMesh:
    """Return the mesh with its worst tets made better, walls moved by some `off` [m]; the same one where walls would cross."""
    vertices, tets, regions = polished(mesh.vertices, mesh.tets, mesh.regions, mesh.body_regions, off)
    vertices, tets = shells.compact(vertices, tets)
    better = replace(mesh, vertices=vertices, tets=tets, regions=regions)
    crossed = crossing_pairs(vertices, topology.boundary_faces(tets), tolerance=0.0)
    return mesh if len(crossed) or better.quality.radius_ratio_min < mesh.quality.radius_ratio_min else better
