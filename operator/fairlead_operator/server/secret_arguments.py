"""Values of tools' arguments that come from Secrets (`spec.tools[].arguments` with `secretRef`). Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.mcpserver import CredentialSource, McpServerSpec
from fairlead_mcp.credential_hosts import hosts_allow, origin
from fairlead_operator.server.presented_credentials import ReferencedSecret, UnusableSecret


class SecretArgument(NamedTuple):
    """An argument whose value is in a Secret; tool and argument have the names that the server lists."""

    tool: str
    argument: str
    source: CredentialSource


def secret_arguments(spec: McpServerSpec) -> Iterator[SecretArgument]:
    """The arguments of enabled tools whose values are in Secrets."""
    for tool in spec.tools:
        for name, argument in tool.arguments.items():
            if tool.enabled and argument.secret_ref is not None:
                yield SecretArgument(tool.name, name, argument.secret_ref)


def argument_value(secret: ReferencedSecret, spec: McpServerSpec, url: str) -> str:
    """The argument's text for calls to `url`. Raises UnusableSecret.

    `url` is empty for a server that is a process, and for an HTTP API whose URL is in its OpenAPI document.
    """
    if spec.openapi is not None and not url:
        raise UnusableSecret(
            Cause.HOST_NOT_ALLOWED,
            f"{secret.label} is sent only to a URL that the server's spec names, not to a URL that an OpenAPI document "
            "names: set openapi.baseURL",
        )
    return secret_text(secret, url)


def secret_text(secret: ReferencedSecret, url: str) -> str:
    """A Secret's text for calls to `url`, which is empty for a server that is a process. Raises UnusableSecret."""
    if not hosts_allow(secret.hosts, url):
        target = f"the server is at {origin(url)}" if url else "the server is a process"
        raise UnusableSecret(Cause.HOST_NOT_ALLOWED, f"{secret.label} may be sent to {secret.hosts} only, but {target}")
    try:
        text = secret.value.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise UnusableSecret(Cause.SECRET_VALUE_INVALID, f"{secret.label} is not text in UTF-8") from None
    if not text:
        raise UnusableSecret(Cause.SECRET_KEY_MISSING, f"{secret.label} has no value")
    return text
