"""Tool definitions in the formats of providers: validity, fidelity and speed, compared with other projects."""
