"""Catalog of servers and tools: reads the operator's documents and compiles them into an immutable snapshot.

`model` and `offered` are pure; `source`, `directory` and `kube` read the documents, and `cache` stores the last
documents.
"""
