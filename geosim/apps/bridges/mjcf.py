"""MJCF of a robot for MuJoCo: a chain of rigid links that follows a reduced model, with what it misses stated in the file."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import numpy as np

from geosim.apps.bridges.chain import Chain, fit_chain
from geosim.apps.bridges.reduced import ReducedModel
from geosim.arguments import guarded
from geosim.arrays import Floats, number, whole
from geosim.errors import InputError
from geosim.geometry import topology
from geosim.measures.spine import spine
from geosim.model.contract import taken
from geosim.model.environment import Environment, Prescribed
from geosim.model.robot import VolumetricRobot
from geosim.shape.energy.solver import EnergyShapeSolver
from geosim.solve import solve
from geosim.writing import checked_target, replacing

TIMESTEP_S = 2e-3
RETARDATION_S = 0.05  # damping over stiffness of the joints: rubber fingers come to rest in a tenth of a second


@guarded
def write_mjcf(
    robot: VolumetricRobot,
    model: ReducedModel,
    path: str | Path,
    links: int = 6,
    environment: Environment | None = None,
    solver: EnergyShapeSolver | None = None,
    retardation: float = RETARDATION_S,
) -> Path:
    """Write a robot as MJCF (.xml); the path is returned.

    One actuator a chamber (control: its pressure [Pa]) or cable (its tension [N]); a site "tip"; links touch the world, not each
    other. The file says by how much the tip and the force on what blocks it differ from geosim: numerics `tip_mismatch` [m] and
    `force_mismatch` [1].

    Parameters
    ----------
    robot
        With a centre line.
    model
        Of its pressures or cable tensions.
    path
        File.
    links
        Rigid links, each with two hinges and a slide.
    environment, solver
        As the model was made with.
    retardation
        Damping over stiffness of the joints [s].

    Raises
    ------
    InputError
        The model commands volumes or lengths, or is of another robot; there is no centre line; the tip cannot be blocked.
    """
    path = checked_target(path, ".xml")
    taken(robot, VolumetricRobot, "write_mjcf")
    commanded = ("pressure", "cable_tension")  # what forces belong to
    if model.vary not in commanded:
        raise InputError(f"write_mjcf: the model varies {model.vary}, and no force belongs to that; reduce by pressure")
    if model.rest.shape != robot.vertices.shape or not np.allclose(model.rest, robot.vertices, atol=1e-9):
        raise InputError(f"write_mjcf: the model is of another mesh than {robot.name}; reduce this robot")
    whole(links, "write_mjcf: links", least=2, most=100)
    number(retardation, "write_mjcf: retardation", above=0.5 * TIMESTEP_S)
    line = spine(robot)
    if line is None:
        raise InputError("write_mjcf: there is no way of one direction from what is held to the tip of this robot")
    solver = taken(
        EnergyShapeSolver(check_stability=False) if solver is None else solver, EnergyShapeSolver, "write_mjcf: solver"
    )
    environment = Environment() if environment is None else environment
    lowest, highest = model.box.T
    free = solve(robot, model.actuation(lowest), environment, solver=solver)
    chain = fit_chain(robot, model, line, links, np.asarray(np.linalg.inv(free.tip_stiffness()), dtype=float), seed=0)
    chain, force_mismatch, axis = _blocked(robot, model, chain, environment, solver)
    checked = 200  # places of the box at which the chain is held against the model
    controls = np.random.default_rng(1).uniform(lowest, highest, (checked, len(lowest)))
    off = np.linalg.norm(chain.points(chain.equilibria(controls))[:, -1] - model.tips(controls), axis=1)
    mismatch = float(off.max()) + model.bounds["tip"]
    text = _document(robot, model, chain, mismatch, force_mismatch, axis, retardation)
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8")
    return path


def _blocked(
    robot: VolumetricRobot, model: ReducedModel, chain: Chain, environment: Environment, solver: EnergyShapeSolver
) -> tuple[Chain, float, int]:
    """Return the chain with the blocked force of geosim at full controls, what it misses at half of them [1], and the axis.

    The tip is kept from moving along the axis x, y or z along which it moves most.
    """
    full = model.box[:, 1]
    way = model(full).tip - robot.tip_weights @ robot.vertices[robot.tip]
    axis = int(np.argmax(np.abs(way)))
    if environment.prescribed:
        raise InputError(
            "write_mjcf: the environment prescribes motions already, so the tip cannot be blocked; leave them out"
        )
    hold = Prescribed(robot.tip, np.where(np.arange(3) == axis, 0.0, np.nan))
    around = Environment(
        gravity=environment.gravity,
        obstacles=environment.obstacles,
        loads=environment.loads,
        prescribed=hold,
        self_contact=environment.self_contact,
    )
    middle = model.box.mean(axis=1)
    exact = [
        -float(solve(robot, model.actuation(u), around, solver=solver).blocked_force[-1, axis]) for u in (full, middle)
    ]
    own = chain.blocked_force(full, axis)
    if exact[0] * own <= 0.0:
        raise InputError(
            f"write_mjcf: the blocked tip presses with {exact[0]:.3g} N, a chain with {own:.3g} N; take more links"
        )
    chain = chain.scaled(exact[0] / own)
    return chain, abs(chain.blocked_force(middle, axis) - exact[1]) / abs(exact[0]), axis


def _document(
    robot: VolumetricRobot, model: ReducedModel, chain: Chain, tip: float, force: float, axis: int, retardation: float
) -> str:
    """Return the file."""
    cables = model.vary == "cable_tension"
    kind, unit = ("cable", "N") if cables else ("chamber", "Pa")
    said = (
        f"{robot.name} as a chain of {chain.links} rigid links, made by geosim of {model.solves} equilibria. Controls: "
        f"{model.vary} [{unit}], one a {kind}. Tip: within {1e3 * tip:.3g} mm of geosim ({100 * tip / model.motion:.2g} % of "
        f"its largest way) in 95 % of the range. Force on what blocks the tip along {'xyz'[axis]}: as geosim at full range, "
        f"{100 * force:.2g} % of that off in the middle. "
        f"Masses are of the bodies, damping is retardation {retardation:g} s; links do not touch each other."
    )
    root = ElementTree.Element("mujoco", model=robot.name)
    add = ElementTree.SubElement
    add(root, "compiler", angle="radian", autolimits="true")
    add(root, "option", timestep=_text(TIMESTEP_S), integrator="implicitfast", gravity="0 0 0")
    custom = add(root, "custom")
    add(custom, "numeric", name="tip_mismatch", data=_text(tip))
    add(custom, "numeric", name="tip_motion", data=_text(model.motion))
    add(custom, "numeric", name="force_mismatch", data=_text(force))
    add(custom, "text", name="geosim", data=said)
    parent = add(root, "worldbody")
    masses, radii = _links(robot, chain)
    k, q0, before = chain.stiffness.reshape(-1, 3), chain.rest.reshape(-1, 3), np.zeros(3)
    for i in range(chain.links):
        start, end = chain.places[i], chain.places[i + 1]
        parent = add(parent, "body", name=f"link_{i + 1}", pos=_text(start - before))
        for j, (name, axis_of) in enumerate(zip(("bend_1", "bend_2", "slide"), chain.axes[i])):
            add(
                parent,
                "joint",
                name=f"{name}_{i + 1}",
                type="slide" if name == "slide" else "hinge",
                axis=_text(axis_of),
                stiffness=_text(k[i, j]),
                damping=_text(k[i, j] * retardation),
                springref=_text(q0[i, j]),
            )
        shape = {
            "fromto": _text(np.append(np.zeros(3), end - start)),
            "size": _text(radii[i]),
            "mass": _text(masses[i]),
        }
        add(parent, "geom", shape, name=f"link_{i + 1}", type="capsule", contype="1", conaffinity="0")
        before = start
    add(parent, "site", name="tip", pos=_text(chain.places[-1] - before), size=_text(0.3 * radii[-1]))
    tendons, actuators = add(root, "tendon"), add(root, "actuator")
    names = [f"{name}_{i + 1}" for i in range(chain.links) for name in ("bend_1", "bend_2", "slide")]
    for c, (pull, soft) in enumerate(zip(chain.pulls, chain.softening)):
        fixed = add(tendons, "fixed", name=f"{kind}_{c + 1}")
        for name, coefficient in zip(names, pull):
            add(fixed, "joint", joint=name, coef=_text(coefficient))
        add(
            actuators,
            "general",
            name=f"{kind}_{c + 1}",
            tendon=f"{kind}_{c + 1}",
            gaintype="affine",
            gainprm=_text(np.array([1.0, soft, 0.0])),
            biastype="none",
            ctrlrange=_text(model.box[c]),
        )
    ElementTree.indent(root)
    comment = escape(said).replace("--", "- -")
    return f"<!-- {comment} -->\n{ElementTree.tostring(root, encoding='unicode')}\n"


def _links(robot: VolumetricRobot, chain: Chain) -> tuple[Floats, Floats]:
    """Return masses [kg] and radii [m] of the links, (l,) each: of the tets that are nearest, chambers within the radius."""
    middle = robot.vertices[robot.tets].mean(axis=1)
    volumes = topology.tet_volumes(robot.vertices, robot.tets)
    ways = np.diff(chain.places, axis=0)
    lengths = np.linalg.norm(ways, axis=1)
    along = np.clip(np.einsum("eli,li->el", middle[:, None] - chain.places[:-1], ways) / lengths**2, 0.0, 1.0)
    nearest = np.argmin(np.linalg.norm(middle[:, None] - chain.places[:-1] - along[..., None] * ways, axis=2), axis=1)
    density = np.zeros(len(robot.tets))
    for region, material in robot.materials.items():
        density[robot.regions == region] = material.density
    masses = np.bincount(nearest, volumes * density, chain.links)
    radii = np.sqrt(np.bincount(nearest, volumes, chain.links) / (np.pi * lengths))
    return np.maximum(masses, 1e-3 * masses.sum() / chain.links), np.maximum(radii, 1e-3 * radii.max())


def _text(value: float | Floats) -> str:
    return " ".join(f"{v:.9g}" for v in np.ravel(value))
