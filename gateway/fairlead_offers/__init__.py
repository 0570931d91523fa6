"""Tools for models: finds a subject's visible tools, searches, converts and offers them, runs calls, stores results."""
