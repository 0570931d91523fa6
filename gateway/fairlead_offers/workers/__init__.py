"""Work outside of the event loop, in one thread and in processes."""
