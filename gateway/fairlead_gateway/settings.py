"""What can be set on a gateway, and from where.

Read once by `__main__` or by the command line; the parts get their values as arguments and never see the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

ENV_PREFIX: Final = "FAIRLEAD_"


class InvalidSetting(ValueError):
    """A value that cannot be used; the message names the variable and what it should look like."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Every member can be given as `FAIRLEAD_<MEMBER>`; lists are separated by commas."""

    host: str = "127.0.0.1"
    """Address to listen on, for MCP and for metrics."""
    port: int = 8080
    """0 takes a free one."""
    metrics_port: int = 9464
    documents: Path | None = None
    """Directory of documents. Without it they are read from the Kubernetes API."""
    credentials: Path | None = None
    """Directory of credentials; `credentials` inside `documents` by default."""
    namespace: str | None = None
    """Namespace of the release; by default the one of the pod or of the kubeconfig's context."""
    kubeconfig: Path | None = None
    """By default the service account of the pod, else `KUBECONFIG`, else `~/.kube/config`."""
    cache_dir: Path | None = None
    """Where the last documents are kept; nowhere without it."""
    allowed_hosts: tuple[str, ...] = ()
    """Values of `Host` that are answered. By default local names on a loopback address, and any elsewhere."""
    allowed_origins: tuple[str, ...] = ()
    """Origins of web pages that may call. By default local ones; `*` is any."""
    call_timeout: float = 60.0
    """Seconds for a call, where neither the tool nor its server sets less."""
    max_request_bytes: int = 4 << 20
    max_result_bytes: int = 16 << 20
    """Of one result, where the server sets less."""
    upstream_connections: int = 64
    """Calls at once to one server, where it sets less; the rest waits."""
    grace: float = 25.0
    """Seconds that calls in flight get at the end; keep it below the pod's termination grace."""


def from_environment(environment: Mapping[str, str], **given: Any) -> Settings:
    """Settings from `given`, else from the environment, else the defaults. `given` members that are None do not count.

    Raises InvalidSetting.
    """
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(Settings):
        variable = f"{ENV_PREFIX}{field.name.upper()}"
        chosen = given.get(field.name)
        if chosen is None and environment.get(variable, "").strip():
            chosen = _read(environment[variable].strip(), field.type, variable)
        if chosen is not None:
            values[field.name] = chosen
    return Settings(**values)


def _read(text: str, kind: Any, variable: str) -> Any:
    if kind == tuple[str, ...]:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError as error:
            raise InvalidSetting(f"{variable} must be a number, not {text!r}") from error
    return Path(text) if kind == Path | None else text
