"""Keys of `fairlead up` for signing in at servers."""

from __future__ import annotations

from fairlead_api.meta import ServerKey
from fairlead_cli.up.sign_in_keys import SignInKeys
from fairlead_mcp.oauth.errors import SIGN_IN_REQUIRED, GrantFailed

LINEAR, NOTION = ServerKey("default", "linear"), ServerKey("team", "notion")


class Terminal:
    """Servers, and a browser that keeps what was opened."""

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


async def test_digit_chooses_one_of_several_servers() -> None:
    terminal = Terminal(LINEAR, NOTION)
    assert terminal.keys.hint == "linear, team/notion want you to sign in: press l"
    await terminal.keys.press("l")
    assert terminal.opened == []
    assert terminal.keys.hint == "sign in at: 1 linear, 2 team/notion"
    assert await terminal.keys.press("2")
    assert terminal.opened == ["http://127.0.0.1/sign-in/team/notion"]


async def test_any_other_key_ends_the_choice() -> None:
    terminal = Terminal(LINEAR, NOTION)
    for key in ("3", "0", "x"):
        await terminal.keys.press("l")
        assert not await terminal.keys.press(key)
        assert "press l" in terminal.keys.hint
    assert terminal.opened == []


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


async def test_other_servers_are_named_beside_the_page_of_one() -> None:
    terminal = Terminal(LINEAR, NOTION)
    await terminal.keys.press("l")
    await terminal.keys.press("1")
    page = "linear: sign in at the page in the browser"
    assert terminal.keys.hint == f"{page}; team/notion wants you to sign in: press l"
    terminal.wanting.remove(NOTION)
    assert terminal.keys.hint == f"{page}; l opens it again"


async def test_server_that_wants_no_sign_in_any_more_leaves_the_choice_and_the_others_keep_their_digits() -> None:
    terminal = Terminal(LINEAR, NOTION)
    await terminal.keys.press("l")
    terminal.wanting.remove(LINEAR)
    assert terminal.keys.hint == "sign in at: 2 team/notion"
    assert await terminal.keys.press("1")
    assert terminal.opened == []
    assert terminal.keys.hint == "team/notion wants you to sign in: press l"


async def test_choice_ends_with_the_last_server_of_it() -> None:
    terminal = Terminal(LINEAR, NOTION)
    await terminal.keys.press("l")
    terminal.wanting.clear()
    assert terminal.keys.hint == ""
