"""Pairs of wire formats: a client of one in front of a provider of another. Pure modules.

A client's body is read into a `NeutralRequest` and written for the provider; what the provider answers comes back
through the types of `answers`. Every family has one reader and one writer of each, so no pair is written by itself.
"""
