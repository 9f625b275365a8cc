"""Benchmarks of the PostgreSQL store, beside bare asyncpg."""
