"""Page that says whether an agent may call a tool, and which rule decides."""
