"""Results of tools: shortens long results, and reads stored results."""
