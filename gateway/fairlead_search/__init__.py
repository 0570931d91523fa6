"""Search among tools by what they do: text, an index in memory, and the ranking. Pure; needs no gateway."""
