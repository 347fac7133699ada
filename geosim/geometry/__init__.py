"""Surfaces to tetrahedra: reading, checking, meshing, and parametric robots.

`surface` reads and checks closed surfaces, `mesh` turns them into one conforming tetrahedral mesh, `quality`
measures it, `parametric` makes the surfaces of simple robots. Nothing is imported here, so that the mesher's child
process starts quickly.
"""
