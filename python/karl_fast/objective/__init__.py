"""Exact objectives."""
