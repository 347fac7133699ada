"""Multibody soft-rigid dynamics and the soft snake of [Gasoto2019]."""
