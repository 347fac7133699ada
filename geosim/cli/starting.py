"""`geosim new`, `rerun`, `explain`: the first robot of one's own, a result once more, and what a status means."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

# Where to look first; what a status means and its remedy stand in `geosim.Status`.
ADVICE = {
    "CONVERGED": "Nothing to do. `geosim info` shows the mesh; a finer one (max_edge) says how much it matters.",
    "UNSTABLE": "A real robot leaves this shape. In robot.toml, [solver] imperfection = 0.001 lets it choose a side.",
    "PRESSURE_LIMIT": 'Give --volume-ratio, or [solver] follow = "dynamic" to go on to the next stable shape. partial.npz '
    "and partial.png show the shape at the limit.",
    "NOT_CONVERGED": "Give more and smaller steps, or a finer mesh; look at partial.png for what folds or wrinkles.",
    "INVERTED": "Refine the mesh where partial.png shows the largest stretch (max_edge), or take --element p2.",
    "CROSSED": "Leave self_contact on, refine the skin where the parts meet, or take smaller steps.",
    "SINGULAR": "Look at [fixed]: is every body held, and every chamber closed? `geosim info` counts what it found.",
    "INTERRUPTED": "The folder holds the frames reached; `geosim rerun DIR/result.npz` begins again.",
    "ENERGY_GROWTH": "Look at `drift` in the result: it says from which frame on; a smaller dt or a rule that damps ends it.",
    "EXPLODED": 'In robot.toml, [solver] integrator = "generalized-alpha". The frames before are kept; `drift` says how good.',
    "STOPPED": "partial.npz and partial.png show how far the command came that was not reached. Give a larger --max-seconds (it "
    "counts every command), more steps, a coarser mesh (max_edge), or --element p1 for a preview.",
}


# How designs of studies end besides: what it means, and where to look.
STUDY_ADVICE = {
    "REFUSED": "The design cannot be: a dimension, or a value of its robot file; the message of its row names it. Narrow [vary].",
    "MESH_FAILED": "The mesher could not fill the surfaces of the design; runs/HASH/log.txt has its words. Narrow [vary], or "
    "take another max_edge_mm.",
    "CRASHED": "The design took its process down, or raised an error: runs/HASH/log.txt says where. One that was ended from "
    "outside (SIGKILL, no memory left) is solved again by --resume.",
    "TIMEOUT": "The design was ended at [limits] seconds (CPU time; five times that in all); its message says how far it came "
    "and partial.npz holds it. With a wider limit --resume solves it again; a coarser mesh is faster.",
    "OUT_OF_MEMORY": "The design was ended at [limits] memory_gb. With a wider limit --resume solves it again; a coarser mesh "
    "needs less.",
}


@click.command(epilog="Example: geosim explain PRESSURE_LIMIT")
@click.argument("status", required=False)
def explain(status: str | None) -> None:
    """Say what a status means and what to do about it. Alone: all of them."""
    from geosim.arguments import suggestion
    from geosim.model.contract import Status

    names = [*Status.__members__, *STUDY_ADVICE]
    chosen = names if status is None else [status.upper().replace("-", "_")]
    if chosen[0] not in names:
        hint = suggestion(chosen[0], names)
        raise click.UsageError(f"no status is called {status!r}{hint}; there are {', '.join(names)}")
    for name in chosen:
        click.echo(f"{name}: {STUDY_ADVICE[name] if name in STUDY_ADVICE else f'{Status[name].value} {ADVICE[name]}'}")


# The finger of the template: 66 x 16 x 16 mm, thin walls, so that 6 kPa bend it by more than 40 degrees in a few seconds.
TEMPLATE: dict[str, Any] = {
    "chambers": 6,
    "chamber_length": 5e-3,
    "wall": 1.5e-3,
    "width": 16e-3,
    "height": 16e-3,
    "base": 3e-3,
    "channel": (4e-3, 2e-3),
}
COMMAND = """actuation = "actuation.toml"            # what it is told; an option of geosim solve takes its place
"""
EXTRAS = """
# Below: what else a robot file may say; remove the # in front to use it.
# [environment]
# gravity = [0, 0, -9.81]            # m/s^2
# [[environment.obstacles]]
# shape = "sphere"                   # or cylinder, box, plane, mesh
# center = [60, 8, -25]              # mm, as `units` says
# radius = 10.0
# friction = 0.3
# [solver]
# element = "p1"                     # a fast preview; "p2" is accurate
"""
ACTUATION = """# What the robot is told, step by step.
[inflation]
pressure_kpa = [3, 6]                # gauge pressure of every step; or volume_ratio = [1.1, 1.2], V/V0
"""


@click.command(epilog="Example: geosim new my_finger")
@click.argument("name", type=click.Path(path_type=Path))
def new(name: Path) -> None:
    """Make a folder with a PneuNet finger to change: surfaces, robot.toml, actuation.toml."""
    from geosim.errors import InputError
    from geosim.files.folder import complete_folder
    from geosim.generate import pneunet

    if name.exists() and (not name.is_dir() or any(name.iterdir())):
        raise InputError(f"{name} exists {'and is not empty' if name.is_dir() else 'and is a file'}; give another NAME")
    with complete_folder(name) as beside:
        pneunet(**TEMPLATE).save(beside, material="ecoflex-00-30-fang2022")  # stiff enough for the pressures below
        robot = beside / "robot.toml"
        text = robot.read_text(encoding="utf-8").replace("# max_edge", "max_edge", 1)
        robot.write_text(text.replace("\n\n", f"\n{COMMAND}\n", 1) + EXTRAS, encoding="utf-8")
        (beside / "actuation.toml").write_text(ACTUATION, encoding="utf-8")
    click.echo(f"{name}: body.stl, chamber_1.stl, robot.toml, actuation.toml")
    click.echo(f"next: geosim solve {shlex.quote(str(name / 'robot.toml'))}")


@click.command(epilog="Example: geosim rerun geosim-finger/result.npz --out again")
@click.argument("result", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder to write; default the name of its folder with -again."
)
@click.option("--force", is_flag=True, help="Replace what is there already.")
def rerun(result: Path, out: Path | None, force: bool) -> int:
    """Solve again what a result file holds: the same robot, commands, surroundings and options."""
    from geosim.cli import running
    from geosim.errors import InputError
    from geosim.files.archive import load_result

    target = out or result.resolve().parent.with_name(f"{result.resolve().parent.name}-again")
    running.check_folder(target, force)
    old = load_result(result)
    if old.actuation is None:
        raise InputError(
            f"{result}: it does not say what was commanded (an older geosim wrote it); solve the robot file"
        )
    if old.provenance.get("continued"):
        raise InputError(
            f"{result}: it went on from another result, which is not in this file; solve both from the start"
        )
    running.begin()
    problem = {key: getattr(old, key) for key in ("robot", "actuation", "environment", "solver")}
    return running.solved(problem, target, force, before=old)
