"""Nouns of a problem: robots, actuation, environments, selections, cables, fibres, presets, and the contract of solvers."""
