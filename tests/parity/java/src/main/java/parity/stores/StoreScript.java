package parity.stores;

import java.util.List;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.StoreBuilder;

/** One store and the operations on it; has a class of the same name in store_operations.py. */
interface StoreScript {

    /** The store's name and the golden file's. */
    String name();

    StoreBuilder<?> builder();

    /** The next random operation. */
    Operation next(int number);

    /** What is done last: it makes the store clean up what has expired. */
    List<Operation> last();

    /** Does one operation and returns the answer as a line; "-" where a method returns nothing. */
    String apply(StateStore store, Operation operation);
}
