"""OAuth clients in entries of client configurations, as members of `auth.userConsent`.

A client that signs in at a remote server by itself needs no key; its file only has keys for a client that somebody
registered by hand, and for scopes. Their names differ in case and separators:

    Claude Code   "oauth": {"clientId", "callbackPort", "scopes": "a b", "authServerMetadataUrl"}
    VS Code       "oauth": {"clientId"}
    Cursor        "auth": {"CLIENT_ID", "CLIENT_SECRET", "scopes": ["a"]}
    Codex         [mcp_servers.NAME.oauth] client_id, callback_port; beside it scopes and oauth_resource, and
                  mcp_oauth_callback_port for all servers
    Gemini CLI    "oauth": {"enabled", "clientId", "clientSecret", "authorizationUrl", "tokenUrl", "scopes"}
    Kiro          "oauth": {"clientId", "clientSecret", "redirectUri": "127.0.0.1:8080"}, "oauthScopes": ["a"]
    opencode      "oauth": {"clientId", "clientSecret", "scope": "a b"} or false
    LibreChat     oauth: client_id, client_secret, authorization_url, token_url, scope, redirect_uri

Sources: each client's page on MCP servers, November 2026. No I/O.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from fairlead_api.client_files.entry import EntryProblem, EntryReader, read_bool
from fairlead_api.client_files.keys import CODEX_PORT, Remark

OBJECTS: Final = ("oauth", "auth")
"""Keys of an entry whose value is an object about an OAuth client."""
_SCOPES_BESIDE: Final = ("oauthScopes", "scopes")
_RESOURCE_BESIDE: Final = "oauth_resource"
_TEXTS: Final = {
    "clientid": "clientID",
    "authorizationurl": "authorizationURL",
    "tokenurl": "tokenURL",
    "issuer": "issuer",
    "resource": "resource",
}
"""Members of `userConsent` by the names in client files, in lower case without separators."""
_SECRET: Final = "clientsecret"  # noqa: S105 - the name of a key
_PORT: Final = "callbackport"
_SCOPES: Final = ("scopes", "scope", "oauthscopes")
_METADATA: Final = "authservermetadataurl"
_REDIRECTS: Final = ("redirecturi", "callbackurl")
_ENABLED: Final = "enabled"
_WELL_KNOWN: Final = re.compile(r"/\.well-known/(?:oauth-authorization-server|openid-configuration)(?=/|$)")
CALLBACK: Final = "/callback"
"""Path of the redirect URI at a registered port."""


@dataclass
class ConfiguredConsent:
    """OAuth client of an entry."""

    members: dict[str, Any] = field(default_factory=dict)
    """Members of `auth.userConsent`, without `secretRef`."""
    secret: str = ""
    secret_key: str = ""
    """Key of the entry that has the secret, such as `oauth.clientSecret`."""
    remarks: list[Remark] = field(default_factory=list)

    def ignore(self, key: str, message: str) -> None:
        self.remarks.append(Remark(key, message, stops=False))


def read_consent(content: Mapping[str, Any], read: EntryReader) -> ConfiguredConsent:
    """The OAuth client of an entry; without members if the entry names none. Raises EntryProblem."""
    consent = ConfiguredConsent()
    for key in OBJECTS:
        value = content.get(key)
        if isinstance(value, Mapping) and read_bool(value.get(_ENABLED)) is not False:
            for name, member in value.items():
                _take(consent, f"{key}.{name}", _alike(str(name)), member, read)
    for key in _SCOPES_BESIDE:
        if content.get(key):
            _take(consent, key, "scopes", content[key], read)
    port = content.get(CODEX_PORT)
    if port is not None and "clientID" in consent.members and "callbackPort" not in consent.members:
        _take(consent, CODEX_PORT, _PORT, port, read)
    if content.get(_RESOURCE_BESIDE):
        _take(consent, _RESOURCE_BESIDE, "resource", content[_RESOURCE_BESIDE], read)
    _drop_incomplete(consent)
    return consent


def original_key(field: str, content: Mapping[str, Any]) -> str:
    """Key of the entry for a field of the spec, such as `auth.userConsent.clientID`; empty if it has none."""
    member = field.removeprefix("auth.userConsent.").partition("[")[0]
    member = "resource" if member == "auth" else member  # the rule between url and resource
    for key in OBJECTS:
        value = content.get(key)
        for name in value if isinstance(value, Mapping) else ():
            alike = _alike(str(name))
            if member == _TEXTS.get(alike) or (member == "scopes" and alike in _SCOPES):
                return f"{key}.{name}"
    beside = {"scopes": _SCOPES_BESIDE, "resource": (_RESOURCE_BESIDE,)}.get(member, ())
    return next((key for key in (*beside, *OBJECTS) if content.get(key)), "")


def _take(consent: ConfiguredConsent, key: str, alike: str, value: Any, read: EntryReader) -> None:
    """Add one member of a client's object to `consent`; a later one does not replace an earlier one."""
    members = consent.members
    if value is None or value in ("", []) or alike == _ENABLED:
        return
    if alike in _TEXTS:
        members.setdefault(_TEXTS[alike], read.value(key, value))
    elif alike == _SECRET:
        consent.secret = consent.secret or read.value(key, value)
        consent.secret_key = consent.secret_key or key
    elif alike == _PORT:
        members.setdefault("callbackPort", _port(key, read.value(key, value)))
    elif alike in _SCOPES:
        members.setdefault("scopes", list(dict.fromkeys(_scopes(key, value, read))))
    elif alike == _METADATA:
        _take_metadata(consent, key, read.value(key, value))
    elif alike in _REDIRECTS:
        _take_redirect(consent, key, read.value(key, value))
    else:
        consent.ignore(key, "is not used: Fairlead reads clientId, clientSecret, callbackPort, scopes and URLs there")


def _scopes(key: str, value: Any, read: EntryReader) -> Iterator[str]:
    if not isinstance(value, list):
        yield from read.value(key, value).split()
        return
    for index, item in enumerate(value):
        yield read.value(f"{key}[{index}]", item)


def _port(key: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):
        raise EntryProblem(key, "must be the number of a port, such as 8765")
    return int(text)


def _take_metadata(consent: ConfiguredConsent, key: str, url: str) -> None:
    """Add the issuer whose metadata is at `url` (RFC 8414 section 3.1)."""
    issuer, replaced = _WELL_KNOWN.subn("", url, count=1)
    if replaced:
        consent.members.setdefault("issuer", issuer)
    else:
        consent.ignore(key, "is not used: it must contain /.well-known/oauth-authorization-server or be in issuer")


def _take_redirect(consent: ConfiguredConsent, key: str, text: str) -> None:
    """Add the port of a loopback redirect URI, which may lack scheme and path."""
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        host, port = parts.hostname or "localhost", parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    if port is None or host not in ("localhost", "127.0.0.1", "::1"):
        consent.ignore(key, "is not used: register the redirect URI that Fairlead shows, or set callbackPort")
        return
    consent.members.setdefault("callbackPort", port)
    if parts.path not in ("", "/", CALLBACK):
        consent.ignore(key, f"has another path than Fairlead: register http://localhost:{port}{CALLBACK} too")


def _drop_incomplete(consent: ConfiguredConsent) -> None:
    """Drop members without those that they belong to."""
    members = consent.members
    if consent.secret and "clientID" not in members:
        consent.ignore(consent.secret_key, "is not used, because there is no client id beside it")
        consent.secret = ""
    urls = {"authorizationURL", "tokenURL"} & members.keys()
    if urls and (len(urls) < 2 or "clientID" not in members):
        for name in urls:
            del members[name]
        consent.ignore(
            "oauth", "names endpoints, which need authorizationUrl, tokenUrl and clientId; they are not used"
        )


def _alike(key: str) -> str:
    return key.lower().replace("_", "").replace("-", "")
