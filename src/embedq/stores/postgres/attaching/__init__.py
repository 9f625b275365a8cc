"""Tables of applications as collections."""
