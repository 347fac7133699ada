"""Layers and fibres: forces, stiffness and energies, their limits, and what they do to a body."""

import numpy as np
import pytest
import shapes
import trimesh

import geosim
from geosim import Fibre, Inflation, InputError, Layer, LinearElastic, NeoHookean, Select, VolumetricRobot
from geosim.shape.energy.problem import make_problem

STIFF = LinearElastic(youngs_modulus=1e6, poisson_ratio=0.3)
HELD = Select.plane("x", below=1e-6)
TOP = Select.plane("z", above=1.0 - 1e-6)


def sheet_inside(z=0.4):
    """A square of 8 triangles inside a block, between its vertices."""
    s = np.linspace(0.1, 0.9, 3)
    points = np.array([(x, y, z) for x in s for y in s])
    squares = [(3 * i + j, 3 * i + j + 3, 3 * i + j + 4, 3 * i + j + 1) for i in range(2) for j in range(2)]
    faces = [f for a, b, c, d in squares for f in ((a, b, c), (a, c, d))]
    return trimesh.Trimesh(points, faces, process=False)


def block(layers=(), fibres=(), **options):
    vertices, tets = shapes.block((1.0, 1.0, 1.0), (2, 2, 2))
    return VolumetricRobot.from_tets(
        vertices, tets, material=NeoHookean(mu=1e4), fixed=HELD, layers=layers, fibres=fibres, **options
    )


def woven():
    return block(
        [Layer(TOP, 0.01, STIFF), Layer(sheet_inside(), 0.02, STIFF)],
        [Fibre([(0.1, 0.2, 0.3), (0.6, 0.5, 0.5), (0.9, 0.8, 0.4)], 0.02, STIFF, tension_only=False)],
    )


@pytest.mark.parametrize("order", [1, 2])
def test_forces_are_the_slope_of_the_energy_and_the_tangent_theirs(order):
    problem = make_problem(woven(), geosim.Environment(self_contact=False), order, "auto")
    rng, h = np.random.default_rng(1), 1e-6
    ranks = np.argsort(np.argsort(problem.nodes))
    x = problem.rest + 0.02 * rng.standard_normal(problem.rest.shape)[ranks]
    way = rng.standard_normal(x.shape)[ranks]

    def added(at, matrix=False):
        force, scale = np.zeros_like(at), np.zeros(len(at))
        data = np.zeros(len(problem.pattern.indices))
        energy = problem.fabric.add(at, matrix, problem.pattern, data, force, scale)
        return energy, force, data

    _, force, data = added(x, matrix=True)
    ahead, back = added(x + h * way), added(x - h * way)
    assert (ahead[0] - back[0]) / (2 * h) == pytest.approx(np.sum(force * way), rel=1e-7)
    step = np.zeros(problem.pattern.size)
    step[: x.size] = way.ravel()
    expected = problem.pattern.product(data, step)[: x.size]
    found = (ahead[1] - back[1]).ravel() / (2 * h)
    np.testing.assert_allclose(found, expected, atol=1e-7 * np.abs(expected).max())


@pytest.mark.parametrize("order", [1, 2])
def test_energies_of_a_uniform_strain_are_exact(order):
    """x = F X: a layer stores t A (mu E:E + lambda' tr(E)^2 / 2), a fibre E A L (l / L - 1)^2 / 2; rotations nothing."""
    problem = make_problem(woven(), geosim.Environment(self_contact=False), order, "auto")
    F = np.array([[1.1, 0.05, 0.0], [0.0, 0.95, 0.02], [0.03, 0.0, 1.0]])
    store = lambda F: problem.fabric.add(  # noqa: E731
        problem.rest @ F.T,
        False,
        problem.pattern,
        np.zeros(0),
        np.zeros_like(problem.rest),
        np.zeros(len(problem.rest)),
    )
    E = 0.5 * (F.T @ F - np.eye(3))[:2, :2]
    bulk, shear = 1e6 * 0.3 / (1 - 0.09), 1e6 / 2.6
    density = shear * np.sum(E**2) + 0.5 * bulk * np.trace(E) ** 2
    pieces = np.diff(woven().fibres[0].points, axis=0)
    rest = np.linalg.norm(pieces, axis=1)
    strain = np.linalg.norm(pieces @ F.T, axis=1) / rest - 1
    exact = density * (0.01 * 1.0 + 0.02 * 0.64) + 0.5 * 1e6 * np.pi * 0.02**2 * rest @ strain**2
    assert store(F) * problem.stress * problem.length**3 == pytest.approx(exact, rel=1e-9)
    turn = np.linalg.qr(F)[0]
    assert store(turn * np.sign(np.linalg.det(turn))) == pytest.approx(0.0, abs=1e-15)


def test_a_thread_pulls_and_gives_way():
    """A block pulled or pushed by 5 %: the reaction of a thread along it is E A e when pulled, nothing when pushed."""
    line = [(0.0, 0.5, 0.5), (1.0, 0.5, 0.5)]
    moved = lambda robot, u: geosim.solve(  # noqa: E731
        robot,
        geosim.Passive(),
        geosim.Environment(
            prescribed=[geosim.Prescribed(Select.plane("x", above=1 - 1e-6), (u, np.nan, np.nan))], self_contact=False
        ),
    ).reactions[-1, :, 0]
    far = block().vertices[:, 0] > 1 - 1e-6
    thread = Fibre(line, 0.01, STIFF)
    extra = {u: moved(block(fibres=[thread]), u)[far].sum() - moved(block(), u)[far].sum() for u in (0.05, -0.05)}
    assert extra[0.05] == pytest.approx(thread.stiffness * 0.05, rel=0.1)  # the ends sink into the rubber a little
    assert abs(extra[-0.05]) < 1e-6 * thread.stiffness


def test_helices_turn_the_way_they_say():
    points = Fibre.helix((0, 0, 0), (0, 0, 1.0), 0.2, 2.0, 1e-3, STIFF).points
    np.testing.assert_allclose(np.linalg.norm(points[:, :2], axis=1), 0.2)
    turned = np.unwrap(np.arctan2(points[:, 1], points[:, 0]))
    assert turned[-1] - turned[0] == pytest.approx(4 * np.pi)
    back = Fibre.helix((0, 0, 0), (0, 0, 1.0), 0.2, -0.5, 1e-3, STIFF).points
    assert np.ptp(np.unwrap(np.arctan2(back[:, 1], back[:, 0]))) == pytest.approx(np.pi)


def test_layers_and_fibres_survive_a_file(tmp_path):
    result = geosim.solve(woven(), geosim.Passive(), solver=geosim.EnergyShapeSolver(element="p1"))
    again = geosim.load_result(result.save(tmp_path / "woven.npz")).robot
    np.testing.assert_array_equal(again.layers[0].faces, result.robot.layers[0].faces)
    np.testing.assert_array_equal(again.layers[1].vertices, result.robot.layers[1].vertices)
    assert again.fibres[0].stiffness == result.robot.fibres[0].stiffness


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Layer(TOP, 0.0, STIFF), "thickness"),
        (lambda: Layer(TOP, 0.1, 3.0), "neither a material"),
        (lambda: block([Layer(Select.plane("z", above=2.0), 0.1, STIFF)]), "Layer"),
        (lambda: block([Layer(Select.nearest((0, 0, 0)), 0.1, STIFF)]), "no face"),
        (lambda: block([Layer(TOP, 0.1, STIFF, of="chamber:3")]), "chamber:3"),
        (lambda: block([Layer([[0, 1, 26]], 0.1, STIFF)]), "is not a face"),
        (lambda: Fibre([(0, 0, 0)], 0.1, STIFF), "at least two"),
        (lambda: geosim.solve(block(fibres=[Fibre([(0, 0, 0), (0, 0, 3)], 0.1, STIFF)]), geosim.Passive()), "outside"),
        (lambda: geosim.solve(woven(), Inflation(1.0), solver=geosim.ProjectiveShapeSolver()), "no layers"),
    ],
)
def test_what_cannot_be_is_refused(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_a_bar_twists_against_the_hand_of_its_helices():
    """Pulled, a helix lengthens by unwinding: a right-handed one turns the far end back, a left-handed one forward."""
    vertices, tets = shapes.block((0.04, 0.01, 0.01), (4, 2, 2))
    twists = {}
    for hand in (1.0, -1.0):
        ends = (0.0, 5e-3, 5e-3), (0.04, 5e-3, 5e-3)
        wound = [Fibre.helix(*ends, 4e-3, hand, 0.2e-3, STIFF, phase=p) for p in (0.0, np.pi / 2, np.pi, 1.5 * np.pi)]
        bar = VolumetricRobot.from_tets(vertices, tets, material=NeoHookean(mu=1e4), fixed=HELD, fibres=wound)
        pull = geosim.Load.force(Select.plane("x", above=0.04 - 1e-6), (0.2, 0.0, 0.0))
        environment = geosim.Environment(loads=[pull], self_contact=False)
        twists[hand] = geosim.solve(bar, geosim.Passive(), environment).twist_angle[-1]
    assert twists[1.0] < -0.02
    assert twists[-1.0] == pytest.approx(-twists[1.0], rel=0.05)
