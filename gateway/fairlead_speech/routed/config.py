"""Configuration of a routed session: what the client set, and what the provider gets. Pure module.

The provider must not create responses to speech by itself, and must send transcripts. Updates of the client hold from
their sending on, as a response may follow at once, until the provider refuses them.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from fairlead_speech.cascaded.answering import shared_config
from fairlead_speech.realtime.events import Event, member

MAX_PENDING: Final = 16
"""Updates of the client without an answer that are remembered one by one."""
DETECTION: Final = "turn_detection"
TRANSCRIPTION: Final = "transcription"
_INPUT: Final = "input"


class RoutedConfig:
    """Configuration of one session."""

    def __init__(self, transcription: str) -> None:
        """`transcription`: the provider's model for transcripts, where the client asks for none."""
        self._transcription: Event = {"model": transcription}
        self._accepted: Event = {}
        """Members for the engine, and `input`: `audio.input` as the client set it."""
        self._pending: deque[tuple[str, Event]] = deque()
        """`event_id` and changes of each update of the client without an answer."""
        self.routes = True
        """Whether turns are routed: the provider has not refused what that needs."""

    @property
    def input_config(self) -> Event:
        """`audio.input` as the client set it."""
        return member(self._current, _INPUT)

    @property
    def for_engine(self) -> Event:
        """Instructions, tools and modalities of the client."""
        return {name: value for name, value in self._current.items() if name != _INPUT}

    @property
    def answers_speech(self) -> bool:
        """Whether the client has responses created at the end of speech."""
        detection = self.input_config.get(DETECTION)
        return isinstance(detection, dict) and detection.get("create_response", True) is not False

    @property
    def interrupts(self) -> bool:
        """Whether speech interrupts a response."""
        return member(self.input_config, DETECTION).get("interrupt_response", True) is not False

    def begin(self, session: Event) -> list[tuple[str, Event]]:
        """Take the configuration of `session.created`. Returns the changes that routing needs, by member: they are sent
        one by one, as an update is refused as a whole.
        """
        self._accepted = {_INPUT: member(member(session, "audio"), _INPUT)}
        changed = self._routing_members({TRANSCRIPTION: None, **self.input_config})
        return [(name, member_change(changed, name)) for name in (DETECTION, TRANSCRIPTION) if name in changed]

    def add_update(self, event_id: str, session: Event) -> None:
        """Record an update of the client that was sent to the provider."""
        self._pending.append((event_id, {**shared_config(session), _INPUT: member(member(session, "audio"), _INPUT)}))
        if len(self._pending) > MAX_PENDING:
            self.accept_update()

    def accept_update(self) -> None:
        """Apply the oldest update, which the provider accepted."""
        if self._pending:
            self._accepted = _merged(self._accepted, self._pending.popleft()[1])

    def refuse_update(self, event_id: str) -> None:
        """Drop an update that the provider refused; no-op for other events."""
        for each in self._pending:
            if each[0] == event_id:
                self._pending.remove(each)
                return

    def for_provider(self, event: Event) -> Event:
        """A client's `session.update` in the form for the provider."""
        session = member(event, "session")
        audio = member(session, "audio")
        input_config = member(audio, _INPUT)
        if not input_config or not self.routes:
            return event
        return {
            **event,
            "session": {**session, "audio": {**audio, _INPUT: {**input_config, **self._routing_members(input_config)}}},
        }

    def for_client(self, event: Event) -> Event:
        """A `session.updated` in the form for the client."""
        session = member(event, "session")
        audio, input_config = member(session, "audio"), self.input_config
        by_client = {name: input_config[name] for name in (DETECTION, TRANSCRIPTION) if name in input_config}
        return {**event, "session": {**session, "audio": {**audio, _INPUT: {**member(audio, _INPUT), **by_client}}}}

    @property
    def _current(self) -> Event:
        current = self._accepted
        for _, part in self._pending:
            current = _merged(current, part)
        return current

    def _routing_members(self, input_config: Event) -> Event:
        """Members of `audio.input` that routing changes, among those that are given."""
        changed: Event = {}
        if isinstance(input_config.get(DETECTION), dict):
            changed[DETECTION] = {**input_config[DETECTION], "create_response": False}
        if TRANSCRIPTION in input_config:
            changed[TRANSCRIPTION] = input_config[TRANSCRIPTION] or self._transcription
        return changed


def member_change(input_config: Event, name: str) -> Event:
    """Session with one member of `audio.input`, for an update."""
    return {"audio": {_INPUT: {name: input_config.get(name)}}}


def _merged(before: Event, part: Event) -> Event:
    return {**before, **part, _INPUT: {**member(before, _INPUT), **member(part, _INPUT)}}
