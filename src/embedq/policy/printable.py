"""Characters that control terminals or the direction of text."""

DELETE = 0x7F
C1 = range(0x80, 0xA0)  # includes a single-byte CSI, which starts terminal commands
# Direction marks, which make a name look like another; and line separators that only some readers know.
TURNS = (0x061C, 0x200E, 0x200F, 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
SURROGATES = range(0xD800, 0xE000)  # half a character, which UTF-8 cannot encode

# Control characters are shown as symbols: a stored text must not control the terminal.
SIGNS = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"}
SIGNS |= {DELETE: 0x2421} | dict.fromkeys(C1, 0xFFFD)
ESCAPES = {code: f"\\u{code:04x}" for code in (DELETE, *C1, *TURNS, *SURROGATES)}
SHOWN: dict[int, int | str] = {**ESCAPES, **SIGNS}


def safe_json(written: str) -> str:
    """Escape these characters in a JSON text; it decodes to the same strings."""
    return written if written.isascii() and "\x7f" not in written else written.translate(ESCAPES)


def literal(value: str) -> str:
    """Show control characters and direction marks as symbols and escapes."""
    return value.translate(SHOWN)


def writes_unicode(stream: object) -> bool:
    """Say whether a stream can write every character."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return str(encoding).lower().startswith("utf")
