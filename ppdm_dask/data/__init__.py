"""Data with declared categories: attributes, codebooks, coded records."""
