"""Tool definitions in the formats of providers: valid, true to the original, fast; other projects' beside ours."""
