"""Configuration of the gateway's own authorization server: the part `authorizationServer` of `FAIRLEAD_IDENTITY`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

Text = Annotated[str, Meta(min_length=1)]

ANY_HOST: Final = "*"
LOOPBACK: Final = "localhost"
"""Entry of `redirectHosts` for all loopback addresses."""
HOST_NAME: Final = r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?"
"""Pattern of a host name in lower case with a dot. IP addresses do not match; internationalized names have the form
`xn--…` (RFC 5890).
"""
HOST_PORT: Final = r"[1-9][0-9]{0,4}"
_CLIENT_HOST: Final = re.compile(rf"\*|{HOST_NAME}(?::{HOST_PORT})?")
_REDIRECT_HOST: Final = re.compile(
    rf"{LOOPBACK}|{HOST_NAME}(?::{HOST_PORT})?|(?!https?:)[a-z][a-z0-9+.-]*:(?://[A-Za-z0-9._-]+)?"
)


class OidcProviderClient(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The gateway as a client of one OpenID provider."""

    issuer: Text
    """Name or URL of one of `issuers`."""
    client_id: Text
    """Client id of the gateway at the provider. The redirect URI is the public URL, `/oauth/callback/` and the issuer's
    name.
    """
    client_secret_file: Path | None = None
    """File with the client's secret; without a secret, the client is public and uses PKCE only."""
    scopes: tuple[Text, ...] = ("profile", "email", "groups", "offline_access")
    """Scopes to request besides `openid`."""
    prompt: str = ""
    """`prompt` of the authorization request (OpenID Connect Core 1.0 section 3.1.2.1). Some providers issue a refresh
    token only with `consent`. If empty, no `prompt` is sent: with `consent`, Microsoft Entra would ask each person.
    """


class ConfiguredClient(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Client that an administrator names."""

    id: Text
    """`client_id` that the client sends. It may be the URL of the client's metadata document, which is then not
    fetched.
    """
    name: str = ""
    """Name of the client on the consent page; by default its id."""
    redirect_uris: Annotated[tuple[Text, ...], Meta(min_length=1)]
    """Redirect URIs of the client. A loopback address is written without a port, and matches any port."""
    secret_sha256: Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?$", max_length=64)] = ""
    """SHA-256 of the client's secret; without a secret, the client is public."""
    keys: tuple[dict[str, Any], ...] = ()
    """Public keys with which the client signs (`private_key_jwt`)."""


class ClientRegistrationSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Registration by clients themselves (RFC 7591)."""

    redirect_hosts: Annotated[tuple[Text, ...], Meta(min_length=1)]
    """Hosts that redirect URIs may have, such as `vscode.dev`; `localhost` stands for all loopback addresses, and
    `cursor://anysphere.cursor-mcp` or `com.example.app:` for a client's own scheme.
    """
    days: Annotated[int, Meta(ge=1, le=3650)] = 90
    """Lifetime of a registration."""


class AuthorizationServer(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Authorization server of the gateway, whose issuer is `FAIRLEAD_PUBLIC_URL`."""

    providers: Annotated[tuple[OidcProviderClient, ...], Meta(min_length=1)]
    """OpenID providers at which people sign in."""
    client_hosts: tuple[Text, ...] = ()
    """Hosts from which client ID metadata documents are fetched, such as `claude.ai`, with a port unless it is 443; `*`
    is any host at port 443. If empty, no documents are fetched.
    """
    clients: tuple[ConfiguredClient, ...] = ()
    """Clients to which an administrator has assigned an id."""
    registration: ClientRegistrationSettings | None = None
    """Registration by clients themselves (RFC 7591); None to refuse it."""
    agents: dict[Text, Text] = {}
    """Client ids by the agent names of policies. The agent name of a client that is missing here is HOST/PATH of its
    document, or, for a client in `clients`, its id.
    """
    token_seconds: Annotated[int, Meta(ge=60, le=600)] = 600
    """Lifetime of an access token."""
    grace_seconds: Annotated[int, Meta(ge=0, le=600)] = 60
    """Seconds after its first use in which a refresh token is exchanged for the same successor again."""
    session_hours: Annotated[int, Meta(ge=1, le=8760)] = 720
    """Longest session of a person for whom the provider gave a refresh token."""
    unrenewed_hours: Annotated[int, Meta(ge=1, le=12)] = 12
    """Longest session of a person for whom the provider gave no refresh token."""
    assertions: tuple[Text, ...] = ()
    """Names or URLs of `issuers` whose identity assertions (ID-JAG) are exchanged for access tokens."""
    workloads: Literal["deny", "allow"] = "deny"
    """Whether tokens of ServiceAccounts are exchanged for access tokens."""

    @property
    def agent_names(self) -> dict[str, str]:
        """Names of agents by client id."""
        return {client_id: name for name, client_id in self.agents.items()}

    def find_mistake(self, issuers: Sequence[tuple[str, ...]], *, service_accounts: bool) -> str:
        """Describe the first mistake, in one sentence that says what to do; empty if there is none. `issuers` lists the
        names of each issuer in the file. `service_accounts` says whether tokens of ServiceAccounts are accepted.
        """
        return next(self._mistakes(issuers, service_accounts=service_accounts), "")

    def _mistakes(self, issuers: Sequence[tuple[str, ...]], *, service_accounts: bool) -> Iterator[str]:
        provider_issuers = [provider.issuer for provider in self.providers]
        for member, names in (("providers", provider_issuers), ("assertions", self.assertions)):
            for name in names:
                if not any(name in issuer for issuer in issuers):
                    known_issuers = ", ".join(issuer[-1] for issuer in issuers) or "none"
                    yield f"{member} names {name}, and issuers has {known_issuers}: add it there, or correct the name"
        for issuer in issuers:
            if sum(name in issuer for name in provider_issuers) > 1:
                yield f"providers has the issuer {issuer[-1]} twice: leave one of them out"
        if any("none" in provider.prompt.split() for provider in self.providers):
            yield "prompt is none, with which the provider shows no page to sign in: omit it, or set consent"
        yield from self._mistakes_of_clients()
        if self.workloads == "allow" and not service_accounts:
            yield "workloads is allow, and ServiceAccounts are not accepted: set serviceAccounts, or omit workloads"
        if self.unrenewed_hours > self.session_hours:
            yield (
                f"unrenewedHours is {self.unrenewed_hours} and sessionHours {self.session_hours}: no session may be "
                "longer than sessionHours"
            )

    def _mistakes_of_clients(self) -> Iterator[str]:
        if not (self.client_hosts or self.clients or self.registration or self.assertions or self.workloads == "allow"):
            yield "no client could connect: set clientHosts, such as [claude.ai, vscode.dev], clients or registration"
        for host in self.client_hosts:
            if not _CLIENT_HOST.fullmatch(host) or host.endswith(":443"):
                yield (
                    f"clientHosts has {host}, which is not a host: write a name in lower case, such as claude.ai, with "
                    "a port where it is not 443, or * for any host"
                )
        ids = [client.id for client in self.clients]
        for client_id in _duplicates(ids):
            yield f"clients has the id {client_id} twice: leave one of them out"
        for client_id in _duplicates(self.agents.values()):
            yield f"agents has two names for the client {client_id}: leave one of them out"
        for name, client_id in self.agents.items():
            if client_id not in ids and not client_id.startswith("https://"):
                yield (
                    f"agents has {client_id} as {name}, which is neither an id of clients nor the https URL of a "
                    "client's document: correct it"
                )
            if name in ids and client_id != name:
                yield f"agents has the name {name} for {client_id}, and clients has that id: choose another name"
        for host in self.registration.redirect_hosts if self.registration else ():
            if not _REDIRECT_HOST.fullmatch(host):
                yield (
                    f"registration.redirectHosts has {host}, which is not a host: write a name in lower case, such as "
                    "vscode.dev, localhost for loopback addresses, or cursor://anysphere.cursor-mcp for a client's own "
                    "scheme"
                )


def _duplicates(values: Iterable[str]) -> list[str]:
    """Values that occur more than once."""
    items = list(values)
    return [value for value in dict.fromkeys(items) if items.count(value) > 1]
