"""Makes docs/studio.gif: a user in the studio, filmed in a Chromium without a window.

python scripts/studio_film.py [--out docs/studio.gif] [--pictures FOLDER]
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from apps.studio.chromium import Browser  # noqa: E402

from geosim.apps.studio.live import problem_files  # noqa: E402
from geosim.apps.studio.scene import of_design  # noqa: E402

SIZE, SHOWN_WIDTH, COLOURS = (1180, 720), 860, 96  # pixels of the page, of the film; colours of a frame
HOLD_MS, LAST_MS = 700, 2500


def main() -> None:
    """Film and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "studio.gif")
    parser.add_argument("--pictures", type=Path, help="Write every picture there, too.")
    given = parser.parse_args()
    pictures: list[Image.Image] = []

    def shot() -> None:
        with tempfile.TemporaryDirectory() as folder:
            page.picture(Path(folder) / "shot.png")
            data = (Path(folder) / "shot.png").read_bytes()
        picture = Image.open(io.BytesIO(data)).convert("RGB")
        height = round(SHOWN_WIDTH * picture.height / picture.width)
        pictures.append(picture.resize((SHOWN_WIDTH, height), Image.Resampling.LANCZOS))
        if given.pictures:
            given.pictures.mkdir(parents=True, exist_ok=True)
            pictures[-1].save(given.pictures / f"{len(pictures):02d}.png")

    def settled() -> None:
        mine = "run.frames.filter((f) => f.number === scene.number).length > 0"
        page.until(f"shown && shown.number === scene.number && shown.level !== 'rest' && {mine}", 300)
        time.sleep(0.4)

    def turned(key: str, value: float | str) -> None:
        before = page.run("scene.number")
        page.run(
            f"(() => {{ const n = $('knob-{key}-number') || $('knob-{key}'); n.focus(); n.value = {value!r}; n.onchange(); }})()"
        )
        page.until(f"scene.number > {before}")
        time.sleep(0.3)
        shot()
        settled()
        shot()

    first = {"material": "dragon-skin-20", "pressure_kpa:0": 8.0}
    command = [sys.executable, "-m", "geosim", "studio", "pneunet/robot.toml", "--no-browser"]
    with tempfile.TemporaryDirectory() as folder:
        problem_files(of_design("pneunet", first), Path(folder) / "pneunet")
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        page = Browser(*SIZE)
        try:
            page.open(process.stdout.readline().strip())
            page.until("run.frames.filter((f) => f.level === 'preview').length >= 4", 300)
            shot()
            page.run("$('pin').click()")
            turned("wall_mm", 1.7)
            for pressure in (10, 12, 14):
                turned("pressure_kpa:0", pressure)
            turned("chambers", 7)
            page.until("run.frames.filter((f) => f.number === scene.number).length >= 4", 300)
            shot()
            turned("object", "sphere")
            page.until("run.frames.filter((f) => f.number === scene.number).length >= 4", 300)
            shot()
        finally:
            page.close()
            process.terminate()
            process.wait(30)
    frames = [p.quantize(COLOURS, dither=Image.Dither.NONE) for p in pictures]
    times = [HOLD_MS] * (len(frames) - 1) + [LAST_MS]
    frames[0].save(given.out, save_all=True, append_images=frames[1:], duration=times, loop=0, optimize=True)
    print(f"{given.out}: {len(frames)} pictures, {given.out.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
