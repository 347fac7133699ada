"""Runs the meshers in a child process: they end the interpreter on surfaces that they cannot handle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from geosim.errors import MeshError

__all__ = ["RESCUE_ADVICE", "run_mesher"]

RESCUE_ADVICE = "try rescue=True (rescue = true in a robot file), after pip install 'geosim[rescue]'"


def run_mesher(inputs: dict[str, Any], time_limit: float, label: str) -> dict[str, np.ndarray] | str:
    """Run the mesher in a child process; return its arrays, or what went wrong."""
    root = str(Path(__file__).resolve().parents[2])
    inherited = os.environ.get("PYTHONPATH")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([inherited, root] if inherited else [root])}
    with tempfile.TemporaryDirectory(prefix="geosim-mesh-") as folder:
        source, target = Path(folder, "in.npz"), Path(folder, "out.npz")
        np.savez(source, **{key: np.asarray(value) for key, value in inputs.items()})  # type: ignore[arg-type]
        command = [sys.executable, "-m", "geosim.geometry.mesher", str(source), str(target)]
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=time_limit,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise MeshError(
                f"{label}: the mesher took more than {max(time_limit, 0.0):.3g} s; choose a larger max_edge, give a "
                f"larger time_limit, or {RESCUE_ADVICE}"
            ) from error
        if done.returncode == 0 and target.is_file():
            with np.load(target) as file:
                return {key: file[key] for key in file.files}
        return _failure(inputs["engine"], done)


def _failure(engine: str, done: subprocess.CompletedProcess[str]) -> str:
    """One sentence for a child process that ended badly."""
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        return f"{engine} crashed ({name}{', out of memory?' if name == 'SIGKILL' else ''})"
    said = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    reason = said[-1] if said else f"exit status {done.returncode}"
    return f"{engine} failed ({reason[:200].rstrip('.')})"
