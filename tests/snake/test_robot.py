"""The soft snake: Table I, bend angle against pressure, valves, controllers, restart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from geosim.errors import InputError
from geosim.files.actuation import load_actuation
from geosim.files.archive import load_result
from geosim.files.robot import load_problem
from geosim.material.materials import LinearElastic
from geosim.model.actuation import UndulatoryGait, ValveCommands
from geosim.model.environment import Environment, Obstacle
from geosim.result import collect
from geosim.snake.bench import bend_curve, fit_line_rigidity
from geosim.snake.snake import link_mesh, make_snake
from geosim.snake.state import restored
from geosim.snake.stepper import MultibodyStepper
from geosim.snake.system import build_system
from geosim.snake.valves import PSI, Valves, fit_valves
from geosim.solve import solve

GROUND = Environment(gravity=(0, 0, -9.81), obstacles=[Obstacle.plane((0, 0, 0), (0, 0, 1), friction=0.6)])

# On rougher ground the wheels stick at low pressures, and creep decides how far they get.
SMOOTH = Environment(gravity=(0, 0, -9.81), obstacles=[Obstacle.plane((0, 0, 0), (0, 0, 1), friction=0.2)])


# -- the robot --------------------------------------------------------------------------------------------------------


def test_counts_stand_beside_table_one():
    """Bodies and joints are exact; particles and tets within 2 %, attachments 8 %; distances are those of the parts."""
    robot = make_snake()
    counts = robot.counts
    assert counts["Rigid Bodies"] == 15
    assert counts["Rigid Joints"] == 10
    for key, tolerance in (("Particles", 0.005), ("Tetrahedral Finite Elements", 0.02), ("Particle Attachments", 0.08)):
        assert counts[key] == pytest.approx(robot.TABLE_I[key], rel=tolerance)
    layer, rings = 3 * 12, 2 * 12 * 11
    assert counts["Distance Constraints"] == 4 * (layer + rings + 2 * 13 * 12)
    few = make_snake(lines=3).counts["Distance Constraints"]
    assert few == 4 * (layer + rings + 2 * 3 * 12)
    assert few == pytest.approx(robot.TABLE_I["Distance Constraints"], rel=0.02)
    text = robot.summary()
    assert "(Table I: 4536)" in text
    assert str(counts["Tetrahedral Finite Elements"]) in text


def test_link_mesh_is_conforming_symmetric_and_fills_the_section():
    """Every inner face has two tets, tets mirror in y = 0, and the volume is that of the outline."""
    from geosim.geometry import topology

    vertices, tets, parts = link_mesh(0.1, 0.04, 0.03, 13)
    volumes = topology.tet_volumes(vertices, tets)
    assert volumes.min() > 0
    outline = vertices[parts["outlines"][0], 1:]
    y, z = outline.T
    half = 0.5 * abs(np.sum(y * np.roll(z, -1) - np.roll(y, -1) * z))
    assert volumes.sum() == pytest.approx(2 * half * 0.1)
    skin = topology.boundary_faces(tets)
    edges = np.sort(np.vstack([skin[:, [0, 1]], skin[:, [1, 2]], skin[:, [2, 0]]]), axis=1)
    assert (np.unique(edges, axis=0, return_counts=True)[1] == 2).all()
    centres = np.round(vertices[tets].mean(axis=1), 9)
    assert set(map(tuple, centres)) == set(map(tuple, np.round(centres * [1, -1, 1], 9) + 0.0))


def test_levels_follow_the_sections():
    """The matrix is block-tridiagonal with blocks of a section's size, and snakes are separate chains."""
    one, two = (build_system(make_snake(links=2, count=c), GROUND) for c in (1, 2))
    assert np.bincount(one.pattern.level).max() <= 29 + 4
    assert two.pattern.level.max() + 1 == 2 * (one.pattern.level.max() + 1)
    assert (abs(two.pattern.level[two.pattern.rows] - two.pattern.level[two.pattern.columns]) <= 1).all()


@pytest.mark.parametrize(
    ("change", "word"),
    [({"links": 0}, "links"), ({"lines": 5}, "lines"), ({"wheels": "square"}, "wheels"), ({"count": 1.5}, "count")],
)
def test_make_snake_refuses(change, word):
    """The message names the argument."""
    with pytest.raises(InputError, match=word):
        make_snake(**change)


# -- static -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def curve():
    return bend_curve(np.array([-8, -6, -4, -2, 2, 4, 6, 8]) * PSI)


def test_bend_angle_is_linear_in_pressure_to_8_psi_and_symmetric(curve):
    """Section VI-A: a straight line up to 8 psi, either chamber alike; an inflated left chamber bends to the right."""
    slope, r2 = curve.line(8 * PSI)
    assert r2 > 0.999
    assert np.degrees(slope) * PSI == pytest.approx(-6.3, abs=0.3)
    assert curve.angles == pytest.approx(-curve.angles[::-1], abs=1e-5)
    assert curve.residuals.max() <= 1e-6


def test_bend_angle_depends_on_the_ratio_of_line_and_body_stiffness(curve):
    """Twice the lines in twice the body (and fibres) bend as before; stiffer lines alone bend more."""
    at = np.array([4 * PSI])
    base = curve.angles[5]
    both = bend_curve(
        at,
        line_rigidity=2.0,
        material=LinearElastic(132e3, 0.45, 1070.0),
        layer_stiffness=2e5,
        ring_stiffness=4e3,
        attachment_stiffness=2e5,
    ).angles[0]
    lines = bend_curve(at, line_rigidity=2.0).angles[0]
    few = bend_curve(at, lines=3).angles[0]
    assert few == pytest.approx(base, rel=0.1)
    assert both == pytest.approx(base, rel=1e-4)
    assert abs(lines) > 1.3 * abs(base)


def test_bend_angle_converges_with_the_number_of_sections(curve):
    """7, 13 and 25 sections: the change halves at least, and 13 are within 5 % of 25."""
    at = np.array([4 * PSI])
    coarse, fine = (bend_curve(at, sections=n).angles[0] for n in (7, 25))
    middle = curve.angles[5]
    assert abs(fine - middle) < 0.6 * abs(middle - coarse)
    assert middle == pytest.approx(fine, rel=0.05)


def test_actuation_stiffness_is_found_from_a_measured_line():
    """The fit finds the rigidity that made the curve and leaves no residual."""
    p = np.array([-3.0, 3.0]) * PSI
    made = bend_curve(p, line_rigidity=0.7, sections=5)
    fit = fit_line_rigidity(p, made.angles, sections=5)
    assert fit.line_rigidity == pytest.approx(0.7, rel=0.02)
    assert fit.rms < 0.02 * abs(made.angles).max()
    with pytest.raises(InputError, match="bend to the right"):
        fit_line_rigidity(p, -made.angles, sections=5)


# -- valves -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", ["sqrt", "square"])
def test_valve_solution_solves_its_equation(law):
    """Inflation and deflation against a numerical integration of (11) and (12)."""
    valves = Valves(law=law, k_in=2500.0 if law == "sqrt" else 2e-4)
    target, t = 5e4, np.linspace(0, 0.4, 9)
    rate = (
        (lambda t, p: valves.k_in * np.sqrt(np.maximum(target - p, 0)))
        if law == "sqrt"
        else (lambda t, p: valves.k_in * (target - p) ** 2)
    )
    # Short of the end, where the root's solution arrives in finite time and an integrator cannot follow.
    up = solve_ivp(rate, (0, 0.15), [0.0], t_eval=t[t < 0.15], rtol=1e-9, atol=1e-6).y[0]
    assert [valves.inflate(0.0, target, s) for s in t[t < 0.15]] == pytest.approx(up, rel=1e-5)
    down = solve_ivp(
        lambda t, p: -np.minimum(valves.outflow, valves.k_out * p),
        (0, 0.4),
        [target],
        t_eval=t,
        rtol=1e-9,
        atol=1e-6,
        max_step=0.005,
    ).y[0]
    assert [valves.deflate(target, 0.0, s) for s in t] == pytest.approx(down, rel=1e-5, abs=1e-2)


def test_valve_pressure_does_not_depend_on_the_step():
    """One step of 0.1 s is ten of 0.01 s."""
    valves = Valves()
    p0, goal = np.array([1e4, 6e4]), np.array([5e4, 0.0])
    once, many = valves.advance(p0, goal, 0.1), p0
    for _ in range(10):
        many = valves.advance(many, goal, 0.01)
    assert many == pytest.approx(once, rel=1e-12)


def test_valve_constants_are_found_from_a_step_response():
    """Noise-free curves give their constants back; with 1 % noise within 5 %."""
    true = Valves(k_in=1800.0, outflow=2.2e5, k_out=9.0)
    t = np.linspace(0, 0.6, 61)
    up = np.column_stack([t, [true.inflate(0.0, 5e4, s) for s in t]])
    down = np.column_stack([t, [true.deflate(5e4, 0.0, s) for s in t]])
    fit = fit_valves(up, down)
    assert (fit.valves.k_in, fit.valves.outflow, fit.valves.k_out) == pytest.approx((1800.0, 2.2e5, 9.0), rel=1e-3)
    assert max(fit.rms_inflation, fit.rms_deflation) < 5.0
    noise = 500 * np.random.default_rng(0).normal(size=(2, 61))
    up[1:-1, 1] += noise[0, 1:-1]
    down[1:-1, 1] += noise[1, 1:-1]
    rough = fit_valves(up, down)
    assert (rough.valves.k_in, rough.valves.outflow, rough.valves.k_out) == pytest.approx(
        (1800.0, 2.2e5, 9.0), rel=0.06
    )
    assert rough.rms_inflation == pytest.approx(500, rel=0.3)
    with pytest.raises(InputError, match="rising inflation"):
        fit_valves(down, up)


def test_delay_shifts_the_response():
    """With a delay of 50 ms (three frames) the pressures are those of three frames before."""
    robot = make_snake(links=1, sections=3, hold_tail=True)
    histories = []
    for delay in (0.0, 0.05):
        stepper = MultibodyStepper(valves=Valves(delay=delay))
        state, history = stepper.start(robot), []
        for k in range(12):
            state, _ = stepper.step(state, [4 * PSI if k < 6 else -2 * PSI])
            history.append(state.pressures)
        histories.append(np.array(history))
    assert abs(histories[1][:3]).max() == 0
    assert histories[1][3:] == pytest.approx(histories[0][:-3], abs=1e-6)
    assert histories[0][-1, 1] > 0


def test_pulsed_valves_hold_the_commanded_pressure_on_average():
    """The duty balances inflow and outflow: after a second the pressure ripples about the command."""
    valves = Valves(pwm=True)
    p, goal, seen = np.zeros(1), np.array([4e4]), []
    for _ in range(120):
        p = valves.advance(p, goal, 1 / 60)
        seen.append(p[0])
    assert np.mean(seen[60:]) == pytest.approx(4e4, rel=0.1)


def test_commands_choose_the_chamber_by_their_sign():
    """Positive pressures go to the left chamber, negative ones to the right; a command above the supply is refused."""
    robot = make_snake(links=2, sections=3)
    stepper = MultibodyStepper(valves=Valves(law="ideal"))
    state, _ = stepper.step(stepper.start(robot, GROUND), [1e4, -2e4])
    assert state.pressures == pytest.approx([1e4, 0, 0, 2e4])
    with pytest.raises(InputError, match="supply"):
        stepper.step(state, [1e9, 0.0])
    with pytest.raises(InputError, match="3 pressures for 4 chambers"):
        stepper.step(state, [1.0, 2.0, 3.0])


# -- the interface ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"tolerance": 0.1, "single": True}])
def test_kept_state_goes_on_exactly(options):
    """Restarted from its arrays the motion is bit by bit the one that never stopped, with delayed commands and a kept factor."""
    robot = make_snake(links=1, sections=4)
    stepper = MultibodyStepper(valves=Valves(delay=0.03), **options)
    state = stepper.start(robot, GROUND)
    for k in range(5):
        state, _ = stepper.step(state, [(k - 1) * PSI])
    assert state.kept.factored is not None
    kept = state.arrays()
    again = restored(stepper.start(robot, GROUND), kept)
    for _ in range(3):
        state, _ = stepper.step(state)
        again, _ = stepper.step(again)
    assert (again.positions == state.positions).all()
    assert (again.orientations == state.orientations).all()
    assert (again.pressures == state.pressures).all()
    with pytest.raises(InputError, match="positions has shape"):
        restored(stepper.start(make_snake(links=2, sections=4), GROUND), kept)


def test_solve_runs_a_gait_and_valve_commands():
    """Frames at 60 Hz from t = 0, pressures of all chambers, forces of the ground, the trace."""
    robot = make_snake(links=1, sections=4)
    result = solve(robot, UndulatoryGait(3 * PSI, 1.0, 0.5, 0.0, 0.2), GROUND, solver=MultibodyStepper(dt=1 / 60))
    assert result.converged
    assert result.times == pytest.approx(np.arange(13) / 60)
    assert result.chamber_pressures.shape == (13, 2)
    assert result.chamber_pressures[-1, 0] > 1e3
    assert result.frames.shape[1] == len(robot.vertices)
    assert result.obstacle_forces[-1, 0, 2] == pytest.approx(
        -9.81 * (robot.particle_masses.sum() + robot.body_masses.sum()), rel=0.05
    )
    assert {"residual", "seconds", "contacts"} <= set(result.trace[0])
    held = solve(robot, ValveCommands([0.0, 0.1], [[2e4], [-1e4]]), GROUND)
    assert held.chamber_pressures[5, 1] == 0
    assert held.surface(-1, subdivide=0).is_watertight


def test_a_result_of_states_stepped_by_hand_is_that_of_solve():
    """The same commands give the same frames."""
    robot = make_snake(links=1, sections=4)
    stepper = MultibodyStepper()
    gait = UndulatoryGait(3 * PSI, 1.0, 0.5, 0.0, 0.1)
    solved = solve(robot, gait, GROUND, solver=stepper)
    state = stepper.start(robot, GROUND)
    states, reports = [state], []
    for command in stepper.commands(robot, gait):
        state, report = stepper.step(state, command)
        states.append(state)
        reports.append(report)
    assert (collect(robot, GROUND, stepper, states, reports).frames == solved.frames).all()


# -- locomotion -------------------------------------------------------------------------------------------------------


def crawl(amplitude, offset=0.0, seconds=6.0, **options):
    """Centre of mass (frames, 3), yaw of head against tail, worst residual and drift of a five-section snake."""
    robot = make_snake(sections=5, **options)
    stepper = MultibodyStepper()
    state = stepper.start(robot, SMOOTH)
    path, worst, drift = [state.center_of_mass], 0.0, 0.0
    for command in stepper.commands(robot, UndulatoryGait(amplitude * PSI, 0.5, 1.5, offset, seconds)):
        state, _ = stepper.step(state, command)
        path.append(state.center_of_mass)
        worst, drift = max(worst, state.residual), max(drift, state.constraint_drift())
    ends = state.body_positions[robot.carriages[0, [0, -1]]]
    yaw = np.arctan2(*(ends[1] - ends[0])[[1, 0]])
    return np.array(path), yaw, worst, drift


@pytest.fixture(scope="module")
def runs():
    return {
        "free": crawl(6.0, seconds=4.5),
        "locked": crawl(6.0, seconds=3.0, wheels="locked"),
        "small": crawl(3.0, seconds=4.0),
        "left": crawl(5.0, 0.25, 2.5),
        "mirror": crawl(-5.0, 0.25, 2.5),
    }


def period(path, k=-1):
    """Distance of the centre of mass in the last period of 2 s."""
    return np.linalg.norm(path[k, :2] - path[k - 120, :2])


@pytest.mark.slow
def test_snake_moves_only_with_anisotropic_friction(runs):
    """On free wheels it moves forward; welded wheels (the same friction in all directions) move it less than 1 % of that."""
    path = runs["free"][0]
    assert path[-1, 0] - path[0, 0] > 0.1
    assert period(runs["locked"][0]) < 0.01 * period(path)


@pytest.mark.slow
def test_speed_grows_with_amplitude(runs):
    """6 psi is faster than 3 psi, compared in the second period of both."""
    assert period(runs["free"][0], 240) > 1.2 * period(runs["small"][0], 240)


@pytest.mark.slow
def test_offset_steers_and_the_mirrored_gait_has_the_mirrored_path(runs):
    """With A -> -A all pressures change sides: the path is mirrored in y to the tolerance of the steps."""
    (path, yaw, *_), (mirrored, other, *_) = runs["left"], runs["mirror"]
    assert abs(yaw) > np.radians(2)
    assert other == pytest.approx(-yaw, rel=0.02)
    assert abs(mirrored * [1, -1, 1] - path).max() < 0.01 * abs(path[-1] - path[0]).max()


@pytest.mark.slow
def test_every_frame_converges_and_joints_hold(runs):
    """Residual below the stated tolerance in every frame; joints and attachments open less than 0.1 mm."""
    for _, _, worst, drift in runs.values():
        assert worst <= 1e-4
        assert drift < 1e-4


def test_two_snakes_move_as_one():
    """Two snakes side by side are the same snake twice."""
    ends = []
    for count in (1, 2):
        robot = make_snake(links=1, count=count, sections=4)
        stepper = MultibodyStepper(tolerance=1e-8)
        state = stepper.start(robot, GROUND)
        for _ in range(5):
            state, _ = stepper.step(state, [3 * PSI])
        ends.append(state.body_positions.reshape(count, -1, 3))
    assert abs(ends[1][0] - ends[0][0]).max() < 1e-8
    assert abs(ends[1][1] - ends[0][0] - [0, 0.3, 0]).max() < 1e-8


def test_a_budget_of_iterations_a_frame_holds_at_the_hardest_gait():
    """At 8 psi wheels begin to slip in many frames: none takes more, what misses the tolerance says so, nothing runs away."""
    stepper = MultibodyStepper.real_time(frame_iterations=3)
    state, ended = stepper.start(make_snake(sections=7), SMOOTH), 0
    for command in stepper.commands(state.robot, UndulatoryGait(8 * PSI, 0.8, 1.5, 0.0, 1.0)):
        state, report = stepper.step(state, command)
        assert 2 <= len(report.records) <= 3
        assert report.reached == (state.residual <= stepper.tolerance)
        ended += not report.reached
        balanced = report.records[-1]["residual"] <= stepper.tolerance
        assert balanced or not state.trend.any()  # the next guess is not extrapolated from what does not balance
        assert abs(state.velocities).max() < 2.0  # m/s; the wave itself is below half of that
    assert ended > 0
    assert state.constraint_drift() < 1e-4


def test_a_kept_factor_is_no_hidden_state():
    """Whatever is stepped in between, from one state the next one is the same, bit by bit."""
    stepper = MultibodyStepper.real_time()
    state = stepper.start(make_snake(links=2, sections=4), SMOOTH)
    for _ in range(6):
        state, _ = stepper.step(state, [4 * PSI, -4 * PSI])
    once, report = stepper.step(state)
    assert sum(record["factored"] for record in report.records) == 0  # the factor is an older one
    other = state
    for _ in range(8):
        other, _ = stepper.step(other, [-8 * PSI, -8 * PSI])
    assert other.kept.factored is not state.kept.factored
    again, _ = stepper.step(state)
    assert (again.positions == once.positions).all()
    assert (again.body_velocities == once.body_velocities).all()


@pytest.mark.slow
def test_a_gait_in_real_time_is_that_of_converged_steps_with_a_factor_in_a_few_frames():
    """A factor that turns along lasts for frames: bends within 0.2 degrees of the converged ones, at a sixth of the factors."""
    angles, factored = [], []
    for stepper in (MultibodyStepper.real_time(), MultibodyStepper(tolerance=1e-6)):
        state, count = stepper.start(make_snake(sections=7), SMOOTH), 0
        for command in stepper.commands(state.robot, UndulatoryGait(4 * PSI, 0.5, 1.5, 0.0, 1.0)):
            state, report = stepper.step(state, command)
            count += sum(record["factored"] for record in report.records)
        angles.append(state.bend_angles)
        factored.append(count)
    assert abs(angles[0] - angles[1]).max() < np.radians(0.2)
    assert factored[0] < 60 / 3  # of 120 substeps


def test_frames_that_did_not_converge_are_recovered_from():
    """Full pressure that changes sides at once is beyond this budget: no energy comes of it, and soon all balances again."""
    stepper = MultibodyStepper.real_time(frame_iterations=3, frame_factorisations=2, valves=Valves(law="ideal"))
    state, ended, energies = stepper.start(make_snake(sections=7), SMOOTH), [], []
    for k in range(45):
        side = 8 * PSI * (-1) ** (k // 3) if k < 15 else 0.0
        state, report = stepper.step(state, [side, -side, side, -side])
        assert len(report.records) <= 3
        assert sum(record["factored"] for record in report.records) <= 2
        assert report.reached or f"{state.residual:.2e} N" in report.message
        ended.append(not report.reached)
        energies.append(sum(state.energy().values()))
    assert all(ended[:15])
    assert max(np.diff(energies[15:])) < 1e-5  # J, of some 0.01
    assert not any(ended[-10:])
    assert state.energy()["kinetic"] < 1e-3


def test_latency_delays_the_path():
    """With valve latency the first centimetre comes later, and the path differs."""
    robot = make_snake(links=2, sections=4)
    paths = []
    for valves in (Valves(law="ideal"), Valves(delay=0.1)):
        stepper = MultibodyStepper(valves=valves)
        state = stepper.start(robot, GROUND)
        angles = []
        for command in stepper.commands(robot, UndulatoryGait(4 * PSI, 1.0, 1.5, 0.0, 0.5)):
            state, _ = stepper.step(state, command)
            angles.append(state.bend_angles[0, 0])
        paths.append(np.array(angles))
    first = [np.argmax(abs(a) > 0.1) for a in paths]
    assert first[1] >= first[0] + 6


def test_stepper_replaced_options_keep_the_rest():
    """Options are fields: `replace` changes one."""
    assert replace(MultibodyStepper(), route="dual").tolerance == MultibodyStepper().tolerance


# -- from a file ------------------------------------------------------------------------------------------------------

SNAKE_FILE = """
kind = "snake"
units = "mm"
[snake]
links = 2
sections = 4
link_length = 80.0
material = { model = "linear-elastic", youngs_modulus = 50e3, poisson_ratio = 0.4, density = 1000.0 }
[environment]
gravity = [0, 0, -9.81]
[[environment.obstacles]]
shape = "plane"
point = [0, 0, 0]
normal = [0, 0, 1]
friction = 0.2
[solver]
substeps = 3
"""


def test_a_snake_file_gives_the_snake_of_its_arguments(tmp_path):
    """Lengths in the file's unit, the material, surroundings and options; a saved result comes back."""
    path = tmp_path / "robot.toml"
    path.write_text(SNAKE_FILE)
    robot, world, stepper = load_problem(path)
    same = make_snake(links=2, sections=4, link_length=0.08, material=LinearElastic(50e3, 0.4, 1000.0))
    assert (robot.particles == same.particles).all()
    assert robot.particle_masses == pytest.approx(same.particle_masses)
    assert robot.youngs_modulus[0] == 50e3
    assert len(world.obstacles) == 1
    assert stepper.substeps == 3
    result = solve(robot, UndulatoryGait(3 * PSI, 1.0, 0.5, 0.0, 0.1), world, solver=stepper)
    again = load_result(result.save(tmp_path / "result.npz"))
    assert (again.frames == result.frames).all()
    assert again.robot.counts == robot.counts
    result.html(tmp_path / "view.html")
    result.save(tmp_path / "last.vtu")


def test_the_shipped_snake_is_the_one_of_table_one():
    """The snake that ships: four links on smooth ground, and a gait."""
    folder = Path(__file__).resolve().parents[2] / "meshes" / "snake"
    robot, world, stepper = load_problem(folder / "robot.toml")
    assert robot.counts == make_snake().counts
    assert len(world.obstacles) == 1
    gait = load_actuation(folder / "actuation.toml", robot)
    assert len(stepper.commands(robot, gait)) == 360
    assert abs(gait.pressures(0.1, 4)).max() < 6.1 * PSI


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("links = 2", "link = 2", r"\[snake\].*link"),
        ("links = 2", 'links = "two"', r"\[snake\] links"),
        ("links = 2", "links = 0", r"snake: make_snake: links = 0"),
        ("link_length = 80.0", "link_length = -80.0", "link_length.*positive"),
        ('units = "mm"', "", "units is missing"),
        ("[snake]", "fixed = 3\n[snake]", "fixed.*unknown"),
        ('"linear-elastic", youngs_modulus = 50e3', '"neo-hookean", mu = 50e3', r"\[snake\]"),
    ],
)
def test_a_snake_file_that_is_wrong_is_refused(tmp_path, old, new, words):
    """The message names the file and the key."""
    path = tmp_path / "robot.toml"
    path.write_text(SNAKE_FILE.replace(old, new))
    with pytest.raises(InputError, match=words) as error:
        load_problem(path)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)
