"""Rules that a table already holds: attached, they are embedded by triggers and found by meaning."""
