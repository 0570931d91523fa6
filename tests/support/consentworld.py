"""A gateway of one machine with servers at which its owner signs in, and the calls that need it.

async with consent_server("linear") as server, laptop(tmp_path, server) as gateway, FormBrowser() as browser:
    link = await link_of(gateway)
    await browser.sign_in(link)
    assert await whoami(gateway) == "alice"
"""

from __future__ import annotations

import re
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from consentservers import BrowserPage, ConsentServer, FormBrowser
from fairlead_api.documents.catalog import Catalog
from fairlead_api.documents.oauth import USER_CONSENT, OAuthSettings
from fairlead_api.meta import ServerKey
from fairlead_app.gateway import Gateway
from fairlead_gateway.core.identity import LOCAL, Identity
from gatewayworld import MODERN, Answer, Ask, Reachable, ask, calling, catalog, running

SERVER = ServerKey("default", "linear")


def consent_catalog(url: str, name: str = "linear", *, oauth: dict[str, Any] | None = None, **more: Any) -> Catalog:
    """A server that requires each user to sign in, with a tool `whoami`."""
    settings = OAuthSettings(grant=USER_CONSENT, **(oauth or {}))
    more.setdefault("version", MODERN)
    return catalog(name, url, more.pop("tools", ["whoami"]), oauth=settings, **more)


def laptop(folder: Path, *servers: ConsentServer | Catalog, **settings: Any) -> AbstractAsyncContextManager[Gateway]:
    """A gateway for its own machine, without authentication, which stores grants in a folder."""
    catalogs = [consent_catalog(server.url) if isinstance(server, ConsentServer) else server for server in servers]
    more = {"environment": "local", "grants_directory": folder / "grants", **settings}
    return running(folder, *catalogs, **more)


async def link_of(gateway: Gateway, identity: Identity = LOCAL, server: ServerKey = SERVER) -> str:
    """Sign-in link in the answer to a call without a grant."""
    return await gateway.sign_ins.link(identity, server, None)


async def call_whoami(gateway: Reachable, request: Ask | None = None) -> Answer:
    """Answer to a call of `whoami`."""
    return await ask(gateway, request or calling("linear__whoami"))


async def whoami(gateway: Gateway, request: Ask | None = None) -> str:
    """User for whom the server receives a call."""
    result = (await call_whoami(gateway, request)).message["result"]
    assert not result.get("isError"), result
    return str(result["content"][0]["text"])


async def sign_in_as(browser: FormBrowser, link: str, key: str) -> BrowserPage:
    """Open a link, sign in to the console with a key on the way, and submit all forms."""
    page = await browser.press(await browser.get(link), key=key)
    while page.has_form:
        page = await browser.press(page)
    return page


def title_of(text: str) -> str:
    """Title of a page."""
    match = re.search(r"<h1>(.*?)</h1>", text)
    return match[1] if match else text
