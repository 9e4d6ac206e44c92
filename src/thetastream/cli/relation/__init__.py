"""The verbs of ``thetastream relation``, a module each.

``verbs`` registers them; ``line`` and ``pipe`` are what they share.
"""
