"""Search among tools by what they do: text, indices, and the ranking. Needs no gateway."""
