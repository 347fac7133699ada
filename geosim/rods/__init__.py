"""Discrete elastic rods, discrete shells, their joints and contact: the time stepper of [Choi2024] and [Lahoti]."""
