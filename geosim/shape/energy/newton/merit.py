"""The merit of a minimisation: the augmented Lagrangian of the potential, and which problems have one.

    L(x) = potential(x) + multipliers . c(x) + rho / 2 sum_i c_i(x)^2 / m_i

with c what incompressibility and prescribed scalars (chamber volumes, cable lengths) still miss, m the volume of a vertex or the
scalar at rest, and rho a few shear moduli [Nocedal & Wright 2006, section 17.3]. Its multipliers are those after the step: then
the derivative along a Newton step of a convex problem is negative.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from geosim.arrays import Floats
from geosim.shape.energy.problem import ShapeProblem
from geosim.shape.energy.states.configuration import ArcLengthConstraint, Configuration, Evaluation, LoadState

# Penalty rho, in shear moduli: of the order of the body's own stiffness, so that neither outweighs the other.
PENALTY_STIFFNESS = 10.0


def has_potential(problem: ShapeProblem, aim: ArcLengthConstraint) -> bool:
    """Whether all forces derive from a potential: no friction, closed gas, rigid group or free object.

    A rough obstacle that nothing touches has no friction yet (see `touches_rough`).
    """
    contact, grip = problem.contact, aim.contact_state
    rubs = contact is not None and (contact.rubs or (grip is not None and bool(grip.push.any())))
    return not (rubs or problem.constraints.rough or problem.groups or len(problem.objects.ids) or aim.end.closed)


def touches_rough(problem: ShapeProblem, found: Evaluation) -> bool:
    """Whether a rough obstacle presses on the body."""
    if problem.contact is None or found.contact is None or not problem.contact.rough:
        return False
    return bool(found.contact.push[problem.contact.obstacles.friction > 0.0].any())


def potential(target: LoadState, point: Configuration, found: Evaluation) -> float:
    """Return the potential energy at an equilibrium: of the body, of contact and of the dead loads.

    Its derivative by the share of a command is minus what is conjugate to the share (`ArcLengthConstraint.conjugate`), since the
    equilibrium itself makes it stationary.
    """
    contact = 0.0 if found.contact is None else found.contact.energy
    lifted = float(np.sum(target.external[: len(point.x)] * point.x))
    return found.energy + contact - lifted - float(np.where(target.by_value, 0.0, point.scalar_forces) @ found.scalars)


@dataclass(frozen=True)
class AugmentedLagrangian:
    """The augmented Lagrangian under a target, at the multipliers of a configuration."""

    problem: ShapeProblem
    target: LoadState
    multipliers: Configuration

    @property
    def _stiffness(self) -> float:
        """Penalty of one vertex: the mean volume of a vertex stands for m."""
        return PENALTY_STIFFNESS * len(self.multipliers.p) / self.problem.body_volume

    def _free(self, values: Floats) -> Floats:
        return np.where(self.problem.held[self.multipliers.x.size :], 0.0, values)

    def at(self, x: Floats, found: Evaluation) -> float:
        """Return the value at positions (nodes, 3)."""
        contact = 0.0 if found.contact is None else found.contact.energy
        value = found.energy + contact - float(np.sum(self.target.external[: len(x)] * x))
        value += float(self.multipliers.p @ found.constraint - self.multipliers.scalar_forces @ found.scalars)
        value += 0.5 * self._stiffness * float(np.sum(self._free(found.constraint) ** 2))
        full, pull = self._pulls(found)
        held = 0.5 * pull**2 + self.multipliers.scalar_forces * (pull - full)
        return value + float(np.sum(held * self.problem.constraints.rest_values)) / PENALTY_STIFFNESS

    def slope(self, found: Evaluation, step: Configuration, change: Floats) -> float:
        """Return the derivative along a step that changes the constraints of incompressibility by `change` (v,)."""
        volumes = np.einsum("cni,ni->c", found.gradients, step.x)
        value = float(np.sum(found.force * step.x)) + self._stiffness * float(self._free(found.constraint) @ change)
        return value - float(self._pulls(found)[1] @ volumes)

    def _pulls(self, found: Evaluation) -> tuple[Floats, Floats]:
        """Forces (d,) on what prescribed volumes and lengths still miss, and the same where a cable can only pull.

        With a multiplier p a cable that is too long by c pulls with max(0, p + rho c / m) [Nocedal & Wright 2006, eq. 17.57].
        """
        full = PENALTY_STIFFNESS * (self.target.scalars - found.scalars) / self.problem.constraints.rest_values
        full = np.where(self.target.by_value, full, 0.0)
        cable = self.target.by_value & self.problem.constraints.pulls
        return full, np.where(cable, np.maximum(full, -self.multipliers.scalar_forces), full)
