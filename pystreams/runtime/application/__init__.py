"""`KafkaStreams`: the threads and the state of one instance. Nothing in the runtime imports it."""
