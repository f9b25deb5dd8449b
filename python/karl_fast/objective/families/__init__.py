"""The families of objectives: products of axes."""
