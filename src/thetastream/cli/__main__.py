"""``python -m thetastream.cli`` is ``thetastream``."""

from __future__ import annotations

from thetastream.cli.app import main

if __name__ == "__main__":
    main()
