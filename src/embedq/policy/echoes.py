"""Redacts texts in error messages: providers and libraries quote what they refuse."""

import html
import re
import traceback
from collections.abc import Iterator, Sequence
from unicodedata import normalize
from urllib.parse import unquote

from embedq.errors import EmbedqError, Transient

MASK = "<text>"
WHOLE_TEXT = 8  # characters: a shorter text may occur in a message by chance, so it is compared word by word
SHORT_WORD = 3  # letters: shorter words reveal nothing
MOST_READ = 20_000  # characters of a message
# Common words of API errors. They stay, even if a text contains them too.
_WORDS = """
about above after again allowed already and another any api are array argument authentication authorization bad base64
batch before been below between body but bytes can cannot character characters chars check client code combination
completion connection contain contains content context correct could create current data deployment detail details
dimension dimensions documentation does doesn each embed embedding embeddings empty encoding encoding_format endpoint
error errors exceed exceeded exceeds exist exists expected expired failed field float for format found from gateway
get got greater has have header however http https incorrect index input inputs instead int integer internal invalid
invalid_request_error invalid_value is item items its json key large later least length less like limit limited list
long longer made malformed many max maximum may message method min minimum missing model models more most must name
near not null number object only org organization over page parameter parse path per permission please plan policy
position post problem processed project prompt provide provided provider quota range rate read reached reason received
reduce refused rejected request requested requests require required resource response resulted results retry send sent
server service service_unavailable should size small smaller status str string such support supported surrogate
temporarily text texts than that the their then there these they this time timeout timed token tokens too tokenization
tokenizer tokenizers total try trying type type_error unable unauthorized unavailable unexpected unicode unknown
unprocessable unsupported url usage use used user utf valid validation value value_error values was wait were what
when which while will with without wrong you your
"""
WORDS = frozenset(_WORDS.split())
_WORD = re.compile(r"\w+")
_RUN = re.compile(rf"{MASK}(?:\W*{MASK})+")
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})|\\x([0-9a-fA-F]{2})")


def without_texts(message: str, texts: Sequence[str]) -> str:
    """Redact what a message quotes of these texts, in whole or in part, plain or escaped."""
    said = unescaped(message[:MOST_READ])
    for text in texts:
        if len(text) >= WHOLE_TEXT and text in said:
            said = said.replace(text, f"{MASK[:-1]} of {len(text)} characters>")
    spoken = _plain("\n".join(texts))

    def judged(found: re.Match[str]) -> str:
        word = _plain(found[0])
        harmless = word in WORDS or (word.isascii() and len(word) < SHORT_WORD)
        return found[0] if harmless or word not in spoken else MASK

    return _RUN.sub(MASK, _WORD.sub(judged, said))


def cleared(error: Exception, texts: Sequence[str]) -> EmbedqError:
    """Copy an error with these texts redacted; its causes become a note.

    A foreign error becomes a transient one, since its meaning is unknown.
    """
    said = without_texts(str(error), texts)
    ours = isinstance(error, EmbedqError)
    made = (
        error if isinstance(error, EmbedqError) else Transient(said or type(error).__name__, code=type(error).__name__)
    )
    causes = [*_chain(error)][1 if ours else 0 :]
    made.args = (said or type(error).__name__,)
    made.__cause__ = made.__context__ = None
    for cause in causes:
        made.add_note(_described(cause, texts))
    return made


def _described(error: BaseException, texts: Sequence[str]) -> str:
    """Format an error's traceback, with these texts redacted in its message. Frames show code, never values."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    return f"From {type(error).__module__}.{type(error).__qualname__}: {without_texts(str(error), texts)}\n{frames}"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _plain(text: str) -> str:
    return normalize("NFKC", text).casefold()


def unescaped(message: str) -> str:
    """Undo the escapes of JSON, Python, URLs and HTML, for comparison."""
    read = _ESCAPE.sub(lambda found: chr(int(found[1] or found[2], 16)), message)
    whole = read.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return html.unescape(unquote(whole)) if whole != message or "%" in whole or "&" in whole else whole
