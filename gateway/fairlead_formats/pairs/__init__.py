"""Pairs of wire formats: a client that uses one provider's API is served by a provider with another API. Pure modules.

The client's request is read into a `NeutralRequest` and written in the provider's format. The provider's answer is
translated back through the types of `neutral.answers`. Each family of APIs has one reader and one writer, so that no
combination of two families needs code of its own.
"""
