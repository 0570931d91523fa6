"""Environment variables that entries of other clients' files name, in the form of each client."""

from __future__ import annotations

from clientfiles import read_client_file


def test_variables_that_codex_passes_on_are_passed_where_they_are_set() -> None:
    text = """
        [mcp_servers.github]
        command = "node"
        env_vars = ["TOKEN", "UNSET", { name = "REGION", source = "local" }]
        env = { MODE = "quiet", REGION = "eu" }
    """
    configuration = read_client_file(text, "/repo/.codex/config.toml", TOKEN="t0p", REGION="us")
    (declared,) = configuration.servers
    assert (configuration.problems, configuration.remarks) == ([], [])
    assert declared.credential is not None
    assert declared.credential.env == {"TOKEN": "t0p", "MODE": "quiet", "REGION": "eu"}


def test_a_variable_that_codex_takes_a_token_from_and_that_is_not_set_is_named_with_its_own_key() -> None:
    text = '[mcp_servers.figma]\nurl = "http://x/mcp"\nbearer_token_env_var = "FIGMA"\nhttp_headers = { A = "b" }\n'
    (problem,) = read_client_file(text, "/home/me/.codex/config.toml").problems
    assert (problem.line, problem.field) == (3, "mcp_servers.figma.bearer_token_env_var")
    assert problem.message == "environment variable FIGMA is not set: set it"


def test_of_several_variables_that_codex_takes_headers_from_each_is_named_with_its_own_key() -> None:
    server = '[mcp_servers.figma]\nurl = "http://x/mcp"\nbearer_token_env_var = "PATH"\n'
    file = "/home/me/.codex/config.toml"
    (problem,) = read_client_file(server + 'env_http_headers = {"X-Team" = "TEAM"}\n', file, PATH="/bin").problems
    assert problem.field == "mcp_servers.figma.env_http_headers.X-Team"
    assert problem.message == "environment variable TEAM is not set: set it"
    (problem,) = read_client_file(server + 'http_headers = {A = "${TEAM}"}\n', file, PATH="/bin").problems
    assert (problem.line, problem.field) == (4, "mcp_servers.figma.http_headers.A")


def test_a_variable_that_vibe_takes_a_key_from_and_that_is_not_set_is_told_without_a_default() -> None:
    text = '[[mcp_servers]]\nname = "a"\nurl = "http://x/mcp"\napi_key_env = "VIBE_KEY"\n'
    (problem,) = read_client_file(text, "/home/me/.vibe/config.toml").problems
    assert problem.field.endswith(".api_key_env")
    assert problem.message == "environment variable VIBE_KEY is not set: set it"


def test_a_value_beside_the_variables_that_goose_names_is_told_with_its_own_key() -> None:
    text = "extensions: {a: {type: stdio, cmd: x, enabled: true, env_keys: [PATH], envs: {B: '${MISSING}'}}}"
    (problem,) = read_client_file(text, "/home/me/.config/goose/config.yaml", PATH="/bin").problems
    assert problem.field == "extensions.a.envs.B"


def test_an_unset_variable_is_told_with_its_own_name_in_an_object_that_opencode_calls_otherwise() -> None:
    local = {"type": "local", "command": ["x"], "environment": {"A": "{env:HOME}", "B": "{env:MISSING}"}}
    (problem,) = read_client_file({"mcp": {"a": local}}, "/home/me/.config/opencode/opencode.json").problems
    assert problem.field == "mcp.a.environment.B"


def test_a_variable_that_goose_names_alone_is_told_without_the_way_to_give_a_default() -> None:
    text = "extensions: {gh: {type: stdio, cmd: gh-mcp, args: [], enabled: true, env_keys: [GH_TOKEN]}}"
    (problem,) = read_client_file(text, "/home/me/.config/goose/config.yaml").problems
    assert (problem.field, problem.message) == (
        "extensions.gh.env_keys",
        "environment variable GH_TOKEN is not set: set it",
    )


def test_a_header_of_goose_takes_a_variable_without_braces() -> None:
    entry = {"type": "streamable_http", "uri": "http://x/mcp", "headers": {"Authorization": "Bearer $KEY"}}
    (declared,) = read_client_file({"extensions": {"a": entry}}, KEY="k3y").servers
    assert declared.credential.headers == {"Authorization": "Bearer k3y"}
