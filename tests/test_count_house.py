"""scripts/count_house.py counts what changes after an object is made."""

from __future__ import annotations

import ast

import count_house
import pytest

CLASS = """
class Walker:
    def __init__(self, room):
        self.room = room            # set once
        self._prepare()

    def __post_init__(self):
        self.late = 0               # set once

    def _prepare(self):
        self.ready = True           # a helper of the constructor, which can be called again

    def walk(self, now: "Iterate", other):
        self.count += 1             # augmented
        self.x[:] = 0.0             # in place
        self.path.append(1)
        here = self.state
        here.point[3] = 1.0         # through an alias
        now.residual = 0.0          # of an argument
        made = Report()
        made.text = ""
        self.a, (self.b, *self.c) = 1, (2, 3)
        for self.k in range(3):
            pass
        del self.gone
        left = [0]
        left[0] = self.room         # of nothing that outlives the call

    def turn(self, by: Walker):
        by.angle = 0.0              # of another one of its kind
"""

FIELDS = {
    *("ready", "count", "x", "path", "state.point", "Iterate.residual", "Report.text"),
    *("a", "b", "c", "k", "gone", "angle"),
}


def test_fields_change_wherever_a_method_assigns_them_whoever_calls_it():
    (walker,) = ast.parse(CLASS).body
    assert isinstance(walker, ast.ClassDef)
    assert count_house.changing_fields(walker) == FIELDS


@pytest.fixture(scope="module")
def classes():
    found = count_house.modules(count_house.ROOT)
    return [(m.name, n) for m in found for n in ast.walk(m.tree) if isinstance(n, ast.ClassDef)]


def test_no_class_has_more_fields_that_change_than_a_reader_keeps_in_mind(classes):
    sizes = {f"{module}.{node.name}": len(count_house.changing_fields(node)) for module, node in classes}
    assert len(sizes) > 300
    assert {name: size for name, size in sizes.items() if size > count_house.MOST_FIELDS} == {}
