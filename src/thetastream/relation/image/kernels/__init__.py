"""Loops over the images of leaves."""
