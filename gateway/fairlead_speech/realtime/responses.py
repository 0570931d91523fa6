"""Decides when the gateway asks for a response: there is one at a time, and the client's own wish comes first.

Pure. An *output* is the result of a call that the gateway ran. A response that began after the provider took an output
has heard of it; for one that did not, another response is asked for when that one is done.
"""

from __future__ import annotations

from fairlead_speech.realtime_events import Event, member


class ResponseTurns:
    """State of the default conversation of one session: free, asked, or answering; and who speaks."""

    def __init__(self) -> None:
        self.active = False
        """Whether a response is in progress."""
        self.asked = False
        """Whether one was asked for, by the client or by the gateway, and has not begun."""
        self.speaking = False
        """Whether the user speaks, or has just spoken and is about to be answered."""
        self.elsewhere = False
        """Whether somebody else answers the turn, or is about to decide who does."""
        self.answers_speech = True
        """Whether the provider answers by itself when the user has spoken (`create_response`)."""
        self._wanted = False
        self._untaken: set[str] = set()

    @property
    def free(self) -> bool:
        """Whether nothing is being answered, and no answer was asked for."""
        return not self.active and not self.asked and not self.elsewhere

    @property
    def owes(self) -> bool:
        """Whether the model is answering, or is to answer."""
        return not self.free or self._wanted

    def configured(self, session: Event) -> None:
        """Take from the provider's session whether it answers speech by itself."""
        audio = member(member(session, "audio"), "input")
        if "turn_detection" in audio:
            detection = audio["turn_detection"]
            creates = member(audio, "turn_detection").get("create_response", True)
            self.answers_speech = detection is not None and creates is not False

    def client_asks(self) -> None:
        """The client asks for a response: the gateway does not, for what is there by now."""
        self.asked = True
        self._wanted = False

    def began(self) -> None:
        """A response began, asked for or by itself."""
        self.active = True
        self.asked = False
        if self.answers_speech:
            self.speaking = False
        if not self._untaken:
            self._wanted = False

    def done(self) -> None:
        """The response is over."""
        self.active = False

    def want(self) -> None:
        """All outputs of a response were sent: the model is to go on."""
        self._wanted = not self.speaking

    def sent(self, item: str) -> None:
        """An output was sent, as an item."""
        self._untaken.add(item)

    def taken(self, item: str) -> None:
        """The provider has an item, or refused it."""
        self._untaken.discard(item)

    def ask(self) -> bool:
        """Whether the gateway is to ask for a response now; it counts as asked then."""
        if not self._wanted or not self.free or self.speaking:
            return False
        self.asked = True
        self._wanted = False
        return True

    def refused(self, *, active: bool) -> None:
        """The gateway's request for a response was refused; `active`: because there is one already."""
        self.asked = False
        if active:
            self.active = self._wanted = True

    def client_refused(self) -> None:
        """The client's request for a response was refused."""
        self.asked = False

    def speech_began(self) -> None:
        """The user speaks. What was to be said is said with the answer to that."""
        self.speaking = True
        self._wanted = False

    def speech_dropped(self) -> None:
        """The client threw away what the user said."""
        self.speaking = False

    def speech_taken(self) -> None:
        """Take the end of a turn of speech, which is in the conversation now."""
        if not self.answers_speech:
            self.speaking = False
