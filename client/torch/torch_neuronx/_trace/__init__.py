"""Tracing: from a missed op or a captured graph to a Program. See README.md."""
