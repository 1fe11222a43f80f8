package parity;

import java.util.Map;
import org.apache.kafka.streams.Topology;

/**
 * A topology with the input that is sent through it.
 *
 * @param name the golden file's name, and the name of the function that builds the same in Python
 * @param topology what runs
 * @param script what is sent to it
 * @param observations what its side effects saw, and facts of its construction
 * @param config configuration beside that of all scenarios
 */
record Scenario(
        String name, Topology topology, Script script, Observations observations,
        Map<String, Object> config) {

    Scenario(
            final String name, final Topology topology, final Script script,
            final Observations observations) {
        this(name, topology, script, observations, Map.of());
    }
}
