package parity.stores;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.function.Function;
import java.util.zip.CRC32;
import org.apache.kafka.streams.kstream.Windowed;

/** How bytes, entries and lists of them are written in lines of text. */
final class Line {

    private static final HexFormat HEX = HexFormat.of();

    private Line() {
    }

    /** "x" and the bytes in hexadecimal digits; "-" for null. */
    static String hex(final byte[] bytes) {
        return bytes == null ? "-" : "x" + HEX.formatHex(bytes);
    }

    static String window(final Windowed<byte[]> key) {
        return hex(key.key()) + "[" + key.window().start() + "," + key.window().end() + "]";
    }

    /** All that an iterator gives, with a space between; closes it. */
    static <T> String list(final Iterator<T> iterator, final Function<T, String> text) {
        final StringBuilder line = new StringBuilder();
        try {
            while (iterator.hasNext()) {
                line.append(line.isEmpty() ? "" : " ").append(text.apply(iterator.next()));
            }
        } finally {
            if (iterator instanceof AutoCloseable closeable) {
                close(closeable);
            }
        }
        return line.toString();
    }

    private static void close(final AutoCloseable closeable) {
        try {
            closeable.close();
        } catch (final Exception error) {
            throw new IllegalStateException(error);
        }
    }

    static MessageDigest digest() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (final NoSuchAlgorithmException error) {
            throw new IllegalStateException(error);
        }
    }

    /** The first 16 digits of the hash of all lines that were given so far. */
    static String shortHash(final MessageDigest digest) {
        try {
            final MessageDigest copy = (MessageDigest) digest.clone();
            return HEX.formatHex(copy.digest()).substring(0, 16);
        } catch (final CloneNotSupportedException error) {
            throw new IllegalStateException(error);
        }
    }

    /** The last 4 digits of a line's CRC-32. */
    static String shortSum(final String line) {
        final CRC32 sum = new CRC32();
        sum.update(line.getBytes(StandardCharsets.UTF_8));
        return HEX.toHexDigits((short) sum.getValue());
    }

    static void add(final MessageDigest digest, final String line) {
        digest.update(line.getBytes(StandardCharsets.UTF_8));
        digest.update((byte) '\n');
    }

    static String shortHash(final Iterable<String> lines) {
        final MessageDigest digest = digest();
        lines.forEach(line -> add(digest, line));
        return shortHash(digest);
    }
}
