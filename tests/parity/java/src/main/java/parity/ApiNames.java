package parity;

import java.io.IOException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Branched;
import org.apache.kafka.streams.kstream.BranchedKStream;
import org.apache.kafka.streams.kstream.CogroupedKStream;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KGroupedTable;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Printed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.SessionWindowedCogroupedKStream;
import org.apache.kafka.streams.kstream.SessionWindowedKStream;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TableJoined;
import org.apache.kafka.streams.kstream.TimeWindowedCogroupedKStream;
import org.apache.kafka.streams.kstream.TimeWindowedKStream;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.UnlimitedWindows;
import org.apache.kafka.streams.processor.Cancellable;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.RecordMetadata;
import org.apache.kafka.streams.query.FailureReason;
import org.apache.kafka.streams.query.KeyQuery;
import org.apache.kafka.streams.query.MultiVersionedKeyQuery;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.query.RangeQuery;
import org.apache.kafka.streams.query.ResultOrder;
import org.apache.kafka.streams.query.StateQueryRequest;
import org.apache.kafka.streams.query.StateQueryResult;
import org.apache.kafka.streams.query.TimestampedKeyQuery;
import org.apache.kafka.streams.query.TimestampedRangeQuery;
import org.apache.kafka.streams.query.VersionedKeyQuery;
import org.apache.kafka.streams.query.WindowKeyQuery;
import org.apache.kafka.streams.query.WindowRangeQuery;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.WindowStore;

/**
 * The public operations of Kafka Streams: names of methods, without those that are deprecated; of
 * an enum its constants.
 */
public final class ApiNames {

    private static final List<Class<?>> CLASSES = List.of(
        StreamsBuilder.class, KStream.class, BranchedKStream.class, KGroupedStream.class,
        KTable.class, KGroupedTable.class, GlobalKTable.class, CogroupedKStream.class,
        TimeWindowedKStream.class, SessionWindowedKStream.class,
        TimeWindowedCogroupedKStream.class, SessionWindowedCogroupedKStream.class,
        TimeWindows.class, SlidingWindows.class, SessionWindows.class, JoinWindows.class,
        UnlimitedWindows.class, EmitStrategy.class, Suppressed.class,
        Consumed.class, Produced.class, Grouped.class, Repartitioned.class, Joined.class,
        StreamJoined.class, TableJoined.class, Materialized.class, Branched.class, Named.class,
        Printed.class,
        Topology.class, Processor.class, FixedKeyProcessor.class, ProcessorContext.class,
        Record.class, FixedKeyRecord.class, RecordMetadata.class, Cancellable.class,
        Stores.class, StoreBuilder.class, KeyValueStore.class, WindowStore.class,
        SessionStore.class, VersionedKeyValueStore.class, VersionedRecord.class,
        KafkaStreams.class, StateQueryRequest.class, StateQueryRequest.InStore.class,
        StateQueryResult.class, QueryResult.class, FailureReason.class, Position.class,
        PositionBound.class, KeyQuery.class, RangeQuery.class, TimestampedKeyQuery.class,
        TimestampedRangeQuery.class, WindowKeyQuery.class, WindowRangeQuery.class,
        VersionedKeyQuery.class, MultiVersionedKeyQuery.class, ResultOrder.class,
        QueryConfig.class, TopologyTestDriver.class, TestInputTopic.class,
        TestOutputTopic.class);

    private ApiNames() {
    }

    /** Takes one argument: the directory of all golden files. Writes api.json alone. */
    public static void main(final String[] arguments) throws IOException {
        GoldenFile.write(Path.of(arguments[0]).normalize().resolve("api.json"), all());
    }

    /** Returns the names by class, sorted. */
    public static Map<String, Object> all() {
        final Map<String, Object> found = new LinkedHashMap<>();
        for (final Class<?> type : CLASSES) {
            found.put(type.getSimpleName(), List.copyOf(namesOf(type)));
        }
        return found;
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
