"""Transcripts and the index of sessions on disk."""
