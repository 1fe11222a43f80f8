package parity;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.Set;

/** The inputs of {@link JoinCases}: some written by hand, the others drawn from seeds. */
final class JoinCaseInputs {

    /** The history of a versioned table (ms); no input spans as much. */
    static final long HISTORY_MS = 600_000;

    /** Kinds of joins of two streams. */
    static final Set<String> WINDOWED = Set.of("inner", "left", "outer");

    private static final List<String> KINDS = List.of(
        "inner", "left", "outer", "grace", "grace-left", "versioned", "versioned-left",
        "table", "table-left");
    private static final int GOLDEN_SEEDS = 12;

    private JoinCaseInputs() {
    }

    /** One join and what is sent to it. */
    record Case(
            String name, String kind, long beforeMs, long afterMs, long graceMs,
            long emitIntervalMs, List<Step> steps) {
    }

    /** A record; or, without a topic, so much wall-clock time. */
    record Step(String topic, String key, String value, long timeMs) {
        List<Object> golden() {
            return Arrays.asList(topic, key, value, timeMs);
        }
    }

    static List<Case> golden() {
        final List<Case> cases = new ArrayList<>(List.of(
            waiting("record without value lets nothing go", 10,
                of("other", "a", "old", 0), of("stream", "a", "x", 5),
                of("stream", "a", null, 100), of("other", "a", "new", 4),
                of("stream", "b", "y", 200)),
            waiting("record without value does not move the time", 0,
                of("stream", "k0", null, 5677), of("stream", "b", "late", 4113)),
            waiting("record without key lets nothing go", 10,
                of("other", "a", "old", 0), of("stream", "a", "x", 5),
                of("stream", null, "z", 100), of("other", "a", "new", 4),
                of("stream", "b", "y", 200)),
            new Case("duplicates wait on one side", "outer", 0, 100, 50, 0, List.of(
                of("other", "c", "1", 26), of("other", "c", "2", 26), of("other", "b", "3", 44),
                of("stream", "a", "4", 0), of("other", "a", "5", 75),
                of("other", "b", "6", 80))),
            new Case("duplicates wait on the other side", "outer", 100, 0, 50, 0, List.of(
                of("other", "c", "1", 26), of("other", "c", "2", 26), of("other", "b", "3", 44),
                of("stream", "a", "4", 0), of("other", "a", "5", 75),
                of("other", "b", "6", 80)))));
        for (long seed = 0; seed < GOLDEN_SEEDS; seed++) {
            cases.addAll(random(seed));
        }
        return cases;
    }

    private static Case waiting(final String name, final long graceMs, final Step... steps) {
        return new Case(name, "grace", 0, 0, graceMs, 0, List.of(steps));
    }

    private static Step of(
            final String topic, final String key, final String value, final long timeMs) {
        return new Step(topic, key, value, timeMs);
    }

    /** A case of each kind. */
    static List<Case> random(final long seed) {
        final List<Case> cases = new ArrayList<>();
        for (final String kind : KINDS) {
            final Random random = new Random(seed * KINDS.size() + KINDS.indexOf(kind));
            final long graceMs = random.nextBoolean() ? random.nextInt(60) : 0;
            cases.add(new Case(
                "seed " + seed, kind, random.nextInt(120) * random.nextInt(2),
                random.nextInt(120) * random.nextInt(2), graceMs,
                random.nextInt(4) == 0 ? 1000 : 0, steps(random, kind)));
        }
        return cases;
    }

    /** Times go up slowly, with many equal ones, some late, some jumps; keys are few. */
    private static List<Step> steps(final Random random, final String kind) {
        final List<Step> steps = new ArrayList<>();
        long nowMs = 0;
        final int count = 10 + random.nextInt(40);
        for (int number = 0; number < count; number++) {
            if (random.nextInt(10) == 0) {
                steps.add(of(null, null, null, random.nextInt(1800)));
            }
            if (random.nextInt(3) > 0) {
                nowMs += random.nextInt(random.nextInt(12) == 0 ? 300 : 25);
            }
            final long lateMs = random.nextInt(3) == 0 ? random.nextInt(150) : 0;
            final String topic = random.nextInt(5) < 3 ? "stream" : "other";
            final boolean nullKey = random.nextInt(20) == 0
                // Kafka fails on them.
                && !(kind.equals("grace-left") && topic.equals("stream"));
            final String key = nullKey ? null : List.of("a", "b", "c", "ab").get(random.nextInt(4));
            final String value = random.nextInt(9) == 0 ? null : "v" + number;
            steps.add(of(topic, key, value, Math.max(0, nowMs - lateMs)));
        }
        return steps;
    }
}
