"""Compiled kernels are kept, found again, and compiled anew where their files are damaged; nobody else's are used."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from geosim import kernels


def doubled(x):
    return 2.0 * x


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(kernels, "cache_folder", lambda: tmp_path)
    return tmp_path


def called() -> int:
    """Compile or load, call, and return how often the kept kernel was used."""
    made = kernels.kernel(doubled)
    assert made(3.0) == 6.0
    return sum(made.stats.cache_hits.values())


def test_a_kernel_is_kept_and_a_damaged_one_is_compiled_again(folder):
    assert called() == 0
    assert called() == 1
    for suffix in ("nbc", "nbi"):
        for damage in (lambda data: b"", lambda data: data[: len(data) // 2], lambda data: bytes(b ^ 1 for b in data)):
            (path,) = folder.rglob(f"*.{suffix}")
            path.write_bytes(damage(path.read_bytes()))
            assert called() == 0
            assert called() == 1


def test_one_changed_bit_of_machine_code_is_seen(folder):
    called()
    (path,) = folder.rglob("*.nbc")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 16
    path.write_bytes(data)
    assert called() == 0


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="users are those of POSIX")
def test_a_shared_folder_is_used_only_if_it_is_ones_own(tmp_path, monkeypatch):
    """Where nothing else can be written: one's own and private, yes; writable by others, or a link, no."""
    monkeypatch.setattr(kernels, "_writable", lambda folder: folder.parent == Path(tempfile.gettempdir()))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kernels.cache_folder.cache_clear()
    shared = tmp_path / f"geosim-cache-{os.getuid()}"
    try:
        assert kernels.cache_folder() == shared
        shared.chmod(0o777)
        kernels.cache_folder.cache_clear()
        assert kernels.cache_folder() is None
        shared.rmdir()
        shared.symlink_to(tmp_path)
        kernels.cache_folder.cache_clear()
        assert kernels.cache_folder() is None
    finally:
        kernels.cache_folder.cache_clear()
