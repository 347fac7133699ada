"""Builds the documentation as static files that any web server can show: `python scripts/publish_site.py OUT [--placeholders]`.

The gallery is built once: its scripts run where they have changed since the last build, and their pictures are kept in
docs/auto_gallery. With --placeholders they do not run, and pages without a kept picture show a placeholder. A page that would ask
another server for a script, a style, a font or a picture is an error: readers of the site make no request to anywhere else.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOADED = re.compile(
    r"<(?:script|img|iframe|source|video)\b[^>]*\bsrc=[\"'](?:https?:)?//[^\"']+|<link\b[^>]*>|url\((?:https?:)?//[^)]+"
)
LINK_OUT = re.compile(
    r"rel=[\"'](?:stylesheet|icon|preload|preconnect|dns-prefetch|manifest)[\"'][^>]*href=[\"'](?:https?:)?//|"
    r"href=[\"'](?:https?:)?//[^>]*rel=[\"'](?:stylesheet|icon|preload|preconnect|dns-prefetch|manifest)[\"']"
)


def foreign(text: str) -> list[str]:
    """What a page or a style sheet loads from another server."""
    found = LOADED.findall(text)
    return [part for part in found if not part.startswith("<link") or LINK_OUT.search(part)]


def build(out: Path, *, placeholders: bool = False) -> None:
    """Build the site into a folder, which is replaced."""
    work = out.with_name(out.name + ".building")
    shutil.rmtree(work, ignore_errors=True)
    flags = ["-D", "plot_gallery=0"] if placeholders else []
    subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", *flags, str(ROOT / "docs"), str(work)], check=True
    )
    for name in (".doctrees", ".buildinfo", "_sources", "objects.inv.tmp"):
        path = work / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    (work / ".nojekyll").touch()  # for hosts that would leave out folders that begin with an underscore
    wrong = [
        f"{path.relative_to(work)}: {part}"
        for path in sorted(work.rglob("*"))
        if path.suffix in (".html", ".css")
        for part in foreign(path.read_text(encoding="utf-8"))
    ]
    if wrong:
        raise SystemExit("these pages load something from elsewhere:\n" + "\n".join(wrong[:20]))
    shutil.rmtree(out, ignore_errors=True)
    work.rename(out)


if __name__ == "__main__":
    given = [word for word in sys.argv[1:] if not word.startswith("--")]
    unknown = {word for word in sys.argv[1:] if word.startswith("--")} - {"--placeholders"}
    if len(given) != 1 or unknown:
        raise SystemExit(__doc__)
    build(Path(given[0]).resolve(), placeholders="--placeholders" in sys.argv)
    files = [path for path in Path(given[0]).rglob("*") if path.is_file()]
    sys.stdout.write(f"{len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:.0f} MB in {given[0]}\n")
