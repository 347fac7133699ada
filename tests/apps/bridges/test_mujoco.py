"""The chain of a robot goes where the robot goes, in its own statics and in MuJoCo."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from shapes import block

import geosim
from geosim import EnergyShapeSolver
from geosim.apps.bridges.chain import Chain
from geosim.apps.bridges.links import links_along

QUICK = EnergyShapeSolver(element="p1", check_stability=False)


def _chain(links=4, seed=0):
    rng = np.random.default_rng(seed)
    places = np.cumsum(np.vstack([np.zeros(3), [0.02, 0.0, 0.0] + 2e-3 * rng.standard_normal((links, 3))]), axis=0)
    stiffness = np.tile([0.05, 0.1, 500.0], links)
    pulls = rng.uniform(0.5, 1.0, (2, 3 * links)) * np.tile([1e-6, 1e-6, 1e-5], links)
    masses, centers = rng.uniform(1e-3, 2e-3, links), 5e-3 * rng.standard_normal((links, 3))
    rest = np.tile([0.02, -0.01, 1e-4], links)
    return Chain(places, masses, centers, stiffness, rest, pulls, np.array([-2e4, 3e4]))


def test_joints_and_points_are_inverse():
    chain = _chain()
    q = np.random.default_rng(1).standard_normal((5, 12)) * np.tile([0.3, 0.3, 1e-3], 4)
    np.testing.assert_allclose(chain.joints(chain.points(q)), q, atol=1e-12)
    lengths = np.linalg.norm(np.diff(chain.points(0.0 * q[:1])[0], axis=0), axis=1)
    np.testing.assert_allclose(lengths, np.linalg.norm(np.diff(chain.places, axis=0), axis=1), rtol=1e-12)


def test_weights_pull_by_the_slope_of_their_energy():
    """Forces of weights and of a tip force are -dV/dq, their derivatives -d^2V/dq^2."""
    chain, rng = _chain(), np.random.default_rng(2)
    q = rng.standard_normal((2, 12)) * np.tile([0.3, 0.3, 1e-3], 4)
    gravity, force, step = 9.81 * rng.standard_normal((2, 3)), 0.1 * rng.standard_normal((2, 3)), 1e-6

    def work(q):
        ends, centers, _ = chain.moved(q)
        return np.einsum("l,kli,ki->k", chain.masses, centers, gravity) + np.einsum("ki,ki->k", force, ends[:, -1])

    def differences(of):
        steps = step * np.eye(12)
        return np.stack([(of(q + e) - of(q - e)) / (2.0 * step) for e in steps], axis=-1)

    torques, slopes = chain.torques(q, gravity, force)
    np.testing.assert_allclose(torques, differences(work), atol=1e-9 * np.abs(torques).max())
    found = differences(lambda q: chain.torques(q, gravity, force)[0])
    np.testing.assert_allclose(slopes, found, atol=1e-8 * np.abs(slopes).max())


def test_torques_balance_with_and_without_gravity():
    chain, controls = _chain(), np.array([[3e3, 1e3], [0.0, 5e3]])
    for gravity in (np.zeros((2, 3)), np.array([[0.0, 0.0, -9.81], [3.0, 4.0, 0.0]])):
        q = chain.equilibria(controls, gravity)
        pull = controls * (1.0 + chain.softening * (q @ chain.pulls.T)) @ chain.pulls
        pull += chain.torques(q, gravity, np.zeros((2, 3)))[0]
        np.testing.assert_allclose(chain.stiffness * (q - chain.rest), pull, rtol=1e-8, atol=1e-12)


def test_a_blocked_chain_presses_with_its_lever():
    """One stiff lever of length L with a torque T about its first axis, blocked across: F = T / L."""
    places = np.array([[0.0, 0, 0], [0.05, 0, 0], [0.1, 0, 0]])
    pulls = np.zeros((1, 6))
    chain = Chain(places, np.ones(2), np.zeros((2, 3)), np.full(6, 1e4), np.zeros(6), pulls, np.zeros(1))
    axis = int(np.argmax(np.abs(chain.axes[0, 1])))
    across = int(np.argmax(np.abs(np.cross(chain.axes[0, 1], [1.0, 0, 0]))))
    assert axis != across
    pulls[0, 1] = 0.2
    stiff = np.array([1e4, 1e-3, 1e6, 1e4, 1e4, 1e6])  # all but the first hinge is rigid
    force = replace(chain, stiffness=stiff).blocked_force(np.array([0.01]), across)
    assert abs(force) == pytest.approx(0.01 * 0.2 / 0.1, rel=1e-3)


def test_a_chain_without_a_balance_is_refused():
    """Under a gravity or a control far beyond its springs Newton's method finds no balance."""
    chain = replace(_chain(), stiffness=np.tile([1e-4, 1e-4, 0.1], 4))
    with pytest.raises(geosim.InputError, match="no balance under gravity; give a smaller max_gravity"):
        chain.equilibria(np.zeros((1, 2)), np.array([[0.0, 0.0, -1e3]]))
    with pytest.raises(geosim.InputError, match="blocked tip finds no balance; give narrower bounds"):
        chain.blocked_force(np.array([1e5, 1e5]), 2)


def test_links_have_the_corners_of_their_skin():
    """A bar of 60 x 12 x 10 mm in three links: boxes of a third each, wherever its triangles end."""
    x, tets = block((0.06, 0.012, 0.01), (1, 1, 1))
    bar = geosim.VolumetricRobot.from_tets(
        x, tets, material="ecoflex-00-30-fang2022", fixed=x[:, 0] < 1e-9, tip=x[:, 0] > 0.05
    )
    places = np.array([[0.02 * k, 6e-3, 5e-3] for k in range(4)])
    hulls = links_along(bar, places).hulls
    for hull in hulls:
        np.testing.assert_allclose([hull[:, 1:].min(axis=0), hull[:, 1:].max(axis=0)], [[-6e-3, -5e-3], [6e-3, 5e-3]])
    first, last = (np.array([of(hull[:, 0]) for hull in hulls]) + places[:3, 0] for of in (np.min, np.max))
    assert (first[0], last[2]) == pytest.approx((0.0, 0.06), abs=1e-12)
    assert (first[1:] <= last[:2]).all(), "no gap between links"
    assert (np.abs([first[1:], last[:2]] - places[1:3, 0]) < 0.25 * 0.02).all()
    with pytest.raises(geosim.InputError, match="no skin of its own; give fewer links"):
        links_along(bar, np.vstack([places, [[0.2, 6e-3, 5e-3], [0.3, 6e-3, 5e-3]]]))


@pytest.fixture(scope="module")
def written(finger, model, tmp_path_factory):
    """The file of the finger, once for all tests."""
    return geosim.write_mjcf(finger, model, tmp_path_factory.mktemp("mjcf") / "finger.xml", solver=QUICK)


def _mounted(mujoco, path, tilts):
    """Return a scene with the robot of a file at every tilt of a mount, prefixes "f0_", "f1_", ..., 1 m apart."""
    scene = mujoco.MjSpec()
    for i, tilt in enumerate(tilts):
        x, y, z, w = Rotation.from_rotvec(tilt).as_quat()
        arm = scene.worldbody.add_body(name=f"arm_{i}", pos=[i, 0.5, 1.0], quat=[w, x, y, z])
        scene.attach(mujoco.MjSpec.from_file(str(path)), prefix=f"f{i}_", frame=arm.add_frame())
    return scene.compile()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Attach conflict")
def test_on_an_arm_at_any_tilt_the_tip_is_where_the_file_states(finger, model, written):
    """Five tilts, two gravities, steps of 2, 5 and 10 ms, two integrators: gravity acts once, as in geosim."""
    mujoco = pytest.importorskip("mujoco", reason="mujoco is not installed: pip install '.[mujoco]'")
    tilts = np.array([[0.0, 0, 0], [0, 1.2, 0], [0, -1.6, 0.3], [2.2, 0, 0], [0.9, 0.9, -0.7]])
    turns = Rotation.from_rotvec(tilts)
    scene = _mounted(mujoco, written, tilts)
    stated, motion = (float(scene.numeric(f"f0_{name}").data[0]) for name in ("tip_mismatch", "tip_motion"))
    assert stated < 0.07 * motion == pytest.approx(0.07 * model.motion)
    for g in (9.81, 3.71):
        own = turns.inv().apply([0.0, 0.0, -g])  # gravity in the axes of the mounts
        exact = [
            geosim.solve(finger, model.actuation([0.07]), geosim.Environment(gravity=tuple(v)), solver=QUICK).tip[-1]
            for v in own
        ]
        places = turns.apply(exact) + np.column_stack([np.arange(5), np.full(5, 0.5), np.ones(5)])
        sag = np.linalg.norm(np.array(exact) - model([0.07]).tip, axis=1)
        assert sag.max() > (2.0 if g > 5.0 else 1.0) * stated
        for integrator in (mujoco.mjtIntegrator.mjINT_IMPLICITFAST, mujoco.mjtIntegrator.mjINT_EULER):
            for step in (2e-3, 5e-3, 10e-3):
                scene.opt.gravity[:], scene.opt.timestep, scene.opt.integrator = (0.0, 0.0, -g), step, integrator
                data = mujoco.MjData(scene)
                data.ctrl[:] = 0.07
                for _ in range(round(1.5 / step)):
                    mujoco.mj_step(scene, data)
                assert np.abs(data.qvel).max() < 1e-4
                tips = np.array([data.site(f"f{i}_tip").xpos for i in range(5)])
                assert (np.linalg.norm(tips - places, axis=1) <= stated).all()
    held = finger.vertices[finger.fixed].mean(axis=0)
    for i, turn in enumerate(turns):
        mount = turn.apply(held) + (i, 0.5, 1.0)
        assert np.linalg.norm(data.site(f"f{i}_base").xpos - mount) < 0.1 * finger.size


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Attach conflict")
def test_two_fingers_touch_each_other_and_not_themselves(written):
    mujoco = pytest.importorskip("mujoco", reason="mujoco is not installed: pip install '.[mujoco]'")
    scene = mujoco.MjSpec()
    for name, height in (("low", 0.0), ("high", 12e-3)):
        scene.attach(
            mujoco.MjSpec.from_file(str(written)), prefix=name, frame=scene.worldbody.add_frame(pos=[0, 0, height])
        )
    scene.option.gravity = [0, 0, 0]
    made = scene.compile()
    data = mujoco.MjData(made)
    mujoco.mj_forward(made, data)
    pairs = {tuple(sorted(made.geom(g).name for g in data.contact[i].geom)) for i in range(data.ncon)}
    assert pairs
    assert all(one.startswith("high") and two.startswith("low") for one, two in pairs)


@pytest.mark.slow
def test_the_file_is_xml_and_says_its_mismatch_in_words(finger, model, written, tmp_path):
    text = written.read_text(encoding="utf-8")
    assert "% of its largest way" in text.splitlines()[0]
    assert "spec.attach" in text
    root = ElementTree.fromstring(text)
    assert len(root.findall(".//joint[@type='hinge']")) == 12
    masses = sum(float(body.get("mass")) for body in root.findall(".//inertial"))
    corners = finger.vertices[finger.body_tets]
    volume = np.linalg.det(corners[:, 1:] - corners[:, :1]).sum() / 6.0
    assert masses == pytest.approx(next(iter(finger.materials.values())).density * volume, rel=1e-6)
    other = geosim.generate.tendon_finger(joints=1, length=50e-3).robot("ecoflex-00-30-fang2022", max_edge=20e-3)
    with pytest.raises(geosim.InputError, match="another mesh"):
        geosim.write_mjcf(other, model, tmp_path / "other.xml")
    with pytest.raises(geosim.InputError, match=r"must end in \.xml"):
        geosim.write_mjcf(finger, model, tmp_path / "finger.txt")
    with pytest.raises(geosim.InputError, match=r"gravity \[0.0, 0.0, -9.81\] m/s\^2 and the model \[0.0, 0.0, 0.0\]"):
        geosim.write_mjcf(finger, model, tmp_path / "g.xml", environment=geosim.Environment(gravity=(0, 0, -9.81)))


@pytest.mark.slow
def test_contacts_are_as_hard_as_what_presses_them(written):
    """A finger pulled against a wall presses as hard as on one that gives nothing, to 2 %; with MuJoCo's contacts 10 % less."""
    mujoco = pytest.importorskip("mujoco", reason="mujoco is not installed: pip install '.[mujoco]'")

    def pressed(time_constant=None):
        """Force on the wall [N] and how deep it is entered [m]."""
        spec = mujoco.MjSpec.from_file(str(written))
        plane = mujoco.mjtGeom.mjGEOM_PLANE
        spec.worldbody.add_geom(name="wall", type=plane, pos=[0, 0, 0.016], quat=[0, 1, 0, 0], size=[1, 1, 0.1])
        scene = spec.compile()
        if time_constant is not None:
            scene.geom_solref[:, 0] = time_constant
        data, wrench, force = mujoco.MjData(scene), np.zeros(6), 0.0
        data.ctrl[:] = 0.12
        for _ in range(750):
            mujoco.mj_step(scene, data)
        assert np.abs(data.qvel).max() < 1e-4
        for i, contact in enumerate(data.contact):
            assert "wall" in (scene.geom(g).name for g in contact.geom)
            mujoco.mj_contactForce(scene, data, i, wrench)
            force += wrench[0]
        return force, -min(contact.dist for contact in data.contact)

    (own, depth), (soft, deeper) = pressed(), pressed(0.02)
    rigid = own + (own - soft) * depth / (deeper - depth)  # the spring of the finger loses force with the depth
    assert 0.98 * rigid < own < rigid
    assert soft < 0.9 * rigid
    assert depth < 0.02e-3


@pytest.mark.slow
def test_a_scene_of_another_gravity_than_the_model_is_named(model, written):
    """MuJoCo names both where a finger made without gravity is attached; that of the scene acts, as the file says."""
    mujoco = pytest.importorskip("mujoco", reason="mujoco is not installed: pip install '.[mujoco]'")
    assert model.gravity == (0.0, 0.0, 0.0)
    scene = mujoco.MjSpec()
    scene.attach(mujoco.MjSpec.from_file(str(written)), prefix="f_", frame=scene.worldbody.add_frame())
    with pytest.warns(UserWarning, match=r"gravity: parent has 0 0 -9.81.*child has 0 0 0, keeping parent value"):
        made = scene.compile()
    np.testing.assert_array_equal(made.opt.gravity, [0.0, 0.0, -9.81])
    assert "gravity of the scene up to 9.81 m/s^2" in written.read_text(encoding="utf-8")
