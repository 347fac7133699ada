"""README and docs keep to the house style, and README quotes only kept figures."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def prose():
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import prose
    finally:
        sys.path.pop(0)
    return prose


def _pages():
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_no_sentence_of_readme_and_docs_is_long(prose):
    group = prose.Group()
    for page in _pages():
        text = page.read_text(encoding="utf-8")
        group.add(page.name, prose.paragraphs(text), prose.plain(prose.without_code(text)))
    assert group.over(prose.LONGEST) == []
    assert len(group.over(prose.GOOD)) <= 0.05 * len(group.sentences)
    assert group.phrases == []


def test_the_count_sees_a_long_sentence_and_a_listed_phrase(prose):
    text = " ".join(["word"] * 31) + ". What stands here is one of those of the list, at .5 of it."
    group = prose.Group()
    group.add("", prose.paragraphs(text))
    assert len(group.over(prose.LONGEST)) == 1
    assert {name for _, name, _ in group.phrases} == {"those of", "what stands", "decimal without its zero"}


def test_readme_is_short():
    assert len(README.split()) <= 700


def test_the_page_of_figures_is_written_from_the_kept_rows():
    subprocess.run([sys.executable, ROOT / "benchmarks" / "figures.py", "--check"], check=True)


def test_every_number_of_the_readme_is_a_kept_figure():
    figures = (ROOT / "docs" / "figures.md").read_text(encoding="utf-8")
    text = re.sub(r"```.*?```|\]\([^)]*\)|`[^`]*`|doi \S+|\[\w+\]|[A-Za-z]+-3", "", README, flags=re.S)
    numbers = re.findall(r"(?<![\w.])\d[\d.]*k?(?![\w])", text)
    assert len(numbers) > 15
    for number in numbers:
        assert re.search(rf"(?<![\d.]){re.escape(number.rstrip('.'))}(?![\d])", figures), number


def test_the_changelog_has_one_line_an_entry():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for version in re.split(r"^## ", text, flags=re.M)[1:]:
        entries = [line for line in version.split("\n")[1:] if line.strip() and not line.startswith("#")]
        assert all(line.startswith("- ") for line in entries), version[:20]
        assert version.startswith("Unreleased") or 10 <= len(entries) <= 30, version[:20]
