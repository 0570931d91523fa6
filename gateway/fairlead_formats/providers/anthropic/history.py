"""Rewrites the messages that a client of Anthropic Messages sends into those that the provider expects. Pure module.

A client received the blocks of several rounds (requests to the model) as one message. Three changes restore the rounds:
a turn that the gateway stored replaces the part of it that the client received, each thinking block moves into the
message of its own round, and the `mcp_tool_use` blocks with which the gateway showed its calls become `tool_use` again.

The API requires the results of a message's calls at the beginning of the next user message, and accepts in one message
only the unmodified thinking of one answer. Thinking of finished turns may be left out. Source: Anthropic's guides to
tool use and extended thinking.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_formats.providers.anthropic.blocks import MARK, SIGNED, TOOL_USE, Block, as_message, blocks_of
from fairlead_formats.providers.anthropic.shown_calls import is_gateway_block, key, restore_calls
from fairlead_formats.wire.protocol import StoredTurn

_RESULT: Final = "tool_result"
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_DECODE_ERRORS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_HINT: Final = MARK.rstrip(".").encode()
"""Occurs in each message with a prefix or block of the gateway, so that other messages need not be decoded."""


class _Role(msgspec.Struct):
    role: str = ""


def restore_turns(messages: Sequence[bytes | Raw], turns: Mapping[int, StoredTurn]) -> list[bytes | Raw]:
    """The messages with stored turns in place of the parts that the client received. `turns`: by index of the message.

    The results of a stored turn are put in front of the client's results, in the message after the turn.
    """
    provider_messages: list[bytes | Raw] = []
    pending_results: list[Block] = []
    for index, raw in enumerate(messages):
        turn = turns.get(index)
        if turn is not None:
            provider_messages += _results_message(pending_results)
            provider_messages += turn.messages
            pending_results = [block for result in turn.results for block in _content(result) or ()]
            continue
        provider_messages += _prepend_results(raw, pending_results)
        pending_results = []
    return provider_messages + _results_message(pending_results)


def split_rounds(messages: Sequence[bytes | Raw], *, calls: bool) -> list[bytes | Raw]:
    """The messages with each round as messages of its own, without the gateway's prefixes on signatures.

    The gateway's `mcp_tool_use` blocks become calls again if `calls` is true. It is false for a request without tools,
    in which the API refuses messages with calls.
    """
    split_messages: list[bytes | Raw] = []
    pending_results: list[Block] = []
    for raw in messages:
        blocks = _content(raw) if _HINT in bytes(raw) and _role(raw) == "assistant" else None
        if blocks is not None:
            split_messages += _results_message(pending_results)
            rounds, pending_results = _rounds(blocks, calls=calls)
            split_messages += rounds
            continue
        split_messages += _prepend_results(raw, pending_results)
        pending_results = []
    return split_messages + _results_message(pending_results)


def _rounds(blocks: Sequence[Block], *, calls: bool) -> tuple[list[bytes], list[Block]]:
    """Split a model's message into the messages of its rounds; also returns the results for the message after it.

    The calls of a round precede their results, so the first block after results that is not a result itself begins the
    next round.
    """
    restored_blocks = restore_calls(blocks) if calls else {}
    parts: list[tuple[list[Block], list[Block]]] = [([], [])]
    for block in blocks:
        if block.is_foreign_reasoning or (is_gateway_block(block) and key(block) not in restored_blocks):
            continue
        restored_block = restored_blocks[key(block)] if is_gateway_block(block) else block
        if restored_block.kind == _RESULT:
            parts[-1][1].append(restored_block)
            continue
        if parts[-1][1]:
            parts.append(([], []))
        parts[-1][0].append(restored_block)
    is_split = len(parts) > 1 or bool(parts[0][1])
    messages: list[bytes] = []
    for blocks_of_round, results in parts:
        messages += as_message("assistant", _keep_one_rounds_thinking(blocks_of_round, one_round=is_split))
        messages += as_message("user", results)
    if not parts[-1][1]:
        return messages, []
    return messages[:-1], parts[-1][1]


def _keep_one_rounds_thinking(blocks: Sequence[Block], *, one_round: bool) -> list[Block]:
    """The blocks with the thinking of one round only, because the API accepts no more in one message.

    `one_round`: whether the message was split, so that these blocks should be of one round; the thinking of one round
    then stays. Otherwise the blocks have thinking of rounds whose calls the client did not receive. If there are calls,
    the thinking of the last round moves to the front, where the API requires it; all other thinking is left out.
    """
    thoughts = [block for block in blocks if block.kind in SIGNED]
    rounds = {block.round for block in thoughts}
    if rounds <= {1} or (one_round and len(rounds) == 1):
        return [block.unmark() for block in blocks]
    others = [block for block in blocks if block.kind not in SIGNED]
    if not any(block.kind == TOOL_USE for block in others):
        return others
    last_round = max(rounds)
    return [*(block.unmark() for block in thoughts if block.round == last_round), *others]


def _prepend_results(raw: bytes | Raw, results: Sequence[Block]) -> list[bytes | Raw]:
    """A user message with `results` in front of its content. In front of a message of another role, `results` become a
    message.
    """
    blocks = _content(raw) if results and _role(raw) == "user" else None
    if blocks is None:
        return [*_results_message(results), raw]
    client_results = [block for block in blocks if block.kind == _RESULT]
    others = [block for block in blocks if block.kind != _RESULT]
    return [*as_message("user", [*results, *client_results, *others])]


def _results_message(results: Sequence[Block]) -> list[bytes | Raw]:
    return [*as_message("user", results)]


def _role(raw: bytes | Raw) -> str:
    try:
        return str(msgspec.json.decode(raw, type=_Role).role)
    except _DECODE_ERRORS:
        return ""


def _content(raw: bytes | Raw) -> list[Block] | None:
    """Blocks of a message; None for an unreadable message, which is sent on so that the API reports it."""
    try:
        return blocks_of(bytes(_members(raw)["content"]))
    except (*_DECODE_ERRORS, KeyError):
        return None
