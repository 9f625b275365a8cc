"""The conformance suite of a store: inherit it in one class, and run pytest."""

from embedq.testing.stores.amounts import AmountFacts
from embedq.testing.stores.batches import BatchFacts
from embedq.testing.stores.corpus import CorpusFacts
from embedq.testing.stores.erasing import ErasingFacts
from embedq.testing.stores.fencing import FenceFacts
from embedq.testing.stores.filing import FilingFacts
from embedq.testing.stores.filtering import FilterFacts
from embedq.testing.stores.leases import LeaseFacts
from embedq.testing.stores.limits import LimitFacts
from embedq.testing.stores.mistakes import MistakeFacts
from embedq.testing.stores.operating import OperatingFacts
from embedq.testing.stores.orders import OrderFacts
from embedq.testing.stores.pair_stage import CorpusStage, QueueStage
from embedq.testing.stores.pairs import PairFacts
from embedq.testing.stores.promises import PromiseFacts
from embedq.testing.stores.races import RaceFacts
from embedq.testing.stores.rules import RuleFacts
from embedq.testing.stores.searching import SearchFacts
from embedq.testing.stores.tenants import TenantFacts
from embedq.testing.stores.waiting import WaitingFacts
from embedq.testing.stores.walks import WalkFacts
from embedq.testing.stores.wording import WordFacts

__all__ = ["CorpusSuite", "JobStoreSuite", "StoreSuite"]


class JobFacts(
    RuleFacts,
    PromiseFacts,
    LeaseFacts,
    LimitFacts,
    BatchFacts,
    FenceFacts,
    WaitingFacts,
    OperatingFacts,
    RaceFacts,
):
    """What a queue must satisfy."""


class RecordFacts(CorpusFacts, FilingFacts, SearchFacts, WordFacts, FilterFacts, AmountFacts, MistakeFacts):
    """What a corpus must satisfy."""


class StoreSuite(JobFacts, RecordFacts, TenantFacts, OrderFacts, ErasingFacts, WalkFacts):
    """What a store must satisfy: one database that is both, or a pair with `one_database = False`."""


class JobStoreSuite(QueueStage, PairFacts, StoreSuite):
    """What a job store alone must satisfy. It is joined with a corpus in a SQLite file, so it needs none of its own."""


class CorpusSuite(CorpusStage, PairFacts, StoreSuite):
    """What a corpus alone must satisfy. It is joined with a queue in a SQLite file, so it needs none of its own."""
