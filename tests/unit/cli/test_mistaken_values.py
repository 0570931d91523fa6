"""Values on a command line that cannot be meant: empty words, as a shell leaves them, and files in place of tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import fairlead

EMPTY = {
    "--state-dir is empty": ("up", "--state-dir", "", "mcp.json"),
    "--tier is empty": ("tools", "--tier="),
    "--token is empty": ("tools", "--url", "http://127.0.0.1:9/mcp", "--token", ""),
    "--hash is empty": ("approve", "calc", "--yes", "--hash", "", "--url", "http://127.0.0.1:9/mcp"),
    "an argument is empty": ("can", "", "call", "shop__look"),
}


@pytest.mark.parametrize("sentence", EMPTY)
async def test_a_command_refuses_an_empty_word_and_names_its_option(sentence: str) -> None:
    code, out, err = await fairlead(*EMPTY[sentence])
    assert (code, out) == (2, "")
    assert sentence in err


async def test_a_command_refuses_an_empty_argument_after_a_flag() -> None:
    assert "an argument is empty" in (await fairlead("keys", "revoke", "--json", ""))[2]


async def test_a_command_takes_an_empty_value_for_an_argument_of_a_tool() -> None:
    code, _, err = await fairlead("call", "shop__look", "text=", "--url", "http://127.0.0.1:9/mcp")
    assert code == 1
    assert "refused the connection" in err


async def test_a_file_in_place_of_a_token_is_told_from_a_wrong_token(tmp_path: Path) -> None:
    file = tmp_path / "me.key"
    file.write_text("a-key")
    code, _, err = await fairlead("tools", "--url", "http://127.0.0.1:9/mcp", "--token", str(file))
    assert (code, f"{file} is a file: write --token @{file}" in err) == (2, True)
    code, _, err = await fairlead("tools", "--url", "http://127.0.0.1:9/mcp", "--token", "k" * 8000)
    assert (code, "refused the connection" in err) == (1, True)


async def test_a_file_of_a_token_that_cannot_be_read_is_named_with_option_and_variable(tmp_path: Path) -> None:
    file = tmp_path / "no.key"
    code, _, err = await fairlead("tools", "--url", "http://127.0.0.1:9/mcp", "--token", f"@{file}")
    assert (code, err) == (
        2,
        f"fairlead tools: --token or FAIRLEAD_TOKEN: {file} cannot be read: No such file or directory\n",
    )
