"""Constraints and what enforces them: chambers, cables, gas, rigid groups, free bodies, supports."""
