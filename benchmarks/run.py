"""Every claim of speed and accuracy in one run: each script beside its truth or its peer, on one page.

    python benchmarks/run.py --out DIR [NAME ...] [--limit SECONDS] [--again] [--list]

Each script runs in a process of its own on one thread, one after the other; what it printed is kept in DIR/NAME.txt with its CPU
seconds, so a second call goes on where the first was ended. DIR/validation.md and DIR/validation.html (one file, plots included)
hold the machine, the versions and all sections, failures included: those beside a truth, those beside a peer, predictions of
measurements to which nothing was fitted, and fits. A script whose peer or data is absent is left out, and the page says so.
"""

from __future__ import annotations

import argparse
import base64
import html
import importlib
import importlib.util
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).resolve().parent
DATA = "GEOSIM_REFERENCE_DATA"
ONE = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
VERSIONS = ("geosim", "numpy", "scipy", "numba", "mkl", "pypardiso", "tetgen", "ipctk", "mujoco", "pyelastica")
KINDS = {
    "truth": "Beside a truth",
    "peer": "Beside a peer, or what others have published",
    "blind": "Predictions of measurements to which nothing was fitted",
    "fit": "Fits to measurements",
}
STYLE = """body{font:15px system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 1em;color:#222}
table{border-collapse:collapse}td,th{padding:2px 12px 2px 0;text-align:left;border-bottom:1px solid #ddd}
pre{background:#f6f6f6;padding:1em;overflow-x:auto;font-size:12px;line-height:1.35}img{max-width:100%}.bad{color:#b00;font-weight:600}"""


@dataclass(frozen=True)
class Section:
    """A script, its arguments, what its numbers stand beside, what it needs (programs, modules, variables), its kind."""

    script: str
    arguments: str
    truth: str
    needs: tuple[str, ...] = ()
    kind: str = "truth"


SECTIONS = {
    "accuracy": Section(
        "accuracy.py", "", "closed forms and finite elements of another code on the same mesh", (DATA,)
    ),
    "elements": Section(
        "elements.py", "--out {out}/elements finger pneunet", "isochoric P2 on a fine mesh: tip error and CPU seconds"
    ),
    "previews": Section(
        "previews.py", "preview --out {out}/previews", "isochoric P2 on a fine mesh: previews beside default meshes"
    ),
    "dynamics": Section(
        "dynamics.py",
        "cost:1000,5000 modes dome",
        "bodies in time: what a step costs; periods of bars and rings; a snap",
    ),
    "dynamics-peers": Section(
        "dynamics.py", "flex", "a fine mesh in short steps, beside MuJoCo flex and Newton", ("mujoco",), kind="peer"
    ),
    "growth": Section("previews.py", "growth --out {out}/previews", "exponents of CPU seconds over the mesh"),
    "paths": Section("paths.py", "", "the same states reached in small steps", (DATA,)),
    "path-study": Section(
        "path_study.py", "--count 12 --out {out}/path-study", "random robots in one command and in fifty"
    ),
    "contact": Section("contact.py", "hertz column slip", "Hertz, Timoshenko and Coulomb"),
    "fabric": Section("fabric.py", "layer tube tendon friction gas", "netting theory, beams, capstans, the gas law"),
    "materials": Section("materials.py", "exports", "the law that a synthetic export was drawn from"),
    "material-curves": Section("materials.py", "curves", "the upper halves of measured curves", (DATA,), kind="blind"),
    "bars-mesh": Section("error_bars.py", "mesh --out {out}/bars", "two global refinements and Richardson"),
    "bars-material": Section("error_bars.py", "material --out {out}/bars", "draws of the constants, each solved"),
    "bars-sensitivity": Section("error_bars.py", "sensitivity --out {out}/bars", "central differences of solves"),
    "bars-adapt": Section("error_bars.py", "adapt --out {out}/bars", "splitting every tet"),
    "bars-inverse": Section("error_bars.py", "inverse --out {out}/bars", "a grid of volumes"),
    "cad": Section("cad.py", "table", "exact volumes of the solids that were drawn"),
    "bars-reality": Section(
        "error_bars.py", "reality --out {out}/bars", "a measured membrane, beam and arm", (DATA,), kind="blind"
    ),
    "bars-robot": Section("robot_bars.py", "", "400 robots with drawn walls, moduli, gauges and markers"),
    "symmetry": Section("symmetry.py", "", "the same solves of the whole", kind="peer"),
    "surfaces": Section("surface_faults.py", "", "24 surfaces, most with the faults of real ones"),
    "soups": Section("surface_soups.py", "--count 2", "heaps of triangles with all faults at once", ("pytetwild",)),
    "limits": Section("limits.py", "derivatives", "central differences of solves"),
    "studies": Section("design_studies.py", "bellows search --out {out}/studies", "random search"),
    "projective": Section("projective_accuracy.py", "", "the energy solver at the achieved volume", (DATA,)),
    "projective-cases": Section(
        "projective_cases.py",
        "table anderson finger wrap --out {out}/projective-cases",
        "Table I and Figs. 5 to 11 of [Fang2022]",
        kind="peer",
    ),
    "side-by-side": Section(
        "side_by_side.py",
        "--out {out}/side-by-side",
        "a refined mesh, and four other codes where they are",
        kind="peer",
    ),
    "calculix": Section("calculix.py", "", "CalculiX, whole processes", ("ccx", DATA), kind="peer"),
    "versions": Section(
        "versions.py", "--out {out}/versions", "an earlier version, in pairs", (DATA, "GEOSIM_EARLIER"), kind="peer"
    ),
    "rods": Section(
        "rods_truth.py", "pairs obstacles drop order incline slender shells point_load", "theory, fine steps, crossings"
    ),
    "rods-speed": Section("rods_speed.py", "--quick", "times of [Choi2024]", kind="peer"),
    "conditioning": Section(
        "conditioning.py", "beams wrong --out {out}/conditioning", "the constants that synthetic robots were drawn with"
    ),
    "rods-authors": Section("rods_authors.py", "", "closed forms, DisMech", (DATA,)),
    "rods-networks": Section("rods_networks.py", "", "a quarter of the steps"),
    "rods-cosseratbench": Section(
        "rods_cosseratbench.py", "", "references of its own", ("cosseratbench",), kind="peer"
    ),
    "rods-piles": Section("rods_piles.py", "--rods 50,100,200", "none: growth with the contacts", kind="peer"),
    "rods-grip": Section("rods_grip.py", "", "Coulomb, the capstan, constant curvature"),
    "rods-real2sim": Section("rods_real2sim.py", "", "filmed shapes", (DATA,), kind="fit"),
    "shells": Section("shells_accuracy.py", "", "Kirchhoff's plates and the elastica"),
    "snake-speed": Section("snake_speed.py", "--frames 120", "Table II of [Gasoto2019]", kind="peer"),
    "studio": Section("studio_latency.py", "--changes 30", "goals in seconds", ("uvicorn", "websockets"), kind="peer"),
    "bridges": Section(
        "bridges.py",
        "--out {out}/bridges",
        "fresh equilibria, differences, MuJoCo and USD themselves",
        ("torch", "mujoco", "pxr"),
    ),
    "learning": Section("learning_speed.py", "", "one process", ("gymnasium",), kind="peer"),
    "reach": Section("learning_reach.py", "--seconds 60", "no learning", ("gymnasium", "cmaes"), kind="peer"),
}


def missing(section: Section) -> list[str]:
    """What a section needs and this machine has not."""
    return [
        need
        for need in section.needs
        if not (os.environ.get(need) or shutil.which(need) or (need.isidentifier() and importlib.util.find_spec(need)))
    ]


def run(name: str, out: Path, limit: float) -> None:
    """Run a section and keep what it printed."""
    section = SECTIONS[name]
    arguments = [part.format(out=out) for part in section.arguments.split()]
    spent = _children()
    try:
        done = subprocess.run(
            [sys.executable, str(HERE / section.script), *arguments],
            env={**os.environ, **ONE},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=limit,
        )
        text, end = done.stdout, "done" if done.returncode == 0 else f"FAILED, exit status {done.returncode}"
    except subprocess.TimeoutExpired as late:
        said = late.stdout or b""
        text = said.decode(errors="replace") if isinstance(said, bytes) else said
        end = f"ENDED after {limit:g} s"
    facts = {
        "end": end,
        "seconds": _children() - spent,
        "command": " ".join([section.script, section.arguments.format(out=out.name)]).strip(),
    }
    (out / f"{name}.txt").write_text(json.dumps(facts) + "\n" + text, encoding="utf-8")


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def written(out: Path) -> Path:
    """Write validation.md and validation.html from what is there; the path of the first is returned."""
    model = next((line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "")
    about = [f"{platform.machine()}, {model}, {os.cpu_count()} cores, {platform.system()}; one thread."]
    about.append(", ".join(f"{name} {_version(name)}" for name in VERSIONS if _version(name)))
    text, page = (
        ["# Validation", "", about[0], "", about[1]],
        ["<h1>Validation</h1>", *(f"<p>{line}</p>" for line in about)],
    )
    shown: list[tuple[str, dict[str, str], str]] = []
    for kind, title in KINDS.items():
        of_kind = {name: section for name, section in SECTIONS.items() if section.kind == kind}
        text += ["", f"## {title}", "", "| section | beside | CPU s | end |", "|---|---|---|---|"]
        page += [f"<h2>{title}</h2><table><tr><th>section<th>beside<th>CPU s<th>end"]
        for name, section in of_kind.items():
            path = out / f"{name}.txt"
            if path.is_file():
                head, _, printed = path.read_text(encoding="utf-8").partition("\n")
                facts = json.loads(head)
                shown.append((name, facts, printed.rstrip()))
                seconds, end, link = f"{facts['seconds']:.0f}", facts["end"], True
            else:
                absent = missing(section)
                seconds, end, link = "", "needs " + ", ".join(absent) if absent else "not run", False
            text.append(f"| {f'[{name}](#{name})' if link else name} | {section.truth} | {seconds} | {end} |")
            cell = f'<a href="#{name}">{name}</a>' if link else name
            state = f'<span class="bad">{html.escape(end)}</span>' if link and end != "done" else html.escape(end)
            page.append(f"<tr><td>{cell}<td>{html.escape(section.truth)}<td>{seconds}<td>{state}")
        page.append("</table>")
    for name, facts, printed in shown:
        command = f"python benchmarks/{facts['command']}"
        plots = sorted([*out.glob(f"{name}.png"), *(out / name).rglob("*.png")])
        printed = printed or "(nothing was printed)"
        text += ["", f"## {name}", "", f"`{command}`", "", "```", printed, "```"]
        text += [line for plot in plots for line in ("", f"![{plot.stem}]({plot.relative_to(out).as_posix()})")]
        page += [f'<h2 id="{name}">{name}</h2><p><code>{html.escape(command)}</code><pre>{html.escape(printed)}</pre>']
        page += [
            f'<img alt="{plot.stem}" src="data:image/png;base64,{base64.b64encode(plot.read_bytes()).decode()}">'
            for plot in plots
        ]
    target = out / "validation.md"
    target.write_text("\n".join(text) + "\n", encoding="utf-8")
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Validation</title><style>{STYLE}</style>'
    target.with_suffix(".html").write_text("\n".join([head, *page, "</html>"]), encoding="utf-8")
    return target


def _lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines() if Path(path).is_file() else []


def _version(name: str) -> str:
    if name == "geosim":  # also where it runs from its source
        return importlib.import_module(name).__version__
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def main() -> None:
    """Run what is asked for, and write the file after every section."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--out", type=Path, default=Path("validation"))
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds of a section")
    parser.add_argument("--again", action="store_true", help="run also what is there")
    parser.add_argument("--list", action="store_true", help="name the sections and end")
    given = parser.parse_args()
    unknown = [name for name in given.names if name not in SECTIONS]
    if unknown:
        parser.error(f"{', '.join(unknown)}: no such section; choose from {', '.join(SECTIONS)}")
    if given.list:
        for name, section in SECTIONS.items():
            absent = missing(section)
            print(f"{name:18} {section.script:24} {section.truth}{'; needs ' + ', '.join(absent) if absent else ''}")
        return
    given.out.mkdir(parents=True, exist_ok=True)
    for name in given.names or SECTIONS:
        done = (given.out / f"{name}.txt").is_file() and not given.again
        if not done and not missing(SECTIONS[name]):
            run(name, given.out, given.limit)
            print(f"{name}: {written(given.out)}", flush=True)
    written(given.out)


if __name__ == "__main__":
    main()
