"""Where an engine listens and what it names its files, unless told otherwise; no imports."""

HOST = "127.0.0.1"
PORT = 8420

LOG_FILE = "log.sqlite"
"""Within the data directory: the embedded log."""
VIEW_FILE = "view.sqlite"
"""Within the data directory: the view."""
STATE_FOLDER = "state"
"""Within the data directory: each partition's state, in a directory named by its number."""

KAFKA_PARTITIONS = 12
"""Partitions of a cluster on Kafka, unless it is made with others (DESIGN 3)."""
KAFKA_REPLICATION = 3
"""Brokers that hold each record of a new cluster, where there are as many (DESIGN 7)."""
