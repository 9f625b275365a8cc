"""How well searches find: `python benchmarks/search_quality.py FOLDER [--only sqlite|postgres] [--json FILE]`.

The folder has the shape of BEIR's collections: `corpus.jsonl` and `queries.jsonl` (or `.gz`), and `qrels/test.tsv`.
Records are written, embedded by the local model and searched as an application would, in every mode, on both databases.
Beside them stand BM25 as `bm25s` computes it and the exact cosine of the same vectors.
"""

import argparse
import asyncio
import gzip
import json
import math
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import bm25s
import numpy as np
import Stemmer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from embedq.app import App, load, start
from embedq.model import RecordId
from place import folder
from postgres.ground import database, server

NAME = "documents"
DEPTH = 100  # hits that are looked at
TOP = 10
BATCH = 100
PATIENCE = 86_400.0  # seconds until all vectors are there
MODES = ("semantic", "keyword", "hybrid")
Ranking = Sequence[str]  # ids, best first
Score = tuple[float, float]  # nDCG@10 and Recall@100, of 100
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Collection:
    """Texts, questions, and what answers them."""

    texts: Mapping[str, str]
    queries: Mapping[str, str]
    relevant: Mapping[str, Mapping[str, int]]  # by query: documents, and how relevant they are


def read(place: Path) -> Collection:
    """Read a folder; only queries that something answers count."""
    relevant: dict[str, dict[str, int]] = defaultdict(dict)
    for line in (place / "qrels" / "test.tsv").read_text().splitlines()[1:]:
        query, document, score = line.split("\t")
        if int(score) > 0:
            relevant[query][document] = int(score)
    texts = {row["_id"]: f"{row.get('title', '')}\n{row['text']}".strip() for row in _rows(place, "corpus")}
    queries = {row["_id"]: row["text"] for row in _rows(place, "queries") if row["_id"] in relevant}
    return Collection({id_: text for id_, text in texts.items() if text}, queries, relevant)


def _rows(place: Path, name: str) -> Iterator[dict[str, Any]]:
    path = place / f"{name}.jsonl"
    with path.open() if path.exists() else gzip.open(f"{path}.gz", "rt") as lines:
        yield from map(json.loads, lines)


def scored(found: Mapping[str, Ranking], relevant: Mapping[str, Mapping[str, int]]) -> Score:
    """Average nDCG@10 and Recall@100 over the queries."""
    gains = [_ndcg(ranking, relevant[query]) for query, ranking in found.items()]
    recalls = [
        len(set(ranking[:DEPTH]) & set(relevant[query])) / len(relevant[query]) for query, ranking in found.items()
    ]
    return 100 * sum(gains) / len(gains), 100 * sum(recalls) / len(recalls)


def _ndcg(ranking: Ranking, relevant: Mapping[str, int]) -> float:
    gain = sum(relevant.get(id_, 0) / math.log2(place + 2) for place, id_ in enumerate(ranking[:TOP]))
    best = sorted(relevant.values(), reverse=True)[:TOP]
    return gain / sum(value / math.log2(place + 2) for place, value in enumerate(best))


def by_bm25s(data: Collection) -> dict[str, Ranking]:
    """Rank by BM25, stemmed and without stop words."""
    ids, stemmer = list(data.texts), Stemmer.Stemmer("english")
    retriever = bm25s.BM25()
    retriever.index(bm25s.tokenize(list(data.texts.values()), stopwords="en", stemmer=stemmer, show_progress=False))
    asked = bm25s.tokenize(list(data.queries.values()), stopwords="en", stemmer=stemmer, show_progress=False)
    found, _ = retriever.retrieve(asked, k=min(DEPTH, len(ids)), show_progress=False)
    return {query: [ids[place] for place in row] for query, row in zip(data.queries, found, strict=True)}


async def by_cosine(app: App, data: Collection) -> dict[str, Ranking]:
    """Rank by the exact cosine of the vectors that are stored."""
    stored = [
        record
        for some in _batches([RecordId(id_) for id_ in data.texts])
        for record in await app.store.get(NAME, some, with_vectors=True)
        if record.vector is not None
    ]
    asked = [(await app.client.embed(some, collection=NAME)).vectors for some in _batches(list(data.queries.values()))]
    cosines = _unit(np.concatenate(asked)) @ _unit(np.stack([record.vector for record in stored])).T
    best = np.argsort(-cosines, axis=1)[:, :DEPTH]
    return {query: [stored[place].id for place in row] for query, row in zip(data.queries, best, strict=True)}


def _batches(items: Sequence[T]) -> list[Sequence[T]]:
    return [items[first : first + BATCH] for first in range(0, len(items), BATCH)]


def _unit(rows: Any) -> Any:  # noqa: ANN401 arrays of any float
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


async def searched(app: App, data: Collection, mode: str) -> dict[str, Ranking]:
    """Search as an application would."""
    return {
        query: [hit.id for hit in (await app.client.search(NAME, text, k=DEPTH, mode=mode)).hits]
        for query, text in track(data.queries.items(), description=mode, transient=True)
    }


@asynccontextmanager
async def filled(url: str, data: Collection) -> AsyncIterator[App]:
    """Write and embed all texts."""
    async with start(load(url=url, embedder="local"), quiet=True) as app, app.working(2):
        await app.client.declare(NAME)
        for some in track(_batches(list(data.texts.items())), description="writing", transient=True):
            await app.client.put(NAME, [{"id": id_, "text": text} for id_, text in some])
        for ids in track(_batches(list(data.texts)), description="embedding", transient=True):
            await app.client.wait(NAME, ids, timeout=PATIENCE)
        while await app.store.finish():  # words counted, vectors indexed, as upkeep does
            pass
        yield app


@contextmanager
def opened(which: str) -> Iterator[str]:
    """Lend a database that is gone afterwards."""
    if which == "sqlite":
        with folder() as place:
            yield f"sqlite:///{place}/search.db"
    else:
        with server() as running, database(running) as url:
            yield url


async def measure(data: Collection, stores: Sequence[str]) -> dict[str, dict[str, Score]]:
    """Score every mode on every database, and the references."""
    table: dict[str, dict[str, Score]] = {mode: {} for mode in MODES}
    table["keyword"]["bm25s"] = scored(by_bm25s(data), data.relevant)
    for which in stores:
        with opened(which) as url:
            async with filled(url, data) as app:
                if "exact cosine" not in table["semantic"]:
                    table["semantic"]["exact cosine"] = scored(await by_cosine(app, data), data.relevant)
                for mode in MODES:
                    table[mode][which] = scored(await searched(app, data, mode), data.relevant)
    return table


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", choices=("sqlite", "postgres"), action="append")
    parser.add_argument("--json", type=Path, help="write the figures into this file too")
    asked = parser.parse_args()
    data, stores = read(asked.folder), asked.only or ("sqlite", "postgres")
    figures = asyncio.run(measure(data, stores))
    columns = [*stores, "bm25s", "exact cosine"]
    table = Table("nDCG@10 / Recall@100", *columns, title=f"{len(data.texts):,} texts, {len(data.queries):,} queries")
    for mode, found in figures.items():
        table.add_row(mode, *(f"{found[one][0]:.1f} / {found[one][1]:.1f}" if one in found else "" for one in columns))
    Console().print(table)
    if asked.json:
        asked.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
