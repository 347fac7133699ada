"""Derivatives of equilibria: what a measure changes by when something about the problem changes."""
