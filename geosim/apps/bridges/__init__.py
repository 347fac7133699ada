"""Bridges: geosim inside other tools. Differentiable functions, reduced models, control loops, files of robot simulators."""
