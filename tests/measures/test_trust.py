"""What a result says about itself: every sentence where it is due, none where it is not, the same from a file."""

from __future__ import annotations

import csv
import re
import warnings
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path

import meshio
import numpy as np
import pytest
import trimesh
from bending import bar_robot
from click.testing import CliRunner
from shapes import block, shell

import geosim
from geosim import (
    Cable,
    CableLengths,
    CableTensions,
    EnergyShapeSolver,
    Environment,
    Inflation,
    InputError,
    Load,
    NeoHookean,
    Obstacle,
    Passive,
    Prescribed,
    Result,
    Select,
    Status,
    VolumetricRobot,
)
from geosim.cli import main
from geosim.errors import GeosimWarning
from geosim.geometry import topology
from geosim.geometry.quality import one_tet_thick
from geosim.measures import strain, trust
from geosim.model.actuation import unlikely_lengths
from geosim.model.contract import Frame, Report
from geosim.result import collect
from geosim.shape.energy.problem import make_problem
from geosim.show.page import _data

RUBBER = NeoHookean(mu=35e3)
P1, ALONE = EnergyShapeSolver(element="p1"), Environment(self_contact=False)


def bar(cells=(4, 1, 1), material=RUBBER, **given):
    vertices, tets = block((0.04, 0.01, 0.01), cells)
    end = vertices[:, 0] > 0.04 - 1e-9
    return VolumetricRobot.from_tets(vertices, tets, material=material, fixed=vertices[:, 0] < 1e-9, tip=end, **given)


def hollow_box(cells, wall, fixed=None):
    """A cube of 20 mm whose walls are so many of its cells thick."""
    vertices, tets = block((0.02, 0.02, 0.02), (cells,) * 3)
    at = vertices[tets].mean(axis=1) / 0.02 * cells
    inside = ((at > wall) & (at < cells - wall)).all(axis=1)
    return VolumetricRobot.from_tets(vertices, tets, inside.astype(int), material="ecoflex-00-30-fang2022", fixed=fixed)


def shown(robot, *frames, **given) -> Result:
    times = np.arange(1.0, len(frames) + 1.0)
    return Result(Status.CONVERGED, Status.CONVERGED.value, True, times, np.array(frames), robot, **given)


class Still:
    """A state that shows a frame."""

    is_frame = True

    def __init__(self, robot, **measures):
        self.robot, self.frame = robot, Frame(robot.vertices, **measures)


def test_nothing_is_said_where_nothing_is_to_be_said(tmp_path):
    robot = bar()
    result = geosim.solve(robot, Passive(), Environment(loads=Load.force(robot.tip, (0, 0, -1e-3))))
    assert result.trust() == ()
    assert result.message == Status.CONVERGED.value
    assert "trust" not in result.save(tmp_path / "s.csv").read_text(encoding="utf-8")


# ---- elements inside out


def test_a_tet_of_another_orientation_is_inside_out_and_its_place_is_named():
    """One node moved through the opposite face: J = -1 in its tet; a curved edge pulled through is inside out at its corners."""
    robot = bar()
    assert strain.jacobians(robot, topology.with_mid_edges(robot.vertices, robot.p2_edges)) == pytest.approx(1.0)
    x = robot.vertices.copy()
    tet = robot.body_tets[0]
    foot = x[tet[1:]].mean(axis=0)
    x[tet[0]] = 2.0 * foot - x[tet[0]]
    assert strain.jacobians(robot, topology.with_mid_edges(x, robot.p2_edges))[0] == pytest.approx(-1.0)
    nodes = topology.with_mid_edges(robot.vertices, robot.p2_edges)
    edge = robot.p2_tets[0, 4]
    nodes[edge] += 2.0 * (robot.vertices[tet[2:]].mean(axis=0) - nodes[edge])
    found = strain.jacobians(robot, nodes)
    # det of a quadratic map by differences, at the same ten places
    corners = np.eye(4)
    points, h = np.vstack([corners, corners[topology.TET_EDGES].mean(axis=1)]), 1e-6
    ways = topology.tet_gradients(robot.vertices, robot.body_tets)[0] @ np.eye(3)
    at = lambda p: topology.p2_shape(p, topology.TET_EDGES) @ nodes[robot.p2_tets[0]]  # noqa: E731
    F = np.stack([(at(points + h * ways[:, i]) - at(points - h * ways[:, i])) / (2 * h) for i in range(3)], axis=2)
    assert found[0] == pytest.approx(np.linalg.det(F).min(), rel=1e-6)
    assert found[0] < 0.0


@pytest.mark.parametrize("own", [0.0, 2.0])
def test_inside_out_where_the_energy_is_taken_is_a_status_elsewhere_a_count(own):
    robot = bar()
    states = [Still(robot, inverted_elements=3.0, extra={"inverted_points": own})]
    result = collect(robot, Environment(), EnergyShapeSolver(), states, [Report(Status.CONVERGED)])
    assert result.status is (Status.INVERTED if own else Status.CONVERGED)
    assert result.converged  # every command was reached, with its forces in balance
    assert f"In frame 0 {own or 3.0:.0f} of 24 elements are inside out" in result.trust()[0]
    assert result.trust()[0] in result.message
    assert ("Every command was reached, but" in result.message) == (own > 0)
    assert " mm at rest" in result.message
    missed = collect(robot, Environment(), None, states, [Report(Status.CONVERGED), Report(Status.INVERTED, "lost")])
    assert not missed.converged


def test_points_of_the_solvers_own_element_are_told_from_its_corners():
    """A mid-edge node pulled in turns corners over, and then points where the energy is taken; of P1 its domains count."""
    problem = make_problem(bar(), Environment(), 2, "superlu", isochoric=True)
    tet = problem.mesh.tets[0]
    corners_only, both = problem.rest.copy(), problem.rest.copy()
    way = problem.rest[tet[:4]].mean(axis=0) - problem.rest[tet[4]]
    corners_only[tet[4]] += way
    both[tet[4]] += 2.0 * way
    assert problem.inverted_points(problem.rest) == problem.inverted(problem.rest) == 0
    assert problem.inverted(corners_only) > problem.inverted_points(corners_only) == 0
    assert problem.inverted_points(both) > 0
    vertices, tets = block((0.01, 0.01, 0.02), (2, 2, 4), skew=0.2)
    robot = VolumetricRobot.from_tets(vertices, tets, material=RUBBER, fixed=None)
    flat = make_problem(robot, Environment(), 1, "superlu", isochoric=True)
    x = flat.rest.copy()
    node = int(np.argmin(np.linalg.norm(x - x.mean(axis=0), axis=1)))
    mine = int(np.argmin(np.where((flat.mesh.tets == node).any(axis=1), flat.mesh.volumes, np.inf)))
    height = flat.mesh.barycentric[mine, list(flat.mesh.tets[mine]).index(node)]
    x[node] -= 1.05 * height / (height @ height)
    assert flat.inverted(x) > flat.inverted_points(x) == 0
    x[node] -= 5.0 * height / (height @ height)
    assert flat.inverted_points(x) > 0


# ---- linear elements


def test_a_free_body_of_linear_elements_stretches_as_a_held_one():
    """A box inflated to V/V0 = 1.3: turned back, its edges are straight but for rounding; it stretched by 1.137 for 1.073."""
    free, held = (
        geosim.solve(hollow_box(4, 1, fixed), Inflation(volume_ratio=1.3), ALONE, solver=P1)
        for fixed in (None, Select.plane("x", below=1e-6))
    )
    assert free.max_stretch[0] == pytest.approx(held.max_stretch[0], rel=0.03)
    assert free.max_von_mises[0] == pytest.approx(held.max_von_mises[0], rel=0.2)


def test_straight_edges_stay_straight_where_a_body_is_turned():
    """Deformations of linear tets, the means round their edges, turn with them, whatever rounding leaves of their middles."""
    robot = hollow_box(4, 1)
    rng = np.random.default_rng(0)
    nodes = topology.with_mid_edges(robot.vertices + 1e-3 * rng.standard_normal(robot.vertices.shape), robot.p2_edges)
    Q, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    Q *= np.sign(np.linalg.det(Q))
    F = strain.deformations(robot, nodes)
    np.testing.assert_allclose(strain.deformations(robot, nodes @ Q.T), Q @ F, atol=1e-9 * np.abs(F).max())


def test_walls_that_are_one_tet_thick_are_found_and_named():
    """All but the edges of a box, 16 of 24 faces a side; none of a box whose walls are two cells, or of a solid bar."""
    thin, thick = hollow_box(4, 1), hollow_box(6, 2)
    share = lambda r: one_tet_thick(  # noqa: E731
        r.vertices, r.body_tets, np.vstack([r.skin, *(w[:, ::-1] for w in r.chamber_walls)])
    )[0]
    assert 0.4 < share(thin) < 0.9
    assert share(thick) == 0.0
    solved = geosim.solve(thin, Inflation(volume_ratio=1.1), ALONE, solver=P1)
    (said,) = solved.trust()
    assert "Walls are one tet thick" in said
    assert said in solved.message
    assert not geosim.solve(thin, Inflation(volume_ratio=1.1), ALONE).trust()


@pytest.mark.parametrize("cells", [(10, 3, 1), (16, 4, 2)])
def test_a_plate_of_one_tet_bends_too_little_and_says_so(cells):
    """Of one layer a P1 plate goes .43 of the way of P2, of two .86; the second is not named."""
    vertices, tets = block((0.04, 0.01, 0.002), cells)
    robot = VolumetricRobot.from_tets(
        vertices, tets, material=RUBBER, fixed=vertices[:, 0] < 1e-9, tip=vertices[:, 0] > 0.04 - 1e-9
    )
    load = Environment(loads=Load.force(robot.tip, (0, 0, -2e-5)), self_contact=False)
    flat, curved = (geosim.solve(robot, Passive(), load, solver=EnergyShapeSolver(element=e)) for e in ("p1", "p2"))
    rest = robot.tip_weights @ robot.vertices[robot.tip]
    ratio = (flat.tip[0] - rest)[2] / (curved.tip[0] - rest)[2]
    assert (0.3 < ratio < 0.67) if cells[2] == 1 else ratio > 0.75
    assert len(flat.trust()) == (cells[2] == 1)
    assert curved.trust() == ()


# ---- stretch, errors, previews, contact, stability


def test_a_stretch_in_any_frame_is_held_against_what_the_material_is_known_to():
    """Also where the constants are those of a preset: that is what a file keeps."""
    robot = bar(material=geosim.MooneyRivlin(c1=41.8e3, c2=10.6e3))
    far = robot.vertices * [2.5, 2.5**-0.5, 2.5**-0.5]
    assert "2.5, is beyond 2, to which" in shown(robot, far, robot.vertices).trust()[0]
    assert shown(bar(), far).trust() == ()


def test_beyond_its_test_the_spread_of_the_laws_is_said():
    """Two laws of weight 1/2, 20 % stiffer everywhere: 1.96 x 0.2 of the stress; a material without others says nothing."""
    law = geosim.MooneyRivlin(c1=40e3, c2=10e3)
    others = ((0.5, law.stiffened(1.2)), (0.5, law.stiffened(1.2)))
    for known, said in ((others, "differ by 39 % of the stress in a pull, 39 % both ways"), ((), "of the body is.")):
        robot = bar(material=law.known_as("a test", 2.0, 0.1, 0.0, known))
        far = robot.vertices * [2.5, 2.5**-0.5, 2.5**-0.5]
        assert said in shown(robot, far).trust()[0]


def test_an_error_bar_of_the_mesh_above_a_tenth_is_said():
    robot = bar()
    moved = robot.vertices + [0.0, 0.0, 0.01]
    bars = lambda error: shown(  # noqa: E731
        robot, moved, tip=[moved[robot.tip].mean(axis=0)], extra={"tip_error_mesh": np.array([error])}
    ).trust()
    (said,) = bars(1.5e-3)
    assert "1.5 mm in the tip of frame 0, 15 % of its change since rest" in said
    assert bars(0.9e-3) == ()


@pytest.mark.slow
def test_previews_say_so(tmp_path):
    """Also when they are read from the file of a result; a robot that is meshed again as fine as asked is none."""
    first = VolumetricRobot.from_surfaces(
        trimesh.creation.box((0.02, 0.01, 0.01)), material=RUBBER, fixed=Select.plane("x", below=-0.0099), preview=True
    )
    assert first.preview
    assert not first.remesh(max_edge=5e-3).preview
    assert geosim.load_result(shown(first, first.vertices).save(tmp_path / "p.npz")).robot.preview
    assert "preview" in shown(first, first.vertices).trust()[0]
    assert (
        "pressures 25 % and more where one tet fills a wall"
        in shown(bar(), bar().vertices, solver=geosim.ProjectiveShapeSolver()).trust()[0]
    )


@pytest.mark.slow
def test_contact_that_begins_at_a_good_part_of_the_gap_is_said():
    """Two bars 1 mm apart, pressed together: the thickness, .05 of edges of 12 mm, is more than half, and a quarter at most."""
    vertices, tets = block((0.04, 0.01, 0.01), (4, 1, 1))
    both = np.vstack([vertices, vertices + [0, 0, 0.011]])
    robot = VolumetricRobot.from_tets(
        both,
        np.vstack([tets, tets + len(vertices)]),
        material=RUBBER,
        fixed=both[:, 0] < 1e-9,
        tip=both[:, 0] > 0.04 - 1e-9,
    )
    top = np.flatnonzero(both[:, 2] > 0.0209)
    push = Environment(loads=Load.force(top, (0, 0, -0.2)))
    touching = geosim.solve(robot, Passive(), push)
    assert touching.contact_count[0] > 0
    assert touching.extra["contact_of_gap"][0] == pytest.approx(0.22, abs=0.03)
    assert "% of the gap at rest" in touching.trust()[-1]
    finer = geosim.solve(robot, Passive(), push, solver=EnergyShapeSolver(contact_thickness=0.005))
    assert finer.extra["contact_of_gap"][0] < 0.1
    assert not any("gap" in said for said in finer.trust())


def test_stability_that_is_not_known_is_said_and_survives_a_file(tmp_path):
    robot = bar((4, 2, 2))
    down = Environment(loads=Load.force(robot.tip, (0, 0, -1e-3)), self_contact=False)
    result = geosim.solve(robot, Passive(), down, solver=EnergyShapeSolver(factoriser="multilevel"))
    assert np.isnan(result.stable).all()
    (said,) = result.trust()
    assert "Stability is not known in frame 0" in said
    assert said in result.message
    loaded = geosim.load_result(result.save(tmp_path / "r.npz"))
    assert loaded.trust() == result.trust()
    assert said in result.save(tmp_path / "s.csv").read_text(encoding="utf-8")
    assert _data(result)["trust"] == [said]
    assert said not in _data(result)["message"]
    unasked = EnergyShapeSolver(factoriser="multilevel", check_stability=False)
    assert geosim.solve(robot, Passive(), down, solver=unasked).trust() == ()


def test_where_the_path_was_left_stands_in_the_trace_and_in_its_file(tmp_path):
    record = {"command": 1, "left": {"share": 0.345, "load": " (5 kPa, V/V0 = 1.2)", "far": True, "times": 3}}
    result = shown(bar(), bar().vertices, trace=(record,), actuation=Passive())
    (said,) = result.trust()
    assert (
        "snapped to another state in command 2, 34.5 % of the way there (5 kPa, V/V0 = 1.2) (and 2 times more)" in said
    )
    assert "Another shape may exist" in said
    assert geosim.load_result(result.save(tmp_path / "r.npz")).trust() == (said,)


def test_an_indefinite_tangent_on_the_way_is_said():
    """A column shortened far beyond its buckling load stays straight; pulled, it meets none."""
    vertices, tets = block((0.1, 0.01, 0.01), (10, 1, 1))
    robot = VolumetricRobot.from_tets(
        vertices, tets, material=RUBBER, fixed=vertices[:, 0] < 1e-9, tip=vertices[:, 0] > 0.1 - 1e-9
    )
    moved = lambda way: Environment(prescribed=Prescribed(robot.tip, (way, 0, 0)), self_contact=False)  # noqa: E731
    pressed = geosim.solve(robot, Passive(), moved(-0.02), throw=False)
    assert "The path met an indefinite tangent in command 1" in pressed.trust()[-1]
    assert pressed.trust()[-1] in pressed.message
    assert geosim.solve(robot, Passive(), moved(0.02)).trust() == ()


# ---- what does nothing


def test_a_force_on_what_is_held_is_refused():
    robot = bar()
    down = lambda ids: Environment(loads=Load.force(ids, (0, 0, -1e-2)))  # noqa: E731
    with pytest.raises(InputError, match="load 1: every vertex that it acts on is held"):
        geosim.solve(robot, Passive(), down(robot.fixed))
    still = Prescribed(robot.tip, (np.nan, np.nan, 0.001))
    with pytest.raises(InputError, match="does nothing"):
        geosim.solve(robot, Passive(), replace(down(robot.tip), prescribed=still))
    aside = replace(down(robot.tip), prescribed=Prescribed(robot.tip, (0.001, np.nan, np.nan)))
    assert geosim.solve(robot, Passive(), aside).converged


def test_a_body_that_is_held_everywhere_is_said():
    vertices, tets = block((0.04, 0.01, 0.01), (4, 1, 1))
    held = VolumetricRobot.from_tets(vertices, tets, material=RUBBER, fixed=range(len(vertices)), tip=[0])
    result = geosim.solve(held, Passive(), Environment(gravity=(0, 0, -9.81)), solver=P1)
    assert np.array_equal(result.frames[-1], vertices)
    (said,) = result.trust()
    assert said.startswith("Every vertex of the body is held")
    assert "check `fixed` and its unit" in said
    assert any("every vertex of the body is held" in notice for notice in held.notices)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (Inflation(pressure=[np.nan]), ("nan alone", "vented", "gauge pressure is 0")),
        (Inflation(volume_ratio=[200]), ("volume_ratio = 200", "V/V0", "volume_ratio = 2.")),
        (Inflation(pressure=[np.nan, 1e3]), ()),
        (CableTensions([np.nan]), ("CableTensions holds nan alone", "slack")),
        (CableTensions([np.nan, 1.0]), ()),
        (Inflation(gas=True), ()),
    ],
)
def test_commands_that_may_mean_something_else_are_said(command, words):
    robot = hollow_box(4, 1)
    said = replace(shown(robot, robot.vertices), actuation=command).trust()
    assert len(said) == bool(words)
    assert all(word in said[0] for word in words)


def test_a_tip_that_is_nearly_the_whole_body_is_said():
    """A plane before the body selects all of it; one before its end is not mentioned."""
    vertices, tets = block((0.04, 0.01, 0.01), (8, 2, 2))
    made = lambda above: VolumetricRobot.from_tets(  # noqa: E731
        vertices, tets, material=RUBBER, fixed=Select.plane("x", below=1e-9), tip=Select.plane("x", above=above)
    )
    (notice,) = made(-1.0).notices
    assert "`tip` selects 81 of 81 vertices" in notice
    assert "check `tip` and its unit" in notice
    assert made(0.039).notices == ()


def test_an_obstacle_of_another_unit_is_warned_of():
    """A ball of 10 mm written as 10 m is 250 times as large as the bar; a floor of 10 m beside it is none."""
    ball = Obstacle.sphere((0, 0, -11.0), 10.0)
    with pytest.warns(
        GeosimWarning, match=r"obstacles\[0\]: the sphere is .* times as thick as the robot .*check its unit"
    ):
        geosim.solve(bar(), Passive(), Environment(obstacles=ball), solver=P1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", GeosimWarning)
        floor = Obstacle.box((-5, -5, -0.2), (5, 5, -0.1))
        geosim.solve(bar(), Passive(), Environment(obstacles=floor), solver=P1)


@pytest.mark.parametrize("length", [99.0, 99e-6])
def test_a_cable_pulled_to_a_length_of_another_unit_is_warned_of(length):
    """0.1 m at rest, pulled to 99 mm that is read as m, and to 99 um; half of its length says nothing."""
    robot = bar_robot(cables=[Cable([(0.0, 0.01, 0.01), (0.1, 0.01, 0.01)])])
    (said,) = unlikely_lengths(CableLengths([0.05, length]), robot.cables)
    assert f"cable 1 is 0.1 m long at rest and pulled to {length:.3g} m; check the unit" in said
    assert unlikely_lengths(CableLengths([0.05, np.nan]), robot.cables) == unlikely_lengths(Passive(), ()) == []
    if length > 1.0:
        with pytest.warns(GeosimWarning, match="cable 1 is 0.1 m long at rest"):
            geosim.solve(robot, CableLengths([length]), solver=P1)


def test_an_obstacle_that_touches_only_what_is_held_is_named():
    robot = bar()
    ball = Obstacle.sphere((-0.0031, 0.005, 0.005), 0.003, motion=[[0.002, 0, 0]])
    (said,) = geosim.solve(robot, Passive(), Environment(obstacles=ball)).trust()
    assert said.startswith("Obstacle 1 (sphere) goes ")
    assert "it does nothing" in said
    away = Obstacle.sphere((-0.02, 0.005, 0.005), 0.003)
    assert geosim.solve(robot, Passive(), Environment(obstacles=away)).trust() == ()


# ---- how a solve ended, and who quotes


@pytest.mark.parametrize("status", [s for s in Status if s not in (Status.CONVERGED, Status.INVERTED)])
def test_the_first_sentence_is_that_of_the_status(status):
    result = replace(shown(replace(bar(), preview=True), bar().vertices), status=status, converged=False)
    assert result.trust()[0].startswith(f"{status.name}: ")
    assert len(result.trust()) == 2


def test_sentences_are_taken_out_of_a_message_once():
    assert trust.without("One. Two. Three.", ("Two.",)) == "One. Three."


def test_table_summary_picture_and_page_quote_them(tmp_path):
    """The table of the command line ends with them; the last row of summary.csv holds them."""
    vertices, tets, regions = shell(0.01, 0.02, 1, 1)
    file = tmp_path / "robot.toml"
    file.write_text(
        'kind = "volumetric"\nunits = "m"\nfixed = "none"\n[body]\nmesh = "ball.vtu"\nmaterial = "ecoflex-00-30-fang2022"\n'
        '[solver]\nelement = "p1"\n'
    )
    meshio.Mesh(vertices, [("tetra", tets)], cell_data={"region": [regions]}).write(tmp_path / "ball.vtu")
    done = CliRunner().invoke(main, ["solve", str(file), "--volume-ratio", "1.02,1.1", "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    said = geosim.load_result(tmp_path / "out" / "result.npz").trust()
    assert len(said) == 1
    lines = done.output.splitlines()
    ends = next(i for i, line in enumerate(lines) if line.startswith("CONVERGED, 1 doubt"))
    assert lines[ends - 1] == said[0]
    assert said[0] not in lines[ends]
    rows = list(csv.DictReader((tmp_path / "out" / "summary.csv").open()))
    assert [row["trust"] for row in rows] == ["", said[0]]
    assert said[0][:40] in (tmp_path / "out" / "view.html").read_text(encoding="utf-8")


# ---- the default tip


@pytest.mark.parametrize("size", [(0.04, 0.012, 0.012), (0.012, 0.012, 0.012), (0.01, 0.03, 0.02)])
def test_the_default_tip_of_a_box_is_its_far_face(size):
    """Of an unstructured mesh, whose corners alone are farthest in a straight line: their mean lay off the axis."""
    box = trimesh.creation.box(size)
    box.apply_translation(np.array(size) / 2)
    robot = VolumetricRobot.from_surfaces(
        box, material=RUBBER, fixed=Select.plane("x", below=1e-6), max_edge=max(size) / 6
    )
    far = np.flatnonzero(robot.body_vertices & (robot.vertices[:, 0] > size[0] - 1e-9))
    np.testing.assert_array_equal(robot.tip, far)
    np.testing.assert_allclose(
        robot.tip_weights @ robot.vertices[robot.tip], [size[0], size[1] / 2, size[2] / 2], atol=1e-9
    )


def test_a_body_that_is_held_all_around_or_nowhere_keeps_the_farthest_vertices():
    vertices, tets = block((0.02, 0.02, 0.004), (4, 4, 1))
    rim = np.abs(vertices[:, :2] - 0.01).max(axis=1) > 0.0099
    for fixed in (rim, None):
        robot = VolumetricRobot.from_tets(vertices, tets, material=RUBBER, fixed=fixed)
        np.testing.assert_allclose(vertices[robot.tip].mean(axis=0)[:2], 0.01, atol=1e-6)


# ---- the page


def test_the_page_of_promises_names_every_field_and_tests_that_exist():
    root = Path(__file__).resolve().parents[2]
    page = (root / "docs" / "promises.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)`", page))
    assert {f.name for f in fields(Result)} <= named
    measures = {name for name, value in vars(Result).items() if isinstance(value, cached_property) and name[0] != "_"}
    assert measures - {"gauges", "spine"} <= named
    for file, test in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page):
        assert f"def {test}(" in (root / file).read_text(encoding="utf-8"), f"{file}::{test}"


def test_pressures_of_two_signs_on_two_chambers_are_said_to_be_two_commands():
    """One value for each chamber is a row; a path of one sign, or a row, is left alone."""
    vertices, tets = block((0.035, 0.015, 0.015), (7, 3, 3))
    at = (vertices[tets].mean(axis=1) / 0.005).astype(int)
    inner = (at[:, 1] == 1) & (at[:, 2] == 1)
    regions = np.where(inner & (at[:, 0] == 2), 1, np.where(inner & (at[:, 0] == 4), 2, 0))
    robot = VolumetricRobot.from_tets(vertices, tets, regions, material=RUBBER, fixed=vertices[:, 0] < 1e-9)

    def said(pressure):
        doubts = geosim.solve(robot, Inflation(pressure=pressure), ALONE, solver=P1).trust()
        return [d for d in doubts if d.startswith("Inflation")]

    (sentence,) = said([700.0, -300.0])
    assert "2 commands for all 2 chambers alike" in sentence
    assert "[[700, -300]]" in sentence
    assert not said([[700.0, -300.0]])
    assert not said([300.0, 700.0])


@pytest.mark.parametrize(("pressure", "is_said"), [(20.0, True), (2e3, False)])
def test_pressures_under_which_nothing_moves_may_be_of_another_unit(pressure, is_said):
    found = geosim.solve(hollow_box(4, 1, fixed=lambda x: x[:, 0] < 1e-9), Inflation(pressure=pressure))
    assert any("20 kPa" in note for note in found.trust()) == is_said
