package parity.generated;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.CloseOptions.GroupMembershipOperation;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;

/**
 * Runs applications on a real broker, all in this process, as a line of JSON each asks for.
 *
 * <p>{"do": "start", "id", "steps", "config"} starts one, {"do": "stop", "id"} stops it. Each line
 * that comes back says of one application what has become of it: {"id", "state"}, with "error" if
 * it has failed.
 */
public final class Applications {

    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final Duration CLOSED_WITHIN = Duration.ofSeconds(60);

    private final Map<String, KafkaStreams> running = new HashMap<>();
    private final PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private Applications() {
    }

    /** From standard input to standard output, until that ends. */
    public static void main(final String[] arguments) throws IOException {
        final Applications applications = new Applications();
        final BufferedReader asked =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = asked.readLine(); line != null; line = asked.readLine()) {
            final JsonNode request = MAPPER.readTree(line);
            final String id = request.get("id").asText();
            try {
                if (request.get("do").asText().equals("start")) {
                    applications.start(id, request);
                } else {
                    applications.close(id);
                    applications.running.remove(id);
                }
            } catch (final RuntimeException error) {
                applications.tell(id, "ERROR", error);
            }
        }
        applications.running.keySet().forEach(applications::close);
    }

    private void start(final String id, final JsonNode request) {
        final Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, id);
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        request.get("config").properties().forEach(
            setting -> properties.put(setting.getKey(), setting.getValue().asText()));
        for (final String operation : new String[] {
            "kstreams.outer.join.spurious.results.fix", "kstreams.windowed.aggregation"}) {
            properties.put("__emit.interval.ms." + operation + "__", 0L);
        }
        final CaseTopology built = new CaseTopology(request.get("steps"), "");
        final KafkaStreams streams =
            new KafkaStreams(built.builder.build(properties), properties);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                tell(id, "RUNNING", null);
            }
        });
        streams.setUncaughtExceptionHandler(error -> {
            tell(id, "ERROR", error);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        running.put(id, streams);
        streams.start();
    }

    /** Closes one in a thread of its own, so that several stop side by side. */
    private void close(final String id) {
        final KafkaStreams streams = running.get(id);
        final CloseOptions leaving =
            CloseOptions.groupMembershipOperation(GroupMembershipOperation.LEAVE_GROUP)
                .withTimeout(CLOSED_WITHIN);
        new Thread(() -> tell(id, streams.close(leaving) ? "STOPPED" : "STUCK", null)).start();
    }

    private void tell(final String id, final String state, final Throwable error) {
        final Map<String, String> line = new HashMap<>();
        line.put("id", id);
        line.put("state", state);
        if (error != null) {
            line.put("error", error + (error.getCause() == null ? "" : " / " + error.getCause()));
        }
        try {
            out.println(MAPPER.writeValueAsString(line));
        } catch (final IOException impossible) {
            throw new IllegalStateException(impossible);
        }
    }
}
