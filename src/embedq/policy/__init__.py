"""Pure rules: no clock, no database, no network."""
