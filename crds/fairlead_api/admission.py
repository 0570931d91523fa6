"""CEL of a ValidatingAdmissionPolicy that refuses at admission what the operator would refuse afterwards.

`python -m fairlead_api.admission [--check] FILE` writes `validations` and `variables` for the chart's policy, or says
that FILE is out of date. An expression gives a text of refused paths, each followed by a blank: CEL can join lists, and
not flatten them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from fairlead_api.podtemplates import (
    ADVICE,
    AFTER,
    ALLOWED,
    BEFORE,
    ROOT,
    Anything,
    AtLeast,
    Fields,
    Items,
    Node,
    OneOf,
    PodTemplateNames,
)

_HEADER: Final = "# Generated from crds/fairlead_api/podtemplates.py by hack/gen; do not edit.\n"


def policy() -> dict[str, Any]:
    """`variables` and `validations` of the policy, as in admissionregistration.k8s.io/v1."""
    template = "has(object.spec.podTemplate) ? object.spec.podTemplate : {}"
    # One variable for each field of the pod: an expression may cost the API server only so much.
    root, inner = ALLOWED, ALLOWED.members["spec"]
    if not isinstance(inner, Fields):
        raise TypeError("the table has no fields of a pod")
    parts = {f"of_{name}": (node, name) for name, node in inner.members.items() if not isinstance(node, Anything)}
    around = Fields({**root.members, "spec": Fields({**inner.members, **dict.fromkeys(inner.members, Anything())})})
    variables = [{"name": "template", "expression": template}]
    variables.append({"name": "of_fields", "expression": _paths(around, "variables.template", _text(ROOT), 0)})
    variables.append({"name": "pod", "expression": _pod()})
    for variable, (node, name) in parts.items():
        value = f"variables.pod[{_text(name)}]"
        paths = _paths(node, value, _text(f"{ROOT}.spec.{name}"), 0)
        variables.append({"name": variable, "expression": f"{_text(name)} in variables.pod ? {paths} : ''"})
    refused = " + ".join(["variables.of_fields", *(f"variables.{name}" for name in parts)])
    variables.append({"name": "refused", "expression": refused})
    message = f"{_text(BEFORE)} + variables.refused.split(' ')[0] + {_text(AFTER + ADVICE)}"
    validation = {"expression": "variables.refused == ''", "messageExpression": message, "reason": "Forbidden"}
    return {"variables": variables, "validations": [validation]}


def _pod() -> str:
    """The `spec` of the template, or an empty object where there is none that could be looked into."""
    template = "variables.template"
    found = f"type({template}) == map && 'spec' in {template} && type({template}.spec) == map"
    return f"{found} ? {template}.spec : {{}}"


def _text(text: str) -> str:
    """A literal of CEL."""
    return json.dumps(text)


def _paths(node: Node, value: str, path: str, depth: int) -> str:
    """Expression for the paths that are refused below `value`, which stands at `path`: both expressions."""
    refused, name = f"{path} + ' '", f"v{depth}"
    match node:
        case Anything():
            return "''"
        case OneOf(values=values):
            return f"({value} in {json.dumps(list(values))} ? '' : {refused})"
        case AtLeast(least=least):
            return f"(type({value}) == int && {value} >= {least} ? '' : {refused})"
        case PodTemplateNames(without=without):
            found = " || ".join(f"{name}.startsWith({_text(each)})" for each in without)
            names = f"{value}.filter({name}, {found}).map({name}, {path} + '.' + {name} + ' ').join('')"
            return f"(type({value}) != map ? {refused} : {names})"
        case Items(item=item):
            inside = f"{value}.map({name}, {_paths(item, name, _joined(path, '[*]'), depth + 1)}).join('')"
            return f"(type({value}) != list ? {refused} : {inside})"
        case Fields(members=members, removable=removable):
            known = json.dumps(list(members))
            parts = [f"{value}.filter({name}, !({name} in {known})).map({name}, {path} + '.' + {name} + ' ').join('')"]
            for member, inner in members.items():
                if not isinstance(inner, Anything):
                    at = f"{value}[{_text(member)}]"
                    paths = _paths(inner, at, _joined(path, f".{member}"), depth)
                    parts.append(f"({_text(member)} in {value} ? {paths} : '')")
            none = f"{value} == null ? '' : " if removable else ""
            return f"({none}type({value}) != map ? {refused} : {' + '.join(parts)})"


def _joined(path: str, more: str) -> str:
    """Two literals of CEL as one."""
    return json.dumps(json.loads(path) + more)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m fairlead_api.admission")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if FILE is out of date")
    parser.add_argument("file", type=Path)
    given = parser.parse_args(arguments)
    text = _HEADER + yaml.safe_dump(policy(), sort_keys=False, width=10_000)
    if given.check:
        current = given.file.read_text() if given.file.exists() else ""
        if current != text:
            sys.stderr.write(f"{given.file} is out of date: run hack/gen\n")
        return int(current != text)
    given.file.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
