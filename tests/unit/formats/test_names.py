"""Names for providers: valid, unique and deterministic; suggestions for a wrong name."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fairlead_formats.names import SAFE, Names, suggest_name

ANY_NAMES = st.lists(st.one_of(st.text(max_size=90), st.text("ab._-/", max_size=70)), max_size=12)


@given(ANY_NAMES)
def test_every_name_maps_to_a_safe_one_and_back(originals: list[str]) -> None:
    names = Names(originals)
    assert {names.original_name(names.safe_name(name)) for name in originals} == set(originals)
    assert all(SAFE.match(names.safe_name(name)) for name in originals)
    assert len(names.originals) == len(set(originals))


@given(ANY_NAMES)
def test_the_mapping_does_not_depend_on_the_order(originals: list[str]) -> None:
    assert Names(originals) == Names(reversed(originals))
    assert list(Names(originals).forward) == list(Names(reversed(originals)).forward)


def test_a_safe_name_keeps_itself_even_when_another_would_shorten_to_it() -> None:
    names = Names(["a.b", "a_b"])
    assert names.safe_name("a_b") == "a_b"
    assert names.safe_name("a.b").startswith("a_b_")


def test_a_dot_becomes_an_underscore() -> None:
    assert Names(["files.read"]).safe_name("files.read") == "files_read"


def test_a_leading_digit_or_underscore_gets_a_letter_before_it() -> None:
    names = Names(["2d_plot", "_private"])
    assert (names.safe_name("2d_plot"), names.safe_name("_private")) == ("t_2d_plot", "private")


def test_a_name_without_one_safe_character_gets_a_hash_of_its_own() -> None:
    alone = Names(["必应"])
    together = Names(["必应", "搜索"])
    assert alone.safe_name("必应") == together.safe_name("必应") != together.safe_name("搜索")


def test_two_long_names_of_one_beginning_stay_two() -> None:
    first = "x" * 70
    second = "x" * 71
    names = Names([first, second])
    assert names.safe_name(first) != names.safe_name(second)
    assert len(names.safe_name(first)) == 64


def test_an_unknown_safe_name_has_no_original() -> None:
    assert Names(["a"]).original_name("b") is None
    assert "b" not in Names(["a"])


def test_a_slip_of_the_keyboard_finds_the_name() -> None:
    assert suggest_name("get_wether", ["set_alarm", "get_weather"]) == "get_weather"


def test_case_and_separators_do_not_count() -> None:
    assert suggest_name("GetWeather", ["get_weather", "get_weather_map"]) == "get_weather"


def test_a_name_without_its_prefix_is_found_when_only_one_ends_so() -> None:
    assert suggest_name("search_code", ["github__search_code", "fs__read"]) == "github__search_code"


def test_a_beginning_that_one_name_alone_has_means_that_name() -> None:
    assert suggest_name("dice", ["dice-roller", "memory", "file-io"]) == "dice-roller"
    assert suggest_name("rules", ["rules-lookup", "rules-editor"]) is None


def test_a_name_far_from_all_gets_no_suggestion() -> None:
    assert suggest_name("launch_rocket", ["get_weather", "read_file"]) is None
    assert suggest_name("", ["a"]) is None
    assert suggest_name("x", []) is None


def test_names_beside_others_leave_those_as_they_are() -> None:
    first = Names(["a.b", "c"])
    both = Names.extend(first, ["a_b", "c", "a/b"])
    assert both.forward.items() >= first.forward.items()
    assert len(set(both.forward.values())) == 4
    assert both.original_name(both.safe_name("a_b")) == "a_b"


def test_the_name_behind_the_prefix_of_a_server_is_compared_by_itself() -> None:
    tools = ["everything__echo", "everything__get-sum", "files__read_file", "web__read_page"]
    assert suggest_name("ech0", tools) == "everything__echo"
    assert suggest_name("evrything__echo", tools) == "everything__echo"
    assert suggest_name("everything__eccho", tools) == "everything__echo"
    assert suggest_name("everthing_get_sun", tools) == "everything__get-sum"
    assert suggest_name("file__read_fil", tools) == "files__read_file"


def test_a_long_prefix_in_common_makes_no_two_tools_alike() -> None:
    assert suggest_name("everything__zzz", ["everything__echo", "everything__get-sum"]) is None


def test_of_equal_tools_the_one_with_the_nearer_prefix_is_meant() -> None:
    assert suggest_name("storr__get_stock", ["older__get_stock", "remote__get_stock", "store__get_stock"]) == (
        "store__get_stock"
    )
