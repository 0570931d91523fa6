"""The examples of docs/connect/chat-completions.md do what the page says."""

from __future__ import annotations

from pathlib import Path

from fairlead_app.configuration import load_models
from page_reader import blocks

PAGE = Path(__file__).parents[3] / "docs" / "connect" / "chat-completions.md"


def test_the_file_of_providers_is_read(tmp_path: Path) -> None:
    file = tmp_path / "routes.yaml"
    file.write_text(blocks(PAGE.read_text("utf-8"), "yaml")[0])
    providers = load_models(file).providers
    assert providers is not None
    assert [target.provider for target in providers.targets("fairlead/default")[1]] == ["vllm", "openai"]
