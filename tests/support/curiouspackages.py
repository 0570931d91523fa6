"""Packages whose installation runs their code, which writes its environment to a file.

`curious_sdist` is for PyPI's installer (a build backend), `curious_npm` for npm's (a postinstall script).
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from npmmirror import RegistryHandler, registry

NAME: Final = "fairleadcurious"
VERSION: Final = "1.0.0"

_PYPROJECT: Final = f"""
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "{NAME}"
version = "{VERSION}"
"""
_BACKEND: Final = f"""
import json, os, zipfile

def build_wheel(directory, config_settings=None, metadata_directory=None):
    with open(OUT, "w") as file:
        json.dump(dict(os.environ), file)
    name, info = "{NAME}-{VERSION}-py3-none-any.whl", "{NAME}-{VERSION}.dist-info"
    with zipfile.ZipFile(os.path.join(directory, name), "w") as wheel:
        wheel.writestr(info + "/METADATA", "Metadata-Version: 2.1\\nName: {NAME}\\nVersion: {VERSION}\\n")
        wheel.writestr(info + "/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(info + "/RECORD", "")
    return name
"""
_POSTINSTALL: Final = 'require("fs").writeFileSync(OUT, JSON.stringify(process.env))'
NPX_ITSELF: Final = 'require("child_process").execSync(`npx -c "echo built by npx > ${OUT}"`)'
"""An install script that runs a command with `npx`, as many packages do."""


def curious_sdist(folder: Path, out: Path) -> None:
    """Put the source distribution, without a wheel, into `folder`. Its build writes the environment to `out`."""
    files = {
        "pyproject.toml": _PYPROJECT,
        "backend.py": f"OUT = {str(out)!r}\n{_BACKEND}",
        "PKG-INFO": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\n",
    }
    folder.mkdir(exist_ok=True)
    (folder / f"{NAME}-{VERSION}.tar.gz").write_bytes(_tarball(f"{NAME}-{VERSION}", files))


@contextmanager
def curious_npm(
    out: Path, program: str = "#!/usr/bin/env node\nprocess.exit(3)\n", postinstall: str = _POSTINSTALL
) -> Iterator[str]:
    """URL of an npm registry with only this package, whose install script writes `out` and whose program ends at
    once."""
    manifest = {
        "name": NAME,
        "version": VERSION,
        "bin": "program.js",
        "scripts": {"postinstall": "node postinstall.js"},
    }
    files = {
        "package.json": json.dumps(manifest),
        "postinstall.js": f"const OUT = {json.dumps(str(out))};\n{postinstall}",
        "program.js": program,
    }
    tarball = _tarball("package", files)
    integrity = f"sha512-{base64.b64encode(hashlib.sha512(tarball).digest()).decode()}"

    class Handler(RegistryHandler):
        def answer(self) -> None:
            if self.path.endswith(".tgz"):
                self.reply(200, "application/octet-stream", tarball)
            elif self.path == f"/{NAME}":
                dist = {"tarball": f"{url}{NAME}.tgz", "integrity": integrity}
                version = {**manifest, "dist": dist, "hasInstallScript": True}
                packument = {"name": NAME, "dist-tags": {"latest": VERSION}, "versions": {VERSION: version}}
                self.reply(200, "application/json", json.dumps(packument).encode())
            else:
                self.reply(404, "text/plain", b"")

    with registry(Handler) as url:
        yield url


def _tarball(root: str, files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"{root}/{name}")
            member.size = len(text.encode())
            member.mode = 0o755
            archive.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()
