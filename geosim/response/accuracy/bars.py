"""error_bars(result, of): how far off a measure may be, for its mesh, its facets (see `faceting`) and its material.

The mesh: with errors that fall like h^r the measure on the refined limit differs from the present one by

    m_limit - m = (m_f - m) 2^r / (2^r - 1),

m_f being the measure with every tet split into eight (see `correction`). Where the shape is smooth, P2 elements have r
= 4 for most measures. At sharp inner edges and clamps stresses are singular: displacements scale as distance^0.545 (an
inner right angle of an incompressible solid). Energies, pressures and other functionals then have twice that r, however
smooth the loads. The bar takes this rate always, and a safety factor for meshes on which it does not hold yet.

A tip or a centre line is read off a mesh, too. With a = m(read on the coarse mesh, fine shape) - m and b = m_f - m(read so)

    bar = max(|f a + b|, f |a|, |b|),

f for the shape, none for the reading, since means over faces and windows converge faster. Their signs count, so that
opposite errors cancel, but a bar is never smaller than either, since they cancel by chance. So it is with forces of
contact: with the derivative d by the share of the distance at which contact begins, which the refined mesh halves,

    bar = max(f |m_f - m|, |d|, f |m_f - m + d / 2|).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from geosim.arguments import guarded
from geosim.arrays import Floats
from geosim.geometry import topology
from geosim.model.tolerances import Tolerances
from geosim.response.accuracy.correction import (
    LINEAR_BAR_FACTOR,
    Correction,
    bar_factor,
    correct,
    with_least_components,
)
from geosim.response.accuracy.faceting import faceting
from geosim.response.accuracy.material import ConstantsFit, slopes, uncertain, unsaid
from geosim.response.accuracy.rods import RodBars
from geosim.response.accuracy.tolerances import as_tolerances, tolerance_terms
from geosim.response.derivatives.neighbours import neighbour
from geosim.response.derivatives.parameters import RESIDUAL_STEP_REL, Columns, Differences, column_by_contact
from geosim.response.derivatives.quantities import GAUGED_MEASURES, ContactConfiguration, Gauged, Measure, quantity
from geosim.response.derivatives.tangent import Tangent
from geosim.result import Result
from geosim.rods.robot import RodShellRobot
from geosim.shape.energy.solver import EnergyShapeSolver

# Twice the exponent 0.5445 of the strongest singularity of Stokes flow (an incompressible solid) at an inner right angle, the
# root of sin(1.5 pi z) = z there [Dauge, 1989, Stationary Stokes and Navier-Stokes systems on domains with corners]; on its own
# a factor of 1.89 on what the refined mesh changes.
CONVERGENCE_RATE = 1.09
BAR_FACTOR = bar_factor(CONVERGENCE_RATE)  # 2.17
CONTACT_MEASURES = ("obstacle_forces", "grip_force")
WORDS = {
    "mesh": "the mesh",
    "material": "the scatter of the material",
    "faceting": "the flatness of facets",
    "geometry": "the tolerance of the walls",
    "gauge": "the gauge",
    "clamp": "the turning of the clamp",
    "marker": "the place of the marker",
    "model": "what the model leaves out",
    "history": "what was not said of first pulls and holds",
}


@guarded
@dataclass(frozen=True)
class ErrorBars:
    """How far off a measure may be, in SI units, each of its shape.

    Parameters
    ----------
    value
        The measure.
    mesh
        Bound of its difference from the value on the refined limit of the mesh.
    material
        Half-width of its 95 % interval for what is not known of the material; nan where no scatter is known.
    faceting
        What curved surfaces that are drawn with flat facets are off; 0 where all facets meet at edges that were drawn, nan
        where it is not known.
    total
        Their sum, of faceting what is known.
    of
        What was asked.
    note
        Why something is nan, or "".
    tolerances
        Terms of the tolerances that were given: "geometry", "gauge", "clamp", "marker", "model"; and "history" where nobody said
        how often and how long the rubber was pulled.
    softened
        What first cycles and holds may change the measure by, with its sign; None where they are said.
    """

    value: Floats
    mesh: Floats
    material: Floats
    faceting: Floats
    total: Floats
    of: str | Measure
    note: str = ""
    tolerances: Mapping[str, Floats] = field(default_factory=dict)
    softened: Floats | None = None

    @property
    def ends(self) -> tuple[Floats, Floats]:
        """Lower and upper end: `total` to both sides, but "history" only to the side to which a softer rubber moves it."""
        history = self.tolerances.get("history")
        if history is None or self.softened is None:
            return self.value - self.total, self.value + self.total
        both = self.total - history
        return self.value - both + np.minimum(self.softened, 0.0), self.value + both + np.maximum(self.softened, 0.0)

    def __post_init__(self) -> None:
        for array in (self.value, self.mesh, self.material, self.faceting, self.total, *self.tolerances.values()):
            array.setflags(write=False)

    @property
    def terms(self) -> dict[str, Floats]:
        """Half-widths by name: "mesh", "material", "faceting" and those of the tolerances; `total` is their sum."""
        return {"mesh": self.mesh, "material": self.material, "faceting": self.faceting, **self.tolerances}

    @property
    def expected(self) -> Floats:
        """Half-width of a 95 % interval where what is unknown is independent: roots of sums of squares.

        The bounds of mesh and facets have a sign and are added; the material and the tolerances are drawn:
        mesh + faceting + sqrt(material^2 + geometry^2 + ...). Never larger than `total`.
        """
        drawn = [self.material, *self.tolerances.values()]
        bounds = self.mesh + np.nan_to_num(self.faceting)
        return np.asarray(bounds + np.sqrt(np.sum([np.nan_to_num(t) ** 2 for t in drawn], axis=0)))

    @property
    def dominant(self) -> str:
        """The name of the largest term, by its norm; "" where all are 0 or unknown."""
        sizes = {name: float(np.linalg.norm(np.nan_to_num(term))) for name, term in self.terms.items()}
        return max(sizes, key=sizes.__getitem__) if any(sizes.values()) else ""

    def sentence(self) -> str:
        """Say which term dominates, and how much of the total it is."""
        name = self.dominant
        if not name:
            return "nothing is known to be off"
        sizes = {k: float(np.linalg.norm(np.nan_to_num(t))) for k, t in self.terms.items()}
        share = 100.0 * sizes[name] / sum(sizes.values())
        unknown = [k for k, t in self.terms.items() if np.isnan(t).all()]
        told = f"{WORDS.get(name, name)} is {share:.0f} % of the error bar"
        return told + (f"; not known: {', '.join(unknown)}" if unknown else "")


@guarded
def error_bars(
    result: Result,
    of: str | Measure = "tip",
    material: ConstantsFit | None = None,
    frame: int = -1,
    tolerance: float | Tolerances | None = None,
) -> ErrorBars:
    """Return how far off a measure may be, for its mesh, its facets, its material and, where given, its tolerances.

    Without tolerances it says nothing of what was cast otherwise than drawn, nor of rate, temperature and the Mullins effect.

    Parameters
    ----------
    result
        Of `EnergyShapeSolver`, or of rods and `RodShellStepper(static=True)`.
    of
        As in `sensitivity`.
    material
        The `Calibration` of the material, or the `RobotCalibration` of its constants or of Young's modulus; default the
        scatter of presets between batches.
    frame
        Which equilibrium.
    tolerance
        How far walls may lie from where they were drawn [m], or `Tolerances` of walls, gauge, clamp, marker and model;
        default those of the robot, none where it has none.

    Raises
    ------
    InputError
        The frame is no equilibrium, there is no such measure, a tolerance is negative, no body is made of the
        calibrated material, or the mesh is too large to be refined.
    """
    return bars_of(result, (of,), material, frame, tolerance)[0]


def bars_of(
    result: Result,
    measures: tuple[str | Measure, ...],
    material: ConstantsFit | None = None,
    frame: int = -1,
    tolerance: float | Tolerances | None = None,
) -> list[ErrorBars]:
    """Return the error bars of several measures of one equilibrium, for the price of one."""
    given = None if tolerance is None else as_tolerances(tolerance)
    if isinstance(result.robot, RodShellRobot):
        return _of_rods(result, measures, material, frame, given)
    found = correct(result, frame)
    given = found.state.robot.tolerances if given is None else given
    solver = result.solver
    assert isinstance(solver, EnergyShapeSolver)
    known, softer = uncertain(found.state.robot, material), unsaid(found.state.robot)
    tangent, index = None if found.tangent is None else Tangent.at(found.state), result.checked_frame(frame)
    out = []
    no_adjoint_reason = (
        "free objects have no adjoint here, so what material, facets and tolerances leave open is not known"
    )
    for of in measures:
        value, mesh = mesh_bar(found, of)
        if tangent is None:
            unknown = np.full_like(mesh, np.nan)
            out.append(ErrorBars(value, mesh, unknown, unknown.copy(), unknown.copy(), of, no_adjoint_reason))
            continue
        asked = quantity(of, tangent.problem, ContactConfiguration.of(tangent))
        made = Differences(tangent, asked, solver, index)
        scatter = known.half_width(slopes(made, known))
        facets, why = faceting(made)
        terms, untold = ({}, "") if given is None else tolerance_terms(result, made, of, given)
        softened = None
        if softer is not None:
            by = slopes(made, softer)
            terms["history"], softened = softer.half_width(by), softer.drift(by)
        note = "; ".join(filter(None, [known.missing, why, untold, unresolved(found, of)]))
        total = mesh + scatter + sum((np.nan_to_num(t) for t in terms.values()), np.nan_to_num(facets))
        out.append(ErrorBars(value, mesh, scatter, facets, total, of, note, terms, softened))
    return out


def _of_rods(
    result: Result,
    measures: tuple[str | Measure, ...],
    material: ConstantsFit | None,
    frame: int,
    given: Tolerances | None,
) -> list[ErrorBars]:
    """Return the error bars of several measures of an equilibrium of rods."""
    rods, out = RodBars(result, frame, material, given), []
    for of in measures:
        value, terms, note = rods.terms(of)
        total = np.sum(list(terms.values()), axis=0)
        mesh, scatter, facets = (terms.pop(name) for name in ("mesh", "material", "faceting"))
        out.append(ErrorBars(value, mesh, scatter, facets, total, of, note, terms))
    return out


def unresolved(found: Correction, of: str | Measure) -> str:
    """Return that a gauge is narrower than the elements that it reads; "" where it is not."""
    problem = found.state.problem
    asked = quantity(of, problem, ContactConfiguration.at(found.state))
    if not isinstance(asked, Gauged) or (share := asked.gauges.coarseness(asked.reading)) <= 1.0:
        return ""
    place = topology.with_mid_edges(problem.robot.vertices, problem.robot.p2_edges)[asked.reading.node]
    where = "({:.3g}, {:.3g}, {:.3g}) mm".format(*(1e3 * place))
    return (
        f"not resolved: the elements at {where} are {share:.2g} times as long as the gauge of {of}; take a smaller max_edge "
        f"there, or adapt(of={of!r})"
    )


def by_contact_distance(found: Correction, of: str | Measure) -> Floats:
    """Return what a measure changes by per share of the distance at which contact begins (`contact_thickness`)."""
    tangent, solver, step = Tangent.at(found.state), found.solver, RESIDUAL_STEP_REL
    problem, grip, sides = tangent.problem, tangent.contact_state, []
    made = Differences(tangent, quantity(of, problem, ContactConfiguration.of(tangent)), solver, 0)
    for h in (step, -step):
        other = replace(solver, contact_thickness=(1.0 + h) * solver.contact_thickness)
        beside = neighbour(problem, problem.robot, problem.environment, other)
        assert beside is not None
        assert beside.contact is not None
        assert grip is not None
        sides.append((beside.contact, grip))
    return made.jacobian(Columns((), [column_by_contact(tangent, made.quantity, sides, step)]))


def mesh_bar(found: Correction, of: str | Measure) -> tuple[Floats, Floats]:
    """Return a measure and the bound of what its mesh is off, each of its shape."""
    value, read, fine = found.values(of)
    factor = LINEAR_BAR_FACTOR if found.touches else BAR_FACTOR
    shape, reading = factor * (read - value), fine - read
    if of in CONTACT_MEASURES and found.touches and found.tangent is not None:
        # The distance at which contact begins halves with the edges, and its share of a force has often another sign than that of
        # the shape: neither may hide the other. The first is linear, so that all of it goes.
        apart = by_contact_distance(found, of)
        rest = fine - value + 0.5 * apart
        bar = np.maximum(np.abs(factor * (fine - value)), np.maximum(np.abs(apart), factor * np.abs(rest)))
    elif of in GAUGED_MEASURES:
        # A gauge reads a mean of the piecewise linear field nearest to that of the elements, which converges with the square of
        # the edges; it is the one that reads most, so that its shape and its reading take from each other by chance alone.
        reading_factor = 2.0**2 / (2.0**2 - 1.0)
        bar = np.abs(shape) + reading_factor * np.abs(reading)
    else:
        bar = np.maximum(np.abs(shape + reading), np.maximum(np.abs(shape), np.abs(reading)))
    return value, with_least_components(bar)
