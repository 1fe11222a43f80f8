package parity;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;

/** The form of a golden file: JSON, one element of an array a line, bytes in base64. */
public final class GoldenFile {

    private static final ObjectMapper MAPPER = new ObjectMapper();

    private GoldenFile() {
    }

    /** Writes a file in this form. */
    public static void write(final Path file, final Map<String, Object> content)
            throws IOException {
        Files.writeString(file, text(content), StandardCharsets.UTF_8);
    }

    /** Objects two levels deep on lines of their own and what is below them on one line. */
    public static String text(final Map<String, Object> content) throws IOException {
        final StringBuilder text = new StringBuilder("{\n");
        String comma = "";
        for (final Map.Entry<String, Object> entry : content.entrySet()) {
            text.append(comma).append(" ").append(MAPPER.writeValueAsString(entry.getKey()))
                .append(": ");
            appendValue(text, entry.getValue(), " ", 2);
            comma = ",\n";
        }
        return text.append("\n}\n").toString();
    }

    /** Breaks maps and lists into lines down to {@code depth}; what is deeper stays on one line. */
    private static void appendValue(
            final StringBuilder text, final Object value, final String indent, final int depth)
            throws IOException {
        final String inner = indent + " ";
        String comma = "\n";
        if (depth > 0 && value instanceof Map<?, ?> map && !map.isEmpty()) {
            text.append("{");
            for (final Map.Entry<?, ?> entry : map.entrySet()) {
                text.append(comma).append(inner)
                    .append(MAPPER.writeValueAsString(entry.getKey())).append(": ");
                appendValue(text, entry.getValue(), inner, depth - (isStore(entry) ? 0 : 1));
                comma = ",\n";
            }
            text.append("\n").append(indent).append("}");
        } else if (depth > 0 && value instanceof List<?> list && !list.isEmpty()) {
            text.append("[");
            for (final Object element : list) {
                text.append(comma).append(inner);
                appendValue(text, element, inner, 0);
                comma = ",\n";
            }
            text.append("\n").append(indent).append("]");
        } else {
            text.append(MAPPER.writeValueAsString(value));
        }
    }

    private static boolean isStore(final Map.Entry<?, ?> entry) {
        return entry.getValue() instanceof Map<?, ?> map && map.containsKey("entries");
    }

    /** A member of a flat JSON object as text. */
    static String member(final String json, final String name) {
        try {
            return MAPPER.readTree(json).get(name).asText();
        } catch (final IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Bytes as base64 text; null stays null. */
    static String base64(final byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }

    /** A record as the golden files show it. */
    static Map<String, Object> record(
            final byte[] key, final byte[] value, final long timestamp, final Headers headers) {
        final List<List<String>> pairs = new ArrayList<>();
        for (final Header header : headers) {
            final List<String> pair = new ArrayList<>();
            pair.add(header.key());
            pair.add(base64(header.value()));
            pairs.add(pair);
        }
        final Map<String, Object> record = new LinkedHashMap<>();
        record.put("key", base64(key));
        record.put("value", base64(value));
        record.put("timestamp", timestamp);
        record.put("headers", pairs);
        return record;
    }
}
