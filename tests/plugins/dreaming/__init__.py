"""Tests of dreams."""
