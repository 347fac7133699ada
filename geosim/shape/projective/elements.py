"""The elements of the projective solver and how they pull: body, chambers, dead loads, springs of contact, cables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from geosim.arrays import Floats, Ints
from geosim.geometry import shells
from geosim.linear.factorise import make_factoriser
from geosim.shape.energy.discretisation.assembly import STABILISATION
from geosim.shape.projective import kernels
from geosim.shape.projective.contact import NO_SPRINGS, ContactSprings
from geosim.shape.projective.lines import Lines
from geosim.shape.projective.material import STRAIN_SPACING
from geosim.shape.projective.stiffness_kernels import element_stiffness, wall_gradient

__all__ = [
    "BODY_TARGETS",
    "CHAMBER_TARGETS",
    "Body",
    "Cells",
    "ElementEvaluation",
    "Elements",
    "GlobalMatrix",
    "rest_shapes",
]

BODY_TARGETS = ("material", "paper")
CHAMBER_TARGETS = ("total", "uniform")
OWN_BULK_SHARE = (
    0.001  # of the bulk stiffness, held by every element alone; the rest is held by the patches round vertices
)
MERIT_ROUNDING = 2e-15  # of the elastic energy of a unit strain: differences of the merit below are noise
MIN_REFERENCE_STRAIN = (
    1e-3  # its forces are the least reference: where a robot returns to rest nothing smaller is worth balancing
)


def rest_shapes(vertices: Floats, tets: Ints) -> tuple[Floats, Floats]:
    """Gradients of the four shape functions (m, 4, 3) [1/m] and volumes (m,) [m^3] of straight tets."""
    edges = vertices[tets[:, 1:]] - vertices[tets[:, :1]]
    inverse = np.linalg.inv(edges)
    gradients = np.empty((len(tets), 4, 3))
    gradients[:, 1:] = inverse.transpose(0, 2, 1)
    gradients[:, 0] = -gradients[:, 1:].sum(axis=1)
    return gradients, np.linalg.det(edges) / 6.0


@dataclass(frozen=True)
class Body:
    """Body tets (m, 4): shape gradients, volumes [m^3], stiffness k and bulk stiffness [Pa], material of each.

    `share` is that of the stiffness which is in the global matrix. `tables` (r, entries) hold
    R_omega, `rows` (r, 16) the materials' constants; `targets` is one of BODY_TARGETS.
    """

    tets: Ints
    gradients: Floats
    volumes: Floats
    stiffness: Floats
    bulk: Floats
    which: Ints
    tables: Floats
    rows: Floats
    targets: str
    share: float


@dataclass(frozen=True)
class Cells:
    """Chamber tets (m, 4): shape gradients and volumes of their last meshing, weights [Pa], chamber of each.

    `walls` are the closed surfaces of the chambers, `rest_volumes` their volumes before any remeshing and
    `mesh_volumes` at the last meshing [m^3]; `targets` is one of CHAMBER_TARGETS.
    """

    tets: Ints
    gradients: Floats
    volumes: Floats
    weights: Floats
    chamber: Ints
    walls: tuple[Ints, ...]
    rest_volumes: Floats
    mesh_volumes: Floats
    targets: str


@dataclass(frozen=True)
class ElementEvaluation:
    """Force = gradient of the merit [N] (n, 3), merit [J], reference force [N], pressures [Pa], J of the body.

    `elastic` and `pull` are the energy [J] and the force [N] of the body alone.
    """

    force: Floats
    merit: float
    scale: float
    pressures: Floats
    jacobians: Floats
    elastic: float
    pull: Floats


class Elements:
    """All elements of one mesh, evaluated together; holds scratch memory, so one per solve.

    Parameters
    ----------
    count
        Number of vertices, those inside the chambers included.
    body, cells
        The elements.
    load
        Dead forces [N], (n, 3).
    """

    def __init__(self, count: int, body: Body, cells: Cells, load: Floats) -> None:
        self.count, self.body, self.cells, self.load = count, body, cells, load
        self.springs = NO_SPRINGS
        self.lines: Lines | None = None
        tets = np.vstack([body.tets, cells.tets])
        corners = tets.ravel()
        self._slots = np.argsort(corners, kind="stable")
        self._starts = np.concatenate([[0], np.cumsum(np.bincount(corners, minlength=count))])
        self._forces = np.zeros((len(tets), 4, 3))
        self._energies = np.zeros(len(tets))
        self.patches = Patches(count, body) if body.targets == "material" else None
        modulus = body.stiffness * body.tables[body.which, 0]
        self.rounding = MERIT_ROUNDING * float((modulus * body.volumes).sum())  # of the merit [J]
        self._floor = MIN_REFERENCE_STRAIN * float((modulus * body.volumes ** (2 / 3)).mean())
        self._ids = [np.flatnonzero(cells.chamber == i) for i in range(len(cells.walls))]
        self.compliances = np.full(len(cells.walls), np.nan)

    def laplacian(self) -> sp.csc_matrix:
        """Matrix of the global step: sum of w Vol grad N_i . grad N_j and the strings, without springs, (n, n)."""
        out = self.assembled(*self.scalar_weights())
        return out if self.lines is None else (out + self.lines.laplacian(self.count)).tocsc()

    def scalar_weights(self) -> tuple[Ints, Floats, Floats]:
        """Tets, shape gradients and weights w Vol [J] of the scalar global matrix."""
        body, cells = self.body, self.cells
        weights = [body.share * body.stiffness * body.volumes, cells.weights * cells.volumes]
        gradients = np.concatenate([body.gradients, cells.gradients])
        return np.vstack([body.tets, cells.tets]), gradients, np.concatenate(weights)

    def assembled(self, tets: Ints, gradients: Floats, weights: Floats) -> sp.csc_matrix:
        """Sum of w grad N_i . grad N_j over tets, (n, n)."""
        blocks = np.einsum("e,eik,ejk->eij", weights, gradients, gradients)
        rows, cols = np.repeat(tets, 4, axis=1).ravel(), np.tile(tets, (1, 4)).ravel()
        return sp.coo_matrix((blocks.ravel(), (rows, cols)), shape=(self.count, self.count)).tocsc()

    def stiffen(self, x: Floats, convex: float, *places: Any) -> None:
        """Add the second derivative of the body's merit at x [m] to a matrix (see `element_stiffness`)."""
        b = self.body
        jacobians, pressures, _ = self.press(x)
        assert self.patches is not None
        law = (b.volumes, b.which, b.rows, OWN_BULK_SHARE * b.bulk, jacobians, pressures, self.patches.roots)
        element_stiffness(x, b.tets, b.gradients, *law, convex, *places)

    def gather(self, corners: Floats, out: Floats) -> None:
        """Write the sums of corner forces (m, 4, 3) at the vertices, (n, 3)."""
        kernels.gather(self._starts, self._slots, corners.reshape(-1, 3), out)

    def evaluate(self, x: Floats, targets: Floats) -> ElementEvaluation:
        """Local step at positions x [m] (n, 3) for target volumes [m^3] (chambers,), nan = vented."""
        split = len(self.body.tets)
        jacobians, pressed = self._body(x, self._forces[:split], self._energies[:split])
        sizes = np.sqrt(np.einsum("eik,eik->ei", self._forces[:split], self._forces[:split]))
        scale = np.bincount(self.body.tets.ravel(), sizes.ravel()).max(initial=0.0)
        scale = max(scale, float(np.abs(self.load).max(initial=0.0)), self._floor)
        self._forces[split:] = 0.0
        pull = np.empty_like(x)
        self.gather(self._forces, pull)
        elastic = float(self._energies[:split].sum() + pressed)
        return self.renewed(ElementEvaluation(pull, elastic, scale, np.empty(0), jacobians, elastic, pull), x, targets)

    def renewed(self, now: ElementEvaluation, x: Floats, targets: Floats) -> ElementEvaluation:
        """Return an evaluation at the same x [m] (n, 3) with other targets, springs or strings: the body pulls as it did."""
        split = len(self.body.tets)
        pressures = self._chambers(x, targets, self._forces[split:], self._energies[split:])
        force = now.pull - self.load
        merit = now.elastic + float(self._energies[split:].sum() - np.sum(self.load * x))
        if self.cells.targets == "uniform":
            self._forces[:split], inside = 0.0, np.empty_like(x)
            self.gather(self._forces, inside)
            force += inside
        for wall, pressure in zip(
            self.cells.walls, np.nan_to_num(pressures)
        ):  # nan: elements have targets of their own
            wall_gradient(x, wall, -pressure, force)
        if len(self.springs.ids):
            push, stored = self.springs.on_vertices(x)
            force -= push
            merit += stored
        if self.lines is not None:
            drag, stored = self.lines.evaluate(x)
            force += drag
            merit += stored
        return replace(now, force=force, merit=merit, pressures=pressures)

    def _body(self, x: Floats, forces: Floats, energies: Floats) -> tuple[Floats, float]:
        """Write the pull of the body targets; return the volume ratio of every element and the energy of the patches."""
        b = self.body
        elements = (x, b.tets, b.gradients)
        if b.targets == "material":
            jacobians, pressures, pressed = self.press(x)
            law = (b.volumes, b.which, b.rows, OWN_BULK_SHARE * b.bulk, jacobians, pressures)
            kernels.material_targets(*elements, *law, forces, energies)
        else:
            jacobians, pressed = np.empty(len(b.tets)), 0.0
            blend = (b.stiffness * b.volumes, b.which, b.tables, STRAIN_SPACING)
            kernels.paper_targets(*elements, *blend, forces, energies, jacobians)
        return jacobians, pressed

    def press(self, x: Floats) -> tuple[Floats, Floats, float]:
        """Volume ratio of every element, pressure of every patch [Pa] and the energy of all patches [J]."""
        b, jacobians, growth = self.body, np.empty(len(self.body.tets)), np.empty(self.count)
        assert self.patches is not None
        kernels.determinants(x, b.tets, b.gradients, jacobians)
        kernels.patch_growth(b.volumes, jacobians, self._starts, self._slots, growth)
        pressures = self.patches.pressures(growth)
        return jacobians, pressures, 0.5 * float(np.einsum("i,i->", growth, pressures))

    def _chambers(self, x: Floats, targets: Floats, forces: Floats, energies: Floats) -> Floats:
        """Write the pull of the chamber targets; return the pressures [Pa], nan where the targets have none.

        The closest shapes whose volumes *add up* to a target, min sum w V ||F - T||^2 / 2 s.t. sum V det T = target, have one
        multiplier, w (F - T) = pull cof T, and to first order cof T = cof F. All push like one pressure on the wall, and not
        at all on the vertices inside. The wall alone is taken, as meshers may put vertices on it that no body element holds.
        """
        c = self.cells
        pressures = np.full(len(c.walls), np.nan)
        elements = (x, c.tets, c.gradients, c.volumes)
        for i, ids in enumerate(self._ids):
            energies[ids] = 0.0
            if not np.isfinite(targets[i]):  # vented: the elements follow without force
                forces[ids], pressures[i] = 0.0, 0.0
            elif c.targets == "total":
                if np.isnan(self.compliances[i]):  # kept, so that the energy is a function of the volume alone
                    self.compliances[i] = kernels.chamber_compliance(*elements, c.weights, ids)
                missing = targets[i] - shells.signed_volume(x, c.walls[i])
                pressures[i] = missing / self.compliances[i]
                energies[ids[0]], forces[ids] = 0.5 * pressures[i] * missing, 0.0
            else:
                kernels.cell_targets(*elements, c.weights, ids, targets[i] / c.mesh_volumes[i], forces, energies)
        return pressures

    def pressed(self, x: Floats, asked: Floats, pressures: Floats) -> Floats:
        """Targets [m^3] whose pull at the volumes asked for is that of `pressures` [Pa] (chambers,)."""
        c, out = self.cells, asked.copy()
        self.compliances[:] = np.nan
        for i in np.flatnonzero(np.isfinite(asked)) if c.targets == "total" else ():
            self.compliances[i] = kernels.chamber_compliance(x, c.tets, c.gradients, c.volumes, c.weights, self._ids[i])
            out[i] += pressures[i] * self.compliances[i]
        return out

    def volumes(self, x: Floats) -> Floats:
        """Volumes of the chambers at x [m^3]."""
        return np.array([shells.signed_volume(x, wall) for wall in self.cells.walls])


class Patches:
    """What the pressures of the patches round vertices do: C p = g, with g the growth of a patch [m^3].

    C is the compliance of the bulk, lumped, and the stabilisation of linear pressures s / G (p - Pi p)(q - Pi q), Pi p the
    mean in an element [Dohrmann and Bochev 2004]: without, pressures that alternate from vertex to vertex lock.

    Parameters
    ----------
    count
        Number of vertices.
    body
        The elements.
    """

    def __init__(self, count: int, body: Body) -> None:
        corners = body.tets.ravel()
        self.ids = np.unique(corners)
        place = np.full(count, -1)
        place[self.ids] = np.arange(len(self.ids))
        tets, bulk = place[body.tets], (1.0 - OWN_BULK_SHARE) * body.bulk
        rest, stiff = (np.bincount(place[corners], np.repeat(v * body.volumes, 4)) for v in (1.0, bulk))
        shear = 0.5 * body.stiffness * body.tables[body.which, 0]
        # of the pressures of patches, over the compliance 1 / G
        element = STABILISATION * ((1.0 + np.eye(4)) / 20.0 - 1.0 / 16.0)
        entries = (body.volumes / shear)[:, None, None] * element
        rows, columns = np.repeat(tets, 4, axis=1).ravel(), np.tile(tets, (1, 4)).ravel()
        smooth = sp.coo_matrix((entries.ravel(), (rows, columns)), shape=(len(self.ids),) * 2)
        compliance = (smooth + sp.diags(0.25 * rest**2 / stiff)).tocsr()
        self._scale = 1.0 / np.sqrt(compliance.diagonal())
        scaled = sp.triu(sp.diags(self._scale) @ compliance @ sp.diags(self._scale), format="csr")
        scaled.sort_indices()
        self.scaled = scaled  # with a unit diagonal
        self.roots = np.zeros(count)  # scales of the couplings of an element's growth with its patches
        self.roots[self.ids] = 0.25 * self._scale
        self._factoriser = make_factoriser(scaled.indptr, scaled.indices, single=False)
        self._factoriser.factorise(scaled.data)

    def solve(self, growth: Floats) -> Floats:
        """Solve with the scaled compliance."""
        return self._factoriser.solve(growth)

    def pressures(self, growth: Floats) -> Floats:
        """Pressure of every patch [Pa] by its growth [m^3], (count,)."""
        out = np.zeros(len(growth))
        out[self.ids] = self._scale * self.solve(self._scale * growth[self.ids])
        return out


class GlobalMatrix:
    """The prefactored matrix of the global step, its fixed vertices eliminated; three right-hand sides at once."""

    def __init__(self, laplacian: sp.csc_matrix, free: Ints, springs: ContactSprings) -> None:
        self.free = free
        self.factorisations = 0
        self._count = laplacian.shape[0]
        upper = sp.triu(laplacian[free][:, free], format="csr")
        upper.sort_indices()
        self._data, self._where = upper.data, upper.indptr[:-1]  # the diagonal stands first in every row
        self._factoriser = make_factoriser(upper.indptr, upper.indices, single=False)
        self._added: Floats | None = None
        self.factor(springs)

    def factor(self, springs: ContactSprings) -> None:
        """Factorise with the stiffness of the springs on the diagonal.

        Nothing is done while the present factors bound that stiffness: a diagonal that is too large is only cautious.
        """
        added = springs.diagonal(self._count)[self.free]
        if self._added is not None and (added <= self._added).all() and (len(springs.ids) or not self._added.any()):
            return
        self._added = added
        data = self._data.copy()
        data[self._where] += added
        self._factoriser.factorise(data)
        self.factorisations += 1

    def diagonal(self) -> Floats:
        """Stiffness of every vertex in the matrix without springs [N/m], (count,), 0 where it is held."""
        out = np.zeros(self._count)
        out[self.free] = self._data[self._where]
        return out

    def solve(self, force: Floats) -> Floats:
        """Return the displacement [m] (free, 3) of a force [N] (free, 3)."""
        return self._factoriser.solve(force)
