"""Build a wheel that holds compiled kernels: `python scripts/build_wheel.py [--out dist] [--demos NAMES] [--platform NAME]`.

A first solve from it compiles next to nothing. The kernels are those that the demos call, for x86-64-v3. They serve the
release of Python and of numba that runs this script; elsewhere geosim compiles its kernels as from a checkout.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Demos that call the kernels of usual solves: bodies with chambers, contact, obstacles; rods, shells and fluids; snakes.
DEMOS = ("pneunet", "finger", "bellows", "gripper", "snake", "spider", "draped-sheet", "parachute")


def compiled(source: Path, demos: list[str], cache: Path) -> Path:
    """Run a small solve with contact, and demos, of a source tree; return the folder of the kernels that they compiled."""
    env = {**os.environ, "PYTHONPATH": str(source), "GEOSIM_CACHE_DIR": str(cache)}
    env |= {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": ""}  # else with all that this processor has
    with tempfile.TemporaryDirectory() as out:
        commands = [["-m", "geosim.cli.ahead"]]
        commands += [["-m", "geosim", "demo", name, "--out", f"{out}/{name}"] for name in demos]
        for command in commands:
            print("compile:", *command)
            subprocess.run([sys.executable, *command], check=True, cwd=out, env=env, stdout=subprocess.DEVNULL)
    (folder,) = (cache / "kernels-3").iterdir()
    return folder


def build(out: Path, demos: list[str], platform: str) -> Path:
    """Build the wheel into a folder; return its path."""
    with tempfile.TemporaryDirectory() as scratch:
        source, cache = Path(scratch) / "source", Path(scratch) / "cache"
        names = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True).split("\0")
        for name in filter(None, names):
            if (ROOT / name).is_file():
                (source / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, source / name)
        folder = compiled(source, demos, cache)
        shutil.copytree(folder, source / "geosim" / "compiled" / folder.name)
        tag = f"python_tag = cp{sys.version_info[0]}{sys.version_info[1]}\nplat_name = {platform}\n"
        (source / "setup.cfg").write_text(f"[bdist_wheel]\n{tag}", encoding="utf-8")
        made = Path(scratch) / "made"
        subprocess.run(
            [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(made), str(source)], check=True
        )
        (wheel,) = made.glob("*.whl")
        out.mkdir(parents=True, exist_ok=True)
        return Path(shutil.move(wheel, out / wheel.name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument(
        "--demos", default=",".join(DEMOS), help="whose kernels are compiled; empty: of one small solve"
    )
    parser.add_argument("--platform", default=sysconfig.get_platform().replace("-", "_").replace(".", "_"))
    given = parser.parse_args()
    wheel = build(given.out, [name for name in given.demos.split(",") if name], given.platform)
    print(f"{wheel}  {wheel.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
