package peer;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.processor.StateStore;

/**
 * One windowed aggregation with Kafka Streams, of the kind that is asked for, to an output topic.
 *
 * <p>Runs until SIGTERM. Arguments are NAME=VALUE: bootstrap, app, in, out, state, kind, emit,
 * size-ms, advance-ms, gap-ms, difference-ms, grace-ms, retention-ms, and conf.KEY for any setting
 * of Kafka Streams.
 */
public final class WindowApplication {
  private WindowApplication() {}

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
    KGroupedStream<String, String> grouped =
        builder.<String, String>stream(options.get("in")).groupByKey();
    Duration grace = time(options, "grace-ms");
    Duration retention = time(options, "retention-ms");
    String kind = options.get("kind");
    EmitStrategy emit =
        options.get("emit").equals("close")
            ? EmitStrategy.onWindowClose()
            : EmitStrategy.onWindowUpdate();
    Serde<Windowed<String>> keys =
        kind.equals("session")
            ? WindowedSerdes.sessionWindowedSerdeFrom(String.class)
            : WindowedSerdes.timeWindowedSerdeFrom(
                String.class, time(options, "size-ms").toMillis());
    TimeWindows windows = TimeWindows.ofSizeAndGrace(time(options, "size-ms"), grace);
    KTable<Windowed<String>, Long> table =
        switch (kind) {
          case "tumbling" ->
              grouped
                  .windowedBy(windows)
                  .emitStrategy(emit)
                  .count(kept(retention));
          case "hopping" ->
              grouped
                  .windowedBy(windows.advanceBy(time(options, "advance-ms")))
                  .emitStrategy(emit)
                  .aggregate(
                      () -> 0L,
                      (key, value, total) -> total + Long.parseLong(value),
                      kept(retention));
          case "session" ->
              grouped
                  .windowedBy(SessionWindows.ofInactivityGapAndGrace(time(options, "gap-ms"), grace))
                  .emitStrategy(emit)
                  .count(kept(retention));
          default ->
              grouped
                  .windowedBy(
                      SlidingWindows.ofTimeDifferenceAndGrace(
                          time(options, "difference-ms"), grace))
                  .emitStrategy(emit)
                  .count(kept(retention));
        };
    table.toStream().to(options.get("out"), Produced.with(keys, Serdes.Long()));
    return builder.build();
  }

  private static <S extends StateStore> Materialized<String, Long, S> kept(Duration retention) {
    return Materialized.<String, Long, S>as("results")
        .withValueSerde(Serdes.Long())
        .withRetention(retention);
  }

  private static Duration time(Map<String, String> options, String name) {
    return Duration.ofMillis(Long.parseLong(options.get(name)));
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
