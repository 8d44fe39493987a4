package lab;

import java.io.File;
import java.nio.file.Files;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.CheckpointType;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.execution.ExecutionState;
import org.apache.flink.runtime.executiongraph.AccessExecutionGraph;
import org.apache.flink.runtime.executiongraph.AccessExecutionVertex;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.FileUtils;

/** One job on a MiniCluster, its own or that of another run. */
final class Run implements AutoCloseable {
    final StreamExecutionEnvironment env;
    int base; // the rounds that the snapshot it started from holds
    int splits; // the FLIP-27 splits that readers hold
    private final List<String> parts;
    final MiniCluster cluster;
    final JobID job;
    private final File tmp; // null if the cluster is another run's

    /** Settings every run has; a case adds its own. */
    static Map<String, String> defaults() {
        Map<String, String> c = new TreeMap<>();
        c.put("execution.checkpointing.interval", "3650 d"); // checkpoints only when asked for
        c.put("execution.checkpointing.min-pause", "3650 d"); // without it 2.3 takes one at the start
        c.put("execution.checkpointing.timeout", "2 min");
        c.put("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        c.put("restart-strategy.type", "disable");
        c.put("rest.bind-port", "0");
        c.put("taskmanager.memory.managed.size", "64m");
        c.put("taskmanager.memory.network.min", "16m");
        c.put("taskmanager.memory.network.max", "16m");
        return c;
    }

    /** Prepares the job on a new cluster; fresh when restore is null. */
    Run(List<String> parts, Map<String, String> conf, String jobId, String restore, String claimMode) throws Exception {
        this(parts, conf, jobId, restore, claimMode, null);
    }

    /** Prepares the job on the cluster of another run, whose job has ended: the statics are for one at a time. */
    Run(List<String> parts, Map<String, String> conf, String jobId, String restore, String claimMode, MiniCluster shared) throws Exception {
        Ctl.reset(restore != null);
        this.parts = parts;
        tmp = shared == null ? Files.createTempDirectory("interop-run").toFile() : null;
        Map<String, String> all = defaults();
        all.putAll(conf);
        if (tmp != null) {
            all.put("io.tmp.dirs", tmp.getPath());
            all.put("process.working-dir", tmp.getPath());
        }
        all.put("$internal.pipeline.job-id", jobId);
        if (restore != null) {
            all.put("execution.state-recovery.path", restore);
            all.put("execution.state-recovery.claim-mode", claimMode);
        }
        S3.configure(all);
        Configuration c = Configuration.fromMap(all);
        S3.initialize(c);
        env = new StreamExecutionEnvironment(c);
        Jobs.build(env, parts);
        job = JobID.fromHexString(jobId);
        if (shared != null) {
            cluster = shared;
            return;
        }
        cluster = new MiniCluster(new MiniClusterConfiguration.Builder()
                .setConfiguration(c).setNumTaskManagers(1).setNumSlotsPerTaskManager(Math.max(4, env.getParallelism())).build());
        try {
            cluster.start();
        } catch (Exception e) {
            close();
            throw e;
        }
    }

    /** Starts the job; separate from the constructor so that the caller can set Ctl first. */
    Run submit() throws Exception {
        start();
        await("running", () -> allIn(ExecutionState.RUNNING, ExecutionState.FINISHED));
        return this;
    }

    /** Starts the job, which may fail and restart at once. */
    void start() throws Exception {
        cluster.submitJob(env.getStreamGraph(false).getJobGraph(Run.class.getClassLoader(), job)).get();
    }

    /** Waits until the job runs (again); failures in between are all right. */
    void awaitAgain() throws Exception {
        await("running again", () -> {
            AccessExecutionGraph g = cluster.getExecutionGraph(job).get();
            if (g.getState() != JobStatus.RUNNING) {
                return false;
            }
            for (AccessExecutionVertex v : g.getAllExecutionVertices()) {
                if (v.getExecutionState() != ExecutionState.RUNNING) {
                    return false;
                }
            }
            return true;
        });
    }

    boolean allIn(ExecutionState... states) throws Exception {
        AccessExecutionGraph g = cluster.getExecutionGraph(job).get();
        if (g.getState() == JobStatus.INITIALIZING || g.getState() == JobStatus.CREATED) {
            return false;
        }
        if (g.getFailureInfo() != null) {
            throw new IllegalStateException("job failed: " + g.getFailureInfo().getExceptionAsString());
        }
        for (AccessExecutionVertex v : g.getAllExecutionVertices()) {
            if (!List.of(states).contains(v.getExecutionState())) {
                return false;
            }
        }
        return true;
    }

    static void await(String what, Callable<Boolean> done) throws Exception {
        if (!awaitAtMost(120, done)) {
            throw new IllegalStateException("timeout: " + what);
        }
    }

    /** Waits until something is so, and says whether it is. */
    static boolean awaitAtMost(int seconds, Callable<Boolean> done) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        while (!done.call()) {
            if (System.nanoTime() > end) {
                return false;
            }
            Thread.sleep(20);
        }
        return true;
    }

    /** Waits until a measure has been the same for a second and a half: a busy machine pauses, too. */
    static void quiet(String what, Callable<? extends Number> measure) throws Exception {
        long[] seen = {-1, 0};
        await("quiet after " + what, () -> {
            long now = measure.call().longValue();
            seen[1] = now == seen[0] ? seen[1] + 1 : 0;
            seen[0] = now;
            Thread.sleep(300);
            return seen[1] >= 5;
        });
    }

    /** Lets the source emit up to this many rounds and waits until it has, and the FLIP-27 readers too. */
    void advance(int to) throws Exception {
        int parallelism = env.getParallelism();
        Ctl.rounds = to;
        await("events", () -> Ctl.counted("src") == (long) (to - base) * Jobs.KEYS);
        if (parts.contains("flip27")) {
            await("splits", () -> Ctl.counted("flip27-splits") == splits);
            await("numbers", () -> Ctl.restored || Ctl.counted("flip27") == (long) Jobs.FLIP27_EMIT * parallelism);
        }
        if (parts.contains("fin")) {
            awaitFinished("fin-keyed", parallelism);
        }
        if (parts.contains("fin-part")) {
            awaitFinished("fin-part", 1);
        }
    }

    /** A task at the end of its input finishes only after one more checkpoint. */
    private void awaitFinished(String name, int count) throws Exception {
        await("end of " + name, () -> {
            if (!finished(name, count)) {
                try {
                    cluster.triggerCheckpoint(job, CheckpointType.CONFIGURED).get();
                } catch (ExecutionException e) {
                    // a task was just finishing; the next try
                }
                Thread.sleep(200);
            }
            return finished(name, count);
        });
    }

    private boolean finished(String name, int count) throws Exception {
        int n = 0;
        for (AccessExecutionVertex v : cluster.getExecutionGraph(job).get().getAllExecutionVertices()) {
            if (v.getTaskNameWithSubtaskIndex().contains(name) && v.getExecutionState() == ExecutionState.FINISHED) {
                n++;
            }
        }
        return n >= count;
    }

    String savepoint(String dir, SavepointFormatType format) throws Exception {
        return path(cluster.triggerSavepoint(job, dir, false, format).get());
    }

    String stopWithSavepoint(String dir, SavepointFormatType format, boolean drain) throws Exception {
        String path = path(cluster.stopWithSavepoint(job, dir, drain, format).get());
        cluster.requestJobResult(job).get();
        return path;
    }

    /** Takes a checkpoint and returns its directory chk-N below the checkpoint directory. */
    String checkpoint(String dir, CheckpointType type) throws Exception {
        long id = cluster.triggerCheckpoint(job, type).get();
        return dir + "/" + job + "/chk-" + id;
    }

    private static String path(String uri) {
        return uri.startsWith("file:") ? uri.substring(5) : uri;
    }

    /** Cancels a job that may have ended. */
    void abandon() {
        try {
            cancel();
        } catch (Exception e) {
            // it has, or never began
        }
    }

    void cancel() throws Exception {
        cluster.cancelJob(job).get();
        cluster.requestJobResult(job).get();
    }

    @Override
    public void close() throws Exception {
        if (tmp != null) {
            cluster.close();
            FileUtils.deleteDirectory(tmp);
        }
    }
}
