"""Compiles the path of a call, on request: the image does, `pip install` does not.

The modules of MODULES are ordinary Python and work as such. mypyc makes C extensions of them, which stand beside their
sources and are imported in their place. Here is the build hook of the wheel (HATCH_BUILD_HOOK_ENABLE_CUSTOM=true turns
it on; it needs a C compiler and Python's headers), and what `hack/compile` runs. What a compiled module must not do,
and what all this gains: docs/contribute/compiled-code.md.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCES: Final = ROOT / "gateway"
TYPED: Final = (SOURCES, ROOT / "crds", ROOT / "operator")
"""Folders of the modules whose types the compiler reads."""
PACKAGES: Final = ("fairlead_gateway", "fairlead_mcp", "fairlead_offers", "fairlead_tools")
COMPILED: Final = "FAIRLEAD_COMPILED"
"""Environment variable with a folder of compiled extensions, which are then put into the wheel."""
GROUP: Final = "fairlead_path"
"""Name of the extension that holds the code of all MODULES: `GROUP__mypyc`, at the top of site-packages."""
CACHED: Final = 6
"""Maximum number of cached compilations, of about 10 MB each."""
_STAMP: Final = "state"
"""File in a folder of extensions with the hash of their sources."""
_IMPORT: Final = re.compile(
    r"^[ \t]*(?:from (fairlead_[\w.]+) import (\([^)]*\)|.*)|import (fairlead_[\w.]+))", re.MULTILINE
)
_NAME: Final = re.compile(r"\w+")
MODULES: Final = (
    "fairlead_gateway/calls/path/dispatch.py",
    "fairlead_gateway/calls/path/attempts.py",
    "fairlead_gateway/calls/path/call.py",
    "fairlead_gateway/calls/path/client_call.py",
    "fairlead_gateway/calls/path/context.py",
    "fairlead_gateway/calls/path/direct.py",
    "fairlead_gateway/core/request.py",
    "fairlead_gateway/calls/questions/message_relay.py",
    "fairlead_gateway/calls/path/record.py",
    "fairlead_gateway/calls/sealed/sessions.py",
    "fairlead_gateway/calls/routes/targets.py",
    "fairlead_gateway/calls/translation/translate.py",
    "fairlead_gateway/calls/path/watched_calls.py",
    "fairlead_gateway/core/ports.py",
    "fairlead_gateway/endpoint/session_claims.py",
    "fairlead_gateway/endpoint/event_store.py",
    "fairlead_gateway/endpoint/exchange.py",
    "fairlead_gateway/endpoint/head_cache.py",
    "fairlead_gateway/endpoint/http_service.py",
    "fairlead_gateway/endpoint/mcp_endpoint.py",
    "fairlead_gateway/endpoint/inbound.py",
    "fairlead_gateway/endpoint/connection.py",
    "fairlead_gateway/endpoint/reader.py",
    "fairlead_gateway/endpoint/responses.py",
    "fairlead_gateway/endpoint/stream_starts.py",
    "fairlead_gateway/core/route.py",
    "fairlead_gateway/core/session.py",
    "fairlead_gateway/identity/request_authentication.py",
    "fairlead_gateway/recent/ring.py",
    "fairlead_gateway/reports/samples.py",
    "fairlead_gateway/limits/buffers.py",
    "fairlead_gateway/policy/view.py",
    "fairlead_gateway/telemetry.py",
    "fairlead_gateway/upstream/breaker.py",
    "fairlead_gateway/upstream/guard.py",
    "fairlead_gateway/upstream/http.py",
    "fairlead_gateway/upstream/http_call.py",
    "fairlead_gateway/upstream/per_client.py",
    "fairlead_gateway/core/upstream_request.py",
    "fairlead_gateway/upstream/server_session.py",
    "fairlead_mcp/http/connection.py",
    "fairlead_mcp/http/exchange.py",
    "fairlead_mcp/http/heads.py",
    "fairlead_mcp/http/pool.py",
    "fairlead_mcp/idle.py",
    "fairlead_mcp/jsonrpc.py",
    "fairlead_mcp/progress_token.py",
    "fairlead_mcp/sse.py",
    "fairlead_offers/run/requested_calls.py",
    "fairlead_tools/validation/checker.py",
)
"""Modules on the path of every call. All are in one extension, because compiled calls between them save the most
time."""


class CompiledPath(BuildHookInterface[Any]):
    """Build hook for a wheel for one interpreter and one platform."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(os.environ.get(COMPILED) or self._folder.name)
        if not os.environ.get(COMPILED):
            compile_into(folder)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"] |= {str(file): str(file.relative_to(folder)) for file in folder.rglob("*.so")}

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if not build_data["pure_python"]:
            self._folder.cleanup()


def compile_into(folder: Path) -> None:
    """Compile MODULES; the extensions lie in `folder` as their sources do in the wheel.

    Raises subprocess.CalledProcessError when something is wrong, which has been printed.
    """
    # in a separate process: mypyc ends its process at an error, and writes to standard output
    command = [sys.executable, __file__, "--into", str(folder.resolve())]
    subprocess.run(command, check=True, cwd=SOURCES, stdout=sys.stderr)


def compile_tree(
    folder: Path,
    compiler: Callable[[Path], None] = compile_into,
    waits: Callable[[], None] = lambda: None,
    cache: Path | None = None,
) -> None:
    """All packages with their extensions in `folder`, to be put in front of the sources on Python's path. While another
    process makes it, wait, and take that; `waits` is called before.

    Args:
        cache: Folder of extensions by the hash of their sources, which every clone shares; the last CACHED are kept.
    """
    with _alone_in(folder, waits):
        if is_current(folder):
            return
        for left in folder.parent.glob(
            f"{folder.name}-*"
        ):  # left by processes that were killed: no other process is compiling now
            shutil.rmtree(left, ignore_errors=True)
        state = _state(_all_files())
        # in a temporary folder, so that no process finds an incomplete one, even if this one is killed
        with tempfile.TemporaryDirectory(prefix=f"{folder.name}-", dir=folder.parent) as work_folder:
            made = Path(work_folder) / "made"
            copy_extensions(made, compiler, cache)
            for package in PACKAGES:
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(SOURCES / package, made / package, dirs_exist_ok=True, ignore=ignored)
            (made / _STAMP).write_text(state)
            (folder / _STAMP).unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
            made.rename(folder)


def copy_extensions(target: Path, compiler: Callable[[Path], None] = compile_into, cache: Path | None = None) -> None:
    """Put the extensions into `target`: from the cache, or compiled and then cached."""
    if cache is None:
        compiler(target)
        return
    cache.mkdir(parents=True, exist_ok=True)
    entry = cache / _state(sources_of_extensions())
    with _alone_in(entry):  # two clones of one commit compile only once
        if entry.is_dir():
            entry.touch()
        else:
            with tempfile.TemporaryDirectory(prefix="compiling-", dir=cache) as folder:
                compiled = Path(folder) / "extensions"
                compiler(compiled)
                compiled.rename(entry)
        shutil.copytree(entry, target)
    entries = [folder for folder in cache.iterdir() if folder.is_dir()]
    for old in sorted(entries, key=lambda folder: folder.stat().st_mtime)[:-CACHED]:
        shutil.rmtree(old, ignore_errors=True)
        old.with_name(f"{old.name}.lock").unlink(missing_ok=True)


@contextmanager
def _alone_in(folder: Path, waits: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock of a folder: a file next to it, which is never removed."""
    import fcntl  # not available on every platform on which a wheel may be built

    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waits()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def is_current(folder: Path) -> bool:
    """Whether `compile_tree` has run, and no source has changed since."""
    try:
        return (folder / _STAMP).read_text() == _state(_all_files())
    except FileNotFoundError:
        return False


def _copied() -> list[Path]:
    """Files of PACKAGES that are not compiled, to be copied next to the extensions."""
    files = [file for package in PACKAGES for file in sorted((SOURCES / package).rglob("*.*"))]
    return [file for file in files if file.is_file() and file.parent.name != "__pycache__"]


def _all_files() -> list[Path]:
    return sorted({*_copied(), *sources_of_extensions()})


def sources_of_extensions() -> list[Path]:
    """MODULES and all modules of Fairlead that they import, directly or indirectly: the compiler reads their types.
    Changes of other modules do not change the extension.
    """
    sources: set[Path] = set()
    waiting = [SOURCES / module for module in MODULES]
    while waiting:
        file = waiting.pop()
        if file in sources:
            continue
        sources.add(file)
        for module, names, alone in _IMPORT.findall(file.read_text(encoding="utf-8")):
            # an imported name may be a module: imports are absolute
            imported = [f"{module}.{name}" for name in _NAME.findall(names)] if module else [alone]
            waiting.extend(path for name in imported for path in _files_of(name))
    return sorted(sources)


def _files_of(name: str) -> Iterator[Path]:
    """Files of one of Fairlead's modules, or of the module that contains a name, and of the packages above it."""
    parts = name.split(".")
    for length in range(1, len(parts) + 1):
        below = Path(*parts[:length])
        for folder in TYPED:
            for file in (folder / below / "__init__.py", folder / below.with_suffix(".py")):
                if file.is_file():
                    yield file


def _state(files: Iterable[Path]) -> str:
    """Hash of everything that the extensions are compiled from, equal in all clones: the interpreter, which an
    environment only links to, and the files by their names relative to the root.
    """
    maker = (platform.python_version(), sysconfig.get_config_var("SOABI"), sys.base_prefix, version("mypy"))
    digest = hashlib.sha256(" ".join(map(str, maker)).encode())
    for file in (Path(__file__), *files):
        digest.update(f"{file.relative_to(ROOT)} ".encode() + file.read_bytes())
    return digest.hexdigest()


def _compile(target: Path) -> None:
    """Compile MODULES into `target`, in the folder of the sources."""
    from mypyc.build import mypycify
    from setuptools import setup

    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        _write_stubs(work / "stubs" / "msgspec")
        config = work / "mypy.ini"
        paths = ",".join(map(str, (work / "stubs", ROOT / "crds", ROOT / "operator", SOURCES)))
        config.write_text(
            f"[mypy]\nmypy_path = {paths}\nstrict = True\nexplicit_package_bases = True\ncache_dir = {work}/cache\n"
            "follow_imports = silent\nignore_missing_imports = True\n"
        )
        words = ["--config-file", str(config), *MODULES]
        extensions = mypycify(words, opt_level="3", debug_level="0", target_dir=f"{work}/c", group_name=GROUP)
        if sys.platform == "linux":  # a flag for ELF: other formats have no such table
            for extension in extensions:
                # otherwise every call between functions goes through a table, and none is inlined
                extension.extra_compile_args.append("-fno-semantic-interposition")
        setup(
            name="fairlead",
            ext_modules=extensions,
            script_args=["-q", "build_ext", "--build-lib", str(target), "--build-temp", f"{work}/o"],
        )


def _write_stubs(folder: Path) -> None:
    """Write type stubs of msgspec with the true base class of `Raw`. msgspec's own stubs call it a subclass of bytes,
    because type checkers know no other way to describe a buffer. mypyc believes that and reads the object as bytes.
    """
    spec = importlib.util.find_spec("msgspec")
    assert spec is not None
    assert spec.origin is not None
    folder.mkdir(parents=True)
    for stub in Path(spec.origin).parent.glob("*.pyi"):
        text = stub.read_text(encoding="utf-8").replace("class Raw(bytes):", "class Raw(_Raw):")
        (folder / stub.name).write_text(text + _RAW)


_RAW: Final = """
class _Raw:
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
"""


if __name__ == "__main__":
    command, where = sys.argv[1:]
    cache_folder = os.environ.get("FAIRLEAD_COMPILATIONS")
    if command == "--into":
        _compile(Path(where))
    elif command == "--extensions":
        copy_extensions(Path(where), cache=Path(cache_folder) if cache_folder else None)
    elif command == "--current":
        sys.exit(not is_current(Path(where)))
    else:
        tree = Path(where).resolve()
        compile_tree(
            tree,
            waits=lambda: print(f"waiting for another process: it makes {tree}", file=sys.stderr),
            cache=Path(cache_folder) if cache_folder else None,
        )
