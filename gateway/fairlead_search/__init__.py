"""Search for tools by what they do, and for passages of results: text processing, indices, ranking. Needs
no gateway.
"""
