"""The collision-aware local-global iteration at fixed chamber volumes [Fang2022, lines 6-12 of Algorithm 1]."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.model.contract import Status
from geosim.shape.projective.acceleration import Anderson
from geosim.shape.projective.contact import SpringContact
from geosim.shape.projective.elements import ElementEvaluation
from geosim.shape.projective.mesh import Work
from geosim.shape.projective.stiffness import MaterialMatrix

__all__ = ["Iterate", "Relaxation"]

PLAIN_STEP_HALVINGS = 22  # of a plain step before the iteration gives up: the rest is a millionth of it
MAX_STEP_ERROR_REL = 0.02  # relative error of a step, in the energy; near balance it is the square root of the residual
MAX_COLLISION_LOOKS = 16  # at collisions on the way of one step
FLATTER = 0.2  # of its volume ratio (of 1 where it is swollen) that a step leaves to an element
# Of the tolerance, at which "newton" ends: beside stiff patches the residual of soft bending is small (a tip lacked 5 % of its
# way at 6e-5), and its last steps are the shortest.
CLOSER = 0.1


@dataclass(frozen=True)
class Iterate:
    """Where the local-global iteration of one increment stands; replaced by the next."""

    x: Floats
    evaluation: ElementEvaluation
    asked: Floats
    targets: Floats
    pulls: Floats  # of the chambers at the end of the last straight step, as its linear equations have them
    longest: float  # step of a vertex [m]
    residual: float = np.inf
    status: Status = Status.NOT_CONVERGED
    records: tuple[dict[str, Any], ...] = ()

    def recorded(self, iteration: int, work: Work, seconds: dict[str, float]) -> Iterate:
        """Return it with the iteration noted for the trace."""
        e, volumes = self.evaluation, work.elements.body.volumes
        record = {
            "iteration": iteration,
            "residual": self.residual,
            "merit": e.merit,
            "springs": len(work.elements.springs.ids),
            "factorisations": work.matrix.factorisations,
            "inverted": int((e.jacobians <= 0).sum()),
            # einsum, not a BLAS product: its threads wait longer for each other than this takes
            "body_volume_ratio": float(np.einsum("i,i->", e.jacobians, volumes) / volumes.sum()),
            "seconds": seconds,
        }
        return replace(self, records=(*self.records, record))


@contextmanager
def timed(seconds: dict[str, float], phase: str) -> Iterator[None]:
    """Note the seconds that a phase of an iteration takes."""
    clock = time.perf_counter()
    yield
    seconds[phase] = time.perf_counter() - clock


@dataclass(frozen=True)
class Relaxation:
    """Options of the iteration, those of `ProjectiveShapeSolver` of the same names.

    `merit`: the targets have one that must fall.
    """

    tolerance: float
    volume_tolerance: float
    max_iterations: int
    contact_interval: int
    window: int
    merit: bool

    def run(self, work: Work, contact: SpringContact, x: Floats, asked: Floats, pressures: Floats) -> Iterate:
        """Balance the forces at the chamber volumes asked for [m^3]; pressures [Pa] are a first guess."""
        elements = work.elements
        targets = elements.pressed(x, asked, pressures)
        now = Iterate(x, elements.evaluate(x, targets), asked, targets, -pressures, contact.longest)
        memory = Anderson(self.window)
        for i in range(self.max_iterations):
            seconds = {"check": 0.0, "response": 0.0, "solver": 0.0}
            now = replace(now, residual=work.residual(now.evaluation))
            goal = self.goal(work, now)
            balanced = now.residual <= goal
            if balanced or i % self.contact_interval == 0:
                with timed(seconds, "check"):
                    elements.springs, changed = contact.update(now.x, elements.springs, balanced)
                with timed(seconds, "response"):
                    now = self._responded(work, memory, now, changed)
                    balanced = not changed and work.residual(now.evaluation) <= goal
            with timed(seconds, "solver"):
                if balanced:
                    retargeted = self._retargeted(work, memory, now)
                    if retargeted is None:
                        return replace(now, status=Status.CONVERGED if contact.clear else Status.CROSSED)
                    now = retargeted
                now = now.recorded(i, work, seconds)
                after = self._advanced(work, contact, memory, now)
            if after is None:
                break
            now = after
        return now

    def goal(self, work: Work, now: Iterate) -> float:
        """Residual at which the forces balance: the tolerance, and for "newton" a tenth of it as long as it comes nearer to that.

        Springs that go to and fro between faces at every check may hold it above (a finger whose tip lies on its clamped end).
        """
        if not isinstance(work.matrix, MaterialMatrix):
            return self.tolerance
        looks, nearer = 10, 0.95  # iterations in which the least residual falls by the factor, else it comes no nearer
        last = [row["residual"] for row in now.records[-2 * looks :]]
        stays = len(last) == 2 * looks and min(last[looks:]) > nearer * min(last[:looks])
        return self.tolerance * (1.0 if stays else CLOSER)

    def _responded(self, work: Work, memory: Anderson, now: Iterate, changed: bool) -> Iterate:
        """Take over springs that came, went or moved."""
        if changed:
            work.matrix.factor(work.elements.springs)
            memory.restart()
        elif len(work.elements.springs.ids):
            memory.jump()
        return replace(now, evaluation=work.elements.renewed(now.evaluation, now.x, now.targets))

    def _retargeted(self, work: Work, memory: Anderson, now: Iterate) -> Iterate | None:
        """Move the targets of volumes and lengths that are not the asked ones; None where all are."""
        elements, asked = work.elements, now.asked
        missing = np.nan_to_num(asked - elements.volumes(now.x))
        met = bool((np.abs(missing) <= self.volume_tolerance * np.nan_to_num(asked, nan=1.0)).all())
        tighter = None if elements.lines is None else elements.lines.moved(now.x, self.volume_tolerance)
        if met and tighter is None:
            return None
        elements.lines = tighter or elements.lines
        targets = now.targets + missing
        memory.restart()
        return replace(now, targets=targets, evaluation=elements.renewed(now.evaluation, now.x, targets))

    def _advanced(self, work: Work, contact: SpringContact, memory: Anderson, now: Iterate) -> Iterate | None:
        """One global and local step: accelerated if that is better, else plain, else shortened; None if none is."""
        if isinstance(work.matrix, MaterialMatrix):
            return self._followed(work, work.matrix, contact, now)
        matrix, elements = work.matrix, work.elements
        force = now.evaluation.force[matrix.free]
        step = memory.direction(now.x[matrix.free], force, matrix.solve)
        share = 1.0
        for attempt in range(PLAIN_STEP_HALVINGS + 2):
            if attempt == 0 and (far := float(np.abs(step).max(initial=0.0)) / now.longest) > 1.0:
                share = 1.0 / far
            x = _moved(now.x, matrix.free, share * step)
            evaluation = elements.evaluate(x, now.targets)
            if self._is_better(work, now.evaluation, evaluation) or (attempt == 1 and not self.merit):
                return replace(now, x=x, evaluation=evaluation)
            if attempt == 0:
                memory.restart()
                step = -matrix.solve(force)
            else:
                share *= 0.5
        return None

    def _followed(self, work: Work, matrix: MaterialMatrix, contact: SpringContact, now: Iterate) -> Iterate | None:
        """One step with the second derivative of the merit, shortened until it is better; None if it never is.

        The targets of chambers and strings are moved to where what is asked for is met at the pulls of the last step.
        """
        elements = work.elements
        total = np.isfinite(elements.compliances)
        targets = np.where(total, now.asked - elements.compliances * now.pulls, now.targets)
        if elements.lines is not None:
            elements.lines = elements.lines.moved(now.x, self.volume_tolerance) or elements.lines
        now = replace(now, targets=targets, evaluation=elements.renewed(now.evaluation, now.x, targets))
        before = now.records[-2]["residual"] if len(now.records) > 1 else now.residual
        matrix.follow(now.x, now.pulls, now.residual, before / max(now.residual, np.finfo(float).tiny))
        step = self.step(matrix, now)
        share, seen = 1.0, False
        for _ in range(PLAIN_STEP_HALVINGS):
            found = self._best(work, matrix, now, share * step)
            if found is not None:
                clear = 1.0 if seen else self._clear_share(matrix, contact, now, found[0])
                if clear == 1.0:
                    pulls = (1.0 - share) * now.pulls + share * matrix.pulls(now.x, targets, step)
                    return replace(now, pulls=pulls, x=_moved(now.x, matrix.free, found[0]), evaluation=found[1])
                share, seen = clear * share, True
            else:
                share *= 0.5
        return None

    def step(self, matrix: MaterialMatrix, now: Iterate) -> Floats:
        """Step [m] (free, 3) with the springs that push where it ends, as far as those are known.

        A spring pushes and never pulls. In the matrix of those that push at the start it would pull back what leaves, and what
        comes would go through. One factorisation would be spent on each guess of which they are. With the factors at hand a
        change of the springs costs a few iterations from the step before.
        """
        max_changes = 3  # of which springs push; eight took no iteration less
        # error of a step that only tells other springs, over that of the first: that takes half of the products of a
        # membrane on four pads, and no iteration more
        looser = 5.0
        tolerance, springs, free = min(MAX_STEP_ERROR_REL, now.residual**0.5), matrix.elements.springs, matrix.free
        force, on = now.evaluation.force, springs.pushing(now.x)
        unpushed = force + springs.on_vertices(now.x)[0]
        first = step = -matrix.solve(force[free], tolerance)
        for _ in range(max_changes):
            before, on = on, springs.pushing(_moved(now.x, free, step))
            if (on == before).all():
                break
            matrix.touch(on)
            force = unpushed - springs.on_vertices(now.x, on)[0]
            step = -matrix.solve(force[free], looser * tolerance, -step)
        # Springs that push at the end of a long step alone may send it uphill: nothing along it is better.
        return step if np.einsum("ij,ij->", now.evaluation.force[free], step) < 0.0 else first

    def _best(
        self, work: Work, matrix: MaterialMatrix, now: Iterate, step: Floats
    ) -> tuple[Floats, ElementEvaluation] | None:
        """Turned or straight step, whichever lowers the merit more, and what it leads to; None if neither is better.

        Turns serve slender robots; where single elements are sheared strongly they are no rotations of anything. The straight
        step is not looked at where the turned one gains nearly all that the second derivative foresees of either.
        """
        foreseen_share = 0.9
        foreseen = -0.5 * float(np.einsum("ij,ij->", now.evaluation.force[matrix.free], step))
        best: tuple[Floats, ElementEvaluation] | None = None
        for move in (matrix.turned(now.x, step), step):
            new = work.elements.evaluate(_moved(now.x, matrix.free, move), now.targets)
            good = not _folds(now.evaluation, new) and self._is_better(work, now.evaluation, new)
            if good and (best is None or new.merit < best[1].merit):
                best = move, new
            if best is not None and now.evaluation.merit - best[1].merit >= foreseen_share * foreseen:
                break
        return best

    def _clear_share(self, matrix: MaterialMatrix, contact: SpringContact, now: Iterate, move: Floats) -> float:
        """Share of a long step in which no vertex passes through anything unseen."""
        if not contact.active:
            return 1.0
        far = float(np.abs(move).max(initial=0.0)) / now.longest
        share, looks = min(1.0, MAX_COLLISION_LOOKS / max(far, 1.0)), int(np.ceil(min(far, MAX_COLLISION_LOOKS)))
        for k in range(1, looks):
            if contact.meets(_moved(now.x, matrix.free, share * k / looks * move), matrix.elements.springs):
                return share * k / looks
        return share

    def _is_better(self, work: Work, old: ElementEvaluation, new: ElementEvaluation) -> bool:
        """Whether a step lowers the merit; where that says nothing (or there is none), whether it raises no force."""
        free, gain = work.matrix.free, old.merit - new.merit
        if self.merit and abs(gain) > work.elements.rounding:
            return gain > 0.0
        return bool(np.linalg.norm(new.force[free]) <= np.linalg.norm(old.force[free]))


def _moved(x: Floats, free: Ints, step: Floats) -> Floats:
    """Positions [m] (n, 3) after a step [m] of the free vertices."""
    out = x.copy()
    out[free] += step
    return out


def _folds(old: ElementEvaluation, new: ElementEvaluation) -> bool:
    """Whether a step flattens an element: it would be slow to come back from there."""
    before = np.minimum(old.jacobians, 1.0)
    return bool(((new.jacobians < FLATTER * before) & (before > 0.0)).any())
