"""Search indices over tools and over passages of tool results: text processing, and ranking within one index.

Runs without a gateway.
"""
