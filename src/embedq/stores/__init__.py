"""Databases that can be a corpus and a queue. Choose one."""
