"""Memory of what Gemini hears and says, for the engine that answers other turns of the same conversation."""

from __future__ import annotations

from typing import Final

from fairlead_speech.cascaded.answering import TurnAnswerer
from fairlead_speech.cascaded.session import MOST_SAID
from fairlead_speech.gemini.messages import Message, ServerContent, is_there, member, members, read, text


class RoutedMemory:
    """Memory of one session."""

    def __init__(self, answerer: TurnAnswerer) -> None:
        self._answerer = answerer
        self._user = ""
        self._model = ""

    def told(self, content: Message) -> None:
        """Take a content that the client adds to the conversation."""
        words = " ".join(text(part, "text") for part in members(content, "parts") if text(part, "text"))
        if words:
            self._answerer.remember("assistant" if text(content, "role") == "model" else "user", words)

    def heard(self, content: ServerContent, frame: bytes, *, streamed: bool) -> None:
        """Take what the provider hears and says. `streamed`: it hears turns that nobody heard before."""
        if content.input_transcription is not None and streamed:
            self._user = (self._user + (content.input_transcription.text or ""))[-MOST_SAID:]
        if not content.says:
            return
        self._remember_user()
        said = member(read(frame), "serverContent") if _in_words(content) else {}
        self._model += text(member(said, "outputTranscription"), "text")
        for part in members(member(said, "modelTurn"), "parts"):
            self._model += text(part, "text")
        self._model = self._model[:MOST_SAID]

    def over(self) -> None:
        """The provider's turn is over."""
        self._remember_user()
        words, self._model = self._model.strip(), ""
        if words:
            self._answerer.remember("assistant", words)

    def _remember_user(self) -> None:
        words, self._user = self._user.strip(), ""
        if words:
            self._answerer.remember("user", words)


_TEXT: Final = b'"text"'


def _in_words(content: ServerContent) -> bool:
    """Whether there are words in it: most of what comes is audio, which is not looked through."""
    return is_there(content.output_transcription) or _TEXT in bytes(content.model_turn)
