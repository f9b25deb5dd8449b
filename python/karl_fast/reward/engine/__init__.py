"""KARL's reward engine: scores of records, of columns and of a store."""
