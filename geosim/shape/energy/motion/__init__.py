"""Bodies in time: mass, damping, and the rules of time stepping."""
