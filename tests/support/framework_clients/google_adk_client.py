"""Agents of Google's Agent Development Kit, over Gemini."""

from __future__ import annotations

from client_tasks import GOOGLE_MODEL, Job, converse_async, main
from google.adk.agents import Agent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.runners import InMemoryRunner
from google.genai import types


async def gemini(job: Job) -> str:
    """Texts of the runner's final events."""
    agent = Agent(name="clerk", model=GOOGLE_MODEL, instruction="You keep the stores.", tools=[*job.functions])
    runner = InMemoryRunner(agent=agent, app_name="stores")
    session = await runner.session_service.create_session(app_name="stores", user_id="somebody")

    async def ask(question: str) -> str:
        final = ""
        async for event in runner.run_async(
            user_id="somebody",
            session_id=session.id,
            new_message=types.Content(role="user", parts=[types.Part(text=question)]),
            run_config=RunConfig(streaming_mode=StreamingMode.SSE if job.stream else StreamingMode.NONE),
        ):
            if event.error_code:
                raise RuntimeError(f"{event.error_code}: {event.error_message}")
            if event.is_final_response() and event.content and not event.partial:
                final = "".join(part.text or "" for part in event.content.parts or [] if not part.thought)
        return final

    return await converse_async(ask)


if __name__ == "__main__":
    main({"Agent": gemini})
