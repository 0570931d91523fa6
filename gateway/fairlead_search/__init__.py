"""Search for tools by what they do, and for passages of tool results: text processing, indices and ranking.

Runs without a gateway.
"""
