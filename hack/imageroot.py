"""Copies a Python environment and all that it needs into an empty folder: hack/imageroot.py ENVIRONMENT FOLDER [BELOW].

For the last stage of an image, `FROM scratch`: the interpreter, its standard library, the shared libraries that any of
its modules loads, certificates and the few files that name resolution reads. No shell and no package manager, but each
Debian package that a library is of has its entry in `/var/lib/dpkg/status.d`, where scanners of images look for it.

With BELOW, the folder of an image that this one is built on, only files are left that it does not have.
"""

from __future__ import annotations

import filecmp
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

LEFT_OUT: Final = shutil.ignore_patterns(
    "test",
    "tests",
    "idlelib",
    "tkinter",
    "turtledemo",
    "ensurepip",
    "lib2to3",
    "pydoc_data",
    "config-*",
    "venv",
    "site-packages",
    "dist-packages",
    "EXTERNALLY-MANAGED",
    "unittest",
    "__phello__",
    "_test*",
    "_xx*",
    "xxlimited*",
    "_dbm*",
    "_gdbm*",
    "_curses*",
    "_tkinter*",
    "readline*",
)
"""Parts of the standard library that nothing here loads; some have their own shared libraries."""
NOT_RUN: Final = shutil.ignore_patterns("*.pyi", "*.pyx", "*.pxd", "*.c", "*.cpp", "*.h", "*.md", "*.a")
"""Files of packages that no interpreter reads."""
CERTIFICATES: Final = "/etc/ssl/certs/ca-certificates.crt"
FILES: Final = {
    "etc/passwd": "root:x:0:0:root:/tmp:/sbin/nologin\nfairlead:x:65532:65532:fairlead:/tmp:/sbin/nologin\n",
    "etc/group": "root:x:0:\nfairlead:x:65532:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
_LIBRARY: Final = re.compile(r"(?:=> )?(/\S+) \(0x")


def main(environment: Path, folder: Path, below: Path | None = None) -> None:
    """Fill the folder. Raises OSError, CalledProcessError."""
    library = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(environment, folder / environment.relative_to("/"), symlinks=True, ignore=NOT_RUN)
    shutil.copytree(library, _inside(folder, library), symlinks=True, ignore=LEFT_OUT, dirs_exist_ok=True)
    for link in _chain((environment / "bin/python").absolute()):
        if not link.is_relative_to(environment):
            _copy(link, folder)
    interpreter = Path(sys.executable).resolve()
    modules = _inside(folder, library).rglob("*.so")
    programs = [interpreter, *modules, *environment.rglob("*.so"), *environment.rglob("*.so.*")]
    libraries = [outside for outside in sorted(_libraries(programs)) if not outside.is_relative_to(environment)]
    for outside in libraries:
        _copy(outside, folder)
    for link in map(Path, ("/bin", "/lib", "/lib64")):  # links to folders below `/usr`, and the dynamic loader's path
        if link.is_symlink():
            (folder / link.name).symlink_to(link.readlink())
    for path, text in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    target = folder / CERTIFICATES.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(CERTIFICATES, target)
    (folder / "tmp").mkdir()
    (folder / "tmp").chmod(0o1777)
    _describe(folder, [*libraries, interpreter])
    if below is not None:
        _leave_out(folder, below)


def _describe(folder: Path, files: Iterable[Path]) -> None:
    """Write the entries of the Debian packages that contain the files. Files without a package have no entry."""
    status = folder / "var/lib/dpkg/status.d"
    status.mkdir(parents=True, exist_ok=True)
    # with and without `/usr`: packages built before the folders were merged are registered with the short path
    places = {str(form) for path in files for form in (path, Path("/", *path.parts[2:]), Path("/usr", *path.parts[1:]))}
    output = subprocess.run(["dpkg-query", "--search", *places], capture_output=True, text=True, check=False).stdout
    for package in {line.rpartition(": ")[0] for line in output.splitlines() if not line.startswith("diversion ")}:
        entry = subprocess.run(["dpkg-query", "--status", package], capture_output=True, text=True, check=True).stdout
        (status / package.partition(":")[0]).write_text(entry)


def _leave_out(folder: Path, below: Path) -> None:
    """Remove what another folder contains too: files with equal content and mode, equal links, then folders that became
    empty.
    """
    for path in sorted(folder.rglob("*"), reverse=True):
        other = below / path.relative_to(folder)
        if path.is_symlink():
            if other.is_symlink() and path.readlink() == other.readlink():
                path.unlink()
        elif path.is_dir():
            if other.is_dir() and not any(path.iterdir()):
                path.rmdir()
        elif (
            other.is_file() and path.stat().st_mode == other.stat().st_mode and filecmp.cmp(path, other, shallow=False)
        ):
            path.unlink()


def _libraries(programs: Iterable[Path]) -> Iterator[Path]:
    """Shared libraries that the files load: each under the name by which it is loaded, and the file behind that
    name.
    """
    output = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, check=False).stdout
    for name in set(_LIBRARY.findall(output)):
        yield from _chain(Path(name))


def _chain(path: Path) -> Iterator[Path]:
    """All names of a file: each link of the chain, and the file itself."""
    while path.is_symlink():
        yield path
        path = path.parent / path.readlink()
    yield path


def _copy(path: Path, folder: Path) -> None:
    inside = _inside(folder, path)
    inside.parent.mkdir(parents=True, exist_ok=True)
    if not inside.exists() and not inside.is_symlink():
        shutil.copy2(path, inside, follow_symlinks=False)


def _inside(folder: Path, path: Path) -> Path:
    """Path below the folder, with `/lib` and similar links replaced by the folders below `/usr` that they point to."""
    parent = path.parent.resolve()
    return folder / parent.relative_to("/") / path.name


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
