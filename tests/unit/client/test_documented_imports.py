"""Documented imports: current imports do not warn; former imports work and warn with the name of the new import."""

from __future__ import annotations

import subprocess
import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, assert_type

import pytest

import fairlead_client
import fairlead_gateway
from fairlead_gateway import toolregistry

MOVED = ["AsyncToolRegistry", "Request", "Retry", "Server", "ToolRegistry", "parallel_with_limit"]
OWN = ["Context", "CustomTool", "CustomTools", "tool"]


def imported_object(name: str, module: str) -> object:
    """The object that `from module import name` imports."""
    world: dict[str, object] = {}
    exec(f"from {module} import {name}", world)  # noqa: S102  # our own line
    return world[name]


@pytest.mark.parametrize(
    ("module", "name"),
    [
        *(("fairlead_gateway", name) for name in MOVED),
        *(("fairlead_gateway.toolregistry", name) for name in fairlead_client.__all__),
    ],
)
def test_a_former_import_works_and_names_the_new_one_once(
    module: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(vars(import_module(module)), name, raising=False)
    with pytest.warns(DeprecationWarning, match=name) as warnings_seen:
        assert imported_object(name, module) is getattr(fairlead_client, name)

    text = f"`from {module} import {name}` is deprecated; write `from fairlead_client import {name}`"
    assert [str(warning.message) for warning in warnings_seen] == [text]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert imported_object(name, module) is getattr(fairlead_client, name)


@pytest.mark.parametrize("name", OWN)
def test_an_import_for_tools_that_a_gateway_serves_does_not_warn(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        imported = imported_object(name, "fairlead_gateway")
    assert imported is getattr(import_module(f"fairlead_tools.handlers.{imported.__module__.rsplit('.', 1)[1]}"), name)


@pytest.mark.parametrize("name", ["Context", "CustomTool", "tool"])
def test_agents_find_what_their_own_tools_need_beside_the_registry(name: str) -> None:
    assert imported_object(name, "fairlead_client") is imported_object(name, "fairlead_gateway")


@pytest.mark.parametrize("module", [fairlead_gateway, toolregistry])
def test_an_unknown_name_is_not_an_attribute(module: object) -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        getattr(module, "Nothing")  # noqa: B009  # mypy knows that there is none


def test_a_script_reads_the_warning_at_its_own_line(tmp_path: Path) -> None:
    script = tmp_path / "agent.py"
    script.write_text("import sys\nfrom fairlead_gateway import ToolRegistry\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=50, check=True)

    assert done.stderr.splitlines()[0] == (
        f"{script}:2: DeprecationWarning: `from fairlead_gateway import ToolRegistry` is deprecated; "
        "write `from fairlead_client import ToolRegistry`"
    )


def test_type_checkers_see_former_imports_with_their_types() -> None:
    """`hack/check` runs mypy on this file, which is the actual test."""
    if TYPE_CHECKING:
        assert_type(fairlead_gateway.ToolRegistry().tools, tuple[fairlead_client.Tool, ...])
        assert_type(fairlead_gateway.Retry(), fairlead_client.Retry)
        assert_type(toolregistry.BadServer("x"), fairlead_client.BadServer)


def test_the_gateway_does_not_load_the_client_before_it_is_asked_for() -> None:
    program = "import sys, fairlead_gateway; print([m for m in ('pydantic', 'asyncio') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout.strip() == "[]"
