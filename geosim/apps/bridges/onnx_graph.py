"""ONNX graph of a reduced model: controls (m,) [SI] -> tip, bend angle, pressures and volumes of chambers, positions, inside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from geosim.apps.bridges.reduced import OUTSIDE_BOX_REL, ReducedModel
from geosim.files.onnx import needs_onnx, write_graph


def write_onnx(model: ReducedModel, path: Path) -> Path:
    """Write the graph, in double precision; `inside` is false where controls are outside of the box and the rest is no answer.

    Raises
    ------
    InputError
        onnx is not installed.
    """
    needs_onnx("a reduced model")
    from onnx import helper

    r, n = model.rank, len(model.rest)
    outputs = model.weights.shape[1]
    c = (outputs - r - 1) // 2
    basis = np.zeros((n, 3, r))
    basis[model.body] = model.basis
    rest, by = model.tip_at_rest
    middle, half = model.scale
    degree = int(model.exponents.max())
    constants: dict[str, Any] = {
        "middle": middle,
        "half": half,
        "limit": np.array(1.0 + OUTSIDE_BOX_REL),
        "last": np.array([1]),
        "first": np.array([0]),
        "powers": np.arange(degree + 1.0),
        "legendre": model.chaos.by_powers[0][: degree + 1, : degree + 1],
        "exponents": np.ascontiguousarray(model.exponents.T),
        "weights": model.weights,
        "basis": basis.reshape(-1, r).T,
        "rest": model.rest,
        "places": np.array([n, 3]),
        "tip_rest": rest,
        "tip_basis": by.T,
        "sizes": np.array([r, 1, c, c]),
    }
    node = helper.make_node
    nodes = [
        node("Sub", ["controls", "middle"], ["shifted"]),
        node("Div", ["shifted", "half"], ["s"]),
        node("Abs", ["s"], ["size"]),
        node("ReduceMax", ["size"], ["largest"], keepdims=0),
        node("LessOrEqual", ["largest", "limit"], ["inside"]),
        node("Unsqueeze", ["s", "last"], ["column"]),
        node("Pow", ["column", "powers"], ["of_powers"]),
        node("MatMul", ["of_powers", "legendre"], ["polynomials"]),
        node("GatherElements", ["polynomials", "exponents"], ["factors"], axis=1),
    ]
    m, product = len(model.box), "factor_0"
    nodes.append(node("Split", ["factors"], [f"factor_{j}" for j in range(m)], axis=0))
    for j in range(1, m):
        nodes.append(node("Mul", [product, f"factor_{j}"], [f"product_{j}"]))
        product = f"product_{j}"
    parts = ["coefficients", "bend", "pressures", "volumes"]
    nodes += [
        node("MatMul", [product, "weights"], ["row"]),
        node("Split", ["row", "sizes"], parts, axis=1),
        node("MatMul", ["coefficients", "tip_basis"], ["tip_moved"]),
        node("Squeeze", ["tip_moved", "first"], ["tip_way"]),
        node("Add", ["tip_way", "tip_rest"], ["tip"]),
        node("Squeeze", ["bend", "first"], ["bend_angle"]),
        node("Squeeze", ["pressures", "first"], ["chamber_pressures"]),
        node("Squeeze", ["volumes", "first"], ["chamber_volumes"]),
        node("MatMul", ["coefficients", "basis"], ["moved"]),
        node("Reshape", ["moved", "places"], ["displacements"]),
        node("Add", ["displacements", "rest"], ["positions"]),
    ]
    named = {"tip": [3], "bend_angle": [1], "chamber_pressures": [c], "chamber_volumes": [c], "positions": [n, 3]}
    about = f"{model.name}, {model.vary} in {model.box.tolist()}; bounds {dict(model.bounds)} (SI)"
    return write_graph(path, nodes, {"controls": [m]}, named, constants, truths=["inside"], about=about)
