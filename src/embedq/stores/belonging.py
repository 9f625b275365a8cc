"""A queue belongs to one corpus: with another, its jobs would find no records and be cancelled."""

from embedq.errors import StoreUnusable


def refuse_other_corpus(noted: str | None, corpus: str, shown: object) -> None:
    """Refuse a queue that is noted as another corpus's."""
    if noted not in (None, corpus):
        raise StoreUnusable(
            f"{shown} is the queue of another corpus than that of EMBEDQ_URL: name its own corpus there, or another "
            "queue in EMBEDQ_QUEUE_URL; if its corpus is gone for good, put an empty database in the queue's place"
        )
