package parity;

/** Reads the values that {@link Script} makes: "city:amount". */
final class Values {

    private Values() {
    }

    static String city(final String value) {
        return value.substring(0, value.indexOf(':'));
    }

    static long amount(final String value) {
        return Long.parseLong(value.substring(value.indexOf(':') + 1));
    }

    /** The text, or "-" in place of null. */
    static String orDash(final Object value) {
        return value == null ? "-" : value.toString();
    }
}
