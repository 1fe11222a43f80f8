package parity.stores;

import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * What a store was told, answered and logged: the first lines, and hashes of all of them.
 *
 * <p>Each of the first answers has a short checksum as well, which tells where a difference is.
 */
final class Transcript {

    private static final int LINES = 2_000;
    private static final int LONGEST_LINE = 1_000;
    private static final int SUMS = 10_000;

    private final MessageDigest operations = Line.digest();
    private final MessageDigest answers = Line.digest();
    private final MessageDigest changelog = Line.digest();
    private final List<String> firstAnswers = new ArrayList<>();
    private final List<String> firstLogged = new ArrayList<>();
    private final StringBuilder answerSums = new StringBuilder();
    private int answered;
    private final List<List<Object>> hashes = new ArrayList<>();
    private final List<Long> dropped = new ArrayList<>();
    private int logged;

    void operation(final String operation, final String answer) {
        Line.add(operations, operation);
        Line.add(answers, answer);
        keep(firstAnswers, answer);
        if (answered++ < SUMS) {
            answerSums.append(Line.shortSum(answer));
        }
    }

    void logged(final String record) {
        Line.add(changelog, record);
        keep(firstLogged, record);
        logged++;
    }

    private static void keep(final List<String> lines, final String line) {
        if (lines.size() < LINES) {
            lines.add(line.length() > LONGEST_LINE ? Line.shortHash(List.of(line)) : line);
        }
    }

    /** Notes the hashes of all lines so far, and how many writes the store has dropped. */
    void mark(final int number, final long droppedWrites) {
        dropped.add(droppedWrites);
        hashes.add(List.of(
            number, Line.shortHash(operations), Line.shortHash(answers), logged,
            Line.shortHash(changelog)));
    }

    Map<String, Object> toGolden() {
        final Map<String, Object> golden = new LinkedHashMap<>();
        golden.put("hashes", hashes);
        golden.put("dropped", dropped);
        golden.put("answer_sums", answerSums.toString());
        golden.put("answers", firstAnswers);
        golden.put("changelog", firstLogged);
        return golden;
    }
}
