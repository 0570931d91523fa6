"""Requests to speech servers over OpenAI's audio API: `POST /audio/transcriptions` and `POST /audio/speech`."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any, Final

import msgspec

from fairlead_models.cascaded_engines import SpeechBackend, SpeechToText, TextToSpeech
from fairlead_models.provider_requests import ProviderAnswer, ProviderClient, ProviderRequest, ProviderUnavailable
from fairlead_models.providers import Provider
from fairlead_speech.cascaded.audio import RATE, wav
from fairlead_speech.metrics import SpeechMetrics

MAX_TRANSCRIPT_BYTES: Final = 64 << 10
"""Maximum number of bytes of an answer with a transcript, far more than the transcript of one turn."""
MAX_SPEECH_BYTES: Final = 16 << 20
"""Maximum number of bytes of audio for one piece of text: six minutes."""
_OK: Final = 200


class BackendFailed(Exception):
    """Failure of a speech server or of the model. The message says which of them failed, without address or key."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class SpeechBackends:
    """Speech servers of one engine: speech to text, and text to speech."""

    def __init__(
        self, name: str, stt: SpeechToText, tts: TextToSpeech, client: ProviderClient, metrics: SpeechMetrics
    ) -> None:
        """`name`: name of the engine in the providers file."""
        self._name = name
        self._metrics = metrics
        self.stt = stt
        self.tts = tts
        self._client = client
        self._stt_provider = _provider(stt)
        self._tts_provider = _provider(tts)

    async def transcribe(self, audio: bytes, language: str = "", rate: int = RATE) -> str:
        """Transcribe audio with `rate` samples per second. Raises BackendFailed."""
        fields = {"model": self.stt.model, "response_format": "json"}
        if language or self.stt.language:
            fields["language"] = language or self.stt.language
        content_type, body = _form(fields, wav(audio, rate))
        path = "/audio/transcriptions"
        try:
            async with self._request(self._stt_provider, path, body, content_type, "speech-to-text") as answer:
                self._metrics.transcribed_seconds[self._name] += len(audio) / (2 * rate)
                answer_body = bytearray()
                async for piece in answer.pieces():
                    answer_body += piece
                    if len(answer_body) > MAX_TRANSCRIPT_BYTES:
                        raise BackendFailed(
                            "stt_failed",
                            f"the speech-to-text server answered with over {MAX_TRANSCRIPT_BYTES >> 10} KiB",
                        )
            text = msgspec.json.decode(bytes(answer_body), type=dict[str, Any]).get("text")
        except ProviderUnavailable as error:
            raise BackendFailed("stt_unavailable", f"the speech-to-text server: {error}") from error
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BackendFailed("stt_failed", "the answer of the speech-to-text server is not a JSON object") from error
        if not isinstance(text, str):
            raise BackendFailed("stt_failed", "the answer of the speech-to-text server has no text")
        return text.strip()

    async def synthesize(self, text: str, voice: str, speed: float = 1.0) -> AsyncGenerator[bytes, None]:
        """Synthesize a text. Yields audio as it arrives, without splitting a sample. Raises BackendFailed."""
        request: dict[str, Any] = {"model": self.tts.model, "input": text, "voice": voice, "response_format": "pcm"}
        if speed != 1:
            request["speed"] = speed
        size, odd_byte = 0, b""
        try:
            async with self._request(
                self._tts_provider, "/audio/speech", msgspec.json.encode(request), "application/json", "text-to-speech"
            ) as answer:
                self._metrics.synthesized_characters[self._name] += len(text)
                async for piece in answer.pieces():
                    size += len(piece)
                    if size > MAX_SPEECH_BYTES:
                        raise BackendFailed(
                            "tts_failed", f"the text-to-speech server answered with over {MAX_SPEECH_BYTES >> 20} MiB"
                        )
                    piece = odd_byte + piece
                    whole_samples = len(piece) // 2 * 2
                    odd_byte = piece[whole_samples:]
                    if whole_samples:
                        yield piece[:whole_samples]
        except ProviderUnavailable as error:
            raise BackendFailed("tts_unavailable", f"the text-to-speech server: {error}") from error

    @contextlib.asynccontextmanager
    async def _request(
        self, provider: Provider, path: str, body: bytes, content_type: str, server_kind: str
    ) -> AsyncIterator[ProviderAnswer]:
        """Send a request to a speech server, and return its answer, whose status is 200. `content_type`: that of the
        body. `server_kind`: kind of the server for error messages. Raises ProviderUnavailable and BackendFailed.
        """
        answer = await self._client.send(provider, ProviderRequest(path, body, content_type=content_type))
        try:
            if answer.status != _OK:
                code = "stt_refused" if provider is self._stt_provider else "tts_refused"
                raise BackendFailed(code, f"the {server_kind} server answered with status {answer.status}")
            yield answer
        finally:
            answer.close()


def _provider(backend: SpeechBackend) -> Provider:
    return Provider(
        backend.base_url,
        key_env=backend.key_env,
        key_file=backend.key_file,
        headers=backend.headers,
        connect_seconds=backend.connect_seconds,
        idle_seconds=backend.idle_seconds,
    )


def _form(fields: Mapping[str, str], audio: bytes) -> tuple[str, bytes]:
    """Content type and body of a multipart form with an audio file (RFC 7578)."""
    boundary = secrets.token_hex(16)
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    file_header = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="speech.wav"\r\n'
        "Content-Type: audio/wav\r\n\r\n"
    )
    body = b"".join([*parts, file_header.encode(), audio, f"\r\n--{boundary}--\r\n".encode()])
    return f"multipart/form-data; boundary={boundary}", body
