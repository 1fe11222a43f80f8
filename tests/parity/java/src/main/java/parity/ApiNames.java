package parity;

import java.io.IOException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.TopologyTestDriver;

/**
 * The public operations of Kafka Streams: of each public class the names of its methods, without
 * what is deprecated, internal or an exception; of an enum its constants. The classes are those
 * of the jars, so that none is forgotten.
 */
public final class ApiNames {

    private static final String PACKAGE = "org/apache/kafka/streams/";

    private ApiNames() {
    }

    /** Takes one argument: the directory of all golden files. Writes api.json alone. */
    public static void main(final String[] arguments) throws IOException {
        GoldenFile.write(Path.of(arguments[0]).normalize().resolve("api.json"), all());
    }

    /** Returns the names by class, sorted. */
    public static Map<String, Object> all() throws IOException {
        final Map<String, Object> found = new TreeMap<>();
        for (final Class<?> inside : List.of(KafkaStreams.class, TopologyTestDriver.class)) {
            for (final Class<?> type : publicClasses(inside)) {
                found.put(nameOf(type), List.copyOf(namesOf(type)));
            }
        }
        return found;
    }

    private static List<Class<?>> publicClasses(final Class<?> inside) throws IOException {
        final String jar = inside.getProtectionDomain().getCodeSource().getLocation().getPath();
        final List<Class<?>> found = new ArrayList<>();
        try (JarFile file = new JarFile(jar)) {
            for (final JarEntry entry : Collections.list(file.entries())) {
                final String name = entry.getName();
                if (name.startsWith(PACKAGE) && name.endsWith(".class")
                    && !name.contains("/internals/")) {
                    final Class<?> type = classOf(name);
                    if (isPublic(type) && !Throwable.class.isAssignableFrom(type)) {
                        found.add(type);
                    }
                }
            }
        }
        return found;
    }

    private static Class<?> classOf(final String entry) {
        try {
            final String name = entry.substring(0, entry.length() - ".class".length());
            return Class.forName(name.replace('/', '.'), false, ApiNames.class.getClassLoader());
        } catch (final ClassNotFoundException error) {
            throw new IllegalStateException(error);
        }
    }

    private static boolean isPublic(final Class<?> type) {
        for (Class<?> around = type; around != null; around = around.getEnclosingClass()) {
            if (!Modifier.isPublic(around.getModifiers())
                || around.isAnonymousClass()
                || around.isAnnotationPresent(Deprecated.class)) {
                return false;
            }
        }
        return true;
    }

    /** Returns `QueryResult`, of a nested class `BufferConfig of Suppressed`. */
    private static String nameOf(final Class<?> type) {
        final Class<?> around = type.getEnclosingClass();
        return around == null ? type.getSimpleName()
            : type.getSimpleName() + " of " + nameOf(around);
    }

    private static TreeSet<String> namesOf(final Class<?> type) {
        final TreeSet<String> names = new TreeSet<>();
        if (type.isEnum()) {
            for (final Object constant : type.getEnumConstants()) {
                names.add(((Enum<?>) constant).name());
            }
            return names;
        }
        for (final Method method : type.getMethods()) {
            if (method.getDeclaringClass() != Object.class
                && !method.isAnnotationPresent(Deprecated.class)
                && !method.isSynthetic()
                && Modifier.isPublic(method.getModifiers())
                && !List.of("equals", "hashCode", "toString").contains(method.getName())) {
                names.add(method.getName());
            }
        }
        return names;
    }
}
