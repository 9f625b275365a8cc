"""Languages whose words are stemmed, and the words of a query."""

import re

DEFAULT_LANGUAGE = "english"
PLAIN = "simple"  # words are compared as they are written

# Those that PostgreSQL has a stemmer for; a store refuses what it cannot stem.
LANGUAGES = frozenset(
    name
    for line in (
        "simple arabic armenian basque catalan danish dutch english finnish french german greek hindi hungarian",
        "indonesian irish italian lithuanian nepali norwegian portuguese romanian russian serbian spanish swedish",
        "tamil turkish yiddish",
    )
    for name in line.split()
)
WORD = re.compile(r"\w+")
MOST_WORDS = 64


def words_of(text: str) -> list[str]:
    """Split a query into its first words, each once and in lower case."""
    return list(dict.fromkeys(word.lower() for word in WORD.findall(text)))[:MOST_WORDS]
