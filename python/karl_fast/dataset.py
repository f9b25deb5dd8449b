"""Data sets that karl-fast wrote, read back."""

from karl_fast.export.data_set_reader import DataSet, Row, open_data_set

__all__ = ["DataSet", "Row", "open_data_set"]
