"""Rules that a pencil could check: no clock, no database, no network."""
