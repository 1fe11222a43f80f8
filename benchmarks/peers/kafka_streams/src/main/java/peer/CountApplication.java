package peer;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts the records of each key with Kafka Streams: RocksDB store, changelog, output topic.
 *
 * <p>Runs until SIGTERM. Arguments are NAME=VALUE: bootstrap, app, in, out, state, operators,
 * repartitioned, and conf.KEY for any setting of Kafka Streams. At its end it prints how many
 * records it restored.
 */
public final class CountApplication {
  private CountApplication() {}

  public static void main(String[] arguments) throws InterruptedException {
    Map<String, String> options = new HashMap<>();
    for (String argument : arguments) {
      String[] pair = argument.split("=", 2);
      options.put(pair[0], pair[1]);
    }
    AtomicLong restored = new AtomicLong();
    CountDownLatch ended = new CountDownLatch(1);
    KafkaStreams streams = new KafkaStreams(topology(options), settings(options));
    streams.setGlobalStateRestoreListener(new RestoreCounter(restored));
    streams.setStateListener(
        (now, before) -> {
          System.out.println("state=" + now);
          if (now == KafkaStreams.State.ERROR) {
            ended.countDown();
          }
        });
    Thread closing =
        new Thread(
            () -> {
              streams.close(Duration.ofSeconds(30));
              System.out.println("restored_records=" + restored.get());
              ended.countDown();
            });
    Runtime.getRuntime().addShutdownHook(closing);
    streams.start();
    ended.await();
    if (streams.state() == KafkaStreams.State.ERROR) {
      Runtime.getRuntime().halt(1);
    }
  }

  private static Topology topology(Map<String, String> options) {
    StreamsBuilder builder = new StreamsBuilder();
    KStream<String, String> records =
        builder.stream(options.get("in"), Consumed.with(Serdes.String(), Serdes.String()));
    if (!options.getOrDefault("operators", "0").equals("0")) {
      records =
          records
              .filter((key, value) -> !value.isEmpty())
              .mapValues(value -> value + "!")
              .mapValues(value -> value.toUpperCase());
    }
    if (options.containsKey("repartitioned")) {
      records = records.selectKey((key, value) -> key);
    }
    records
        .groupByKey()
        .count(
            Materialized.<String, Long>as(Stores.persistentKeyValueStore("counts"))
                .withKeySerde(Serdes.String())
                .withValueSerde(Serdes.Long()))
        .toStream()
        .to(options.get("out"), Produced.with(Serdes.String(), Serdes.Long()));
    return builder.build();
  }

  private static Properties settings(Map<String, String> options) {
    Properties settings = new Properties();
    settings.put("application.id", options.get("app"));
    settings.put("bootstrap.servers", options.get("bootstrap"));
    settings.put("state.dir", options.get("state"));
    settings.put("auto.offset.reset", "earliest");
    settings.put("default.key.serde", Serdes.StringSerde.class);
    settings.put("default.value.serde", Serdes.StringSerde.class);
    options.forEach(
        (name, value) -> {
          if (name.startsWith("conf.")) {
            settings.put(name.substring("conf.".length()), value);
          }
        });
    return settings;
  }

  /** Adds up what all stores restored. */
  private record RestoreCounter(AtomicLong total) implements StateRestoreListener {
    @Override
    public void onRestoreStart(TopicPartition partition, String store, long start, long end) {}

    @Override
    public void onBatchRestored(TopicPartition partition, String store, long end, long count) {
      total.addAndGet(count);
    }

    @Override
    public void onRestoreEnd(TopicPartition partition, String store, long count) {}
  }
}
