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

    private static final int OPERATIONS = 100_000;
    private static final int FEWER_OPERATIONS = 5_000;
    private static final int FEWER_VERSIONED_OPERATIONS = 10_000;

    private StoreGoldenData() {
    }

    /**
     * Takes one argument: the directory of all golden files. The system property "store" (a golden
     * file's name) asks for that file alone.
     */
    public static void main(final String[] arguments) throws IOException, RocksDBException {
        final Path directory = Path.of(arguments[0]).normalize().resolve("stores");
        final String store = System.getProperty("store");
        if (store == null) {
            write(directory);
        } else {
            write(directory, store);
        }
    }

    /** Writes all files into the directory. */
    public static void write(final Path directory) throws IOException, RocksDBException {
        Files.createDirectories(directory);
        GoldenFile.write(directory.resolve("position.json"), Positions.vectors());
        GoldenFile.write(
            directory.resolve("java-state.json"),
            StateDirectories.write(directory.resolve("java-state.tar.gz")));
        for (final String name : SCRIPTS.keySet()) {
            write(directory, name);
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
    private static void write(final Path directory, final String name)
            throws IOException, RocksDBException {
        final int fewer =
            name.equals("versioned") ? FEWER_VERSIONED_OPERATIONS : FEWER_OPERATIONS;
        final Supplier<StoreScript> script = SCRIPTS.get(name);
        final Object earlier = StoreRun.run(script.get(), fewer).get("database");
        final Map<String, Object> golden = StoreRun.run(script.get(), OPERATIONS);
        final Map<String, Object> databases = new LinkedHashMap<>();
        databases.put(Integer.toString(fewer), earlier);
        databases.put(Integer.toString(OPERATIONS), golden.remove("database"));
        golden.put("databases", databases);
        final Path file = directory.resolve(name + ".json.gz");
        try (OutputStream stream = new GZIPOutputStream(Files.newOutputStream(file))) {
            stream.write(GoldenFile.text(golden).getBytes(StandardCharsets.UTF_8));
        }
        System.out.println(file + ": " + OPERATIONS + " operations, "
            + Files.size(file) / 1024 + " KiB");
    }
}
