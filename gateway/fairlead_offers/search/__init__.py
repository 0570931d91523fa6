"""Search for tools by a description of the task."""
