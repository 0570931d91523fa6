"""Compilation of OpenAPI 3.0 and 3.1 documents: a tool definition, an `Operation` and a report for each operation.

`compile.compile_document` is the whole; `worker.compile_in_worker` runs it in a process with limits, as documents are
untrusted. An operation that cannot be a tool costs itself alone.
"""
