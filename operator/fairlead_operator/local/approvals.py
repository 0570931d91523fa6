"""Approvals off a cluster, where an McpServer may come from an `mcp.json` that takes no annotations: a file per server.

`fairlead approve` writes them, `localoperator` reads them as often as the manifests. The folder is its user's alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fairlead_api.meta import ServerKey
from fairlead_operator.local.documents import file_troubles, private_directory, write_private

_LONGEST = 256


def write(directory: Path, key: ServerKey, approval: str) -> Path:
    """Approve what has that hash; the file that says so. Raises PlatformTrouble."""
    with file_troubles():
        file = private_directory(directory) / f"{key.namespace}.{key.name}"
        write_private(file, approval.encode())
    return file


def read(directory: Path) -> Mapping[ServerKey, str]:
    """Every approval; what cannot be read is none. A namespace has no dots, so the first one ends it."""
    approvals = {}
    try:
        for file in directory.iterdir():
            namespace, _, name = file.name.partition(".")
            if namespace and name:
                approvals[ServerKey(namespace, name)] = file.read_bytes()[:_LONGEST].decode("ascii", "replace").strip()
    except OSError:
        return approvals
    return approvals
