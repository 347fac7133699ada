"""Surfaces to tetrahedra: reading, checking, meshing.

`surface` reads and checks closed surfaces, `mesh` turns them into one conforming tetrahedral mesh, `quality`
measures it. Nothing is imported here, so that the mesher's child process starts quickly.
"""
