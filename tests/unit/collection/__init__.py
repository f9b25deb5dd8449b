"""Archives of what agents wrote."""
