"""The page of a result in a browser: its curve, its headings, its motion from rest, and nothing on the console."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

pytest.importorskip("websockets", reason="websockets is not installed: pip install 'geosim[studio]'")

from apps.studio.chromium import CHROMIUM, Browser
from bending import bent_result

import geosim
from geosim import Inflation, generate
from geosim.show.summary import telling_columns


def pressed():
    """A bar of one chamber with a name that presses on its obstacle in the last two of four frames."""
    bent = bent_result(actuation=Inflation(pressure=[1e3, 2e3, 3e3, 4e3]))
    robot = dataclasses.replace(bent.robot, chamber_names=("upper",))
    force = np.array([[0.0], [0.0], [0.2], [0.5]])
    forces = np.zeros_like(bent.frames)
    forces[2:, robot.tip, 2] = 0.01
    return dataclasses.replace(bent, robot=robot, contact_forces=forces, extra={"normal_forces": force})


def test_the_measures_that_are_shown_first_fit_what_the_robot_did():
    """A gripper has a force, a finger an angle, what only swells a displacement; volumes are plotted where they are given."""
    assert telling_columns(pressed()) == ("pressure_kpa_1", ["grip_force_n_1", "bend_angle_deg", "max_displacement_mm"])
    bent = bent_result(actuation=Inflation(volume_ratio=[1.1, 1.2, 1.3, 1.4]))
    assert telling_columns(bent) == ("volume_ratio_1", ["bend_angle_deg", "max_displacement_mm"])
    still = np.repeat(bent.robot.vertices[None], 4, axis=0)
    swollen = dataclasses.replace(bent, frames=still, mid_edge_frames=None)
    assert telling_columns(swollen) == ("volume_ratio_1", ["max_displacement_mm"])


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
def test_a_page_shows_curve_headings_and_motion(tmp_path):
    address = pressed().html(tmp_path / "view.html").as_uri()
    page = Browser()
    try:
        page.open(address)
        page.until("document.querySelector('#view canvas') !== null && $('where').textContent.includes('grip force')")
        where = page.run("$('where').textContent")
        assert where.startswith("frame 3 of 0 .. 3, V/V0 upper 1.4, pressure upper 4 kPa, grip force 0.5 N, bend ")
        heads = page.run("[...document.querySelectorAll('#head th')].map((e) => e.textContent)")
        assert {"pressure upper [kPa]", "bend [°]", "tip x [mm]", "grip force [N]", "solve [s]"} <= set(heads)
        assert not any("_" in head for head in heads)
        assert (
            page.run("$('curve').firstChild.getAttribute('aria-label')")
            == "grip force [N] against pressure upper [kPa]"
        )
        assert page.run("$('curve').querySelectorAll('circle').length") == 4 + 1 + 1, "frames, rest, and the ring"
        assert not page.run("$('evidence').open"), "residuals are folded away"
        assert page.run("$('residuals').querySelectorAll('polyline').length") == 4
        assert page.run("$('arrows').textContent").startswith("contact ")
        page.run("$('slider').value = -1; $('slider').oninput({target: $('slider')})")
        assert page.run("$('where').textContent") == "at rest"
        page.run("$('slider').value = 1.5; $('slider').oninput({target: $('slider')})")
        assert page.run("$('where').textContent") == "between frames 1 and 2"
        page.run("$('play').click()")
        page.until("$('play').textContent === 'Play' && $('where').textContent.startsWith('frame 3')", 30.0)
        assert page.console == []
        assert [r for r in page.requests if not r.startswith(("data:", "blob:", "file:"))] == []
    finally:
        page.close()


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
@pytest.mark.parametrize("kind", ["scan", "markers"])
def test_a_map_of_a_comparison_shows_its_points_and_regions(kind, tmp_path):
    bent = bent_result()
    surface = bent.surface(-1, subdivide=0)
    rng = np.random.default_rng(0)
    if kind == "scan":
        places = np.asarray(surface.sample(2000, seed=1)) + 1e-4 * rng.standard_normal((2000, 3))
        found = geosim.compare.to_scan(bent, places, units="m", register="none")
    else:
        ids = np.arange(0, len(bent.robot.vertices), 4)
        found = geosim.compare.to_markers(bent, bent.frames[-1][ids] + 1e-4, units="m", vertices=ids)
    found.save(tmp_path / "map")
    page = Browser()
    try:
        page.open((tmp_path / "map" / "map.html").as_uri())
        page.until("document.querySelector('#view canvas') !== null && $('bar').textContent.includes('distance [mm]')")
        assert page.run("$('table').textContent") == "Regions"
        assert page.run("document.querySelectorAll('#rows tr').length") == len(found.regions)
        assert page.run("document.querySelector('aside')") is None
        assert page.run("document.querySelector('#where').textContent") == ""
        assert page.console == []
    finally:
        page.close()


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
def test_a_page_shows_cables_at_rest_and_in_every_frame(tmp_path):
    """They are among what stands about the robot, also between two frames, and the console stays empty."""
    design = generate.tendon_arm(edges=8, guides=5, cables=1)
    result = geosim.solve(
        design.robot(), geosim.CableTensions([[0.2], [0.4]]), solver=geosim.RodShellStepper(static=True)
    )
    address = result.html(tmp_path / "view.html").as_uri()
    page = Browser()
    try:
        page.open(address)
        page.until("document.querySelector('#view canvas') !== null && $('where').textContent !== ''")
        has = "D.around.frames.map((f) => f.filter((n) => D.around.surfaces[n][0] === D.around.cable).length)"
        assert page.run(has) == [1, 1, 1], "at rest and in two frames"
        for place in (-1, -0.5, 0.5):
            page.run(f"$('slider').step = 'any'; $('slider').oninput({{target: {{value: {place}}}}}); 1")
        assert page.run("$('where').textContent") == "between frames 0 and 1"
        assert page.console == []
    finally:
        page.close()
