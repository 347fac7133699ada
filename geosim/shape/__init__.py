"""The quasi-static shape of volumetric robots."""
