"""Commands in sentences, directed at the gateway that a command was told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fairlead_cli.tree import tree
from fairlead_cli.wording import start_advice
from fairlead_tools.commands import DEFAULT_URL, add_url

URL = "http://127.0.0.1:8340/mcp"


def asking_verbs() -> Iterator[str]:
    """Commands of one word with the option `--url`."""
    for words, command in tree().verbs():
        if " " not in words and any("--url" in parameter.opts for parameter in command.params):
            yield words


@pytest.mark.parametrize("verb", sorted(asking_verbs()))
def test_each_command_that_asks_a_gateway_gets_its_url(verb: str) -> None:
    assert add_url(f"run fairlead {verb} tickets", URL) == f"run fairlead {verb} --url {URL} tickets"
    assert add_url(f"run fairlead {verb} tickets", DEFAULT_URL) == f"run fairlead {verb} tickets"
    assert add_url(f"run fairlead {verb} --url x tickets", URL) == f"run fairlead {verb} --url x tickets"


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        (DEFAULT_URL, "Start one with `fairlead up`, or name it with --url."),
        (URL, "Start one with `fairlead up --port 8340`, or name it with --url."),
        ("https://tools.example.com/mcp", "Is a gateway running there? Name another with --url."),
    ],
)
def test_a_gateway_that_is_to_be_started_gets_the_port_of_the_url(url: str, advice: str) -> None:
    assert start_advice(url).endswith(advice)
