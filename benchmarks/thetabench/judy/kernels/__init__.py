"""Loops that call libJudy by address (``rows``), and such calls (``calling``)."""
