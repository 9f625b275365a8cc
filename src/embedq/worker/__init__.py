"""The workers: from lease to settle."""

from embedq.worker.context import Timing
from embedq.worker.embedders import Build
from embedq.worker.options import WorkerOptions
from embedq.worker.pool import Pool

__all__ = ["Build", "Pool", "Timing", "WorkerOptions"]
