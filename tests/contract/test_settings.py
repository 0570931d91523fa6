"""Settings: both processes refuse invalid values at their start, and the chart's schema refuses them too."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import fairlead_app.__main__
import fairlead_operator.__main__
from badsettings import ANY_TEXT, BAD_VALUES, READ_LATER, TEXTS, BadSettingValue
from charts.values import SETTINGS, Value, camel_case, fields, groups, settings, values
from forkserver import FORKED, start_server

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts/fairlead"
STARTS: dict[str, Callable[[], int | None]] = {
    "gateway": fairlead_app.__main__.main,
    "operator": fairlead_operator.__main__.main,
}
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
BOUNDS = ("enum", "minimum", "exclusiveMinimum", "maximum", "pattern", "if", "maxLength", "items")


def name_of(bad: BadSettingValue) -> str:
    return f"{bad.component}-{bad.name}"


@pytest.mark.parametrize("bad", BAD_VALUES, ids=name_of)
def test_a_process_does_not_start_with_a_value_that_a_setting_does_not_take(
    bad: BadSettingValue, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for variable in [each for each in os.environ if each.startswith("FAIRLEAD_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv(bad.variable, bad.text)
    try:
        code = STARTS[bad.component]()
    except SystemExit as error:
        code = error.code  # type: ignore[assignment]  # a number, as both give one
    printed = capsys.readouterr().err
    assert code in (1, 2)
    problem = "(is .*|has an invalid value)"
    assert re.fullmatch(rf"fairlead {bad.component}: {bad.variable} {problem}; it takes .+\n", printed)
    secret = bad.name in ("redis", "pull_token", "embedder_key", "compressor_key")
    assert (bad.text in printed) is not secret


def test_every_setting_is_checked_or_takes_any_text() -> None:
    names = {name for component in SETTINGS.values() for name, _, _ in fields(component)}
    checked = {bad.name for bad in BAD_VALUES}
    assert names == checked | ANY_TEXT | READ_LATER
    assert not checked & (ANY_TEXT | READ_LATER)
    assert checked >= TEXTS.keys()


@pytest.mark.parametrize("component", ["gateway", "operator"])
def test_settings_stand_in_groups_of_at_most_twelve_and_each_in_one(component: str) -> None:
    settings_type = SETTINGS[component]
    assert all(len(msgspec.structs.fields(group)) <= 12 for group in groups(settings_type))
    names = [name for name, _, _ in fields(settings_type)]
    assert len(names) == len(set(names)) == len(settings_type.variables())


def test_settings_that_both_processes_read_are_of_one_type() -> None:
    gateway, operator = (
        {name: schema for name, schema, _ in fields(SETTINGS[each])} for each in ("gateway", "operator")
    )
    shared = (gateway.keys() & operator.keys()) - {"identity", "namespace", "kubeconfig"}
    assert {"denied_networks", "allowed_urls", "pull_token", "environment", "confined"} <= shared
    assert {name: gateway[name] for name in shared} == {name: operator[name] for name in shared}


def schema_at(path: tuple[str, ...]) -> dict[str, Any]:
    schema: dict[str, Any] = SCHEMA
    for key in path:
        schema = schema["properties"][key]
    return schema


def unchanged_settings() -> dict[tuple[str, ...], tuple[str, str]]:
    """Component and setting that a template sets to a value unchanged, by path of the value."""
    variables: dict[tuple[str, ...], tuple[str, str]] = {}
    for component in SETTINGS:
        template = (CHART / f"templates/{component}/_env.tpl").read_text()
        direct = r"FAIRLEAD_([A-Z_]+)\n +value: \{\{ (?:join \",\" )?\.Values\.([A-Za-z.]+)(?: \| quote)? \}\}"
        inside = (
            r"\{\{- with \.Values\.([A-Za-z.]+) \}\}\n- name: FAIRLEAD_([A-Z_]+)\n +value: \{\{ (?:join \",\" )?\. "
        )
        for variable, path in re.findall(direct, template):
            variables[tuple(path.split("."))] = component, variable.lower()
        for path, variable in re.findall(inside, template):
            variables[tuple(path.split("."))] = component, variable.lower()
        for picked in re.findall(r"pick \.Values\.servers ([^)]*)\)", template):
            for key in re.findall(r'"(\w+)"', picked):
                variables["servers", key] = component, re.sub("([A-Z])", r"_\1", key).lower()
        own = {camel_case(name): name for name, _, _ in fields(SETTINGS[component])}
        variables |= {(component, "settings", key): (component, own[key]) for key in settings(component)}
    return variables


def bounds(schema: dict[str, Any]) -> dict[str, Any]:
    """Constraints of a setting, without the level `CRITICAL`, which the chart does not offer."""
    limits = {word: schema[word] for word in BOUNDS if word in schema}
    return limits | ({"enum": set(schema["enum"]) - {"CRITICAL"}} if "enum" in schema else {})


def test_every_value_that_becomes_a_setting_is_bound_like_it_in_the_schema() -> None:
    made = unchanged_settings()
    schemas = {component: {name: schema for name, schema, _ in fields(SETTINGS[component])} for component in SETTINGS}
    assert {("servers", "deniedNetworks"), ("redis", "url"), ("environment",), ("gateway", "drain", "waitSeconds")} <= (
        made.keys()
    )
    for path, (component, name) in made.items():
        assert bounds(schema_at(path)) == bounds(schemas[component][name]), path


def test_every_number_of_the_chart_has_a_least_and_every_list_says_what_is_in_it() -> None:
    def numbers(value: Value) -> None:
        schema = schema_at(value.path)
        kinds = schema.get("type")
        if kinds in ("integer", "number") or (isinstance(kinds, list) and "integer" in kinds):
            assert {"minimum", "exclusiveMinimum"} & schema.keys(), value.path
        if kinds == "array":
            assert schema["items"], value.path

    everything = list(values((CHART / "values.yaml").read_text()))
    assert len(everything) > 100
    for value in everything:
        numbers(value)


PROCESSES: list[tuple[str, str, str]] = [
    ("FAIRLEAD_DOCUMENTS", "FOLDER/missing", "is not a directory: set --documents to a directory with documents"),
    ("FAIRLEAD_CREDENTIALS", "FOLDER/missing", "FAIRLEAD_CREDENTIALS is .*missing, which is not a directory"),
    ("FAIRLEAD_ROUTES", "FOLDER/missing", "the routes of FAIRLEAD_ROUTES in .*missing cannot be read"),
    ("FAIRLEAD_API_KEYS", "FOLDER/missing", "the API keys of FAIRLEAD_API_KEYS in .*missing cannot be read"),
    ("FAIRLEAD_IDENTITY", "FOLDER/missing", "the issuers of FAIRLEAD_IDENTITY in .*missing cannot be read"),
    (
        "FAIRLEAD_MADE_KEYS",
        "FOLDER/missing/keys",
        "FAIRLEAD_MADE_KEYS is .*, which is not a file that the gateway can write",
    ),
    ("FAIRLEAD_MADE_KEYS", "FOLDER/file", "FAIRLEAD_MADE_KEYS is .*, which cannot be used"),
    ("FAIRLEAD_TLS_CERT", "FOLDER/missing", "FAIRLEAD_TLS_CERT cannot be used: cannot listen with TLS .*missing"),
    ("FAIRLEAD_CONTEXT_DIRECTORY", "FOLDER/file", "FAIRLEAD_CONTEXT_DIRECTORY is .*file, which cannot be used"),
    (
        "FAIRLEAD_AUDIT_FILE",
        "FOLDER/missing/audit.log",
        "FAIRLEAD_AUDIT_FILE is .*, which is not a file that the gateway can write",
    ),
    ("FAIRLEAD_AUDIT_FILE", "FOLDER/.", "FAIRLEAD_AUDIT_FILE is .*, which is not a file that the gateway can write"),
    (
        "FAIRLEAD_SEARCH_DIRECTORY",
        "FOLDER/file/vectors",
        "FAIRLEAD_SEARCH_DIRECTORY is .*, which is not a folder that",
    ),
    ("FAIRLEAD_KUBECONFIG", "FOLDER/missing", "missing cannot be used to connect to a cluster"),
    ("FAIRLEAD_AUDIT_REDACT", "a..b", "FAIRLEAD_AUDIT_REDACT: 'a..b' is not a path"),
    (
        "FAIRLEAD_DENIED_NETWORKS",
        "10.0.0.0/8,banana",
        "FAIRLEAD_DENIED_NETWORKS is 'banana'; it takes networks",
    ),
    ("FAIRLEAD_CALL_TIMEOUT", "-5", "FAIRLEAD_CALL_TIMEOUT is '-5'; it takes a number, above 0"),
]
"""Variable, value, and part of the error message. FOLDER contains a file `file`, but no `missing`."""


@pytest.mark.parametrize(
    ("variable", "value", "words"), PROCESSES, ids=[f"{name}-{value}" for name, value, _ in PROCESSES]
)
def test_a_gateway_process_ends_where_a_setting_cannot_be_used(
    tmp_path: Path, variable: str, value: str, words: str
) -> None:
    start_server()
    (tmp_path / "documents").mkdir()
    (tmp_path / "file").write_text("{")
    environ = {name: text for name, text in os.environ.items() if not name.startswith("FAIRLEAD_")}
    environ |= {"FAIRLEAD_PORT": "0", "FAIRLEAD_METRICS_PORT": "0", "FAIRLEAD_AUDIT": "off"}
    environ["FAIRLEAD_DOCUMENTS"] = "" if variable == "FAIRLEAD_KUBECONFIG" else str(tmp_path / "documents")
    if variable == "FAIRLEAD_MADE_KEYS":
        environ["FAIRLEAD_KEY_MAKERS"] = "*"
    if variable == "FAIRLEAD_AUDIT_FILE":
        environ["FAIRLEAD_AUDIT"] = "all"
    environ[variable] = value.replace("FOLDER", str(tmp_path))
    done = subprocess.run(
        [*FORKED, "-m", "fairlead_app"], env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1, done.stderr
    assert re.search(words, done.stderr), done.stderr
    assert "Traceback" not in done.stderr


def test_the_former_module_of_the_gateway_starts_it_and_warns(tmp_path: Path) -> None:
    environ = {**os.environ, "FAIRLEAD_DOCUMENTS": str(tmp_path / "missing"), "FAIRLEAD_PORT": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "fairlead_gateway"], env=environ, capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 1
    assert "DeprecationWarning: `python -m fairlead_gateway` is deprecated; write `fairlead gateway`" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("fairlead gateway: "), "it ran, as the program that it was"
