"""Decides whether a credential may be sent to a URL, by the annotation `fairlead.dev/hosts` of its Secret. Pure.

| entry | allows |
|---|---|
| `tools.example.com` | https, at any port |
| `tools.example.com:8443` | https, at that port |
| `https://tools.example.com`, `http://…` | that scheme, at its default port |
| `https://tools.example.com:8443`, `http://…` | that scheme and port |

An entry without a scheme also allows plain http to hosts inside the cluster or machine: names of Services
(`demo.team.svc`) and loopback addresses. To any other host, a credential is sent unencrypted only if an entry begins
with `http://`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from fairlead_mcp.addresses import authority, service_namespace

_PORTS: Final = {"https": 443, "http": 80}


@dataclass(frozen=True)
class _HostAddress:
    """Scheme, host and port of a URL or of an entry in the annotation."""

    scheme: str
    """Empty for an entry without a scheme."""
    host: str
    port: int | None


def hosts_allow(annotation: str | None, url: str) -> bool:
    """Whether a credential may be sent to `url`; without the annotation it may be sent to any URL."""
    if annotation is None:
        return True
    address = _address(url)
    if address is None:
        return False
    return any(_allows(_address(entry.strip()), address) for entry in annotation.split(","))


def is_confidential(url: str) -> bool:
    """Whether requests to `url` are encrypted, or stay inside of the machine or cluster."""
    address = _address(url)
    return address is not None and (address.scheme == "https" or _is_internal(address.host))


def origin(url: str) -> str:
    """The entry that allows only the origin of `url`; `url` itself if it is invalid."""
    address = _address(url)
    if address is None:
        return url
    return f"{address.scheme}://{authority(address.host, _port(address))}"


def _allows(entry: _HostAddress | None, address: _HostAddress) -> bool:
    """Whether an entry of the annotation allows an address; an invalid entry (None) allows nothing."""
    if entry is None or entry.host != address.host:
        return False
    if entry.scheme:
        return entry.scheme == address.scheme and _port(entry) == _port(address)
    if address.scheme != "https" and not _is_internal(address.host):
        return False
    return entry.port is None or entry.port == _port(address)


def _port(address: _HostAddress) -> int:
    return address.port if address.port is not None else _PORTS[address.scheme]


def _is_internal(host: str) -> bool:
    """Whether a host is this machine or a Service of the cluster."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or ("." in host and service_namespace(host) is not None)


def _address(text: str) -> _HostAddress | None:
    """Parse an entry or URL; None if it is invalid. An invalid entry allows nothing."""
    with suppress(ValueError):
        return _HostAddress("", str(ip_address(text)), None)  # IPv6 without its brackets
    try:
        parts = urlsplit(text if "://" in text else f"//{text}")
        host, port = (parts.hostname or "").removesuffix("."), parts.port
    except ValueError:
        return None
    if not host or parts.scheme not in ("", *_PORTS):
        return None
    with suppress(ValueError):
        host = str(ip_address(host))
    return _HostAddress(parts.scheme, host, port)
