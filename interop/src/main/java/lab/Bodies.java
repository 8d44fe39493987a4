package lab;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.apache.flink.core.execution.CheckpointType;
import org.apache.flink.core.execution.SavepointFormatType;

/** How the snapshots of a case come about. */
final class Bodies {
    static final int ROUNDS = 7;

    private Bodies() {}

    interface Body {
        void run(Cases.Case c) throws Exception;
    }

    static Body savepoint(SavepointFormatType format) {
        return c -> {
            try (Run run = c.run(1, null, null).submit()) {
                run.advance(ROUNDS);
                c.took(run, run.savepoint(c.dir.getPath(), format), ROUNDS, "savepoint --type " + format);
                run.cancel();
            }
        };
    }

    static Body stop(boolean drain) {
        return c -> {
            try (Run run = c.run(1, null, null).submit()) {
                run.advance(ROUNDS);
                String path = run.stopWithSavepoint(c.dir.getPath(), SavepointFormatType.CANONICAL, drain);
                c.took(run, path, ROUNDS, "stop --type CANONICAL" + (drain ? " --drain" : ""));
            }
        };
    }

    /** Takes count checkpoints, the first after first rounds, then one after every further round. */
    static Body checkpoints(int first, int count) {
        return c -> checkpoints(c, 1, null, null, 0, first, count);
    }

    private static String checkpoints(Cases.Case c, int n, String restore, String claim, int base, int first, int count) throws Exception {
        String path = null;
        try (Run run = c.run(n, restore, claim)) {
            run.base = base;
            run.submit();
            for (int r = first; r < first + count; r++) {
                run.advance(r);
                path = run.checkpoint(c.ckptDir(), CheckpointType.CONFIGURED);
                c.took(run, path, r, "checkpoint" + (restore == null ? "" : " of a job restored with " + claim));
                Thread.sleep(count > 1 ? 1000 : 0); // lets RocksDB compact, the changelog materialize
            }
            run.cancel();
        }
        return path;
    }

    /** Three incremental checkpoints, then a second job that continues from the last one. */
    static Body continued(String claim) {
        return c -> {
            c.conf(Cases.RETAINED, claim.equals("CLAIM") ? "1" : "2");
            String last = checkpoints(c, 1, null, null, 0, 3, 3);
            checkpoints(c, 2, last, claim, 5, 6, 2);
        };
    }

    /** A takes some checkpoints, B is restored from A's last one, C from B's. */
    static Body generations(String claim, int... counts) {
        return c -> {
            String last = null;
            int base = 0;
            for (int g = 0; g < counts.length; g++) {
                int first = base + (g == 0 ? 2 : 1);
                last = checkpoints(c, g + 1, last, last == null ? null : claim, base, first, counts[g]);
                base = first + counts[g] - 1;
            }
        };
    }

    /** A savepoint of A, and a job B that claims it and takes some checkpoints. */
    static Body claimSavepoint(SavepointFormatType format, int count) {
        return c -> {
            String sp;
            try (Run run = c.run(1, null, null).submit()) {
                run.advance(3);
                sp = run.savepoint(c.dir.getPath(), format);
                c.took(run, sp, 3, "savepoint --type " + format);
                run.cancel();
            }
            checkpoints(c, 2, sp, "CLAIM", 3, 4, count);
        };
    }

    /** A savepoint at parallelism 2, restored at another one, two more rounds, and a savepoint again. */
    static Body rescaled(int parallelism) {
        return c -> {
            String first;
            try (Run run = c.run(1, null, null).submit()) {
                run.advance(ROUNDS);
                first = run.savepoint(c.dir.getPath(), SavepointFormatType.CANONICAL);
                c.took(run, first, ROUNDS, "savepoint --type CANONICAL");
                run.cancel();
            }
            c.conf("parallelism.default", "" + parallelism);
            try (Run run = c.run(2, first, "NO_CLAIM")) {
                run.base = ROUNDS;
                run.submit();
                run.advance(ROUNDS + 2);
                c.took(run, run.savepoint(c.dir.getPath(), SavepointFormatType.CANONICAL), ROUNDS + 2,
                        "savepoint --type CANONICAL of a job restored at parallelism " + parallelism);
                run.cancel();
            }
        };
    }

    /** Slow operators and small buffers, so that the checkpoint holds in-flight records. */
    static void unaligned(Cases.Case c) throws Exception {
        int rounds = 15;
        try (Run run = c.run(1, null, null)) {
            Ctl.slowMs = 60;
            Ctl.pad = 200;
            run.submit();
            run.advance(rounds);
            String path = run.checkpoint(c.ckptDir(), CheckpointType.CONFIGURED);
            long seen = Ctl.counted("kv-long");
            Map<String, Object> s = c.took(run, path, rounds, "checkpoint");
            s.put("inflight", true); // the operators' content is that after the channel state is replayed
            s.put("note", "taken when the operators had seen at most " + seen + " of " + rounds * Jobs.KEYS + " records");
            Ctl.slowMs = 0;
            run.cancel();
        }
    }

    /** Checkpoints directly in the checkpoint directory, without a directory of the job (create-subdir = false). */
    static void withoutSubdir(Cases.Case c) throws Exception {
        try (Run run = c.run(1, null, null).submit()) {
            for (int r = 2; r <= 4; r++) {
                run.advance(r);
                String path = run.checkpoint(c.ckptDir(), CheckpointType.CONFIGURED).replace("/" + run.job + "/", "/");
                c.took(run, path, r, "checkpoint");
                Thread.sleep(1000);
            }
            run.cancel();
        }
    }

    /** A checkpoint and a savepoint of a job whose file sink holds files in progress. */
    static void fileSink(Cases.Case c) throws Exception {
        c.conf("lab.sink.dir", "file://" + c.dir + "/sink out");
        try (Run run = c.run(1, null, null).submit()) {
            for (int i = 0; i < 2; i++) {
                run.advance(3 + 2 * i);
                Thread.sleep(500);
                boolean sp = i == 1;
                String path = sp ? run.savepoint(c.dir.getPath(), SavepointFormatType.CANONICAL) : run.checkpoint(c.ckptDir(), CheckpointType.CONFIGURED);
                Map<String, Object> s = c.took(run, path, 3 + 2 * i, sp ? "savepoint --type CANONICAL" : "checkpoint");
                s.put("sinkFiles", sizes(new File(c.dir, "sink out"), c.dir));
            }
            run.cancel();
        }
        c.note = "operator state writer_raw_states of uid filesink holds the recoverables of the in-progress files below 'sink out' (absolute paths as text)";
    }

    private static Map<String, Long> sizes(File dir, File base) throws IOException {
        Map<String, Long> m = new TreeMap<>();
        try (Stream<Path> s = Files.walk(dir.toPath())) {
            s.filter(Files::isRegularFile).forEach(f -> m.put(base.toPath().relativize(f).toString(), f.toFile().length()));
        }
        return m;
    }

    // ------------------------------------------------------------------ what failures leave behind

    private static String checkpoint(Cases.Case c, Run run, int rounds) throws Exception {
        String path = run.checkpoint(c.ckptDir(), CheckpointType.CONFIGURED);
        c.took(run, path, rounds, "checkpoint");
        return path;
    }

    /** A checkpoint that must fail; returns the reason. */
    private static String fails(Run run, long id, String how) throws Exception {
        Ctl.plan.put(id, how);
        try {
            long got = run.cluster.triggerCheckpoint(run.job, CheckpointType.CONFIGURED).get(60, TimeUnit.SECONDS);
            throw new IllegalStateException("checkpoint " + got + " did not fail");
        } catch (ExecutionException e) {
            Throwable t = e;
            while (t.getCause() != null) {
                t = t.getCause();
            }
            return t.toString();
        } finally {
            Ctl.plan.remove(id);
            Thread.sleep(1500); // late acknowledgements
        }
    }

    /** Lets the source emit up to this many rounds; a sync failure restarts the job, so records may come twice. */
    private static void settle(Run run, int to) throws Exception {
        Ctl.rounds = to;
        long[] was = {-1};
        Run.await("quiet", () -> {
            run.awaitAgain();
            long now = Ctl.counted("src");
            boolean still = now == was[0];
            was[0] = now;
            Thread.sleep(1500);
            return still;
        });
    }

    static void litterAbort(Cases.Case c) throws Exception {
        Map<String, Object> events = new TreeMap<>();
        try (Run run = c.run(1, null, null).submit()) {
            run.advance(2);
            checkpoint(c, run, 2); // 1
            run.advance(3);
            events.put("chk-2", "async failure after the others acknowledged: " + fails(run, 2, "async"));
            run.advance(4);
            checkpoint(c, run, 4); // 3
            run.advance(5);
            events.put("chk-4", "timeout (one subtask hangs in its async part): " + fails(run, 4, "hang"));
            run.advance(6);
            checkpoint(c, run, 6); // 5
            settle(run, 7);
            events.put("chk-6", "sync failure in an operator: " + fails(run, 6, "sync"));
            settle(run, 8);
            events.put("chk-7", "async failure after the others acknowledged: " + fails(run, 7, "async"));
            settle(run, 9);
            checkpoint(c, run, 9); // 8
            settle(run, 10);
            Ctl.plan.put(9L, "hang"); // task failure while checkpoint 9 is half acknowledged
            CompletableFuture<Long> nine = run.cluster.triggerCheckpoint(run.job, CheckpointType.CONFIGURED);
            Thread.sleep(1500);
            long before = Ctl.counted("src");
            Ctl.failTask = true;
            Ctl.rounds = 11;
            String why;
            try {
                nine.get(60, TimeUnit.SECONDS);
                throw new IllegalStateException("checkpoint 9 did not fail");
            } catch (ExecutionException e) {
                why = e.getCause().toString();
            }
            Ctl.plan.remove(9L);
            events.put("chk-9", "task failure (job restarted from chk-8): " + why);
            run.awaitAgain();
            // everything after chk-8 (round 9) is replayed: at least 2 rounds
            long[] was = {-1};
            Run.await("replay", () -> {
                long now = Ctl.counted("src");
                boolean still = now == was[0] && now > before;
                was[0] = now;
                Thread.sleep(500);
                return still;
            });
            checkpoint(c, run, 11); // 10
            Ctl.rounds = 12;
            Thread.sleep(1000);
            events.put("chk-11", "async failure after the others acknowledged: " + fails(run, 11, "async"));
            Ctl.rounds = 13;
            Thread.sleep(1000);
            events.put("chk-12", "timeout (one subtask hangs in its async part): " + fails(run, 12, "hang"));
            run.cancel();
        }
        c.extra.put("failedCheckpoints", events);
        c.note = "orphans.json: what lies on disk without a reference from any retained _metadata";
    }

    /** This JVM is killed while a checkpoint and a savepoint are half written: must be the last case of a run. */
    static void litterKill(Cases.Case c) throws Exception {
        Run run = c.run(1, null, null).submit();
        for (int r = 2; r <= 4; r++) {
            run.advance(r);
            checkpoint(c, run, r);
            Thread.sleep(500);
        }
        c.note = "the JVM with job manager and task managers was killed while checkpoint 4 and a savepoint (checkpoint id 5) were half written";
        c.extra.put("failedCheckpoints", Map.of("5", "savepoint, killed", "chk-4", "killed"));
        run.advance(5);
        c.write();
        Ctl.plan.put(4L, "hang");
        Ctl.plan.put(5L, "hang");
        run.cluster.triggerCheckpoint(run.job, CheckpointType.CONFIGURED);
        Thread.sleep(2500);
        boolean forst = c.conf.get("state.backend.type").equals("forst");
        run.cluster.triggerSavepoint(run.job, c.dir.getPath(), false, forst ? SavepointFormatType.NATIVE : SavepointFormatType.CANONICAL);
        Thread.sleep(2500);
        System.out.println("KILL " + c.name + ": run `orphans` on it afterwards");
        System.out.flush();
        new ProcessBuilder("kill", "-9", "" + ProcessHandle.current().pid()).start().waitFor();
    }

    // ------------------------------------------------------------------ S3

    /** Savepoints, then checkpoints, below a prefix of the case's bucket; the bucket is copied to s3/BUCKET of the case. */
    static Body s3(String scheme, String prefix, boolean entropy, int checkpoints, SavepointFormatType... savepoints) {
        return c -> {
            String bucket = S3.bucket(c.name), root = scheme + "://" + bucket;
            c.remote = root + prefix + "/ckpt";
            c.conf("execution.checkpointing.dir", c.remote);
            if (entropy) {
                c.conf("s3.entropy.key", "_entropy_");
                c.conf("s3.entropy.length", "4");
            }
            try (Run run = c.run(1, null, null).submit()) {
                int r = 2;
                for (SavepointFormatType f : savepoints) {
                    run.advance(r);
                    tookRemote(c, run, run.savepoint(root + prefix + "/sp", f), root, r++, "savepoint --type " + f);
                }
                for (int i = 0; i < checkpoints; i++) {
                    run.advance(r);
                    String uri = run.checkpoint(c.remote, CheckpointType.CONFIGURED).replace("/_entropy_", "");
                    tookRemote(c, run, uri, root, r++, "checkpoint");
                    Thread.sleep(1000);
                }
                run.cancel();
            }
            S3.export(root, entropy ? "" : prefix, new File(c.dir, "s3"), bucket); // entropy leads anywhere
        };
    }

    private static void tookRemote(Cases.Case c, Run run, String uri, String root, int rounds, String command) {
        String bucket = root.substring(root.lastIndexOf('/') + 1), key = uri.substring(root.length() + 1);
        c.took(run, c.dir + "/s3/" + bucket + "/" + key, rounds, command).put("uri", uri);
    }
}
