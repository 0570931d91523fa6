"""Instructor. Its only tool is the form of the answer, which the model has to call three times in a conversation."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import instructor
from client_tasks import ANTHROPIC_MODEL, GOOGLE_MODEL, OPENAI_MODEL, QUESTIONS, Job, main
from pydantic import BaseModel

STEPS = 3


class Stock(BaseModel):
    """Stock of a store."""

    city: str
    pieces: int


def _answers(model: str) -> Callable[[Job], str]:
    def run(job: Job) -> str:
        client: Any = instructor.from_provider(model)
        messages: list[Any] = [{"role": "user", "content": QUESTIONS[0]}]
        stocks = []
        for _ in range(STEPS):
            if job.stream:
                *_, stock = client.create_partial(response_model=Stock, messages=messages)
            else:
                stock = client.create(response_model=Stock, messages=messages)
            stocks.append(stock.model_dump())
            messages += [
                {"role": "model" if model.startswith("google/") else "assistant", "content": json.dumps(stocks[-1])},
                {"role": "user", "content": "And the next store?"},
            ]
        return json.dumps(stocks)

    return run


if __name__ == "__main__":
    main(
        {
            "openai/": _answers(f"openai/{OPENAI_MODEL}"),
            "anthropic/": _answers(f"anthropic/{ANTHROPIC_MODEL}"),
            "google/": _answers(f"google/{GOOGLE_MODEL}"),
        }
    )
