"""Whatever a client sends: no crash, no hang, no leftovers, and only answers to its requests."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from hypothesis import given

import fuzzcalls
from fuzzed_gateway import FuzzWorld, fuzz_world, profile, read, regressions
from fuzzinbound import Conversation, conversations, converse
from gatewayworld import MODERN, catalog
from toolservers import modern_server, tool


def world_of(folder: Path) -> AbstractContextManager[FuzzWorld]:
    return fuzz_world(
        folder,
        serve=lambda: modern_server([tool("echo")]),
        call_timeout=10.0,
        document_of=lambda server: catalog("demo", server.url, ["echo"], version=MODERN),
    )


@pytest.mark.timeout(3600)
def test_no_bytes_of_a_client_do_harm(tmp_path: Path) -> None:
    with world_of(tmp_path) as world:

        @profile(150)
        @given(conversations)
        def example(conversation: Conversation) -> None:
            world.run(
                converse(world, conversation),
                "inbound",
                conversation.requests,
                kept=conversation.permille,
                cuts=conversation.cuts,
            )

        example()


@pytest.mark.timeout(3600)
def test_no_bytes_of_a_client_that_calls_over_rest_do_harm(tmp_path: Path) -> None:
    with world_of(tmp_path) as world:

        @profile(100)
        @given(fuzzcalls.conversations)
        def example(conversation: Conversation) -> None:
            world.run(
                converse(world, conversation),
                "inbound",
                conversation.requests,
                kept=conversation.permille,
                cuts=conversation.cuts,
                ends=conversation.ends,
            )

        example()


@pytest.mark.parametrize("file", regressions("inbound"), ids=lambda file: file.stem)
def test_bytes_of_a_client_that_did_harm_once_do_none(tmp_path: Path, file: Path) -> None:
    with world_of(tmp_path) as world:
        regression = read(file)
        permille, cuts = regression.more["kept"], regression.more["cuts"]
        conversation = Conversation(regression.parts, permille, cuts, ends=regression.more.get("ends", False))
        world.replay(converse(world, conversation))
