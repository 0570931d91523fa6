"""The rules of an McpServer's spec: of single values first, then between its fields.

One entry each: what an API server evaluates, what is told, the same in Python. Predicates take the spec, loosely typed
because it is declared on top of this module. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from fairlead_api.v1alpha1.rules import ValidationRule

_PREFIX: Final = r"^[a-z0-9]([a-z0-9_-]*[a-z0-9])?$"
_HOST: Final = r"([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?"
_URL: Final = rf"^https?://{_HOST}([/?][!$-;=?-Z_a-z~\[\]@]*)?$"
_PATH: Final = r"^/[!$-;=?-Z_a-z~@]*$"
_IMAGE: Final = r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$"
_PEM: Final = "-----BEGIN CERTIFICATE-----"


def _text(pattern: str) -> Callable[[str], bool]:
    return lambda text: re.fullmatch(pattern, text) is not None


PREFIX: Final = ValidationRule(
    cel=f"self.matches(r'{_PREFIX}') && !self.contains('__')",
    message="must consist of lower-case letters, digits, - and _, begin and end with a letter or digit, "
    "and not hold __, which separates prefix and tool",
    holds=lambda prefix: re.fullmatch(_PREFIX, prefix) is not None and "__" not in prefix,
)
URL: Final = ValidationRule(
    cel=f"self.matches(r'{_URL}')",
    message="must be an http or https URL without user name, password or fragment, "
    "such as https://tools.example.com/mcp; a credential goes into auth",
    holds=_text(_URL),
)
PATH: Final = ValidationRule(
    cel=f"self.matches(r'{_PATH}')",
    message="must begin with / and hold neither blanks nor a fragment, such as /mcp",
    holds=_text(_PATH),
)
HOST_HEADER: Final = ValidationRule(
    cel=f"self.matches(r'^{_HOST}$')",
    message="must be a host name, with a port if need be, such as tools.example.com:8443",
    holds=_text(rf"^{_HOST}$"),
)
IMAGE: Final = ValidationRule(
    cel=f"self.matches(r'{_IMAGE}')",
    message="must be a reference to an image, such as ghcr.io/example/server:1.2.3",
    holds=_text(_IMAGE),
)
CA_BUNDLE: Final = ValidationRule(
    cel=f"self.contains('{_PEM}')",
    message="must hold certificates as PEM text, beginning with " + _PEM,
    holds=lambda text: _PEM in text,
)


def _sources(spec: Any) -> int:
    alone = spec.command is not None and spec.image is None
    return sum((spec.image is not None, spec.package is not None, spec.url is not None, alone))


def _pod_fields(spec: Any) -> bool:
    return any(value is not None for value in (spec.replicas, spec.resources, spec.pod_template))


SPEC: Final = (
    ValidationRule(
        cel="[has(self.image), has(self.package), has(self.url), has(self.command) && !has(self.image)]"
        ".filter(x, x).size() == 1",
        message="set exactly one of image, package, url, or command alone: it says where the server runs",
        holds=lambda spec: _sources(spec) == 1,
    ),
    ValidationRule(
        cel="!has(self.command) || has(self.image) || has(self.package) || has(self.url)",
        message="command alone runs a local child process, which a cluster has no place for: "
        "set image beside it, or use package or url",
        holds=None,
        path=".command",
        reason="FieldValueForbidden",
    ),
    ValidationRule(
        cel="!has(self.args) || size(self.args) == 0 || has(self.image) || has(self.command)",
        message="args go with image or command; a package has package.args, a url has none",
        holds=lambda spec: not spec.args or spec.image is not None or spec.command is not None,
        path=".args",
    ),
    ValidationRule(
        cel="!has(self.transport) || self.transport != 'stdio' || !has(self.url)",
        message="a url is reached over HTTP: set transport to streamable-http or sse, or leave it out",
        holds=lambda spec: spec.transport != "stdio" or spec.url is None,
        path=".transport",
    ),
    ValidationRule(
        cel="!has(self.transport) || self.transport == 'stdio' || has(self.image) || has(self.url)",
        message="a package or a local command speaks stdio: set transport to stdio, or leave it out",
        holds=lambda spec: spec.transport in (None, "stdio") or spec.image is not None or spec.url is not None,
        path=".transport",
    ),
    ValidationRule(
        cel="!has(self.transport) || self.transport != 'stdio' || !has(self.image) || has(self.command)",
        message="an image with transport stdio needs command: the program to start for each connection",
        holds=lambda spec: spec.transport != "stdio" or spec.image is None or spec.command is not None,
        path=".command",
        reason="FieldValueRequired",
    ),
    ValidationRule(
        cel="!has(self.port) || has(self.image)",
        message="port goes with image only; a url holds its own port",
        holds=lambda spec: spec.port is None or spec.image is not None,
        path=".port",
    ),
    ValidationRule(
        cel="!has(self.path) || (has(self.image) && (!has(self.transport) || self.transport != 'stdio'))",
        message="path goes with an image that speaks HTTP; a url holds its own path",
        holds=lambda spec: spec.path is None or (spec.image is not None and spec.transport != "stdio"),
        path=".path",
    ),
    ValidationRule(
        cel="!has(self.hostHeader) || ((has(self.image) || has(self.url)) && "
        "(!has(self.transport) || self.transport != 'stdio'))",
        message="hostHeader goes with a server that speaks HTTP: an image or a url",
        holds=lambda spec: spec.host_header is None or _speaks_http(spec),
        path=".hostHeader",
    ),
    ValidationRule(
        cel="!has(self.auth) || ((has(self.image) || has(self.url)) && "
        "(!has(self.transport) || self.transport != 'stdio'))",
        message="auth goes out as an HTTP header; a server on stdio takes its credential from env",
        holds=lambda spec: spec.auth is None or _speaks_http(spec),
        path=".auth",
    ),
    ValidationRule(
        cel="!has(self.caBundle) || (has(self.url) && self.url.startsWith('https://'))",
        message="caBundle goes with an https url only",
        holds=lambda spec: spec.ca_bundle is None or (spec.url or "").startswith("https://"),
        path=".caBundle",
    ),
    ValidationRule(
        cel="!has(self.url) || ((!has(self.env) || size(self.env) == 0) && "
        "(!has(self.envFrom) || size(self.envFrom) == 0))",
        message="env and envFrom go to a server that Fairlead starts; behind a url it runs already",
        holds=lambda spec: spec.url is None or not (spec.env or spec.env_from),
        path=".env",
    ),
    ValidationRule(
        cel="!(has(self.replicas) || has(self.resources) || has(self.podTemplate)) || "
        "has(self.image) || has(self.package)",
        message="replicas, resources and podTemplate describe pods: they go with image or package",
        holds=lambda spec: not _pod_fields(spec) or spec.image is not None or spec.package is not None,
    ),
)


def _speaks_http(spec: Any) -> bool:
    return (spec.image is not None or spec.url is not None) and spec.transport != "stdio"
