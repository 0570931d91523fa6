"""`fairlead login`: opens the page at which a person signs in at a server and waits for that, or enters a key."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote, urlsplit

from fairlead_cli.access.entering_keys import FROM_TERMINAL, EnteredKeySource, enter_key
from fairlead_cli.browsing import open_in_browser
from fairlead_cli.connecting import Destination
from fairlead_cli.failure import Failure
from fairlead_cli.output import Output, print_json, printable, remark
from fairlead_cli.proxies import is_this_machine
from fairlead_cli.rest import ManagementClient
from fairlead_cli.waiting import attempts, spinner
from fairlead_cli.wording import ready_to_paste

SIGN_IN_SECONDS: Final = 600.0
"""Lifetime of the gateway's link, in seconds."""


def run_login(
    destination: Destination,
    server: str,
    output: Output,
    *,
    browser: bool,
    key: EnteredKeySource = FROM_TERMINAL,
    open_page: Callable[[str], bool] = open_in_browser,
) -> None:
    """Sign in at a server, or enter a key. With `browser`, the page is opened by `open_page`. Raises Failure if the
    person does not sign in.
    """
    client = ManagementClient.of(destination)
    path = f"/v1/servers/{quote(server, safe='/')}/sign-in"
    state = enter_key(client, path, key.read()) if key.is_given else client.post(path, {})
    if key.is_given:
        text = f"Your key for {state['server']} is stored."
    elif not state["signedIn"] and state.get("key") and key.asks:
        state = enter_key(client, path, key.read(state))
        text = f"Your key for {state['server']} is stored."
    elif not state["signedIn"]:
        _show_link(state, output, is_opened=browser and sys.stdout.isatty() and open_page(state["signInUrl"]))
        state = _wait_for_person(client, path, state)
        text = f"You are signed in at {state['server']}."
    elif state.get("key"):
        text = f"You have entered a key for {state['server']}; `fairlead logout {state['server']}` deletes it."
    else:
        text = f"You are signed in at {state['server']} already; `fairlead logout {state['server']}` ends that."
    if output is Output.json:
        print_json(state)
    else:
        print(ready_to_paste(text))


def _show_link(state: dict[str, Any], output: Output, *, is_opened: bool) -> None:
    url = printable(state["signInUrl"])
    text = f"Sign in at {state['server']} in the browser; if none has opened, open {url}"
    if not is_opened:
        location = " on the gateway's machine" if is_this_machine(urlsplit(url).hostname or "") else ""
        text = f"Open this page in a browser{location} to sign in at {state['server']}: {url}"
    if output is Output.json:
        remark("login", text)
    else:
        print(text, flush=True)


def _wait_for_person(client: ManagementClient, path: str, initial_state: dict[str, Any]) -> dict[str, Any]:
    """Wait until the person has signed in, and return the state. A replica that has not created the link may return it.
    Raises Failure."""
    with spinner(f"waiting for the sign-in at {initial_state['server']}"):
        for _ in attempts(SIGN_IN_SECONDS):
            state: dict[str, Any] = client.get(path)
            if state["signedIn"]:
                return state
            if state["failure"] is not None:
                raise Failure(f"not signed in at {state['server']}: {printable(state['failure'])}")
    raise Failure(
        f"nobody signed in at {initial_state['server']} within ten minutes: run the command again for a new link"
    )
