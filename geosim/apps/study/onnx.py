"""Writes a Gaussian process as an ONNX graph: features of designs, Matern's kernel, mean and band."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from geosim.apps.study.processes import BAND_DEVIATIONS, Process
from geosim.arrays import Floats
from geosim.files.onnx import write_graph


def write(columns: Sequence[str], offset: Floats, factor: Floats, process: Process, path: Path) -> Path:
    """Write one measure of a surrogate, whose features are (column - offset) times factor; the path is returned."""
    from onnx import helper

    nodes: list[Any] = []
    values: dict[str, Any] = {
        "offset": offset,
        "factor": factor / process.lengths,
        "half": -2.0,
        "five": 5.0,
        "third": 1.0 / 3.0,
        "one": 1.0,
        "floor": 1e-24,  # squared, over the lengths: the root has no slope at 0
        "square": process.amplitude**2,
        "weights": process.weights[:, None],
        "inverse": process.factor.T,
        "center": process.center,
        "scale": process.scale,
        "noise": process.noise**2,
        "zero": 0.0,
        "band": BAND_DEVIATIONS * process.scale,
        "own": (process.at / process.lengths).T,
        "own_squared": ((process.at / process.lengths) ** 2).sum(axis=1)[None],
    }

    def node(kind: str, *given: str, **how: Any) -> str:
        out = f"t{len(nodes)}"
        nodes.append(helper.make_node(kind, list(given), [out], **how))
        return out

    x = node("Mul", node("Sub", "design", "offset"), "factor")
    squared = node("ReduceSum", node("Mul", x, x), "axes", keepdims=1)
    distance = node("Add", node("Add", squared, node("Mul", node("MatMul", x, "own"), "half")), "own_squared")
    a = node("Sqrt", node("Mul", node("Max", distance, "floor"), "five"))
    shape = node("Add", node("Add", a, "one"), node("Mul", node("Mul", a, a), "third"))
    fall = node("Exp", node("Neg", a))
    k = node("Mul", node("Mul", shape, fall), "square")
    mean = node("Add", node("Mul", node("MatMul", k, "weights"), "scale"), "center")
    solved = node("MatMul", k, "inverse")
    explained = node("ReduceSum", node("Mul", solved, solved), "axes", keepdims=1)
    spread = node("Sqrt", node("Add", node("Max", node("Sub", "square", explained), "zero"), "noise"))
    width = node("Mul", spread, "band")
    for name, column in (("value", mean), ("low", node("Sub", mean, width)), ("high", node("Add", mean, width))):
        nodes.append(helper.make_node("Squeeze", [column, "axes"], [name]))
    constants = {name: np.asarray(value, dtype=np.float64) for name, value in values.items()} | {"axes": np.array([1])}
    outputs = {key: ["n"] for key in ("value", "low", "high")}
    properties = {"columns": ",".join(columns)}
    return write_graph(path, nodes, {"design": ["n", len(columns)]}, outputs, constants, properties=properties)
