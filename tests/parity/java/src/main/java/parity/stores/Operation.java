package parity.stores;

import java.util.Arrays;
import java.util.List;

/**
 * One call of a store's method.
 *
 * @param name the method's name in Python, where it has one of its own
 * @param arguments byte arrays, Longs and nulls
 */
record Operation(String name, List<Object> arguments) {

    static Operation of(final String name, final Object... arguments) {
        return new Operation(name, Arrays.asList(arguments));
    }

    byte[] bytes(final int index) {
        return (byte[]) arguments.get(index);
    }

    long number(final int index) {
        return (Long) arguments.get(index);
    }

    /** The operation as one line. */
    String line() {
        final StringBuilder text = new StringBuilder(name);
        for (final Object argument : arguments) {
            text.append(' ');
            if (argument instanceof Long number) {
                text.append(number);
            } else {
                text.append(Line.hex((byte[]) argument));
            }
        }
        return text.toString();
    }
}
