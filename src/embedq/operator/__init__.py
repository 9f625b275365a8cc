"""What operators call: status, pause, drain, dead letters, repair."""

from embedq.operator.operator import Operator, OperatorOptions
from embedq.operator.report import (
    DeadReason,
    DrainReport,
    Finding,
    QueueStatus,
    Readiness,
    Repaired,
    RepairReport,
    Revived,
    Verdict,
)

__all__ = [
    "DeadReason",
    "DrainReport",
    "Finding",
    "Operator",
    "OperatorOptions",
    "QueueStatus",
    "Readiness",
    "RepairReport",
    "Repaired",
    "Revived",
    "Verdict",
]
