"""Pairs of wire formats: clients of one format are served by providers of another. Pure modules.

The client's body is read into a `NeutralRequest` and written in the provider's format. The provider's answer is
translated back through the types of `neutral.answers`. Each family has one reader and one writer, so that no pair needs
code of its own.
"""
