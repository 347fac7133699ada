"""Applications. They use the core and register with it; the core imports none of them."""
