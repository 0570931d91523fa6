"""Concurrent compilations into one folder."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from compilation import CACHED, MODULES, SOURCES, compile_tree, is_current, sources_of_extensions


class Compiler:
    """Fake mypyc, which blocks until the test releases it."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.release = threading.Event()
        self.times = 0

    def __call__(self, folder: Path) -> None:
        self.times += 1
        self.begun.set()
        assert self.release.wait(30)
        folder.mkdir()
        (folder / "path.so").write_bytes(b"")


def test_a_second_process_waits_for_a_running_compilation_and_takes_its_outcome(tmp_path: Path) -> None:
    folder = tmp_path / "compiled"
    compiler = Compiler()
    waits = threading.Event()
    first = threading.Thread(target=compile_tree, args=(folder, compiler))
    second = threading.Thread(target=compile_tree, args=(folder, compiler, waits.set))
    first.start()
    assert compiler.begun.wait(30)
    second.start()
    assert waits.wait(30)
    assert not folder.exists()
    compiler.release.set()
    first.join(60)
    second.join(60)
    assert is_current(folder)
    assert (folder / "path.so").exists()
    assert compiler.times == 1


def test_a_failed_compilation_leaves_the_folder_as_it_was_and_the_next_one_compiles(tmp_path: Path) -> None:
    def fail_compiling(folder: Path) -> None:
        raise OSError("no compiler")

    folder = tmp_path / "compiled"
    compiler = Compiler()
    folder.mkdir()
    (folder / "kept").touch()
    with pytest.raises(OSError, match="no compiler"):
        compile_tree(folder, fail_compiling)
    assert [path.name for path in folder.iterdir()] == ["kept"]
    compiler.release.set()
    (tmp_path / "compiled-of-one-that-was-ended" / "made").mkdir(parents=True)
    compile_tree(folder, compiler)
    assert is_current(folder)
    assert not (folder / "kept").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"compiled", "compiled.lock"}


def test_a_second_clone_takes_extensions_of_the_same_sources_from_the_cache(tmp_path: Path) -> None:
    compiler = Compiler()
    cache = tmp_path / "cache"
    compiler.release.set()
    for clone in ("first", "second"):
        compile_tree(tmp_path / clone, compiler, cache=cache)
        assert (tmp_path / clone / "path.so").exists()
        assert is_current(tmp_path / clone)
    assert compiler.times == 1


def test_the_cache_of_compilations_keeps_the_last_ones(tmp_path: Path) -> None:
    compiler = Compiler()
    cache = tmp_path / "cache"
    compiler.release.set()
    for number in range(CACHED + 2):
        (cache / f"old-{number}").mkdir(parents=True)
        (cache / f"old-{number}.lock").touch()
        os.utime(cache / f"old-{number}", (number, number))
    compile_tree(tmp_path / "clone", compiler, cache=cache)
    entries = {folder.name for folder in cache.iterdir() if folder.is_dir()}
    assert len(entries) == CACHED
    assert "old-0" not in entries
    assert not (cache / "old-0.lock").exists()


def test_extensions_are_made_of_their_modules_and_of_all_that_these_import() -> None:
    sources = {str(file.relative_to(SOURCES.parent)) for file in sources_of_extensions()}
    assert {f"gateway/{module}" for module in MODULES} <= sources
    assert {"gateway/fairlead_gateway/__init__.py", "crds/fairlead_api/meta.py"} <= sources
    assert not any(file.startswith(("gateway/fairlead_cli/", "gateway/fairlead_console/")) for file in sources)
