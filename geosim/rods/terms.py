"""Forces beyond elasticity, inertia and dead loads: what each of them offers to the balance of an increment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import coo_matrix

from geosim.arrays import Floats, Ints
from geosim.errors import InputError
from geosim.linear.sparse import Blocks
from geosim.rods.state import RodState

# Share of the thinnest radius that friction lets slip before it bears all it can, from one equilibrium to the next.
STICK_SLIP_RADII = 1e-3
# Steps of differences, over an edge, a share of a command, a direction and in rad: forces and their changes keep enough digits.
DIFFERENCE_STEP_REL = 1e-6
USER, DRAG, CONTACT, PULL = range(4)  # kinds of terms: where their forces stand in `Trial.pushes`; PULL: of cables


@dataclass
class Term:
    """A force bound to the increment that starts at `state` and lasts `step` [s] (0 in statics).

    `reach` is the farthest that a vertex may go in one iteration [m]; `kind` is USER, DRAG, CONTACT or PULL;
    `straight` says that nothing may be crossed on the straight way from the start to the end of an increment of time either,
    `far` that q is far from balance, where a stiffness that leads there may be better than the exact one, `idle` that the force
    is zero wherever the term is complete.
    """

    state: RodState
    step: float
    reach = np.inf
    kind = CONTACT
    straight = False
    far = False
    idle = False

    def add_force(self, q: Floats, residual: Floats) -> tuple[float, float]:
        """Add minus the force to the residual; return (energy [J], largest force [N])."""
        raise NotImplementedError

    def add_stiffness(self, q: Floats, values: Floats) -> Blocks | None:
        """Add what lies in the symmetric pattern to the flat values; return the rest, or None."""
        return None

    def safe_share(self, q: Floats, dq: Floats) -> float:
        """Return the share of a step that nothing crosses."""
        return 1.0

    def escaped(self, q: Floats) -> bool:
        """Whether the term is not complete at q and must be bound anew."""
        return False

    def measure(self, q: Floats, measures: dict[str, Any]) -> None:
        """Add what a result shows to the measures of a step."""

    @property
    def pace(self) -> float:
        """Time [s] over which friction measures slip: the step; in statics that in which `STICK_SLIP_RADII` is the slip velocity."""  # noqa: E501
        system = self.state.system
        return self.step if self.step > 0 else STICK_SLIP_RADII * float(system.vertex_radius.min()) / system.law.slip

    @property
    def back(self) -> tuple[float, float]:
        """What contact gives back, see `geosim.rods.contact.ContactLaw`; at rest all."""
        law = self.state.system.law
        return law.back if self.step > 0 else (1.0, law.mass)

    @property
    def least(self) -> float:
        """Force [N] that changes the velocity of a vertex by that below which friction sticks: less is no impact."""
        law = self.state.system.law
        return law.slip * law.mass / self.step

    def closing(self, q: Floats, u: Floats) -> float:
        """Return how fast what pushes at q approaches or parts with the velocities u, at most [m/s]."""
        return 0.0

    def obstacle_work(self, q: Floats) -> float:
        """Return the work on the robot of what moves by itself in the increment [J]."""
        return 0.0


class ContactTerm(Term):
    """Contact of groups of four vertices, each with a full stiffness."""

    def contact(
        self, q: Floats, residual: Floats, force: Floats, *, want: bool = False
    ) -> tuple[tuple[float, float, float, int], Ints, Floats]:
        """Add to residual and force; with `want` leave both, and return the stiffness.

        Returns energy [J], largest force [N], deepest overlap [m] and number of contacts; then of what pushes the degrees of
        freedom (P, k) and the stiffness (P, k, k), none without `want`.
        """
        raise NotImplementedError

    def add_force(self, q: Floats, residual: Floats) -> tuple[float, float]:
        """Add minus the contact forces to the residual."""
        (energy, largest, _, _), _, _ = self.contact(q, residual, np.zeros_like(q))
        return energy, largest

    def add_stiffness(self, q: Floats, values: Floats) -> Blocks | None:
        """Return the stiffness of the contacts."""
        _, dofs, blocks = self.contact(q, np.zeros(1), np.zeros(1), want=True)
        return Blocks.of(self.state.system.pattern.unknown, dofs, blocks) if len(blocks) else None

    def measure(self, q: Floats, measures: dict[str, Any]) -> None:
        """Add energy, overlap, number and forces of contacts."""
        force = np.zeros_like(q)
        (energy, _, overlap, count), _, _ = self.contact(q, np.zeros_like(q), force)
        add_contact(measures, energy, overlap, count, force[: self.state.system.turns].reshape(-1, 3))


def add_contact(measures: dict[str, Any], energy: float, overlap: float, count: int, force: Floats) -> None:
    """Add a kind of contact to the measures of a step; `force` (n, 3) [N]."""
    measures["contact"] = measures.get("contact", 0.0) + energy
    measures["penetration"] = max(measures.get("penetration", 0.0), overlap)
    measures["contacts"] = measures.get("contacts", 0) + count
    measures["contact_forces"] = measures.get("contact_forces", 0.0) + force


@dataclass
class UserForce(Term):
    """A user's function (time, positions (n, 3), velocities (n, 3)) -> force (n, 3) [, jacobian (3 n, 3 n)].

    The Jacobian is of the force to the positions, with the velocity (x - x0) / h; dense or sparse. Without it the
    force is followed by the Newton iteration alone. `time` [s] is that at the end of the increment.
    """

    function: Callable[..., Any]
    time: float
    kind = USER

    def _call(self, q: Floats) -> tuple[Floats, Any]:
        turns = self.state.system.turns
        x = q[:turns].reshape(-1, 3)
        velocity = (q - self.state.q)[:turns].reshape(-1, 3) / self.step if self.step > 0 else np.zeros_like(x)
        answer = self.function(self.time, x.copy(), velocity)
        force, jacobian = answer if isinstance(answer, tuple) else (answer, None)
        force = np.asarray(force, dtype=float)
        if force.shape != x.shape or not np.isfinite(force).all():
            raise InputError(
                f"forces: {getattr(self.function, '__name__', 'the function')} returned shape "
                f"{force.shape}; finite forces of shape {x.shape} [N] needed"
            )
        return force, jacobian

    def add_force(self, q: Floats, residual: Floats) -> tuple[float, float]:
        """Add minus the user's force."""
        force, _ = self._call(q)
        residual[: force.size] -= force.ravel()
        return 0.0, float(np.abs(force).max(initial=0.0))

    def add_stiffness(self, q: Floats, values: Floats) -> Blocks | None:
        """Return minus the user's Jacobian, if there is one."""
        _, jacobian = self._call(q)
        if jacobian is None:
            return None
        entries = coo_matrix(jacobian)
        pairs = np.zeros((entries.nnz, 2, 2))
        pairs[:, 0, 1] = -entries.data
        return Blocks.of(self.state.system.pattern.unknown, np.stack([entries.row, entries.col], axis=1), pairs)
