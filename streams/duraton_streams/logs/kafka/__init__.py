"""The log on Kafka: one transactional producer a partition, readers that see only commits."""

from duraton_streams.logs.kafka.log import KafkaLog
from duraton_streams.logs.kafka.settings import KafkaSettings

__all__ = ["KafkaLog", "KafkaSettings"]
