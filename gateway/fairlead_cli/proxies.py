"""Exceptions from the environment's proxies: requests to this machine never use a proxy. No I/O."""

from __future__ import annotations

from urllib.parse import urlsplit

from fairlead_mcp.addresses import is_loopback


def is_this_machine(host: str) -> bool:
    """Whether a host is this machine: a loopback address, or a name under `localhost` (RFC 6761, 6.3)."""
    return is_loopback(host) or host.endswith(".localhost")


def proxy_mounts(url: str) -> dict[str, None] | None:
    """Mounts of an httpx2 client for the URL: no proxy for this machine, and the environment's proxies otherwise."""
    host = urlsplit(url).hostname or ""
    if not is_this_machine(host):
        return None
    return {f"all://[{host}]" if ":" in host else f"all://{host}": None}
