"""``relation_join`` on Spark.

``operator`` is the call, ``worker`` one join per worker process, ``report`` adds up what tasks did.
"""
