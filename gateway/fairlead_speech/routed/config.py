"""Configuration of a routed session, in which a cascaded engine answers slow turns. Derives the provider's
configuration from the client's configuration. Does no I/O.

The provider's configuration disables automatic responses to speech, and requests transcripts. A client's update applies
as soon as it is sent to the provider, because a response may follow at once. If the provider refuses the update, it is
reverted.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from fairlead_speech.cascaded.answering import shared_config
from fairlead_speech.realtime.events import Event, member

MAX_PENDING: Final = 16
"""Maximum number of the client's updates that wait for the provider's answer. If there are more, the oldest update is
considered accepted.
"""
DETECTION: Final = "turn_detection"
TRANSCRIPTION: Final = "transcription"
_INPUT: Final = "input"


class RoutedConfig:
    """Configuration of one routed session."""

    def __init__(self, transcription: str) -> None:
        """`transcription`: the provider's transcription model for sessions whose client requests no transcripts."""
        self._transcription: Event = {"model": transcription}
        self._accepted_config: Event = {}
        """Members of the client's configuration that also apply to the engine. The member `input` is `audio.input` as
        the client set it."""
        self._pending_updates: deque[tuple[str, Event]] = deque()
        """`event_id` and changes of each update of the client that the provider has not answered yet."""
        self.routes = True
        """Whether the engine may answer turns. False after the provider refused a setting that routing needs."""

    @property
    def input_config(self) -> Event:
        """`audio.input` as the client set it."""
        return member(self._newest_config, _INPUT)

    @property
    def for_engine(self) -> Event:
        """Instructions, tools and modalities that the client set."""
        return {name: value for name, value in self._newest_config.items() if name != _INPUT}

    @property
    def answers_speech(self) -> bool:
        """Whether the client wants a response to be created at the end of speech."""
        detection = self.input_config.get(DETECTION)
        return isinstance(detection, dict) and detection.get("create_response", True) is not False

    @property
    def interrupts(self) -> bool:
        """Whether speech interrupts a response."""
        return member(self.input_config, DETECTION).get("interrupt_response", True) is not False

    def begin(self, session: Event) -> list[tuple[str, Event]]:
        """Read the configuration in `session.created`. Returns the changes that routing needs, as (member, session).
        Each change is sent as a separate update, because one invalid member makes the provider refuse the whole update.
        """
        self._accepted_config = {_INPUT: member(member(session, "audio"), _INPUT)}
        routing_members = self._routing_members({TRANSCRIPTION: None, **self.input_config})
        return [
            (name, member_change(routing_members, name))
            for name in (DETECTION, TRANSCRIPTION)
            if name in routing_members
        ]

    def add_update(self, event_id: str, session: Event) -> None:
        """Record an update of the client that was sent to the provider."""
        self._pending_updates.append(
            (event_id, {**shared_config(session), _INPUT: member(member(session, "audio"), _INPUT)})
        )
        if len(self._pending_updates) > MAX_PENDING:
            self.accept_update()

    def accept_update(self) -> None:
        """Apply the client's oldest update, because the provider has accepted it."""
        if self._pending_updates:
            self._accepted_config = _merge_changes(self._accepted_config, self._pending_updates.popleft()[1])

    def refuse_update(self, event_id: str) -> None:
        """Drop a client's update, because the provider has refused it. An `event_id` of another event is ignored."""
        for update in self._pending_updates:
            if update[0] == event_id:
                self._pending_updates.remove(update)
                return

    def for_provider(self, event: Event) -> Event:
        """Translate a client's `session.update` for the provider."""
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
        """Translate a `session.updated` for the client."""
        session = member(event, "session")
        audio, input_config = member(session, "audio"), self.input_config
        client_members = {name: input_config[name] for name in (DETECTION, TRANSCRIPTION) if name in input_config}
        return {
            **event,
            "session": {**session, "audio": {**audio, _INPUT: {**member(audio, _INPUT), **client_members}}},
        }

    @property
    def _newest_config(self) -> Event:
        config = self._accepted_config
        for _, changes in self._pending_updates:
            config = _merge_changes(config, changes)
        return config

    def _routing_members(self, input_config: Event) -> Event:
        """Values that routing sets for members of `input_config`."""
        routing_members: Event = {}
        if isinstance(input_config.get(DETECTION), dict):
            routing_members[DETECTION] = {**input_config[DETECTION], "create_response": False}
        if TRANSCRIPTION in input_config:
            routing_members[TRANSCRIPTION] = input_config[TRANSCRIPTION] or self._transcription
        return routing_members


def member_change(input_config: Event, name: str) -> Event:
    """Make the `session` of an update that changes only one member of `audio.input`."""
    return {"audio": {_INPUT: {name: input_config.get(name)}}}


def _merge_changes(config: Event, changes: Event) -> Event:
    return {**config, **changes, _INPUT: {**member(config, _INPUT), **member(changes, _INPUT)}}
