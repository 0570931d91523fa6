"""Work off the loop: one thread, and processes for what is heavy."""
