"""Newton's method for one equilibrium: equations, direction, line search, and what helps where it fails."""
