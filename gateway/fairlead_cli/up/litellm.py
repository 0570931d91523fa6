"""Adds a LiteLLM proxy to the servers of `fairlead up`, as one server with all MCP tools of the proxy.

The tools are listed and called at the proxy's MCP endpoint. Its REST list (`/mcp-rest/tools/list`) is not used: there
the names of tools are not unique, and calls report no progress.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from pydantic import ValidationError

from fairlead_api.documents.catalog import Credential
from fairlead_api.meta import ANNOTATION_FORM, LITELLM
from fairlead_api.problems import complaints
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_cli.connecting import check_url
from fairlead_cli.failure import USAGE_ERROR, Failure
from fairlead_operator.local.inventory import DeclaredServer

OPTION: Final = "--litellm"
KEY: Final = "FAIRLEAD_LITELLM_KEY"
INTERVAL: Final = "FAIRLEAD_LITELLM_INTERVAL"
NAME: Final = "litellm"
DEFAULT_INTERVAL: Final = "30s"
SEPARATOR: Final = "-"
"""Separator of server and tool in the proxy's tool names; names of servers do not contain it."""
_VARIABLES: Final = {"spec.url": OPTION, "spec.discovery.interval": INTERVAL}


def litellm_server(url: str, environ: Mapping[str, str]) -> DeclaredServer:
    """The proxy at `url`, with API key and interval from the environment. Raises Failure, which does not quote the
    key.
    """
    if "://" not in url:
        check_url(url, OPTION)
    spec = {
        "url": mcp_endpoint(url),
        "discovery": {"interval": environ.get(INTERVAL) or DEFAULT_INTERVAL, "tagSeparator": SEPARATOR},
    }
    try:
        metadata = {"name": NAME, "namespace": "default", "annotations": {ANNOTATION_FORM: LITELLM}}
        server = McpServer.model_validate({"metadata": metadata, "spec": spec})
    except ValidationError as error:
        complaint = complaints(error, McpServer)[0]
        raise Failure(f"{_VARIABLES.get(complaint.field, OPTION)}: {complaint.message}", code=USAGE_ERROR) from error
    return DeclaredServer(server, _credential(environ.get(KEY, "").strip()), origin=OPTION)


def mcp_endpoint(url: str) -> str:
    """URL of the proxy's MCP endpoint. `url` is the proxy's URL, or already the URL of the endpoint. Raises Failure."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise Failure(f"{OPTION}: {url!r} is not a URL: {error}", code=USAGE_ERROR) from error
    path = parts.path.rstrip("/")
    if "mcp" not in path.split("/"):
        path += "/mcp"
    return urlunsplit(parts._replace(path=path))


def _credential(key: str) -> Credential:
    if not key:
        return Credential()
    if re.fullmatch(r"[!-~]+", key) is None:
        raise Failure(f"{KEY} contains characters that are not allowed in a key, such as spaces", code=USAGE_ERROR)
    return Credential(headers={"Authorization": f"Bearer {key}"})
