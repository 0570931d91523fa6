"""Search indices with vectors in a LanceDB. Words are ranked in memory, and the two rankings are merged.

LanceDB could rank by words about as well, but it computes scores over all rows of a table. Such scores would disclose
information about tools that the subject cannot see.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, KeysView, Mapping

from fairlead_search.bm25_index import Bm25Index, Hit
from fairlead_search.fusion import DEPTH, fuse
from fairlead_search.hybrid_ranking import MIN_COVERED
from fairlead_search.index_interfaces import ToolVector
from fairlead_search.indexed_tool import IndexedTool
from fairlead_search.lance_vectors import LOCK_SECONDS, MAX_ROWS, LanceVectors
from fairlead_search.vectors import Matrix


class LanceBackend:
    """`SearchBackend` of a folder. All methods but `index` and `len` raise BackendFault."""

    def __init__(self, folder: str, lock_timeout_s: float = LOCK_SECONDS, max_rows: int = MAX_ROWS) -> None:
        """Open the folder. `max_rows`: number of vectors above which unused vectors are dropped. `lock_timeout_s`:
        seconds to wait for another process to release the folder. Raises BackendFault, also after that time.
        """
        self.vectors = LanceVectors(folder, lock_timeout_s, max_rows)
        self.texts: dict[str, str] = {}
        """By key of a tool: key of the texts that its vector was computed from."""
        self.version = 0
        """Counter that is increased when vectors or `texts` change, so that indices read them again."""

    def __len__(self) -> int:
        return len(self.vectors)

    def index(self, records: Iterable[IndexedTool]) -> LanceIndex:
        return LanceIndex(self, Bm25Index.of(records))

    def put(self, vectors: Mapping[str, ToolVector]) -> None:
        self.vectors.add({each.text: each.vector for each in vectors.values()})
        self.texts.update({tool: each.text for tool, each in vectors.items()})
        self.version += 1

    def read_stored(self, texts: Collection[str]) -> dict[str, bytes]:
        return self.vectors.get(texts)

    def sweep(self, used_keys: Callable[[], Collection[str]]) -> None:
        self.vectors.sweep(lambda: self._texts_of(used_keys()))

    def _texts_of(self, tools: Collection[str]) -> set[str]:
        self.texts = {tool: text for tool, text in self.texts.items() if tool in tools}
        self.version += 1
        return set(self.texts.values())

    def close(self) -> None:
        self.vectors.close()


class LanceIndex:
    """`SearchIndex` with vectors in a LanceDB. Searches raise BackendFault."""

    def __init__(self, backend: LanceBackend, words: Bm25Index) -> None:
        self._backend = backend
        self._words = words
        self._version = -1
        """Version of the backend from which the two maps were made."""
        self._vector_of_tool: dict[str, int] = {}
        """Maps the key of a tool to the number of its vector in LanceDB's table."""
        self._tools_of_vector: dict[int, list[str]] = {}
        """Maps the number of a vector to the keys of all tools with this vector."""

    def _refresh(self) -> None:
        """Map tools and vectors to each other again, if the backend has changed."""
        backend = self._backend
        if self._version == backend.version:
            return
        texts, numbers = backend.texts, backend.vectors.numbers
        pairs = ((key, numbers.get(texts.get(key, ""))) for key in self.keys())
        self._vector_of_tool = {key: number for key, number in pairs if number is not None}
        tools: defaultdict[int, list[str]] = defaultdict(list)
        for key, number in self._vector_of_tool.items():
            tools[number].append(key)
        self._tools_of_vector = dict(tools)
        self._version = backend.version

    def __len__(self) -> int:
        return len(self._words)

    @property
    def vectors(self) -> int:
        self._refresh()
        return len(self._vector_of_tool)

    @property
    def ranks_by_vectors(self) -> bool:
        return 0 < self.vectors >= MIN_COVERED * len(self)

    def keys(self) -> KeysView[str]:
        return self._words.keys()

    def with_changes(self, added_tools: Iterable[IndexedTool], removed_keys: Iterable[str]) -> LanceIndex:
        return LanceIndex(self._backend, self._words.with_changes(added_tools, removed_keys))

    def search(
        self, query: str, vector: Matrix | None, limit: int, allowed_keys: Collection[str] | None = None
    ) -> list[Hit]:
        if vector is None:
            return self._words.search(query, limit, allowed_keys)
        self._refresh()
        word_scores = {hit.key: hit.score for hit in self._words.search(query, DEPTH, allowed_keys)}
        vectors, numbers = self._backend.vectors, self._vector_of_tool
        if allowed_keys is None:
            allowed_numbers: Collection[int] = self._tools_of_vector.keys()
        else:
            allowed_numbers = {numbers[key] for key in allowed_keys if key in numbers}
        nearest_cosines = vectors.nearest(vector, allowed_numbers, DEPTH)
        other_numbers = {numbers[key] for key in word_scores if key in numbers} - nearest_cosines.keys()
        cosines = {key: cosine for number, cosine in nearest_cosines.items() for key in self._tools_of_vector[number]}
        if allowed_keys is not None:
            cosines = {key: cosine for key, cosine in cosines.items() if key in allowed_keys}
        other_cosines = vectors.cosines(vector, other_numbers)
        cosines |= {key: other_cosines[numbers[key]] for key in word_scores if numbers.get(key) in other_cosines}
        return [Hit(key, score) for key, score in fuse(word_scores, cosines, limit)]
