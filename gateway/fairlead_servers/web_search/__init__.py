"""Server `web-search`: search with a configured engine or in files, and pages as readable text."""
