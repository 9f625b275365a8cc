"""Scripted faults, for rehearsals with `FakeEmbedder` and `EmbeddingProvider`."""

from embedq.embedders.fake import FakeEmbedder
from embedq.embedders.faults import Faults, Kind, Mishap, Rehearsal

__all__ = ["FakeEmbedder", "Faults", "Kind", "Mishap", "Rehearsal"]
