"""Keys of `fairlead up` for signing in at servers."""

from __future__ import annotations

from fairlead_api.meta import ServerKey
from fairlead_cli.up.sign_in_keys import SignInKeys
from fairlead_mcp.oauth.errors import SIGN_IN_REQUIRED, GrantFailed

LINEAR, NOTION = ServerKey("default", "linear"), ServerKey("team", "notion")


class Terminal:
    """Servers, and a browser that records the opened URLs."""

    def __init__(self, *wanting: ServerKey, browser: bool = True) -> None:
        self.wanting = [*wanting]
        self.browser = browser
        self.failure = ""
        self.opened: list[str] = []
        self.changes = 0
        self.keys = SignInKeys(lambda: self.wanting, self.link, self.open, self.change)

    async def link(self, server: ServerKey) -> str:
        if self.failure:
            raise GrantFailed(self.failure, cause=SIGN_IN_REQUIRED)
        return f"http://127.0.0.1/sign-in/{server}"

    async def open(self, url: str) -> bool:
        self.opened.append(url)
        return self.browser

    def change(self) -> None:
        self.changes += 1


async def test_key_opens_the_page_of_one_server() -> None:
    terminal = Terminal(LINEAR)
    assert terminal.keys.hint == "linear wants you to sign in: press l"
    assert await terminal.keys.press("l")
    assert terminal.opened == ["http://127.0.0.1/sign-in/default/linear"]
    assert terminal.keys.hint == "linear: sign in at the page in the browser; l opens it again"
    terminal.wanting.clear()
    assert terminal.keys.hint == ""
    assert not await terminal.keys.press("l")


async def test_each_press_opens_the_page_of_the_next_of_several_servers() -> None:
    terminal = Terminal(LINEAR, NOTION)
    assert terminal.keys.hint == "linear, team/notion want you to sign in: press l"
    await terminal.keys.press("l")
    page = "linear: sign in at the page in the browser"
    assert terminal.keys.hint == f"{page}; team/notion wants you to sign in: press l"
    await terminal.keys.press("l")
    assert [url.rpartition("/")[2] for url in terminal.opened] == ["linear", "notion"]
    assert terminal.keys.hint.endswith("; linear wants you to sign in: press l")
    await terminal.keys.press("l")
    assert terminal.opened[2] == terminal.opened[0], "again from the first, when all had theirs"
    assert not await terminal.keys.press("x")


async def test_without_a_browser_the_page_is_shown() -> None:
    terminal = Terminal(LINEAR, browser=False)
    await terminal.keys.press("l")
    assert terminal.keys.hint == "linear: sign in at http://127.0.0.1/sign-in/default/linear"


async def test_a_failure_is_shown_as_its_sentence() -> None:
    terminal = Terminal(LINEAR)
    terminal.failure = "port 8765 is taken"
    await terminal.keys.press("l")
    assert terminal.keys.hint == "linear: port 8765 is taken"
    assert terminal.changes == 1


async def test_page_of_a_sign_in_that_was_made_is_not_offered_again_after_a_logout() -> None:
    terminal = Terminal(LINEAR)
    await terminal.keys.press("l")
    terminal.wanting.clear()
    assert terminal.keys.hint == ""
    terminal.wanting += [LINEAR, NOTION]
    assert terminal.keys.hint == "linear, team/notion want you to sign in: press l"


async def test_page_of_one_is_opened_again_when_the_others_have_ended() -> None:
    terminal = Terminal(LINEAR, NOTION)
    await terminal.keys.press("l")
    terminal.wanting.remove(NOTION)
    assert terminal.keys.hint == "linear: sign in at the page in the browser; l opens it again"
    await terminal.keys.press("l")
    assert len(terminal.opened) == 2


async def test_server_that_has_ended_leaves_the_key_to_the_others() -> None:
    terminal = Terminal(LINEAR, NOTION)
    await terminal.keys.press("l")
    terminal.wanting.remove(LINEAR)
    assert terminal.keys.hint == "team/notion wants you to sign in: press l"
    await terminal.keys.press("l")
    assert terminal.opened[-1].endswith("notion")
