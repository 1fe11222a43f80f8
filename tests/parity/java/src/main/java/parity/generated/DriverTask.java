package parity.generated;

import java.lang.reflect.Field;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.processor.internals.StreamTask;

/** The one task of a test driver, which it does not show. */
final class DriverTask {

    private DriverTask() {
    }

    static StreamTask of(final TopologyTestDriver driver) {
        try {
            return (StreamTask) field(TopologyTestDriver.class, "task").get(driver);
        } catch (final ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    static Field field(final Class<?> type, final String name) throws NoSuchFieldException {
        final Field field = type.getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }
}
