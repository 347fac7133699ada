"""Archives (.npz) whose arrays and header were changed after they were written."""

from __future__ import annotations

import json

import numpy as np


def changed(saved, path, edit, *, header="header", sealed=False):
    """Write a copy of an archive that `edit(arrays, header)` changed; unless it stays sealed, it loses its digest."""
    with np.load(saved) as archive:
        arrays = {name: archive[name] for name in archive.files}
    words = json.loads(str(arrays[header]))
    edit(arrays, words)
    if header in arrays:
        arrays[header] = np.array(json.dumps(words))
    if not sealed:
        arrays.pop("digest", None)
    np.savez(path, **arrays)
    return path


def small_reduced_model(rng=None):
    """Return a reduced model of a block of eight vertices, two controls, one chamber."""
    from geosim import ReducedModel

    rng = rng or np.random.default_rng(0)
    rest = np.array([[x, y, z] for x in (0.0, 0.02) for y in (0.0, 0.01) for z in (0.0, 0.01)])
    basis = np.linalg.qr(rng.standard_normal((24, 2)))[0].reshape(8, 3, 2)
    exponents = np.array([[0, 0], [1, 0], [0, 1], [1, 1], [2, 0]])
    weights = 1e-3 * rng.standard_normal((5, 5))
    box = np.array([[0.0, 1.0], [2.0, rng.uniform(3.0, 4.0)]])
    skin, size = np.array([[0, 1, 2], [1, 3, 2]]), float(np.linalg.norm(rest[-1]))
    bounds = dict.fromkeys(("shape", "tip", "bend_angle", "chamber_pressures", "chamber_volumes"), 1e-5)
    tip, share = np.array([6, 7]), np.array([0.5, 0.5])
    return ReducedModel(
        "block", "cable_tension", box, exponents, weights, basis, rest, np.arange(8), skin, tip, share, bounds, 2e-3, size, 64
    )  # fmt: skip


def small_surrogate(rng=None):
    """Return a surrogate of two measures of seven designs, of a number and a choice."""
    import pandas

    from geosim.apps.study.surrogate import learned

    rng = rng or np.random.default_rng(0)
    wall = np.linspace(1.0, 3.0, 7)
    table = {"wall": wall, "rubber": list("abababa"), "status": ["CONVERGED"] * 7}
    table |= {"bend": np.sin(wall) + 0.1 * rng.standard_normal(7), "force": wall**2}
    return learned(pandas.DataFrame(table), ["wall", "rubber"], ["bend", "force"])


def small_posterior(rng=None):
    """Return a posterior of two unknowns of a test of three rows, with one curve of three loads."""
    from geosim.apps.bridges.chaos import PolynomialChaos
    from geosim.apps.condition.model import TestModel
    from geosim.apps.condition.posterior import Posterior
    from geosim.apps.condition.response import Curve, FittedResponse
    from geosim.apps.condition.rows import TestRows
    from geosim.apps.condition.unknowns import as_unknowns

    rng = rng or np.random.default_rng(0)
    loads = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]])
    weights = np.array([[0.0, 1.0, 2.0], [0.0, 0.1, 0.3]]) + np.array([0.0, 1e-2, 1e-2]) * rng.standard_normal((2, 3))
    curve = Curve(loads, PolynomialChaos(np.array([[0], [1]]), weights), False, 1.0, np.array([0.0, 1e-3, 1e-3]))
    response = FittedResponse({"angle": curve}, {"angle": 0.01}, {"zero": ("angle", "offset")}, (0,))
    unknowns = as_unknowns({"gain": (0.7, 1.4), "zero": (-0.01, 0.01)})
    test = TestRows(loads[1:], ("angle", "angle"), np.array([1.0, 2.0]), np.array([np.nan, 0.1]), "a")
    return Posterior(TestModel(unknowns, response, test), rng.standard_normal((60, 4)), -1.5, 55.0, 3)
