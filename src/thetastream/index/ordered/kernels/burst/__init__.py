"""Loops of the burst-trie: nodes and containers, changes, batches of rows."""
