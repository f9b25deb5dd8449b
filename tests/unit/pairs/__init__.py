"""Preference pairs from transcripts."""
