"""Pictures and pages: they are written, show what they claim, and need neither a display nor a network."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import shutil
import struct
import subprocess
import sys
import types
import zlib

import matplotlib.figure
import matplotlib.image
import meshio
import numpy as np
import pytest
import trimesh
from bending import bent_result
from shapes import block

import geosim
import geosim.resources
from geosim import InputError, Result, Status
from geosim.geometry import topology
from geosim.show import fields
from geosim.show import picture as render
from geosim.show.contact import force_arrows
from geosim.show.fields import max_stretch, shown_surface
from geosim.show.glb import glb
from geosim.show.overlay import overlay
from geosim.show.raster import Camera, RasterLayer, camera_for, draw
from geosim.show.sheet import THEMES


@pytest.mark.slow
def test_of_two_results_neither_hides_the_other(tmp_path, result):
    """One that is thinner and inside the other colours a fifth of it, not its outline alone, whichever comes first."""
    inside = result.frames.mean(axis=1, keepdims=True)
    thin = dataclasses.replace(result, frames=inside + 0.7 * (result.frames - inside), mid_edge_frames=None)
    thick = dataclasses.replace(result, mid_edge_frames=None)
    drawn = lambda *pair: matplotlib.image.imread(overlay(*pair, tmp_path / "both.png"))[120:, :, :3]  # noqa: E731
    alone = drawn(thick, thick)
    area = (np.ptp(alone, axis=2) > 0.05).sum()
    for pair in ((thick, thin), (thin, thick)):
        changed = np.abs(drawn(*pair) - alone).max(axis=2) > 0.1
        assert changed.sum() > 0.2 * area, pair


@pytest.fixture(scope="module")
def result() -> Result:
    return bent_result()


FRONT = Camera(np.array([[1.0, 0, 0], [0, 0, 1.0], [0, -1.0, 0]]), np.zeros(3), (4.0, 4.0))  # seen from -y
SQUARE = np.array([[0, 1, 2], [0, 2, 3]])


def square(y: float, half: float) -> np.ndarray:
    return np.array([[-half, y, -half], [half, y, -half], [half, y, half], [-half, y, half]])


def test_the_nearer_surface_hides_the_other_whatever_the_order():
    red = RasterLayer(square(0.0, 1.0), SQUARE, np.array([1.0, 0, 0]))
    blue = RasterLayer(square(-1.0, 0.5), SQUARE, np.array([0, 0, 1.0]))
    for layers in ([red, blue], [blue, red]):
        image = draw(layers, FRONT, (80, 80))
        assert image[40, 40] @ [0, 0, 1] > 0.5 > image[40, 40] @ [1, 0, 0]  # blue is 1 m nearer
        assert image[40, 25] @ [1, 0, 0] > 0.5 > image[40, 25] @ [0, 0, 1]  # red shows beside it
        assert np.all(image[2, 2] == 1.0)


def test_the_area_in_the_image_is_the_area_of_the_surface():
    image = draw([RasterLayer(square(0.0, 1.0), SQUARE, np.array([1.0, 0, 0]))], FRONT, (100, 100))
    assert (image[..., 2] < 0.99).mean() == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize("y", [-1.0, 1.0], ids=["before", "behind"])
def test_a_ghost_is_seen_where_nothing_else_is_and_nowhere_else(y):
    """Neither its surface nor its outline lies over a body: one is within the other, as seen from here."""
    body = RasterLayer(square(0.0, 1.0), SQUARE, np.array([1.0, 0, 0]))
    alone = draw([body], FRONT, (80, 80))
    for half in (0.5, 1.5):
        ghost = RasterLayer(square(y, half), SQUARE, np.array([0.5, 0.5, 0.5]), 0.3, ghost=True)
        both = draw([body, ghost], FRONT, (80, 80))
        assert np.array_equal(both[22:58, 22:58], alone[22:58, 22:58])
        assert (both[40, 14] < 1.0).all() == (half > 1.0)


def test_what_is_translucent_tints_what_is_behind_it_and_not_what_is_before():
    body = RasterLayer(square(0.0, 1.0), SQUARE, np.array([1.0, 0, 0]))
    alone = draw([body], FRONT, (80, 80))[40, 40]
    for y, tinted in ((-1.0, True), (1.0, False)):
        glass = RasterLayer(square(y, 0.5), SQUARE, np.array([0, 0, 1.0]), 0.4)
        assert (draw([body, glass], FRONT, (80, 80))[40, 40] != alone).any() == tinted


def test_flat_walls_are_of_one_shade_up_to_their_edges():
    """A box of many uneven triangles: each of its three visible sides has one colour, and a round wall has many."""
    box = trimesh.creation.box((1.0, 1.0, 1.0)).subdivide().subdivide_to_size(0.2)
    camera = camera_for(box.vertices, box.vertices, 1.5)
    white = np.array([0.8, 0.8, 0.8])
    inside = lambda image: image[(np.ptp(image, axis=2) < 0.05) & (image[..., 0] < 0.99)]  # noqa: E731
    drawn = inside(draw([RasterLayer(box.vertices, box.faces, white)], camera, (120, 80)))
    shades = np.unique(np.round(drawn[:, 0], 3), return_counts=True)
    main = np.sort(shades[1])[::-1]
    assert main[:3].sum() > 0.85 * shades[1].sum()
    ball = trimesh.creation.icosphere(3)
    image = draw(
        [RasterLayer(ball.vertices, ball.faces, white)], camera_for(ball.vertices, ball.vertices, 1.5), (120, 80)
    )
    assert len(np.unique(np.round(inside(image)[:, 0], 3))) > 100


def test_a_dark_picture_has_dark_paper_and_light_words(result):
    dark, light = (np.asarray(result.plot(theme=theme).axes[0].images[0].get_array()) for theme in ("dark", "light"))
    assert dark[:3].max() < 40
    assert light[:3].min() == 255
    assert {text.get_color() for text in result.plot(theme="dark").texts} & {THEMES["dark"].ink, THEMES["dark"].soft}
    with pytest.raises(InputError, match="theme"):
        result.plot(theme="sepia")


def test_chambers_have_the_names_that_they_were_given(result):
    named = dataclasses.replace(result.robot, chamber_names=("upper",))
    assert "V/V0 upper = 1.4, p upper = 4 kPa" in render.title(dataclasses.replace(result, robot=named), -1)
    assert "upper" in [text.get_text() for text in named.plot().texts]
    with pytest.raises(InputError, match="2 names of 1 chambers"):
        dataclasses.replace(result.robot, chamber_names=("upper", "lower"))


def test_names_of_chambers_go_through_files(tmp_path, result):
    """A robot file names them, and a saved result keeps them."""
    folder = tmp_path / "robot"
    shutil.copytree(geosim.resources.resource("meshes") / "finger", folder)
    text = (folder / "robot.toml").read_text(encoding="utf-8")
    assert text.count("[[chambers]]\n") == 1
    (folder / "robot.toml").write_text(
        text.replace("[[chambers]]\n", '[[chambers]]\nname = "main"\n'), encoding="utf-8"
    )
    assert geosim.load_robot(folder / "robot.toml").chamber_names == ("main",)
    named = dataclasses.replace(result, robot=dataclasses.replace(result.robot, chamber_names=("upper",)))
    named.save(tmp_path / "named.npz")
    assert geosim.load_result(tmp_path / "named.npz").robot.chamber_names == ("upper",)


def test_the_arrow_beside_the_drawing_is_as_long_as_arrows_of_its_force(result):
    forces = np.zeros_like(result.frames)
    forces[-1, result.robot.tip, 2] = 0.01
    touched = dataclasses.replace(result, contact_forces=forces)
    look = render.look_of(touched, [len(forces) - 1], "displacement")
    points, _ = force_arrows(touched, len(forces) - 1, look.size, look.newtons)
    sheet = render.draw_frame(touched, len(forces) - 1, look)
    said = next(float(text.said.split()[1]) for text in sheet.texts if text.said.startswith("contact "))
    row = sheet.pixels[round(5.85 * sheet.dpi), round(render.LEGEND_INCHES * sheet.dpi) :]
    drawn_mm = (row != 255).any(axis=1).sum() * sheet.pixel_mm
    longest_mm = 1e3 * max(np.linalg.norm(arrow[-1] - arrow[:8].mean(axis=0)) for arrow in points.reshape(-1, 25, 3))
    assert drawn_mm == pytest.approx(longest_mm * said / look.newtons, rel=0.03)


def test_the_camera_looks_across_the_plane_of_the_motion():
    angle = np.linspace(0, 1.5, 40)
    arc = np.stack([np.sin(angle), np.zeros(40), np.cos(angle)], axis=1)
    camera = camera_for(arc, arc, 1.5)
    assert abs(camera.axes[2] @ [0, 1, 0]) > 0.85
    assert np.allclose(camera.axes @ camera.axes.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(camera.axes) == pytest.approx(1.0)
    flat = camera.project(arc)[:, :2]
    assert np.all(np.abs(flat) <= 0.5 * np.array(camera.extent))
    turned = camera_for(arc[:, [1, 0, 2]], arc[:, [1, 0, 2]], 1.5)
    assert abs(turned.axes[2] @ [1, 0, 0]) > 0.85
    hanging = camera_for(arc, arc, 1.5, up=(1.0, 0.0, 0.0))
    assert hanging.axes[1] @ [1, 0, 0] > 0.8


@pytest.mark.parametrize("color", ["displacement", "stretch"])
def test_a_picture_is_written_without_a_display(result, tmp_path, color, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    image = matplotlib.image.imread(render.plot(result, tmp_path / "p.png", color=color))
    assert image.shape[0] > 600
    assert image.shape[1] > 1000
    drawn = (image[..., :3].min(axis=2) < 0.95).mean()
    assert 0.1 < drawn < 0.8
    assert [p.name for p in tmp_path.iterdir()] == ["p.png"]


def test_without_a_path_a_plot_is_a_figure(result):
    for drawn in (result.plot(), result.plot(frame=0, color="stretch"), result.robot.plot()):
        assert isinstance(drawn, matplotlib.figure.Figure)
        assert np.ptp(np.asarray(drawn.axes[0].images[0].get_array())) > 0, "something is drawn"
    assert [text.get_text() for text in result.plot(frame=0).texts] != [text.get_text() for text in result.plot().texts]


def test_a_result_with_doubts_is_not_plain_green(result, tmp_path):
    """Picture, page and notebook count the doubts beside the status, in the colour of the doubts."""
    inside_out = np.zeros(len(result.frames))
    inside_out[-1] = 5
    doubtful = dataclasses.replace(result, inverted_elements=inside_out)
    assert (len(result.trust()), len(doubtful.trust())) == (0, 1)
    for one, said, colors in (
        (result, "CONVERGED:", {THEMES["light"].soft}),
        (doubtful, "CONVERGED, 1 doubt:", {THEMES["light"].doubt}),
    ):
        assert {text.get_color() for text in one.plot().texts if said in text.get_text()} == colors
    assert '"status": "CONVERGED, 1 doubt"' in re.sub(
        r"\s*:\s*", ": ", doubtful.html(tmp_path / "page.html").read_text()
    )
    assert "#27864f" in result._repr_html_()
    assert "#27864f" not in doubtful._repr_html_()


def test_strains_are_found_where_they_are_shown_alone(result, tmp_path, monkeypatch):
    monkeypatch.setattr(fields, "of_nodes", None)
    result.plot(tmp_path / "moved.png")
    glb(result, 0)
    with pytest.raises(TypeError):
        result.plot(tmp_path / "stretched.png", color="stretch")


@pytest.mark.slow
def test_straight_elements_and_frames_by_number(result, tmp_path):
    first = bent_result(curved=False).plot(tmp_path / "a.png", 0).read_bytes()
    assert first != bent_result(curved=False).plot(tmp_path / "b.png", -1).read_bytes()


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("p.jpg", {}, r"\.png"),
        ("no/p.png", {}, "does not exist"),
        ("p.png", {"frame": 9}, "0 to 3"),
        ("p.png", {"color": "stretches"}, "stretches"),
    ],
)
def test_wrong_requests(result, tmp_path, name, options, words):
    with pytest.raises(InputError, match=words):
        render.plot(result, tmp_path / name, **options)
    assert list(tmp_path.iterdir()) == []


def test_nothing_to_show(result, tmp_path):
    n = len(result.robot.vertices)
    none = Result(Status.NOT_CONVERGED, "stuck", False, np.empty(0), np.empty((0, n, 3)), robot=result.robot)
    for write, name in ((none.plot, "p.png"), (none.html, "p.html")):
        with pytest.raises(InputError, match="stuck"):
            write(tmp_path / name)
    assert "stuck" in none._repr_html_()


def test_the_page_holds_everything_and_asks_the_network_for_nothing(result, tmp_path):
    text = result.html(tmp_path / "view.html").read_text(encoding="utf-8")
    own = re.sub(r"<script>.*?</script>", "", text, count=1, flags=re.S)  # without plotly.js
    assert "http" not in own
    assert "src=" not in own
    data = json.loads(re.search(r"const D = (\{.*?\});\n", text, re.S).group(1))
    assert len(data["body"]["frames"]) == len(data["rows"]) == 4
    assert len(text) < 1_500_000
    assert data["columns"][:3] == ["frame", "load", "status"]
    assert len(data["residuals"]) == 4
    assert data["message"] == Status.CONVERGED.value


def test_the_numbers_of_the_page_are_those_of_the_result(result, tmp_path):
    """Unpacked as a browser does it, positions are right to the width of a number of 16 bits."""
    text = result.html(tmp_path / "view.html").read_text(encoding="utf-8")
    data = json.loads(re.search(r"const D = (\{.*?\});\n", text, re.S).group(1))

    def unpacked(packed, kind, low, high):
        whole = np.frombuffer(zlib.decompress(base64.b64decode(packed)), dtype=kind)
        return whole.reshape(-1, np.size(low)) / 65535 * np.subtract(high, low) + low

    low, high = data["box"]
    shown = shown_surface(result, -1, 1)
    used = np.unique(shown.triangles)
    frame = data["body"]["frames"][-1]
    fine = np.subtract(high, low) / 65535
    assert (np.abs(unpacked(frame["points"], "<u2", low, high) - 1e3 * shown.points[used]) < 0.51 * fine).all()
    ends = data["ranges"]["stretch"]
    stretch = unpacked(frame["stretch"], "<u2", ends[:1], ends[1:])[:, 0]
    np.testing.assert_allclose(stretch, shown.stretch[used], atol=0.51 * (ends[1] - ends[0]) / 65535)


def test_the_walls_of_chambers_look_into_them(result, tmp_path):
    """The page turns walls as it turns the skin, out of the body: a cut then shows the backs of both where there is material."""
    text = result.html(tmp_path / "view.html").read_text(encoding="utf-8")
    data = json.loads(re.search(r"const D = (\{.*?\});\n", text, re.S).group(1))
    low, high = data["box"]
    enclosed = 0.0
    for part in (data["body"], data["walls"]):
        whole = np.frombuffer(zlib.decompress(base64.b64decode(part["rest"])), dtype="<u2").reshape(-1, 3)
        x = whole / 65535 * np.subtract(high, low) + low
        a, b, c = x[np.frombuffer(zlib.decompress(base64.b64decode(part["triangles"])), dtype="<u4").reshape(-1, 3).T]
        enclosed += np.einsum("ij,ij", a, np.cross(b, c)) / 6.0
    robot = result.robot
    volume = topology.tet_volumes(robot.vertices, robot.body_tets).sum()
    assert enclosed == pytest.approx(1e9 * volume, rel=1e-3)


def test_a_glb_holds_every_frame_as_a_morph_target(result, tmp_path):
    """At the time of a frame, rest shape plus target is that frame in metres; the animation takes three seconds from rest."""
    data = result.save(tmp_path / "a.glb").read_bytes()
    magic, version, length, size, kind = struct.unpack("<4sIII4s", data[:20])
    assert (magic, version, length, kind) == (b"glTF", 2, len(data), b"JSON")
    scene, blob = json.loads(data[20 : 20 + size]), data[28 + size :]
    assert len(blob) == scene["buffers"][0]["byteLength"]

    def array(i):
        one = scene["accessors"][i]
        view = scene["bufferViews"][one["bufferView"]]
        kind = {5126: "<f4", 5125: "<u4"}[one["componentType"]]
        bytes_of = blob[view["byteOffset"] : view["byteOffset"] + view["byteLength"]]
        return np.frombuffer(bytes_of, dtype=kind).reshape(one["count"], -1)

    part = scene["meshes"][0]["primitives"][0]
    rest, targets = array(part["attributes"]["POSITION"]), [array(t["POSITION"]) for t in part["targets"]]
    sampler = scene["animations"][0]["samplers"][0]
    seconds = array(sampler["input"])[:, 0]
    assert (seconds[0], seconds[-1]) == (0.0, 3.0)
    for i, time in enumerate(result.times):
        at = np.abs(seconds - 3.0 * time / result.times[-1]).argmin()
        assert seconds[at] == pytest.approx(3.0 * time / result.times[-1], abs=1e-6)
        shown = shown_surface(result, i, 1)
        np.testing.assert_allclose(rest + targets[at - 1], shown.points[np.unique(shown.triangles)], atol=1e-7)
    assert array(part["indices"]).max() == len(rest) - 1
    weights = array(sampler["output"]).reshape(len(array(sampler["input"])), len(targets))
    np.testing.assert_array_equal(weights[1:], np.eye(len(targets)))
    loaded = trimesh.load(tmp_path / "a.glb", force="mesh")
    assert loaded.is_watertight


def test_an_xdmf_holds_all_frames_in_one_file(result, tmp_path):
    path = result.save(tmp_path / "a.xdmf")
    assert [p.name for p in tmp_path.iterdir()] == ["a.xdmf"]
    with meshio.xdmf.TimeSeriesReader(path) as reader:
        points, cells = reader.read_points_cells()
        assert reader.num_steps == len(result.frames)
        for i in range(reader.num_steps):
            time, fields, of_cells = reader.read_data(i)
            assert time == result.times[i]
            np.testing.assert_allclose(points + fields["displacement"], result.nodes(i), atol=1e-12)
            np.testing.assert_allclose(of_cells["max_stretch"][0], max_stretch(result, i), rtol=1e-9)
    assert [(c.type, len(c.data)) for c in cells] == [("tetra10", len(result.robot.body_tets))]


def test_a_name_cannot_break_out_of_the_page(result, tmp_path):
    evil = "</script><script>alert(1)</script>"
    robot = dataclasses.replace(result.robot, name=evil)
    changed = dataclasses.replace(result, robot=robot, message=evil)
    assert evil not in changed.html(tmp_path / "v.html").read_text(encoding="utf-8")
    assert evil not in changed._repr_html_()


def test_a_long_motion_is_thinned_and_says_so(tmp_path):
    vertices, tets = block((0.01, 0.01, 0.01), (1, 1, 1))
    robot = geosim.VolumetricRobot.from_tets(
        vertices, tets, material="ecoflex-00-30-fang2022", fixed=vertices[:, 0] < 1e-9
    )
    many = Result(Status.CONVERGED, "", True, np.arange(150.0), np.repeat(vertices[None], 150, axis=0), robot)
    text = many.html(tmp_path / "v.html").read_text(encoding="utf-8")
    assert "60 of 150 frames are drawn" in text


def test_notebooks_show_status_picture_and_table(result):
    text = result._repr_html_()
    assert '<div style="overflow-x:auto"><table' in text  # a wide table scrolls in its cell
    assert "CONVERGED" in text
    assert "data:image/png;base64," in text
    assert "volume_ratio_1" in text


def test_a_title_says_what_the_robot_did(result):
    """Bent it is called bent; straight, and without a name of its own, it is said how far it moved."""
    assert "bend = " in render.title(result, -1)
    rest = np.repeat(result.robot.vertices[None], len(result.frames), axis=0)
    still = dataclasses.replace(result, frames=rest, mid_edge_frames=np.empty((len(rest), 0, 3)))
    assert "largest displacement 0 mm" in render.title(still, -1)
    assert render.named(result, "moved") == "bar: moved"
    nameless = dataclasses.replace(result.robot, name=render.UNNAMED)
    assert render.named(dataclasses.replace(result, robot=nameless), "moved") == "moved"


def test_a_title_calls_rounding_nothing():
    """Of three chambers the second is at rest but for 1e-13 of the first."""
    values = {"volume_ratios": np.array([[1.5, 1.0, 1.2]]), "chamber_pressures": np.array([[5e3, 3e-10, 2e3]])}
    turned = {
        "bend_angle": np.array([0.5]),
        "twist_angle": np.array([0.0]),
        "grip_force": np.empty((1, 0)),
        "robot": None,
    }
    many = types.SimpleNamespace(**values, **turned, extra={})
    assert "V/V0 = 1 .. 1.5, p = 0 .. 5 kPa" in render.title(many, 0)


@pytest.mark.slow
def test_a_table_in_a_notebook_leaves_out_what_does_not_apply(result):
    unknown = dataclasses.replace(result, body_volume_ratio=np.full(len(result.frames), np.nan))
    assert "body_volume_ratio" in result._repr_html_()
    assert "body_volume_ratio" not in unknown._repr_html_()


def test_a_robot_shows_its_chambers_clamp_and_tip_before_it_is_solved(result, tmp_path):
    robot = result.robot
    path = robot.plot(tmp_path / "rest.png")
    pixels = matplotlib.image.imread(path)[120:, :, :3].reshape(-1, 3)  # below the title
    hue = lambda r, g, b: ((pixels * (r, g, b)).sum(axis=1) > 0.05).sum()  # noqa: E731
    red, green, orange = hue(1, -0.5, -0.5), hue(-0.5, 1, -0.5), hue(0.5, 0.5, -1)
    assert min(red, green, orange) > 200
    text = robot._repr_html_()
    assert "data:image/png;base64," in text
    assert "mm^3" in text
    with pytest.raises(geosim.InputError, match="png"):
        robot.plot(tmp_path / "rest.jpg")


def test_rods_and_snakes_show_themselves():
    rod = geosim.RodShellRobot(
        [[0, 0, 0], [0.1, 0, 0]], radius=5e-3, rod_material=geosim.LinearElastic(youngs_modulus=1e6)
    )
    for robot in (rod, geosim.make_snake()):
        text = robot._repr_html_()
        assert "data:image/png;base64," in text
        assert "vertices" in text


def test_files_of_a_result_load_no_matplotlib(result, tmp_path):
    """A picture, a page, a table and meshes are written without it: to load it takes longer than to write them."""
    result.save(tmp_path / "result.npz")
    code = (
        "import sys, geosim; r = geosim.load_result('result.npz'); r.plot('p.png'); r.html('v.html'); r.save('f.pvd'); "
        "r.save('s.csv'); r.robot.plot('rest.png'); print([m for m in ('matplotlib', 'plotly') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_the_package_does_not_load_pictures_until_asked():
    code = "import geosim, sys; print([m for m in ('matplotlib', 'plotly', 'pyvista', 'trimesh') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
    assert geosim.__version__


@pytest.mark.parametrize("dpi", [80, 100, 125])
def test_each_pixel_of_a_drawing_is_one_of_the_picture(dpi):
    """Noise comes out as it went in, but where scale and axes are drawn over it."""
    width, height = render.pixels(dpi)
    noise = np.random.default_rng(0).integers(0, 256, (height, width, 3)).astype(np.uint8)
    sheet = render.framed(noise / 255.0, camera_for(np.eye(3), np.eye(3), 1.5), dpi)
    figure = sheet.figure()
    figure.canvas.draw()
    whole = np.asarray(sheet.image())
    assert (whole == np.asarray(figure.canvas.buffer_rgba())[..., :3]).all(axis=2).mean() > 0.97
    left, below = round(render.LEFT_INCHES * dpi), round(render.BELOW_INCHES * dpi)
    shown = whole[len(whole) - below - height : len(whole) - below, left : left + width]
    assert (shown == noise).all(axis=2).mean() > 0.97
