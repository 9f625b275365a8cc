"""Languages whose words are stemmed, and the words of a query."""

from unicodedata import category

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
MARKS = frozenset({"Mn", "Mc", "Me", "Cf"})  # accents, vowel signs, joiners: no word ends at them
MOST_WORDS = 64


def words_of(text: str) -> list[str]:
    """Split a query into its first words, each once: runs of letters and digits, with the marks that belong to them."""
    found: dict[str, str] = {}
    for word in "".join(char if _is_of_a_word(char) else " " for char in text).split():
        found.setdefault(word.lower(), word)
    return list(found.values())[:MOST_WORDS]


def _is_of_a_word(char: str) -> bool:
    return char.isalnum() or char == "_" or category(char) in MARKS


def without_stop_words(words: list[str]) -> list[str]:
    """Leave out English stop words, unless there are no other words: they stand in nearly every record."""
    return [word for word in words if word.lower() not in FILLERS] or words
