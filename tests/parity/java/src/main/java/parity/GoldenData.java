package parity;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import parity.stores.StoreGoldenData;

/** Writes the golden files: of topologies, of the smallest parts, and of the stores. */
public final class GoldenData {

    private GoldenData() {
    }

    /** Takes one argument: the directory to write to. */
    public static void main(final String[] arguments) throws Exception {
        final Path directory = Path.of(arguments[0]).normalize();
        Files.createDirectories(directory);
        final List<Scenario> scenarios = List.of(
            StreamTopologies.stateless(),
            StreamTopologies.branches(),
            StreamTopologies.repartitionedCounts(),
            StreamTopologies.aggregations(),
            TableTopologies.tables(),
            TableTopologies.tableGroupBy(),
            JoinTopologies.streamTableJoins(),
            JoinTopologies.repartitionToTable(),
            StreamJoinTopologies.innerStreamJoins(),
            StreamJoinTopologies.leftStreamJoins(),
            StreamJoinTopologies.outerStreamJoins(),
            ProcessorTopologies.processWithState(),
            ProcessorTopologies.processorApi(),
            TransformedTopologies.transformedTables(),
            NamingTopologies.memoryAndSerdes(),
            NamingTopologies.namedNodes());
        for (final Scenario scenario : scenarios) {
            final Path file = directory.resolve(scenario.name() + ".json");
            GoldenFile.write(file, ScenarioRun.run(scenario));
            System.out.println(file + ": " + scenario.script().steps().size() + " steps");
        }
        JoinCases.writeGolden(directory);
        SuppressCases.writeGolden(directory);
        GoldenFile.write(directory.resolve("serdes.json"), KernelVectors.serdes());
        GoldenFile.write(directory.resolve("partitioner.json"), KernelVectors.partitioner());
        GoldenFile.write(directory.resolve("api.json"), ApiNames.all());
        GoldenFile.write(directory.resolve("random_topologies.json"), RandomTopologies.all());
        StoreGoldenData.write(directory.resolve("stores"));
    }
}
