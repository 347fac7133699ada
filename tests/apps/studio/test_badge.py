"""Badge, numbers and frame count of the studio say the same at every moment of a session of twelve changes."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'geosim[studio]'")
pytest.importorskip("websockets", reason="websockets is not installed: pip install 'geosim[studio]'")
pytest.importorskip("tomli_w", reason="tomli-w is not installed: pip install 'geosim[studio]'")

from apps.studio.chromium import CHROMIUM, Browser

from geosim.apps.studio.live import problem_files
from geosim.apps.studio.scene import of_design

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")

# What a user sees, and what is behind it, each time that anything of it changes; a moment is what is on the screen between two
# events.
RECORD = """(() => {
  window.moments = [];
  let last = '';
  const note = () => {
    const facts = $('facts'), slider = $('slider'), label = $('label'), bend = shown.row.bend_angle_deg;
    const now = {badge: label.textContent, busy: label.className.includes('busy'), stale: facts.className.includes('stale'),
      facts: facts.textContent, where: $('where').textContent, at: +slider.value, min: +slider.min, max: +slider.max,
      steps: scene.knobs.find((k) => k.key === 'steps').now, chosen: scene.number, shown: shown.number,
      level: shown.level, step: shown.step, mixed: !!shown.mixed, bend: bend === undefined ? null : +bend.toPrecision(4),
      checked: shown.checked !== false, work};
    const text = JSON.stringify(now);
    if (text !== last) window.moments.push(now);
    last = text;
    requestAnimationFrame(note);
  };
  note();
})()"""
TURNED = "(() => {{ const n = $('knob-{0}-number'); n.value = {1}; n.onchange(); }})()"
SETTLED = "shown.number === scene.number && $('label').textContent.startsWith('converged') && work === ''"
PREVIEW = "shown.number === scene.number && shown.level === 'preview'"


def changes() -> list[tuple[str, float, str]]:
    """Twelve changes of dimensions, pressures and frame counts, and what is waited for: nothing, a preview, the end."""
    out: list[tuple[str, float, str]] = []
    for i in range(4):  # few frames where the end is waited for, which solves each on a refined mesh
        out.append(("pressure_kpa:0", round(1.0 + 0.15 * i, 3), PREVIEW if i % 3 else ""))
        out.append(("wall_mm", round(2.0 + 0.05 * i, 3), "" if i % 2 else PREVIEW))
        out.append(("steps", (3, 4, 1, 2)[i], SETTLED if i == 3 else PREVIEW if i % 2 else ""))
    return out


def faults(moment: dict) -> list[str]:
    """What of a moment contradicts itself."""
    badge, current = (
        moment["badge"],
        moment["shown"] == moment["chosen"] and moment["level"] != "rest" and not moment["mixed"],
    )
    found = []
    if moment["stale"] == current and moment["facts"]:
        found.append("numbers of another robot are not greyed, or those of this one are")
    if not current and not moment["mixed"] and not ("solving" in badge and moment["busy"]):
        found.append("nothing shows that the robot is being solved")
    if badge.startswith("rest shape") and moment["facts"]:
        found.append("the badge says rest shape beside a number")
    words = {"preview": "preview", "refining": "refined", "converged": "converged"}
    if current and not badge.startswith(words[moment["level"]]):
        found.append("the badge names another shape than the one that is shown")
    if current and moment["level"] == "preview" and ("before contact" in badge) == moment["checked"]:
        found.append("the badge is wrong about contact")
    if current and moment["work"] == "refine" and not moment["busy"]:
        found.append("nothing shows that a finer solve runs")
    if moment["work"] == "" and moment["busy"]:
        found.append("it seems to be at work, and is not")
    if current and f"bend {moment['bend']:g} °" not in moment["facts"]:
        found.append("the number is not that of the frame")
    if (moment["min"], moment["max"]) != (1, moment["steps"]):
        found.append("the slider has not as many places as there are frames")
    if current and (
        moment["at"] != moment["step"] or not moment["where"].startswith(f"frame {moment['at']} of {moment['max']}")
    ):
        found.append("slider and text are at different frames")
    return found


@pytest.mark.slow
def test_badge_number_and_frame_count_agree_at_every_moment_of_twelve_changes(tmp_path: Path) -> None:
    small = {"chambers": 1, "pressure_kpa:0": 2.0, "steps": 2, "mesh": "edges", "max_edge_mm": 20.0}
    problem_files(of_design("pneunet", small), tmp_path / "given")
    command = [sys.executable, "-m", "geosim", "studio", "given/robot.toml", "--no-browser"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    page = Browser()
    try:
        page.open(process.stdout.readline().strip())
        page.until("shown !== null && shown.level !== 'rest'")
        page.run(RECORD)
        done = changes()
        assert len(done) == 12
        for key, value, wanted in done:
            before = page.run("scene.number")
            page.run(TURNED.format(key, value))
            page.until(f"scene.number > {before}")
            if wanted:
                page.until(wanted)
        page.until(SETTLED)
        moments = page.run("window.moments")
        levels = {m["level"] for m in moments}
        assert {"preview", "converged"} <= levels, levels
        assert {m["steps"] for m in moments} >= {1, 2, 3, 4}
        assert any("a finer solve runs" in m["badge"] for m in moments)
        assert any(m["stale"] for m in moments)
        wrong = [(fault, m) for m in moments for fault in faults(m)]
        assert not wrong, wrong[:3]
        page.run("$('slider').value = 1; $('slider').oninput()")
        assert page.run("shown.step === 1 && $('where').textContent.startsWith('frame 1 of 2')")
        assert page.console == []
    finally:
        page.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
