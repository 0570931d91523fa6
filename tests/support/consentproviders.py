"""The npm package `oidc-provider`, at which users consent in a browser, as a process on 127.0.0.1.

    async with consent_provider(folder, {url: "tools:call"}) as provider:
        answer = await provider.browse(authorization.url, "alice")     # parameters of the redirect back

It registers clients, rotates refresh tokens, ends the consent of a refresh token that is used twice, and requires
`resource` to be a known server. A test is skipped if the package cannot be installed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urljoin, urlsplit

import aiohttp
from yarl import URL

from builtprograms import build_node, build_program
from fairlead_mcp.addresses import authority as host_and_port
from neededprograms import require_program
from ports import free_port

_SOURCES: Final = Path(__file__).parent / "token_providers" / "consent_provider"
_STEPS: Final = 12


@dataclass
class ConsentProvider:
    """One authorization server. `events` are the lines that it prints."""

    issuer: str
    base: str
    """Its URL on this machine. This is the issuer, unless the issuer's name is known only in a cluster."""
    process: asyncio.subprocess.Process
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def jwks_url(self) -> str:
        return f"{self.base}/jwks"

    def events_of(self, event: str) -> list[dict[str, Any]]:
        """Events of one kind."""
        return [line for line in self.events if line["event"] == event]

    async def browse(self, url: str, person: str) -> dict[str, str]:
        """Sign in and consent as a user. Returns the parameters of the browser's redirect back."""
        back = dict(parse_qsl(urlsplit(url).query))["redirect_uri"]
        fields: dict[str, str] | None = None
        url = url.replace(self.issuer, self.base, 1)
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            for _ in range(_STEPS):
                verb = "GET" if fields is None else "POST"
                async with session.request(verb, URL(url, encoded=True), data=fields, allow_redirects=False) as answer:
                    text = await answer.text()
                    assert answer.status < 400, text
                    location = answer.headers.get("location", "")
                if location.startswith(back):
                    return dict(parse_qsl(urlsplit(location).query))
                if location:
                    url, fields = urljoin(url, location), None
                    continue
                form = re.search(r'<form[^>]*action="([^"]+)".*?name="prompt" value="([^"]+)"', text, re.DOTALL)
                assert form is not None, text
                url, fields = urljoin(url, form[1]), {"prompt": form[2], "login": person, "password": "any"}
        raise AssertionError(f"the provider redirects without end: {url}")


@contextlib.asynccontextmanager
async def consent_provider(
    folder: Path,
    resources: Mapping[str, str],
    authority: str = "",
    *,
    address: str = "127.0.0.1",
    port: int = 0,
    issuer: str = "",
) -> AsyncIterator[ConsentProvider]:
    """A provider, on a free port by default. `resources`: scopes of the servers for which it gives tokens; `authority`:
    PEM of a certificate authority that it trusts when it fetches client documents; `issuer`: by default its URL.
    """
    require_program("node")
    require_program("npm")
    program = await asyncio.to_thread(build_program, _SOURCES, "consent-provider", build_node)
    port = port or free_port()
    base = f"http://{host_and_port(address, port)}"
    issuer = issuer or base
    configuration = {"issuer": issuer, "address": address, "port": port, "resources": resources}
    file = folder / "consent-provider.json"
    file.write_text(json.dumps(configuration))
    trusted = folder / "authority.pem"
    trusted.write_text(authority)
    environment = {**os.environ, "NODE_EXTRA_CA_CERTS": str(trusted)} if authority else None
    with (folder / "consent-provider.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            "node", program / "provider.mjs", file, stdout=asyncio.subprocess.PIPE, stderr=log, env=environment
        )
    provider = ConsentProvider(issuer, base, process)
    listening = asyncio.Event()
    reader = asyncio.get_running_loop().create_task(_read_events(provider, listening))
    try:
        async with asyncio.timeout(60):
            await listening.wait()
        assert process.returncode is None, (folder / "consent-provider.log").read_text()
        yield provider
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await reader


async def _read_events(provider: ConsentProvider, listening: asyncio.Event) -> None:
    assert provider.process.stdout is not None
    while line := await provider.process.stdout.readline():
        if not line.startswith(b"{"):
            continue  # a notice that the package prints
        provider.events.append(json.loads(line))
        if provider.events[-1]["event"] == "listening":
            listening.set()
    listening.set()
