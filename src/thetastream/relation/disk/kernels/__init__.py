"""Loops that read blocks and plan reads."""
