"""Token counts of tools and messages, and the choice of a model whose context window has room for them.

If no model has room for all tools, the package chooses tools to leave out. Pure package: no network, no framework. It
reads only two files, which ship with it: the vocabulary of a tokenizer, and the context windows of models.
"""
