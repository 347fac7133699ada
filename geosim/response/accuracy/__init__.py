"""Discretisation and material errors of measures: error bars, and meshes adapted to a tolerance."""
