"""Addresses of the gateway's own pages for signing in. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import quote, unquote, urlencode, urlsplit

import msgspec

from fairlead_api.documents.oauth import OAuthSettings
from fairlead_api.meta import ServerKey

ROOT: Final = "/sign-in/"
"""Path of all pages."""
CALLBACK: Final = ROOT + "callback"
"""Path of the redirect URI (RFC 6749 section 3.1.2), to which the server is added. The path of an answer therefore
identifies its authorization server, even if the answer does not name it (RFC 9700 section 4.4.2.2).
"""
CLIENT: Final = ROOT + "client"
"""Path of the documents that describe the gateway as an OAuth client, to which the server is added."""
PORT_CALLBACK: Final = "/callback"
"""Path of the redirect URI on a registered port of this machine: the path that Claude Code uses, whose configuration
files can be imported.
"""
ID: Final = "id"
"""Parameter of a link."""


class SignInSite(msgspec.Struct, frozen=True):
    """URLs at which browsers reach the pages of one gateway."""

    base_url: Callable[[], str]
    """URL of the gateway without a path; empty if it is unknown."""
    is_local: bool
    """Whether only browsers on this machine reach the pages."""
    has_console: bool = True
    """Whether the gateway has a console, which authenticates browsers."""
    loopback: Callable[[], str] = lambda: "http://127.0.0.1:8080"
    """URL of the gateway for browsers on its machine, as an example in advice."""

    @property
    def is_secure(self) -> bool:
        """Whether browsers use https."""
        return self.base_url().startswith("https:")

    def client_document(self, server: ServerKey) -> str:
        """URL of the document that describes this gateway as an OAuth client; empty if authorization servers cannot
        fetch it.
        """
        base_url = self.base_url()
        return base_url + server_path(CLIENT, server) if self.is_secure and not self.is_local else ""

    def redirect_uri(self, server: ServerKey, settings: OAuthSettings) -> str:
        """Redirect URI of authorization requests for a server."""
        port = self.registered_port(settings)
        return f"http://localhost:{port}{PORT_CALLBACK}" if port else self.base_url() + server_path(CALLBACK, server)

    def callback_path(self, server: ServerKey, settings: OAuthSettings) -> str:
        """Path at which the gateway receives the answer: the path of the redirect URI, or the path to which a
        registered port redirects.
        """
        return CALLBACK if self.registered_port(settings) else server_path(CALLBACK, server)

    def registered_port(self, settings: OAuthSettings) -> int:
        """Port of this machine in the redirect URI with which the server's client is registered; 0 without one."""
        return settings.callback_port if self.is_local else 0

    def listens_at(self, port: int) -> bool:
        """Whether a port is the gateway's own."""
        return urlsplit(self.base_url()).port == port

    def link(self, server: ServerKey, ident: str) -> str:
        """URL at which a user begins a sign-in."""
        return self.base_url() + path_of(server, ident)


def server_path(path: str, server: ServerKey) -> str:
    """A path with a server added."""
    return f"{path}/{quote(server.namespace, safe='')}/{quote(server.name, safe='')}"


def server_in(path: str, root: str) -> ServerKey | None:
    """The server that `server_path` added to the path `root`; None if the path has another form."""
    names = path.removeprefix(root + "/").split("/")
    return ServerKey(unquote(names[0]), unquote(names[1])) if path.startswith(root + "/") and len(names) == 2 else None


def path_of(server: ServerKey, ident: str) -> str:
    """Path and query of the page at which a user begins a sign-in."""
    return f"{server_path(ROOT[:-1], server)}?{urlencode({ID: ident})}"
