"""Inverse actuation: what to command so that a robot does what is asked."""
