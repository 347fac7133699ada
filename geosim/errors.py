"""Exceptions and warnings: one line with the file, the value and the remedy."""

from __future__ import annotations

import re
from typing import Any

# Letters of a value that a message shows; of the whole message, whatever it lists.
MOST_SHOWN, MOST_SAID = 100, 2000
# What is quoted, what is in brackets, and what has no gap: a value of a user may be any of them.
_PIECES = re.compile(
    rf"(?<!\w)'[^']{{{MOST_SHOWN},}}'(?!\w)|(?<!\w)\"[^\"]{{{MOST_SHOWN},}}\"(?!\w)"
    rf"|\[[-+.,\deinfa\s\[\]()]{{{MOST_SHOWN},}}\]|[^\s/\\]{{{MOST_SHOWN},}}"
)


def one_line(message: str) -> str:
    """Return a message on one line, with what it quotes cut where that is long."""
    text = _PIECES.sub(_cut, " ".join(message.split()))
    return text if len(text) <= MOST_SAID else f"{text[: MOST_SAID // 2]} ... {text[-MOST_SAID // 2 :]}"


def _cut(found: re.Match[str]) -> str:
    piece = found[0]
    return f"{piece[: MOST_SHOWN // 2]}...{piece[-MOST_SHOWN // 4 :]}"


class GeosimError(Exception):
    """Root of every error that geosim raises on purpose; its message is one line and quotes short pieces of values."""

    def __init__(self, message: str = "") -> None:
        super().__init__(one_line(str(message)))


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
