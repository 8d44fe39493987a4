package lab;

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.flink.core.execution.CheckpointType;
import org.apache.flink.core.execution.SavepointFormatType;

/**
 * A job that goes on, with Flink's REST endpoint, while somebody else looks at its storage; it is driven by
 * lines on standard input (README.md), each of which is answered by one line that begins with OK or FAIL.
 */
final class Live {
    private static final List<String> PARTS = List.of("kv-long", "chaos");
    private static final int PARALLELISM = 2;

    private final File dir;
    private final Run first; // the one with the cluster
    private Run run;
    private boolean idle; // no job at the beginning
    private int checks;
    private volatile int flow; // milliseconds between rounds, 0: they come by command

    private Live(File dir, List<String> options) throws Exception {
        this.dir = dir;
        Files.createDirectories(dir.toPath().resolve("offsets"));
        first = prepare(options);
    }

    private Map<String, String> conf(String ckpt) {
        Map<String, String> conf = new TreeMap<>();
        conf.put("parallelism.default", "" + PARALLELISM);
        conf.put("pipeline.max-parallelism", "128");
        conf.put("state.backend.type", "rocksdb");
        conf.put(Cases.INCR, "true");
        conf.put(Cases.RETAINED, "3");
        conf.put("execution.checkpointing.data-inline-threshold", "0b");
        conf.put("execution.checkpointing.dir", "file://" + dir + "/" + ckpt);
        return conf;
    }

    private static String id(String name) {
        return UUID.nameUUIDFromBytes(name.getBytes()).toString().replace("-", "");
    }

    /** Makes a job the current one, on the cluster that there is. */
    private Run prepare(List<String> options) throws Exception {
        String restore = null, claim = "NO_CLAIM", name = "live";
        int base = 0;
        List<String> parts = PARTS;
        Map<String, String> conf = conf("ckpt");
        conf.put("execution.checkpointing.tolerable-failed-checkpoints", "1000");
        conf.put("restart-strategy.type", "fixed-delay");
        conf.put("restart-strategy.fixed-delay.attempts", "1000");
        conf.put("restart-strategy.fixed-delay.delay", "100 ms");
        for (int i = 0; i < options.size(); i++) {
            switch (options.get(i)) {
                case "--name": name = options.get(++i); break;
                case "--parts": parts = Arrays.asList(options.get(++i).split(",")); break;
                case "--base": base = Integer.parseInt(options.get(++i)); break;
                case "--restore": restore = options.get(++i); break;
                case "--claim": claim = "CLAIM"; break;
                case "--idle": idle = true; break;
                case "--conf": {
                    String[] kv = options.get(++i).split("=", 2);
                    conf.put(kv[0], kv[1]);
                    break;
                }
                default: throw new IllegalArgumentException("live: unknown option " + options.get(i));
            }
        }
        run = new Run(parts, conf, id(name), restore, claim, first == null ? null : first.cluster);
        run.base = base;
        Ctl.offsets = offsets(run.job.toString());
        return run;
    }

    static int run(File dir, List<String> options) throws Exception {
        Live live = new Live(dir, options);
        try (Run first = live.first) {
            if (!live.idle) {
                first.submit();
            }
            System.out.println("LIVE " + first.cluster.getRestAddress().get() + " " + first.job);
            Thread events = new Thread(live::emit);
            events.setDaemon(true);
            events.start();
            BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                String answer;
                try {
                    answer = "OK " + live.act(new ArrayList<>(Arrays.asList(line.split(" "))));
                } catch (Exception e) {
                    Throwable root = e;
                    while (root.getCause() != null) {
                        root = root.getCause();
                    }
                    answer = "FAIL " + root.toString().lines().findFirst().orElse("");
                }
                System.out.println(answer.strip());
            }
        }
        return 0;
    }

    private String act(List<String> line) throws Exception {
        String argument = line.size() > 1 ? line.get(1) : "";
        switch (line.get(0)) {
            case "advance": // not exact after a failure, which makes records come twice
                Ctl.rounds = Integer.parseInt(argument);
                Run.await("events", () -> Ctl.counted("src") >= (long) (Ctl.rounds - run.base) * Jobs.KEYS);
                return "";
            case "flow": // a round every so many milliseconds
                flow = Integer.parseInt(argument);
                return "";
            case "checkpoint":
                return run.checkpoint(dir + "/ckpt", CheckpointType.CONFIGURED);
            case "begin": // a checkpoint that is not waited for
                run.cluster.triggerCheckpoint(run.job, CheckpointType.CONFIGURED);
                return "";
            case "savepoint":
                return run.savepoint(dir + "/sp", SavepointFormatType.valueOf(argument));
            case "begin-savepoint":
                run.cluster.triggerSavepoint(run.job, dir + "/sp", false, SavepointFormatType.valueOf(argument));
                return "";
            case "plan": // checkpoint N will hang until it is released, be slow, or fail: sync, async
                Ctl.plan.put(Long.parseLong(argument), line.get(2));
                return "";
            case "release":
                Ctl.plan.remove(Long.parseLong(argument));
                return "";
            case "fail": // a task fails at its next record, and the job restarts
                Ctl.failTask = true;
                Ctl.rounds++;
                Run.await("failure", () -> !Ctl.failTask);
                Thread.sleep(200);
                run.awaitAgain();
                return "";
            case "stop":
                return run.stopWithSavepoint(dir + "/sp", SavepointFormatType.valueOf(argument), false);
            case "cancel":
                run.cancel();
                return "";
            case "next": { // the job after one that ended
                List<String> options = line.subList(1, line.size());
                prepare(options);
                int restore = options.indexOf("--restore");
                if (restore >= 0) { // the source does nothing up to where it was
                    Ctl.rounds = (int) Arrays.stream(emitted(new File(options.get(restore + 1)))).max().orElseThrow() / Jobs.KEYS_PER_SPLIT;
                }
                return run.job.toString();
            }
            case "submit": // that job
                run.start();
                run.awaitAgain();
                return "";
            case "restores":
                return restores(new File(argument), line.get(2));
            default:
                throw new IllegalArgumentException("unknown: " + line);
        }
    }

    /** Lets rounds come as time passes. */
    private void emit() {
        try {
            for (; ; ) {
                int pause = flow;
                Thread.sleep(pause == 0 ? 10 : pause);
                if (pause > 0) {
                    Ctl.rounds++;
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private Path offsets(String job) {
        return dir.toPath().resolve("offsets").resolve(job);
    }

    /** How many events each split had emitted at a checkpoint of a job that ran here, before a kill perhaps. */
    private long[] emitted(File checkpoint) throws Exception {
        long[] emitted = new long[Jobs.SPLITS];
        Arrays.fill(emitted, -1);
        String id = checkpoint.getName().substring("chk-".length());
        for (String line : Files.readAllLines(offsets(checkpoint.getParentFile().getName()))) {
            String[] words = line.split(" ");
            if (words[0].equals(id)) {
                emitted[Integer.parseInt(words[1])] = Long.parseLong(words[2]);
            }
        }
        if (Arrays.stream(emitted).anyMatch(n -> n < 0)) {
            throw new IllegalStateException("what the source had emitted at " + checkpoint + " is not known: " + Arrays.toString(emitted));
        }
        return emitted;
    }

    /** Restores a checkpoint by another job, and fails unless every state is what it must be. No job may run. */
    private String restores(File checkpoint, String parallelism) throws Exception {
        flow = 0;
        long[] emitted = emitted(checkpoint);
        Map<String, String> conf = conf("check");
        conf.put("parallelism.default", parallelism);
        try (Run check = new Run(PARTS, conf, id("check-" + ++checks), checkpoint.getPath(), "NO_CLAIM", first.cluster)) {
            Ctl.dumpOnOpen = true;
            check.submit();
            long id = Long.parseLong(checkpoint.getName().substring("chk-".length()));
            List<String> wrong = Truth.differences(Truth.at(emitted, PARALLELISM, id), Main.tree(Ctl.dump));
            check.cancel();
            if (!wrong.isEmpty()) {
                throw new IllegalStateException(wrong.size() + " differences: " + wrong.subList(0, Math.min(5, wrong.size())));
            }
        }
        return Arrays.stream(emitted).sum() + " events";
    }
}
