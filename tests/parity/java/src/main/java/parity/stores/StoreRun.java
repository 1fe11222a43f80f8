package parity.stores;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.internals.InternalProcessorContext;
import org.apache.kafka.streams.processor.internals.ProcessorRecordContext;
import org.apache.kafka.streams.test.TestRecord;
import org.rocksdb.RocksDBException;

/**
 * Does a script's operations inside a processor, on a store that Kafka Streams built and opened.
 *
 * <p>Each operation has a record context of its own: its number as the offset, and ten
 * milliseconds more than the one before as the timestamp.
 */
final class StoreRun {

    static final String APPLICATION_ID = "oracle";
    static final String TOPIC = "operations";
    static final int OPERATIONS_A_RECORD = 1_000;
    static final long CONTEXT_STEP_MS = 10;

    private static final byte[] LAST = new byte[0];

    private final StoreScript script;
    private final Transcript transcript = new Transcript();
    private final List<String> lines = new ArrayList<>();
    private final Path directory;

    private StoreRun(final StoreScript script) throws IOException {
        this.script = script;
        directory = Files.createTempDirectory("oracle");
    }

    /** The transcript of a script's first operations and what the database holds after them. */
    static Map<String, Object> run(final StoreScript script, final int operations)
            throws IOException, RocksDBException {
        final StoreRun run = new StoreRun(script);
        run.run(operations);
        final Map<String, Object> golden = new LinkedHashMap<>(run.transcript.toGolden());
        golden.put("database", DatabaseDump.of(
            run.directory.resolve(APPLICATION_ID).resolve("0_0"), script.name()));
        Utils.delete(run.directory.toFile());
        return golden;
    }

    /** A line for each operation and its answer. */
    static List<String> lines(final StoreScript script, final int operations)
            throws IOException {
        final StoreRun run = new StoreRun(script);
        run.run(operations);
        Utils.delete(run.directory.toFile());
        return run.lines;
    }

    private void run(final int operations) {
        // Closing the driver would delete the directory; so only the store is closed.
        final TopologyTestDriver driver =
            new TopologyTestDriver(topology(), configuration(directory));
        for (int number = 0; number < operations; number += OPERATIONS_A_RECORD) {
            pipe(driver, number, false);
            transcript.mark(number + OPERATIONS_A_RECORD, dropped(driver));
        }
        pipe(driver, operations, true);
        driver.getAllStateStores().get(script.name()).close();
    }

    /** Sends a record that starts a portion of operations, or the last ones. */
    private void pipe(
            final TopologyTestDriver driver, final int firstNumber, final boolean last) {
        final byte[] first = Integer.toString(firstNumber).getBytes(StandardCharsets.US_ASCII);
        driver.createInputTopic(TOPIC, new ByteArraySerializer(), new ByteArraySerializer())
            .pipeInput(last ? LAST : first, first, 0L);
        final String changelog = APPLICATION_ID + "-" + script.name() + "-changelog";
        final var raw = new ByteArrayDeserializer();
        for (final TestRecord<byte[], byte[]> record
                : driver.createOutputTopic(changelog, raw, raw).readRecordsToList()) {
            transcript.logged(Line.hex(record.key()) + " " + Line.hex(record.value()) + " "
                + record.timestamp());
        }
    }

    /** What the task counts of writes that came too late. */
    private static long dropped(final TopologyTestDriver driver) {
        return driver.metrics().entrySet().stream()
            .filter(metric -> metric.getKey().name().equals("dropped-records-total"))
            .mapToLong(metric -> ((Number) metric.getValue().metricValue()).longValue())
            .sum();
    }

    private Topology topology() {
        final Topology topology = new Topology();
        topology.addSource("source", TOPIC);
        topology.addProcessor("operator", Operator::new, "source");
        topology.addStateStore(script.builder(), "operator");
        return topology;
    }

    static Properties configuration(final Path stateDirectory) {
        final Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, APPLICATION_ID);
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "unused:0");
        properties.put(StreamsConfig.STATE_DIR_CONFIG, stateDirectory.toString());
        properties.put(
            StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class);
        properties.put(
            StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class);
        return properties;
    }

    /** Does a portion of operations for each record, which holds the number of the first. */
    private final class Operator implements Processor<byte[], byte[], Void, Void> {

        private InternalProcessorContext<?, ?> context;
        private StateStore store;

        @Override
        public void init(final ProcessorContext<Void, Void> processorContext) {
            context = (InternalProcessorContext<?, ?>) processorContext;
            store = processorContext.getStateStore(script.name());
        }

        @Override
        public void process(final Record<byte[], byte[]> record) {
            final int first =
                Integer.parseInt(new String(record.value(), StandardCharsets.US_ASCII));
            final boolean last = record.key().length == 0;
            final List<Operation> operations = new ArrayList<>();
            if (last) {
                operations.addAll(script.last());
            } else {
                for (int number = first; number < first + OPERATIONS_A_RECORD; number++) {
                    operations.add(script.next(number));
                }
            }
            int number = first;
            for (final Operation operation : operations) {
                context.setRecordContext(new ProcessorRecordContext(
                    number * CONTEXT_STEP_MS, number, 0, TOPIC, new RecordHeaders()));
                final String answer = script.apply(store, operation);
                transcript.operation(operation.line(), answer);
                lines.add(operation.line() + " -> " + answer);
                number++;
            }
        }
    }
}
