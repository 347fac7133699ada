"""Files of solids for printers: STL and 3MF, in millimetres."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np
import trimesh
from trimesh.exchange.stl import export_stl

from geosim.moulds.solids import arrays
from geosim.writing import replacing

MM = 1e3  # a metre in the unit of the files
SINGLE_PRECISION = 4.0 * float(
    np.finfo(np.float32).eps
)  # of the largest coordinate, with room for rounding of both ends
CORE = "http://schemas.microsoft.com/3dmanufacturing/core/2015/02"
TYPES = (
    '<?xml version="1.0" encoding="UTF-8"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="model" ContentType="application/vnd.ms-package.3dmanufacturing-3dmodel+xml"/></Types>'
)
RELATIONS = (
    '<?xml version="1.0" encoding="UTF-8"?><Relationships '
    'xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Target="/3D/3dmodel.model" Id="rel0" '
    'Type="http://schemas.microsoft.com/3dmanufacturing/2013/01/3dmodel"/></Relationships>'
)


def write_stl(solid: Any, path: Path) -> None:
    """Write a binary STL file [mm]."""
    # the file has single precision: edges that would be of no length there are collapsed
    vertices, faces = arrays(solid.simplify(SINGLE_PRECISION * float(np.abs(solid.bounding_box()).max())))
    with replacing(path) as beside:
        beside.write_bytes(export_stl(trimesh.Trimesh(vertices * MM, faces, process=False)))


def write_3mf(solids: Mapping[str, Any], path: Path) -> None:
    """Write solids with their names as objects of one 3MF file (core specification 1.3)."""
    objects, items = [], []
    for k, (name, solid) in enumerate(solids.items()):
        vertices, faces = arrays(solid)
        points = "".join(f'<vertex x="{x:.9g}" y="{y:.9g}" z="{z:.9g}"/>' for x, y, z in vertices * MM)
        triangles = "".join(f'<triangle v1="{a}" v2="{b}" v3="{c}"/>' for a, b, c in faces)
        objects.append(
            f'<object id="{k + 1}" type="model" name={quoteattr(name)}><mesh><vertices>{points}</vertices>'
            f"<triangles>{triangles}</triangles></mesh></object>"
        )
        items.append(f'<item objectid="{k + 1}"/>')
    model = (
        f'<?xml version="1.0" encoding="UTF-8"?><model unit="millimeter" xml:lang="en-US" xmlns="{CORE}">'
        f"<resources>{''.join(objects)}</resources><build>{''.join(items)}</build></model>"
    )
    with replacing(path) as beside, zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in (("[Content_Types].xml", TYPES), ("_rels/.rels", RELATIONS), ("3D/3dmodel.model", model)):
            file.writestr(name, text)
