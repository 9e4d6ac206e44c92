"""Loops that call libJudy by address."""
