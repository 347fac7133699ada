"""Fixtures of studies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from geosim.apps.study import workforce
from geosim.apps.study.children import Children


@pytest.fixture(scope="module")
def one_server() -> Iterator[Callable[[pytest.MonkeyPatch], None]]:
    """What lets the sweeps of a file have one server, which each of them would start and end, with two seconds of imports."""
    children = Children()

    def shared(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(workforce, "Children", lambda: SimpleNamespace(run=children.run, close=lambda: None))

    yield shared
    children.close()
