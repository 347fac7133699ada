"""A user in a real browser: every control, an empty console, no other host, and files that say what the label says.

    python -m pytest -n 0 tests/apps/studio/controls.py

Takes one to two minutes and needs Chromium; the suite itself has one page of this kind, `tests/apps/studio/test_page.py`.
"""

from __future__ import annotations

import base64
import signal
import subprocess
import sys
import time
from urllib.parse import urlsplit

import pytest

pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'geosim[studio]'")
pytest.importorskip("websockets", reason="websockets is not installed: pip install 'geosim[studio]'")
pytest.importorskip("optuna", reason="optuna is not installed: pip install 'geosim[study]'")

import numpy as np
from apps.studio.chromium import CHROMIUM, Browser, saves_what_it_shows

from geosim.apps.studio.frames import packed
from geosim.apps.studio.live import problem_files
from geosim.apps.studio.scene import of_design
from geosim.files.archive import load_result

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")

SMALL = {"chambers": 1, "pressure_kpa:0": 2.0, "steps": 2, "mesh": "edges", "max_edge_mm": 20.0}


CENTRE_OF_OBJECT = """(() => {
  const p = shown.around[0].points, c = [0, 0, 0], b = $('view').getBoundingClientRect();
  for (let i = 0; i < p.length; i++) c[i % 3] += 3 * p[i] / p.length;
  const v = view.onScreen(c);
  return [b.x + v[0], b.y + v[1]];
})()"""


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    """The address of a studio of a small finger, the folder where it was started, and its process."""
    folder = tmp_path_factory.mktemp("studio")
    problem_files(of_design("pneunet", SMALL), folder / "given")
    command = [sys.executable, "-m", "geosim", "studio", "given/robot.toml", "--no-browser"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield process.stdout.readline().strip(), folder, process
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0


@pytest.fixture
def browser():
    made = Browser()
    yield made
    made.close()


def test_every_control_does_what_it_says(studio, browser, tmp_path):
    address, folder, _ = studio
    page = browser
    page.open(address)
    converged = "document.getElementById('label').textContent.startsWith('converged')"
    page.until(converged)
    page.until("Object.keys(run.bars).length === 2")
    assert page.run("document.querySelector('#curve polygon') !== null"), "the error bar has a band"

    # saved files are those that were solved
    saves_what_it_shows(page, folder)

    # view: colours, cut, ruler, rest shape, frames
    for key in ("stretch", "stress", "displacement"):
        page.run(f"$('key').value = '{key}'; $('key').onchange()")
    page.run("$('cut').value = '1'; $('cut').onchange(); $('depth').value = 400; $('depth').oninput()")
    assert not page.run("$('depth').hidden")
    page.run("$('cut').value = ''; $('cut').onchange(); $('ghost').click(); $('ghost').click(); $('home').click()")
    box = page.run("(() => { const b = $('view').getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; })()")
    middle = box[0] + box[2] / 2, box[1] + box[3] / 2
    page.run("$('measure').click()")
    for dx in (-20, 25):
        page.drag((middle[0] + dx, middle[1]), (middle[0] + dx, middle[1]), steps=1)
    page.until("$('length').textContent.endsWith('mm')")
    page.run("$('measure').click()")
    page.run("$('slider').value = 0; $('slider').oninput()")
    assert page.run("shown.step") == 1
    page.run("$('play').click()")
    page.until("shown.step === 2 && $('play').textContent === 'Play'")
    page.run("$('x').value = 'load'; $('x').onchange(); $('y').value = 'tip_z_mm'; $('y').onchange()")
    page.until("$('curve').firstChild.getAttribute('aria-label').startsWith('tip z')")
    page.run("$('pin').click()")
    assert page.run("pins.length") == 1
    page.run("document.activeElement.blur()")
    for key, text, done in ((" ", " ", "timer !== null"), ("p", "p", "pins.length === 2"), ("r", "r", "view !== null")):
        page.press(key, text=text)
        page.until(done)
    page.until("timer === null")
    page.run("$('pins').querySelector('button').click()")
    assert page.run("pins.length") == 1

    # questions
    page.run("$('script').click()")
    assert "generate.make" in page.run("$('code').textContent")
    page.run("$('shell').click()")
    page.run("$('sense').click()")
    page.until("Object.keys(sensed).length >= 7")
    assert page.run("sensed.wall_mm.slope") < 0.0, "a thicker wall bends less"
    page.run("$('degrees').value = 3; $('reach').click()")
    page.until("$('answer').textContent.includes('reached')")
    page.until("Math.abs((shown.row.bend_angle_deg || 0) - 3) < 0.05 && shown.level !== 'rest'")
    page.run("$('tick-wall_mm').click(); $('trials').value = 1; $('search').click()")
    page.until("$('answer').textContent.includes('designs solved')")
    page.until("!$('report').hidden")

    # knobs: the keyboard, a number, what cannot be, an object that is dragged
    page.run("$('knob-pressure_kpa:0').focus()")
    before = page.run("scene.number")
    page.press("ArrowRight")
    page.until(f"scene.number > {before} && shown.number === scene.number && shown.level !== 'rest'")
    page.run("(() => { const n = $('knob-wall_mm-number'); n.value = 30; n.onchange(); })()")
    page.until("$('sentence').textContent.includes('wall')")
    page.run("$('knob-object').value = 'sphere'; $('knob-object').onchange()")
    page.until("scene.knobs.some((k) => k.key === 'object_x_mm')")
    page.until("shown.around.length >= 1 && shown.level === 'preview'")
    x = page.run("scene.knobs.find((k) => k.key === 'object_x_mm').now")
    where = page.run(CENTRE_OF_OBJECT)
    page.drag((where[0], where[1]), (where[0] + 40, where[1]))
    page.until(f"scene.knobs.find((k) => k.key === 'object_x_mm').now !== {x}")
    assert page.run("pins[0].frame.number < scene.number && $('curve').querySelectorAll('polyline').length") >= 2
    page.run("$('reach').click()")
    page.until("!$('stop').hidden")
    page.run("$('stop').click()")
    page.until("$('answer').textContent === 'stopped'")

    # a lost connection comes back
    page.run("socket.close()")
    page.until("!$('offline').hidden")
    page.until("$('offline').hidden")
    assert page.run("!$('report').hidden && $('report').href.includes('/report?token=')"), "of the search that was made"
    page.picture(tmp_path / "studio.png")

    assert page.console == []
    own = urlsplit(address).netloc
    assert {urlsplit(r).netloc for r in page.requests if not r.startswith(("data:", "blob:"))} == {own}


COPY = """(() => {
  $('script').click(); $('copy').scrollIntoView();
  const b = $('copy').getBoundingClientRect();
  return [b.x + b.width / 2, b.y + b.height / 2];
})()"""
CHOSEN = """(() => {{ const k = $('knob-{0}'); k.value = '{1}'; k.onchange(); }})()"""
MOST_BENT = """Math.max(...run.frames.filter((f) => f.body.triangles.length === shown.body.triangles.length)
  .map((f) => f.row.bend_angle_deg))"""
DRAGGED = """(() => {{ const k = $('knob-{0}'); k.value = {1}; k.oninput(); }})()"""
TURNED = """(() => {{ const n = $('knob-{0}-number'); n.value = {1}; n.onchange(); }})()"""


def now(key):
    return f"scene.knobs.find((k) => k.key === '{key}').now"


def test_what_is_chosen_is_solved(studio, browser):
    """Copying, the mesh, gravity, volumes in place of pressures, and a command that cannot be reached."""
    page = browser
    page.call("Emulation.setFocusEmulationEnabled", enabled=True)  # a page copies only while it is looked at
    page.call("Browser.grantPermissions", permissions=["clipboardSanitizedWrite"], origin=studio[0].rpartition("/")[0])
    page.open(studio[0])
    page.until("shown !== null && shown.level !== 'rest'")
    where = page.run(COPY)
    page.drag(where, where, steps=1)
    page.until("$('copy').textContent === 'Copied'")
    page.run(CHOSEN.format("object", "none"))
    page.run(TURNED.format("wall_mm", 2.0))
    page.run(TURNED.format("pressure_kpa:0", 2.0))
    converged = "shown.number === scene.number && $('label').textContent.startsWith('converged')"
    preview = "shown.number === scene.number && shown.level === 'preview'"
    page.until(f"{now('wall_mm')} === 2 && {converged}")
    straight = page.run("shown.row.tip_z_mm")
    page.run(CHOSEN.format("gravity", page.run("scene.knobs.find((k) => k.key === 'gravity').choices[1]")))
    page.until(f"{now('gravity')} !== 'none' && {converged}")
    assert abs(page.run("shown.row.tip_z_mm") - straight) > 1e-3, "a finger of silicone sags"
    page.run(CHOSEN.format("gravity", "none"))
    page.run(CHOSEN.format("material", "smooth-sil-950"))
    page.until(f"{now('material')} === 'smooth-sil-950' && {converged}")
    stiff = page.run("shown.row.bend_angle_deg")
    page.run(CHOSEN.format("material", "ecoflex-00-30-fang2022"))
    page.until(f"{now('material')} === 'ecoflex-00-30-fang2022' && {preview}")
    assert page.run("$('label').textContent").startswith("preview")
    assert page.run("shown.row.bend_angle_deg") > 1.5 * stiff, "a softer finger bends more"
    page.until(f"run.frames.filter((f) => f.level === 'preview' && f.checked).length === 2 && {converged}")

    # a slider that is dragged follows the path, down and up, before anything is solved
    for pressure in (1.2, 1.6):
        page.run(DRAGGED.format("pressure_kpa:0", pressure))
        assert page.run("$('label').textContent") == "between solved frames"
        assert 0.5 * page.run(MOST_BENT) < page.run("shown.row.bend_angle_deg") < 0.95 * page.run(MOST_BENT)
        page.until(f"{now('pressure_kpa:0')} === {pressure} && {preview}")

    page.run(CHOSEN.format("drive", "volume"))
    page.until("scene.knobs.some((k) => k.key === 'volume_ratio:0')")
    page.run(TURNED.format("volume_ratio:0", 1.1))
    page.until(f"{now('volume_ratio:0')} === 1.1 && {preview}")
    page.until("Math.abs(shown.row.volume_ratio_1 - 1.1) < 1e-3")
    page.run(CHOSEN.format("drive", "pressure"))
    page.until("scene.knobs.some((k) => k.key === 'pressure_kpa:0')")
    page.run(CHOSEN.format("mesh", "preview"))
    page.until(f"{now('mesh')} === 'preview' && {preview}")
    page.run(CHOSEN.format("mesh", "edges"))
    page.until("scene.knobs.some((k) => k.key === 'max_edge_mm')")
    page.run(TURNED.format("max_edge_mm", 20))
    page.run(TURNED.format("pressure_kpa:0", 400))
    page.until("/limit|not reached|stopped|stretch|maximum|UNSTABLE|NOT/i.test($('sentence').textContent)")
    assert page.run("document.querySelector('#view canvas') !== null"), "the last shape on the way stays"
    assert page.console == []


def test_an_object_that_a_finger_meets_pushes_back(studio, browser, tmp_path):
    """Grip: a plane below the finger, then a sphere with friction; the force is written beside the robot, and the ghost stays."""
    page = browser
    page.open(studio[0])
    page.until("scene !== null && shown !== null && shown.level !== 'rest'")
    page.run(CHOSEN.format("mesh", "edges"))
    page.run(TURNED.format("pressure_kpa:0", 3.0))
    page.run(CHOSEN.format("object", "plane"))
    page.until(
        "scene.knobs.some((k) => k.key === 'object_friction') && !scene.knobs.some((k) => k.key === 'object_radius_mm')"
    )
    done = "shown.number === scene.number && shown.level === 'preview'"
    page.until(f"shown.row.obstacle_force_z_n_1 !== undefined && {done}")
    for key, value in (("object_friction", 0.0), ("object_z_mm", -0.1)):
        page.run(TURNED.format(key, value))
    page.until(f"{now('object_friction')} === 0 && {done} && Math.abs(shown.row.obstacle_force_z_n_1) > 1e-4")
    assert "force on the object" in page.run("$('facts').textContent")
    page.run("$('pin').click()")
    for shape in ("none", "sphere"):  # it begins beside the robot, where an object stood that is gone
        page.run(CHOSEN.format("object", shape))
        page.until(f"{now('object')} === '{shape}'")
    page.run(TURNED.format("object_radius_mm", 8.0))
    page.run(TURNED.format("object_friction", 0.8))
    page.until(f"{now('object_friction')} === 0.8 && {done}")
    assert page.run("pins.length === 1 && pins[0].frame.number < shown.number")
    page.picture(tmp_path / "grip.png")
    assert page.console == []


ROD = """kind = "rod-shell"
units = "mm"
limbs = [{ start = [0, 0, 0], end = [200, 0, 0], nodes = 21 }]
[rod]
radius = 4.0
material = { model = "linear-elastic", youngs_modulus = 1e6, poisson_ratio = 0.5, density = 1000.0 }
[fixed]
ids = [0, 1]
edges = [0]
[environment]
gravity = [0, 0, -9.81]
[solver]
dt = 0.005
"""
SNAKE = """kind = "snake"
units = "mm"
[snake]
links = 2
[environment]
gravity = [0, 0, -9.81]
obstacles = [{ shape = "plane", point = [0, 0, 0], normal = [0, 0, 1], friction = 0.2 }]
"""
GAIT = "[undulatory_gait]\namplitude_kpa = 40.0\nfrequency = 0.5\nphase_lag = 1.5\nduration = 1.0\n"
CURVATURE = "[natural_shape]\ntimes = [0.1, 0.3]\ncurvature = [0.0, 10.0]\n"


@pytest.mark.parametrize(
    ("robot", "actuation", "knob", "value"),
    [
        (ROD, CURVATURE, "actuation.natural_shape.curvature.-1", 20.0),
        (SNAKE, GAIT, "actuation.undulatory_gait.frequency", 0.8),
    ],
    ids=["rod", "snake"],
)
def test_curvatures_and_gaits_are_turned_and_played(browser, tmp_path, robot, actuation, knob, value):
    (tmp_path / "robot.toml").write_text(robot)
    (tmp_path / "actuation.toml").write_text(actuation)
    command = [sys.executable, "-m", "geosim", "studio", str(tmp_path / "robot.toml"), "--no-browser"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    page = browser
    try:
        page.open(process.stdout.readline().strip())
        done = "shown.number === scene.number && $('label').textContent.startsWith('converged')"
        page.until(f"shown !== null && scene !== null && {done}")
        before = page.run("JSON.stringify(shown.row)")
        page.run(
            f"(() => {{ const n = document.getElementById('knob-{knob}-number'); n.value = {value}; n.onchange(); }})()"
        )
        page.until(f"{now(knob)} === {value} && {done}")
        assert page.run("JSON.stringify(shown.row)") != before
        page.run("$('slider').value = 0; $('slider').oninput(); $('play').click()")
        page.until("$('play').textContent === 'Play' && shown.step > 1")
        page.picture(tmp_path / "played.png")
        assert page.console == []
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


@pytest.mark.parametrize(("width", "height", "dark"), [(390, 844, False), (1280, 800, True)])
def test_small_and_dark_screens_show_everything(studio, tmp_path, width, height, dark):
    page = Browser(width, height, dark)
    try:
        page.open(studio[0])
        page.until("shown !== null && scene !== null")
        assert page.run("document.documentElement.scrollWidth <= innerWidth"), "nothing runs off the side"
        bright = page.run("getComputedStyle(document.body).backgroundColor")
        assert (bright == "rgb(255, 255, 255)") is not dark
        page.picture(tmp_path / "screen.png")
        for part in ("knobs", "view", "curve", "save"):
            assert page.run(f"$('{part}').getBoundingClientRect().width > 30")
        if width > 1020:  # a row of controls that wraps takes its place from the robot, and does not leave the page
            page.run("$('cut').value = '0'; $('cut').onchange()")
            page.until("$('home').getBoundingClientRect().bottom <= innerHeight", 20.0)
            page.picture(tmp_path / "cut.png")
        assert page.console == []
    finally:
        page.close()


def test_a_hundred_thousand_triangles_are_drawn_coloured_and_turned(studio, tmp_path):
    """A sphere of 101 250 triangles takes the place of the last frame; a picture of the page is not that of the robot."""
    page = Browser()
    try:
        page.open(studio[0])
        page.until("Object.keys(run.bars).length === 2")  # no other frame comes
        page.picture(tmp_path / "before.png")
        rows, around = 225, 225
        polar, angle = np.meshgrid(
            np.linspace(0, np.pi, rows + 1), 2 * np.pi * np.arange(around) / around, indexing="ij"
        )
        points = 40.0 * np.stack([np.sin(polar) * np.cos(angle), np.sin(polar) * np.sin(angle), np.cos(polar)], axis=2)
        corner = np.arange((rows + 1) * around).reshape(rows + 1, around)
        a, b, c, d = (np.roll(corner, -k, axis=1)[i : rows + i].ravel() for i, k in ((0, 0), (1, 0), (1, 1), (0, 1)))
        triangles = np.vstack([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)])
        assert len(triangles) >= 100_000
        flat = points.reshape(-1, 3)
        arrays = {"body.triangles": triangles, "body.rest": flat, "body.points": 1.2 * flat, "body.stress": flat[:, 2]}
        view = {"eye": [-0.45, -1.0, 0.45], "light": [-0.25, -0.6, 0.75], "up": [0, 0, 1]}
        header = {"say": "frame", "level": "preview", "step": 2, "steps": 2, "now": True, "failed": False, "row": {}}
        header |= {"number": page.run("scene.number"), "solid": True, "around": [], "view": view, "tets": 1}
        text = base64.b64encode(packed(header, arrays)).decode()
        script = f"arrived(decoded(Uint8Array.from(atob('{text}'), (c) => c.charCodeAt(0)).buffer))"
        began = "const began = performance.now();"
        seconds = page.run(f"(() => {{ {began} {script}; return (performance.now() - began) / 1000; }})()")
        assert page.run("shown.body.triangles.length") == 3 * len(triangles)
        page.run("$('key').value = 'stress'; $('key').onchange(); $('cut').value = '0'; $('cut').onchange()")
        box = page.run(
            "(() => { const b = $('view').getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        page.drag((box[0], box[1]), (box[0] + 80, box[1] + 20))
        page.picture(tmp_path / "many.png")
        assert page.run("shown.body.triangles.length") == 3 * len(triangles), "it is the sphere that was turned"
        assert (tmp_path / "many.png").read_bytes() != (tmp_path / "before.png").read_bytes()
        assert seconds < 5.0, "the page stands still for longer than a user waits, also on a machine with other work"
        assert page.console == []
    finally:
        page.close()


def test_a_page_that_comes_later_sees_what_is_known(studio):
    page = Browser()
    try:
        begin = time.monotonic()
        page.open(studio[0])
        page.until("shown !== null && shown.level !== 'rest'")
        assert page.run("run.frames.length") >= 1
        assert time.monotonic() - begin < 60
    finally:
        page.close()


def test_the_page_of_a_result_shares_the_viewer_and_draws(studio, tmp_path):
    folder = tmp_path / "result"
    load_result(studio[1] / "kept" / "result" / "result.npz").html(folder.with_suffix(".html"))
    page = Browser()
    try:
        page.open(folder.with_suffix(".html").as_uri())
        page.until("document.querySelector('#view canvas') !== null && $('where').textContent.includes('displacement')")
        page.run("$('slider').value = 0; $('slider').dispatchEvent(new Event('input')); $('cut').value = '0'")
        page.run("$('cut').onchange()")
        assert "frame 0" in page.run("$('where').textContent")
        page.run("$('measure').click(); $('measure').click(); $('play').click()")
        page.until("$('play').textContent === 'Play'")
        page.picture(tmp_path / "page.png")
        assert page.console == []
    finally:
        page.close()
