package parity.stores;

/** A random sequence that is the same in every language; `SplitMix64` in store_operations.py. */
final class SplitMix64 {

    private long state;

    SplitMix64(final long seed) {
        state = seed;
    }

    /** A number from 0 to {@code bound} - 1. */
    int below(final int bound) {
        state += 0x9E3779B97F4A7C15L;
        long mixed = state;
        mixed = (mixed ^ (mixed >>> 30)) * 0xBF58476D1CE4E5B9L;
        mixed = (mixed ^ (mixed >>> 27)) * 0x94D049BB133111EBL;
        mixed = mixed ^ (mixed >>> 31);
        return (int) ((mixed >>> 33) % bound);
    }

    boolean percent(final int chance) {
        return below(100) < chance;
    }
}
