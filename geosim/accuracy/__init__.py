"""How far off a prediction is, and the mesh that brings it near enough."""
