"""Client configurations that are read as if they were files of a user."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from fairlead_operator.local.configfile import Configuration, read_configuration

HOME: Final = "/home/ada"


def read_client_file(content: Any, file: str = "/etc/mcp.json", **environ: str) -> Configuration:
    """Read a client configuration: a text, or a document to be written as JSON. No URL is taken for Fairlead's own."""
    text = content if isinstance(content, str) else json.dumps(content)
    configuration = read_configuration(text, Path(file), {"HOME": HOME, **environ}, lambda url: False)
    assert configuration is not None
    return configuration
