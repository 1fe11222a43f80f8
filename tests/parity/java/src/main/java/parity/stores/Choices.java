package parity.stores;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.stream.Stream;

/**
 * The random choices that operations are made of; `Choices` in store_operations.py, draw by draw.
 *
 * <p>Keys are prefixes of one another and are made of the lowest and the highest bytes as well.
 * Event time starts at 0, and jumps to our days. Times repeat, come late, come too late, and lie on
 * borders of segments.
 */
final class Choices {

    static final List<byte[]> KEYS = Stream
        .of("61", "6162", "6100", "61ff", "610000", "61ffff", "00", "0000", "ff", "ffff", "80",
            "7f", "6b31", "6b32", "6b3132", "0061")
        .map(HexFormat.of()::parseHex)
        .toList();

    /** The operation before which event time jumps from minutes after 1970 to minutes in 2023. */
    static final int JUMP_AT = 3_000;

    private static final long JUMP_MS = 1_700_000_000_000L;
    private static final int REMEMBERED = 16;

    private final SplitMix64 random;
    private final int retentionMs;
    private final int segmentIntervalMs;
    private final int longestStepMs;
    private final List<Long> recentTimes = new ArrayList<>();
    private long nowMs;

    /**
     * Makes choices for one store.
     *
     * @param seed where the sequence starts
     * @param retentionMs how late a time may be without being too late
     * @param segmentIntervalMs what one segment covers
     * @param longestStepMs event time moves on by less than this, in every second call of time()
     */
    Choices(
            final long seed, final int retentionMs, final int segmentIntervalMs,
            final int longestStepMs) {
        random = new SplitMix64(seed);
        this.retentionMs = retentionMs;
        this.segmentIntervalMs = segmentIntervalMs;
        this.longestStepMs = longestStepMs;
    }

    int below(final int bound) {
        return random.below(bound);
    }

    boolean percent(final int chance) {
        return random.percent(chance);
    }

    /** To be called before each operation. */
    void startOf(final int number) {
        if (number == JUMP_AT) {
            nowMs += JUMP_MS;
        }
    }

    long now() {
        return nowMs;
    }

    byte[] key() {
        return KEYS.get(below(KEYS.size()));
    }

    byte[] keyOrNull() {
        return percent(20) ? null : key();
    }

    /** The operation's number; no bytes in 1 of 20 cases, null in {@code nullPercent} of 100. */
    byte[] value(final int number, final int nullPercent) {
        if (percent(nullPercent)) {
            return null;
        }
        return percent(5)
            ? new byte[0] : Integer.toString(number).getBytes(StandardCharsets.US_ASCII);
    }

    /** A time to write at; is remembered. */
    long time() {
        final int choice = below(100);
        long time;
        if (choice < 50) {
            nowMs += below(longestStepMs);
            time = nowMs;
        } else if (choice < 80) {
            time = nowMs - below(retentionMs);
        } else if (choice < 90) {
            time = nowMs - below(2 * retentionMs);
        } else if (choice < 93) {
            time = nowMs;
        } else if (choice < 95) {
            nowMs = (nowMs / segmentIntervalMs + 1) * segmentIntervalMs - below(2);
            time = nowMs;
        } else if (choice < 97) {
            time = nowMs - retentionMs + 1 - below(3);
        } else {
            time = (nowMs / segmentIntervalMs - below(4)) * segmentIntervalMs - below(2);
        }
        time = Math.max(0, time);
        if (recentTimes.size() < REMEMBERED) {
            recentTimes.add(time);
        } else {
            recentTimes.set(below(REMEMBERED), time);
        }
        return time;
    }

    /** A time to read at: mostly one that was written at, or a moment from it. */
    long readTime() {
        if (recentTimes.isEmpty() || percent(20)) {
            return Math.max(0, nowMs - below(2 * retentionMs) + below(longestStepMs));
        }
        return Math.max(0, recentTimes.get(below(recentTimes.size())) + below(3) - 1);
    }
}
