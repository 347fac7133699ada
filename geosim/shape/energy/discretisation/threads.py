"""Multithreaded assembly: each thread sums its elements into arrays of its own, which are added afterwards."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import cast

import numpy as np

from geosim.arrays import Floats
from geosim.linear.factoriser import usable_threads
from geosim.shape.energy.discretisation.assembly import Mesh, Rule, Volumes, assemble
from geosim.shape.energy.discretisation.pattern import Places

# Elements of a thread below which starting it, and adding up what it found, takes longer than it saves.
MIN_ELEMENTS_PER_THREAD = 1000


def assemble_in_threads(
    threads: int | None,
    x: Floats,
    p: Floats,
    mesh: Mesh,
    table: Floats,
    rules: tuple[Rule, Volumes, bool],
    places: Places,
    matrix: bool,
    out: tuple[Floats, Floats, Floats, Floats],
) -> tuple[float, float, float]:
    """Add what `assemble` adds to `out` (data, force, scale, gaps), and return what it returns.

    `threads` is that of `usable_threads`. The sums of different numbers of threads differ by rounding.
    """
    count = max(1, min(usable_threads(threads), len(mesh.tets) // MIN_ELEMENTS_PER_THREAD))
    if count == 1:
        return cast(tuple[float, float, float], assemble(x, p, mesh, table, *rules, matrix, places, *out))
    outs = [out, *([np.zeros_like(array) for array in out] for _ in range(count - 1))]
    cuts = np.linspace(0, len(mesh.tets), count + 1).astype(np.int64)

    def part(k: int) -> tuple[float, float, float]:
        mine = slice(cuts[k], cuts[k + 1])
        ranks = {name: getattr(places, name)[mine] for name in ("order", "node_rank", "pressure_rank", "mass_rank")}
        return cast(
            tuple[float, float, float], assemble(x, p, mesh, table, *rules, matrix, places._replace(**ranks), *outs[k])
        )

    with ThreadPoolExecutor(count) as pool:
        energy, smallest, volume = np.array(list(pool.map(part, range(count)))).T
    for more in outs[1:]:
        for total, array in zip(out, more):
            total += array
    return float(energy.sum()), float(smallest.min()), float(volume.sum())
