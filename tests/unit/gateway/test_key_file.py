"""A file of API keys that appears and disappears while a gateway runs."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from fairlead_gateway.identity.key_format import KeyDocument
from fairlead_gateway.identity.keys_in_file import KeyFile


async def test_a_file_of_keys_is_said_to_be_gone_only_after_it_was_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, documents = tmp_path / "keys.json", asyncio.Queue[KeyDocument]()
    with caplog.at_level(logging.WARNING):
        reading = asyncio.create_task(KeyFile(file).run(documents.put_nowait))
        async with asyncio.timeout(20):
            assert (await documents.get()).keys == ()
            assert caplog.messages == []
            file.write_text('{"keys": []}')
            await documents.get()
            file.unlink()
            await documents.get()
        reading.cancel()
    assert caplog.messages == [f"File {file} was deleted: its API keys are revoked"]
