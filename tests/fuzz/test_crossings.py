"""Hundreds of attempts at boundaries that a single guard protects: sign-in, cookies, ids, folders under races,
rebinding.

Each test says what no attempt may reach, and asserts the number of attempts, so that a corpus cannot shrink unnoticed.
"""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from appserver import AppServer
from consoleworld import cookie_of, csrf_of, post_form, visit
from fairlead_api.documents.rules import Policy, Rule, Rules, Subject
from fairlead_api.load import load_text
from fairlead_api.meta import ServerKey
from fairlead_app.authentication import Trust
from fairlead_console.session_cookie import CookieSealer
from fairlead_console.sign_in_form import safe_return_path
from fairlead_gateway.calls.sealed.task_ids import TaskIds
from fairlead_gateway.core.identity import Identity
from fairlead_mcp.egress import Egress
from fairlead_mcp.errors import ConnectFailed
from fairlead_mcp.http.dial import Address
from fairlead_servers.file_io.jail import FileRefused, FolderQuota, Jail
from fixed_authenticator import Names
from gatewayworld import Answer, Ask, ask, catalog, legacy, publish, running, wait_for_snapshots
from podtemplates import TEMPLATES
from rawserver import raw_server
from restworld import get, post
from toolservers import modern_server, tool

TRIES: Final = 100
"""Minimum number of attempts of each row."""
ALPHABET: Final = "ABab01-_"
KEYS: Final = Trust((Names("alice", "mallory"),))
SHOP: Final = catalog("shop", "http://127.0.0.1:9/mcp", ["buy"])


def _addresses() -> Iterator[str]:
    """Notations of another site that a browser follows, in `Location` or in a link."""
    fronts = (
        "//",
        "///",
        "/\\",
        "\\\\",
        "/\t/",
        "/\n/",
        "\t//",
        " //",
        "https:",
        "https:/",
        "https://",
        "HtTpS://",
        "javascript:",
        "data:text/html,",
        "/console/..//",
        "/console//../..//",
        "/console\\..\\",
        "/;//",
        "http:///",
        "/%2f/",
        "/console/%2e%2e//",
        "/console/\r\nLocation: https://",
        "//user@",
        "/.//",
    )
    hosts = (
        "evil.example",
        "evil.example/console/",
        "evil.example%2f.tools.example/console",
        "[::1]/console/",
        "evil\u3002example",
        "evil.example\\@tools.example/console/",
    )
    return (front + host for front, host in itertools.product(fronts, hosts))


def _as_a_browser(location: str) -> str:
    """Site that a browser opens (WHATWG URL): white space at the ends, tabs and line breaks are removed, and `\\`
    means `/`."""
    text = "".join(char for char in location.strip() if char not in "\t\r\n").replace("\\", "/")
    parts = urlsplit(text)
    return f"{parts.scheme}//{parts.netloc}" if parts.scheme or parts.netloc or text.startswith("//") else ""


def test_signing_in_leads_to_no_other_site_however_it_is_written() -> None:
    tried = [*_addresses()]
    assert len(tried) >= TRIES
    assert {given: safe_return_path(given) for given in tried if _as_a_browser(safe_return_path(given))} == {}
    assert all(safe_return_path(given).startswith("/console/") for given in tried)
    assert all(safe_return_path(quote(given)).startswith("/console/") for given in tried)


async def test_no_form_of_another_site_signs_somebody_in_or_acts_for_them(tmp_path: Path) -> None:
    origins = [
        *("null", "https://evil.example", "http://tools.example.evil.example", "https://tools.example.", "file://"),
        *(f"https://{name}" for name in ("xtools.example", "tools.example@evil.example", "tools.exampl\u0435")),
        *(f"https://sub{number}.tools.example" for number in range(20)),
        *(f"https://tools.example:{port}" for port in (1, 80, 8080, 8443)),
    ]
    targets = ("/console/sign-in", "/console/sign-out", "/console/servers/default/shop/refresh")
    let_in = []
    async with running(tmp_path, SHOP, trust=KEYS, allowed_hosts=("tools.example", "127.0.0.1")) as gateway:
        cookie = cookie_of(await post_form(gateway, "/console/sign-in", key="alice"))
        token = csrf_of(await visit(gateway, "/console/servers/default/shop", cookie=cookie))
        tried = [*itertools.product(origins, targets)]
        for origin, target in tried:
            fields = urlencode({"key": "mallory", "csrf": token}).encode()
            headers = {"host": "tools.example", "origin": origin, "content-type": "application/x-www-form-urlencoded"}
            headers["cookie"] = cookie
            answer = await ask(gateway, Ask(target=target, body=fields, headers=headers))
            if answer.status != 403 or "set-cookie" in answer.headers:
                let_in.append((origin, target, answer.status))
    assert len(tried) >= 90
    assert let_in == []


def _altered_texts(text: str) -> Iterator[str]:
    """All texts with one altered character, or truncated at either end."""
    for index in range(len(text)):
        yield text[:index]
        yield text[index + 1 :]
        yield from (text[:index] + char + text[index + 1 :] for char in ALPHABET if char != text[index])


def test_no_altered_or_swapped_cookie_is_a_session() -> None:
    sealer = CookieSealer(b"key")
    other = CookieSealer(b"another")
    session = sealer.begin("token")
    value = sealer.seal(session, sealer.name)
    bits = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))
    tried = [changed for changed in _altered_texts(value) if _decode(changed) != bits]
    tried += [other.seal(session, sealer.name), sealer.seal(session, "another purpose"), value + "A", value * 2]
    assert len(tried) >= TRIES
    assert [changed for changed in tried if sealer.session(f"{sealer.name}={changed}") is not None] == []
    assert sealer.session(f"{sealer.name}={value}") == session


def _decode(text: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return b""


def test_no_altered_replayed_or_swapped_id_of_a_task_opens_it() -> None:
    ids = TaskIds(b"key")
    alice = _somebody("alice")
    mallory = _somebody("mallory")
    sealed = ids.seal("task-1", ServerKey("default", "shop"), "buy", alice)
    prefix, mac, payload = sealed.split(".")
    others = [
        ids.seal(task, ServerKey(namespace, server), name, mallory)
        for task, namespace, server, name in itertools.product(
            ("task-1", "task-2"), ("default", "team"), ("shop", "x"), ("buy", "pay")
        )
    ]
    hers = ids.seal("task-1", ServerKey("default", "shop"), "buy", mallory)
    spliced = [f"{prefix}.{each.split('.')[1]}.{payload}" for each in others if each != hers]
    spliced += [f"{prefix}.{mac}.{each.split('.')[2]}" for each in others if each.split(".")[2] != payload]
    tried = [
        *_altered_texts(sealed),
        *spliced,
        *(each + "=" for each in others),
        sealed.upper(),
        f" {sealed}",
        f"{sealed}\n",
    ]
    assert len(tried) >= TRIES
    assert [each for each in tried if ids.open(each, alice) is not None] == []
    altered = [each for each in tried if each.rstrip("=") not in others]
    assert [each for each in (sealed, *altered) if ids.open(each, mallory) is not None] == []
    assert TaskIds(b"other").open(sealed, alice) is None
    assert ids.open(sealed, alice) is not None


def _somebody(principal: str) -> Identity:
    return Identity(kind="apiKey", principal=principal)


async def test_a_kept_result_cannot_be_read_by_another_principal(tmp_path: Path) -> None:
    secret = {"content": [{"type": "text", "text": "alice's secret " * 400}]}
    async with (
        modern_server([tool("read")], call=lambda _: secret) as server,
        running(tmp_path, catalog("shop", server.url, [tool("read")]), trust=KEYS, rest_processes=0) as gateway,
    ):
        made = await post(gateway, "/v1/executions", {"name": "shop__read"}, authorization="Bearer alice")
        context = made.message["result"]["_meta"]["fairlead.dev/context"]
        session = context["sessionId"]
        ident = context["entryId"]
        sessions = [session, *(changed for changed in _altered_texts(session) if changed.strip())][:: len(session) // 8]
        targets = [
            f"/v1/context?{urlencode({'session_id': each, **more})}"
            for each in (session, *sessions)
            for more in (
                {"query": "secret"},
                {"entry_id": ident, "grep": "secret"},
                {"entry_id": ident, "range": "1-9"},
            )
        ]
        tried = [await get(gateway, target, authorization="Bearer mallory") for target in targets]
        tried += [await get(gateway, target) for target in targets[:8]]
        own = await get(gateway, targets[0], authorization="Bearer alice")
    assert len(tried) >= TRIES
    assert [answer.body for answer in tried if b"alice's secret" in answer.body] == []
    assert {answer.status for answer in tried[:-8]} != {401}
    assert b"alice's secret" in own.body


class _Markup(HTMLParser):
    """Parser that collects elements and attributes that would run code in a page."""

    def __init__(self) -> None:
        super().__init__()
        self.active: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if (
            tag in ("iframe", "object", "embed", "base")
            or "XSS" in tag
            or (tag == "script" and "src" not in attributes)
        ):
            self.active.append(tag)
        for name, value in attrs:
            leads = (value or "").strip().lower() if name in ("href", "src", "action", "formaction") else ""
            if name.startswith("on") or leads.startswith(("javascript:", "data:", "vbscript:", "//")):
                self.active.append(f"{tag} {name}={value}")


def _texts() -> list[str]:
    bodies = (
        "<script>XSS()</script>",
        "<img src=x onerror=XSS()>",
        "<svg/onload=XSS()>",
        "<iframe srcdoc=XSS>",
        "<a href=javascript:XSS()>a</a>",
        "<base href=//evil.example>",
        "<object data=//evil.example>",
    )
    fronts = (
        "",
        '"',
        "'",
        "'>",
        '">',
        "-->",
        "]]>",
        "</title>",
        "</textarea>",
        "</script>",
        "{{7*7}}",
        "${7}",
        "\u2028",
        "&lt;",
        "\\",
    )
    return [front + body for front, body in itertools.product(fronts, bodies)]


async def test_no_text_of_a_server_is_markup_in_the_console(tmp_path: Path) -> None:
    texts = _texts()
    assert len(texts) >= TRIES
    definitions = [
        tool(f"t{number}", title=text, description=text, annotations={"title": text})
        for number, text in enumerate(texts)
    ]
    shop = catalog("shop", "http://127.0.0.1:9/mcp", definitions, instructions=texts[3])
    async with running(tmp_path, shop) as gateway:
        pages = [f"/console/tools/shop__t{number}" for number in range(len(texts))]
        pages += ["/console/", "/console/servers", "/console/servers/default/shop", "/console/tools"]
        pages += [f"/console/tools?{urlencode({'q': text})}" for text in texts]
        active: dict[str, list[str]] = {}
        shown = 0
        for target in pages:
            answer = await visit(gateway, target)
            shown += "XSS" in answer.body.decode()
            parser = _Markup()
            parser.feed(answer.body.decode())
            if parser.active:
                active[target] = parser.active
    assert active == {}
    assert shown >= TRIES


def test_a_folder_that_is_swapped_for_a_link_meanwhile_leads_nowhere(tmp_path: Path) -> None:
    jail = Jail(tmp_path / "files", FolderQuota(file_bytes=1000, total_bytes=1_000_000, files=1000))
    root = tmp_path / "files"
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "name").write_text("secret")
    over = threading.Event()
    swapped = 0

    def swap() -> None:
        nonlocal swapped
        while not over.is_set():
            with suppress(OSError):
                (root / "place").symlink_to(outside)
                swapped += 1
                (root / "place").unlink()
            with suppress(OSError):
                (root / "place").mkdir()
                (root / "place" / "name").write_text("mine")
                (root / "place" / "link").symlink_to(outside / "name")
                (root / "place" / "link").unlink()
            shutil.rmtree(root / "place", ignore_errors=True)  # also files that are written meanwhile

    swapping = threading.Thread(target=swap)
    swapping.start()
    read: list[bytes] = []
    try:
        for number in itertools.count():
            if number >= 600 and swapped >= TRIES:
                break
            with suppress(FileRefused):
                read.append(jail.read(("place/name", "place/link")[number % 2]))
            with suppress(FileRefused):
                jail.write(("place/name", "place/link", "place/new")[number % 3], b"mine")
    finally:
        over.set()
        swapping.join()
    assert set(read) <= {b"mine", b""}
    assert ([each.name for each in outside.iterdir()], (outside / "name").read_text()) == (["name"], "secret")


_INWARDS: Final = (
    "127.0.0.1",
    "127.8.9.1",
    "0.0.0.0",
    "::1",
    "::",
    "169.254.169.254",
    "169.254.0.1",
    "fd00:ec2::254",
    "fe80::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
    "::127.0.0.1",
    "10.0.0.1",
    "224.0.0.1",
    "ff02::1",
)


async def test_a_name_that_is_another_address_each_time_is_connected_to_where_it_was_looked_at() -> None:
    egress = Egress.of([], [], confined=True, environ={"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    connected: list[str] = []
    tried = 0
    for inwards, turn, both in itertools.product(_INWARDS, range(4), (False, True)):
        tried += 1
        times = itertools.count()

        async def rebind(
            host: str,
            port: int,
            inwards: str = inwards,
            turn: int = turn,
            both: bool = both,
            times: Iterator[int] = times,
        ) -> list[Address]:
            if host.startswith("kubernetes"):
                return [("10.0.0.1", port)]
            away = next(times) >= turn
            return [*([("192.0.2.1", port)] if both or not away else []), *([(inwards, port)] if away else [])]

        look = egress.guard(rebind, "team", _nameless)
        for _ in range(5):
            with suppress(ConnectFailed):
                connected += [address for address, _ in await look("rebind.example.com", 80)]
    assert tried >= TRIES
    assert set(connected) == {"192.0.2.1"}


async def _nameless(address: str) -> str:
    return ""


def _respell(value: Any, respell: Callable[[str], str]) -> Any:
    """A document with differently spelled members."""
    if isinstance(value, dict):
        return {respell(name): _respell(item, respell) for name, item in value.items()}
    return [_respell(item, respell) for item in value] if isinstance(value, list) else value


_SPELLINGS: Final[tuple[Callable[[str], str], ...]] = (
    lambda name: name,
    lambda name: name[:1].upper() + name[1:],
    str.upper,
    lambda name: f"{name}\0",
    lambda name: name.replace("s", "\u017f"),
)


def test_no_template_of_pods_gives_them_more_in_any_spelling_or_beside_what_is_allowed() -> None:
    taken = []
    tried = 0
    for (path, template), respell in itertools.product(TEMPLATES, _SPELLINGS):
        tried += 1
        spelt = _respell(template, respell)
        head = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "McpServer", "metadata": {"name": "demo"}}
        text = json.dumps({**head, "spec": {"image": {"name": "demo:1"}, "podTemplate": spelt}})
        if not load_text(text).problems:
            taken.append((path, spelt))
    assert tried >= TRIES
    assert taken == []


_PAGES: Final = ("ui://a/shared/app.html", "ui://a/shared/hidden.html")
"""URIs of app pages of the server `a` at the merged endpoint."""
_OWN_PAGES: Final = tuple(uri.replace("ui://a/", "ui://") for uri in _PAGES)
_ENDS: Final = ("?", "#", "?x", "#x", "/", "/.", " ", "\t", "\n", "\0", "%00", "%20", ";a", "\\")
_PARTS: Final = (
    "a%2f",
    "%61/",
    "a/../a/",
    "b/../a/",
    "./a/",
    "/a/",
    "@a/",
    "b@a/",
    "a:80/",
    "a.b/",
    "a/./",
    "a//",
    "a/a/",
)


_CONTROLS: Final = "".join(map(chr, range(33))) + "\u00a0\ufeff"


def _pages() -> Iterator[str]:
    """Notations of a page of the server `a`, by its own URI and by its URI at the merged endpoint."""
    for uri in (*_PAGES, *_OWN_PAGES):
        scheme, rest = uri.split("://")
        yield from (uri, uri.upper(), uri.replace("//a/", "//A/"), uri.replace("//a/", "//b/"), f"skill://{rest}")
        yield from (f"{before}{uri}" for before in (" ", "\t", "\n", "\r\n", "\0", "\x1f", "\ufeff", "\u00a0", "url:"))
        yield from (uri.replace(scheme, spelt, 1) for spelt in ("UI", "Ui", "u\ti", "u\ni", "u\r\ni", "%75i", "ui "))
        yield from (f"{scheme}:{slashes}{rest}" for slashes in ("/", "", "///", "\\\\", "/\t/", "/\\"))
        yield from (uri.replace("//", f"//{part}", 1) for part in _PARTS)
        yield from (f"{uri}{end}" for end in _ENDS)
        yield from _altered_texts(uri)


def _as_a_server(uri: str) -> str:
    """A URI as the most lenient server reads it: without control characters at its ends, tabs and line breaks (URL
    Standard)."""
    text = "".join(char for char in uri.strip(_CONTROLS) if char not in "\t\r\n").replace("\\", "/")
    scheme, _, rest = text.partition(":")
    return f"{scheme.lower()}://{rest.lstrip('/').partition('?')[0].partition('#')[0].lower()}"


async def test_no_id_of_an_apps_page_leads_to_it_whom_its_tools_are_denied(tmp_path: Path) -> None:
    a, b = AppServer("a"), AppServer("b")
    denied, rest = Rule(action="Deny", tools=("show", "refresh")), Rule(action="Allow", tools=("*",))

    def policy(whose: str, *rules: Rule) -> Policy:
        subjects = (Subject(kind="Agent", name=whose),)
        return Policy(namespace="default", name=whose, servers=("a",), subjects=subjects, rules=rules)

    mallorys = policy("mallory", denied, rest)
    before = Rules(policies=(policy("alice", rest), mallorys))
    tried = [*_pages()]
    async with (
        raw_server(a.handle) as server_a,
        raw_server(b.handle) as server_b,
        running(tmp_path, a.catalog(server_a.url), b.catalog(server_b.url), before, trust=KEYS) as gateway,
    ):

        async def read(uri: str, whose: str, target: str = "/mcp") -> Answer:
            request = legacy("resources/read", {"uri": uri}).to(target)
            return await ask(gateway, request.with_headers(authorization=f"Bearer {whose}"))

        assert [(await read(uri, "alice")).status for uri in _PAGES] == [200, 200]
        hers, a.read = a.read, []
        for uri in tried:
            for target in ("/mcp", "/servers/default/a/mcp", "/servers/default/b/mcp"):
                await read(uri, "mallory", target)
        reached, a.read = [uri for uri in a.read if _as_a_server(uri) in _OWN_PAGES], []
        swaps = gateway.snapshots.swaps
        publish(tmp_path / "documents", Rules(policies=(policy("alice", denied, rest), mallorys)))
        await wait_for_snapshots(gateway, swaps + 1)
        for uri in _PAGES:
            await read(uri, "alice")
    assert 3 * len(tried) >= TRIES
    assert hers == [*_OWN_PAGES]
    assert reached == []
    assert a.read == [], "what was allowed before is not any more"
