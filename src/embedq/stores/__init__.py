"""Databases that can serve as corpus and queue."""
