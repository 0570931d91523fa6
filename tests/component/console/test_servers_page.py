"""The console's pages about servers: failures with reason and remedy, in a real browser, and limits on size."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import msgspec
from playwright.async_api import Browser

from consoleworld import (
    BROKEN,
    beside_the_browser,
    complaints,
    emptied,
    open_page,
    shops,
    sign_in,
    too_wide,
    violations,
    visit,
)
from fairlead_api.documents.catalog import Endpoint
from fairlead_api.documents.servers import FAILED, FileProblem, ServerEntry, Servers
from fairlead_app.authentication import Trust
from fairlead_console.wording import TRANSPORTS
from fixed_authenticator import Names
from gatewayworld import catalog, publish, running, withdraw

LIST = "/console/servers"
MOST_BYTES = 100_000
HOSTILE = '<img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>'


@beside_the_browser
async def test_a_failed_server_comes_first_with_why_and_what_to_do(tmp_path: Path, chromium: Browser) -> None:
    async with running(tmp_path, *shops(14), BROKEN) as gateway, emptied(chromium):
        page = await open_page(chromium, gateway, "/console/servers")
        problems = complaints(page)
        card = page.locator("section.problem")
        text = await card.inner_text()
        heading = await card.locator("h2").inner_text()
        rows = await page.locator("tbody tr").count()
        broken = await violations(page)
        await card.get_by_role("link").click()
        shown = await page.locator("main").inner_text()

        assert "MAIL_TOKEN is not set" in text
        assert "Check command, args, cwd and env" in text
        assert heading.startswith("default/mail")
        assert rows == 14
        assert broken == []
        assert "StartFailed" in shown
        assert await violations(page) == []
        assert problems == []


def failed_server(name: str, message: str) -> ServerEntry:
    return ServerEntry(
        namespace="default",
        name=name,
        prefix=name,
        state=FAILED,
        reason="Invalid",
        cause="StartFailed",
        message=message,
    )


async def test_problems_of_files_head_the_list_and_are_bounded(tmp_path: Path) -> None:
    files = tuple(FileProblem(file=f"{number}.json", message=HOSTILE * 5) for number in range(50))
    async with running(tmp_path, Servers(files=files)) as gateway:
        page = (await visit(gateway, LIST)).body.decode()
    assert page.count('<section class="card problem">') == 10
    assert "and 40 more problems of files" in page
    assert "<img src=x" not in page
    assert len(page) <= MOST_BYTES


async def test_a_reason_that_is_cut_has_a_link_to_all_of_it(tmp_path: Path) -> None:
    long = "npx printed a failure. " * 30
    entries = Servers(
        servers=(failed_server("long", f"{long}Read: fairlead logs default/long"), failed_server("short", "No."))
    )
    async with running(tmp_path, entries) as gateway:
        page = (await visit(gateway, LIST)).body.decode()
        whole = (await visit(gateway, f"{LIST}/default/long")).body.decode()
    assert page.count("All of it") == page.count('<a href="/console/servers/default/long">All of it</a>') == 1
    assert "fairlead logs" in whole


async def test_a_server_whose_replicas_are_0_is_listed_as_stopped_and_needs_nobody(tmp_path: Path) -> None:
    stopped = msgspec.structs.replace(failed_server("off", ""), state="stopped", reason="Stopped", cause="Stopped")
    async with running(tmp_path, *shops(1), Servers(servers=(stopped,))) as gateway:
        text = (await visit(gateway, LIST)).body.decode()
    assert "All servers that run answer; 1 server is stopped." in text
    assert "<dt>Servers ready</dt><dd>1 <small>of 2</small>" in text
    assert "card problem" not in text
    assert "state-stopped" in text


async def test_commands_for_logs_of_pods_name_the_server(tmp_path: Path) -> None:
    crashing = msgspec.structs.replace(failed_server("mail", ""), cause="CrashLooping")
    async with running(tmp_path, Servers(servers=(crashing,))) as gateway:
        text = (await visit(gateway, LIST)).body.decode()
    assert "kubectl logs --namespace default --selector fairlead.dev/server=mail " in text


async def test_commands_in_the_console_name_the_gateway_that_the_browser_asked(tmp_path: Path) -> None:
    why = "it ended with code 1; fairlead logs mail has all that it printed, `fairlead tools --url http://other` lists."
    async with running(tmp_path, Servers(servers=(failed_server("mail", why),))) as gateway:
        port = gateway.port
        pages = [await visit(gateway, target) for target in (LIST, f"{LIST}/default/mail")]
        unknown = await visit(gateway, "/console/tools/mail__send")
    for page in pages:
        text = page.body.decode()
        assert f"fairlead logs --url http://127.0.0.1:{port}/mcp mail has all" in text
        assert "`fairlead tools --url http://other` lists" in text
    assert unknown.status in (404, 503)
    assert f"`fairlead servers --url http://127.0.0.1:{port}/mcp default/mail`" in unknown.body.decode()


@beside_the_browser
async def test_every_server_that_is_counted_as_failed_is_shown_with_its_reason(
    tmp_path: Path, chromium: Browser
) -> None:
    entries = [failed_server(f"s{number:02}", f"KEY_{number:02} is not set.") for number in range(12)]
    async with running(tmp_path, *shops(3), Servers(servers=tuple(entries))) as gateway, emptied(chromium):
        page = await open_page(chromium, gateway, LIST, width=390)
        lead = await page.locator(".lead").inner_text()
        cards = await page.locator("section.problem").all_inner_texts()
        rows = await page.locator("tbody th").all_inner_texts()
        broken = await violations(page)

    assert lead == "12 of 15 servers are not ready."
    assert [entry.message in card for entry, card in zip(entries, cards, strict=True)] == [True] * 12
    assert [row.strip() for row in rows] == ["default/shop00", "default/shop01", "default/shop02"]
    assert broken == []


async def test_failed_servers_beyond_a_page_are_on_the_next_one(tmp_path: Path) -> None:
    entries = tuple(failed_server(f"s{number:03}", 'is "not" <set> ' * 400) for number in range(90))
    async with running(tmp_path, Servers(servers=entries)) as gateway:
        pages = [(await visit(gateway, f"{LIST}?page={number}")).body.decode() for number in (1, 2, 3)]

    assert "90 of 90 servers" in pages[0].partition("</strong>")[0]
    assert [page.count('<section class="card problem">') for page in pages] == [40, 40, 10]
    assert max(len(page) for page in pages) <= MOST_BYTES


async def test_transports_of_servers_are_named_in_words(tmp_path: Path) -> None:
    async with running(tmp_path, *shops(1)) as gateway:
        listed = (await visit(gateway, LIST)).body.decode()
        own = (await visit(gateway, f"{LIST}/default/shop00")).body.decode()

    assert 'title="streamable-http">HTTP</td>' in listed
    assert 'HTTP <code class="hint">streamable-http</code>' in own


def test_each_transport_of_the_catalog_has_words() -> None:
    tags = {str(endpoint.__struct_config__.tag) for endpoint in get_args(Endpoint)}
    assert TRANSPORTS.keys() == tags
    assert "stdio" in TRANSPORTS["stdio-child"]


@beside_the_browser
async def test_the_pages_fit_a_phone_and_the_dark(tmp_path: Path, chromium: Browser) -> None:
    async with running(tmp_path, *shops(2, 5), BROKEN) as gateway, emptied(chromium):
        page = await open_page(chromium, gateway, "/console/servers", width=375, dark=True)
        wide = [await too_wide(page)]
        broken = [*await violations(page)]
        await page.goto(f"http://127.0.0.1:{gateway.port}/console/servers/default/shop00")
        wide.append(await too_wide(page))
        broken += await violations(page)
        await page.get_by_role("button", name="Theme: system").click()
        await page.reload()

        assert wide == [False, False]
        assert broken == []
        assert await page.locator("html").get_attribute("data-theme") == "dark"


@beside_the_browser
async def test_a_gateway_without_servers_says_how_to_add_one(tmp_path: Path, chromium: Browser) -> None:
    async with running(tmp_path, Servers()) as gateway, emptied(chromium):
        page = await open_page(chromium, gateway, "/console/")

        assert "fairlead up mcp.json" in await page.locator("main").inner_text()
        assert await violations(page) == []


@beside_the_browser
async def test_the_page_follows_what_becomes_of_servers(tmp_path: Path, chromium: Browser) -> None:
    first, second = shops(2, 2)
    async with running(tmp_path, first) as gateway, emptied(chromium):
        page = await open_page(chromium, gateway, "/console/servers")
        await page.locator("#live:not([hidden])").wait_for()
        publish(tmp_path / "documents", second)
        await page.get_by_role("link", name="default/shop01").wait_for()
        withdraw(tmp_path / "documents", second)
        await page.get_by_role("link", name="default/shop01").wait_for(state="detached")


@beside_the_browser
async def test_texts_of_servers_are_text(tmp_path: Path, chromium: Browser) -> None:
    hostile = BROKEN.servers[0]
    entry = type(hostile)(
        namespace="default", name="evil", state="failed", cause=HOSTILE, reason=HOSTILE, message=HOSTILE
    )
    shop = catalog("shop", "http://127.0.0.1:9/mcp", ["buy"], version=HOSTILE)
    async with running(tmp_path, shop, Servers(servers=(entry,))) as gateway, emptied(chromium):
        page = await open_page(chromium, gateway, "/console/servers")
        problems = complaints(page)
        title = await page.title()
        text = await page.locator("main").inner_text()
        await page.goto(f"http://127.0.0.1:{gateway.port}/console/servers/default/evil")

        assert title.startswith("Servers")
        assert HOSTILE in text
        assert await page.locator("main img, main script").count() == 0
        assert problems == []


async def test_pages_of_large_installations_stay_small(tmp_path: Path) -> None:
    async with running(tmp_path, *shops(1, 1300), *shops(120, 1)[1:]) as gateway:
        pages = [
            await visit(gateway, target)
            for target in (
                "/console/servers",
                "/console/servers?page=3",
                "/console/servers/default/shop00?page=26",
                "/console/servers?page=99999999999",
            )
        ]

    assert [page.status for page in pages] == [200] * 4
    assert max(len(page.body) for page in pages) <= MOST_BYTES
    assert ">shop00__<wbr>item_999<" in pages[2].body.decode()
    assert "item_100<" not in pages[2].body.decode()


CONFLICTED = Servers(
    servers=(
        ServerEntry(namespace="default", name="ready", state="ready", conflict="PrefixTaken: strict/ready has it"),
        msgspec.structs.replace(BROKEN.servers[0], prefix=None, conflict="PrefixReserved: it is kept for strict/mail"),
    )
)


async def test_the_holder_of_a_prefix_is_shown_beside_other_faults_of_a_server(tmp_path: Path) -> None:
    ready = msgspec.structs.replace(catalog("ready", "http://127.0.0.1:9/mcp", ["buy"]), prefix=None)
    async with running(tmp_path, ready, CONFLICTED) as gateway:
        pages = [await visit(gateway, f"{LIST}{name}") for name in ("", "/default/ready", "/default/mail")]
        served = [(await visit(gateway, f"/v1/servers/default/{name}")).message for name in ("ready", "mail")]

    texts = [page.body.decode() for page in pages]
    assert "strict/ready" in texts[0]
    assert "strict/mail" in texts[0]
    assert "strict/ready" in texts[1]
    assert "strict/mail" in texts[2]
    assert "MAIL_TOKEN" in texts[2]
    assert [entry["conflict"].split(":")[0] for entry in served] == ["PrefixTaken", "PrefixReserved"]


async def test_administrators_alone_read_which_server_holds_a_prefix(tmp_path: Path) -> None:
    trust = Trust((Names("npc"),))
    async with running(tmp_path, CONFLICTED, trust=trust, admin_groups=("admins",)) as gateway:
        cookie = await sign_in(gateway, "npc")
        page = await visit(gateway, f"{LIST}/default/mail", cookie=cookie)
        taken = await visit(gateway, f"{LIST}/default/ready", cookie=cookie)

    assert "another server has this server" in taken.body.decode()
    assert "strict/mail" not in page.body.decode()
    assert "prefix is reserved for a server that was deleted" in page.body.decode()


async def test_messages_of_servers_are_for_administrators(tmp_path: Path) -> None:
    async with running(tmp_path, BROKEN, trust=Trust((Names("npc"),)), admin_groups=("admins",)) as gateway:
        cookie = await sign_in(gateway, "npc")
        pages = [await visit(gateway, target, cookie=cookie) for target in (LIST, f"{LIST}/default/mail")]

    for page in pages:
        text = page.body.decode()
        assert "MAIL_TOKEN" not in text
        assert "What to do:" in text
    assert "administrators" in pages[1].body.decode()
