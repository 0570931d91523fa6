"""Where `fairlead tools` and `fairlead call` connect to, and how a failed connection is put to a person."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, urlsplit, urlunsplit

from fairlead_api.meta import ServerKey
from fairlead_cli.failure import USED_WRONGLY, Failure
from fairlead_cli.output import printable
from fairlead_mcp.errors import ConnectFailed, HttpRefused, McpError, NotMcp, RpcError, Timeout
from fairlead_mcp.http.target import InvalidTarget, Target, checked_name, checked_value
from fairlead_mcp.session import McpSession

Result = TypeVar("Result")

CREDENTIAL = "Give a credential with --token, or FAIRLEAD_TOKEN in the environment."
_SERVER_PATH = "/servers/{}/{}/mcp"


@dataclass(frozen=True)
class Destination:
    """An MCP endpoint, with what is sent to it."""

    url: str
    headers: dict[str, str]
    timeout: float
    """Seconds for each request."""

    @classmethod
    def parse(
        cls, url: str, headers: Sequence[str], server: str | None, timeout: float, token: str | None = None
    ) -> Destination:
        """From the options of a command; a gateway is asked which server a plain name means. Raises Failure for options
        that make no sense.
        """
        try:
            Target.from_url(url)
        except InvalidTarget as error:
            raise Failure(f"--url: {error}, such as http://127.0.0.1:8080/mcp", code=USED_WRONGLY) from error
        given = dict(_header(text) for text in headers)
        if token and "authorization" not in {name.lower() for name in given}:
            given["Authorization"] = f"Bearer {_token(token)}"
        found = cls(url, given, timeout)
        return found if server is None else found.at_server(server)

    def at_server(self, server: str) -> Destination:
        """The endpoint of one server: `NAMESPACE/NAME`, or a name or prefix that no other has. Raises Failure."""
        try:
            key = ServerKey.parse(server if "/" in server else self._key(server))
        except ValueError as error:
            raise Failure(f"--server: {error}", code=USED_WRONGLY) from error
        parts = urlsplit(self.url)
        path = _SERVER_PATH.format(quote(key.namespace, safe=""), quote(key.name, safe=""))
        return replace(self, url=urlunsplit((parts.scheme, parts.netloc, path, "", "")))

    def _key(self, server: str) -> str:
        from fairlead_cli.rest import Plane

        return str(Plane.of(self).get(f"/v1/servers/{quote(server, safe='')}")["server"])

    def in_tier(self, tier: str | None) -> Destination:
        """This endpoint in a latency tier; itself with None."""
        return self if tier is None else replace(self, url=f"{self.url.rstrip('/')}/{quote(tier, safe='')}")

    def run(self, work: Callable[[McpSession], Awaitable[Result]]) -> Result:
        """Connect, do `work`, disconnect. Raises Failure with a sentence for whatever goes wrong on the way."""
        try:
            return asyncio.run(self._run(work))
        except McpError as error:
            raise Failure(self._explain(error)) from error

    async def _run(self, work: Callable[[McpSession], Awaitable[Result]]) -> Result:
        async with McpSession.over_http(Target.from_url(self.url), headers=self.headers) as session:
            return await work(session)

    def _explain(self, error: McpError) -> str:
        if isinstance(error, ConnectFailed):
            return f"{error}. Is a gateway running at {self.url}? Start one with `fairlead up`, or name it with --url."
        if isinstance(error, Timeout):
            return f"{self.url} did not answer within {self.timeout:g} s; --timeout gives it more time."
        if isinstance(error, HttpRefused) and error.status in (401, 403):
            return f"{error}. {CREDENTIAL}"
        if isinstance(error, HttpRefused | RpcError) and error.status == 404:
            return f"{self.url} does not exist (404): check the path of --url, and the names in --server and --tier."
        if isinstance(error, NotMcp):
            return f"{error}. Does {self.url} end in the path of an MCP endpoint, such as /mcp?"
        if isinstance(error, RpcError):
            return printable(error.message)
        return str(error)


def _token(given: str) -> str:
    """The credential, read from a file where it says so. Raises Failure, which does not quote it."""
    if not given.startswith("@"):
        found = given
    else:
        try:
            found = Path(given[1:]).expanduser().read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise Failure(f"--token: {given[1:]} cannot be read: {error}", code=USED_WRONGLY) from error
    found = found.strip()
    if not found or not found.isascii() or not found.isprintable() or " " in found:
        raise Failure("--token: that is no API key and no token", code=USED_WRONGLY)
    return found


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise Failure(f"--header: {text.partition('=')[0]!r} is not of the form NAME:VALUE", code=USED_WRONGLY)
    try:
        checked_name(name.strip()), checked_value(name.strip(), value)
    except InvalidTarget as error:
        raise Failure(f"--header: {error}", code=USED_WRONGLY) from error
    return name.strip(), value.strip()
