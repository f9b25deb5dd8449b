"""Audit of dumps of rollouts."""
