"""Programs on pages, run unchanged with a real `fairlead up`, print what their page promises."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from controlplane import REPOSITORY
from page_reader import blocks
from upprocess import DEMO, fairlead_up, manifest, until_listed

pytestmark = pytest.mark.timeout(240)

CONNECT = REPOSITORY / "docs" / "connect"
PACKAGES = ("openai", "anthropic", "google.genai", "agents", "pydantic_ai", "langgraph")
PAGES = (
    "docs/connect/chat-completions.md",
    "docs/connect/frameworks.md",
    "docs/connect/gemini.md",
    "docs/connect/messages.md",
    "docs/connect/responses.md",
    "docs/connect/search.md",
)
FRAMEWORKS = 3
WHOLE = {"frameworks.md"}
"""Pages whose programs all print what the page promises. On other pages, only the first program does."""


def promised_output(page: str) -> tuple[list[str], str]:
    """Programs of a page with their promised output."""
    text = (REPOSITORY / page).read_text()
    programs = blocks(text, "python")
    (answer, *_) = blocks(text, "text")
    return programs if Path(page).name in WHOLE else programs[:1], answer


async def run_program(program: str, url: str, folder: Path) -> str:
    file = folder / "program.py"
    file.write_text(program.replace("http://127.0.0.1:8080", url.removesuffix("/mcp")))
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(file), cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)
    return out.decode() if process.returncode == 0 else err.decode()


@pytest.mark.heavy
async def test_programs_of_pages_print_what_the_pages_promise(tmp_path: Path) -> None:
    for package in PACKAGES:
        pytest.importorskip(package, reason="a client of the pages is not installed (fairlead[dev])")
    (tmp_path / "demo.yaml").write_text(manifest("demo", *DEMO))
    pages = {page: promised_output(page) for page in PAGES}
    assert len(pages["docs/connect/frameworks.md"][0]) == FRAMEWORKS
    async with fairlead_up("demo.yaml", "--llm", "scripted", cwd=tmp_path) as up:
        await up.ready("default/demo")
        await until_listed(up.url, "demo")
        wrong = [
            (page, got)
            for page, (programs, answer) in pages.items()
            for program in programs
            if (got := await run_program(program, up.url, tmp_path)) != answer
        ]

    assert wrong == []
