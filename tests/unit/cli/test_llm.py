"""The model that `fairlead up --llm` selects."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_api.bad_setting import BadSetting
from fairlead_app.configuration import load_models
from fairlead_cli.failure import Failure
from fairlead_cli.up.llm import chosen_model


@pytest.mark.parametrize(
    ("word", "environ", "provider", "kind", "variable"),
    [
        ("openai", {"OPENAI_API_KEY": "k"}, "openai", "openai", "OPENAI_API_KEY"),
        ("anthropic", {"ANTHROPIC_API_KEY": "k"}, "anthropic", "anthropic", "ANTHROPIC_API_KEY"),
        ("gemini", {"GEMINI_API_KEY": "k"}, "gemini", "gemini", "GEMINI_API_KEY"),
        ("auto", {"GEMINI_API_KEY": "k", "OPENAI_API_KEY": ""}, "gemini", "gemini", "GEMINI_API_KEY"),
        ("auto", {}, "scripted", "openai", None),
        ("scripted", {"OPENAI_API_KEY": "k"}, "scripted", "openai", None),
        ("http://127.0.0.1:11434/v1", {"OPENAI_API_KEY": "k"}, "url", "openai", None),
        ("https://models.example.com/v1", {"FAIRLEAD_LLM_KEY": "k"}, "url", "openai", "FAIRLEAD_LLM_KEY"),
    ],
)
async def test_a_word_or_a_key_in_the_environment_chooses_the_provider(
    word: str, environ: dict[str, str], provider: str, kind: str, variable: str | None
) -> None:
    async with chosen_model(word, environ) as chosen:
        read = load_models(None, chosen.added).providers
        ((name, route),) = read.by_name.items()
        assert (name, route.kind, route.key_env) == (provider, kind, variable)
        assert read.target("any-model").provider == provider
        if chosen.model:
            _, (target,) = read.targets(chosen.model)
            assert read.list_models() == {target.model: provider}


@pytest.mark.parametrize(("word", "why"), [("openai", "OPENAI_API_KEY is not set"), ("llama", "neither one of openai")])
async def test_a_word_that_means_nothing_or_lacks_its_key_is_told(word: str, why: str) -> None:
    with pytest.raises(Failure, match=why):
        async with chosen_model(word, {}):
            raise AssertionError("unreachable")


async def test_only_the_scripted_model_can_be_strict() -> None:
    with pytest.raises(Failure, match="use it with --llm scripted"):
        async with chosen_model("openai", {"OPENAI_API_KEY": "k"}, strict=True):
            raise AssertionError("unreachable")


async def test_a_url_that_cannot_be_one_of_a_provider_is_a_bad_setting() -> None:
    async with chosen_model("http://user:secret@models", {}) as chosen:
        with pytest.raises(BadSetting, match=r"command line.*without credentials") as caught:
            load_models(None, chosen.added)
    assert "secret" not in str(caught.value)


async def test_the_file_of_routes_comes_before_fairlead_up_llm(tmp_path: Path) -> None:
    file = tmp_path / "models.yaml"
    file.write_text(
        "routes: {default: {models: [ours, another]}}\nproviders: {vllm: {baseUrl: 'http://vllm/v1', models: [ours]}}\n"
    )
    async with chosen_model("openai", {"OPENAI_API_KEY": "k"}) as chosen:
        _, targets = load_models(file, chosen.added).providers.targets("fairlead/default")
        file.write_text("providers: {openai: {baseUrl: 'http://mine/v1'}}")
        with pytest.raises(BadSetting, match="openai is declared twice"):
            load_models(file, chosen.added)
    assert [(target.provider, target.model) for target in targets] == [("vllm", "ours"), ("openai", "another")]


async def test_fairlead_up_without_llm_has_no_provider() -> None:
    async with chosen_model(None, {"OPENAI_API_KEY": "k"}) as chosen:
        assert not load_models(None, chosen.added).providers
