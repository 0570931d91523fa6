"""Compilation of OpenAPI 3.0 and 3.1 documents: a tool definition, an `Operation` and a report for each operation.

`compile.compile_document` compiles a document; `worker.compile_in_worker` runs it in a process with limits, as
documents are untrusted. An operation that cannot become a tool does not affect the others.
"""
