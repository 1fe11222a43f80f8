package parity;

import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Record;

/** Makes the city the key; forwards nothing for a null value. */
final class CityKey extends ContextualProcessor<String, String, String, String> {

    @Override
    public void process(final Record<String, String> record) {
        if (record.value() != null) {
            context().forward(record.withKey(Values.city(record.value())));
        }
    }
}
