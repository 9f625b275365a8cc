"""Characters that control terminals or the direction of text."""

DELETE = 0x7F
C1 = range(0x80, 0xA0)  # includes a single-byte CSI, which starts terminal commands
# Direction marks, which make a name look like another; and line separators that only some readers know.
TURNS = (0x061C, 0x200E, 0x200F, 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
SURROGATES = range(0xD800, 0xE000)  # half a character, which UTF-8 cannot encode

ESCAPES = {code: f"\\u{code:04x}" for code in (DELETE, *C1, *TURNS, *SURROGATES)}


def safe_json(written: str) -> str:
    """Escape these characters in a JSON text; it decodes to the same strings."""
    return written if written.isascii() and "\x7f" not in written else written.translate(ESCAPES)
