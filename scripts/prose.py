"""Measure the prose of a checkout: `python scripts/prose.py [ROOT] [--list GROUP]`.

One line per group: sentences, words per sentence, sentences over 25 and 30 words, and phrases that the house style excludes
(CONTRIBUTING.md). Code blocks, tables, lists and headings are not sentences. Tables and lists also count for phrases.
"""

from __future__ import annotations

import argparse
import ast
import re
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

GOOD, LONGEST = 25, 30  # words of a sentence: the aim of the house style, and its limit
PHRASES = {
    name: re.compile(pattern, re.I)
    for name, pattern in {
        "those of": r"\bthose of\b",
        "so many": r"\bso many\b",
        "what stands": r"\bwhat stands\b",
        "stands in, where ... stands": r"\b(?:stands? (?:in|there|beside|where)\b|where it stands\b)",
        "what touches, what is met": r"\bwhat (?:touches|is met|pushes|presses|pulls|slides|is left|is asked|is known)\b",
        "what must be known": r"\bmust be known\b|\bis believed\b",
        "so do, nor does": r"\bso do(?:es)? (?:days|the)\b",
        "in vain": r"\bin vain\b",
        "all the same": r"\ball the same\b",
        "on the way": r"\bon (?:the|its|their) way\b",
        "decimal without its zero": r"(?<![\w.)\]%:-])\.\d",
        "per cent": r"\bper cent\b",
    }.items()
}
ABBREVIATIONS = re.compile(r"\b(e\.g|i\.e|cf|vs|et al|Fig|Eq|Sec|No|approx|doi)\.", re.I)
END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]?[A-Z0-9_`$<])")
MESSAGE_WORDS = 4  # a string of fewer words is a key, a column or a label


@dataclass
class Group:
    """Sentences with their places, and the excluded phrases found."""

    sentences: list[tuple[str, str]] = field(default_factory=list)
    phrases: list[tuple[str, str, str]] = field(default_factory=list)

    def add(self, place: str, paragraphs: list[str], text: str | None = None) -> None:
        """Split paragraphs into sentences and look for phrases in them, or in `text`."""
        for paragraph in paragraphs:
            self.sentences += [(place, sentence) for sentence in split(paragraph)]
        for part in [text] if text is not None else paragraphs:
            self.phrases += [
                (place, name, part[max(0, m.start() - 30) : m.end() + 30].replace("\n", " "))
                for name, pattern in PHRASES.items()
                for m in pattern.finditer(part)
            ]

    def over(self, most: int) -> list[tuple[str, str]]:
        """Return the sentences of more words."""
        return [(place, sentence) for place, sentence in self.sentences if count(sentence) > most]


def plain(text: str) -> str:
    """Return a text in which inline code, formulas and links are words."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"``[^`]+``|`[^`]+`", "CODE", text)
    text = re.sub(r"\$[^$]+\$", "FORMULA", text)
    return re.sub(r"[*_]{1,2}(\S[^*_]*\S|\S)[*_]{1,2}", r"\1", text)


def count(sentence: str) -> int:
    """Return the number of words: what holds a letter or a digit."""
    return sum(1 for word in sentence.split() if re.search(r"[^\W_]", word))


def split(paragraph: str) -> list[str]:
    """Return the sentences of a paragraph."""
    text = ABBREVIATIONS.sub(lambda m: m[0][:-1], " ".join(plain(paragraph).split()))
    return [sentence for sentence in END.split(text) if count(sentence) > 1]


def without_code(text: str) -> str:
    """Return a page of Markdown without its blocks of code and formulas."""
    text = re.sub(r"^( *)(`{3,}|~{3,}).*?^\1\2\s*$", "", text, flags=re.S | re.M)
    return re.sub(r"\$\$.*?\$\$", "FORMULA", text, flags=re.S)


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a page, without code, tables, lists and headings."""
    found = []
    for block in re.split(r"\n\s*\n", without_code(text)):
        first = block.strip("\n")
        if not re.match(r"\s*(?:[-*+] |\d+[.)] |\||#|:|<|    |!\[)", first):
            lines = [line for line in first.split("\n") if not line.startswith(("|", "#"))]
            found.append("\n".join(lines).partition("\n- ")[0])
    return [block for block in found if block.strip()]


def in_docstring(text: str) -> list[str]:
    """Return the paragraphs of a docstring; sections of numpy's format are lists."""
    text = re.split(r"^\s*\w[\w ]*\n\s*-{3,}$", text, flags=re.M)[0]
    return paragraphs("\n".join(line.strip() if line.strip() else "" for line in text.split("\n")))


def strings(tree: ast.Module) -> Iterator[tuple[int, str, bool]]:
    """Yield line, text and whether it is a docstring, of every text of a module."""
    documented = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                documented[id(node.body[0].value)] = text  # type: ignore[attr-defined]
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in node.values}
            parts = [str(p.value) if isinstance(p, ast.Constant) else "VALUE" for p in node.values]
            yield node.lineno, "".join(parts), False
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.lineno, documented.get(id(node), node.value), id(node) in documented


def is_message(text: str) -> bool:
    """Whether a string is read by a person: several words, no code, no template of a page."""
    words = re.findall(r"(?<![\w/])[A-Za-z][a-z']+(?![\w(=/])", text)
    return len(words) >= MESSAGE_WORDS and not re.search(
        r"[{};<>]\s*\n|\n\s*\n|=\"|</|^\s*(?:def|import) |^# \[", text, re.M
    )


def measure(root: Path) -> dict[str, Group]:
    """Return the groups of a checkout."""
    groups = {
        name: Group() for name in ("README", "docs", "CONTRIBUTING", "CHANGELOG", "help", "messages", "docstrings")
    }
    pages = [(name, root / f"{name}.md") for name in ("README", "CONTRIBUTING", "CHANGELOG")]
    pages += [("docs", page) for page in sorted((root / "docs").glob("*.md"))]
    for name, page in pages:
        text = page.read_text(encoding="utf-8")
        place = page.relative_to(root).as_posix()
        groups[name].add(place, paragraphs(text), plain(without_code(text)))
    for path in sorted((root / "geosim").rglob("*.py")):
        for line, text, documented in strings(ast.parse(path.read_text(encoding="utf-8"))):
            place = f"{path.relative_to(root).as_posix()}:{line}"
            if documented:
                command = path.parent.name == "cli" and "@main.command" in path.read_text(encoding="utf-8")
                groups["help" if command else "docstrings"].add(place, in_docstring(text), plain(without_code(text)))
            elif is_message(text):
                groups["help" if path.parent.name == "cli" else "messages"].add(place, [text])
    return groups


def main() -> None:
    """Print the table, and the long sentences and phrases of the groups that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parents[1])
    parser.add_argument(
        "--list", default="", metavar="TEXT", help="print long sentences and phrases of places with this"
    )
    given = parser.parse_args()
    row = "{:14}{:>10}{:>8}{:>8}{:>6}{:>9}{:>6}{:>9}\n"
    sys.stdout.write(row.format("", "sentences", "median", "mean", ">25", "% of all", ">30", "phrases"))
    for name, group in measure(given.root).items():
        words = [count(sentence) for _, sentence in group.sentences] or [0]
        long = len(group.over(GOOD))
        sys.stdout.write(
            row.format(
                name,
                len(group.sentences),
                f"{statistics.median(words):.0f}",
                f"{statistics.mean(words):.1f}",
                long,
                f"{100 * long / len(words):.1f}",
                len(group.over(LONGEST)),
                len(group.phrases),
            )
        )
        for place, sentence in group.over(GOOD) if given.list else []:
            if given.list in place or given.list == name:
                sys.stdout.write(f"  {place}: {count(sentence)} words: {sentence}\n")
        for place, phrase, text in group.phrases if given.list else []:
            if given.list in place or given.list == name:
                sys.stdout.write(f"  {place}: {phrase}: ...{text}...\n")


if __name__ == "__main__":
    main()
