"""From scores to chosen rows: the target, and the draw."""
