"""Rewrites the messages of a client's request for the API: whole turns in place of the part that the client got,
thinking blocks in the message of their own round, shown `mcp_tool_use` blocks as `tool_use` again. Pure module.

Source: Anthropic's guides to tool use and extended thinking. All results of a message's calls stand first in the one
next message of the user's; a message has thoughts of one answer only, unmodified. Thoughts of turns that are over may
be left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_formats.providers.anthropic.blocks import MARK, SIGNED, TOOL_USE, Block, as_message, blocks_of
from fairlead_formats.providers.anthropic.shown_calls import is_ours, key, restore_calls
from fairlead_formats.wire.protocol import StoredTurn

_RESULT: Final = "tool_result"
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_BROKEN: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_HINT: Final = MARK.rstrip(".").encode()


class _Role(msgspec.Struct):
    role: str = ""


def restore_turns(messages: Sequence[bytes | Raw], turns: Mapping[int, StoredTurn]) -> list[bytes | Raw]:
    """The messages, those at the places of turns replaced by these, with their results put in front of the caller's."""
    outgoing: list[bytes | Raw] = []
    waiting: list[Block] = []
    for index, raw in enumerate(messages):
        turn = turns.get(index)
        if turn is not None:
            outgoing += _results_message(waiting)
            outgoing += turn.before
            waiting = [block for each in turn.results for block in _content(each) or ()]
            continue
        outgoing += _with_results(raw, waiting)
        waiting = []
    return outgoing + _results_message(waiting)


def split_rounds(messages: Sequence[bytes | Raw], *, calls: bool) -> list[bytes | Raw]:
    """The messages without marks on signatures, and with shown `mcp_tool_use` blocks as calls again. `calls`: whether
    the request has tools, without which the API refuses messages with calls.
    """
    written: list[bytes | Raw] = []
    waiting: list[Block] = []
    for raw in messages:
        blocks = _content(raw) if _HINT in bytes(raw) and _role(raw) == "assistant" else None
        if blocks is not None:
            written += _results_message(waiting)
            rounds, waiting = _rounds(blocks, calls=calls)
            written += rounds
            continue
        written += _with_results(raw, waiting)
        waiting = []
    return written + _results_message(waiting)


def _rounds(blocks: Sequence[Block], *, calls: bool) -> tuple[list[bytes], list[Block]]:
    """A model's message, split into the messages of its rounds, and the results that belong into the message behind it.
    Shown calls of one round stand together, with their results behind them: what follows a result is of the next round.
    """
    back = restore_calls(blocks) if calls else {}
    parts: list[tuple[list[Block], list[Block]]] = [([], [])]
    for block in blocks:
        if block.elsewhere or (is_ours(block) and key(block) not in back):
            continue
        made = back[key(block)] if is_ours(block) else block
        if made.kind == _RESULT:
            parts[-1][1].append(made)
            continue
        if parts[-1][1]:
            parts.append(([], []))
        parts[-1][0].append(made)
    apart = len(parts) > 1 or bool(parts[0][1])
    messages: list[bytes] = []
    for blocks_of_round, results in parts:
        messages += as_message("assistant", _of_one_answer(blocks_of_round, one_round=apart))
        messages += as_message("user", results)
    if not parts[-1][1]:
        return messages, []
    return messages[:-1], parts[-1][1]


def _of_one_answer(blocks: Sequence[Block], *, one_round: bool) -> list[Block]:
    """The blocks with the thoughts of one answer only, as the API demands. `one_round`: all blocks are of one round, as
    far as can be seen. Else thoughts of hidden rounds are among them: those of the last round stand in front, where the
    API wants them before a call, and all others are left out; without a call all thoughts are.
    """
    thoughts = [block for block in blocks if block.kind in SIGNED]
    rounds = {block.round for block in thoughts}
    if rounds <= {1} or (one_round and len(rounds) == 1):
        return [block.unmark() for block in blocks]
    others = [block for block in blocks if block.kind not in SIGNED]
    if not any(block.kind == TOOL_USE for block in others):
        return others
    last = max(rounds)
    return [*(block.unmark() for block in thoughts if block.round == last), *others]


def _with_results(raw: bytes | Raw, results: Sequence[Block]) -> list[bytes | Raw]:
    """A message with results of calls in front of its content; a message of their own for the results where that
    message is not the user's.
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
    except _BROKEN:
        return ""


def _content(raw: bytes | Raw) -> list[Block] | None:
    """Blocks of a message; None where they cannot be read: the API's error says why."""
    try:
        return blocks_of(bytes(_members(raw)["content"]))
    except (*_BROKEN, KeyError):
        return None
