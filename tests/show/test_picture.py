"""Pictures and pages: they are written, show what they claim, and need neither a display nor a network."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
import warnings

import matplotlib.image
import numpy as np
import pytest
from bending import bent_result

import geosim
from geosim import InputError, Result, Status
from geosim.errors import GeosimWarning
from geosim.show import picture as render
from geosim.show.raster import Camera, Layer, camera_for, draw


@pytest.fixture(scope="module")
def result() -> Result:
    return bent_result()


FRONT = Camera(np.array([[1.0, 0, 0], [0, 0, 1.0], [0, -1.0, 0]]), np.zeros(3), (4.0, 4.0))  # seen from -y
SQUARE = np.array([[0, 1, 2], [0, 2, 3]])


def square(y: float, half: float) -> np.ndarray:
    return np.array([[-half, y, -half], [half, y, -half], [half, y, half], [-half, y, half]])


def test_the_nearer_surface_hides_the_other_whatever_the_order():
    red = Layer(square(0.0, 1.0), SQUARE, np.array([1.0, 0, 0]))
    blue = Layer(square(-1.0, 0.5), SQUARE, np.array([0, 0, 1.0]))
    for layers in ([red, blue], [blue, red]):
        image = draw(layers, FRONT, (80, 80))
        assert image[40, 40] @ [0, 0, 1] > 0.5 > image[40, 40] @ [1, 0, 0]  # blue is 1 m nearer
        assert image[40, 25] @ [1, 0, 0] > 0.5 > image[40, 25] @ [0, 0, 1]  # red shows beside it
        assert np.all(image[2, 2] == 1.0)


def test_the_area_in_the_image_is_the_area_of_the_surface():
    image = draw([Layer(square(0.0, 1.0), SQUARE, np.array([1.0, 0, 0]))], FRONT, (100, 100))
    assert (image[..., 2] < 0.99).mean() == pytest.approx(0.25, abs=0.02)


def test_a_ghost_does_not_hide():
    body = Layer(square(0.0, 1.0), SQUARE, np.array([1.0, 0, 0]))
    ghost = Layer(square(-1.0, 1.5), SQUARE, np.array([0.5, 0.5, 0.5]), 0.3)
    with_ghost, alone = draw([body, ghost], FRONT, (80, 80)), draw([body], FRONT, (80, 80))
    assert np.allclose(with_ghost[40, 40], alone[40, 40])
    assert np.all(with_ghost[40, 14] < 1.0)  # seen where nothing else is


def test_the_camera_looks_across_the_plane_of_the_motion():
    angle = np.linspace(0, 1.5, 40)
    arc = np.stack([np.sin(angle), np.zeros(40), np.cos(angle)], axis=1)
    camera = camera_for(arc, arc)
    assert abs(camera.axes[2] @ [0, 1, 0]) > 0.85
    assert np.allclose(camera.axes @ camera.axes.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(camera.axes) == pytest.approx(1.0)
    flat = camera.project(arc)[:, :2]
    assert np.all(np.abs(flat) <= 0.5 * np.array(camera.extent))
    turned = camera_for(arc[:, [1, 0, 2]], arc[:, [1, 0, 2]])
    assert abs(turned.axes[2] @ [1, 0, 0]) > 0.85
    hanging = camera_for(arc, arc, up=(1.0, 0.0, 0.0))
    assert hanging.axes[1] @ [1, 0, 0] > 0.8


@pytest.mark.parametrize("color", ["displacement", "stretch"])
def test_a_picture_is_written_without_a_display(result, tmp_path, color, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    image = matplotlib.image.imread(render.plot(result, tmp_path / "p.png", color=color, renderer="matplotlib"))
    assert image.shape[0] > 600
    assert image.shape[1] > 1000
    drawn = (image[..., :3].min(axis=2) < 0.95).mean()
    assert 0.1 < drawn < 0.8
    assert [p.name for p in tmp_path.iterdir()] == ["p.png"]


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
        ("p.png", {"renderer": "ray"}, "ray"),
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


def test_a_vtk_that_dies_is_reported_and_replaced(result, tmp_path, monkeypatch):
    def died(*arguments, **options):
        return subprocess.CompletedProcess(arguments, -11, "", "")

    monkeypatch.setattr(render.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(render.subprocess, "run", died)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        path = render.plot(result, tmp_path / "p.png")
    assert path.stat().st_size > 20_000
    assert [w.category for w in caught if issubclass(w.category, GeosimWarning)] == [GeosimWarning]


def test_the_page_holds_everything_and_asks_the_network_for_nothing(result, tmp_path):
    text = result.html(tmp_path / "view.html").read_text(encoding="utf-8")
    own = re.sub(r"<script>.*?</script>", "", text, count=1, flags=re.S)  # without plotly.js
    assert "http" not in own
    assert "src=" not in own
    data = json.loads(re.search(r"const D = (\{.*?\});\n", text, re.S).group(1))
    assert len(data["frames"]) == len(data["rows"]) == 4
    assert data["columns"][:3] == ["frame", "load", "status"]
    assert len(data["residuals"]) == 4
    assert data["message"] == Status.CONVERGED.value


def test_a_name_cannot_break_out_of_the_page(result, tmp_path):
    evil = "</script><script>alert(1)</script>"
    robot = dataclasses.replace(result.robot, name=evil)
    changed = dataclasses.replace(result, robot=robot, message=evil)
    assert evil not in changed.html(tmp_path / "v.html").read_text(encoding="utf-8")
    assert evil not in changed._repr_html_()


def test_a_long_motion_is_thinned_and_says_so(tmp_path):
    long = bent_result(1)
    many = dataclasses.replace(
        long,
        **{
            f.name: np.repeat(getattr(long, f.name), 150, axis=0)
            for f in dataclasses.fields(long)
            if isinstance(getattr(long, f.name), np.ndarray)
        },
    )
    text = many.html(tmp_path / "v.html").read_text(encoding="utf-8")
    assert "60 of 150 frames are drawn" in text


def test_notebooks_show_status_picture_and_table(result):
    text = result._repr_html_()
    assert "CONVERGED" in text
    assert "data:image/png;base64," in text
    assert "volume_ratio_1" in text


def test_the_package_does_not_load_pictures_until_asked():
    code = "import geosim, sys; print([m for m in ('matplotlib', 'plotly', 'pyvista', 'trimesh') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
    assert geosim.__version__
