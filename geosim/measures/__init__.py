"""Measures of a shape: functions of positions, elements and frames, which `Result` offers as properties."""
