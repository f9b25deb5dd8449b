"""Baselines by domain, and weights by skill."""
