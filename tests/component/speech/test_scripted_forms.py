"""Multipart forms that the scripted speech-to-text server reads."""

from __future__ import annotations

import aiohttp

from fairlead_speech.cascaded.fake import STT, ScriptedCascade
from fairlead_speech.scripted import SpeechScript

FORM = b"".join(
    [
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n',
        b"RIFF\0\0\0\0WAVEfmt ".ljust(44, b"\0"),
        b"audio\r\n",
        b'--b\r\nContent-Disposition: form-data; name="model"\r\n',
        b"Content-Type: text/plain; charset=unicode_escape\r\n\r\n",
        rb"whisper-\x31",
        b"\r\n--b--\r\n",
    ]
)


async def test_a_field_of_a_form_is_utf_8_whatever_codec_its_charset_names() -> None:
    async with (
        ScriptedCascade(SpeechScript(transcripts=("hello",))).serving() as server,
        aiohttp.ClientSession() as client,
    ):
        url = f"http://127.0.0.1:{server.port}{STT}"
        async with client.post(url, data=FORM, headers={"Content-Type": "multipart/form-data; boundary=b"}) as answer:
            assert (answer.status, await answer.read()) == (200, b'{"text": "hello"}')
        async with client.post(url, data={"model": "whisper-1"}) as answer:
            assert (answer.status, b"file and model are required" in await answer.read()) == (400, True)
    assert server.transcription_requests == [(b"audio", {"model": r"whisper-\x31"})]
