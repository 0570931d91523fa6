"""Tools for models: a subject's visible tools, order of search hits, conversion, offers, calls, results."""
