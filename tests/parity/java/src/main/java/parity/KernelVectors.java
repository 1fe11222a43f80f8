package parity;

import static parity.GoldenFile.base64;

import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.UUID;
import java.util.function.Function;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Utils;

/** Vectors of the smallest parts: what each serde writes, and where the partitioner sends a key. */
final class KernelVectors {

    private static final int[] PARTITION_COUNTS = {1, 3, 8, 50};

    private KernelVectors() {
    }

    /** For each serde: a value as text and its bytes. Bytes as text are hexadecimal. */
    static Map<String, Object> serdes() {
        final Map<String, Object> vectors = new LinkedHashMap<>();
        vectors.put("string", vectorsOf(Serdes.String(), Function.identity(), List.of(
            "", "a", "plain text", "Zürich", "Łódź", "東京", "São Paulo", "😀 beyond the BMP",
            "line\nbreak\ttab", "quote \" back \\ slash", "nul \0 inside", "é as e\u0301")));
        vectors.put("int", vectorsOf(Serdes.Integer(), String::valueOf, List.of(
            0, 1, -1, 127, 128, 255, 256, -129, 65536, 1_000_000_007,
            Integer.MAX_VALUE, Integer.MIN_VALUE)));
        vectors.put("long", vectorsOf(Serdes.Long(), String::valueOf, List.of(
            0L, 1L, -1L, 255L, 256L, 4294967296L, Script.START_MS, -9_007_199_254_740_993L,
            Long.MAX_VALUE, Long.MIN_VALUE)));
        vectors.put("double", vectorsOf(Serdes.Double(), String::valueOf, List.of(
            0.0, -0.0, 1.0, -1.5, 0.1, 1.0 / 3.0, 123456789.125, 1e-300, Double.MAX_VALUE,
            Double.MIN_VALUE, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY, Double.NaN)));
        vectors.put("uuid", vectorsOf(Serdes.UUID(), String::valueOf, List.of(
            new UUID(0, 0), new UUID(-1, -1),
            UUID.fromString("123e4567-e89b-12d3-a456-426614174000"),
            UUID.fromString("ABCDEF01-2345-6789-ABCD-EF0123456789"))));
        vectors.put("bytes", vectorsOf(Serdes.ByteArray(), HexFormat.of()::formatHex, List.of(
            new byte[0], new byte[] {0}, new byte[] {-1, -128, 127}, new byte[] {1, 2, 3, 4, 5})));
        return vectors;
    }

    private static <T> List<Object> vectorsOf(
            final Serde<T> serde, final Function<T, String> text, final List<T> values) {
        final List<Object> vectors = new ArrayList<>();
        for (final T value : values) {
            final Map<String, Object> vector = new LinkedHashMap<>();
            vector.put("value", text.apply(value));
            vector.put("bytes", base64(serde.serializer().serialize("topic", value)));
            vectors.add(vector);
        }
        return vectors;
    }

    /** 100 keys of 0 to 99 bytes: their murmur2 hash and their partition for several counts. */
    static Map<String, Object> partitioner() {
        final Random random = new Random(100);
        final List<Object> vectors = new ArrayList<>();
        for (int length = 0; length < 100; length++) {
            final byte[] key = new byte[length];
            random.nextBytes(key);
            final Map<String, Object> partitions = new LinkedHashMap<>();
            for (final int count : PARTITION_COUNTS) {
                partitions.put(
                    String.valueOf(count), BuiltInPartitioner.partitionForKey(key, count));
            }
            final Map<String, Object> vector = new LinkedHashMap<>();
            vector.put("key", base64(key));
            vector.put("murmur2", Utils.murmur2(key));
            vector.put("partitions", partitions);
            vectors.add(vector);
        }
        return Map.of("keys", vectors);
    }
}
