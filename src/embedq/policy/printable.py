"""Characters that are not shown but obeyed: by terminals, or by whoever lays out lines from right to left."""

DELETE = 0x7F
C1 = range(0x80, 0xA0)  # among them a lone byte that begins a terminal's commands
# What turns the direction of writing, so that a name looks like another; and what ends a line for some readers only.
TURNS = (0x061C, 0x200E, 0x200F, 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
SURROGATES = range(0xD800, 0xE000)  # half a character, which UTF-8 cannot carry

ESCAPES = {code: f"\\u{code:04x}" for code in (DELETE, *C1, *TURNS, *SURROGATES)}


def safe_json(written: str) -> str:
    """Escape in a JSON text what JSON would let through; its reader gets the same strings."""
    return written if written.isascii() and "\x7f" not in written else written.translate(ESCAPES)
