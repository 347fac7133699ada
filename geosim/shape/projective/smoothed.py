"""Energy and pressures of a shape, with the strain smoothed around edges.

One strain for a whole tet, and what keeps single tets from flattening, make the energy E that is minimised too large, and with it
its slopes: the pressure of a slot that opens to five times its volume by 44 %. The shape itself is within a percent of the size
from where it should be, and the energy of the same material with F averaged over the tets e around an edge k,

    E_s = sum_k V_k W(F_k),    F_k = sum_e V_e F_e / sum_e V_e,    V_k = sum_e V_e / 6,

W isochoric (ES-FEM-T4 [Liu and Nguyen-Thoi 2010, Smoothed Finite Element Methods]), has slopes within some percent. So E_s is
what is reported, and as pressure of a driven chamber its slope on the way that the shape takes when that chamber grows alone,

    p_c = dE / dV_c + (dE_s/dx - dE_el/dx) . dx / dV_c,

E_el the part of E that the body has. What E_el stores in changes of volume counts as far as all materials have a bulk modulus.
Where strings act all stays as it is: a tension that is prescribed is balanced by E, and one that is found is to be the same.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from geosim.arrays import Floats, cofactors
from geosim.linear.factorise import FactorisationError
from geosim.material.tensors import table
from geosim.model.contract import Frame
from geosim.model.robot import VolumetricRobot
from geosim.shape.projective.elements import ElementEvaluation, Elements
from geosim.shape.projective.kernels import stresses
from geosim.shape.projective.mesh import Work
from geosim.shape.projective.stiffness import MaterialMatrix

__all__ = ["smoothed"]

RESPONSE_ERROR_REL = 1e-4  # of dx / dV, in the energy: the pressure's own accuracy is some percent


def smoothed(work: Work, x: Floats, evaluation: ElementEvaluation, frame: Frame) -> Frame:
    """Return the frame of a balance with energy and chamber pressures of the smoothed strain.

    As it is, with `extra["own_pressures"]` 1 for 0, where strings act, where the targets have no energy, where a smoothed
    strain is inside out or the matrix cannot be factorised.
    """
    elements = work.elements
    kept = replace(frame, extra={**frame.extra, "own_pressures": 1.0})
    if elements.lines is not None or elements.patches is None or elements.cells.targets != "total":
        return kept
    body = _smoothed_body(work.robot, elements, x)
    if body is None:
        return kept
    energy, force = body
    matrix = work.matrix
    if not isinstance(matrix, MaterialMatrix):
        matrix = MaterialMatrix(elements, matrix.free)
    try:
        matrix.follow(x, -evaluation.pressures, fall=np.inf)
        moves, grown = matrix.responses(RESPONSE_ERROR_REL)
    except FactorisationError:
        return kept
    pressures = np.array(frame.chamber_pressures)
    more = np.einsum("cni,ni->c", moves, (force - evaluation.pull)[matrix.free])
    pressures[np.isfinite(elements.compliances)] += np.linalg.lstsq(grown.T, more)[0]  # walls may all be held
    extra = {**frame.extra, "own_pressures": 0.0}
    return replace(frame, energies=energy, chamber_pressures=pressures, extra=extra)


def _smoothed_body(robot: VolumetricRobot, elements: Elements, x: Floats) -> tuple[float, Floats] | None:
    """E_s [J] and its gradient [N] (n, 3); None where a smoothed strain is inside out."""
    body, patches = elements.body, elements.patches
    assert patches is not None
    materials = list(robot.materials.values())
    edges = robot.p2_tets[:, 4:] * len(materials) + body.which[:, None]  # domains end where materials do
    found, domain = np.unique(edges, return_inverse=True)
    domain = domain.reshape(edges.shape)
    F = np.einsum("eai,eaj->eij", x[body.tets], body.gradients)
    parts = np.repeat(body.volumes / 6.0, 6)
    volumes = np.bincount(domain.ravel(), parts)
    mean = np.empty((len(found), 3, 3))
    for i in range(3):
        for j in range(3):
            mean[:, i, j] = np.bincount(domain.ravel(), parts * np.repeat(F[:, i, j], 6)) / volumes
    P, density = np.empty_like(mean), np.empty(len(found))
    if not stresses(mean, found % len(materials), table(materials, 1.0), P, density):
        return None
    energy, pull = float(volumes @ density), P[domain].mean(axis=1)
    moduli = np.array([material.bulk_modulus for material in materials])[body.which]
    if share := float((body.bulk / moduli).min()):  # one for all: only then is the force a gradient
        J, pressures, _ = elements.press(x)
        pressure = share * pressures[body.tets].mean(axis=1)
        pull += pressure[:, None, None] * cofactors(F)
        energy += 0.5 * float(np.sum(body.volumes * pressure * (J - 1.0)))
    corners = np.einsum("e,eij,eaj->eai", body.volumes, pull, body.gradients)
    ids = body.tets.ravel()
    force = np.stack([np.bincount(ids, corners[:, :, i].ravel(), elements.count) for i in range(3)], axis=1)
    return energy, force.astype(float)
