"""`hack/prose.py` reports each line where a name or sentence breaks a rule, and no other lines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[3] / "hack" / "prose.py"
SETTINGS = '"""Settings."""\n\n\nclass Settings: ...\n'
SERVERS = '"""Servers and their tools."""\n\n\nclass Server: ...\n\n\nclass Tool: ...\n'
TREE = {
    "operator/settings.py": SETTINGS,
    "gateway/settings.py": SETTINGS,
    "gateway/client.py": SERVERS,
    "gateway/core.py": SERVERS,
    "CHANGELOG.md": "# Changelog\n",
}
"""A tree without findings, in which each class that may be defined twice is defined twice."""


def run_check(folder: Path, files: dict[str, str]) -> tuple[int, list[str]]:
    """Exit code and printed lines of the program in a tree with these files."""
    for name, text in (TREE | files).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    ended = subprocess.run([sys.executable, PROGRAM], cwd=folder, capture_output=True, text=True, check=False)
    assert ended.stderr == ""
    return ended.returncode, ended.stdout.splitlines()


def test_good_prose_passes(tmp_path: Path) -> None:
    text = '"""Connection pools of one server (RFC 9110)."""\n\n\ndef pool() -> None:\n    """Servers once seen."""\n'
    assert run_check(tmp_path, {"crds/good.py": text}) == (0, [])


def test_each_kind_of_docstring_is_read_with_its_line(tmp_path: Path) -> None:
    text = (
        '"""What a module is."""\n\nLIMIT = 1\n"""Of one agent."""\n\n\nclass Pool:\n    """See the module."""\n\n'
        '    async def get(self) -> None:\n        """The same."""\n'
    )
    code, lines = run_check(tmp_path, {"gateway/a/b.py": text})
    assert code == 1
    assert [line.split(";")[0] for line in lines] == [
        'gateway/a/b.py:1: a docstring opens with "What"',
        'gateway/a/b.py:4: a docstring opens with "Of"',
        'gateway/a/b.py:8: a docstring opens with "See the module"',
        'gateway/a/b.py:11: a docstring opens with "The same"',
    ]
    assert lines[0].endswith(
        "begin with a noun or a verb that says what the thing is, in a sentence that needs no other line"
    )


def test_a_claim_about_callers_is_named_at_its_own_line(tmp_path: Path) -> None:
    text = '"""Rates.\n\nPure module.\nUsed by the limiter.\n"""\n'
    assert run_check(tmp_path, {"hack/rates.py": text})[1] == [
        'hack/rates.py:4: a docstring says "used by"; say what the thing does and leave callers to imports and tests'
    ]


def test_a_claim_about_makers_begins_a_sentence(tmp_path: Path) -> None:
    text = '"""Rates, made by hand.\n\nMade by `app`. Told by `pages`.\n"""\n'
    assert [line.split(";")[0] for line in run_check(tmp_path, {"hack/rates.py": text})[1]] == [
        'hack/rates.py:3: a docstring says "made by"'
    ]


def test_vague_parties_are_findings_in_comments_and_messages_too(tmp_path: Path) -> None:
    text = 'raise SystemExit("whoever asks")  # Whoever it was\nwho = "ever"\n'
    assert [line.split(";")[0] for line in run_check(tmp_path, {"tests/support/a.py": text})[1]] == [
        'tests/support/a.py:1: "whoever"'
    ]


def test_a_literal_is_not_a_docstring(tmp_path: Path) -> None:
    assert run_check(tmp_path, {"operator/a.py": 'TEXT = "What is used by nobody"\nprint("Of all")\n'}) == (0, [])


def test_a_class_name_means_one_thing_in_all_packages(tmp_path: Path) -> None:
    quota = '"""Quotas."""\n\n\nclass Quota: ...\n'
    code, lines = run_check(tmp_path, {"crds/a.py": quota, "gateway/b.py": quota, "hack/c.py": quota})
    assert (code, lines) == (
        1,
        [
            (
                "crds/a.py:4: class Quota is defined in gateway/b.py:4 too; give each meaning a name of its own, "
                "the field's (docs/reference/glossary.md)"
            )
        ],
    )


def test_a_name_that_may_be_defined_twice_has_to_be(tmp_path: Path) -> None:
    assert run_check(tmp_path, {"gateway/settings.py": ""})[1] == [
        "hack/prose.py: TWICE allows class Settings, which is not defined twice; take it out",
    ]


def test_retired_names_in_clean_packages_are_findings_wherever_they_are_defined(tmp_path: Path) -> None:
    text = (
        '"""Rates."""\n\nfound = 1\n\n\nclass Rates:\n    kept: int = 0\n\n    def said(self, one: int) -> None:\n'
        "        self._known = [place for place in ()]\n        match one:\n            case [news, *book]: ...\n"
        "        try: ...\n        except OSError as asked: ...\n"
    )
    code, lines = run_check(tmp_path, {"crds/rates.py": text})
    assert code == 1
    names = ["3: found", "7: kept", "9: one", "9: said", "10: _known", "10: place", "12: book", "12: news", "14: asked"]
    assert [line.split(" is a retired")[0].replace('"', "") for line in lines] == [
        f"crds/rates.py:{name}" for name in names
    ]


def test_odd_negations_in_clean_packages_are_findings(tmp_path: Path) -> None:
    text = 'WHY = "it is no URL"  # made anew\nGOOD = "there is no URL, and it is no longer needed"\n'
    assert [line.split(";")[0] for line in run_check(tmp_path, {"crds/a.py": text, "gateway/b.py": text})[1]] == [
        'crds/a.py:1: "is no"'
    ]


def test_test_names_without_a_subject_are_findings(tmp_path: Path) -> None:
    text = (
        "def test_what_is_left_out_is_counted(): ...\ndef test_a_url_is_no_path(): ...\n"
        "def test_documents_are_written_anew(): ...\ndef test_whatsapp_is_not_a_pronoun(): ...\n"
    )
    assert [line.split(";")[0] for line in run_check(tmp_path, {"tests/unit/test_a.py": text})[1]] == [
        "tests/unit/test_a.py:1: test_what_is_left_out_is_counted",
        "tests/unit/test_a.py:2: test_a_url_is_no_path",
        "tests/unit/test_a.py:3: test_documents_are_written_anew",
    ]


def test_retired_words_within_a_name_and_in_other_packages_pass(tmp_path: Path) -> None:
    text = '"""Rates."""\n\nfrom a import known\n\nknown_names = known.place\n'
    other = '"""Rates."""\n\nfound = 1\n'
    assert run_check(tmp_path, {"crds/rates.py": text, "gateway/fairlead_other/rates.py": other}) == (0, [])


def test_an_entry_of_the_changelog_is_one_line_of_25_words(tmp_path: Path) -> None:
    fits = "- " + " ".join(["word"] * 25)
    text = f"# Changelog\n\n{fits}\n{fits} more\n- two\n  lines\n\nA paragraph of any length is no entry.\n"
    assert [line.split(";")[0] for line in run_check(tmp_path, {"CHANGELOG.md": text})[1]] == [
        "CHANGELOG.md:4: an entry of 26 words",
        "CHANGELOG.md:6: an entry goes on here",
    ]


def test_backticked_name_that_only_docstrings_have_is_stale(tmp_path: Path) -> None:
    text = '"""Opens `Pool.lease`; `Pool.borrow` is older."""\n\n\nclass Pool:\n    def lease(self) -> None: ...\n'
    assert run_check(tmp_path, {"crds/pool.py": text}) == (
        1,
        ["crds/pool.py:1: `Pool.borrow`: the tree has no borrow; write the name that it has now"],
    )


def test_backticked_name_may_be_a_key_of_a_page_or_manifest(tmp_path: Path) -> None:
    text = '"""Reads `spec.burstLimit`."""\n\nspec = 1\n'
    assert run_check(tmp_path, {"crds/limits.py": text, "docs/limits.md": "`burstLimit: 60`\n"}) == (0, [])
