"""Configurations of other clients that `fairlead up` without a file names."""

from __future__ import annotations

from pathlib import Path

from fairlead_cli.up.found_configurations import own_files


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_files_that_declare_servers_are_named_those_of_the_project_first(tmp_path: Path) -> None:
    home = tmp_path / "home"
    folder = tmp_path / "home" / "boat"
    write(folder / ".mcp.json", '{"mcpServers": {"a": {"command": "x"}}}')
    write(home / ".cursor/mcp.json", '{"mcpServers": {"a": {"url": "http://x/mcp", "headers": {"A": "${UNSET}"}}}}')
    write(home / ".codex/config.toml", '[mcp_servers.a]\ncommand = "x"\n')
    write(home / ".config/zed/settings.json", '{"theme": "One Dark"}')
    write(home / ".gemini/settings.json", '{"mcpServers": {}}')
    assert own_files(home, folder) == "fairlead up .mcp.json ~/.cursor/mcp.json ~/.codex/config.toml"


def test_own_files_beyond_the_room_of_a_line_are_counted(tmp_path: Path) -> None:
    for name in (".mcp.json", ".cursor/mcp.json", ".copilot/mcp-config.json", ".lmstudio/mcp.json"):
        write(tmp_path / name, '{"mcpServers": {"a": {"command": "x"}}}')
    assert own_files(tmp_path, tmp_path).endswith("(1 more)")


def test_a_machine_without_such_files_is_told_nothing(tmp_path: Path) -> None:
    write(tmp_path / ".cursor/mcp.json", "not json")
    assert own_files(tmp_path, tmp_path) == ""
