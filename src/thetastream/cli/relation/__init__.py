"""The verbs of ``thetastream relation``, a module each.

``build``, ``join``, ``info``, ``change`` and ``calibrate`` are the verbs, ``verbs`` registers them;
``line`` shows progress, ``pipe`` joins a stream of files.
"""
