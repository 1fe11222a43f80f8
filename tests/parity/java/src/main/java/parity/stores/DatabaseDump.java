package parity.stores;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.rocksdb.ColumnFamilyDescriptor;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.DBOptions;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;

/** Reads the databases of a closed store with RocksDB alone. */
final class DatabaseDump {

    private DatabaseDump() {
    }

    /**
     * The content of a store: a line "key value" an entry of each column family.
     *
     * <p>Key-value and versioned stores have one database in rocksdb/, under "". Window and
     * session stores have a database a segment, in a directory of their own, under the segment's
     * first millisecond.
     */
    static Map<String, Object> of(final Path taskDirectory, final String store)
            throws IOException, RocksDBException {
        final Path single = taskDirectory.resolve("rocksdb").resolve(store);
        final Map<String, Object> content = new LinkedHashMap<>();
        if (Files.isDirectory(single)) {
            content.put("", families(single));
            return content;
        }
        final Map<Long, Path> segments = new TreeMap<>();
        try (Stream<Path> paths = Files.list(taskDirectory.resolve(store))) {
            paths.forEach(path -> {
                final String name = path.getFileName().toString();
                segments.put(Long.parseLong(name.substring(store.length() + 1)), path);
            });
        }
        for (final Map.Entry<Long, Path> segment : segments.entrySet()) {
            content.put(segment.getKey().toString(), families(segment.getValue()));
        }
        return content;
    }

    /** The entries of each column family of one database. */
    static Map<String, List<String>> families(final Path database) throws RocksDBException {
        final List<ColumnFamilyDescriptor> descriptors = new ArrayList<>();
        try (Options options = new Options()) {
            for (final byte[] name : RocksDB.listColumnFamilies(options, database.toString())) {
                descriptors.add(new ColumnFamilyDescriptor(name));
            }
        }
        final Map<String, List<String>> families = new LinkedHashMap<>();
        final List<ColumnFamilyHandle> handles = new ArrayList<>();
        try (DBOptions options = new DBOptions();
                RocksDB db = RocksDB.openReadOnly(
                    options, database.toString(), descriptors, handles)) {
            for (final ColumnFamilyHandle handle : handles) {
                final List<String> lines = new ArrayList<>();
                try (RocksIterator entries = db.newIterator(handle)) {
                    for (entries.seekToFirst(); entries.isValid(); entries.next()) {
                        lines.add(Line.hex(entries.key()) + " " + Line.hex(entries.value()));
                    }
                    entries.status();
                }
                families.put(new String(handle.getName(), StandardCharsets.UTF_8), lines);
                handle.close();
            }
        }
        return families;
    }
}
