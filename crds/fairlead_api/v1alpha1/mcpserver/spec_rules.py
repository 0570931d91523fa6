"""Validation rules of an McpServer's spec: first those of single values, then those between fields.

Each rule has the CEL for the API server, the message, and the same condition in Python. The Python predicates take the
spec untyped, because its model imports this module. This module has no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, Final

from fairlead_api.patterns import PORT
from fairlead_api.v1alpha1.common import amount
from fairlead_api.v1alpha1.rules import ValidationRule

_PREFIX: Final = r"^[a-z0-9]([a-z0-9_-]*[a-z0-9])?$"
HOST: Final = rf"([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:{PORT})?"
_URL: Final = rf"^https?://{HOST}([/?][!$-;=?-Z_a-z~\[\]@]*)?$"
_PATH: Final = r"^/[!$-;=?-Z_a-z~@]*$"
_IMAGE: Final = r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$"
DEFAULT_PROCESSES: Final = 128
_PEM: Final = "-----BEGIN CERTIFICATE-----"


def matcher(pattern: str) -> Callable[[str], bool]:
    """Predicate of a rule: whether a whole text matches `pattern`."""
    return lambda text: re.fullmatch(pattern, text) is not None


PREFIX: Final = ValidationRule(
    cel=f"self.matches(r'{_PREFIX}') && !self.contains('__')",
    message="must consist of lower-case letters, digits, - and _, must begin and end with a letter or digit, "
    "and must not contain __, which separates prefix and tool",
    holds=lambda prefix: re.fullmatch(_PREFIX, prefix) is not None and "__" not in prefix,
)
URL: Final = ValidationRule(
    cel=f"self.matches(r'{_URL}')",
    message="must be an http or https URL in the form https://tools.example.com/mcp: a scheme in lower case, a port up "
    "to 65535 if any, no user name, password or fragment, and blanks and characters such as < and { percent-encoded; a "
    "credential goes into auth",
    holds=matcher(_URL),
)
PATH: Final = ValidationRule(
    cel=f"self.matches(r'{_PATH}')",
    message="must begin with / and contain neither blanks nor a fragment, such as /mcp",
    holds=matcher(_PATH),
)
HOST_HEADER: Final = ValidationRule(
    cel=f"self.matches(r'^{HOST}$')",
    message="must be a host name, optionally with a port, such as tools.example.com:8443",
    holds=matcher(rf"^{HOST}$"),
)
IMAGE: Final = ValidationRule(
    cel=f"self.matches(r'{_IMAGE}')",
    message="must be a reference to an image, such as ghcr.io/example/server:1.2.3",
    holds=matcher(_IMAGE),
)
CA_BUNDLE: Final = ValidationRule(
    cel=f"self.contains('{_PEM}')",
    message="must contain PEM certificates, which begin with " + _PEM,
    holds=lambda text: _PEM in text,
)

_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage")


def _of_a_container(resource: str) -> bool:
    return resource in _RESOURCES or resource.startswith("hugepages-") or "/" in resource


_NAMES: Final = f"all(name, name in {list(_RESOURCES)} || name.startsWith('hugepages-') || name.contains('/'))"
RESOURCE_NAMES: Final = ValidationRule(
    cel=f"(!has(self.requests) || self.requests.{_NAMES}) && (!has(self.limits) || self.limits.{_NAMES})",
    message="must name resources of a container: cpu, memory, ephemeral-storage, hugepages-2Mi, "
    "or those of a device plugin, such as nvidia.com/gpu",
    holds=lambda resources: all(map(_of_a_container, {**(resources.requests or {}), **(resources.limits or {})})),
)

_BYTES: Final = ("memory", "ephemeral-storage")
_LEAST: Final = "1Mi"
_COMPARED: Final = ("cpu", *_BYTES)
_MOST_CPU: Final = 10_000


def _amounts(resources: Any, names: tuple[str, ...]) -> Iterator[Decimal]:
    """Amounts of these resources, in requests and limits."""
    for given in (resources.requests or {}, resources.limits or {}):
        yield from (amount(given[name]) for name in names if name in given)


def _enough_bytes(resources: Any) -> bool:
    return all(number == 0 or number >= amount(_LEAST) for number in _amounts(resources, _BYTES))


def _real_cpus(resources: Any) -> bool:
    return all(number <= _MOST_CPU for number in _amounts(resources, ("cpu",)))


def _within_limits(resources: Any) -> bool:
    requests, limits = resources.requests or {}, resources.limits or {}
    return all(amount(requests[name]) <= amount(limits[name]) for name in _COMPARED if name in requests.keys() & limits)


def _cel_of_each(names: tuple[str, ...], condition: str) -> str:
    """CEL that holds if `condition`, over `NUMBER`, is true for each of the resources in requests and limits.

    Where the schema rejects a quantity, an error of the rule would only add Kubernetes' own words about it.
    """
    return " && ".join(
        f"(!has(self.{part}) || !('{name}' in self.{part}) || "
        f"!isQuantity(string(self.{part}['{name}'])) || "
        + condition.replace("NUMBER", f"quantity(string(self.{part}['{name}']))")
        + ")"
        for part in ("requests", "limits")
        for name in names
    )


ENOUGH_BYTES: Final = ValidationRule(
    cel=_cel_of_each(_BYTES, f"NUMBER.compareTo(quantity('{_LEAST}')) >= 0 || NUMBER.compareTo(quantity('0')) == 0"),
    message="memory and ephemeral-storage must be at least 1Mi, such as 64Mi: a number without a unit means bytes, "
    "and m means thousandths of a byte",
    holds=_enough_bytes,
)
REAL_CPUS: Final = ValidationRule(
    cel=_cel_of_each(("cpu",), f"NUMBER.compareTo(quantity('{_MOST_CPU}')) <= 0"),
    message="cpu must be at most 10000, such as 2 or 250m: the unit is cores, not bytes",
    holds=_real_cpus,
)
WITHIN_LIMITS: Final = ValidationRule(
    cel="!has(self.requests) || !has(self.limits) || ("
    + " && ".join(
        f"(!('{name}' in self.requests) || !('{name}' in self.limits) || "
        f"!isQuantity(string(self.requests['{name}'])) || !isQuantity(string(self.limits['{name}'])) || "
        f"quantity(string(self.requests['{name}'])).compareTo(quantity(string(self.limits['{name}']))) <= 0)"
        for name in _COMPARED
    )
    + ")",
    message="requests must not exceed limits: Kubernetes rejects such pods",
    holds=_within_limits,
)
RESOURCES: Final = (ENOUGH_BYTES, REAL_CPUS, WITHIN_LIMITS)
"""Rules of the resources of every container."""


def _sources(spec: Any) -> int:
    return sum(source is not None for source in (spec.image, spec.package, spec.url, spec.openapi, spec.command))


def _may_list_with_first_grant(spec: Any) -> bool:
    """Whether a server is listed with the first grant somewhere: on a laptop, that is the default, and a server without
    `auth` may be one that people sign in to. The CEL is for clusters, where it is never the default.
    """
    if spec.auth is None:
        return spec.discovery.auth is None
    return bool(spec.lists_with_first_grant(default=True))


def _remote_fits(spec: Any) -> bool:
    if spec.remote is None:
        return True
    return spec.url is not None and (spec.remote.ca_bundle is None or spec.url.startswith("https://"))


def _speaks_http(spec: Any) -> bool:
    return (
        spec.url is not None or spec.openapi is not None or (spec.image is not None and spec.image.transport != "stdio")
    )


_STARTED_FOR_CLIENTS: Final = (
    "((has(self.command) || has(self.__package__) || "
    "(has(self.image) && has(self.image.transport) && self.image.transport == 'stdio')) && "
    "has(self.session) && self.session == 'PerClient')"
)
"""CEL of `_starts_for_clients`."""


def _limits_processes_fit(spec: Any) -> bool:
    return spec.limits.processes == DEFAULT_PROCESSES or not _speaks_http(spec)


def _variable_of_key(spec: Any) -> str | None:
    """The environment variable that has a person's key; None for a server without one."""
    key = None if spec.auth is None else spec.auth.user_key
    return None if key is None else key.env


def _starts_for_clients(spec: Any) -> bool:
    """Whether each client has a process of its own, which Fairlead starts."""
    by_image = spec.image is not None and spec.image.transport == "stdio"
    return (spec.command is not None or spec.package is not None or by_image) and spec.session == "PerClient"


def _is_within(url: str | None, resource: str) -> bool:
    """Whether `resource` is a server's URL or a parent of it at the same origin."""
    if url is None:
        return False
    parent = resource if resource.endswith("/") else f"{resource}/"
    return url == resource or f"{url}/" == resource or url.startswith((parent, f"{resource}?"))


def _cel_within(grant: str) -> str:
    """CEL of `_is_within` for the `resource` of a grant, such as `self.auth.tokenExchange`."""
    resource = f"{grant}.resource"
    return (
        f"(!has({grant}) || !has({resource}) || {_cel_of_url('self.url', 'has(self.url)', resource)} || "
        + _cel_of_url("self.openapi.baseURL", "has(self.openapi) && has(self.openapi.baseURL)", resource)
        + ")"
    )


def _cel_of_url(url: str, is_set: str, resource: str) -> str:
    return (
        f"({is_set} && ({url} == {resource} || {url} + '/' == {resource} || {url}.startsWith({resource} + '?') || "
        f"{url}.startsWith({resource}.endsWith('/') ? {resource} : {resource} + '/')))"
    )


def _resource_fits(spec: Any, auth: Any) -> bool:
    grant = None if auth is None else auth.grant
    return grant is None or grant.resource is None or _is_within(spec.remote_url, grant.resource)


def _of_pods(spec: Any) -> tuple[Any, ...]:
    return (spec.replicas, spec.resources, spec.pod_template, spec.unrestricted_pod_template)


def _pod_fields(spec: Any) -> bool:
    return any(value is not None for value in _of_pods(spec))


def _image_fits(image: Any) -> bool:
    return image.transport != "stdio" or (
        image.command is not None and image.path is None and image.host_header is None
    )


IMAGE_SOURCE: Final = ValidationRule(
    cel="!has(self.transport) || self.transport != 'stdio' || "
    "(has(self.command) && !has(self.path) && !has(self.hostHeader))",
    message="an image with transport stdio needs command, the program to start for each connection, "
    "and has neither path nor hostHeader",
    holds=_image_fits,
)

SPEC: Final = (
    ValidationRule(
        cel="[has(self.image), has(self.__package__), has(self.url), has(self.openapi), has(self.command)]"
        ".filter(x, x).size() == 1",
        message="set exactly one of image, package, url, openapi, command, which says where the server runs; "
        "the command of an image is image.command",
        holds=lambda spec: _sources(spec) == 1,
    ),
    ValidationRule(
        cel="!has(self.command)",
        message="command runs a local child process, which is not possible on a cluster: use image, package or url",
        holds=None,
        path=".command",
        reason="FieldValueForbidden",
    ),
    ValidationRule(
        cel="!has(self.remote) || (has(self.url) && (!has(self.remote.caBundle) || self.url.startsWith('https://')))",
        message="remote needs url, and remote.caBundle needs an https url",
        holds=_remote_fits,
        path=".remote",
    ),
    ValidationRule(
        cel="!has(self.auth) || has(self.url) || has(self.openapi) || "
        "(has(self.image) && (!has(self.image.transport) || self.image.transport != 'stdio')) || "
        "(has(self.auth.userKey) && has(self.auth.userKey.env))",
        message="auth is sent as an HTTP header; pass a credential to a stdio server in env",
        holds=lambda spec: spec.auth is None or _speaks_http(spec) or _variable_of_key(spec) is not None,
        path=".auth",
    ),
    ValidationRule(
        cel="!has(self.auth) || !(has(self.auth.clientCredentials) || has(self.auth.tokenExchange) || "
        "has(self.auth.userConsent) || has(self.auth.userKey)) || "
        "!((has(self.remote) && has(self.remote.transport) && self.remote.transport == 'sse') || "
        "(has(self.image) && has(self.image.transport) && self.image.transport == 'sse'))",
        message="clientCredentials, tokenExchange, userConsent and userKey need transport streamable-http, where each "
        "request has its own credential; with sse, use bearer or header",
        holds=lambda spec: spec.auth is None or spec.auth.static_value is not None or spec.effective_transport != "sse",
        path=".auth",
    ),
    ValidationRule(
        cel=f"!has(self.auth) || !has(self.auth.userKey) || !has(self.auth.userKey.env) || {_STARTED_FOR_CLIENTS}",
        message="userKey.env needs command, package or an image with transport stdio, and session: PerClient, for each "
        "process has the key of one user; a server that is reached by HTTP gets the key in userKey.header",
        holds=lambda spec: _variable_of_key(spec) is None or _starts_for_clients(spec),
        path=".auth",
    ),
    ValidationRule(
        cel="!has(self.auth) || ("
        + " && ".join(
            _cel_within(f"self.auth.{grant}") for grant in ("clientCredentials", "tokenExchange", "userConsent")
        )
        + ")",
        message="resource must be url or a parent of it, such as https://tools.example.com of "
        "https://tools.example.com/mcp; name the server of an image by audience",
        holds=lambda spec: _resource_fits(spec, spec.auth),
        path=".auth",
    ),
    ValidationRule(
        cel="!has(self.discovery) || !has(self.discovery.auth) || (has(self.auth) && (has(self.auth.tokenExchange) || "
        "has(self.auth.userConsent) || has(self.auth.userKey)))",
        message="discovery.auth needs auth.tokenExchange, auth.userConsent or auth.userKey: with any other auth, or "
        "none, the operator lists with what calls are sent with",
        holds=lambda spec: spec.discovery.auth is None or (spec.auth is not None and spec.auth.of_caller is not None),
        path=".discovery.auth",
    ),
    ValidationRule(
        cel="!has(self.discovery) || !has(self.discovery.auth) || !has(self.discovery.auth.firstGrant) || "
        "!self.discovery.auth.firstGrant || !has(self.auth) || !has(self.auth.tokenExchange)",
        message="discovery.auth.firstGrant needs auth.userConsent or auth.userKey: with tokenExchange, nobody grants "
        "anything in a browser",
        holds=lambda spec: (
            spec.discovery.auth is None
            or not spec.discovery.auth.first_grant
            or spec.auth is None
            or spec.auth.token_exchange is None
        ),
        path=".discovery.auth",
    ),
    ValidationRule(
        cel="!has(self.discovery) || !has(self.discovery.shared) || size(self.discovery.shared) == 0 || "
        "(has(self.discovery.auth) && has(self.discovery.auth.firstGrant) && self.discovery.auth.firstGrant)",
        message="discovery.shared needs discovery.auth.firstGrant: with any other credential, and without one, "
        "everything that the server lists is published",
        holds=lambda spec: not spec.discovery.shared or _may_list_with_first_grant(spec),
        path=".discovery.shared",
    ),
    ValidationRule(
        cel="!has(self.discovery) || !has(self.discovery.auth) || !has(self.auth) || !has(self.auth.userKey) || "
        "!has(self.auth.userKey.env)",
        message="discovery.auth is for servers that are reached by HTTP: a program that needs a key to start gets "
        "one for lists in env, under the name of userKey.env",
        holds=lambda spec: spec.discovery.auth is None or _variable_of_key(spec) is None,
        path=".discovery.auth",
    ),
    ValidationRule(
        cel="!has(self.discovery) || !has(self.discovery.auth) || "
        + _cel_within("self.discovery.auth.clientCredentials"),
        message="resource must be url or a parent of it, such as https://tools.example.com of "
        "https://tools.example.com/mcp",
        holds=lambda spec: _resource_fits(spec, spec.discovery.auth),
        path=".discovery.auth",
    ),
    ValidationRule(
        cel="!(has(self.url) || has(self.openapi)) || ((!has(self.env) || size(self.env) == 0) && "
        "(!has(self.envFrom) || size(self.envFrom) == 0))",
        message="env and envFrom only apply to a server that Fairlead starts, not to a url or an openapi document",
        holds=lambda spec: (spec.url is None and spec.openapi is None) or not (spec.env or spec.env_from),
        path=".env",
    ),
    ValidationRule(
        cel="!(has(self.replicas) || has(self.resources) || has(self.podTemplate) || "
        "has(self.unrestrictedPodTemplate)) || has(self.image) || has(self.__package__)",
        message="replicas, resources and pod templates describe pods: they need image or package",
        holds=lambda spec: not _pod_fields(spec) or spec.image is not None or spec.package is not None,
    ),
    ValidationRule(
        cel="!(has(self.network) || has(self.runtimeClassName)) || has(self.image) || has(self.__package__)",
        message="network and runtimeClassName apply to pods: they need image or package",
        holds=lambda spec: (
            (spec.network is None and spec.runtime_class_name is None)
            or spec.image is not None
            or spec.package is not None
        ),
    ),
    ValidationRule(
        cel="!has(self.limits) || !has(self.limits.processes) || "
        f"self.limits.processes == {DEFAULT_PROCESSES} || has(self.command) || has(self.__package__) || "
        "(has(self.image) && has(self.image.transport) && self.image.transport == 'stdio')",
        message="limits.processes is for servers over stdio, which have one process per connection: command, package, "
        "or an image with transport stdio",
        holds=_limits_processes_fit,
        path=".limits.processes",
    ),
    ValidationRule(
        cel="!has(self.openapi) || !has(self.auth) || has(self.openapi.baseURL)",
        message="auth needs openapi.baseURL, such as https://api.example.com: a credential is only sent to a URL that "
        "you wrote, and not where a document says",
        holds=lambda spec: spec.openapi is None or spec.auth is None or spec.openapi.base_url is not None,
        path=".auth",
    ),
    ValidationRule(
        cel="!has(self.openapi) || !has(self.openapi.credentials) || has(self.auth) || self.openapi.credentials"
        ".all(name, !has(self.openapi.credentials[name].auth) || !self.openapi.credentials[name].auth)",
        message="openapi.credentials has a security scheme with auth: true, which needs spec.auth",
        holds=lambda spec: (
            spec.openapi is None
            or spec.auth is not None
            or not any(scheme.auth for scheme in spec.openapi.credentials.values())
        ),
        path=".openapi.credentials",
    ),
    ValidationRule(
        cel="!has(self.openapi) || !has(self.session) || self.session == 'Shared'",
        message="session PerClient is about sessions of MCP, which the HTTP API of an openapi document does not have",
        holds=lambda spec: spec.openapi is None or spec.session == "Shared",
        path=".session",
    ),
    ValidationRule(
        cel="!has(self.openapi) || !has(self.discovery) || !has(self.discovery.auth)",
        message="discovery.auth is for servers that list tools only with a credential: the tools of an openapi "
        "document are read without one",
        holds=lambda spec: spec.openapi is None or spec.discovery.auth is None,
        path=".discovery.auth",
    ),
)
