"""A mesh follows its surfaces: exactly on them, and without a crushed tet between them."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
import pytest

from geosim.errors import InputError
from geosim.generate import pneunet
from geosim.geometry import topology
from geosim.geometry.surface_map import surface_map, untangled


@pytest.fixture(scope="module")
def finger():
    design = pneunet(chambers=1)
    return design, design.robot(max_edge=20e-3)


def moved(design, robot, other):
    places = surface_map(robot.vertices, robot.tets, robot.body_tets, (design.body, *design.chambers))
    pairs = zip((design.body, *design.chambers), (other.body, *other.chambers))
    return robot.vertices + places.carried([np.asarray(b.vertices) - np.asarray(a.vertices) for a, b in pairs])


def test_a_mesh_that_moves_with_its_surfaces_has_the_volumes_of_the_other_design(finger):
    design, robot = finger
    other = pneunet(chambers=1, wall=1.6e-3, height=20e-3)
    vertices = moved(design, robot, other)
    inside = sum(float(s.volume) for s in other.chambers)
    body = float(np.abs(topology.tet_volumes(vertices, robot.body_tets)).sum())
    assert body == pytest.approx(float(other.body.volume) - inside, rel=1e-6)


def test_a_robot_with_vertices_elsewhere_is_the_one_that_is_made_of_them(finger):
    """What follows from the tets alone is taken over, what follows from the vertices is not."""
    _, robot = finger
    derived = [name for name, kind in vars(type(robot)).items() if isinstance(kind, cached_property)]
    for name in derived:
        getattr(robot, name)  # known before
    x = robot.vertices * [1.0, 1.1, 1.2]
    found, made = robot.moved(x), replace(robot, vertices=x)
    for name in [*derived, "vertices", "tets", "regions", "size", "chamber_volumes"]:
        for one, other in zip(*(as_list(getattr(each, name)) for each in (found, made)), strict=True):
            np.testing.assert_array_equal(one, other, err_msg=name)
    assert found.skin is robot.skin
    with pytest.raises(InputError, match="zero volume"):
        robot.moved(robot.vertices * [1.0, 1.0, 0.0])


def as_list(value):
    return list(value) if isinstance(value, tuple) else [value]


def test_crushed_tets_are_untangled_without_a_change_of_the_shape():
    """Walls a fifth thinner turn tets of the coarsest mesh over; vertices that slide within their faces turn them back."""
    design = pneunet()
    robot = design.robot(preview=True)
    x = moved(design, robot, pneunet(wall=1.6e-3))
    faces = np.vstack([topology.boundary_faces(t) for t in (robot.tets, robot.body_tets)])
    volumes = topology.tet_volumes(robot.vertices, robot.tets)
    wanted = volumes * topology.tet_volumes(x, robot.tets).sum() / volumes.sum()
    assert (topology.tet_volumes(x, robot.tets) / wanted).min() < 0.0
    mended = untangled(x, robot.tets, faces, wanted, 0.2)
    assert (topology.tet_volumes(mended, robot.tets) / wanted).min() >= 0.2
    for tets in (robot.tets, robot.body_tets):
        before, after = (topology.tet_volumes(y, tets).sum() for y in (x, mended))
        assert after == pytest.approx(before, rel=1e-9)
