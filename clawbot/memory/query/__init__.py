"""How a question becomes terms of the keyword index: any text goes in, no FTS5 syntax error comes out."""

from clawbot.memory.query.parse import MAX_QUERY_CHARS, MAX_TERMS, parse_query
from clawbot.memory.query.values import Kind, Query, Term

__all__ = ["MAX_QUERY_CHARS", "MAX_TERMS", "Kind", "Query", "Term", "parse_query"]
