package parity.generated;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.kstream.WindowedSerdes;

/** Serdes by name, and bytes as text: printable ASCII as it is, other bytes as {@code \xNN}. */
@SuppressWarnings({"rawtypes", "unchecked"})
final class Serialized {

    private Serialized() {
    }

    /** The serde that a step names, or null where it leaves the choice to the configuration. */
    static Serde<Object> serde(final JsonNode name) {
        return name == null || name.isNull() ? null : (Serde) named(name.asText());
    }

    private static Serde<?> named(final String name) {
        if (name.startsWith("time:")) {
            return WindowedSerdes.timeWindowedSerdeFrom(
                String.class, Long.parseLong(name.substring("time:".length())));
        }
        return switch (name) {
            case "string" -> Serdes.String();
            case "long" -> Serdes.Long();
            case "session" -> WindowedSerdes.sessionWindowedSerdeFrom(String.class);
            default -> throw Functions.unknown(name);
        };
    }

    static String shown(final byte[] bytes) {
        if (bytes == null) {
            return null;
        }
        final StringBuilder text = new StringBuilder();
        for (final byte each : bytes) {
            if (each >= 32 && each < 127 && each != '\\') {
                text.append((char) each);
            } else {
                text.append(String.format("\\x%02x", each));
            }
        }
        return text.toString();
    }
}
