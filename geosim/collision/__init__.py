"""Bounding-box trees, crossings, proximity and obstacles, shared by all solvers."""
