package lab;

import java.io.File;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.util.EnvironmentInformation;
import org.apache.flink.util.FileUtils;

/** The cases: which job, which settings, which snapshots. */
final class Cases {
    static final List<String> RICH = List.of(
            "stateless", "kv-string", "kv-long", "kv-int", "kv-pojo", "kv-tuple", "win", "win-session", "opstate", "nouid", "flip27");
    static final List<String> SMALL = List.of("stateless", "kv-string", "kv-long", "kv-int", "opstate", "flip27");
    static final List<String> TINY = List.of("kv-long");

    static final String INCR = "execution.checkpointing.incremental", RETAINED = "execution.checkpointing.num-retained";

    /** A case under construction: its settings, and the snapshots it took. */
    static final class Case {
        final String name;
        final List<String> parts;
        final Bodies.Body body;
        final Map<String, String> conf = new TreeMap<>();
        String note;
        final Map<String, Object> extra = new TreeMap<>();
        File dir;
        String remote; // where checkpoints go, when not to a directory of the case
        String ckpt = "ckpt";
        boolean kills; // the body ends this JVM
        final List<Map<String, Object>> snapshots = new ArrayList<>();
        private int firstParallelism;

        Case(String name, List<String> parts, Bodies.Body body) {
            this.name = name;
            this.parts = parts;
            this.body = body;
            conf("parallelism.default", "2");
            conf("pipeline.max-parallelism", "128");
            conf("state.backend.type", "hashmap");
        }

        Case conf(String k, String v) {
            conf.put(k, v);
            return this;
        }

        Case backend(String b) {
            return conf("state.backend.type", b);
        }

        Case inline(String threshold) {
            return conf("execution.checkpointing.data-inline-threshold", threshold);
        }

        int parallelism() {
            return Integer.parseInt(conf.get("parallelism.default"));
        }

        String ckptDir() {
            return remote != null ? remote : dir + "/" + ckpt;
        }

        /** Starts the job of this case; the n-th run has its own, fixed job id. */
        Run run(int n, String restore, String claimMode) throws Exception {
            if (remote == null) {
                conf("execution.checkpointing.dir", "file://" + ckptDir());
            }
            if ("filesystem".equals(conf.get("state.changelog.storage"))) {
                conf("state.changelog.dstl.dfs.base-path", "file://" + dir + "/dstl");
            }
            if (firstParallelism == 0) {
                firstParallelism = parallelism();
            }
            String jobId = UUID.nameUUIDFromBytes((name + "#" + n).getBytes()).toString().replace("-", "");
            Run run = new Run(parts, conf, jobId, restore, claimMode);
            run.splits = Math.max(firstParallelism, parallelism());
            return run;
        }

        /** Notes a snapshot that was just taken. */
        Map<String, Object> took(Run run, String path, int rounds, String command) {
            Map<String, Object> s = new TreeMap<>();
            s.put("dir", path.substring(dir.getPath().length() + 1));
            s.put("command", command);
            s.put("rounds", rounds);
            s.put("config", new TreeMap<>(conf));
            String name = new File(path).getName();
            long id = name.startsWith("chk-") ? Long.parseLong(name.substring(4)) : 1;
            s.put("operators", Truth.operators(run.env, parts, rounds, firstParallelism, id, command.contains("--drain")));
            snapshots.add(s);
            return s;
        }

        /** Writes truth.json, the snapshots' .meta.json, and orphans.json where there is something to say. */
        void write() throws Exception {
            Map<String, Object> t = new LinkedHashMap<>();
            t.put("case", name);
            t.put("flink", EnvironmentInformation.getVersion());
            t.put("writtenAt", dir.getPath());
            t.put("parts", parts);
            t.putAll(extra);
            if (note != null) {
                t.put("note", note);
            }
            snapshots.removeIf(s -> !new File(dir, s.get("dir") + "/_metadata").exists()); // subsumed ones
            if (snapshots.isEmpty()) {
                throw new IllegalStateException("no snapshot is left of what was taken");
            }
            t.put("snapshots", snapshots);
            if (snapshots.stream().noneMatch(s -> s.get("dir").toString().startsWith(ckpt + "/"))) {
                FileUtils.deleteDirectory(new File(ckptDir())); // a savepoint case: empty, or helper checkpoints
            }
            for (Map<String, Object> s : snapshots) {
                File d = new File(dir, (String) s.get("dir"));
                String meta = d.getName() + ".meta.json";
                s.put("meta", meta);
                Main.JSON.writeValue(new File(dir, meta), Meta.json(new File(d, "_metadata")));
            }
            Disk.of(dir, dir.getPath(), snapshots).write();
            Main.JSON.writeValue(new File(dir, "truth.json"), t);
        }
    }

    // ------------------------------------------------------------------ the list

    private static final SavepointFormatType CANONICAL = SavepointFormatType.CANONICAL, NATIVE = SavepointFormatType.NATIVE;

    static Case add(List<Case> to, String name, List<String> parts, Bodies.Body body) {
        Case c = new Case(name, parts, body);
        to.add(c);
        return c;
    }

    static List<Case> all() {
        List<Case> l = new ArrayList<>();
        String compression = "execution.checkpointing.snapshot-compression", timers = "state.backend.rocksdb.timer-service.factory",
                parallelism = "parallelism.default", max = "pipeline.max-parallelism", merging = "execution.checkpointing.file-merging.enabled";

        // savepoints; handles below the default threshold of 20 kb are inlined in _metadata
        add(l, "sp-canonical-hashmap", RICH, Bodies.savepoint(CANONICAL));
        add(l, "sp-canonical-hashmap-inline", RICH, Bodies.savepoint(CANONICAL)).inline("1mb");
        add(l, "sp-canonical-hashmap-files", RICH, Bodies.savepoint(CANONICAL)).inline("0b");
        add(l, "sp-canonical-hashmap-compressed", RICH, Bodies.savepoint(CANONICAL)).conf(compression, "true");
        add(l, "sp-canonical-rocksdb", RICH, Bodies.savepoint(CANONICAL)).backend("rocksdb");
        add(l, "sp-canonical-rocksdb-files", RICH, Bodies.savepoint(CANONICAL)).backend("rocksdb").inline("0b");
        add(l, "sp-canonical-rocksdb-compressed", RICH, Bodies.savepoint(CANONICAL)).backend("rocksdb").conf(compression, "true");
        add(l, "sp-canonical-rocksdb-heaptimers", SMALL, Bodies.savepoint(CANONICAL)).backend("rocksdb").conf(timers, "HEAP");
        add(l, "sp-native-hashmap", RICH, Bodies.savepoint(NATIVE));
        add(l, "sp-native-hashmap-files", RICH, Bodies.savepoint(NATIVE)).inline("0b");
        add(l, "sp-native-rocksdb", SMALL, Bodies.savepoint(NATIVE)).backend("rocksdb").conf(INCR, "true");
        add(l, "sp-native-rocksdb-files", SMALL, Bodies.savepoint(NATIVE)).backend("rocksdb").conf(INCR, "true").inline("0b");
        add(l, "sp-native-rocksdb-full", SMALL, Bodies.savepoint(NATIVE)).backend("rocksdb").conf(INCR, "false").inline("0b");
        add(l, "sp-p1", RICH, Bodies.savepoint(CANONICAL)).conf(parallelism, "1");
        add(l, "sp-p3", RICH, Bodies.savepoint(CANONICAL)).conf(parallelism, "3");
        add(l, "sp-maxp7", RICH, Bodies.savepoint(CANONICAL)).conf(max, "7");
        add(l, "sp-maxp300", RICH, Bodies.savepoint(CANONICAL)).conf(max, "300");
        add(l, "sp-maxp300-rocksdb", RICH, Bodies.savepoint(CANONICAL)).conf(max, "300").backend("rocksdb");
        add(l, "sp-maxp32768", List.of("nouid"), Bodies.savepoint(CANONICAL)).conf(max, "32768");
        add(l, "sp-maxp32768-rocksdb", List.of("nouid"), Bodies.savepoint(CANONICAL)).conf(max, "32768").backend("rocksdb");
        add(l, "sp-rescaled", RICH, Bodies.rescaled(3));
        add(l, "sp-rescaled-rocksdb", RICH, Bodies.rescaled(3)).backend("rocksdb");
        add(l, "sp-scaled-down", RICH, Bodies.rescaled(1));
        add(l, "sp-types-hashmap", List.of("kv-types"), Bodies.savepoint(CANONICAL));
        add(l, "sp-types-rocksdb", List.of("kv-types"), Bodies.savepoint(CANONICAL)).backend("rocksdb");
        add(l, "sp-list-rocksdb", List.of("kv-list"), Bodies.savepoint(CANONICAL)).backend("rocksdb");
        add(l, "sp-stateless", List.of("stateless"), Bodies.savepoint(CANONICAL));
        add(l, "sp-masterhook", List.of("masterhook", "kv-long"), Bodies.savepoint(CANONICAL));
        add(l, "sp-finished", List.of("fin", "kv-long"), Bodies.savepoint(CANONICAL));
        add(l, "sp-finished-partly", List.of("fin-part", "kv-long"), Bodies.savepoint(CANONICAL));
        add(l, "sp-stop", RICH, Bodies.stop(false));
        add(l, "sp-drain", RICH, Bodies.stop(true));

        // retained checkpoints
        add(l, "ck-hashmap", RICH, Bodies.checkpoints(Bodies.ROUNDS, 1));
        add(l, "ck-hashmap-files", RICH, Bodies.checkpoints(Bodies.ROUNDS, 1)).inline("0b");
        add(l, "ck-hashmap-compressed", RICH, Bodies.checkpoints(Bodies.ROUNDS, 1)).inline("0b").conf(compression, "true");
        add(l, "ck-rocksdb-full", RICH, Bodies.checkpoints(Bodies.ROUNDS, 1)).backend("rocksdb").conf(INCR, "false").inline("0b");
        add(l, "ck-rocksdb-full-compressed", RICH, Bodies.checkpoints(Bodies.ROUNDS, 1)).backend("rocksdb").conf(INCR, "false").inline("0b").conf(compression, "true");
        add(l, "ck-rocksdb-incr", TINY, Bodies.checkpoints(2, 6)).backend("rocksdb").conf(INCR, "true").inline("0b").conf(RETAINED, "3");
        add(l, "ck-rocksdb-incr-heaptimers", TINY, Bodies.checkpoints(2, 6)).backend("rocksdb").conf(INCR, "true").inline("0b").conf(RETAINED, "3").conf(timers, "HEAP");
        add(l, "ck-rocksdb-incr-inline", TINY, Bodies.checkpoints(2, 4)).backend("rocksdb").conf(INCR, "true").conf(RETAINED, "3");
        add(l, "ck-rocksdb-incr-list", List.of("kv-list"), Bodies.checkpoints(1, 4)).backend("rocksdb").conf(INCR, "true").inline("0b").conf(RETAINED, "3");
        add(l, "ck-rocksdb-incr-rich", SMALL, Bodies.checkpoints(5, 2)).backend("rocksdb").conf(INCR, "true").inline("0b").conf(RETAINED, "2");
        add(l, "ck-rocksdb-claim", TINY, Bodies.continued("CLAIM")).backend("rocksdb").conf(INCR, "true").inline("0b");
        add(l, "ck-rocksdb-noclaim", TINY, Bodies.continued("NO_CLAIM")).backend("rocksdb").conf(INCR, "true").inline("0b");
        add(l, "ck-unaligned", TINY, Bodies::unaligned).inline("0b").conf("execution.checkpointing.unaligned.enabled", "true")
                .conf("taskmanager.memory.segment-size", "4kb");
        add(l, "ck-unaligned-inline", TINY, Bodies::unaligned).inline("1mb").conf("execution.checkpointing.unaligned.enabled", "true")
                .conf("taskmanager.memory.segment-size", "4kb");
        for (String backend : List.of("hashmap", "rocksdb")) {
            // the log only, and materialized every 300 ms
            add(l, "ck-changelog-" + backend, TINY, Bodies.checkpoints(3, 3)).backend(backend).inline("0b").conf(RETAINED, "3").conf(INCR, "true")
                    .conf("state.changelog.enabled", "true").conf("state.changelog.storage", "filesystem")
                    .conf("state.changelog.periodic-materialize.enabled", "false");
            add(l, "ck-changelog-materialized-" + backend, TINY, Bodies.checkpoints(3, 3)).backend(backend).inline("0b").conf(RETAINED, "3").conf(INCR, "true")
                    .conf("state.changelog.enabled", "true").conf("state.changelog.storage", "filesystem")
                    .conf("state.changelog.periodic-materialize.interval", "300 ms");
        }
        add(l, "ck-changelog-memory", TINY, Bodies.checkpoints(3, 2)).conf(RETAINED, "2").conf("state.changelog.enabled", "true")
                .conf("state.changelog.storage", "memory").conf("state.changelog.periodic-materialize.enabled", "false");
        add(l, "ck-filemerging-hashmap", SMALL, Bodies.checkpoints(Bodies.ROUNDS, 2)).conf(merging, "true").conf(RETAINED, "2").inline("0b");
        add(l, "ck-filemerging-rocksdb", TINY, Bodies.checkpoints(2, 4)).backend("rocksdb").conf(INCR, "true").conf(merging, "true").conf(RETAINED, "3").inline("0b");
        add(l, "ck-filemerging-across", TINY, Bodies.checkpoints(2, 4)).backend("rocksdb").conf(INCR, "true").conf(merging, "true").conf(RETAINED, "3").inline("0b")
                .conf("execution.checkpointing.file-merging.across-checkpoint-boundary", "true");

        // several jobs, one after the other
        rocks(l, "ck-rocksdb-legacy", TINY, Bodies.generations("LEGACY", 3, 3)).conf(RETAINED, "3");
        rocks(l, "ck-rocksdb-legacy3", TINY, Bodies.generations("LEGACY", 2, 2, 2)).conf(RETAINED, "3");
        rocks(l, "ck-rocksdb-claim3", TINY, Bodies.generations("CLAIM", 2, 1, 2)).conf(RETAINED, "3");
        rocks(l, "ck-rocksdb-claim3-nocompact", TINY, Bodies.generations("CLAIM", 3, 2, 2)).conf(RETAINED, "3").conf("state.backend.rocksdb.compaction.style", "NONE");
        rocks(l, "ck-rocksdb-claim-native", TINY, Bodies.claimSavepoint(NATIVE, 2)).conf(RETAINED, "3");
        rocks(l, "ck-rocksdb-claim-native-retained1", TINY, Bodies.claimSavepoint(NATIVE, 2)).conf(RETAINED, "1");
        rocks(l, "ck-rocksdb-claim-canonical", TINY, Bodies.claimSavepoint(CANONICAL, 2)).conf(RETAINED, "1");

        // what failures leave behind
        List<String> chaos = List.of("kv-long", "chaos");
        rocks(l, "ck-litter-abort", chaos, Bodies::litterAbort).conf(RETAINED, "3")
                .conf("execution.checkpointing.tolerable-failed-checkpoints", "100").conf("execution.checkpointing.timeout", "3 s")
                .conf("restart-strategy.type", "fixed-delay").conf("restart-strategy.fixed-delay.attempts", "5").conf("restart-strategy.fixed-delay.delay", "300 ms");
        rocks(l, "ck-litter-kill", chaos, Bodies::litterKill).conf(RETAINED, "3").kills = true;

        // S3
        String odd = " ü%20a+b 日本";
        rocks(l, "ck-s3-incr", TINY, Bodies.s3("s3", "/flink", false, 4)).conf(RETAINED, "3");
        rocks(l, "ck-s3p-incr-inline", TINY, Bodies.s3("s3p", "/flink", false, 2)).conf(RETAINED, "2").inline("20kb");
        rocks(l, "sp-s3", SMALL, Bodies.s3("s3", "/flink", false, 0, CANONICAL, NATIVE)).conf(RETAINED, "3");
        rocks(l, "ck-s3-entropy", TINY, Bodies.s3("s3", "/_entropy_/flink", true, 3, CANONICAL, NATIVE)).conf(RETAINED, "3");
        add(l, "ck-s3-entropy-hashmap", SMALL, Bodies.s3("s3p", "/_entropy_/flink", true, 1, CANONICAL)).inline("0b");
        rocks(l, "ck-s3-entropy-nomarker", TINY, Bodies.s3("s3", "/flink", true, 2, CANONICAL, NATIVE)).conf(RETAINED, "2");
        rocks(l, "ck-s3-unicode", TINY, Bodies.s3("s3", "/flink" + odd, false, 2, CANONICAL)).conf(RETAINED, "2");

        // state and names out of the ordinary
        add(l, "ck-skew", List.of("skew", "kv-long"), Bodies.checkpoints(3, 1)).conf(parallelism, "4");
        add(l, "sp-skew", List.of("skew", "kv-long"), Bodies.savepoint(CANONICAL)).conf(parallelism, "4");
        rocks(l, "ck-unicode-rocksdb", List.of("unicode"), Bodies.checkpoints(3, 2)).conf(RETAINED, "2").ckpt = "ckpt" + odd;
        add(l, "ck-unicode-hashmap", List.of("unicode"), Bodies.checkpoints(3, 1)).inline("0b").ckpt = "ckpt" + odd;
        rocks(l, "sp-unicode-rocksdb", List.of("unicode"), Bodies.savepoint(CANONICAL));
        add(l, "sp-raw", List.of("raw", "raw-op"), Bodies.savepoint(CANONICAL));
        add(l, "ck-raw-files", List.of("raw", "raw-op"), Bodies.checkpoints(3, 1)).inline("0b");
        add(l, "ck-raw-p1", List.of("raw", "raw-op"), Bodies.checkpoints(3, 1)).inline("0b").conf(parallelism, "1");
        rocks(l, "ck-raw-rocksdb", List.of("raw", "raw-op", "kv-long"), Bodies.checkpoints(3, 1));
        rocks(l, "ck-nosubdir", TINY, Bodies::withoutSubdir).conf(RETAINED, "2").conf("execution.checkpointing.create-subdir", "false");
        add(l, "sp-2pc-drain", List.of("twopc", "kv-long"), Bodies.stop(true));
        add(l, "sp-2pc", List.of("twopc", "kv-long"), Bodies.savepoint(CANONICAL)).inline("0b");
        add(l, "sp-filesink", List.of("filesink"), Bodies::fileSink);
        Compat.add(l);
        return l;
    }

    private static Case rocks(List<Case> l, String name, List<String> parts, Bodies.Body body) {
        return add(l, name, parts, body).backend("rocksdb").conf(INCR, "true").inline("0b");
    }

    /**
     * Runs these cases, or all; cases that need S3 or kill the JVM are left out of "all" where they cannot run. A case starts
     * from nothing: its directory OUT/VERSION/CASE is removed first.
     */
    static int generate(List<Case> cases, File out, List<String> only) {
        int failed = 0;
        List<String> unknown = new ArrayList<>(only);
        for (Case c : cases) {
            unknown.remove(c.name);
            if (!only.isEmpty() && !only.contains(c.name)) {
                continue;
            }
            if (only.isEmpty() && (c.kills || c.name.contains("-s3") && !S3.available())) {
                System.out.println("SKIP " + c.name + (c.kills ? ": kills this JVM, ask for it alone" : ": needs S3_ENDPOINT"));
                continue;
            }
            c.dir = new File(out, EnvironmentInformation.getVersion() + "/" + c.name).getAbsoluteFile();
            long t = System.currentTimeMillis();
            try {
                FileUtils.deleteDirectory(c.dir);
                c.dir.mkdirs();
                c.body.run(c);
                c.write();
                System.out.println("OK   " + c.name + " " + (System.currentTimeMillis() - t) + " ms");
            } catch (Throwable e) {
                failed++;
                System.out.println("FAIL " + c.name);
                e.printStackTrace(System.out);
            }
        }
        unknown.forEach(n -> System.out.println("FAIL " + n + ": no such case"));
        return failed + unknown.size() == 0 ? 0 : 1;
    }

    private Cases() {}
}
