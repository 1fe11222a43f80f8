package parity.generated;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Windowed;

/**
 * The functions of all generated cases, by name: those of {@code functions.py}, one for one.
 *
 * They work on the text of a key or value, so that each fits each type; texts stay short, however
 * often they are put together.
 */
final class Functions {

    private static final int LONGEST = 16;

    private Functions() {
    }

    // ------------------------------------------------------------------ text

    static String text(final Object value) {
        if (value instanceof Windowed<?> windowed) {
            return text(windowed.key()) + "@" + windowed.window().start()
                + "/" + windowed.window().end();
        }
        return String.valueOf(value);
    }

    /** The end of a text, if it is long. */
    static String tail(final String text) {
        return text.length() <= LONGEST ? text : text.substring(text.length() - LONGEST);
    }

    /** A number that depends on each character. */
    static long weight(final Object value) {
        final String text = text(value);
        long weight = 0;
        for (int index = 0; index < text.length(); index++) {
            weight += text.charAt(index);
        }
        return weight;
    }

    // ------------------------------------------------------------------ records

    static boolean test(final String name, final Object key, final Object value) {
        return switch (name) {
            case "even" -> weight(value) % 2 == 0;
            case "most" -> weight(value) % 5 != 0;
            case "some_keys" -> weight(key) % 3 != 0;
            case "present" -> value != null;
            case "all" -> true;
            case "none" -> false;
            default -> throw unknown(name);
        };
    }

    static Object value(final String name, final Object key, final Object value) {
        return switch (name) {
            case "mark" -> tail(text(value) + "!");
            case "with_key" -> tail(text(key) + "=" + text(value));
            case "erase" -> weight(value) % 3 == 0 ? null : tail(text(value));
            case "weigh" -> weight(value);
            case "count_down" -> weight(value) % 4 == 0 ? null : Long.valueOf(weight(value) % 7 - 3);
            default -> throw unknown(name);
        };
    }

    static String key(final String name, final Object key, final Object value) {
        return switch (name) {
            case "by_value" -> "k" + weight(value) % 3;
            case "by_key" -> "g" + weight(key) % 2;
            case "of_rows" -> List.of("a", "b", "ab").get((int) (weight(value) % 3));
            case "drop_some" -> weight(value) % 4 == 0 ? null : tail(text(key));
            case "text" -> key == null ? null : text(key);
            default -> throw unknown(name);
        };
    }

    static List<Object> values(final String name, final Object key, final Object value) {
        final List<Object> values = new ArrayList<>();
        switch (name) {
            case "twice" -> {
                values.add(tail(text(value) + "a"));
                values.add(tail(text(value) + "b"));
            }
            case "copies" -> {
                for (long copy = 0; copy < weight(value) % 3; copy++) {
                    values.add(tail(text(key) + text(value) + copy));
                }
            }
            case "with_null" -> {
                values.add(value == null ? null : tail(text(value)));
                values.add(null);
                values.add("x");
            }
            default -> throw unknown(name);
        }
        return values;
    }

    /** The key function and the value function of a pair's name, "key+value". */
    static KeyValue<String, Object> pair(final String name, final Object key, final Object value) {
        final String[] parts = name.split("\\+");
        return KeyValue.pair(key(parts[0], key, value), value(parts[1], key, value));
    }

    static List<KeyValue<String, Object>> pairs(
            final String name, final Object key, final Object value) {
        final String[] parts = name.split("\\+");
        final List<KeyValue<String, Object>> pairs = new ArrayList<>();
        for (final Object each : values(parts[1], key, value)) {
            pairs.add(KeyValue.pair(key(parts[0], key, each), each));
        }
        return pairs;
    }

    // ------------------------------------------------------------------ aggregations

    static Object initial(final String name) {
        return switch (name) {
            case "empty" -> "";
            case "zero" -> 0L;
            case "null" -> null;
            default -> throw unknown(name);
        };
    }

    /** Reduces, adds and merges: of two values of one type. */
    static Object reduce(final String name, final Object soFar, final Object value) {
        return switch (name) {
            case "append" -> tail(text(soFar) + "+" + text(value));
            case "latest" -> value;
            case "delete" -> weight(value) % 5 == 0 ? null : tail(text(soFar) + "*" + text(value));
            case "larger" -> text(soFar).compareTo(text(value)) > 0 ? soFar : value;
            case "remove" -> tail(text(soFar) + "-" + text(value));
            case "sum" -> (Long) soFar + (Long) value;
            case "minus" -> (Long) soFar - (Long) value;
            default -> throw unknown(name);
        };
    }

    static Object aggregate(
            final String name, final Object key, final Object value, final Object soFar) {
        return switch (name) {
            case "collect" -> tail(text(soFar) + "," + text(value));
            case "uncollect" -> tail(text(soFar) + ";" + text(value));
            case "with_key" -> tail(text(soFar) + text(key) + text(value));
            case "delete" -> weight(value) % 4 == 0 ? null : tail(text(soFar) + "." + text(value));
            case "add" -> (Long) soFar + weight(value) % 10;
            case "subtract" -> (Long) soFar - weight(value) % 10;
            default -> throw unknown(name);
        };
    }

    /** Which time a record has. */
    static long timestamp(
            final String name, final Object value, final long timestamp, final long latest) {
        return switch (name) {
            case "shifted" -> timestamp + weight(value) % 40 - 9;
            case "sometimes_the_latest" -> weight(value) % 3 == 0 ? latest : timestamp;
            default -> throw unknown(name);
        };
    }

    static Optional<Set<Integer>> partitions(
            final String name, final Object key, final Object value) {
        return switch (name) {
            case "first" -> Optional.of(Set.of(0));
            case "open" -> key != null && weight(key) % 2 != 0
                ? Optional.empty() : Optional.of(Set.of(0));
            case "drop_some" -> Optional.of(
                (weight(key) + weight(value)) % 3 == 0 ? Set.of() : Set.of(0));
            default -> throw unknown(name);
        };
    }

    static Object join(
            final String name, final Object key, final Object left, final Object right) {
        return switch (name) {
            case "both" -> tail(text(left) + "&" + text(right));
            case "with_key" -> tail(text(key) + ":" + text(left) + "&" + text(right));
            case "sometimes" -> (weight(left) + weight(right)) % 4 == 0
                ? null : tail(text(right) + "<" + text(left));
            default -> throw unknown(name);
        };
    }

    static IllegalArgumentException unknown(final String name) {
        return new IllegalArgumentException("no function, processor or option is called " + name);
    }
}
