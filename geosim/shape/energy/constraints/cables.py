"""Cable constraints: cables that slide through points of the body, with capstan friction.

A cable adds T_0 (l - L) to the potential of the solver: its length l is a scalar functional of the positions as a chamber's
volume is, its tension T_0 >= 0 at the pulled end the conjugate force. As a scalar constraint (`scalars`) it stands as -l and
T_0, so that all that holds for chambers holds for it.

With friction, every point i between the ends is such a pair as well: the length of the cable beyond it, lambda_i, and the
jump tau_i = T_i - T_(i-1) of the tension there. A point where the cable sticks keeps lambda_i and answers with the jump; one
over which it slides towards the pulled end (mode +1) or away from it (-1) has

    T_i = T_(i-1) exp(-+ mu theta_i),        theta_i the angle of wrap        [capstan equation],

a function of the tension before it and not an unknown. Which points stick is found in rounds (`Cables.corrected`): a jump
beyond the limit slides, a slip against the friction sticks. What slipped in an increment stays where it is (`renewed`).
How the angles of wrap change makes the tangent unsymmetric: that part is applied beside the matrix (`Cables.turn`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from geosim.arrays import MIN_DIVISOR, Bools, Floats, Ints, einsum, frozen, norm
from geosim.model.actuation import CableLengths, CableTensions, Command, cable_targets
from geosim.model.cable import Anchors
from geosim.model.contract import Robot
from geosim.model.environment import Environment
from geosim.shape.energy.constraints.scalars import Law, Prescription, Rows, ScalarConstraint, StickSlip
from geosim.shape.energy.constraints.supports import RigidGroup
from geosim.shape.energy.discretisation.body import ScaledBody
from geosim.shape.energy.discretisation.embedding import Strands, couplings, joined, make_strands
from geosim.shape.energy.discretisation.pattern import BodyPattern

if TYPE_CHECKING:
    from geosim.result import Result


@dataclass(frozen=True)
class CableLaw(Law):
    """A cable pulls or is slack; where it has friction its points keep their places, or slide.

    Parameters
    ----------
    jump
        Scalars that are jumps of the tension at a point, bool (d,); the others are lengths of cables.
    """

    jump: Bools

    @property
    def lawful(self) -> Bools:
        """The jumps: they stick or slide."""
        return self.jump

    def write(self, rows: Rows, values: Floats, forces: Floats, active: StickSlip | None) -> None:
        """Leave out lengths of cables that are slack, and points that slide.

        A cable of prescribed length is slack where its tension less a stiffness times what is left over of it is not
        positive. Any positive stiffness finds the same answer: it is 1 [shear modulus times size].
        """
        slack = ~self.jump & rows.solved & (forces + rows.gap <= 0.0)
        rows.solved[slack] = False
        rows.fixed[slack] = True
        if active is not None:
            rows.solved[self.jump] = active.modes[self.jump] == 0
            rows.gap[self.jump] = (active.values - values)[self.jump]


@dataclass(frozen=True)
class Cables(ScalarConstraint):
    """Minus the lengths of the cables with their tensions; with friction of the lengths beyond every point, with its jump.

    Of a point `StickSlip.modes` is 1 where the cable slides towards the pulled end, -1 away from it.

    Parameters
    ----------
    strands
        Pieces between the points of all cables, each from its pulled end on.
    first
        First piece of every cable, and the number of pieces, (w + 1,).
    friction
        Coefficients, (w,).
    main
        Scalar of every cable that is its length, counted from the first cable's, (w,).
    reversed
        Whether a cable is pulled at its last point, (w,).
    """

    strands: Strands
    first: Ints
    friction: Floats
    main: Ints
    reversed: tuple[bool, ...]
    actuations = (CableLengths, CableTensions)

    @classmethod
    def of(cls, body: ScaledBody, environment: Environment, groups: tuple[RigidGroup, ...]) -> Cables | None:
        """Return the cables of a robot, whose points are fastened to its tets; None where there is none."""
        robot = body.robot
        if not robot.cables:
            return None
        turned = tuple(cable.pulled == "last" for cable in robot.cables)
        ordered = [
            Anchors(a.vertices[::-1], a.weights[::-1], a.tets[::-1]) if back else a
            for a, back in zip(robot.cable_anchors, turned)
        ]
        parts = [make_strands(body, one) for one in ordered]
        counts = np.array([len(part.rest) for part in parts])
        rough = np.array([cable.friction for cable in robot.cables])
        scalars = np.where(rough > 0.0, counts, 1)
        first = frozen(np.concatenate([[0], np.cumsum(counts)]))
        main = frozen(np.concatenate([[0], np.cumsum(scalars)[:-1]]))
        return cls(joined(parts), first, frozen(rough), main, turned)

    @classmethod
    def check(cls, command: Command, robot: Robot) -> None:
        """Refuse commands of cables that the robot does not have."""
        cable_targets(command, len(robot.cables))

    @property
    def rough(self) -> bool:
        """Whether a cable has friction."""
        return bool((self.friction > 0.0).any())

    @property
    def pulls(self) -> Bools:
        """The lengths of cables: they pull and never push."""
        return np.isin(np.arange(len(self.rest_values)), self.main)

    @property
    def law(self) -> CableLaw:
        """The law of all cables."""
        return CableLaw(len(self.rest_values), ~self.pulls)

    def couplings(self) -> Sequence[Ints]:
        """Pairs of nodes that the pieces couple."""
        return [couplings(self.strands.nodes, self.strands.weights)]

    def placed(self, pattern: BodyPattern) -> Cables:
        """Return the cables with the places of their pieces in the matrix."""
        return replace(self, strands=self.strands.placed(pattern))

    def target(self, command: Command, body: ScaledBody, began: tuple[Floats, Floats]) -> Prescription:
        """Return lengths and tensions where they are pulled."""
        length, tension = cable_targets(command, len(self.main))
        return Prescription(self._at_main(-length / body.length), self._at_main(tension / body.force_unit), self.law)

    def _at_main(self, of_cables: Floats) -> Floats:
        """Values of cables (w,) as scalars: nan for jumps."""
        out = np.full(len(self.rest_values), np.nan)
        out[self.main] = of_cables
        return out

    def measures(self, body: ScaledBody, x: Floats, values: Floats, forces: Floats, modes: Ints) -> dict[str, Any]:
        """Return lengths [m] and tensions [N]: where the cables are pulled, and at both ends."""
        tension, _ = self.tensions(self.strands.ways(x)[0], forces, modes)
        return {
            "cable_lengths": -values[self.main] * body.length,
            "cable_tensions": np.maximum(forces[self.main], 0.0) * body.force_unit,
            "cable_end_tensions": np.maximum(self._ends(tension), 0.0) * body.force_unit,
        }

    def recalled(self, result: Result, frame: int, body: ScaledBody) -> Floats:
        """Return the scaled tensions of a frame where the cables are pulled, nan for jumps."""
        return self._at_main(result.cable_tensions[frame] / body.force_unit)

    @cached_property
    def rest_values(self) -> Floats:
        """Lengths at rest, with friction also those beyond every point; (d,)."""
        return frozen(np.concatenate([self._beyond(k, self.strands.rest) for k in range(len(self.main))]))

    def _beyond(self, cable: int, of_pieces: Floats) -> Floats:
        """Sums over the pieces (s, ...) of a cable that make its scalars: over all, with friction beyond every point, too."""
        mine = of_pieces[self.first[cable] : self.first[cable + 1]]
        if self.friction[cable] > 0.0:
            return np.cumsum(mine[::-1], axis=0)[::-1]
        return np.asarray(mine.sum(axis=0, keepdims=True))

    def _wraps(self, cable: int, along: Floats) -> Floats:
        """Angles of wrap at the points between the pieces of a cable, (s - 1,)."""
        t = along[self.first[cable] : self.first[cable + 1]]
        return np.arctan2(norm(np.cross(t[:-1], t[1:]), axis=1), einsum("si,si->s", t[:-1], t[1:]))

    def tensions(self, along: Floats, forces: Floats, modes: Ints) -> tuple[Floats, Floats]:
        """Tensions of the pieces (s,), and what they change by with the forces of the scalars, (s, d)."""
        out, slopes = np.zeros(len(along)), np.zeros((len(along), len(forces)))
        for k, main in enumerate(self.main):
            a, b = int(self.first[k]), int(self.first[k + 1])
            out[a:b] = forces[main]
            slopes[a:b, main] = 1.0
            if self.friction[k] == 0.0:
                continue
            for i, theta in enumerate(self._wraps(k, along), start=1):
                mode = modes[main + i]
                ratio = np.exp(-mode * self.friction[k] * theta)
                out[a + i], slopes[a + i] = ratio * out[a + i - 1], ratio * slopes[a + i - 1]
                if mode == 0:
                    out[a + i] += forces[main + i]
                    slopes[a + i, main + i] += 1.0
        return out, slopes

    def turn(self, x: Floats, forces: Floats, modes: Ints, move: Floats) -> Floats:
        """Forces on the nodes (nodes, 3) that a move of theirs brings where it turns a cable round points it slides over.

        With directions a and b before and after a point the angle of wrap changes by -(b . da + a . db) / |a x b|; where the
        cable is straight it has no slope.
        """
        along, length = self.strands.ways(x)
        tension, _ = self.tensions(along, forces, modes)
        way = np.einsum("sa,sai->si", self.strands.weights, move[self.strands.nodes])
        # sine of the angle of wrap below which a cable counts as straight, where it has no slope
        straight_wrap_sine = 1e-6
        turned = (way - np.einsum("si,si->s", way, along)[:, None] * along) / np.maximum(length, MIN_DIVISOR)[:, None]
        sine = np.linalg.norm(np.cross(along[:-1], along[1:]), axis=1)
        opened = -np.einsum("si,si->s", along[1:], turned[:-1]) - np.einsum("si,si->s", along[:-1], turned[1:])
        angle = np.where(sine > straight_wrap_sine, opened / np.maximum(sine, straight_wrap_sine), 0.0)
        change = np.zeros_like(tension)
        for k in np.flatnonzero(self.friction > 0.0):
            main, a = int(self.main[k]), int(self.first[k])
            for i, theta in enumerate(self._wraps(int(k), along), start=1):
                slides = modes[main + i] * self.friction[k]
                before, more = change[a + i - 1], slides * tension[a + i - 1] * angle[a + i - 1]
                change[a + i] = np.exp(-slides * theta) * (before - more)
        out = np.zeros_like(x)
        self.strands.add_forces(along, change, out, np.zeros(len(x)))
        return out

    def add(
        self,
        x: Floats,
        forces: Floats,
        modes: Ints,
        matrix: bool,
        pattern: BodyPattern,
        data: Floats,
        force: Floats,
        scale: Floats,
    ) -> tuple[Floats, Floats, Floats]:
        """See `ScalarConstraint.add`."""
        along, length = self.strands.ways(x)
        tension, slopes = self.tensions(along, forces, modes)
        self.strands.add_forces(along, tension, force, scale)
        if matrix:
            self.strands.add_stiffness(along, length, tension, np.zeros_like(tension), pattern, data)
        of_pieces = self.strands.gradients(along)
        pieces = np.repeat(np.arange(len(length)), self.strands.nodes.shape[1])
        values = np.concatenate([self._beyond(k, length) for k in range(len(self.main))])
        weights = np.zeros((len(length), len(values)))
        for k, main in enumerate(self.main):
            a, b = self.first[k], self.first[k + 1]
            count = b - a if self.friction[k] > 0.0 else 1
            weights[a:b, main : main + count] = np.tri(b - a, count)
        out = []
        for share in (weights, slopes):
            gradient = np.zeros((len(values), *x.shape))
            for d in range(len(values)):
                flat = share[pieces, d, None] * of_pieces.reshape(-1, 3)
                np.subtract.at(gradient[d], self.strands.nodes.ravel(), flat)
            out.append(gradient)
            if not self.rough:
                out.append(gradient)
                break
        return -values, out[0], out[1]

    def corrected(
        self, x: Floats, forces: Floats, values: Floats, active: StickSlip, *, one: bool
    ) -> tuple[Floats, StickSlip]:
        """See `ScalarConstraint.corrected`."""
        # A jump of the tension may be beyond its limit by this share of the largest tension, and a slip against the
        # friction by this share of the body's size: ten times what forces and lengths are solved to.
        tension_jump_tolerance_rel, backward_slip_rel = 1e-5, 1e-9
        along, _ = self.strands.ways(x)
        tension, _ = self.tensions(along, forces, active.modes)
        beyond = tension_jump_tolerance_rel * float(np.abs(tension).max(initial=0.0))
        modes, new = active.modes.copy(), forces.copy()
        for k in np.flatnonzero(self.friction > 0.0):
            main, a = int(self.main[k]), int(self.first[k])
            for i, theta in enumerate(self._wraps(int(k), along), start=1):
                d, before, here = main + i, tension[a + i - 1], tension[a + i]
                slip = values[d] - active.values[d]
                limit = np.exp(self.friction[k] * theta)
                if active.modes[d] == 0:
                    modes[d] = 1 if here < before / limit - beyond else -1 if here > before * limit + beyond else 0
                elif active.modes[d] * slip < -backward_slip_rel:
                    modes[d], new[d] = 0, here - before
                if one and modes[d] != active.modes[d]:
                    return new, replace(active, modes=modes)
        return new, replace(active, modes=modes)

    def _ends(self, tension: Floats) -> Floats:
        """Tensions (s,) at the first and the last point of every cable, (w, 2)."""
        out = np.stack([tension[self.first[:-1]], tension[self.first[1:] - 1]], axis=1)
        out[np.array(self.reversed)] = out[np.array(self.reversed), ::-1]
        return out
