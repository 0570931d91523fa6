"""Calls and results in every format against golden files: `FORMAT.in.json` has models' messages by case,
`FORMAT.calls.json` the calls in each message, and `FORMAT.results.json` the messages that answer one call with each
result of `results.json`. `FAIRLEAD_GOLDEN=write` renews the expected files; read the difference before committing it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairlead_formats import registry
from fairlead_formats.messages.call import Carry, ModelCall
from fairlead_formats.names import Names
from fairlead_formats.registry import message_format

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "messages"
FORMATS = sorted(registry.FORMATS)
ORIGINALS = ("weather__get_forecast", "files/read file")
RESULTS: list[dict[str, Any]] = json.loads((GOLDEN / "results.json").read_text())


class Renamed(Names):
    """The tool names in the golden messages."""

    def original_name(self, safe: str) -> str | None:
        return {"files_read_file_1a2b3c4d": "files/read file", ORIGINALS[0]: ORIGINALS[0]}.get(safe)


def agree(path: Path, actual: object) -> None:
    """Compare a value with a golden file. `FAIRLEAD_GOLDEN=write`: write the file first."""
    document = json.loads(json.dumps(msgspec.to_builtins(actual)))
    if os.environ.get("FAIRLEAD_GOLDEN") == "write":
        path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    assert document == json.loads(path.read_text())


@pytest.mark.parametrize("name", FORMATS)
def test_the_calls_of_models_messages_are_those_of_the_golden_file(name: str) -> None:
    messages = json.loads((GOLDEN / f"{name}.in.json").read_text())
    parse = message_format(name).parse_calls
    calls = {what: parse(message, Renamed(ORIGINALS)) for what, message in messages.items()}
    agree(GOLDEN / f"{name}.calls.json", calls)


@pytest.mark.parametrize("name", FORMATS)
def test_the_messages_that_answer_are_those_of_the_golden_file(name: str) -> None:
    write = message_format(name).write_results
    call = ModelCall("call_1", "files/read file", {}, sent_as="files_read_file_1a2b3c4d")
    agree(GOLDEN / f"{name}.results.json", {case["what"]: write([call], [case["result"]]) for case in RESULTS})


def test_media_that_a_model_can_take_change_what_is_written() -> None:
    call = ModelCall("call_1", "t", {})
    by_what = {case["what"]: case["result"] for case in RESULTS}
    image = by_what["an image with text"]
    audio = by_what["audio"]
    error = by_what["an error"]
    cases = {
        "openai-chat with audio": message_format("openai-chat").write_results([call], [audio], Carry(audio=True)),
        "openai-chat without images": message_format("openai-chat").write_results([call], [image], Carry(images=False)),
        "gemini 3, media inside": message_format("gemini").write_results([call], [image], Carry(nested_media=True)),
        "bedrock without status": message_format("bedrock").write_results([call], [error], Carry(status=False)),
    }
    agree(GOLDEN / "carry.json", cases)
