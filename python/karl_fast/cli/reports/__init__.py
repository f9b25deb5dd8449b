"""Reports as text, one module for each kind."""
