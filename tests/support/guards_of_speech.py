"""Guards of speech sessions, whose messages are read before they are passed on: see `guards`."""

from __future__ import annotations

from product_guard import Guard

_AT = "tests/unit/speech/test_frames.py"
_READER = "fairlead_speech.messages"
SPEECH = (
    Guard(
        "tools of a speech provider in a member that comes twice",
        _READER,
        (("if members.has_repeated_member(payload):", "if False:"),),
        f"{_AT}::test_a_frame_is_refused_or_every_parser_reads_the_same",
        "json, the first of equal members",
    ),
    Guard(
        "tools of a speech provider in a member of another case",
        _READER,
        (("if (fault := self._fault(message)) is not None:", "if (fault := None) is not None:"),),
        f"{_AT}::test_no_reader_finds_tools_of_the_provider_that_the_gateway_does_not_see",
        'event.get("type") == seen.get("type")',
    ),
    Guard(
        "tools of a speech provider in an event that the gateway does not know",
        "fairlead_speech.realtime.session",
        (("if not await self._tools_allowed(event, None):", "if False:"),),
        "tests/component/speech/test_frames.py::test_tools_of_the_provider_pass_in_no_event",
        "session.start",
    ),
    Guard(
        "tools of Gemini's provider in a second member of a message",
        "fairlead_speech.gemini.messages",
        (("if len(message) != 1 or not kinds:", "if False:"),),
        "tests/component/speech/test_frames.py::test_a_message_that_can_be_read_otherwise_closes_the_session",
        "sessionUpdate",
    ),
    Guard(
        "15 MiB of values in a message of a speech session",
        _READER,
        (
            ("if len(payload) > bounds.bytes:", "if False:"),
            (
                "if (cost_fault := explain_cost(payload, bounds.values)) is not None:",
                "if (cost_fault := None) is not None:",
            ),
        ),
        f"{_AT}::test_a_message_of_15_mebibytes_is_refused_without_being_decoded",
        "DID NOT RAISE",
    ),
    Guard(
        "messages of many speech sessions that are read in one go",
        _READER,
        (("                await asyncio.sleep(0)", "                pass"),),
        f"{_AT}::test_messages_in_a_row_are_read_a_piece_at_a_time_over_all_sessions",
        "== 1",
    ),
)
