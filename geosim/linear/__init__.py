"""Sparse factorisations, bordered systems and small dense algebra."""
