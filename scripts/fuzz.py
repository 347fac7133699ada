"""Throw seeded nonsense at everything that geosim reads, calls and obeys, and count what comes of it.

    python scripts/fuzz.py                                  # 6000 inputs, a sixth of them sound; some minutes
    python scripts/fuzz.py --seed 7 --count 300 --kinds robot.toml calls commands

tests/fuzzing/ draws the inputs: files of every reader, calls of every public function, command lines, and specials that are made
to hang or to fill the memory. Each is `refused` (one line) or `done`, or else counted as a

- fault: the command line says that it is one of geosim,
- traceback: another exception than those of geosim,
- wrong: what was read is not what was written, or stands nowhere in the file,
- refused sound: a sound input was not accepted,
- noise: lines or warnings of libraries, or a message of more than one line,
- slow, memory: beyond 60 s of the processor, or 2 GB,
- crash: the process died, or answered nothing for ten minutes.

Exit status 1 if there is any of these.
"""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import os
import resource
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from fuzzing.calls import calls
from fuzzing.commands import commands, specials
from fuzzing.judging import BAD, Input, judged, scratch
from fuzzing.readers import READERS, inputs

ADDRESS_SPACE = 8 << 30  # bytes: beyond them an allocation fails, before the machine suffers
SILENT_SECONDS = 600.0  # of a process, on a machine that others use
KINDS: dict[str, SearchStrategy[Input]] = {
    **{name: inputs(reader) for name, reader in READERS.items()}, "calls": calls(), "commands": commands()
}  # fmt: skip
SHARES = {"calls": 12.0, "commands": 3.0, "part.step": 0.1}  # of the inputs; a reader has one
HEADS = ("done", "refused", *BAD)

Row = tuple[str, bool, str, str]


def draw(kind: str, count: int, begin: int, pipe: Connection) -> None:
    """Draw and judge inputs of one kind in this process, and send what came of each."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    os.chdir(scratch())
    if kind == "specials":
        for name, call in specials().items():
            one = Input(name, False, call)
            pipe.send((name, False, *judged(one)))
        return

    @seed(begin)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(KINDS[kind])
    def each(one: Input) -> None:
        pipe.send((one.title, one.sound, *judged(one)))

    each()


def results(kind: str, count: int, begin: int) -> Iterator[Row]:
    """Yield what came of every input; a process that dies is a crash, and the next one draws others."""
    left = count
    for attempt in range(9):
        here, there = multiprocessing.Pipe(duplex=False)
        child = multiprocessing.get_context("fork").Process(
            target=draw, args=(kind, left, begin + 1000 * attempt, there)
        )
        child.start()
        there.close()
        silent = False
        while left > 0 and not silent:
            try:
                silent = not here.poll(SILENT_SECONDS)
                if not silent:
                    row = here.recv()
                    left -= 1
                    yield row
            except EOFError:
                break
        if child.is_alive() and (silent or left <= 0):
            child.kill()
        child.join()
        if silent or (child.exitcode and left > 0):
            left -= 1
            yield kind, False, "crash", "silent" if silent else f"exit status {child.exitcode}"
        if left <= 0 or kind == "specials":
            return


def main() -> int:
    """Run the inputs and print the counts."""
    parser = argparse.ArgumentParser(
        description="Throw seeded nonsense at everything that geosim reads, calls and obeys."
    )
    parser.add_argument("--count", type=int, default=6000, help="how many inputs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="*", help=f"of {', '.join(KINDS)}, specials")
    parser.add_argument("--show", action="store_true", help="print what was said of every input")
    asked = parser.parse_args()
    chosen = {kind: SHARES.get(kind, 1.0) for kind in KINDS if not asked.kinds or kind in asked.kinds}
    counts = {kind: max(1, round(asked.count * share / sum(chosen.values()))) for kind, share in chosen.items()}
    if not asked.kinds or "specials" in asked.kinds:
        counts["specials"] = len(specials())
    total: collections.Counter[str] = collections.Counter()
    sys.stdout.write(f"{'kind':15}{'inputs':>7}{'sound':>7}" + "".join(f"{head:>14}" for head in HEADS) + "\n")
    for kind, count in counts.items():
        found: collections.Counter[str] = collections.Counter()
        for title, sound, came, said in results(kind, count, asked.seed):
            found.update(inputs=1, sound=int(sound), **{came: 1})
            if came in BAD or asked.show:
                text = " ".join(said.split())[:400].encode(errors="backslashreplace").decode()
                sys.stdout.write(f"  {came} {kind} {title!r:.160}: {text}\n")
        total += found
        sys.stdout.write(f"{kind:15}" + _row(found))
        sys.stdout.flush()
    sys.stdout.write(f"{'all':15}" + _row(total))
    return 1 if any(total[kind] for kind in BAD) else 0


def _row(counts: collections.Counter[str]) -> str:
    return f"{counts['inputs']:>7}{counts['sound']:>7}" + "".join(f"{counts[head]:>14}" for head in HEADS) + "\n"


if __name__ == "__main__":
    sys.exit(main())
