"""PostgreSQL with pgvector as corpus and queue: any number of processes on any number of machines."""

from embedq.stores.postgres.halves import PostgresCorpusStore, PostgresJobStore
from embedq.stores.postgres.holding import identity
from embedq.stores.postgres.store import PostgresStore

__all__ = ["PostgresCorpusStore", "PostgresJobStore", "PostgresStore", "identity"]
