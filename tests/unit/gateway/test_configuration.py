"""Files that settings name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead_api.bad_setting import BadSetting
from fairlead_app import configuration
from fairlead_app.configuration import ModelApiReach, compressor_config, embedding_config, load_models, vector_folder
from fairlead_app.settings import Settings
from fairlead_formats.tokens.models import LiveSource
from fairlead_search.embedding import EmbeddingConfig
from fairlead_search.result_compression import CompressorConfig
from page_reader import blocks


def test_load_models_without_a_file_has_no_routes() -> None:
    assert load_models(None).routes == {}


def test_routes_are_read_by_name(tmp_path: Path) -> None:
    file = tmp_path / "routes.yaml"
    file.write_text(
        "routes:\n  default: {models: [gpt-5-mini, {model: claude-sonnet-5, format: anthropic}], maxTools: 40}\n"
    )
    route = load_models(file).routes["default"]
    assert len(route.models) == 2
    assert route.limits.max_tools == 40


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("routes: [", "is not valid YAML"),
        ("routes: 2026-13-45", "is not valid YAML"),
        ("[" * 5000, "nested too deeply"),
        (
            "- a",
            "the file must be an object, not a list; it may have only the members routes",
        ),
        ("route: {}", "route: is unknown; it may have only the members routes, models, liveModels and providers"),
        ("routes: {a: {models: []}}", "a lists no model; name at least one"),
        ("routes: {a: {models: [{model: x, format: sonnet}]}}", "sonnet"),
        ("routes: {a: {models: [x], speed: 3}}", "speed"),
        ("models: {x: 0}", r"routes\.yaml: models\[\.\.\.\]: must be at least 1$"),
        ("models: {x: {context: 9, output: 1}}", "output"),
        ("liveModels: {url: 'ftp://x/v1/models'}", "http or https"),
        ("liveModels: {url: 'http://x', refreshSeconds: 1}", "refreshSeconds"),
    ],
)
def test_a_bad_file_is_refused_with_its_name_and_what_is_wrong(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "routes.yaml"
    file.write_text(text)
    with pytest.raises(BadSetting, match=says) as caught:
        load_models(file)
    assert str(file) in str(caught.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="cannot be read"):
        load_models(tmp_path / "none.yaml")


def test_windows_and_a_model_server_are_read(tmp_path: Path) -> None:
    file = tmp_path / "models.yaml"
    file.write_text(
        "models: {ours: 65536, gpt-5-mini: {context: 300000, maxInput: 200000}}\n"
        "liveModels: {url: 'http://vllm:8000/v1/models', refreshSeconds: 60, tokenFile: /etc/token}\n"
    )
    read = load_models(file)
    assert read.windows.window("ours").context == 65536
    assert read.windows.window("openai/gpt-5-mini").max_input == 200000
    assert read.live == LiveSource("http://vllm:8000/v1/models", 60, "/etc/token")


def test_the_example_of_the_page_is_read(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "connect" / "plans.md").read_text()
    (text,) = blocks(page, "yaml")
    file = tmp_path / "models.yaml"
    file.write_text(text)
    read = load_models(file)
    assert read.routes["default"].limits.max_tools == 40
    assert read.windows.window("our-qwen").context == 65536
    assert read.live is not None


def embedding_of(**values: Any) -> EmbeddingConfig | None:
    settings = Settings.of(**values)
    return embedding_config(
        settings.search, ModelApiReach(settings.upstream.egress, settings.installation.release_namespace)
    )


def compression_of(**values: Any) -> CompressorConfig | None:
    settings = Settings.of(**values)
    reach = ModelApiReach(settings.upstream.egress, settings.installation.release_namespace)
    return compressor_config(settings.results.compressor, reach)


def vector_folder_of(**values: Any) -> Path | None:
    settings = Settings.of(**values)
    return vector_folder(settings.search, settings.rest)


def test_vectors_are_made_where_what_makes_them_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "missing_modules", list)
    assert embedding_of() == embedding_of(embedder="built-in") == EmbeddingConfig()
    assert embedding_of(embedder="none") is None
    monkeypatch.setattr(configuration, "missing_modules", lambda needed=(): ["onnxruntime"])
    assert embedding_of() is None
    assert embedding_of(embedder="none", embedder_url="http://models:8000/v1") is None
    with pytest.raises(BadSetting, match=r"these modules are missing: onnxruntime\. Run pip install '.+\[search\]'"):
        embedding_of(embedder="built-in")


@pytest.mark.parametrize(
    "url",
    [
        "models:8000",
        "http://user:word@models/v1",
        "http://models:0/v1",
        "http://[::1/v1",
        "http://models/v1?api-version=1",
        "http://models/v1#part",
        "http://models/v1\n",
    ],
)
@pytest.mark.parametrize("name", ["embedder_url", "compressor_url"])
def test_an_endpoint_needs_a_url_without_credentials(name: str, url: str) -> None:
    with pytest.raises(BadSetting, match=f"FAIRLEAD_{name.upper()} is '.*'; it takes an http or https URL without"):
        Settings.from_env({}, **{name: url})


def test_an_endpoint_for_vectors_needs_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "missing_modules", lambda needed=(): [])
    with pytest.raises(BadSetting, match="FAIRLEAD_EMBEDDER_URL needs FAIRLEAD_EMBEDDER_MODEL"):
        embedding_of(embedder_url="http://models/v1")
    with pytest.raises(BadSetting, match="FAIRLEAD_EMBEDDER_URL is missing"):
        embedding_of(embedder="endpoint", embedder_model="qwen")
    embedding = embedding_of(embedder_url="http://models:8000/v1", embedder_model="qwen", namespace="ours")
    assert embedding is not None
    assert (embedding.url, embedding.model, embedding.namespace) == ("http://models:8000/v1", "qwen", "ours")


def test_an_endpoint_that_compresses_needs_a_model() -> None:
    assert compression_of() is None
    with pytest.raises(BadSetting, match="FAIRLEAD_COMPRESSOR_URL needs FAIRLEAD_COMPRESSOR_MODEL"):
        compression_of(compressor_url="http://models/v1")
    compression = compression_of(compressor_url="http://m:8000/v1", compressor_model="qwen", compressor_key="k")
    assert compression is not None
    assert (compression.url, compression.model, compression.key, compression.seconds) == (
        "http://m:8000/v1",
        "qwen",
        "k",
        10,
    )


def test_a_folder_for_vectors_needs_its_extra_and_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "missing_modules", lambda needed=(): [])
    folder = Path("/vectors")
    assert vector_folder_of() is None
    assert vector_folder_of(search_directory=folder) == folder
    with pytest.raises(BadSetting, match="set FAIRLEAD_REST_PROCESSES above 0"):
        vector_folder_of(search_directory=folder, rest_processes=0)
    monkeypatch.setattr(configuration, "missing_modules", lambda needed=(): ["lancedb"])
    with pytest.raises(BadSetting, match=r"these modules are missing: lancedb\. Run pip install '.+\[lancedb\]'"):
        vector_folder_of(search_directory=folder)


def test_a_model_may_have_a_window_a_price_or_both(tmp_path: Path) -> None:
    file = tmp_path / "routes.yaml"
    file.write_text(
        "models:\n  a: 1000\n  b: {context: 2000, price: {input: 1, output: 2}}\n"
        "  c: {price: {input: 3, output: 4, cachedInput: 0.3, cacheWrite: 3.75}}\n"
    )
    models = load_models(file)
    assert [models.windows.window(name).context for name in "ab"] == [1000, 2000]
    assert models.windows.window("c").source != models.windows.window("a").source
    assert {name: (price.input, price.cache_write) for name, price in models.prices.items()} == {
        "b": (1, None),
        "c": (3, 3.75),
    }


@pytest.mark.parametrize(
    "description", ["{}", "{maxInput: 5}", "{price: {input: 1}}", "{price: {input: -1, output: 1}}"]
)
def test_a_model_of_which_too_little_is_said_is_refused(tmp_path: Path, description: str) -> None:
    file = tmp_path / "routes.yaml"
    file.write_text(f"models: {{m: {description}}}\n")
    with pytest.raises(BadSetting, match="models"):
        load_models(file)
