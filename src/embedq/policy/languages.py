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
FILLERS = frozenset(
    word
    for line in (
        "a about an and are as at be been but by can could did do does for from had has have he her his how i if in",
        "into is it its may me must my no nor not of on or our she should so such than that the their them then there",
        "these they this to us was we were what when where which who whom whose why will with would you your",
    )
    for word in line.split()
)
WORD = re.compile(r"\w+")
MOST_WORDS = 64


def words_of(text: str) -> list[str]:
    """Split a query into its first words, each once and in lower case."""
    return list(dict.fromkeys(word.lower() for word in WORD.findall(text)))[:MOST_WORDS]


def without_stop_words(words: list[str]) -> list[str]:
    """Leave out English stop words, unless there are no other words: they stand in nearly every record."""
    return [word for word in words if word not in FILLERS] or words
