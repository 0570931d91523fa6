"""Reads and writes approvals outside of a cluster: one file per server, because servers of an `mcp.json` have no
annotations.

`fairlead approve` writes the files; `localoperator` reads them as often as the manifests. Only the owner of the folder
can access it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fairlead_api.meta import ServerKey
from fairlead_operator.local.documents import file_troubles, private_directory, write_private

_MAX_BYTES = 256


def write(directory: Path, key: ServerKey, approval: str) -> Path:
    """Write a file that approves the definitions with the hash `approval`; return it. Raises PlatformTrouble."""
    with file_troubles():
        file = private_directory(directory) / f"{key.namespace}.{key.name}"
        write_private(file, approval.encode())
    return file


def read(directory: Path) -> Mapping[ServerKey, str]:
    """All readable approvals. File names are `NAMESPACE.NAME`; a namespace contains no dots."""
    approvals = {}
    try:
        for file in directory.iterdir():
            namespace, _, name = file.name.partition(".")
            if namespace and name:
                approvals[ServerKey(namespace, name)] = (
                    file.read_bytes()[:_MAX_BYTES].decode("ascii", "replace").strip()
                )
    except OSError:
        return approvals
    return approvals
