"""The tests that `hack/test --changed` selects."""

from __future__ import annotations

from pathlib import Path

import pytest

from affected_tests import choose, distances, imports_of, module_of

TEXTS = {
    Path("gateway/pack/__init__.py"): "",
    Path("gateway/pack/core.py"): "",
    Path("gateway/pack/path.py"): "from pack import core",
    Path("gateway/pack/app.py"): "from .path import call",
    Path("tests/support/world.py"): "import pack.app",
    Path("tests/unit/test_core.py"): "from pack.core import something",
    Path("tests/unit/test_path.py"): "from pack.path import call",
    Path("tests/component/test_world.py"): "from world import running",
    Path("tests/contract/test_page.py"): 'PAGE = "docs/page-of-it.md"',
}


def test_a_test_is_as_far_from_a_change_as_its_imports_lead() -> None:
    assert {file.name: far for file, far in distances(TEXTS, [Path("gateway/pack/core.py")]).items()} == {
        "core.py": 0,
        "path.py": 1,
        "test_core.py": 1,
        "app.py": 2,
        "test_path.py": 2,
        "world.py": 3,
        "test_world.py": 4,
    }


def test_a_page_is_reached_by_the_test_that_names_it() -> None:
    nearest = distances(TEXTS, [Path("docs/page-of-it.md")])
    assert [file.name for file in nearest if file.suffix == ".py"] == ["test_page.py"]


def test_a_changed_package_reaches_all_that_import_its_modules() -> None:
    nearest = distances(TEXTS, [Path("gateway/pack/__init__.py")])
    assert nearest[Path("tests/unit/test_core.py")] == 1


@pytest.mark.parametrize(
    ("text", "module", "package", "names"),
    [
        ("from . import b", "pack.a", False, {"pack", "pack.b"}),
        ("from .b import c", "pack", True, {"pack", "pack.b", "pack.b.c"}),
        ("from ..d import e", "pack.sub.a", False, {"pack", "pack.d", "pack.d.e"}),
    ],
)
def test_relative_imports_are_resolved(text: str, module: str, package: bool, names: set[str]) -> None:
    assert set(imports_of(text, module, package=package)) == names


def test_the_nearest_tests_are_chosen_within_the_budget_and_a_changed_one_always() -> None:
    nearest = {Path("tests/test_a.py"): 0, Path("tests/test_b.py"): 2, Path("tests/test_c.py"): 1, Path("x/core.py"): 0}
    seconds = {"tests/test_a.py": 500.0, "tests/test_b.py": 9.0, "tests/test_c.py": 9.0}
    assert choose(nearest, seconds, 10.0)[0] == [Path("tests/test_a.py")]
    assert choose(nearest, seconds, 510.0) == (
        [Path("tests/test_a.py"), Path("tests/test_c.py")],
        [Path("tests/test_b.py")],
    )


def test_a_module_is_named_below_the_folder_that_is_on_the_path() -> None:
    assert module_of(Path("gateway/fairlead_mcp/http/pool.py")) == "fairlead_mcp.http.pool"
    assert module_of(Path("hack/benchmarks/llm/__init__.py")) == "llm"
