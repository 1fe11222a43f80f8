package parity.generated;

import static parity.generated.Options.named;
import static parity.generated.Options.text;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.ValueTransformerWithKey;
import org.apache.kafka.streams.kstream.ValueTransformerWithKeySupplier;
import org.apache.kafka.streams.processor.ProcessorContext;
import org.apache.kafka.streams.state.KeyValueStore;

/** The transformers of generated cases: those of {@code processors.py}, one for one. */
@SuppressWarnings({"rawtypes", "unchecked"})
final class Transformers {

    private Transformers() {
    }

    /** The table of what a transformer makes of rows; its store, if it has one, is added. */
    static KTable added(final StreamsBuilder builder, final JsonNode step, final KTable table) {
        final JsonNode store = step.get("store");
        final String[] stores = store == null ? new String[0] : new String[] {text(store, "name")};
        if (store != null) {
            builder.addStateStore(Processors.storeBuilder(store));
        }
        final ValueTransformerWithKeySupplier supplier =
            () -> store == null ? new Marking() : new Turning(text(store, "name"));
        return step.has("materialized")
            ? table.transformValues(
                supplier, Options.materialized(step.get("materialized")), named(step), stores)
            : table.transformValues(supplier, named(step), stores);
    }

    /** Makes something of rows that are not there too, and of some rows nothing. */
    private static final class Marking implements ValueTransformerWithKey<Object, Object, Object> {

        @Override
        public void init(final ProcessorContext context) {
        }

        @Override
        public Object transform(final Object key, final Object value) {
            if (value == null) {
                return Functions.weight(key) % 2 == 0 ? "nobody" : null;
            }
            return Functions.weight(value) % 4 == 0
                ? null : Functions.tail(Functions.text(key) + "~" + Functions.text(value));
        }

        @Override
        public void close() {
        }
    }

    /** Numbers the values of each key. */
    private static final class Turning implements ValueTransformerWithKey<Object, Object, Object> {

        private final String name;
        private KeyValueStore<String, String> store;

        Turning(final String name) {
            this.name = name;
        }

        @Override
        public void init(final ProcessorContext context) {
            store = context.getStateStore(name);
        }

        @Override
        public Object transform(final Object key, final Object value) {
            final String before = store.get(Functions.text(key));
            final long turn = before == null ? 1 : Long.parseLong(before) + 1;
            store.put(Functions.text(key), String.valueOf(turn));
            return turn % 5 == 0 ? null : Functions.tail(turn + "." + Functions.text(value));
        }

        @Override
        public void close() {
        }
    }
}
