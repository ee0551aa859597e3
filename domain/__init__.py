"""Models, rules, identifiers and error codes: pure, without I/O, without Temporal or MongoDB."""
