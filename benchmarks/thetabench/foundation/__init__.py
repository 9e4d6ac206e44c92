"""``thetastream bench foundation``: thetastream beside its peers, each in a process of its own."""
