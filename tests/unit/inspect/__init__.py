"""A look at logs."""
