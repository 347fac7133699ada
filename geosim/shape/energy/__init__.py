"""The quasi-static energy solver: Newton's method on mixed displacement-pressure finite elements."""
