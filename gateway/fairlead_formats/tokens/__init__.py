"""Tokens that tools and messages cost, the model that holds them, and what has to go where none does.

Pure package: no network, no framework; the only files read are the ranks and the model windows that ship with it.
"""
