package parity;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.test.TestRecord;
import java.time.Duration;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The input of a scenario, from a seed: the same seed gives the same steps for ever.
 *
 * Event time moves on by up to 900 ms a record; one record in five is up to 5 s late. One record
 * in four has headers, some with a repeated name or a null value.
 */
final class Script {

    /** Event time and wall-clock time (ms) at which every scenario starts. */
    static final long START_MS = 1_700_000_000_000L;

    /** Keys of most scenarios; some take more than one byte a character. */
    static final List<String> NAMES = List.of("ava", "bo", "çelik", "Δ-9", "雪");

    /** Places that values name. */
    static final List<String> CITIES = List.of("Oslo", "Zürich", "Łódź", "東京", "São Paulo");

    private final Random random;
    private final List<Step> steps = new ArrayList<>();
    private long timeMs = START_MS;

    Script(final long seed) {
        random = new Random(seed);
    }

    List<Step> steps() {
        return steps;
    }

    // ------------------------------------------------------------------ random choices

    <T> T oneOf(final List<T> choices) {
        return choices.get(random.nextInt(choices.size()));
    }

    int below(final int bound) {
        return random.nextInt(bound);
    }

    boolean percent(final int chance) {
        return random.nextInt(100) < chance;
    }

    long randomLong() {
        return random.nextLong();
    }

    /** One of the names; null in {@code nullPercent} of 100 cases. */
    String name(final int nullPercent) {
        return percent(nullPercent) ? null : oneOf(NAMES);
    }

    /** "city:amount" with an amount from 0 to 99; null in {@code nullPercent} of 100 cases. */
    String cityAmount(final int nullPercent) {
        return percent(nullPercent) ? null : oneOf(CITIES) + ":" + below(100);
    }

    // ------------------------------------------------------------------ steps

    void pipe(final String topic, final String key, final String value) {
        final StringSerializer serializer = new StringSerializer();
        pipe(topic, serializer, key, serializer, value);
    }

    <K, V> void pipe(
            final String topic,
            final Serializer<K> keySerializer, final K key,
            final Serializer<V> valueSerializer, final V value) {
        timeMs += below(900);
        final long timestamp = percent(20) ? timeMs - below(5000) : timeMs;
        steps.add(new Pipe(
            topic,
            keySerializer.serialize(topic, key),
            valueSerializer.serialize(topic, value),
            timestamp,
            randomHeaders()));
    }

    void advanceWallClock(final long milliseconds) {
        steps.add(new AdvanceWallClock(milliseconds));
    }

    private Headers randomHeaders() {
        final Headers headers = new RecordHeaders();
        if (!percent(25)) {
            return headers;
        }
        headers.add("trace", ("t" + below(1000)).getBytes(StandardCharsets.UTF_8));
        if (percent(40)) {
            headers.add("route", oneOf(List.of("north", "süd")).getBytes(StandardCharsets.UTF_8));
        }
        if (percent(20)) {
            headers.add("trace", "again".getBytes(StandardCharsets.UTF_8));
        }
        if (percent(20)) {
            headers.add("empty", null);
        }
        return headers;
    }

    /** One thing done to a running topology. */
    interface Step {
        void run(TopologyTestDriver driver);

        Map<String, Object> toGolden();
    }

    private record Pipe(String topic, byte[] key, byte[] value, long timestamp, Headers headers)
            implements Step {
        @Override
        public void run(final TopologyTestDriver driver) {
            final ByteArraySerializer raw = new ByteArraySerializer();
            final TestInputTopic<byte[], byte[]> input = driver.createInputTopic(topic, raw, raw);
            input.pipeInput(new TestRecord<>(key, value, new RecordHeaders(headers), timestamp));
        }

        @Override
        public Map<String, Object> toGolden() {
            final Map<String, Object> pipe = new LinkedHashMap<>();
            pipe.put("topic", topic);
            pipe.putAll(GoldenFile.record(key, value, timestamp, headers));
            return Map.of("pipe", pipe);
        }
    }

    private record AdvanceWallClock(long milliseconds) implements Step {
        @Override
        public void run(final TopologyTestDriver driver) {
            driver.advanceWallClockTime(Duration.ofMillis(milliseconds));
        }

        @Override
        public Map<String, Object> toGolden() {
            return Map.of("advance_wall_clock_ms", milliseconds);
        }
    }
}
