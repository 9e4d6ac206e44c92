"""Loops that join stream rows with the images of leaves."""
