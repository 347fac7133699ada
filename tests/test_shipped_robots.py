"""Robots in meshes/: their measures, and that the generators refuse what cannot be."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import geosim
from geosim.errors import InputError
from geosim.geometry.parametric import membrane_over_chambers
from geosim.geometry.surface import check_surface

MESHES = Path(__file__).resolve().parents[1] / "meshes"


@cache
def robot(name):
    return geosim.load_robot(MESHES / name / "robot.toml")


def test_the_membrane_lies_over_four_pads():
    r = robot("membrane")
    labels = r.body_labels
    assert labels.max() + 1 == 5, "five bodies, none of which touches another"
    sheet = r.vertices[labels == labels[np.argmax(r.vertices[:, 2])]]
    assert np.allclose(np.ptp(sheet, axis=0), (0.25, 0.25, 0.004))
    pads = r.vertices[(labels >= 0) & (labels != labels[np.argmax(r.vertices[:, 2])])]
    assert pads[:, 2].max() < sheet[:, 2].min() - 0.9e-3
    assert np.allclose(r.chamber_volumes, 90 * 90 * 5e-9)
    centres = [r.vertices[np.unique(wall)][:, :2].mean(axis=0) for wall in r.chamber_walls]
    assert np.array_equal(np.sign(centres), [(-1, -1), (-1, 1), (1, -1), (1, 1)])
    held = r.vertices[r.fixed]
    rim = np.isclose(np.abs(held[:, :2]).max(axis=1), 0.125)
    assert np.array_equal(rim, held[:, 2] > 0.010), "the membrane's rim, and the ground of the pads"
    assert np.allclose(held[~rim, 2], 0.0, atol=1e-9)
    assert 33_000 < len(r.tets) < 38_000


@pytest.mark.parametrize("shape", [membrane_over_chambers()])
def test_surfaces_need_no_repair(shape):
    bodies, chambers = shape[:2]
    for surface in (*(bodies if isinstance(bodies, list) else [bodies]), *chambers):
        assert check_surface(surface).notices == ()


@pytest.mark.parametrize("make", [lambda: membrane_over_chambers(pad=0.08), lambda: membrane_over_chambers(size=0.2),
                                  lambda: membrane_over_chambers(gap=0.0)])
def test_what_does_not_fit_is_refused(make):
    with pytest.raises(InputError):
        make()
