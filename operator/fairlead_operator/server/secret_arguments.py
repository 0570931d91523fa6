"""Values of tools' arguments that come from Secrets (`spec.tools[].arguments` with `secretRef`). Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.mcpserver import CredentialSource, McpServerSpec
from fairlead_mcp.credential_hosts import hosts_allow, origin
from fairlead_operator.server.presented_credentials import ReferencedSecret, UnusableSecret


class SecretArgument(NamedTuple):
    """An argument whose value is in a Secret; tool and argument by the server's names."""

    tool: str
    argument: str
    source: CredentialSource


def secret_arguments(spec: McpServerSpec) -> Iterator[SecretArgument]:
    """The arguments of enabled tools whose values are in Secrets."""
    for tool in spec.tools:
        for name, shape in tool.arguments.items():
            if tool.enabled and shape.secret_ref is not None:
                yield SecretArgument(tool.name, name, shape.secret_ref)


def argument_value(secret: ReferencedSecret, spec: McpServerSpec, url: str) -> str:
    """The text that calls at `url` send; it is empty for a server that is a process, and for an API whose document says
    where it is. Raises UnusableSecret.
    """
    if spec.openapi is not None and not url:
        raise UnusableSecret(
            Cause.HOST_NOT_ALLOWED,
            f"{secret.label} is only sent to a URL that you wrote, and not where a document says: set openapi.baseURL",
        )
    return secret_text(secret, url)


def secret_text(secret: ReferencedSecret, url: str) -> str:
    """A Secret's text for calls at `url`, which is empty for a server that is a process. Raises UnusableSecret."""
    if not hosts_allow(secret.hosts, url):
        where = f"the server is at {origin(url)}" if url else "the server is a process"
        raise UnusableSecret(Cause.HOST_NOT_ALLOWED, f"{secret.label} may be sent to {secret.hosts} only, but {where}")
    try:
        text = secret.value.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise UnusableSecret(Cause.SECRET_VALUE_INVALID, f"{secret.label} is not text in UTF-8") from None
    if not text:
        raise UnusableSecret(Cause.SECRET_KEY_MISSING, f"{secret.label} has no value")
    return text
