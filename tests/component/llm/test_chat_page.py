"""The examples of docs/connect/chat-completions.md do what the page says."""

from __future__ import annotations

import re
from pathlib import Path

from fairlead_app.configuration import load_models

PAGE = Path(__file__).parents[3] / "docs" / "connect" / "chat-completions.md"


def block(kind: str) -> str:
    found = re.search(rf"^```{kind}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert found
    return found[1]


def test_the_file_of_providers_is_read(tmp_path: Path) -> None:
    file = tmp_path / "routes.yaml"
    file.write_text(block("yaml"))
    providers = load_models(file).providers
    assert providers is not None
    assert [target.provider for target in providers.targets("fairlead/default")[1]] == ["vllm", "openai"]
