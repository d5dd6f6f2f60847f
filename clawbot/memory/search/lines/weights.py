"""Owns what users call the weights of meaning and of words in the profile `lines`; other shares scale them."""

from __future__ import annotations

VECTOR_SHARE, TEXT_SHARE = 0.3, 0.7
