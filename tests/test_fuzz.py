"""A short run of scripts/fuzz.py: what is read is what was written, or it is refused in one line."""

from __future__ import annotations

import pytest
from fuzzing.calls import calls
from fuzzing.judging import BAD, Input, judged
from fuzzing.readers import READERS, Reader, Sound, inputs
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from geosim import InputError

QUIET = settings(
    database=None, deadline=None, derandomize=True, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)


FEW = {"markers.c3d": 8, "part.step": 3, "surrogate.npz": 10}  # inputs of readers that take longer


def judge(one: Input) -> None:
    came, said = judged(one)
    assert came not in BAD, (came, one.title, said)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "part.step" else name for name in READERS]
)
def test_files_are_read_as_written_or_refused_in_one_line(name, monkeypatch):
    if name == "part.step":
        pytest.importorskip("OCP")
    if name == "shape.xlsx":
        pytest.importorskip("openpyxl")
    if name == "markers.c3d":
        pytest.importorskip("ezc3d")
        monkeypatch.setattr("geosim.apps.compare.markers.READING_SECONDS", 0.5)  # some of them are never read

    @settings(QUIET, max_examples=FEW.get(name, 25))
    @given(inputs(READERS[name]))
    def each(one):
        judge(one)

    each()


@settings(QUIET, max_examples=120)
@given(calls())
def test_calls_are_answered_or_refused_in_one_line(one):
    judge(one)


def number(path, sound):
    text = path.read_bytes().decode("latin-1")
    if not (text.isascii() and text.isdigit()):
        raise InputError(f"{path}: {text!r} is no number")
    return int(text)


@pytest.mark.parametrize(
    ("read", "came"),
    [
        (number, "done"),
        (lambda path, sound: number(path, sound) + (number(path, sound) > 50), "wrong"),
        (lambda path, sound: int(path.read_text()), "traceback"),
        (lambda path, sound: number(path.with_name("none"), sound), "traceback"),
        (lambda path, sound: number(path, sound) if number(path, sound) < 50 else number(path, None.x), "traceback"),
    ],
)
def test_a_reader_that_invents_numbers_or_lets_damage_through_is_found(read, came):
    """Planted faults in a reader of one number: another value above 50, no check of what is a number, the wrong file."""
    sound = st.integers(0, 99).map(lambda n: Sound(str(n).encode(), n))
    reader = Reader(
        "n.txt", sound, read, lambda n, sound, data: "" if data != sound.data or n == sound.holds else f"{n}"
    )
    found = set()

    @settings(QUIET, max_examples=60)
    @given(inputs(reader))
    def each(one):
        found.add(judged(one)[0])

    each()
    assert came in found
    assert (not found & set(BAD)) == (came == "done")


def test_a_reader_that_refuses_everything_fails():
    def refuse(path, sound):
        raise InputError(f"{path}: no")

    @settings(QUIET, max_examples=30)
    @given(inputs(Reader("n.txt", st.just(Sound(b"1")), refuse)))
    def each(one):
        found.add(judged(one)[0])

    found = set()
    each()
    assert "refused sound" in found
