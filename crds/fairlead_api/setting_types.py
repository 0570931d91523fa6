"""Types of settings: the format of their values, for settings at process start and for the JSON schema of chart values.

The gateway at process start and the chart's JSON schema both check values against these patterns, so a pattern uses
only syntax that RE2 and Python's `re` share. What a pattern cannot express is checked by a function, at process start
only. Empty strings stand for unset settings, and are always valid.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Annotated, Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

from msgspec import Meta

from fairlead_api.patterns import IPV4_ADDRESS, IPV4_LENGTH, IPV6_ADDRESS, IPV6_LENGTH, LABEL, PORT, SUBDOMAIN

RULE: Final = "rule"
"""Key of a type's TextRule in the `extra` of its Meta."""
LONGEST_SECONDS: Final = 31_536_000
"""One year in seconds. A larger value is a mistake, such as a number of milliseconds."""


class TextRule(NamedTuple):
    """Rule for the string value of a setting, in addition to its pattern."""

    expected: str
    """Description of valid values, as part of a sentence."""
    check: Callable[[str], Any] | None = None
    """Raises ValueError for an invalid string."""
    secret: bool = False
    """Whether messages must not quote the value."""


def _text(
    expected: str,
    pattern: str,
    check: Callable[[str], Any] | None = None,
    *,
    secret: bool = False,
    longest: int | None = None,
) -> Meta:
    return Meta(pattern=f"^({pattern})?$", max_length=longest, extra={RULE: TextRule(expected, check, secret)})


def parsed_network(text: str) -> IPv4Network | IPv6Network:
    """Parse a network; an address counts as a network that contains only this address. Raises ValueError."""
    return ip_network(text, strict=False)


def check_host_or_network(text: str) -> None:
    """Raises ValueError for a string with `/` or `:` that is not a network. The pattern of `HostOrNetwork` checks host
    names, in which `*` may replace any part.
    """
    if "/" in text or ":" in text:
        parsed_network(text)


def check_url(text: str) -> None:
    """Raises ValueError unless the string is an http or https URL that contains no credentials."""
    parts = urlsplit(text)
    good = parts.scheme in ("http", "https") and parts.hostname and parts.username is None
    if not good or (parts.port is not None and not parts.port):
        raise ValueError(f"{text!r} is not an http or https URL")


def check_public_url(text: str) -> None:
    """Raises ValueError unless the string is an http or https URL that contains no credentials, and whose path does not
    end with `/mcp`: the paths of endpoints are appended to it.
    """
    check_url(text)
    if urlsplit(text).path.rstrip("/").endswith("/mcp"):
        raise ValueError(f"{text!r} is the URL of an endpoint: leave /mcp out")


def check_destination(text: str) -> None:
    """Raises ValueError unless the string is `*`, or an http or https URL that contains no credentials."""
    if text != "*":
        check_url(text)


_NETWORK: Final = f"{IPV4_ADDRESS}({IPV4_LENGTH})?|{IPV6_ADDRESS}({IPV6_LENGTH})?"
_PORT: Final = f"(:{PORT})?"
_BASE_URL: Final = r"https?://[^\s/?#@]+(/[^\s?#]*)?"
"""URL to which paths are appended: a query or fragment would end up before them."""

Seconds = Annotated[float, Meta(gt=0, le=LONGEST_SECONDS)]
"""Duration in seconds."""
SecondsOrZero = Annotated[float, Meta(ge=0, le=LONGEST_SECONDS)]
"""Duration in seconds that may be 0."""
Port = Annotated[int, Meta(ge=0, le=65_535)]
Count = Annotated[int, Meta(ge=1)]
LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]

ListenAddress = Annotated[
    str, _text("an address to listen on, such as 127.0.0.1, 0.0.0.0 or ::", r"[A-Za-z0-9_.:%-]+", longest=253)
]
IpAddress = Annotated[str, _text("IP addresses, such as 10.244.0.7 and fd00:10:244::7", r"[0-9A-Fa-f.:]+", ip_address)]
Network = Annotated[str, _text("networks, such as 10.96.0.0/12", _NETWORK, parsed_network)]
HostOrNetwork = Annotated[
    str,
    _text(
        "host names, such as *.tools.svc, and networks, such as 192.168.0.0/16",
        rf"{_NETWORK}|[A-Za-z0-9*_.-]+",
        check_host_or_network,
    ),
]
HostHeader = Annotated[
    str,
    _text(
        "host names with or without a port, such as tools.example.com, or * for any",
        rf"\*|([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]){_PORT}",
    ),
]
Origin = Annotated[
    str,
    _text(
        "origins of web pages, such as https://app.example.com, or * for any",
        rf"\*|([A-Za-z][A-Za-z0-9+.-]*://)?([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]){_PORT}/?",
    ),
]
HttpUrl = Annotated[
    str,
    _text(
        "an http or https URL without credentials, query and fragment, such as https://tools.example.com",
        _BASE_URL,
        check_url,
    ),
]
PublicUrl = Annotated[
    str,
    _text(
        "an http or https URL without credentials, query, fragment and /mcp, such as https://tools.example.com",
        _BASE_URL,
        check_public_url,
    ),
]
TokenDestination = Annotated[
    str,
    _text(
        "issuers and token URLs, such as https://login.example.com/realms/team, or * for any",
        r"\*|https?://[^\s/?#@]+([/?#]\S*)?",
        check_destination,
    ),
]
TraceUrl = Annotated[
    str,
    _text("an http or https URL with {trace_id} where the id of a trace belongs", r"https?://\S*\{trace_id\}\S*"),
]
RedisUrl = Annotated[
    str,
    _text(
        "a URL like redis://:password@host:6379/0, or rediss:// for TLS",
        r"(rediss?|unix)://\S+",
        secret=True,
    ),
]
Token = Annotated[str, _text("a bearer token: printable ASCII characters without spaces", "[!-~]+", secret=True)]
NamespaceName = Annotated[
    str, _text("the name of a namespace: lower-case letters, digits and hyphens", LABEL, longest=63)
]
ObjectName = Annotated[
    str,
    _text(
        "the name of a Kubernetes object: lower-case letters, digits, hyphens and dots",
        SUBDOMAIN,
        longest=253,
    ),
]
ImageReference = Annotated[
    str,
    _text("an image, such as registry.example.com/fairlead-runner:1.0", "[A-Za-z0-9][A-Za-z0-9._:/@-]*", longest=512),
]
InstallationName = Annotated[str, _text("fairlead- and 16 hexadecimal digits", "fairlead-[0-9a-f]{16}")]
EnvironmentName = Annotated[
    str,
    _text(
        "a name of letters, digits, hyphens, dots and underscores",
        "[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?",
        longest=63,
    ),
]

IpAddresses = tuple[IpAddress, ...]
Networks = tuple[Network, ...]
HostsOrNetworks = tuple[HostOrNetwork, ...]
HostHeaders = tuple[HostHeader, ...]
Origins = tuple[Origin, ...]
HttpUrls = tuple[HttpUrl, ...]
TokenDestinations = tuple[TokenDestination, ...]
NamespaceNames = tuple[NamespaceName, ...]
ObjectNames = tuple[ObjectName, ...]
