"""MCP endpoint to which commands such as `fairlead tools` connect; errors of the connection become sentences."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote, urlsplit, urlunsplit

from fairlead_api.meta import ServerKey
from fairlead_cli.failure import USAGE_ERROR, Failure
from fairlead_cli.output import printable
from fairlead_cli.proxies import is_this_machine
from fairlead_cli.wording import NAMED_URL, credential_advice, has_credential, start_advice, with_advice
from fairlead_mcp.errors import ConnectFailed, HandshakeRefused, HttpRefused, McpError, NotMcp, RpcError, Timeout
from fairlead_mcp.http.target import InvalidTarget, Target, checked_name, checked_value
from fairlead_tools.commands import DEFAULT_URL

if TYPE_CHECKING:
    from fairlead_mcp.session import McpSession

Result = TypeVar("Result")

_SERVER_PATH = "/servers/{}/{}/mcp"
_CREDENTIAL_OPTION = "--token or FAIRLEAD_TOKEN"


@dataclass(frozen=True)
class Destination:
    """An MCP endpoint, with the headers and the timeout of its requests."""

    url: str
    headers: dict[str, str]
    timeout: float
    """Seconds per request."""
    tier: str | None = None
    """Latency tier from an option."""
    server: str | None = None
    """Server from an option, as `NAMESPACE/NAME`."""

    @classmethod
    def parse(
        cls, url: str, headers: Sequence[str], server: str | None, timeout: float, token: str | None = None
    ) -> Destination:
        """The destination from a command's options. If `server` has no namespace, the gateway is asked for its
        namespace. Raises Failure for invalid options.
        """
        check_url(url)
        header_values = dict(_header(text) for text in headers)
        if token and "authorization" not in {name.lower() for name in header_values}:
            header_values["Authorization"] = f"Bearer {_token(token)}"
        NAMED_URL.set("" if url in (DEFAULT_URL, environ.get("FAIRLEAD_URL")) else url)
        destination = cls(url, header_values, timeout)
        return destination if server is None else destination.at_server(server)

    def at_server(self, server: str) -> Destination:
        """The endpoint of one server, given as `NAMESPACE/NAME` or as a unique name or prefix. Raises Failure."""
        try:
            key = ServerKey.parse(server if "/" in server else self._key(server))
        except ValueError as error:
            raise Failure(f"--server: {error}", code=USAGE_ERROR) from error
        parts = urlsplit(self.url)
        path = _SERVER_PATH.format(quote(key.namespace, safe=""), quote(key.name, safe=""))
        return replace(self, url=urlunsplit((parts.scheme, parts.netloc, path, "", "")), server=str(key))

    def _key(self, server: str) -> str:
        from fairlead_cli.rest import ManagementClient

        return str(ManagementClient.of(self).get(f"/v1/servers/{quote(server, safe='')}")["server"])

    def in_tier(self, tier: str | None) -> Destination:
        """This endpoint in a latency tier; unchanged for None."""
        if tier is None:
            return self
        return replace(self, url=f"{self.url.rstrip('/')}/{quote(tier, safe='')}", tier=tier)

    def run(self, work: Callable[[McpSession], Awaitable[Result]]) -> Result:
        """Connect, run `work`, disconnect. Raises Failure with a sentence for every error."""
        try:
            return asyncio.run(self._run(work))
        except McpError as error:
            raise self._failure(error) from error

    async def _run(self, work: Callable[[McpSession], Awaitable[Result]]) -> Result:
        # imported here, because commands that use only REST have no session, and the import takes a third of their time
        from fairlead_mcp.session import McpSession

        async with McpSession.over_http(Target.from_url(self.url), headers=self.headers) as session:
            return await work(session)

    def _failure(self, error: McpError) -> Failure:
        if isinstance(error, HttpRefused | RpcError | HandshakeRefused) and error.status == 404:
            return self._not_found()
        return Failure(self._explain(error))

    def _not_found(self) -> Failure:
        """The failure for status 404: an unknown tier, an unknown server, or a wrong path."""
        from fairlead_cli.rest import ManagementClient

        if self.tier is not None:
            try:
                tiers = ", ".join(tier["name"] for tier in ManagementClient.of(self).get("/v1/tiers")["tiers"])
            except Failure:
                tiers = ""
            tier_list = f"; tiers: {tiers}" if tiers else ""
            message = f"{self.url} does not exist: no latency tier is called {self.tier!r}{tier_list}"
            return Failure(f"--tier: {message}", code=USAGE_ERROR)
        if self.server is not None:
            message = f"{self.url} does not exist: there is no server {self.server} that you may see"
            return Failure(f"--server: {message}; `fairlead servers` lists the servers", code=USAGE_ERROR)
        if not urlsplit(self.url).path.strip("/"):
            return no_path_failure(self.url)
        return Failure(f"{self.url} does not exist (404): check the path in --url, which usually ends in /mcp.")

    def _explain(self, error: McpError) -> str:
        if isinstance(error, ConnectFailed):
            return with_advice(f"cannot reach {self.url}: {error}", start_advice(self.url))
        if isinstance(error, Timeout):
            return f"{self.url} did not respond within {self.timeout:g} s; --timeout waits longer."
        if isinstance(error, HttpRefused) and error.status in (401, 403):
            rejected = error.status == 401 and has_credential(self.headers)
            text = f"{self.url} rejects the credential that was given (401)" if rejected else str(error)
            return with_advice(text, credential_advice(self.headers))
        if isinstance(error, HttpRefused):
            return with_advice(str(error), f"Check that {self.url} is the endpoint of an MCP server.")
        if isinstance(error, NotMcp):
            return with_advice(str(error), f"Check that {self.url} has the path of an MCP endpoint, such as /mcp.")
        if isinstance(error, RpcError):
            return printable(error.message)
        return printable(str(error)) if isinstance(error, HandshakeRefused) else str(error)


def check_url(url: str, option: str = "--url", prefix: str | None = None) -> None:
    """Raises Failure with code USAGE_ERROR for a text that is not an MCP endpoint, and suggests a correction.

    `prefix`: words before the corrected URL in the suggestion; by default `option`.
    """
    try:
        Target.from_url(url)
    except InvalidTarget as error:
        if "://" in url or not re.fullmatch(r"[\w.\[\]:-]+(/\S*)?", url):
            raise Failure(f"{option}: {error}, such as {DEFAULT_URL}", code=USAGE_ERROR) from error
        host, _, path = url.partition("/")
        scheme = "http" if is_this_machine(_host_of(host)) else "https"
        suggested_url = f"{scheme}://{host}/{path or 'mcp'}"
        message = f"{option}: {url!r} must start with http:// or https://: {prefix or option} {suggested_url}"
        raise Failure(message, code=USAGE_ERROR) from error


def no_path_failure(url: str) -> Failure:
    """The failure of a URL without a path."""
    parts = urlsplit(url)
    suggested_url = urlunsplit((parts.scheme, parts.netloc, "/mcp", "", ""))
    message = f"--url or FAIRLEAD_URL: {url} has no path, but an MCP endpoint usually ends in /mcp: {suggested_url}"
    return Failure(message, code=USAGE_ERROR)


def _host_of(netloc: str) -> str:
    return urlsplit(f"//{netloc}").hostname or ""


def _token(value: str) -> str:
    """The credential, read from the file that `@FILE` names. Raises Failure, which does not quote the credential."""
    if not value.startswith("@"):
        token = value
        if _is_file(value):
            raise Failure(f"{_CREDENTIAL_OPTION}: {value} is a file: write --token @{value}", code=USAGE_ERROR)
    else:
        try:
            token = Path(value[1:]).expanduser().read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            reason = (error.strerror or str(error)) if isinstance(error, OSError) else "it is not ASCII text"
            raise Failure(f"{_CREDENTIAL_OPTION}: {value[1:]} cannot be read: {reason}", code=USAGE_ERROR) from error
    token = token.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise Failure(f"{_CREDENTIAL_OPTION}: the value is not a valid API key or token", code=USAGE_ERROR)
    return token


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except OSError:  # too long for the name of a file, as access tokens are
        return False


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise Failure(f"--header: {text.partition('=')[0]!r} must have the form NAME:VALUE", code=USAGE_ERROR)
    try:
        checked_name(name.strip()), checked_value(name.strip(), value)
    except InvalidTarget as error:
        raise Failure(f"--header: {error}", code=USAGE_ERROR) from error
    return name.strip(), value.strip()
