"""Initial overlap of rods, shells and obstacles: refused by name, or moved apart; what touches starts at its equilibrium gap.

Contact stores energy where surfaces overlap, and a motion that starts with an overlap is given that energy: the parts fly apart.
Statics needs none of this, it finds the balance from wherever it starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from geosim.arrays import Bools, Floats
from geosim.collision.shapes import signed_distances
from geosim.errors import InputError
from geosim.model.actuation import Command
from geosim.rods.cables import Cables, Pulled
from geosim.rods.contact import MAX_STATIC_SINKING_RADII
from geosim.rods.drive import contact_terms, make_drive
from geosim.rods.increment import growing
from geosim.rods.obstacles import ObstacleContact
from geosim.rods.pace import parts
from geosim.rods.pair_contact import PairContact, pair_distances
from geosim.rods.state import RodState
from geosim.rods.terms import CONTACT, Term

OVERLAPS = ("refuse", "resolve", "keep")


def terms_at_rest(state: RodState) -> tuple[RodState, list[Term]]:
    """Return the state with its list of pairs, and contact and slack cables before anything moves."""
    state, poses = state.paired(state.q), state.system.environment.poses(-1)
    count = len(state.system.robot.cables)
    slack = [Cables(state, 1.0, Pulled(np.zeros(count), np.full(count, np.nan)))] if count else []
    obstacles = [ObstacleContact(state, 0.0, poses, poses)] if len(poses) else []
    return state, [*slack, *contact_terms(state, 0.0), *obstacles]


def free_of_overlap(state: RodState, overlap: str) -> RodState:
    """Return the state if nothing overlaps by more than a hundredth of its radius, or `overlap` is "keep"; else one without.

    Parts are pushed by contact and held by elasticity and inertia alone, increment after increment from rest.

    Raises
    ------
    InputError
        Something overlaps and `overlap` is "refuse", or it cannot be moved apart.
    """
    if overlap == "keep":
        return state
    now, found = state, _deepest(state)
    if found is None:
        return at_equilibrium_gap(state)
    if overlap == "refuse":
        raise InputError(f"{found}; move it away, or let RodShellStepper(overlap='resolve') do so before time begins")
    for now in _pushed(state, np.zeros(state.system.dofs)):
        if _deepest(now) is None:
            return at_equilibrium_gap(now.changed(u=state.u, system=state.system))
    raise InputError(f"{_deepest(now)}, and cannot be moved apart; check the supports and what else is in the way")


def at_equilibrium_gap(state: RodState) -> RodState:
    """Return the state with what touches at the distance at which contact bears its weight.

    The law of contact pushes at touch already, hundreds of times a small weight: parts laid at touch would jump. Without weight
    they are moved to where contact stores next to nothing.
    """
    system = state.system
    force, energy = _touching(state)
    pushed = np.linalg.norm(force, axis=1)
    weight = system.weight[: system.turns].reshape(-1, 3)
    loose = np.asarray(system.free[: system.turns].reshape(-1, 3).any(axis=1))
    if not (loose & (pushed > np.linalg.norm(weight, axis=1))).any():
        return state
    # vertices that touch bear the weight of all that is joined to them, along the normal: what slides would never rest
    part = parts(state.robot)
    borne = np.array([weight[part == k].sum(axis=0) for k in range(part.max() + 1)])
    masses = np.linalg.norm(weight, axis=1) * (pushed > 0.0)
    share = masses / np.maximum(np.bincount(part, masses), np.finfo(float).tiny)[part]
    normal = force / np.where(pushed > 0.0, pushed, 1.0)[:, None]
    load = np.zeros(system.dofs)
    load[: system.turns] = (np.minimum(share * (borne[part] * normal).sum(axis=1), 0.0)[:, None] * normal).ravel()
    left_energy_share = 1e-4  # of the energy at touch, where nothing weighs
    settled_change = 0.01  # of the energy in an increment, at the equilibrium gap: parts that roll or slide go on
    farthest = 12.0 / system.law.k1  # m, where contact has e^-12 of its force: what goes farther falls or rolls
    now, stored = state, energy
    for moved in _pushed(state, load):
        before, stored = stored, _touching(moved)[1]
        if np.abs(moved.q - state.q)[: system.turns].max() > farthest:
            break
        now = moved
        if abs(stored - before) < settled_change * stored or stored < left_energy_share * energy:
            break
    return now.changed(u=state.u, system=system)


def _touching(state: RodState) -> tuple[Floats, float]:
    """Return the forces of contact on the vertices [N] (n, 3), and its energy [J]."""
    measures: dict[str, Any] = {"contact_forces": np.zeros((len(state.robot.vertices), 3)), "contact": 0.0}
    for term in terms_at_rest(state)[1]:
        if term.kind == CONTACT:
            term.measure(state.q, measures)
    return np.asarray(measures["contact_forces"]), float(measures["contact"])


def _pushed(state: RodState, load: Floats) -> Iterator[RodState]:
    """Yield states that contact and a load [N] move, each from rest: increments of backward Euler that grow."""
    law, drive = state.system.law, make_drive(state, Command(0, np.finfo(float).max, ()))
    first_increment_periods = 3.0  # of sqrt(m / k): in it contact undoes most of an overlap
    h = first_increment_periods * float(np.sqrt(law.mass / law.stiffness))
    still = drive.start.changed(u=np.zeros(state.system.dofs))
    held = replace(drive, load=load, share=0.0)
    for _, now in growing(held, still, still.natural, load, h, h, rests=True):
        yield now


def _deepest(state: RodState) -> str | None:
    """Return what overlaps most, over its radius, among parts of which one is free; None where nothing overlaps."""
    free = np.asarray(state.system.free[: state.system.turns].reshape(-1, 3).any(axis=1))
    found = [*_of_pairs(state, free), *_of_obstacles(state, free)]
    return max(found)[1] if found else None


def _of_pairs(state: RodState, free: Bools) -> list[tuple[float, str]]:
    """Return the deepest overlap of two rods over the radius of the thinner, and its name."""
    robot = state.system.robot
    pairs = [term for term in terms_at_rest(state)[1] if isinstance(term, PairContact) and len(term.pairs)]
    found = []
    for term in pairs:
        depth = term.touch - pair_distances(state.q, term.dofs, robot.rest_lengths[term.pairs])
        share = depth / robot.radius[term.pairs].min(axis=1)
        share[~free[robot.edges[term.pairs]].any(axis=(1, 2))] = 0.0
        i = int(np.argmax(share))
        if share[i] > MAX_STATIC_SINKING_RADII:
            e, f = term.pairs[i]
            found.append(
                (float(share[i]), f"edges {e} and {f} of rods overlap by {1e3 * depth[i]:.3g} mm at the start")
            )
    return found


def _of_obstacles(state: RodState, free: Bools) -> list[tuple[float, str]]:
    """Return the deepest overlap with every obstacle over the radius, and its name."""
    found = []
    for points in state.system.contact_points:
        for o in np.flatnonzero(points.only):
            obstacle = state.system.environment.obstacles[o]
            place, reach = points.at(state.positions), float(points.radius.max())
            depth = points.radius - signed_distances(obstacle.solid, place, obstacle.pose(-1), reach=reach)[0]
            share = np.where(free[points.first] | free[points.second], depth / points.radius, 0.0)
            i = int(np.argmax(share))
            if share[i] > MAX_STATIC_SINKING_RADII:
                part = f"vertex {points.first[i]}" if points.edge[i] < 0 else f"edge {points.edge[i]}"
                text = f"obstacles[{o}]: {part} overlaps the {obstacle.shape} by {1e3 * depth[i]:.3g} mm at the start"
                found.append((float(share[i]), text))
    return found
