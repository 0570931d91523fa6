"""Google's own client, with its automatic calls of Python functions."""

from __future__ import annotations

from typing import Any

from client_tasks import GOOGLE_MODEL, Job, converse, main
from google import genai


def chat(job: Job) -> str:
    """Its chat, which keeps the conversation and runs the functions."""
    client = genai.Client()
    talk: Any = client.chats.create(model=GOOGLE_MODEL, config={"tools": [*job.functions]})

    def ask(question: str) -> str:
        if not job.stream:
            return str(talk.send_message(question).text)
        return "".join(piece.text or "" for piece in talk.send_message_stream(question))

    return converse(ask)


if __name__ == "__main__":
    main({"generateContent": chat})
