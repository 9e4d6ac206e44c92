"""The verbs of ``thetastream relation``.

``build``, ``join``, ``info``, ``change`` and ``calibrate`` hold the verbs, ``verbs`` registers
them, and ``pipe`` reads standard input and writes standard output.
"""
