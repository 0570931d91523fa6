"""Entries of clients' files are shown without their secrets, however a file spells these."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from typing import Any, Final

import pytest
import yaml

from fairlead_api.client_files.edits import UnreadableFile, entry_of
from fairlead_cli.clients.entry_mask import EntryMask, hide_secret

SECRETS: Final = (
    "hush-42-Zq9x",
    'hush "a" \\ b',
    "hush/é/ü",
    "hush it's",
    "hush: #1, {x}",
    "hush😀key",
    "hush\nthen hush",
)


def escaped(secret: str) -> str:
    """A string of JSON whose characters are all escapes, in UTF-16."""
    units = secret.encode("utf-16-be").hex()
    return '"' + "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4)) + '"'


def basic(secret: str) -> str:
    """A basic string of TOML with escapes."""
    return '"' + "".join(f"\\U{ord(each):08X}" for each in secret) + '"'


def block(secret: str, style: str) -> str:
    return (
        yaml.safe_dump(secret, default_style=style, width=12, allow_unicode=True).rstrip().replace("\n", "\n        ")
    )


SPELLINGS: Final[dict[str, tuple[Callable[[str], Any], list[Callable[[str], str]]]]] = {
    "json": (
        json.loads,
        [
            json.dumps,
            lambda secret: json.dumps(secret, ensure_ascii=False),
            escaped,
            lambda s: escaped(s).upper().replace("U", "u"),
        ],
    ),
    "toml": (tomllib.loads, [json.dumps, basic]),
    "yaml": (
        yaml.safe_load,
        [
            json.dumps,
            lambda s: block(s, "'"),
            lambda s: block(s, '"'),
            lambda s: block(s, "|"),
            lambda s: block(s, ">"),
        ],
    ),
}
ENTRIES: Final = {
    "json": (
        '{"command": "x", "env": {"TEAM": SECRET}}',
        '{"url": "http://x/mcp", "headers": {"X-Team": SECRET}}',
        '{"transport": {"Headers": [SECRET]}}',
        '{"options": {"requestInit": {"headers": {"X": SECRET}}}}',
        '{"apiKey":\n  SECRET}',
    ),
    "toml": ("command = 'x'\n[env]\nTEAM = SECRET\n", "[http_headers]\nX-Team = SECRET\n", "env = {TEAM = SECRET}\n"),
    "yaml": (
        "command: x\nenv:\n    TEAM: SECRET\n",
        "transport:\n    headers:\n      - SECRET\n",
        "api_key:\n    SECRET\n",
    ),
}
CASES: Final = [
    (form, entry.replace("SECRET", spell(secret)), secret)
    for form, (_, spellings) in SPELLINGS.items()
    for entry in ENTRIES[form]
    for spell in spellings
    for secret in SECRETS
    if not (form == "toml" and spell is json.dumps and not secret.isascii() and "😀" in secret)  # no surrogates in TOML
]


def shown(raw: str, entry: object) -> str:
    """Lines that `fairlead client setup` shows of an entry that it replaces."""
    return "\n".join(map(hide_secret, EntryMask([entry]).text(raw).splitlines()))


@pytest.mark.parametrize(("form", "raw", "secret"), CASES)
def test_no_spelling_of_a_secret_is_shown(form: str, raw: str, secret: str) -> None:
    entry = SPELLINGS[form][0](raw)
    printed = shown(raw, entry)
    assert "hush" not in printed
    assert json.dumps(entry).count("hush") == json.dumps(secret).count("hush"), "the case has its secret"
    decoded = [json.loads(part) for part in _strings(printed)]
    assert not any("hush" in text for text in decoded)


def _strings(text: str) -> list[str]:
    parts = text.split('"')[1::2]
    return [f'"{part}"' for part in parts if part.count("\\") == part.count("\\u")]


@pytest.mark.parametrize(
    ("entry", "secret"),
    [
        ({"url": "https://me:hush-pw@example.com/mcp"}, "hush-pw"),
        ({"url": "https://hush-me@example.com/mcp"}, "hush-me"),
        ({"url": "https://example.com/mcp?sig=hush-sig&team=a"}, "hush-sig"),
        ({"url": "https://example.com/mcp?hush-bare"}, "hush-bare"),
        ({"serverUrl": "https://example.com/s/hushA9b8C7d6E5f4G3/mcp"}, "hushA9b8C7d6E5f4G3"),
        ({"url": "https://example.com/mcp#hush-part"}, "hush-part"),
        ({"command": ["docker", "run", "-e", "API_KEY=hush-arg", "x"]}, "hush-arg"),
        ({"args": ["mcp-remote", "https://x/mcp?k=hush-k"]}, "hush-k"),
        ({"env": {"PIN": 1234567}}, "1234567"),
        ({"env": {"PIN": "123"}}, "123"),
        ({"env": {"A": {"B": ["hush-deep"]}}}, "hush-deep"),
        ({"oauth": {"clientSecret": "hush-secret", "n": None, "on": True}}, "hush-secret"),
    ],
)
def test_secrets_of_urls_arguments_and_numbers_are_not_shown(entry: dict[str, Any], secret: str) -> None:
    assert secret not in shown(json.dumps(entry, indent=2), entry)


@pytest.mark.parametrize("number", ["1_234_567", "0x12D687"])
def test_a_number_is_not_shown_in_another_spelling(number: str) -> None:
    raw = f"command = 'x'\n[env]\nPIN = {number}\n"
    assert number not in shown(raw, tomllib.loads(raw))


def test_a_string_over_lines_that_backslashes_join_is_not_shown() -> None:
    for raw, read in (
        ('env: {A: "hush-\\\n  more"}', yaml.safe_load),
        ('env.A = """hush-\\\n  more"""', tomllib.loads),
    ):
        entry: Any = read(raw)
        assert entry["env"]["A"] == "hush-more"
        assert "hush" not in shown(raw, entry)


def test_an_entry_without_secrets_is_shown_as_it_is_written() -> None:
    raw = json.dumps(
        {"command": "npx", "args": ["-y", "@scope/server", "--verbose"], "url": "http://127.0.0.1:8080/mcp"}
    )
    assert shown(raw, json.loads(raw)) == raw


def test_a_file_that_is_not_yaml_is_refused_without_a_line_of_it() -> None:
    with pytest.raises(UnreadableFile, match=r"it is not valid YAML: .*, line 2, column 6\Z") as refused:
        entry_of("env: {TOKEN: hush\nother: [", "env", "TOKEN", "yaml")
    assert "hush" not in str(refused.value)
