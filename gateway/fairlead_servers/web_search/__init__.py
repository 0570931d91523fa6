"""Server `web-search`: search through a configured engine or an index of files, and pages as readable text."""
