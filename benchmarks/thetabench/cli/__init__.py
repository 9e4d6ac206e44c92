"""The command line of the laboratory: ``thetastream bench``, a module per kind of experiment."""
