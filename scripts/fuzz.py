"""Throw seeded nonsense at everything that geosim reads, calls and obeys, and count what comes of it.

    python scripts/fuzz.py                                  # 3000 inputs, 500 of them sound; some minutes
    python scripts/fuzz.py --inputs 300 --kinds robot.toml calls commands

Files (robot files of all kinds, actuations, materials, surfaces, tets, archives, pulls, markers), calls of the Python API, the
arguments of all public functions (scripts/fuzz_calls.py), command lines, and specials that are made to hang or to crash
(scripts/fuzz_inputs.py). Each is `refused` (one line), `solved` (read, made, done), or else counted as a

- fault: the command line says that it is one of geosim,
- traceback: another exception than those of geosim,
- crash: the process died,
- hang: beyond `SECONDS` of the processor, or `WAIT` on the clock,
- noise: lines or warnings of libraries, or a message of more than one line,
- wrong: a sound input was not accepted.

Exit status 1 if there is any of these.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import io
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import geosim

sys.path.insert(0, str(Path(__file__).resolve().parent))
import fuzz_inputs

SECONDS, WAIT = 20, 90  # reading takes a fraction of one; the clock is for what waits, on a machine that others use
MEMORY = 6 << 30  # bytes: what asks for more has lost its way
BAD = ("fault", "traceback", "crash", "hang", "noise", "wrong")
NUMBERS = [
    "-1",
    "0",
    "1e308",
    "nan",
    "inf",
    "-inf",
    '"x"',
    "true",
    "[]",
    "[[]]",
    "{}",
    "9" * 400,
    "1e-300",
    "[1, [2]]",
    "1",
    "9223372036854775808",
]
TEXTS = ["", '""', "\x00", "\ud7ff", "..", "/dev/zero", "a" * 5000, "[" * 500, "é", "\t", "'", "=", "#"]


class HangError(Exception):
    """An input took too long."""


def stop(*_: object) -> None:
    """Called by the system's alarm."""
    raise HangError


def changed_text(text: str, rng: random.Random) -> bytes:
    """Return a text with one to three changes."""
    for _ in range(rng.randint(1, 3)):
        lines = text.split("\n")
        i = rng.randrange(len(lines))
        kind = rng.randrange(6)
        if kind == 0 and "=" in lines[i]:
            lines[i] = lines[i].split("=")[0] + "= " + rng.choice(NUMBERS)
        elif kind == 1:
            lines.insert(i, rng.choice(lines))
        elif kind == 2:
            del lines[i]
        elif kind == 3 and lines[i]:
            at = rng.randrange(len(lines[i]))
            lines[i] = lines[i][:at] + rng.choice(TEXTS) + lines[i][at:]
        elif kind == 4 and "=" in lines[i]:
            lines[i] = rng.choice(["x", "units", "fixed", "gravity", "environment"]) + " = " + rng.choice(NUMBERS)
        else:
            words = lines[i].split(",")
            words[rng.randrange(len(words))] = rng.choice(NUMBERS)
            lines[i] = ",".join(words)
        text = "\n".join(lines) or "\n"
    return text.encode("utf-8", "surrogatepass")


def changed_bytes(data: bytes, rng: random.Random) -> bytes:
    """Return bytes of which some are others, missing or twice there."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        at = rng.randrange(max(len(out), 1))
        kind = rng.randrange(4)
        if kind == 0:
            out[at : at + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            del out[at : at + rng.randint(1, 50)]
        elif kind == 2:
            out[at:at] = out[at : at + rng.randint(1, 50)]
        else:
            out[at : at + 4] = rng.choice([b"nan ", b"\xff\xff\xff\xff", b"\0\0\0\0", b"1e99", b"-1 -"])
    return bytes(out)


def changed(file: str, data: bytes, rng: random.Random) -> bytes:
    """Return what a file of this name holds after a few changes: of its lines, if it has any, or of its bytes."""
    text = file.endswith(("toml", "csv", "obj", "off")) and rng.random() < 0.8
    return changed_text(data.decode(), rng) if text else changed_bytes(data, rng)


def outcome(run: Callable[[], object]) -> tuple[str, str]:
    """Return what comes of a call, and what was said."""
    signal.signal(signal.SIGALRM, stop)
    signal.signal(signal.SIGPROF, stop)
    signal.alarm(WAIT)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            run()
    except (geosim.InputError, geosim.SolveError) as error:
        return ("noise" if "\n" in str(error) else "refused"), str(error)
    except HangError:
        return "hang", ""
    except Exception as error:  # noqa: BLE001 (whatever else comes out is what is looked for)
        return "traceback", f"{type(error).__name__}: {error} {traceback.format_exc().splitlines()[-3:-1]}"
    finally:
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
    foreign = [str(w.message) for w in warned if not issubclass(w.category, geosim.errors.GeosimWarning)]
    return ("noise", foreign[0]) if foreign else ("solved", "")


def obeyed(line: list[str]) -> tuple[str, str]:
    """Return what comes of a command line."""
    from geosim.cli import main

    said = io.StringIO()
    status: list[object] = []

    def run() -> None:
        try:
            with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
                main.main(args=line, prog_name="geosim")
        except SystemExit as end:
            status.append(end.code)

    kind, text = outcome(run)
    lines = said.getvalue().splitlines()
    if kind != "solved":
        return kind, text
    if "this is a fault of geosim" in said.getvalue():
        return "fault", lines[-1]
    strange = [one for one in lines if not one.startswith(("geosim: ", "note: ", "compiling kernels"))]
    if strange:
        return "noise", strange[0]
    return ("solved", "") if status == [0] else ("refused", lines[-1] if lines else "")


@contextlib.contextmanager
def heard(folder: Path) -> Iterator[Callable[[], str]]:
    """Give what libraries write to the file of standard error, past Python."""
    with (folder / "heard").open("w+b") as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:

            def told() -> str:
                file.seek(0)
                text = file.read().decode(errors="replace")
                file.seek(0)
                file.truncate()
                return text

            yield told
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def one_input(kind: str, sound: bool, number: int, seed: int, folder: Path) -> tuple[str, str, str]:
    """Run one input; return its name, what came of it, and what was said."""
    rng = random.Random(f"{seed} {kind} {sound} {number}")
    if kind == "calls":
        name, call = fuzz_inputs.calls(rng, 0 if sound else rng.randint(1, 2))
        return (name, *outcome(call))
    if kind == "arguments":
        name, call = fuzz_inputs.arguments(rng, 0 if sound else rng.randint(1, 2))
        return (name, *outcome(call))
    if kind == "commands":
        line = fuzz_inputs.commands(folder, rng, 0 if sound else rng.randint(1, 3))
        return (" ".join(word[:40] for word in line), *obeyed(line))
    if kind == "specials":
        name, call = list(fuzz_inputs.specials(folder).items())[number]
        return (name, *outcome(call))
    data = fuzz_inputs.files(folder)[kind](rng)
    path = folder / f"changed-{kind}"
    path.write_bytes(data if sound else changed(kind, data, rng))
    return (kind, *outcome(lambda: fuzz_inputs.readers()[kind](path)))


def work(kind: str, jobs: list[tuple[bool, int]], seed: int, folder: Path, pipe: object) -> None:
    """Run inputs in a process of its own, and send what came of each."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    inner = folder / "a" / "b"
    inner.mkdir(parents=True, exist_ok=True)
    os.chdir(inner)  # what `..` names stays in the folder
    with heard(folder) as told:
        for sound, number in jobs:
            name, came, said = one_input(kind, sound, number, seed, folder)
            noise = told().strip()
            if noise and kind != "commands" and came in ("solved", "refused"):
                came, said = "noise", noise
            if sound and came == "refused":
                came = "wrong"
            pipe.send((sound, number, name, came, said))  # type: ignore[attr-defined]


def results(
    kind: str, jobs: list[tuple[bool, int]], seed: int, folder: Path
) -> Iterator[tuple[bool, int, str, str, str]]:
    """Yield what came of every input; a process that dies is a crash, and the next one goes on behind it."""
    while jobs:
        here, there = multiprocessing.Pipe(duplex=False)
        child = multiprocessing.get_context("fork").Process(target=work, args=(kind, jobs, seed, folder, there))
        child.start()
        there.close()
        with contextlib.suppress(EOFError):
            while jobs:
                yield here.recv()
                jobs = jobs[1:]
        child.join()
        if jobs:
            yield (*jobs[0], kind, "crash", f"exit status {child.exitcode}")
            jobs = jobs[1:]


def shares(inputs: int, folder: Path) -> dict[str, tuple[int, int]]:
    """Kind -> inputs with changes and sound ones: a sixth is sound, calls and commands have more than a file each."""
    kinds = dict.fromkeys(fuzz_inputs.readers(), 1.0) | {"calls": 6.0, "arguments": 8.0, "commands": 3.0}
    hostile = len(fuzz_inputs.specials(folder))
    scale = (5 * inputs / 6 - hostile) / sum(kinds.values()), inputs / 6 / sum(kinds.values())
    counts = {kind: tuple(max(1, round(share * s)) for s in scale) for kind, share in kinds.items()}
    return {**{k: (a, b) for k, (a, b) in counts.items()}, "specials": (hostile, 0)}


def main() -> int:
    """Run the inputs and print the counts."""
    parser = argparse.ArgumentParser(
        description="Throw seeded nonsense at everything that geosim reads, calls and obeys."
    )
    parser.add_argument("--inputs", type=int, default=3050, help="how many, a sixth of them sound")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="*", help="robot.toml, box.stl, ..., calls, arguments, commands, specials")
    parser.add_argument("--show", action="store_true", help="print what was said of every input")
    given = parser.parse_args()
    total: collections.Counter[str] = collections.Counter()
    heads = ("solved", "refused", *BAD)
    sys.stdout.write(f"{'kind':15}{'inputs':>7}{'sound':>7}" + "".join(f"{head:>10}" for head in heads) + "\n")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, make in fuzz_inputs.files(folder).items():
            (folder / file).write_bytes(make(random.Random(0)))
        for kind, (spoilt, sound) in shares(given.inputs, folder).items():
            if given.kinds and kind not in given.kinds:
                continue
            jobs = [(False, i) for i in range(spoilt)] + [(True, i) for i in range(sound)]
            counts: collections.Counter[str] = collections.Counter(inputs=len(jobs), sound=sound)
            for is_sound, number, what, came, said in results(kind, jobs, given.seed, folder):
                counts[came] += 1
                if came in BAD or given.show:
                    text = " ".join(said.split())[:400].encode(errors="backslashreplace").decode()
                    sys.stdout.write(f"  {came} {kind} {'sound ' * is_sound}{number} {what!r:.120}: {text}\n")
            total += counts
            sys.stdout.write(f"{kind:15}" + _row(counts, heads))
            sys.stdout.flush()
    sys.stdout.write(f"{'all':15}" + _row(total, heads))
    return 1 if any(total[kind] for kind in BAD) else 0


def _row(counts: collections.Counter[str], heads: tuple[str, ...]) -> str:
    numbers = "".join(f"{counts[head]:>10}" for head in heads)
    return f"{counts['inputs']:>7}{counts['sound']:>7}{numbers}\n"


if __name__ == "__main__":
    sys.exit(main())
