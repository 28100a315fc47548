# The install rules: see docs/guides/embedding.md.
