"""Materials: laws (energies and their derivatives), the materials that use them, and presets."""
