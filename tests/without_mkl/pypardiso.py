"""Stands before the real package where this folder leads PYTHONPATH: geosim then finds no MKL, child processes included."""

raise ImportError("pypardiso is hidden by tests/without_mkl")
