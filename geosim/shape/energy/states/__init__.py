"""Data of the nonlinear equations, which all others share."""
