"""Files made from the chart's values.yaml: values.schema.json, the table in its README, and the list of the values that
cannot be null. Run by hack/gen.

    python hack/charts/values.py [--check] charts/fairlead

Each key of values.yaml has a comment right above it, which describes it. A last line of the comment that begins with
`schema:` holds what the default cannot say, as a JSON schema in YAML; `type: object` there makes the key a leaf that
takes anything, `settings: operator|gateway` one that takes the settings of that component, each described by the
docstring under its field, `setting: COMPONENT.NAME` one that becomes that setting and is bound like it,
`like: TYPE` one that is bound like a type of `fairlead_api.setting_types`, `server: FIELD` like that field of an
McpServer's spec, `labels: true` and `annotations: true` as such are, `tiers: true` a list of LatencyTiers,
`providers: true` one that takes the file of routes and providers, and `authorizationServer: true` one that takes that
part of the identity file. Settings that the chart sets by itself are left out.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

import msgspec
import yaml

import fairlead_api.setting_types
import fairlead_api.v1alpha1.latencytier
import fairlead_api.v1alpha1.mcpserver.podtemplate
import fairlead_api.v1alpha1.names
import fairlead_app.settings
import fairlead_operator.settings
from fairlead_api.attribute_docstrings import attribute_docstrings
from fairlead_api.environment import EnvironmentSettings
from fairlead_gateway.identity.authorization_server import AuthorizationServer
from fairlead_models.cascaded_engines import CascadedProvider
from fairlead_models.providers import Provider

Json = dict[str, Any]
SETTINGS: Final[dict[str, type[EnvironmentSettings]]] = {
    "operator": fairlead_operator.settings.Settings,
    "gateway": fairlead_app.settings.Settings,
}
_TIERS: Final = Path("crds/fairlead.dev_latencytiers.yaml")
_SERVERS: Final = Path("crds/fairlead.dev_mcpservers.yaml")
_RESOURCES: Final = "^(cpu|memory|ephemeral-storage|hugepages-.+|[a-z0-9.-]+/.+)$"
_ROUTES: Final = {
    "routes": "Named lists of models, tried in order.",
    "models": "What models of yours hold, in tokens.",
    "liveModels": "A server that tells what its models hold.",
}


def _secret(description: str, held: str) -> Json:
    """Schema of a key of a Secret. `held` says what the Secret contains."""
    return {
        "type": "object",
        "additionalProperties": False,
        "description": description,
        "required": ["name", "key"],
        "properties": {
            "name": {"type": "string", "minLength": 1, "description": "Name of the Secret."},
            "key": {"type": "string", "minLength": 1, "description": f"Its key that holds {held}."},
        },
    }


_KEY_SECRET: Final = _secret(
    "Key of a Secret of yours in the namespace of the release, in place of `keyEnv` and `keyFile`.",
    "the provider's key",
)
_CLIENT_SECRET: Final = _secret(
    "Key of a Secret of yours in the namespace of the release; without it the client is public and has PKCE alone.",
    "the client's secret",
)
BEGIN: Final = "<!-- values: made by hack/gen from values.yaml -->"
END: Final = "<!-- end of values -->"
NEEDED: Final = "files/needed-values.txt"
"""Paths of the values that cannot be null, one a line, each section before its members."""
_KEYWORDS: Final = ("setting", "like", "server", "labels", "annotations")
_MATCHES: Final = re.compile(r"self\.matches\(r?'([^']+)'\)")
_KEY: Final = re.compile(r"( *)([A-Za-z][\w-]*):( |$)")
_NUMBERS: Final = {"ge": "minimum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum", "le": "maximum"}
_LENGTHS: Final = {"min_length": "minLength", "max_length": "maxLength", "pattern": "pattern"}
_ITEMS: Final = {"min_length": "minItems", "max_length": "maxItems"}


class Unclear(Exception):
    """A file does not allow the result to be generated. The message names the place."""


@dataclass(frozen=True)
class Value:
    """One key of values.yaml."""

    path: tuple[str, ...]
    description: str
    extra: Json
    default: Any


def values(text: str) -> Iterator[Value]:
    """All keys with a description, in order. Raises Unclear for a scalar without one."""
    defaults = yaml.load(text, yaml.CSafeLoader)
    stack: list[tuple[int, str]] = []
    comment: list[str] = []
    leaf: int | None = None
    for number, line in enumerate(text.splitlines(), 1):
        indent = len(line) - len(line.lstrip())
        if not line.strip():
            comment = []
        elif line.lstrip().startswith("#"):
            comment.append(line.lstrip().removeprefix("#").strip())
        elif (leaf is None or indent <= leaf) and (match := _KEY.match(line)):
            stack = [(depth, key) for depth, key in stack if depth < indent] + [(indent, match[2])]
            path = tuple(key for _, key in stack)
            value = _value(path, comment, defaults)
            if not value.description and not isinstance(value.default, dict):
                raise Unclear(f"line {number}: {'.'.join(path)} has no comment that describes it")
            leaf = indent if _is_leaf(value) else None
            comment = []
            yield value


def _value(path: tuple[str, ...], comment: list[str], defaults: Any) -> Value:
    extra: Json = {}
    words = comment
    if comment and comment[-1].startswith("schema:"):
        extra = yaml.safe_load(comment[-1].removeprefix("schema:"))
        words = comment[:-1]
    for key in path:
        defaults = defaults[key]
    return Value(path, " ".join(words), extra, defaults)


def _is_leaf(value: Value) -> bool:
    return not isinstance(value.default, dict) or not value.default or "type" in value.extra


def _is_needed(value: Value) -> bool:
    """Whether templates need the value, so that null is refused: a section, a switch, a number, a text with a default.
    For other values null is as empty.
    """
    if not _is_leaf(value):
        return True
    default = value.default
    return isinstance(default, bool | int | float) or bool(default and (isinstance(default, str) or _is_filled(value)))


def _is_filled(value: Value) -> bool:
    return bool(value.extra.get("minItems"))


def schema(all_values: list[Value]) -> Json:
    """The JSON schema of all values."""
    root: Json = _mapping("Values of the chart fairlead")
    root = {"$schema": "http://json-schema.org/draft-07/schema#", **root}
    root["properties"]["global"] = {"type": "object", "description": "What Helm gives to every chart; nothing is read"}
    for value in all_values:
        node = root
        for key in value.path[:-1]:
            node = node["properties"][key]
        node["properties"][value.path[-1]] = _property(value)
    return root


def _property(value: Value) -> Json:
    if "settings" in value.extra:
        made = _mapping(value.description)
        made["properties"] = settings(value.extra["settings"])
        return made
    if "providers" in value.extra:
        made = _mapping(value.description)
        made["properties"] = {
            key: {"type": "object", "description": description} for key, description in _ROUTES.items()
        }
        made["properties"]["providers"] = providers()
        return made
    if not _is_leaf(value):
        return _mapping(value.description)
    if "authorizationServer" in value.extra:
        return {**authorization_server(), "description": value.description, "default": value.default}
    if "tiers" in value.extra:
        return {"type": "array", "description": value.description, "default": value.default, "items": _tier()}
    bounds = _bounds_of(value)
    extra = {name: word for name, word in value.extra.items() if name not in _KEYWORDS}
    kind = extra.get("type") or _type(value.default)
    return {"type": kind, "description": value.description, "default": value.default, **bounds, **extra}


def _tier() -> Json:
    """Schema of a LatencyTier with its name, according to its CRD."""
    name: Json = {"type": "string", "pattern": fairlead_api.v1alpha1.latencytier.NAME_PATTERN}
    made: Json = {"type": "object", "required": ["name", "spec"], "additionalProperties": False}
    return {**made, "properties": {"name": name, "spec": _plain(_spec_of(_TIERS), strict=True)}}


def _spec_of(definition: Path) -> Json:
    """The structural schema of a kind's spec."""
    versions: Json = yaml.load(definition.read_text(), yaml.CSafeLoader)["spec"]["versions"][0]
    spec: Json = versions["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return spec


def _plain(structural: Json, *, strict: bool) -> Json:
    """Convert a structural schema to a JSON schema. A strict one refuses unknown members. Otherwise they are left to
    the API server, which may be newer.
    """
    made = {name: value for name, value in structural.items() if not name.startswith("x-kubernetes-")}
    if structural.get("x-kubernetes-int-or-string"):
        made["type"] = ["integer", "number", "string"]  # `cpu: 0.5`: Kubernetes also accepts numbers with fractions
    if structural.get("x-kubernetes-list-type") in ("set", "map"):
        made["uniqueItems"] = True
    rules = structural.get("x-kubernetes-validations", ())
    for rule in rules:
        if structural.get("type") == "string" and (match := _MATCHES.match(rule["rule"])):
            made["pattern"] = match[1]
    if made.get("pattern") == fairlead_api.v1alpha1.mcpserver.podtemplate.IP_PATTERN:
        made = _in_words(made, "an IP address, such as 10.96.0.10 or fd00::10")
    if "properties" in made:
        members = {name: value for name, value in made["properties"].items() if not _is_moved(value)}
        made["properties"] = {name: _plain(value, strict=strict) for name, value in members.items()}
        if strict:
            made.setdefault("additionalProperties", False)
    for name in ("items", "additionalProperties"):
        if isinstance(made.get(name), dict):
            made[name] = _plain(made[name], strict=strict)
    return made


def _is_moved(structural: Json) -> bool:
    """Whether a deprecated member only names its new location."""
    return any(rule["rule"] == "false" for rule in structural.get("x-kubernetes-validations", ()))


def _named(pattern: str, values_are: Json) -> Json:
    """Schema of an object whose member names match this pattern. `propertyNames` is not used, because helm then names
    the wrong place.
    """
    return {"patternProperties": {pattern: values_are}, "additionalProperties": False}


def _server_field(path: str) -> Json:
    """The schema of a field of an McpServer's spec, such as `podTemplate.spec.tolerations`."""
    field = _spec_of(_SERVERS)
    for name in path.split("."):
        field = field["properties"][name] if "properties" in field else field["items"]["properties"][name]
    made = _plain(field, strict=False)
    if path == "resources":  # its members are named by a rule in the CRD
        for amounts in made["properties"].values():
            amounts |= _named(_RESOURCES, amounts["additionalProperties"])
        claims = {"type": "object", "required": ["name"]}
        made["properties"]["claims"] = {"type": "array", "description": "Devices.", "items": claims}
    return made


def _bounds_of(value: Value) -> Json:
    """Schema of the setting, type or field that limits a value. Raises Unclear."""
    if value.extra.get("labels") or value.extra.get("annotations"):
        text: Json = {"type": "string"}
        if "labels" in value.extra:
            text |= {"maxLength": 63, "pattern": fairlead_api.v1alpha1.names.LABEL_VALUE_PATTERN}
        return _named(fairlead_api.v1alpha1.names.QUALIFIED_PATTERN, text)
    if "server" in value.extra:
        return _server_field(value.extra["server"])
    if "setting" in value.extra:
        component, name = value.extra["setting"].split(".")
        kinds = {each: kind for each, kind, _ in fields(SETTINGS[component])}
        if name not in kinds:
            raise Unclear(f"{'.'.join(value.path)}: {component} has no setting {name}")
        return kinds[name]
    if "like" in value.extra:
        return schema_of(getattr(fairlead_api.setting_types, value.extra["like"]))
    return {}


def _mapping(description: str) -> Json:
    made: Json = {"type": "object", "additionalProperties": False, "properties": {}}
    return {"description": description, **made} if description else made


def _type(default: Any) -> str:
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return kinds[type(default)]


def settings(component: str) -> Json:
    """JSON schemas of those settings of `operator` or `gateway` that a user may set, by name in camelCase."""
    taken = _set_by_the_chart(component)
    described: Json = {}
    for name, kind, text in fields(SETTINGS[component]):
        if f"FAIRLEAD_{name.upper()}" not in taken:
            described[camel_case(name)] = {**kind, "description": text or f"FAIRLEAD_{name.upper()}"}
    return described


def providers() -> Json:
    """Schema of the model providers by name, as the gateway reads them, with keys from Secrets."""
    made = _mapping("Where models are: by name, with the form of the API and the key.")
    del made["properties"]
    each = _mapping("One API of models.")
    each["required"] = ["baseUrl"]
    for name, kind, text in fields(Provider):
        each["properties"][camel_case(name)] = {**kind, "description": text}
    each["properties"]["keySecret"] = _KEY_SECRET
    engine = _mapping("One cascaded engine of speech.")
    engine["required"] = ["kind", "stt", "llm", "tts"]
    for name, kind, text in fields(CascadedProvider):
        engine["properties"][camel_case(name)] = {**kind, "description": text}
    for part in ("stt", "tts"):
        engine["properties"][part]["properties"]["keySecret"] = _KEY_SECRET
    is_engine = {"properties": {"kind": {"const": "cascaded"}}, "required": ["kind"]}
    either = {"if": is_engine, "then": engine, "else": each}
    return {**made, "propertyNames": {"pattern": "^[a-z0-9][a-z0-9-]{0,62}$"}, "additionalProperties": either}


def authorization_server() -> Json:
    """Schema of the authorization server's configuration, as the gateway reads it, with its clients' secrets from
    Secrets.
    """
    made = _struct(AuthorizationServer)
    members = made["properties"]
    provider = members["providers"]["items"]["properties"]
    del provider["clientSecretFile"]
    provider["clientSecret"] = _CLIENT_SECRET
    members["providers"]["items"]["required"] = ["issuer", "clientId"]
    members["clients"]["items"]["required"] = ["id", "redirectUris"]
    members["registration"]["required"] = ["redirectHosts"]
    return made


def fields(struct: type[msgspec.Struct]) -> Iterator[tuple[str, Json, str]]:
    """Fields of a class, including those of its groups of settings: name, schema and docstring in one line. A setting
    is named by its environment variable.
    """
    yield from own_fields(struct)
    for field in msgspec.structs.fields(struct):
        if _is_group(field.type):
            yield from fields(field.type)


def own_fields(struct: type[msgspec.Struct]) -> Iterator[tuple[str, Json, str]]:
    """Like `fields`, without those of groups of settings."""
    texts: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        if base.__module__.startswith("fairlead"):
            texts |= attribute_docstrings(base)
    for field in msgspec.structs.fields(struct):
        if not _is_group(field.type):
            name = field.encode_name if _is_group(struct) else field.name
            yield name, schema_of(field.type), " ".join(texts.get(field.name, "").split())


def groups(settings: type[EnvironmentSettings]) -> Iterator[type[EnvironmentSettings]]:
    """A group of settings and its subgroups, in their order."""
    yield settings
    for field in msgspec.structs.fields(settings):
        if _is_group(field.type):
            yield from groups(field.type)


def _is_group(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, EnvironmentSettings)


def camel_case(name: str) -> str:
    """Name of a setting in the chart's values: camelCase."""
    first, *others = name.split("_")
    return first + "".join(word.title() for word in others)


def _set_by_the_chart(component: str) -> set[str]:
    """Environment variables that the templates set, and those that make no sense in a pod."""
    written = Path(f"charts/fairlead/templates/{component}/_env.tpl").read_text()
    elsewhere = {
        "operator": {"KUBECONFIG", "IDENTITY", "METRICS_PORT"},
        "gateway": {"KUBECONFIG", "DOCUMENTS", "CREDENTIALS", "PORT", "METRICS_PORT"},
    }[component]
    return set(re.findall(r"FAIRLEAD_[A-Z_]+", written)) | {f"FAIRLEAD_{name}" for name in elsewhere}


def schema_of(kind: Any) -> Json:
    """The JSON schema of a type."""
    if get_origin(kind) in (Union, UnionType):
        return schema_of(get_args(kind)[0])
    if get_origin(kind) is Literal:  # in source order, which msgspec does not keep
        return {"enum": list(get_args(kind))} if len(get_args(kind)) > 1 else {"const": get_args(kind)[0]}
    return _of(msgspec.inspect.type_info(kind))


def _of(info: msgspec.inspect.Type) -> Json:
    match info:
        case msgspec.inspect.Metadata():
            return _expecting(_of(info.type), info.extra)
        case msgspec.inspect.AnyType():
            return {}
        case msgspec.inspect.BoolType():
            return {"type": "boolean"}
        case msgspec.inspect.IntType():
            return {"type": "integer", **_bounds(info, _NUMBERS)}
        case msgspec.inspect.FloatType():
            return {"type": "number", **_bounds(info, _NUMBERS)}
        case msgspec.inspect.StrType():
            return {"type": "string", **_bounds(info, _LENGTHS)}
        case msgspec.inspect.CustomType(cls=cls) if cls is Path:
            return {"type": "string"}
        case msgspec.inspect.LiteralType():
            return {"enum": list(info.values)}
        case msgspec.inspect.VarTupleType():
            return {"type": "array", "items": _of(info.item_type), **_bounds(info, _ITEMS)}
        case msgspec.inspect.DictType():
            return {"type": "object", "additionalProperties": _of(info.value_type)}
        case msgspec.inspect.StructType():
            return _struct(info.cls)
    raise Unclear(f"settings: no schema is known for the type {info}")


def _expecting(text: Json, extra: Mapping[str, Any] | None) -> Json:
    """Schema of a text whose type describes the valid values in words. Helm prints these words instead of the pattern.
    They are the constant of a branch that only invalid texts reach, because JSON Schema has no error messages.
    """
    rule = (extra or {}).get(fairlead_api.setting_types.RULE)
    return _in_words(text, rule.expected) if rule is not None and "pattern" in text else text


def _in_words(text: Json, expected: str) -> Json:
    others = {name: word for name, word in text.items() if name != "pattern"}
    return {**others, "if": {"pattern": text["pattern"]}, "else": {"const": expected}}


def _bounds(info: msgspec.inspect.Type, keywords: Mapping[str, str]) -> Json:
    return {word: bound for name, word in keywords.items() if (bound := getattr(info, name)) is not None}


def _struct(struct: type[msgspec.Struct]) -> Json:
    """The schema of an object with the members of a class."""
    members = {camel_case(each): {**kind, "description": text} for each, kind, text in fields(struct)}
    return {"type": "object", "additionalProperties": False, "properties": members}


def table(all_values: list[Value]) -> str:
    """Markdown table of each value, its default and its description."""
    rows = ["| value | default | what it is |", "|---|---|---|"]
    for value in all_values:
        if not _is_leaf(value):
            continue
        default = json.dumps(value.default, ensure_ascii=False)
        shown = default if len(default) < 40 else "see values.yaml"
        words = value.description.replace("|", "\\|")
        choices = _property(value).get("enum")
        rows.append(f"| `{'.'.join(value.path)}` | `{shown}` | {words}{_choices(choices)} |")
    for component in SETTINGS:
        rows += ["", f"### `{component}.settings`", "", "| setting | what it is |", "|---|---|"]
        for name, description in settings(component).items():
            rows.append(f"| `{name}` | {description['description'].replace('|', chr(92) + '|')} |")
    return "\n".join(rows)


def _choices(choices: list[str] | None) -> str:
    return f" One of {', '.join(f'`{choice}`' for choice in choices)}." if choices else ""


def made(chart: Path) -> dict[Path, str]:
    """Content of all generated files by path. Raises Unclear."""
    all_values = list(values((chart / "values.yaml").read_text()))
    readme = chart / "README.md"
    before, begin, rest = readme.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise Unclear(f"{readme}: the table goes between {BEGIN} and {END}")
    return {
        chart / "values.schema.json": json.dumps(schema(all_values), indent=2, ensure_ascii=False) + "\n",
        chart / NEEDED: "".join(f"{'.'.join(value.path)}\n" for value in all_values if _is_needed(value)),
        readme: f"{before}{BEGIN}\n\n{table(all_values)}\n\n{END}{after}",
    }


def main() -> int:
    """Write or check the files, and return the exit code."""
    *flags, chart = sys.argv[1:]
    failed = 0
    try:
        for path, content in made(Path(chart)).items():
            if "--check" not in flags:
                path.write_text(content)
            elif not path.exists() or path.read_text() != content:
                print(f"{path} is not as generated", file=sys.stderr)
                failed = 1
    except Unclear as error:
        print(error, file=sys.stderr)
        return 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
