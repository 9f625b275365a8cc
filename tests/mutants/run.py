"""Break the source on purpose, one rule at a time, and see that a test fails: `make mutants`.

`python -m tests.mutants.run [--sample N --seed S] [--only WORDS] [--json] [--jobs N]`; `--help` says more. The working
tree is never touched.
"""

import argparse
import json
import os
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from rich.console import Console
from rich.table import Table
from tests.mutants.mutant import Mutant, read
from tests.mutants.trial import Trial, Verdict, attempt, prove

CHECKOUT = Path(__file__).parents[2]
FINE = {Verdict.KILLED, Verdict.SKIPPED}
COLOURS = {Verdict.KILLED: "green", Verdict.SKIPPED: "yellow"}
LAST_WORDS = 2_000  # characters of what pytest said, of a mutant that lives


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the mutants that were asked for; 1 if one of them was not killed."""
    asked = _arguments(arguments)
    chosen = choose(read(), only=asked.only, sample=asked.sample, seed=asked.seed)
    errors = Console(stderr=True)
    errors.print(f"{len(chosen)} mutants" + (f", chosen by the seed {asked.seed}" if asked.sample else ""))
    trials = []
    for trial in tried(CHECKOUT, chosen, jobs=asked.jobs):
        trials.append(trial)
        errors.print(f"{len(trials)}/{len(chosen)} {trial.verdict}: {trial.mutant.name} ({trial.seconds:.0f} s)")
        if trial.verdict not in FINE:
            errors.print(trial.said[-LAST_WORDS:], markup=False, highlight=False)
    trials.sort(key=lambda trial: chosen.index(trial.mutant))
    if asked.json:
        sys.stdout.write(json.dumps([_facts(trial) for trial in trials], indent=2) + "\n")
    else:
        Console(width=None if sys.stdout.isatty() else 160).print(_table(trials))
    return int(any(trial.verdict not in FINE for trial in trials))


def choose(mutants: Sequence[Mutant], *, only: str = "", sample: int | None = None, seed: str = "") -> list[Mutant]:
    """Choose by words of name or file, and some of those by lot; the same seed chooses the same ones."""
    found = [mutant for mutant in mutants if only in mutant.name or only in mutant.file]
    if sample is None or sample >= len(found):
        return found
    lot = random.Random(seed)  # noqa: S311 a lot, not a secret
    return lot.sample(found, sample)


def tried(checkout: Path, mutants: Sequence[Mutant], *, jobs: int = 1) -> Iterator[Trial]:
    """Try mutants, once it is known that their tests pass without them."""
    silent = prove(checkout, mutants) if mutants else {}
    yield from silent.values()
    with ThreadPoolExecutor(jobs) as pool:
        rest = [pool.submit(attempt, checkout, mutant) for mutant in mutants if mutant not in silent]
        try:
            for one in as_completed(rest):
                yield one.result()
        finally:
            pool.shutdown(cancel_futures=True)  # whoever interrupts it waits for those that have begun, not for all


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, metavar="N", help="try so many, chosen by lot")
    parser.add_argument(
        "--seed", default="", metavar="S", help="which ones: a commit's hash, so that each tries others"
    )
    parser.add_argument("--only", default="", metavar="WORDS", help="those with these words in name or file")
    parser.add_argument("--json", action="store_true", help="print a list in place of a table")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="so many at a time")
    return parser.parse_args(arguments)


def _facts(trial: Trial) -> dict[str, object]:
    mutant = trial.mutant
    told = {"name": mutant.name, "file": mutant.file, "tests": list(mutant.tests)}
    return {**told, "verdict": trial.verdict.value, "seconds": round(trial.seconds, 1)}


def _table(trials: Sequence[Trial]) -> Table:
    counts = Counter(trial.verdict.value for trial in trials)
    table = Table(title=", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))
    for column in ("mutant", "file", "verdict", "by"):
        table.add_column(column)
    for trial in trials:
        colour = COLOURS.get(trial.verdict, "red")
        tests = "\n".join(test.rpartition("::")[2] for test in trial.mutant.tests)
        table.add_row(trial.mutant.name, trial.mutant.file, f"[{colour}]{trial.verdict.value}[/{colour}]", tests)
    return table


if __name__ == "__main__":
    sys.exit(main())
