"""Links and references on the documentation's pages are valid."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from page_reader import blocks

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)")
_CODE = re.compile(r"```.*?```", re.DOTALL)
DATA = ("gateway/fairlead_servers/rules_lookup/rules/", "gateway/fairlead_servers/web_search/pages/")
"""Folders of Markdown files that are data of tool servers."""
SERVED = ("gateway/fairlead_console/static/",)
"""Files that are served to browsers."""


def pages() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=False)
    return sorted(listed.stdout.split()) or sorted(str(page.relative_to(ROOT)) for page in ROOT.glob("*.md"))


def test_every_link_of_a_page_leads_to_a_file() -> None:
    for page in pages():
        text = _CODE.sub("", (ROOT / page).read_text())
        missing = [link for link in _LINK.findall(text) if not (ROOT / page).parent.joinpath(link).exists()]
        assert missing == [], page


def test_every_page_lies_in_docs_but_for_those_that_others_show() -> None:
    elsewhere = {page for page in pages() if not page.startswith(("docs/", "tests/", *DATA))}
    assert elsewhere == {
        ".github/PULL_REQUEST_TEMPLATE.md",
        "CHANGELOG.md",
        "CODE_OF_CONDUCT.md",
        "CONTRIBUTING.md",
        "README.md",
        "SECURITY.md",
        "charts/fairlead/README.md",
    }


def test_no_package_of_the_wheel_holds_a_page_or_a_picture() -> None:
    """A wheel contains all files in its packages."""
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"][
        "packages"
    ]
    files = [str(path.relative_to(ROOT)) for package in packages for path in (ROOT / package).rglob("*.*")]
    assert [path for path in files if path.endswith((".md", ".svg")) and not path.startswith(DATA + SERVED)] == []


def test_upgrades_take_the_defaults_of_the_new_chart_and_take_values_back() -> None:
    reuse_values = re.compile(r"helm upgrade [^\n`]*--reuse-values")
    assert [page for page in pages() if reuse_values.search((ROOT / page).read_text("utf-8"))] == []


def test_commands_that_install_show_their_progress() -> None:
    for page in ("README.md", *(page for page in pages() if page.startswith("docs/"))):
        lines = "".join(blocks((ROOT / page).read_text(), "sh")).splitlines()
        assert [line for line in lines if re.search(r"install\b.* (-q|--quiet)\b", line)] == [], page


FORMATS = "tests/component/gateway/test_formats_readme.py"
SERVERS = "tests/component/servers/test_server_pages.py"
RUN_BY = {
    "README.md": ["tests/e2e/test_written_pages.py"],
    "docs/index.md": ["tests/contract/test_site.py"],
    "docs/install/cluster.md": ["tests/component/together/test_first_page.py", "tests/chart/test_readme.py"],
    "docs/connect/frameworks.md": ["tests/component/up/test_programs_of_pages.py"],
    "charts/fairlead/README.md": ["tests/e2e/test_written_pages.py", "tests/chart/test_readme.py"],
    "docs/connect/bedrock.md": ["tests/component/llm/test_bedrock_page.py"],
    "docs/connect/between-providers.md": ["tests/component/llm/test_between_turns.py"],
    "docs/connect/clients.md": ["tests/component/cli/test_connect_commands.py"],
    "docs/connect/gemini.md": [
        "tests/component/llm/test_gemini_page.py",
        "tests/component/up/test_programs_of_pages.py",
    ],
    "docs/connect/litellm.md": ["tests/component/up/test_litellm.py"],
    "docs/connect/messages.md": [
        "tests/component/llm/test_messages_page.py",
        "tests/component/up/test_programs_of_pages.py",
    ],
    "docs/install/two-releases.md": ["tests/chart/test_two_releases.py"],
    "docs/install/network-policies.md": ["tests/component/operator/test_network_probe.py"],
    "docs/operate/failed-servers.md": ["tests/component/up/test_failing_servers.py"],
    "docs/connect/plans.md": ["tests/component/offers/test_exposure.py"],
    "docs/operate/top.md": ["tests/component/cli/test_top.py"],
    "docs/connect/search.md": [
        "tests/component/rest/test_rest_search.py",
        "tests/component/up/test_programs_of_pages.py",
    ],
    "docs/try/trace-example.md": ["tests/component/up/test_traces_example.py"],
    "docs/try/voice-agent.md": ["tests/component/up/test_voice_example.py", "tests/e2e/test_samples.py"],
    "docs/connect/responses.md": [
        "tests/component/llm/test_responses_page.py",
        "tests/component/up/test_programs_of_pages.py",
    ],
    "docs/connect/router.md": ["tests/component/gateway/test_router.py"],
    "docs/operate/scores.md": ["tests/component/up/test_commands_of_pages.py"],
    "docs/try/tour.md": ["tests/component/up/test_tour.py"],
    "docs/configure/tool-server.md": ["tests/e2e/test_written_pages.py", "tests/component/up/test_tool_server_page.py"],
    "docs/connect/choosing-a-tier.md": ["tests/component/up/test_commands_of_pages.py"],
    "docs/configure/custom-tools.md": ["tests/component/gateway/test_custom_readme.py"],
    "docs/install/authentication.md": ["tests/component/gateway/test_identity_page.py"],
    "docs/configure/policies.md": ["tests/component/up/test_policies_page.py"],
    "docs/operate/traces.md": ["tests/component/up/test_commands_of_pages.py"],
    "docs/operate/server-lifecycle.md": ["tests/component/up/test_commands_of_pages.py"],
    "docs/configure/pinning.md": ["tests/component/together/test_pinned_definitions.py"],
}
"""Pages with commands, and the tests that run them."""
NOT_RUN = {
    "docs/configure/user-keys.md": "keys of a server of the reader's own; tests/component/up/test_user_keys_up.py runs "
    "its verbs",
    "docs/connect/sdks.md": "it runs a test by name",
    "docs/reference/rejected-requests.md": "it runs until it is ended; tests/component/up/test_llm_up.py starts it",
    "docs/performance/llm.md": "benchmarks of minutes; tests/unit/hack/test_bench_llm.py runs their parts",
    "CONTRIBUTING.md": "`.ci/run` runs the same lines",
    "docs/contribute/repository.md": "`.ci/run` runs the same lines",
    "docs/install/verify.md": "a published release; `hack/release --dry-run` verifies one that it signs with a key",
    "docs/contribute/releasing.md": "a quarter of an hour: a nightly job runs `hack/release --dry-run`",
    "docs/try/screen.md": "a file of the reader's own; tests/contract/test_screen_page.py compares page and code",
    "docs/operate/servers.md": "a server of the reader's own; tests/component/up/test_servers_up.py runs its verbs",
    "docs/configure/openapi.md": "a document of the reader's own; tests/component/up/test_openapi_up.py serves one",
    "docs/try/up.md": "a file of the reader's own; tests/unit/local/test_up_page.py reads its examples",
    "docs/performance/gateway.md": "benchmarks of a quarter of an hour; `--quick` runs in CI",
    "docs/performance/sign-ins.md": "benchmarks of minutes; tests/unit/hack/test_bench_sign_ins.py runs their parts",
    "docs/performance/doors.md": "a benchmark of minutes; tests/unit/hack/test_bench_doors.py runs its parts",
    "docs/performance/starts.md": "a benchmark; tests/component/hack/test_bench_starts.py runs a part of it",
    "docs/performance/operator.md": "benchmarks of minutes; tests/unit/hack/test_bench_operator.py runs their parts",
    "docs/contribute/compiled-code.md": "a compilation of minutes; CI runs `hack/test --compiled`",
    "docs/connect/python.md": "one `pip install`",
}


@pytest.mark.parametrize("page", pages())
def test_the_commands_of_a_page_are_run_by_a_test(page: str) -> None:
    if not re.search(r"^```(sh|bash|console)$", (ROOT / page).read_text(), re.MULTILINE):
        assert page not in RUN_BY.keys() | NOT_RUN.keys()
        return
    if page.startswith("docs/connect/formats/"):
        assert (ROOT / FORMATS).exists()
        return
    if page.startswith("docs/configure/servers/"):
        assert (ROOT / SERVERS).exists()
        return
    assert (page in RUN_BY) != (page in NOT_RUN), "say which test runs its commands, or why none does"
    for test in RUN_BY.get(page, ()):
        text = (ROOT / test).read_text() + _support_names(ROOT / test)
        assert Path(page).name in text
        assert Path(page).parent.name in text


def _support_names(test: Path) -> str:
    """Names that a test imports from modules of tests/support."""
    names = re.findall(r"^from (\w+) import", test.read_text(), re.MULTILINE)
    modules = [ROOT / "tests" / "support" / f"{name}.py" for name in names]
    return "".join(module.read_text() for module in modules if module.exists())
