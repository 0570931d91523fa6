"""LangChain's agents over its models of OpenAI, Anthropic and Google."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from client_tasks import ANTHROPIC_MODEL, GOOGLE_MODEL, OPENAI_MODEL, Job, converse, main
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_openai import ChatOpenAI


def _agent(model: Callable[[], Any]) -> Callable[[Job], str]:
    def run(job: Job) -> str:
        agent = create_agent(model(), [*job.functions])
        messages: list[Any] = []

        def ask(question: str) -> str:
            begun: Any = {"messages": [*messages, ("user", question)]}
            ended: Any = None
            if job.stream:
                for mode, data in agent.stream(begun, stream_mode=["messages", "values"]):
                    ended = data if mode == "values" else ended
            else:
                ended = agent.invoke(begun)
            messages[:] = ended["messages"]
            return str(messages[-1].text)

        return converse(ask)

    return run


if __name__ == "__main__":
    main(
        {
            "ChatOpenAI": _agent(lambda: ChatOpenAI(model=OPENAI_MODEL)),
            "ChatOpenAI, use_responses_api": _agent(lambda: ChatOpenAI(model=OPENAI_MODEL, use_responses_api=True)),
            "ChatAnthropic": _agent(lambda: ChatAnthropic(model=ANTHROPIC_MODEL)),
            "ChatGoogleGenerativeAI": _agent(lambda: ChatGoogleGenerativeAI(model=GOOGLE_MODEL)),
        }
    )
