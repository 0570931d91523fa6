"""Conversation of Pipecat with a speech model: a program that runs in a separate environment.

    python pipecat_client.py openai|google URL TEXT

The user writes, and the model's calls are answered. After the model has said TEXT, all frames of its service about
speech and calls are printed as one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from google.genai.types import HttpOptions
from loguru import logger
from pipecat.adapters.schemas.function_schema import FunctionSchema
from pipecat.adapters.schemas.tools_schema import ToolsSchema
from pipecat.frames import frames
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.google.gemini_live.llm import GeminiLiveLLMService
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService
from pipecat.workers.runner import WorkerRunner

MODELS = {"openai": "gpt-realtime", "google": "models/gemini-2.5-flash-live"}
"""Models by provider. Pipecat would tell a newer Gemini twice that the user's first turn is over."""


class Recorder(FrameProcessor):  # type: ignore[misc] # that package is in an environment of its own
    """Records the frames of a service."""

    def __init__(self, last: str) -> None:
        super().__init__()
        self.told: list[Any] = []
        self.calls: list[Any] = []
        """Recorded separately, because a call runs in a separate task while the model speaks."""
        self.done = asyncio.Event()
        self._last = last
        self._spoken = ""

    async def process_frame(self, pipecat_frame: Any, direction: FrameDirection) -> None:
        await super().process_frame(pipecat_frame, direction)
        kind = type(pipecat_frame).__name__
        if isinstance(pipecat_frame, frames.TTSAudioRawFrame):
            self.told.append([kind, len(pipecat_frame.audio)])
        elif isinstance(pipecat_frame, frames.TTSTextFrame):
            self._spoken += pipecat_frame.text
            self.told.append([kind, pipecat_frame.text])
        elif isinstance(pipecat_frame, frames.FunctionCallInProgressFrame | frames.FunctionCallResultFrame):
            self.calls.append([kind, pipecat_frame.function_name])
        elif isinstance(pipecat_frame, frames.ErrorFrame):
            self.told.append([kind, pipecat_frame.error])
        elif isinstance(pipecat_frame, frames.LLMFullResponseEndFrame):
            self.told.append([kind])
            if self._last in self._spoken:
                self.done.set()
        await self.push_frame(pipecat_frame, direction)


async def theirs(params: Any) -> None:
    """The client's own tool."""
    await params.result_callback({"answer": "yes"})


def service_of(api: str, url: str, tools: list[Any]) -> tuple[Any, LLMContext]:
    """The service that speaks to the model at an address, and its context. OpenAI's service gets the tools from the
    context.
    """
    messages: list[Any] = [{"role": "user", "content": "What is it?"}]
    if api == "openai":
        service = OpenAIRealtimeLLMService(
            api_key="any", base_url=url, settings=OpenAIRealtimeLLMService.Settings(model=MODELS[api])
        )
        return service, LLMContext(messages, tools=ToolsSchema(standard_tools=tools))
    settings = GeminiLiveLLMService.Settings(model=MODELS[api])
    options = HttpOptions(base_url=url)
    return GeminiLiveLLMService(api_key="any", http_options=options, settings=settings, tools=tools), LLMContext(
        messages
    )


async def talk(api: str, url: str, last: str) -> list[Any]:
    """The conversation."""
    tool = FunctionSchema(name="theirs", description="The client's", properties={}, required=[])
    service, context = service_of(api, url, [tool])
    pair = LLMContextAggregatorPair(context)
    recorder = Recorder(last)
    service.register_function("theirs", theirs)
    worker = PipelineWorker(Pipeline([pair.user(), service, recorder, pair.assistant()]))
    running = asyncio.create_task(WorkerRunner(handle_sigint=False).run(worker))
    await worker.queue_frames([frames.LLMContextFrame(context)])
    try:
        async with asyncio.timeout(30):
            await recorder.done.wait()
    except TimeoutError:
        recorder.told.append(["not within 30 s"])
    await worker.cancel()
    await running
    return [*recorder.told, *recorder.calls]


if __name__ == "__main__":
    logger.remove()
    logger.add(sys.stderr, level="WARNING")
    sys.stdout.write(json.dumps(asyncio.run(talk(*sys.argv[1:4]))) + "\n")
