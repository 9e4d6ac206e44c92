"""``thetastream bench planner``: does ``auto`` choose as well as the best fixed tactic?"""
