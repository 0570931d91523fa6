"""The index in memory: what it finds, and that an updated index equals a new one."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from examples import examples
from fairlead_search.bm25_index import Bm25Index, Hit
from fairlead_search.index_cache import IndexedCatalogs, NewTool, SearchRequest, interleave
from fairlead_search.indexed_tool import MAX_PARAMETERS, IndexedTool, catalog_hash, record

DELETE = IndexedTool("1", "delete_directory", "files", "Delete a directory with all that is in it.")
LIST = IndexedTool("2", "list_directory", "files", "List what is in a directory.")
WEATHER = IndexedTool("3", "get_forecast", "weather", "Forecast for a city.", ("city", "Name of the city"))
TOOLS = [DELETE, LIST, WEATHER]
VOCABULARY = ["file", "folder", "list", "get", "weather", "city", "the", "mail", "send"]
WORDS = st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=6)


def names(index: Bm25Index, query: str, limit: int = 5) -> list[str]:
    by_key = {tool.key: tool.name for tool in TOOLS}
    return [by_key[hit.key] for hit in index.search(query, limit)]


def test_words_of_names_descriptions_and_arguments_find_a_tool() -> None:
    index = Bm25Index.of(TOOLS)
    assert names(index, "delete a directory") == ["delete_directory", "list_directory"]
    assert names(index, "city")[0] == "get_forecast"
    assert names(index, "nothing like this: zebra") == []


def test_related_words_find_a_tool_that_has_none_of_the_query_itself() -> None:
    assert names(Bm25Index.of(TOOLS), "erase my folder")[0] == "delete_directory"
    assert names(Bm25Index.of(TOOLS), "climate tomorrow") == ["get_forecast"]


def test_a_search_among_some_tools_finds_only_these_and_stops_at_its_limit() -> None:
    index = Bm25Index.of(TOOLS)
    assert [hit.key for hit in index.search("directory", 5, frozenset({"2"}))] == ["2"]
    assert len(index.search("directory", 1)) == 1


def test_an_empty_index_and_an_empty_query_find_nothing() -> None:
    assert Bm25Index.of([]).search("anything", 5) == []
    assert Bm25Index.of(TOOLS).search("", 5) == []
    assert Bm25Index.of([IndexedTool("1", "", "")]).search("anything", 5) == []


@settings(max_examples=examples(60))
@given(st.lists(WORDS, min_size=1, max_size=8), st.lists(WORDS, max_size=5), st.sets(st.integers(0, 7)), WORDS)
def test_a_changed_index_answers_as_a_new_one_and_the_old_one_as_before(
    first: list[list[str]], more: list[list[str]], gone: set[int], query: list[str]
) -> None:
    old = {str(number): IndexedTool(str(number), " ".join(words), "s") for number, words in enumerate(first)}
    added = {f"{number + 4}": IndexedTool(f"{number + 4}", " ".join(words), "s") for number, words in enumerate(more)}
    index = Bm25Index.of(old.values())
    text = " ".join(query)
    before = index.search(text, 20)
    changed = index.with_changes(added.values(), [str(number) for number in gone])
    remaining = {key: tool for key, tool in old.items() if int(key) not in gone} | added
    assert [(hit.key, round(hit.score, 9)) for hit in changed.search(text, 20)] == [
        (hit.key, round(hit.score, 9)) for hit in Bm25Index.of(remaining.values()).search(text, 20)
    ]
    assert index.search(text, 20) == before
    assert len(changed) == len(remaining)


def test_a_record_takes_what_is_text_and_bounds_the_arguments() -> None:
    schema = {"properties": {f"p{number}": {"description": 7} for number in range(1000)}}
    made = record("k", "s", {"name": "n", "description": ["no", "text"], "inputSchema": schema})
    assert (made.name, made.description, len(made.parameters)) == ("n", "", MAX_PARAMETERS)
    assert record("k", "s", {"inputSchema": "nothing"}).parameters == ()


def test_equal_catalogs_have_equal_hashes_in_any_order() -> None:
    assert catalog_hash(["a", "b"]) == catalog_hash(["b", "a"]) != catalog_hash(["a"])


def tool(key: str, text: str) -> NewTool:
    return NewTool(key, text, "s", Raw(b'{"name":"x"}'))


def test_a_catalog_is_made_once_and_the_next_one_from_it() -> None:
    catalogs = IndexedCatalogs()
    request = SearchRequest("one", ["mail"], 5)
    assert catalogs.search(request).cached_catalogs == []
    made = SearchRequest("one", ["mail"], 5, base="", added=[tool("a", "send_mail"), tool("b", "list_files")])
    assert [hit.key for hit in catalogs.search(made).hits[0]] == ["a"]
    assert [hit.key for hit in catalogs.search(request).hits[0]] == ["a"]
    assert catalogs.search(SearchRequest("two", ["mail"], 5)).cached_catalogs == ["one"]
    next_one = SearchRequest("two", ["mail"], 5, base="one", added=[tool("c", "read_mail")], removed=["a"])
    assert [hit.key for hit in catalogs.search(next_one).hits[0]] == ["c"]
    assert [hit.key for hit in catalogs.search(request).hits[0]] == ["a"]


def test_the_catalog_that_was_searched_longest_ago_goes_first() -> None:
    catalogs = IndexedCatalogs(limit=2)
    for name in ("one", "two"):
        catalogs.search(SearchRequest(name, ["x"], 5, base=""))
    catalogs.search(SearchRequest("one", ["x"], 5))
    catalogs.search(SearchRequest("three", ["x"], 5, base=""))
    assert catalogs.search(SearchRequest("two", ["x"], 5)).cached_catalogs == ["three", "one"]
    assert catalogs.search(SearchRequest("four", ["x"], 5, base="two")).cached_catalogs == ["three", "one"]


def test_a_definition_that_cannot_be_read_is_found_by_its_name() -> None:
    catalogs = IndexedCatalogs()
    odd = NewTool("a", "send_mail", "s", Raw(b"[1]"))
    assert len(catalogs.search(SearchRequest("one", ["mail"], 5, base="", added=[odd])).hits[0]) == 1


def test_several_queries_are_answered_in_turn_and_each_tool_once() -> None:
    first = [Hit("a", 3.0), Hit("b", 2.0)]
    second = [Hit("b", 9.0), Hit("c", 1.0)]
    assert interleave([first, second], 5) == [Hit("a", 3.0), Hit("b", 9.0), Hit("c", 1.0)]
    assert interleave([first, second], 2) == [Hit("a", 3.0), Hit("b", 9.0)]
    assert interleave([], 5) == []
