"""The quasi-static energy solver: Newton on the mixed finite-element problem."""
