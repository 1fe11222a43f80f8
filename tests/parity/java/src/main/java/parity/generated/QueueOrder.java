package parity.generated;

import static parity.generated.DriverTask.field;

import java.util.HashMap;
import java.util.Map;
import java.util.PriorityQueue;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyDescription;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.processor.internals.RecordQueue;
import org.apache.kafka.streams.processor.internals.StreamTask;

/**
 * The order in which the test driver's one task takes records from its queues.
 *
 * Kafka Streams leaves it to a heap which of records of one time comes first, and its test driver
 * runs all sub-topologies as one task. This one lets the sub-topologies take turns, a record each,
 * and of records of one time takes the one first whose topic's name comes first, as pystreams does.
 */
final class QueueOrder extends PriorityQueue<RecordQueue> {

    private static final long serialVersionUID = 1;

    private final transient Map<String, Integer> numbers = new HashMap<>();
    private int turn;

    private QueueOrder(final Topology topology) {
        super(QueueOrder::compared);
        for (final TopologyDescription.Subtopology part : topology.describe().subtopologies()) {
            for (final TopologyDescription.Node node : part.nodes()) {
                if (node instanceof TopologyDescription.Source source) {
                    if (source.topicPattern() == null) {
                        source.topicSet().forEach(topic -> numbers.put(topic, part.id()));
                    } else {
                        // The driver calls what it reads of it by the pattern.
                        numbers.put(source.topicPattern().pattern(), part.id());
                    }
                }
            }
        }
    }

    /** Takes the place of the driver's own. */
    static QueueOrder of(final TopologyTestDriver driver, final Topology topology) {
        try {
            final Object group =
                field(StreamTask.class, "partitionGroup").get(DriverTask.of(driver));
            final QueueOrder order = new QueueOrder(topology);
            field(group.getClass(), "nonEmptyQueuesByTime").set(group, order);
            return order;
        } catch (final ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    /** The first sub-topology has the first turn again. */
    void begin() {
        turn = 0;
    }

    @Override
    public RecordQueue poll() {
        RecordQueue chosen = null;
        for (final RecordQueue queue : this) {
            if (chosen == null || distance(queue) < distance(chosen)
                    || distance(queue) == distance(chosen) && compared(queue, chosen) < 0) {
                chosen = queue;
            }
        }
        if (chosen != null) {
            turn = number(chosen) + 1;
            remove(chosen);
        }
        return chosen;
    }

    private static int compared(final RecordQueue one, final RecordQueue other) {
        final int byTime = Long.compare(one.headRecordTimestamp(), other.headRecordTimestamp());
        return byTime != 0 ? byTime
            : one.partition().topic().compareTo(other.partition().topic());
    }

    /** How many turns there are before that of a queue's sub-topology. */
    private int distance(final RecordQueue queue) {
        final int number = number(queue);
        return number >= turn ? number - turn : number - turn + 1_000;
    }

    private int number(final RecordQueue queue) {
        final String topic = queue.partition().topic();
        final Integer known = numbers.get(topic);
        // An internal topic is described without the application's id.
        return known != null ? known : numbers.get(topic.substring(topic.indexOf('-') + 1));
    }
}
