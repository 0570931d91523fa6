"""Stores vectors in a LanceDB on disk, across restarts. Needs the extra `lancedb`, which takes 2 s and 130 MB to load.

A vector is identified by the key of the texts from which it was computed (`record.vector_key`). It also has a number,
because a condition that selects vectors is short if it is about ranges of numbers. Only one process at a time may use a
folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np

from fairlead_search.index_interfaces import BackendFault
from fairlead_search.row_filter import MAX_PARTS, condition, ranges
from fairlead_search.vectors import Matrix, decode, encode

os.environ.setdefault("LANCEDB_LOG", "error")  # LanceDB warns about each new table
import lancedb
import pyarrow as pa

MAX_ROWS: Final = 100_000
"""Number of vectors above which unused vectors are dropped."""
WRITES: Final = 20
"""Number of writes after which files are compacted. Each write creates a file."""
LOCK_SECONDS: Final = 2.0
"""Seconds to wait for the lock of a folder, so that a process that is being replaced can release the lock."""
LOCK_FILE: Final = "fairlead.lock"
TABLE_PREFIX: Final = "vectors_"
"""Prefix of table names, which end with the number of dimensions."""
FAULTS: Final = (OSError, RuntimeError, ValueError, pa.ArrowException)
"""Errors of LanceDB for a full disk or a damaged file."""


class LanceVectors:
    """Table of vectors that all have length 1 and the same number of dimensions."""

    def __init__(self, folder: str, lock_timeout_s: float = LOCK_SECONDS, max_rows: int = MAX_ROWS) -> None:
        """Open the folder. `max_rows`: number of vectors above which unused vectors are dropped. `lock_timeout_s`:
        seconds to wait for another process to release the folder.

        Raises BackendFault if the folder cannot be used or is not released within that time.
        """
        self.folder = folder
        self._max_rows = max_rows
        self.numbers: dict[str, int] = {}
        """Numbers of the vectors by the key of their texts."""
        self._table: Any = None
        self._dimensions = 0
        self._next_number = 0
        """Number that the next new vector gets."""
        self._writes = 0
        """Number of writes so far, which decides when files are compacted."""
        with self._as_backend_fault("cannot be used"):
            Path(folder).mkdir(parents=True, exist_ok=True)
            self._lock = (Path(folder) / LOCK_FILE).open("a+", encoding="ascii")
        try:
            self._take_lock(lock_timeout_s)
            with self._as_backend_fault("cannot be read"):
                self._database = lancedb.connect(folder)
                self._read()
        except BaseException:
            self.close()
            raise

    def _take_lock(self, lock_timeout_s: float) -> None:
        end = time.monotonic() + lock_timeout_s
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if time.monotonic() >= end:
                    self._lock.seek(0)
                    holder = self._lock.read(20) or "unknown"
                    raise BackendFault(
                        f"the folder {self.folder} is in use by another process ({holder}): "
                        "configure a different folder for each gateway"
                    ) from error
                time.sleep(0.05)
            else:
                self._lock.truncate(0)
                self._lock.write(str(os.getpid()))
                self._lock.flush()
                return

    def _read(self) -> None:
        names = [name for name in self._names() if name.startswith(TABLE_PREFIX)]
        if not names:
            return
        self._table = self._database.open_table(names[0])
        self._dimensions = int(names[0].removeprefix(TABLE_PREFIX))
        count = self._table.count_rows()
        if count:
            table = self._table.search().select(["id", "number"]).limit(count).to_arrow()
            self.numbers = dict(zip(table["id"].to_pylist(), table["number"].to_pylist(), strict=True))
            self._next_number = max(self.numbers.values()) + 1

    def _names(self) -> Sequence[str]:
        tables: Sequence[str] = self._database.list_tables().tables
        return tables

    def __len__(self) -> int:
        return len(self.numbers)

    def add(self, vectors: Mapping[str, bytes]) -> None:
        """Add new vectors in the format `vectors.WIRE`. If the new vectors have another number of dimensions than the
        stored vectors, the stored vectors come from another model and are dropped. Raises BackendFault.
        """
        new_vectors = {key: decode(raw) for key, raw in vectors.items()}
        if not new_vectors:
            return
        sizes = {len(vector) for vector in new_vectors.values()}
        dimensions = sizes.pop()
        if sizes:
            raise BackendFault(f"vectors with {dimensions} and with {sizes.pop()} dimensions cannot be mixed")
        with self._as_backend_fault("cannot be written"):
            if dimensions != self._dimensions:
                self._create_table(dimensions)
            new_vectors = {key: vector for key, vector in new_vectors.items() if key not in self.numbers}
            if new_vectors:
                self._write(new_vectors)

    def _create_table(self, dimensions: int) -> None:
        for name in self._names():
            self._database.drop_table(name)
        vector = pa.list_(pa.float32(), dimensions)
        schema = pa.schema([("id", pa.string()), ("number", pa.int64()), ("vector", vector)])
        self._table = self._database.create_table(f"{TABLE_PREFIX}{dimensions}", schema=schema)
        self._dimensions = dimensions
        self.numbers = {}

    def _write(self, new_vectors: Mapping[str, Matrix]) -> None:
        numbers = dict(zip(new_vectors, range(self._next_number, self._next_number + len(new_vectors)), strict=True))
        values = pa.array(np.concatenate([*new_vectors.values()]), pa.float32())
        rows = pa.FixedSizeListArray.from_arrays(values, self._dimensions)
        self._table.add(
            pa.table({"id": [*new_vectors], "number": pa.array(numbers.values(), pa.int64()), "vector": rows})
        )
        self._next_number += len(new_vectors)
        self.numbers.update(numbers)
        self._count_write()

    def _count_write(self) -> None:
        """Count a write, and compact the files after every `WRITES` writes."""
        self._writes += 1
        if self._writes % WRITES == 0:
            with warnings.catch_warnings():  # LanceDB warns about other processes, which the lock excludes
                warnings.simplefilter("ignore", UserWarning)
                self._table.optimize(cleanup_older_than=timedelta(0))

    def get(self, keys: Collection[str]) -> dict[str, bytes]:
        """The requested vectors, without those that are not stored, by the key of their texts. Raises BackendFault."""
        keys_by_number = {number: key for key in keys if (number := self.numbers.get(key)) is not None}
        numbers, rows = self._rows(keys_by_number)
        return {
            keys_by_number[number]: encode(row)
            for number, row in zip(numbers, rows, strict=True)
            if number in keys_by_number
        }

    def nearest(self, query: Matrix, numbers: Collection[int], limit: int) -> dict[int, float]:
        """The `limit` largest cosines of a query (length 1) with the vectors in `numbers`, by number. Raises
        BackendFault.
        """
        if not numbers or len(query) != self._dimensions:
            return {}
        runs, depth = ranges(numbers), limit
        if len(runs) > MAX_PARTS:  # a condition for so many runs also matches the rows between the runs
            depth = len(self.numbers)
        with self._as_backend_fault("cannot be searched"):
            query_builder = self._table.search(query, vector_column_name="vector").distance_type("dot")
            if len(numbers) < len(self.numbers):  # evaluating a condition takes half of the search's time
                query_builder = query_builder.where(condition("number", runs), prefilter=True)
            table = query_builder.select(["number", "_distance"]).limit(depth).to_arrow()
        pairs = zip(table["number"].to_pylist(), table["_distance"].to_pylist(), strict=True)
        nearest_pairs = [(number, 1 - distance) for number, distance in pairs if depth == limit or number in numbers]
        return dict(nearest_pairs[:limit])

    def cosines(self, query: Matrix, numbers: Collection[int]) -> dict[int, float]:
        """Cosines of a query (length 1) with the vectors in `numbers`, which should be few. Raises BackendFault."""
        if not numbers or len(query) != self._dimensions:
            return {}
        row_numbers, rows = self._rows(numbers)
        return dict(zip(row_numbers, (rows @ query).tolist(), strict=True))

    def _rows(self, numbers: Collection[int]) -> tuple[list[int], Matrix]:
        """Numbers and vectors of the requested rows. If many rows are requested, rows between them may be included."""
        if not numbers:
            return [], np.zeros((0, 0), np.float32)
        with self._as_backend_fault("cannot be read"):
            query = self._table.search().where(condition("number", ranges(numbers))).select(["number", "vector"])
            table = query.limit(len(self.numbers)).to_arrow()
            rows: Matrix = table["vector"].combine_chunks().flatten().to_numpy().reshape(-1, self._dimensions)
            return table["number"].to_pylist(), rows

    def sweep(self, used_keys: Callable[[], Collection[str]]) -> None:
        """If more than `max_rows` vectors are stored, drop the vectors whose texts' keys are not in `used_keys()`.
        Raises BackendFault.
        """
        if len(self.numbers) <= self._max_rows:
            return
        keys_in_use = set(used_keys())
        unused_numbers = [number for key, number in self.numbers.items() if key not in keys_in_use]
        runs = ranges(unused_numbers)
        with self._as_backend_fault("cannot be written"):
            for first in range(0, len(runs), MAX_PARTS):
                self._table.delete(condition("number", runs[first : first + MAX_PARTS]))
            self.numbers = {key: number for key, number in self.numbers.items() if key in keys_in_use}
            self._count_write()

    def close(self) -> None:
        """Release the lock of the folder."""
        self._lock.close()

    @contextlib.contextmanager
    def _as_backend_fault(self, problem: str) -> Iterator[None]:
        try:
            yield
        except FAULTS as error:
            message = " ".join(str(error).split())[:300]
            raise BackendFault(f"the folder {self.folder} {problem}: {message or type(error).__name__}") from error
