package parity;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** What peek, foreach and print saw, and names that the DSL gave back while it built. */
final class Observations {

    private final Map<String, List<List<String>>> seen = new TreeMap<>();
    private final Map<String, Object> facts = new TreeMap<>();
    private Path printFile;

    /** Notes a key and a value seen by the side effect {@code label}; both may be null. */
    void see(final String label, final String key, final String value) {
        seen.computeIfAbsent(label, unused -> new ArrayList<>()).add(Arrays.asList(key, value));
    }

    /** Notes a fact of the topology's construction, a text or a list of texts. */
    void fact(final String label, final Object value) {
        facts.put(label, value);
    }

    /** A file for {@code Printed.toFile}; what is printed there becomes part of the golden file. */
    String printFile() {
        try {
            printFile = Files.createTempFile("printed", ".txt");
        } catch (final IOException error) {
            throw new UncheckedIOException(error);
        }
        return printFile.toString();
    }

    Map<String, List<List<String>>> seen() {
        return seen;
    }

    Map<String, Object> facts() {
        return facts;
    }

    /** Lines of the print file; call it when the topology is closed. */
    List<String> printed() throws IOException {
        if (printFile == null) {
            return List.of();
        }
        final List<String> lines = Files.readAllLines(printFile, StandardCharsets.UTF_8);
        Files.delete(printFile);
        return lines;
    }
}
