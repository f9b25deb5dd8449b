"""The axes of the objectives."""
