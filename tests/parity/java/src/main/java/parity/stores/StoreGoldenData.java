package parity.stores;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import java.util.zip.GZIPOutputStream;
import org.rocksdb.RocksDBException;
import parity.GoldenFile;

/** Writes golden/stores: what Kafka Streams' stores answer, log and keep. */
public final class StoreGoldenData {

    /** How to make each script afresh, by its golden file's name. */
    static final Map<String, Supplier<StoreScript>> SCRIPTS = scripts();

    private StoreGoldenData() {
    }

    /** Takes one argument: the directory of all golden files. */
    public static void main(final String[] arguments) throws IOException, RocksDBException {
        write(Path.of(arguments[0]).normalize().resolve("stores"));
    }

    /** Writes all files into the directory. */
    public static void write(final Path directory) throws IOException, RocksDBException {
        Files.createDirectories(directory);
        GoldenFile.write(directory.resolve("position.json"), Positions.vectors());
        GoldenFile.write(
            directory.resolve("java-state.json"),
            StateDirectories.write(directory.resolve("java-state.tar.gz")));
        for (final String name : SCRIPTS.keySet()) {
            if (name.equals("versioned")) {
                write(directory, name, 10_000, 100_000);
            } else {
                write(directory, name, 5_000, 20_000);
            }
        }
    }

    private static Map<String, Supplier<StoreScript>> scripts() {
        final Map<String, Supplier<StoreScript>> scripts = new LinkedHashMap<>();
        for (final Supplier<StoreScript> script : List.<Supplier<StoreScript>>of(
                () -> new KeyValueScript(false),
                () -> new KeyValueScript(true),
                () -> new WindowScript(WindowScript.Make.PLAIN),
                () -> new WindowScript(WindowScript.Make.TIMESTAMPED),
                () -> new WindowScript(WindowScript.Make.DUPLICATES),
                SessionScript::new,
                VersionedScript::new)) {
            scripts.put(script.get().name(), script);
        }
        return scripts;
    }

    /** Runs a script twice, because a database is read when its store is closed. */
    private static void write(
            final Path directory, final String name, final int fewer, final int operations)
            throws IOException, RocksDBException {
        final Supplier<StoreScript> script = SCRIPTS.get(name);
        final Object earlier = StoreRun.run(script.get(), fewer).get("database");
        final Map<String, Object> golden = StoreRun.run(script.get(), operations);
        final Map<String, Object> databases = new LinkedHashMap<>();
        databases.put(Integer.toString(fewer), earlier);
        databases.put(Integer.toString(operations), golden.remove("database"));
        golden.put("databases", databases);
        final Path file = directory.resolve(name + ".json.gz");
        try (OutputStream stream = new GZIPOutputStream(Files.newOutputStream(file))) {
            stream.write(GoldenFile.text(golden).getBytes(StandardCharsets.UTF_8));
        }
        System.out.println(file + ": " + operations + " operations, "
            + Files.size(file) / 1024 + " KiB");
    }
}
