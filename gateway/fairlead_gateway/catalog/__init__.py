"""Catalog of servers and tools: documents in, an immutable snapshot out.

`model` and `definitions` are pure; `source`, `directory`, `kube` and `cache` bring the documents in and keep the
last ones.
"""
