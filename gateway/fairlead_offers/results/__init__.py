"""Results of tools that are kept, shortened and read on."""
