"""Application tables as collections."""
