"""MJCF of a robot for MuJoCo: a chain of rigid links that follows a robot, with its error stated in the file.

The chain is fitted to a reduced model, to equilibria under gravity in all directions, and to the force of a blocked tip. Links
have the masses of the robot: the gravity of a scene acts on them once, at any tilt of the mount.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import numpy as np

from geosim.apps.bridges.chain import Chain, Loaded, fit_chain
from geosim.apps.bridges.links import Links, links_along
from geosim.apps.bridges.reduced import ReducedModel
from geosim.apps.bridges.reducing import HELD_OUT
from geosim.arguments import guarded
from geosim.arrays import MIN_DIVISOR, Floats, number, whole
from geosim.errors import InputError
from geosim.measures.spine import Spine, spine
from geosim.measures.turning import center_line
from geosim.model.contract import Status
from geosim.model.environment import EARTH_GRAVITY, Environment, Prescribed
from geosim.response.controls import SteerableRobot
from geosim.response.rod_equilibria import Solver, default_solver
from geosim.result import Result
from geosim.solve import solve_many
from geosim.writing import checked_target, write_whole

TIMESTEP_S = 2e-3
RETARDATION_S = 0.05  # damping over stiffness of the joints: rubber fingers come to rest in a tenth of a second
# Of contacts, the least of MuJoCo. Its default of 20 ms lets light fingertips sink in by a millimetre.
CONTACT_S = 2 * TIMESTEP_S
SWEEP = 60  # places of the box, of the reduced model, that a chain is fitted to
TILTS = 24  # equilibria under gravity that a chain is fitted to


@guarded
def write_mjcf(
    robot: SteerableRobot,
    model: ReducedModel,
    path: str | Path,
    links: int = 6,
    environment: Environment | None = None,
    solver: Solver | None = None,
    retardation: float = RETARDATION_S,
    max_gravity: float = EARTH_GRAVITY,
) -> Path:
    """Write a robot as MJCF (.xml); the path is returned.

    One actuator a chamber (control: its pressure [Pa]) or cable (its tension [N]); sites "base" at the mount and "tip". Attached
    to a body of another model (`MjSpec.attach`), the frame there is the robot's frame of geosim. Links touch the world and
    other robots, not each other. The file states the differences from geosim: numerics `tip_mismatch` [m], under any gravity
    up to `max_gravity` [m/s^2], and `force_mismatch` [1] of the force on what blocks the tip.

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
    max_gravity
        Largest gravity of a scene, in any direction [m/s^2].

    Raises
    ------
    InputError
        The model commands volumes or lengths, is of another robot or of another gravity; there is no centre line; the tip
        cannot be blocked; the robot has no equilibrium under gravity, or buckles.
    """
    path = checked_target(path, ".xml")
    number(retardation, "write_mjcf: retardation", above=0.5 * TIMESTEP_S)
    number(max_gravity, "write_mjcf: max_gravity", low=0.0)
    source = Source.of(robot, model, whole(links, "write_mjcf: links", least=2, most=100), environment, solver)
    body, rng = links_along(robot, source.places), np.random.default_rng(1)
    lowest, highest = model.box.T
    controls = rng.uniform(lowest, highest, (SWEEP + TILTS + HELD_OUT, len(lowest)))
    controls[: len(lowest)] = np.where(np.eye(len(lowest), dtype=bool), highest, lowest)
    sweep, tilted, fresh = np.split(controls, [SWEEP, SWEEP + TILTS])
    gravity = rng.standard_normal((TILTS + HELD_OUT, 3))
    gravity[:6] = np.vstack([np.eye(3), -np.eye(3)])
    gravity *= max_gravity / np.linalg.norm(gravity, axis=1, keepdims=True)
    full, middle = highest, model.box.mean(axis=1)
    axis = int(np.argmax(np.abs(model(full).tip - source.places[-1])))
    loaded, held = source.solved(tilted, gravity[:TILTS]), source.blocked(np.stack([full, middle]), axis)
    every = Loaded.joined(loaded, held)
    chain = fit_chain(source.places, body.masses, body.centers, source.said(sweep), source.said(every.controls), every)
    known = Loaded.joined(loaded, source.solved(fresh, gravity[TILTS:]))
    ways = chain.points(chain.equilibria(known.controls, known.gravity))[:, -1]
    tip = float(np.linalg.norm(ways - known.points[:, -1], axis=1).max())
    if not tip < model.motion:
        raise InputError(
            f"write_mjcf: a chain of {links} links misses the tip by {1e3 * tip:.3g} mm under {max_gravity:g} m/s^2, more than "
            f"it moves by controls; give a smaller max_gravity, where {robot.name} does not buckle, or more links"
        )
    exact = held.force[:, axis]
    own = [chain.blocked_force(u, axis, np.asarray(model.gravity)) for u in held.controls]
    force = float(np.abs(own - exact).max() / max(np.abs(exact).max(), MIN_DIVISOR))
    text = _document(robot.name, model, chain, body, Mismatch(tip, force, "xyz"[axis], max_gravity), retardation)
    return write_whole(path, text)


@dataclass(frozen=True)
class Mismatch:
    """Of the tip [m], and of the force on what blocks it along an axis [1], under gravity up to so much [m/s^2]."""

    tip: float
    force: float
    axis: str
    gravity: float


@dataclass(frozen=True)
class Source:
    """A robot whose equilibria a chain is to follow, at `places` along its `line` (l + 1, 3)."""

    robot: SteerableRobot
    model: ReducedModel
    line: Spine
    places: Floats
    environment: Environment
    solver: Solver

    @classmethod
    def of(
        cls, robot: SteerableRobot, model: ReducedModel, links: int, environment: Environment | None, solver: Any
    ) -> Source:
        """Return the source of a chain.

        Raises
        ------
        InputError
            As `write_mjcf`.
        """
        solver = default_solver(robot, solver, "write_mjcf", check_stability=False)
        commanded = ("pressure", "cable_tension")  # what forces belong to
        if model.vary not in commanded:
            raise InputError(
                f"write_mjcf: the model varies {model.vary}, and no force belongs to that; reduce by {' or '.join(commanded)}"
            )
        if model.rest.shape != robot.vertices.shape or not np.allclose(model.rest, robot.vertices, atol=1e-9):
            raise InputError(f"write_mjcf: the model is of another mesh than {robot.name}; reduce this robot")
        environment = Environment(gravity=model.gravity) if environment is None else environment
        if not np.allclose(environment.gravity, model.gravity):
            raise InputError(
                f"write_mjcf: environment has gravity {np.asarray(environment.gravity).tolist()} m/s^2 and the model "
                f"{list(model.gravity)}; reduce the robot in this environment"
            )
        if environment.prescribed:
            raise InputError(
                "write_mjcf: the environment prescribes motions already, so the tip cannot be blocked; leave them out"
            )
        line = spine(robot)
        if line is None:
            raise InputError("write_mjcf: there is no way of one direction from what is held to the tip of this robot")
        places = center_line(line, robot.vertices, robot.vertices, links + 1)
        places[-1] = robot.tip_weights @ robot.vertices[robot.tip]
        return cls(robot, model, line, places, environment, solver)

    def along(self, positions: Sequence[Floats], tips: Floats) -> Floats:
        """Return where the ends of links are (k, l + 1, 3) at positions (n, 3) of the vertices and of the tip (k, 3)."""
        out = np.array([center_line(self.line, self.robot.vertices, x, len(self.places)) for x in positions])
        out[:, 0], out[:, -1] = self.places[0], tips
        return out

    def said(self, controls: Floats) -> Loaded:
        """Return what the model says of controls (k, c)."""
        positions = [self.model.positions(x) for x in self.model.outputs(controls)[:, : self.model.rank]]
        gravity = np.broadcast_to(self.model.gravity, (len(controls), 3))
        return Loaded(controls, gravity, np.zeros((len(controls), 3)), self.along(positions, self.model.tips(controls)))

    def solved(self, controls: Floats, gravity: Floats) -> Loaded:
        """Return equilibria under controls (k, c) and gravity (k, 3)."""
        around = [replace(self.environment, gravity=tuple(g)) for g in gravity.tolist()]
        return self._loaded(controls, gravity, self._results(controls, around), lambda result: np.zeros(3))

    def blocked(self, controls: Floats, axis: int) -> Loaded:
        """Return equilibria under controls (k, c) with a tip that cannot move along an axis."""
        hold = Prescribed(self.robot.tip, np.where(np.arange(3) == axis, 0.0, np.nan))
        around = [replace(self.environment, prescribed=hold)] * len(controls)
        gravity = np.broadcast_to(self.model.gravity, (len(controls), 3))
        only = np.eye(3)[axis]
        return self._loaded(controls, gravity, self._results(controls, around), lambda r: only * r.blocked_force[-1])

    def _loaded(self, controls: Floats, gravity: Floats, results: list[Result], force: Any) -> Loaded:
        points = self.along([r.frames[-1] for r in results], np.array([r.tip[-1] for r in results]))
        return Loaded(controls, gravity, np.array([force(r) for r in results]), points)

    def _results(self, controls: Floats, around: list[Environment]) -> list[Result]:
        commands = [self.model.actuation(u) for u in controls]
        problems = [
            dict(robot=self.robot, actuation=a, environment=e, solver=self.solver) for a, e in zip(commands, around)
        ]
        found = solve_many(problems)
        for u, e, result in zip(controls, around, found):
            if not result.converged or result.status is Status.INVERTED:
                raise InputError(
                    f"write_mjcf: no equilibrium at {self.model.vary} = {u.tolist()} under gravity "
                    f"{np.round(np.asarray(e.gravity), 3).tolist()} m/s^2: {result.message} Give a smaller max_gravity or "
                    f"narrower bounds."
                )
        return found


def _document(name: str, model: ReducedModel, chain: Chain, body: Links, off: Mismatch, retardation: float) -> str:
    """Return the file."""
    cables = model.vary == "cable_tension"
    kind, unit = ("cable", "N") if cables else ("chamber", "Pa")
    share = f"{1e3 * off.tip:.3g} mm of geosim ({100 * off.tip / model.motion:.2g} % of its largest way)"
    said = (
        f"{name} as a chain of {chain.links} rigid links, made by geosim of {model.solves} equilibria. Controls: "
        f"{model.vary} [{unit}], one a {kind}. Tip: within {share} in 95 % of the range, under gravity of the scene up to "
        f"{off.gravity:g} m/s^2 in any direction. Force on what blocks the tip along {off.axis}: {100 * off.force:.2g} % off. "
        f"Masses are of the bodies, damping is retardation {retardation:g} s; links touch the world and other robots."
    )
    root = ElementTree.Element("mujoco", model=name)
    add = ElementTree.SubElement
    add(root, "compiler", angle="radian", autolimits="true")
    gravity = np.asarray(model.gravity, dtype=float)
    add(root, "option", timestep=_text(TIMESTEP_S), integrator="implicitfast", gravity=_text(gravity))
    custom = add(root, "custom")
    numbers = {
        "tip_mismatch": off.tip,
        "tip_motion": model.motion,
        "force_mismatch": off.force,
        "max_gravity": off.gravity,
    }
    for key, value in numbers.items():
        add(custom, "numeric", name=key, data=_text(value))
    add(custom, "text", name="geosim", data=said)
    asset = add(root, "asset")
    parent = add(add(root, "worldbody"), "body", name="base")
    add(parent, "site", name="base", pos=_text(chain.places[0]), size=_text(0.3 * body.radii[0]))
    k, q0, before = chain.stiffness.reshape(-1, 3), chain.rest.reshape(-1, 3), np.zeros(3)
    names = [f"link_{i + 1}" for i in range(chain.links)]
    for i, link in enumerate(names):
        start, end = chain.places[i], chain.places[i + 1]
        parent = add(parent, "body", name=link, pos=_text(start - before))
        inertia = body.inertias[i][[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
        add(parent, "inertial", pos=_text(chain.centers[i]), mass=_text(body.masses[i]), fullinertia=_text(inertia))
        for j, (joint, axis_of) in enumerate(zip(("bend_1", "bend_2", "slide"), chain.axes[i])):
            add(
                parent,
                "joint",
                name=f"{joint}_{i + 1}",
                type="slide" if joint == "slide" else "hinge",
                axis=_text(axis_of),
                stiffness=_text(k[i, j]),
                damping=_text(k[i, j] * retardation),
                springref=_text(q0[i, j]),
            )
        shape = {"type": "capsule", "fromto": _text(np.append(np.zeros(3), end - start)), "size": _text(body.radii[i])}
        if body.hulls:
            add(asset, "mesh", name=link, vertex=_text(body.hulls[i]))
            shape = {"type": "mesh", "mesh": link}
        add(parent, "geom", shape, name=link, solref=f"{CONTACT_S:g} 1", priority="1")
        before = start
    add(parent, "site", name="tip", pos=_text(chain.places[-1] - before), size=_text(0.3 * body.radii[-1]))
    contact = add(root, "contact")
    for one, other in combinations(names, 2):
        add(contact, "exclude", body1=one, body2=other)
    _add_actuators(root, model, chain, kind)
    ElementTree.indent(root)
    how = (
        "Attach it: spec.attach(mujoco.MjSpec.from_file(THIS), prefix='finger_', frame=FRAME). FRAME is the frame of the robot "
        "in geosim, site base is the mount, site tip the tip. The gravity of the scene acts on the links; nothing of it is in "
        f"the springs. Keep time steps below {500 * retardation:g} ms."
    )
    comment = escape(f"{said}\n{how}").replace("--", "- -")
    return f"<!-- {comment} -->\n{ElementTree.tostring(root, encoding='unicode')}\n"


def _add_actuators(root: ElementTree.Element, model: ReducedModel, chain: Chain, kind: str) -> None:
    """Add a tendon and an actuator for every control."""
    add = ElementTree.SubElement
    tendons, actuators = add(root, "tendon"), add(root, "actuator")
    names = [f"{joint}_{i + 1}" for i in range(chain.links) for joint in ("bend_1", "bend_2", "slide")]
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


def _text(value: float | Floats) -> str:
    return " ".join(f"{v:.9g}" for v in np.ravel(value))
