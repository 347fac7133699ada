"""What a solve returns: the sequence of states with everything needed to trust them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from geosim.arrays import Floats, frozen
from geosim.errors import InputError
from geosim.geometry import topology

if TYPE_CHECKING:
    import trimesh

__all__ = ["Report", "Result", "Status"]


class Status(Enum):
    """How a solve ended; the value is the sentence a user reads, with the remedy."""

    CONVERGED = "Every command was reached and its forces balance."
    UNSTABLE = (
        "An equilibrium was found that is not stable: a buckled shape is near. Look at the frame before, or "
        "give a small imperfection or load."
    )
    PRESSURE_LIMIT = (
        "The pressure has a maximum below the one asked for: beyond it the chamber grows by itself. "
        "Prescribe volume_ratio instead of pressure to go on."
    )
    NOT_CONVERGED = (
        "The forces could not be balanced for the next command. Take smaller steps, refine the mesh, or "
        "check the loads."
    )
    INVERTED = (
        "Elements turned inside out before the next command was reached. Refine the mesh there, or take smaller steps."
    )
    CROSSED = "Surfaces pass through each other in at least one frame."
    SINGULAR = (
        "The equations have no unique solution. Check that every body is held and that no chamber or load is "
        "left without support."
    )
    INTERRUPTED = "Interrupted by the user; the frames reached so far are kept."


@dataclass(frozen=True)
class Report:
    """How one step went: its status, a sentence with the numbers, and one record per iteration."""

    status: Status
    message: str = ""
    records: tuple[Mapping[str, Any], ...] = ()

    @property
    def reached(self) -> bool:
        """Whether the command was reached."""
        return self.status in (Status.CONVERGED, Status.CROSSED, Status.UNSTABLE)


# Arrays of a result: name -> (shape after k, meaning); "n" vertices, "c" chambers, "w" cables, "o" obstacles.
_FIELDS: dict[str, tuple[str, ...]] = {
    "volume_ratios": ("c",),
    "chamber_volumes": ("c",),
    "chamber_pressures": ("c",),
    "cable_lengths": ("w",),
    "cable_tensions": ("w",),
    "tip": ("3",),
    "reactions": ("n", "3"),
    "contact_forces": ("n", "3"),
    "obstacle_forces": ("o", "3"),
    "obstacle_moments": ("o", "3"),
    "max_penetration": (),
    "contact_count": (),
    "crossings": (),
    "body_volume_ratio": (),
    "inverted_elements": (),
    "stable": (),
    "residual": (),
    "energies": (),
}


@dataclass(frozen=True)
class Result:
    """Frames of a solved robot with the evidence to trust them; what does not apply is nan, never absent.

    Parameters
    ----------
    status, message
        How the solve ended, and the sentence with its numbers.
    converged
        Whether every command was reached with its forces in balance.
    times
        Load parameter or time [s] of the frames, shape (k,).
    frames
        Positions [m] in the robot's vertex numbering, shape (k, n, 3).
    robot, environment, solver
        The problem as it was given.
    mid_edge_frames
        Positions of the P2 mid-edge nodes [m], shape (k, e, 3); (k, 0, 3) where elements are straight.
    volume_ratios, chamber_volumes, chamber_pressures
        Over the meshed rest volumes, [m^3], [Pa] gauge; each (k, c), whichever was prescribed.
    cable_lengths, cable_tensions
        [m], [N]; each (k, cables).
    tip
        Area-weighted mean of the tip vertices [m], shape (k, 3).
    reactions, contact_forces
        Forces of the supports and of contact on the vertices [N], shape (k, n, 3).
    obstacle_forces, obstacle_moments
        On every obstacle [N], [N m] about the origin; (k, obstacles, 3).
    max_penetration
        Deepest penetration [m], (k,).
    contact_count, crossings, inverted_elements
        Counts, (k,).
    body_volume_ratio
        Body volume over its rest volume, (k,).
    stable
        1 stable, 0 not, nan not examined, (k,).
    residual
        Largest relative force residual over free vertices, (k,).
    energies
        Elastic energy [J], (k,).
    trace
        One record per iteration: frame, residuals, step, seconds per phase.
    """

    status: Status
    message: str
    converged: bool
    times: Floats
    frames: Floats
    robot: Any = None
    environment: Any = None
    solver: Any = None
    mid_edge_frames: Any = None
    volume_ratios: Any = None
    chamber_volumes: Any = None
    chamber_pressures: Any = None
    cable_lengths: Any = None
    cable_tensions: Any = None
    tip: Any = None
    reactions: Any = None
    contact_forces: Any = None
    obstacle_forces: Any = None
    obstacle_moments: Any = None
    max_penetration: Any = None
    contact_count: Any = None
    crossings: Any = None
    body_volume_ratio: Any = None
    inverted_elements: Any = None
    stable: Any = None
    residual: Any = None
    energies: Any = None
    trace: tuple[Mapping[str, Any], ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)
    state: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        put = lambda key, value: object.__setattr__(self, key, value)  # noqa: E731 (frozen dataclass)
        put("times", frozen(np.asarray(self.times, dtype=float)))
        put("frames", frozen(np.asarray(self.frames, dtype=float)))
        k, n = self.frames.shape[0], self.frames.shape[1]
        sizes = {
            "n": n,
            "3": 3,
            "c": getattr(self.robot, "chambers", 0) or 0,
            "w": len(getattr(self.robot, "cables", ()) or ()),
            "o": len(getattr(self.environment, "obstacles", ()) or ()),
        }
        if self.mid_edge_frames is None:
            put("mid_edge_frames", np.empty((k, 0, 3)))
        put("mid_edge_frames", frozen(np.asarray(self.mid_edge_frames, dtype=float)))
        for name, axes in _FIELDS.items():
            shape = (k, *(sizes[a] for a in axes))
            value = getattr(self, name)
            value = np.full(shape, np.nan) if value is None else np.asarray(value, dtype=float).reshape(shape)
            put(name, frozen(value))

    def nodes(self, i: int = -1) -> Floats:
        """P2 positions of frame i [m]: vertices, then the mid-edge nodes of `robot.p2_edges`, shape (n + e, 3)."""
        vertices = self.frames[i]
        if self.mid_edge_frames.shape[1]:
            return np.vstack([vertices, self.mid_edge_frames[i]])
        edges = getattr(self.robot, "p2_edges", None)
        return vertices.copy() if edges is None else np.vstack([vertices, vertices[edges].mean(axis=1)])

    def surface(self, i: int = -1, subdivide: int = 2) -> trimesh.Trimesh:
        """Outer skin of frame i in metres; every curved face is split `subdivide` times, 0 = robot vertices only.

        `metadata["face"]` holds the skin face of every triangle, `metadata["vertex"]` the robot vertex of every
        point (-1 for points between).
        """
        import trimesh

        points, triangles, face, vertex = self.curved_surface(self.robot.skin, i, subdivide)
        return trimesh.Trimesh(points, triangles, process=False, metadata={"face": face, "vertex": vertex})

    def curved_surface(self, faces: Any, i: int = -1, subdivide: int = 2) -> tuple[Any, Any, Any, Any]:
        """Split faces (f, 3) of frame i: points [m] (p, 3), triangles (t, 3), face (t,), robot vertex or -1 (p,)."""
        n = len(self.robot.vertices)
        nodes = self.nodes(i)
        faces6 = topology.curved_faces(faces, self.robot.p2_edges, n)
        points, triangles, face, weights = topology.interpolate_p2(nodes, faces6, subdivide)
        shape = weights[:, 1:4]
        corner = np.argmax(shape, axis=1)
        at_corner = np.isclose(shape.max(axis=1), 1.0)
        vertex = np.where(at_corner, faces6[weights[:, 0].astype(int), corner], -1)
        return points, triangles, face, vertex

    def save(self, path: str | Path, units: str | None = None) -> Path:
        """Write the result; the suffix chooses the format and the path is returned.

        .vtu .pvd .vtp .npz always in metres; .stl .obj .ply in `units`, default the robot file's unit; .csv the
        summary table.

        Raises
        ------
        InputError
            The suffix is unknown, or the folder does not exist.
        """
        from geosim.files import saving as io

        return io.save_result(self, path, units)

    def plot(self, path: str | Path, frame: int = -1) -> Path:
        """Write a picture (PNG) of a frame with the rest shape ghosted; the path is returned."""
        from geosim.show import picture as render

        return render.plot(self, path, frame)

    def html(self, path: str | Path) -> Path:
        """Write a self-contained interactive page with a frame slider; the path is returned."""
        from geosim.show import picture as render

        return render.html(self, path)

    def summary(self) -> list[dict[str, Any]]:
        """Return the rows of summary.csv, one a frame."""
        from geosim.files import saving as io

        return io.summary_rows(self)

    def _repr_html_(self) -> str:
        from geosim.show import picture as render

        return render.repr_html(self)

    def __repr__(self) -> str:
        return (
            f"Result({self.status.name}, {len(self.frames)} frames, {self.frames.shape[1]} vertices, "
            f"residual {np.nanmax(self.residual, initial=-np.inf):.1e})"
            if len(self.frames)
            else f"Result({self.status.name}, no frame)"
        )


def trace_to_json(trace: tuple[Mapping[str, Any], ...]) -> str:
    """Return the trace as JSON text."""

    def plain(value: Any) -> Any:
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, np.ndarray):
            return value.tolist()
        raise TypeError(f"{type(value).__name__} cannot be written to a trace")

    return json.dumps([dict(record) for record in trace], default=plain)


def status_of(name: str) -> Status:
    """Return the status of a name as it stands in a file.

    Raises
    ------
    InputError
        There is no such status.
    """
    try:
        return Status[name]
    except KeyError:
        raise InputError(f"status {name!r} is unknown; use one of {', '.join(s.name for s in Status)}") from None
