"""Token counts of tools and messages, choice of a model that has room for them, and what to leave out if none has.

Pure package: no network, no framework. It reads only two files, which ship with it: the ranks of a tokenizer, and the
context windows of models.
"""
