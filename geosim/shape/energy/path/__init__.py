"""Continuation along a load path: predictor, arc-length steps, limit points and branches."""
