"""Pages about tools: a searchable list, and the page of one tool with a form that calls it."""
