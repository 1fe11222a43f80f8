package parity;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;

/** The inputs of {@link SuppressCases}: some written by hand, the others drawn from seeds. */
final class SuppressCaseInputs {

    private static final List<String> KINDS =
        List.of("table", "joined", "window", "window-limit", "sliding", "session", "two");
    private static final int GOLDEN_SEEDS = 12;
    private static final int LATE_MS = 60;

    private SuppressCaseInputs() {
    }

    /** One suppression and what is sent to it; a bound of -1 is none. */
    record Case(
            String name, String kind, long waitMs, long sizeMs, long graceMs, long maxRecords,
            long maxBytes, List<Step> steps) {
    }

    /** A record; one with a note has it as the header "n". */
    record Step(String topic, String key, String value, long timeMs, String note) {
        List<Object> golden() {
            return Arrays.asList(topic, key, value, timeMs, note);
        }
    }

    static List<Case> golden() {
        final List<Case> cases = new ArrayList<>(List.of(
            table("a key keeps its place", 10, -1,
                of("a", "1", 0), of("b", "2", 1), of("a", "3", 5), of("c", "4", 11)),
            table("late records count from their own time", 10, -1,
                of("a", "1", 50), of("b", "2", 20), of("c", "3", 45), of("d", "4", 60)),
            table("deletion of what never went on", 10, -1,
                of("a", "1", 0), of("a", null, 1), of("b", "2", 20)),
            table("nothing waits", 0, -1,
                of("a", "1", 0), of("a", null, 1), of("b", "2", 0)),
            table("the earliest goes early", 100, 1,
                of("b", "1", 5), of("a", "2", 5), of("c", "3", 1), of("a", "4", 7)),
            table("no room at all", 100, 0, of("b", "1", 5), of("a", "2", 3))));
        for (long seed = 0; seed < GOLDEN_SEEDS; seed++) {
            cases.addAll(random(seed));
        }
        return cases;
    }

    private static Case table(
            final String name, final long waitMs, final long maxRecords, final Step... steps) {
        return new Case(name, "table", waitMs, 0, 0, maxRecords, -1, List.of(steps));
    }

    private static Step of(final String key, final String value, final long timeMs) {
        return new Step("in", key, value, timeMs, null);
    }

    /** A case of each kind. */
    static List<Case> random(final long seed) {
        final List<Case> cases = new ArrayList<>();
        for (final String kind : KINDS) {
            final Random random = new Random(seed * KINDS.size() + KINDS.indexOf(kind));
            final boolean isFinal = !List.of("table", "joined", "window-limit").contains(kind);
            final int bound = isFinal ? 0 : random.nextInt(3);
            // Kafka's record cache finds sessions that have closed: here none has, when one is late.
            final int graceMs = random.nextInt(30) + (kind.equals("session") ? LATE_MS : 0);
            cases.add(new Case(
                "seed " + seed, kind, random.nextInt(60), 10 + random.nextInt(40),
                graceMs, bound == 1 ? random.nextInt(4) : -1,
                bound == 2 ? 40 + random.nextInt(120) : -1, steps(random, kind)));
        }
        return cases;
    }

    /** Times go up slowly, with many equal ones, some late, some jumps; keys are few. */
    private static List<Step> steps(final Random random, final String kind) {
        final List<Step> steps = new ArrayList<>();
        long nowMs = 0;
        final int count = 10 + random.nextInt(40);
        for (int number = 0; number < count; number++) {
            if (random.nextInt(3) > 0) {
                nowMs += random.nextInt(random.nextInt(12) == 0 ? 300 : 25);
            }
            final long lateMs = random.nextInt(3) == 0 ? random.nextInt(LATE_MS) : 0;
            final boolean isOther = kind.equals("joined") && random.nextInt(3) == 0;
            final String key = List.of("a", "b", "c", "ab").get(random.nextInt(4));
            final String value =
                random.nextInt(9) == 0 && !isOther ? null : "v" + random.nextInt(4) + number;
            steps.add(new Step(
                isOther ? "stream" : "in", key, value, Math.max(0, nowMs - lateMs),
                random.nextInt(3) == 0 ? "n" + number : null));
        }
        return steps;
    }
}
