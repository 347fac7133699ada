"""A page in the browser where a knob is turned and the robot answers: `geosim studio` (extra `studio`); uses `study`."""

from __future__ import annotations

__all__: list[str] = []
