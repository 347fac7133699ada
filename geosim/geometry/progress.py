"""Lines that the logger `geosim.mesh` gets while a step of meshing takes longer than two seconds."""

from __future__ import annotations

import logging
import time

log = logging.getLogger("geosim.mesh")
QUIET_SECONDS, LINE_SECONDS = 2.0, 5.0  # before the first line of a step, and between two


class Progress:
    """The clock of one step."""

    def __init__(self, step: str) -> None:
        self.step, self.begin = step, time.monotonic()
        self.next = self.begin + QUIET_SECONDS

    def say(self, state: str = "") -> None:
        """Say how far the step is, unless a line has just been written."""
        now = time.monotonic()
        if now >= self.next:
            log.info("%s: %s%.0f s", self.step, state and f"{state}, ", now - self.begin)
            self.next = now + LINE_SECONDS
