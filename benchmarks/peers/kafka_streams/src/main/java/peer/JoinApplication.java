package peer;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.state.Stores;

/**
 * One join with Kafka Streams, of the kind that is asked for, to an output topic.
 *
 * <p>Runs until SIGTERM. Arguments are NAME=VALUE: bootstrap, app, in, out, state, kind,
 * window-ms, grace-ms, and conf.KEY for any setting of Kafka Streams.
 */
public final class JoinApplication {
  private static final Duration HISTORY = Duration.ofHours(1);

  private JoinApplication() {}

  public static void main(String[] arguments) throws InterruptedException {
    Map<String, String> options = new HashMap<>();
    for (String argument : arguments) {
      String[] pair = argument.split("=", 2);
      options.put(pair[0], pair[1]);
    }
    CountDownLatch ended = new CountDownLatch(1);
    KafkaStreams streams = new KafkaStreams(topology(options), settings(options));
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
    String source = options.get("in");
    String other = source + "-other";
    String kind = options.get("kind");
    Duration grace = Duration.ofMillis(Long.parseLong(options.get("grace-ms")));
    ValueJoiner<String, String, String> joiner =
        (left, right) -> (left == null ? "-" : left) + "&" + (right == null ? "-" : right);
    if (kind.equals("table-table") || kind.equals("foreign-key")) {
      KTable<String, String> left = builder.table(source);
      KTable<String, String> right = builder.table(other);
      KTable<String, String> joined =
          kind.equals("table-table")
              ? left.join(right, joiner)
              : left.join(right, value -> value.split("/", 2)[0], joiner);
      joined.toStream().to(options.get("out"));
      return builder.build();
    }
    KStream<String, String> stream = builder.stream(source);
    JoinWindows windows =
        JoinWindows.ofTimeDifferenceAndGrace(
            Duration.ofMillis(Long.parseLong(options.get("window-ms"))), grace);
    KStream<String, String> joined =
        switch (kind) {
          case "inner" -> stream.join(builder.<String, String>stream(other), joiner, windows);
          case "left" -> stream.leftJoin(builder.<String, String>stream(other), joiner, windows);
          case "outer" -> stream.outerJoin(builder.<String, String>stream(other), joiner, windows);
          default -> {
            KTable<String, String> table =
                builder.table(
                    other,
                    kind.equals("table")
                        ? Materialized.as(Stores.persistentTimestampedKeyValueStore("rows"))
                        : Materialized.as(
                            Stores.persistentVersionedKeyValueStore("rows", HISTORY)));
            Joined<String, String, String> waiting = Joined.as("joining");
            if (kind.equals("grace")) {
              waiting = waiting.withGracePeriod(grace);
            }
            yield stream.join(table, joiner, waiting);
          }
        };
    joined.to(options.get("out"));
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
}
