"""Contact with obstacles and self-contact: potential, laws, friction, limits of steps."""
