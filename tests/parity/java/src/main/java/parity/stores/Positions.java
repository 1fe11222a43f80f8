package parity.stores;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.state.internals.PositionSerde;

/** Positions and their bytes, with the zeros that Kafka Streams writes behind them. */
final class Positions {

    private Positions() {
    }

    static Map<String, Object> vectors() {
        final List<Object> vectors = new ArrayList<>();
        final Position one = Position.emptyPosition().withComponent("orders", 0, 0L);
        final Position partitions = Position.emptyPosition()
            .withComponent("orders", 0, 41L)
            .withComponent("orders", 1, Long.MAX_VALUE)
            .withComponent("orders", 31, 7L);
        final Position topics = partitions.copy()
            .withComponent("a", 0, 1L)
            .withComponent("prices.eu-west_1", 2, 1L << 40);
        for (final Position position
                : List.of(Position.emptyPosition(), one, partitions, topics)) {
            vectors.add(vector(position));
        }
        return Map.of("positions", vectors);
    }

    private static Map<String, Object> vector(final Position position) {
        final Map<String, Object> vector = new LinkedHashMap<>();
        vector.put("position", asMap(position));
        // The array behind the buffer is what stores and headers hold, not the buffer's part of it.
        vector.put("bytes", Line.hex(PositionSerde.serialize(position).array()));
        return vector;
    }

    /** Offsets by topic and partition. */
    static Map<String, Map<Integer, Long>> asMap(final Position position) {
        final Map<String, Map<Integer, Long>> topics = new TreeMap<>();
        for (final String topic : position.getTopics()) {
            topics.put(topic, new TreeMap<>(position.getPartitionPositions(topic)));
        }
        return topics;
    }

    static Map<String, Map<Integer, Long>> read(final byte[] bytes) {
        return asMap(PositionSerde.deserialize(ByteBuffer.wrap(bytes)));
    }
}
