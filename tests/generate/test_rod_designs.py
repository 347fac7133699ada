"""Designs of rods: shapes and commands by closed forms, files that give the same robot, and refusals."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest
from click.testing import CliRunner

import geosim
from geosim import generate
from geosim.cli.commands import main
from geosim.errors import InputError
from geosim.files.actuation import load_actuation
from geosim.files.robot import load_problem

STATIC = geosim.RodShellStepper(static=True)
RUBBER = geosim.LinearElastic(2e6, 0.5, 1100.0)


def last_turn(frame, edges):
    """Angle between the first edge and the last of a chain [rad]."""
    e = np.diff(frame[: edges + 1], axis=0)
    return float(np.arccos(e[0] @ e[-1] / np.linalg.norm(e[0]) / np.linalg.norm(e[-1])))


@pytest.mark.parametrize("given", [{}, {"turns": 0.0, "cables": 4, "guides": 41, "radius": 4e-3, "offset": 10e-3}])
def test_the_tendons_of_an_arm_bend_it_by_a_right_angle(given):
    """T d L / (E I) of one tendon; half a turn of the tendons takes its moment round, so that the arm bends less."""
    design = generate.tendon_arm(**given)
    robot = design.robot(RUBBER)
    result = geosim.solve(robot, geosim.CableTensions(2e6 * design.pulls[-1:]), solver=STATIC)
    edges = design.parameters["edges"]
    assert last_turn(result.frames[-1], edges) / (0.5 * np.pi * (1 - 1 / edges)) == pytest.approx(1.0, abs=0.02)
    wound = generate.tendon_arm(**{**given, "turns": 0.5})
    turned = geosim.solve(wound.robot(RUBBER), geosim.CableTensions(2e6 * wound.pulls[-1:]), solver=STATIC)
    assert last_turn(turned.frames[-1], edges) < 0.8 * last_turn(result.frames[-1], edges)


def test_sections_end_their_tendons_and_taper_is_linear():
    design = generate.tendon_arm(sections=2, cables=3, guides=21, radius=6e-3, tip_radius=3e-3)
    ends = [cable.points[-1, 0] for cable in design.cables]
    assert ends == pytest.approx([0.1] * 3 + [0.2] * 3)
    x = design.vertices[:, 0]
    assert design.radius == pytest.approx(6e-3 - 3e-3 * 0.5 * (x[1:] + x[:-1]) / 0.2)
    pulled = geosim.CableTensions([[0.5, 0, 0, 0, 0, 0]])
    frame = geosim.solve(design.robot(RUBBER), pulled, solver=STATIC).frames[-1]
    e = np.diff(frame, axis=0)[21:]  # beyond the end of the first section the arm is straight
    assert np.cross(e[0], e[-1]) == pytest.approx(np.zeros(3), abs=1e-9)


def test_a_gripper_closes_alike_on_all_sides():
    """Tips at equal distances from the axis, nearer to it with every command, all at one height."""
    design = generate.rod_gripper(fingers=4)
    result = geosim.solve(design.robot(RUBBER), design.actuation(RUBBER), solver=STATIC)
    tips = result.frames[:, 20::21]
    away = np.hypot(tips[:, :, 0], tips[:, :, 1])
    assert np.ptp(away, axis=1).max() < 1e-7
    assert (np.diff(away[:, 0]) < 0).all()
    # the tip of an arc of curvature k and length s moves by (1 - cos k s) / k; half of the clamped edge does not bend
    curvature, arc = 2 * 0.8 * 30e-3 / 0.1**2, 0.1 - 2.5e-3
    assert away[-1, 0] == pytest.approx(30e-3 - (1 - np.cos(curvature * arc)) / curvature, abs=1e-4)


def test_a_filament_curls_to_its_helix():
    """Alone, without weight: curvature k and torsion t give the radius k / (k^2 + t^2) and the rise of a helix."""
    design = generate.entangler(filaments=2, turns=1.5, edges=60)
    robot = design.robot(RUBBER)
    alone = geosim.Environment(self_contact=False)
    result = geosim.solve(robot, design.actuation(RUBBER), alone, solver=geosim.RodShellStepper(static=True))
    kappa = 2 * np.pi * 1.5 / 0.3
    torsion = 0.3 * kappa
    for chain in (slice(0, 61), slice(61, 122)):
        e = np.diff(result.frames[-1, chain], axis=0)
        bent = np.arccos(np.clip((e[1:] * e[:-1]).sum(axis=1) / 0.005**2, -1, 1)) / 0.005
        assert bent[1:-1] == pytest.approx(np.full(57, kappa), rel=5e-3)
        binormal = np.cross(e[1:], e[:-1])
        binormal /= np.linalg.norm(binormal, axis=1, keepdims=True)
        turned = np.arccos(np.clip((binormal[1:] * binormal[:-1]).sum(axis=1), -1, 1)) / 0.005
        assert np.median(turned) == pytest.approx(torsion, rel=2e-2)


@pytest.mark.parametrize("name", generate.ROD_GENERATORS)
def test_files_give_the_same_robot_and_commands(name, tmp_path):
    """`load_robot` reads what `save` writes, in any unit; the design stays with robot and result."""
    design = generate.make(name)
    made = design.robot("dragon-skin-30")
    for units in ("mm", "in"):
        files = design.save(tmp_path / units, units=units, material="dragon-skin-30")
        assert sorted(files) == sorted(p.name for p in (tmp_path / units).iterdir())
        robot, _, solver = load_problem(tmp_path / units / "robot.toml")
        assert isinstance(solver, geosim.RodShellStepper)
        assert robot.vertices == pytest.approx(made.vertices, abs=1e-11)
        assert (robot.edges == made.edges).all()
        assert (robot.fixed_vertices == made.fixed_vertices).all()
        assert (robot.fixed_edges == made.fixed_edges).all()
        assert robot.radius == pytest.approx(made.radius, rel=1e-9)
        assert robot.mass == pytest.approx(made.mass, rel=1e-6)
        for one, two in zip(robot.guides, made.guides):
            assert one.across == pytest.approx(two.across, abs=1e-10)
        assert (robot.design.name, dict(robot.design.parameters)) == (name, dict(design.parameters))
        read, given = load_actuation(tmp_path / units / "actuation.toml"), design.actuation("dragon-skin-30")
        for key in ("tension", "curvature"):
            if hasattr(given, key):
                assert getattr(read, key) == pytest.approx(getattr(given, key), rel=1e-6, abs=1e-9)


def test_the_mass_is_that_of_the_cylinders():
    design = generate.rod_gripper()
    assert design.robot(RUBBER).mass == pytest.approx(3 * 1100.0 * np.pi * 4e-3**2 * 0.1)


def test_a_result_keeps_the_design(tmp_path):
    design = generate.tendon_arm(edges=8)
    result = geosim.solve(design.robot(), geosim.CableTensions([[0.1, 0, 0]]), solver=STATIC)
    result.save(tmp_path / "arm.npz")
    again = geosim.load_result(tmp_path / "arm.npz").robot.design
    assert (again.name, dict(again.parameters)) == (design.name, dict(design.parameters))


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("tendon_arm", {"length": 0.0}, r"length \[m\] = 0.0 must be a positive number"),
        ("tendon_arm", {"radius": 30e-3}, "radius = 0.03 m must be less than 0.02 m, a tenth of the length"),
        ("tendon_arm", {"tip_radius": 0.5e-3}, "tip_radius = 0.0005 m does not fit: offset"),
        ("tendon_arm", {"offset": 80e-3}, "offset = 0.08 m must be less than 0.05 m, ten radii"),
        (
            "tendon_arm",
            {"turns": 8.0},
            "turns = 8.0 does not fit: guides = 21 are too few for 8 turns; give at least 49",
        ),
        ("tendon_arm", {"turns": np.nan}, "turns = nan must be a finite number"),
        ("tendon_arm", {"sections": 11, "guides": 21}, "at least 22"),
        ("tendon_arm", {"cables": 0}, "cables = 0 must be a whole number of at least 1"),
        ("tendon_arm", {"edges": 3.5}, "edges = 3.5 must be a whole number"),
        ("rod_gripper", {"fingers": 1}, "fingers = 1 must be a whole number of at least 2"),
        (
            "rod_gripper",
            {"palm_radius": 4e-3},
            "palm_radius = 0.004 m does not fit: radius = 0.004 m must be less than",
        ),
        ("rod_gripper", {"offset": 31e-3}, "the distance of the fingers from the axis"),
        ("entangler", {"turns": 6.0}, "turns = 6.0 does not fit: edges = 30 are too few for 6 turns"),
        ("entangler", {"turns": 6.0, "edges": 90, "length": 0.1}, "half the radius of the curl"),
        ("gripper", {"finger": "tendon_arm"}, "finger = 'tendon_arm' is unknown"),
    ],
)
def test_what_cannot_be_is_refused_by_name(name, given, said):
    with pytest.raises(InputError, match=said) as error:
        generate.make(name, **given)
    assert "\n" not in str(error.value)


def test_rods_have_no_surfaces():
    with pytest.raises(InputError, match="must be a Design"):
        generate.derivative(generate.tendon_arm(), "length")
    with pytest.raises(InputError, match="must be a Design"):
        generate.gripper(generate.tendon_arm())
    with pytest.raises(InputError, match="units = 'km'"):
        generate.tendon_arm().save("nowhere", units="km")


def test_a_command_makes_a_robot_that_the_next_command_solves(tmp_path, monkeypatch):
    """`geosim generate`, then `geosim solve` as it says; its row of a taper is in the robot file."""
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke
    done = run(
        main, ["generate", "tendon_arm", "--edges", "8", "--tip-radius-mm", "3", "--cables", "2", "--out", "arm"]
    )
    assert done.exit_code == 0, done.output
    assert "next: geosim solve arm/robot.toml --film tendon_arm.gif" in done.output
    table = tomllib.loads((tmp_path / "arm" / "robot.toml").read_text(encoding="utf-8"))
    assert len(table["rod"]["radius"]) == 8
    (tmp_path / "arm" / "actuation.toml").write_text("[cable_tensions]\ntension = [[0.2, 0]]\n", encoding="utf-8")
    done = run(main, ["solve", "arm/robot.toml", "--out", "solved"])
    assert done.exit_code == 0, done.output
    assert geosim.load_result(tmp_path / "solved" / "result.npz").extra["guides"].shape == (1, 42, 3)
    assert "--material" in run(main, ["generate", "entangler", "--help"]).output


def test_a_sweep_varies_an_arm(tmp_path):
    """Bend by T d L / (E I), and the mass of a cylinder."""
    study = {
        "design": "tendon_arm",
        "material": "smooth-sil-950",
        "fixed": {"cables": 1},
        "vary": {"radius_mm": [5.0]},
        "actuation": {"cable_tensions": {"tension": [[0.5]]}},
        "measures": {"columns": ["bend_angle_deg", "mass_g"]},
    }
    table = geosim.sweep(study, workers=1, out=tmp_path / "out")
    assert (table.status == "CONVERGED").all()
    rubber = geosim.materials.get("smooth-sil-950")
    bend = 0.5 * 8e-3 * 0.195 / (3 * rubber.shear_modulus * np.pi * 5e-3**4 / 4)
    assert table.bend_angle_deg[0] == pytest.approx(np.degrees(bend), rel=0.03)
    assert table.mass_g[0] == pytest.approx(1e3 * rubber.density * np.pi * 5e-3**2 * 0.2)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"mesh": {"max_edge_mm": 3.0}}, r"\[mesh\] is for bodies; tendon_arm has rods"),
        ({"vary": {"radius": [5.0]}}, "radius is no dimension of tendon_arm, did you mean 'radius_mm'"),
        ({"solver": {"statik": True}}, "'statik' is not an option of RodShellStepper, did you mean 'static'"),
        ({"material": "rubberx"}, "material 'rubberx' is not a preset"),
    ],
)
def test_a_study_of_rods_refuses_what_cannot_be_before_it_solves(changes, said, tmp_path):
    study = {"design": "tendon_arm", "material": "smooth-sil-950", "vary": {"radius_mm": [5.0]}}
    with pytest.raises(InputError, match=said):
        geosim.sweep({**study, **changes}, workers=1, out=tmp_path / "out")
