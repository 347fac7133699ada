"""Tetgen in a process of its own: `python -m geosim.geometry.mesher IN.npz OUT.npz`.

Tetgen ends the interpreter on surfaces that it cannot handle and drops files where it stands, so it never runs in
the user's process. Input arrays: vertices (n, 3), faces (m, 3), seeds (k, 3), holes (h, 3), and the strings
`switches` and `engine` ("tetgen" or "pytetwild", with `edge`). Output: vertices, tets, seed (the index of the seed
whose region holds each tet, -1 if none; absent for pytetwild, which knows no regions). Exit status 3 with one line on
stderr if the engine says what is wrong.
"""

from __future__ import annotations

import sys

import numpy as np

__all__ = ["main"]


def _tetgen(data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    import tetgen

    engine = tetgen.TetGen(data["vertices"], data["faces"].astype(np.int32))
    for k, seed in enumerate(data["seeds"]):
        engine.add_region(k + 1, seed)
    for hole in data["holes"]:
        engine.add_hole(hole)
    vertices, tets, attributes, _ = engine.tetrahedralize(switches=str(data["switches"]))
    # Unseeded regions get numbers past the seeds' (switch A) or 0.
    seed = np.rint(np.asarray(attributes).ravel()).astype(np.int64) - 1
    seed[seed >= len(data["seeds"])] = -1
    return {"vertices": np.asarray(vertices), "tets": np.asarray(tets).astype(np.int64), "seed": seed}


def _pytetwild(data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    import pytetwild

    low, high = data["vertices"].min(axis=0), data["vertices"].max(axis=0)
    vertices, tets = pytetwild.tetrahedralize(
        data["vertices"],
        data["faces"].astype(np.int32),
        edge_length_fac=float(data["edge"]) / float(np.linalg.norm(high - low)),
        disable_filtering=True,
        quiet=True,
    )
    return {"vertices": np.asarray(vertices, dtype=np.float64), "tets": np.asarray(tets)[:, :4].astype(np.int64)}


def main(arguments: list[str]) -> int:
    """Mesh the arrays of the first file into the second; return the exit status."""
    source, target = arguments
    with np.load(source) as file:
        data = {key: file[key] for key in file.files}
    run = _pytetwild if str(data["engine"]) == "pytetwild" else _tetgen
    try:
        result = run(data)
    except (RuntimeError, ValueError) as error:
        sys.stderr.write(" ".join(str(error).split()) + "\n")
        return 3
    np.savez(target, **result)  # type: ignore[arg-type]
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
