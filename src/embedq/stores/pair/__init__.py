"""A corpus in one database and its queue in another."""

from embedq.stores.pair.store import PairStore

__all__ = ["PairStore"]
