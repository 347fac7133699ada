"""Exceptions and warnings: one line with the file, the value and the remedy."""

from __future__ import annotations

from typing import Any


class GeosimError(Exception):
    """Root of every error that geosim raises on purpose."""


class InputError(GeosimError, ValueError):
    """The input cannot be used; the message names the value and the remedy."""


class MeshError(InputError):
    """Surfaces that passed all checks could not be meshed."""


class SolveError(GeosimError):
    """A solve stopped before its last command.

    Parameters
    ----------
    message
        The sentence a user reads.
    result
        The `Result` with every command that was reached.
    """

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


class GeosimWarning(UserWarning):
    """Root of every warning that geosim issues."""
