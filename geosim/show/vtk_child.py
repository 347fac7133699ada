"""Draws one scene by VTK: python -m geosim.show.vtk_child SCENE.npz PICTURE.png. Its own process, because it may die."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import numpy as np


def main(scene: str, picture: str) -> None:
    """Draw the layers of a scene written by `geosim.show.picture` with the camera in it."""
    pyvista: Any = import_module("pyvista")  # its types differ from version to version
    with np.load(scene, allow_pickle=False) as archive:
        data = dict(archive)
    plotter = pyvista.Plotter(off_screen=True, window_size=data["size"].tolist(), lighting="light kit")
    plotter.set_background("white")
    i = 0
    while f"points{i}" in data:
        triangles = data[f"triangles{i}"]
        faces = np.hstack([np.full((len(triangles), 1), 3), triangles]).ravel()
        mesh = pyvista.PolyData(data[f"points{i}"], faces)
        mesh.point_data["rgb"] = np.round(255 * data[f"colors{i}"]).astype(np.uint8)
        plotter.add_mesh(
            mesh,
            scalars="rgb",
            rgb=True,
            opacity=float(data[f"opacity{i}"]),
            smooth_shading=True,
            split_sharp_edges=True,
            feature_angle=35.0,
            specular=0.2,
            specular_power=30.0,
            ambient=0.25,
        )
        i += 1
    _, up, eye = data["axes"]
    reach = 10.0 * float(data["extent"].max())
    plotter.camera.position = data["center"] + reach * eye
    plotter.camera.focal_point = data["center"]
    plotter.camera.up = up
    plotter.enable_parallel_projection()
    plotter.camera.parallel_scale = 0.5 * float(data["extent"][1])
    plotter.camera.clipping_range = (0.01 * reach, 3.0 * reach)
    plotter.enable_anti_aliasing("ssaa")
    plotter.screenshot(picture)
    plotter.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
