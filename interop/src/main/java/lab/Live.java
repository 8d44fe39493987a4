package lab;

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
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
    private final File dir;
    private final Run run;

    private Live(File dir, List<String> options) throws Exception {
        this.dir = dir;
        String restore = null, claim = "NO_CLAIM", name = "live";
        int base = 0;
        List<String> parts = List.of("kv-long", "chaos");
        Map<String, String> conf = new TreeMap<>();
        conf.put("parallelism.default", "2");
        conf.put("pipeline.max-parallelism", "128");
        conf.put("state.backend.type", "rocksdb");
        conf.put(Cases.INCR, "true");
        conf.put(Cases.RETAINED, "3");
        conf.put("execution.checkpointing.data-inline-threshold", "0b");
        conf.put("execution.checkpointing.dir", "file://" + dir + "/ckpt");
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
                case "--conf": {
                    String[] kv = options.get(++i).split("=", 2);
                    conf.put(kv[0], kv[1]);
                    break;
                }
                default: throw new IllegalArgumentException("live: unknown option " + options.get(i));
            }
        }
        String job = UUID.nameUUIDFromBytes(name.getBytes()).toString().replace("-", "");
        run = new Run(parts, conf, job, restore, claim);
        run.base = base;
    }

    static int run(File dir, List<String> options) throws Exception {
        Live live = new Live(dir, options);
        try (Run run = live.run) {
            run.submit();
            System.out.println("LIVE " + run.cluster.getRestAddress().get() + " " + run.job);
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
            case "plan": // checkpoint N will hang until it is released, or fail: sync, async
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
            default:
                throw new IllegalArgumentException("unknown: " + line);
        }
    }
}
