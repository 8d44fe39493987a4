import java.io.File;
import java.lang.reflect.Method;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobSubmissionResult;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.execution.ExecutionState;
import org.apache.flink.runtime.executiongraph.AccessExecutionVertex;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.JobVertex;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.runtime.state.StateBackend;
import org.apache.flink.runtime.state.filesystem.FsStateBackend;
import org.apache.flink.runtime.state.memory.MemoryStateBackend;
import org.apache.flink.runtime.util.EnvironmentInformation;
import org.apache.flink.streaming.api.TimeCharacteristic;
import org.apache.flink.streaming.api.environment.CheckpointConfig;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.FileUtils;

/** Old Flink releases write snapshots of the job in Old, and restore them; see ../README.md. */
public final class Main {
    private static final String USAGE = String.join("\n",
            "usage: gen OUT [CASE...] | list",
            "       verify SNAPSHOT mem|fs|rocks-full|rocks-incr [rich] [heaptimers] [rockstimers] | verify-many LIST",
            "       load-many LIST | meta-many LIST");

    private Main() {}

    public static void main(String[] args) throws Exception {
        List<String> a = Arrays.asList(args);
        String command = args.length == 0 ? "" : args[0];
        int n = args.length - 1;
        boolean ok;
        if (command.equals("gen") && n >= 1) {
            ok = generate(new File(args[1]), a.subList(2, a.size()));
        } else if (command.equals("list") && n == 0) {
            cases().forEach(c -> System.out.println(c[0]));
            ok = true;
        } else if (command.equals("verify") && n >= 2) {
            ok = verify(a.subList(1, a.size()));
        } else if (command.equals("verify-many") && n == 1) {
            ok = true;
            for (List<String> l : lines(args[1])) {
                ok &= verify(l);
            }
        } else if (command.equals("load-many") && n == 1) {
            ok = many(args[1], l -> Show.load(new File(l.get(0))));
        } else if (command.equals("meta-many") && n == 1) {
            ok = many(args[1], l -> Show.write(new File(l.get(0)), new File(l.get(1))));
        } else {
            System.err.println(USAGE);
            System.exit(2);
            return;
        }
        System.exit(ok ? 0 : 1); // Flink's threads would keep the JVM
    }

    private interface Action {
        void run(List<String> columns) throws Exception;
    }

    /** The lines of a list file, cut at tabs. */
    private static List<List<String>> lines(String list) throws Exception {
        List<List<String>> out = new ArrayList<>();
        for (String l : Files.readAllLines(new File(list).toPath())) {
            if (!l.isEmpty()) {
                out.add(Arrays.asList(l.split("\t")));
            }
        }
        return out;
    }

    private static boolean many(String list, Action action) throws Exception {
        boolean ok = true;
        for (List<String> l : lines(list)) {
            try {
                action.run(l);
                System.out.println("OK " + l.get(0));
            } catch (Throwable e) {
                ok = false;
                System.out.println("FAIL " + l.get(0) + ": " + e);
            }
        }
        return ok;
    }

    // ---------------------------------------------------------------- cases

    /** Name, kind, backend, inline threshold (-1 = the release's default), options. */
    private static List<String[]> cases() {
        List<String[]> l = new ArrayList<>();
        String v = EnvironmentInformation.getVersion();
        boolean v8 = v.startsWith("1.8."), heap = v8 || v.startsWith("1.12.");
        String sp = "savepoint-" + (heap ? "fs" : "hashmap"), chk = "chk-" + (heap ? "fs" : "hashmap");
        add(l, heap ? "savepoint-memory" : "savepoint-jobmanager", "sp", "mem", "-1");
        add(l, sp, "sp", "fs", "0");
        add(l, "savepoint-rocksdb", "sp", "rocks-full", "0");
        add(l, "savepoint-rocksdb-heaptimers", "sp", "rocks-full", "0", "heaptimers");
        if (!heap) {
            add(l, "savepoint-hashmap-native", "sp", "fs", "0", "native");
            add(l, "savepoint-rocksdb-native", "sp", "rocks-incr", "0", "native");
        }
        add(l, chk, "chk", "fs", "0");
        add(l, "chk-rocksdb-incremental", "chk", "rocks-incr", "0");
        add(l, "chk-rocksdb-incremental-default", "chk", "rocks-incr", "-1");
        add(l, "chk-rocksdb-full", "chk", "rocks-full", "0");
        if (heap) {
            add(l, "chk-rocksdb-incremental-heaptimers", "chk", "rocks-incr", "0", "heaptimers");
            add(l, "chk-rocksdb-incremental-rich", "chk", "rocks-incr", "-1", "rich");
        }
        if (v8) {
            add(l, "savepoint-rocksdb-rockstimers", "sp", "rocks-full", "0", "rockstimers");
            add(l, "chk-rocksdb-incremental-rockstimers", "chk", "rocks-incr", "0", "rockstimers");
        } else {
            add(l, chk + "-unaligned", "chk", "fs", "0", "unaligned");
        }
        add(l, sp + "-rich", "sp", "fs", "0", "rich");
        add(l, "savepoint-rocksdb-rich", "sp", "rocks-full", "0", "rich");
        return l;
    }

    private static void add(List<String[]> l, String... columns) {
        l.add(columns);
    }

    private static boolean generate(File out, List<String> only) {
        boolean ok = true;
        for (String[] c : cases()) {
            if (!only.isEmpty() && !only.contains(c[0])) {
                continue;
            }
            File dir = new File(out, EnvironmentInformation.getVersion() + "/" + c[0]).getAbsoluteFile();
            long t = System.currentTimeMillis();
            try {
                FileUtils.deleteDirectory(dir);
                make(dir, c[1].equals("chk"), c[2], Integer.parseInt(c[3]), new HashSet<>(Arrays.asList(c).subList(4, c.length)));
                System.out.println("OK   " + c[0] + " " + (System.currentTimeMillis() - t) + " ms");
            } catch (Throwable e) {
                ok = false;
                System.out.println("FAIL " + c[0]);
                e.printStackTrace(System.out);
            }
        }
        return ok;
    }

    /** A savepoint after three phases, or the three retained checkpoints after phases 1, 2 and 3. */
    private static void make(File dir, boolean checkpoints, String backend, int threshold, Set<String> options) throws Exception {
        Old.reset(options, false);
        new File(dir, "checkpoints").mkdirs();
        JobGraph graph = job(backend, "file://" + dir + "/checkpoints", threshold, options, checkpoints);
        Map<String, String> ids = new LinkedHashMap<>();
        for (JobVertex v : graph.getVertices()) {
            ids.put(v.getName(), v.getID().toString());
        }
        List<String> made = new ArrayList<>();
        MiniCluster cluster = cluster(options);
        cluster.start();
        try {
            JobID id = ((JobSubmissionResult) cluster.submitJob(graph).get()).getJobID();
            if (checkpoints) {
                File base = new File(dir, "checkpoints/" + id);
                if (Old.backPressure) {
                    Old.target = 2000;
                    await("checkpoints under back pressure", () -> complete(base, p -> p[0] > 3) >= 3);
                } else {
                    for (int phase = 1; phase <= 3; phase++) {
                        int want = phase;
                        Old.target = phase;
                        await("checkpoint after phase " + phase, () -> complete(base, p -> p[0] == want && p[1] == want) > 0);
                    }
                }
                Thread.sleep(60);
                cluster.cancelJob(id).get();
                awaitEnd(cluster, id);
                for (String n : base.list()) {
                    if (new File(base, n + "/_metadata").exists()) {
                        made.add("checkpoints/" + id + "/" + n);
                    }
                }
                Collections.sort(made);
            } else {
                Old.target = 3;
                await("records", () -> Old.processed.get() >= 3 * Old.KEYS && running(cluster, id));
                Thread.sleep(200);
                String path = savepoint(cluster, id, "file://" + dir + "/savepoints", options.contains("native"));
                awaitEnd(cluster, id);
                FileUtils.deleteDirectory(new File(dir, "checkpoints"));
                made.add("savepoints/" + path.substring(path.lastIndexOf('/') + 1));
            }
        } finally {
            cluster.close();
        }
        Map<String, Object> truth = new LinkedHashMap<>();
        truth.put("flinkVersion", EnvironmentInformation.getVersion());
        truth.put("writtenAt", "file://" + dir);
        truth.put("kind", checkpoints ? "chk" : "sp");
        truth.put("backend", backend);
        truth.put("fsMemoryThreshold", threshold);
        truth.put("options", new ArrayList<>(options));
        truth.put("parallelism", Old.PARALLELISM);
        truth.put("maxParallelism", Old.MAX_PARALLELISM);
        truth.put("operatorIds", ids);
        List<Object> snapshots = new ArrayList<>();
        for (String m : made) {
            File metadata = new File(dir, m + "/_metadata");
            Object o = Show.load(metadata);
            long checkpoint = ((Number) o.getClass().getMethod("getCheckpointId").invoke(o)).longValue();
            snapshots.add(Old.truth(m, checkpoint, Old.sourcePhases.get(checkpoint)));
            Show.write(metadata, new File(dir, made.size() == 1 ? "meta.json" : "meta." + m.substring(m.lastIndexOf('/') + 1) + ".json"));
        }
        truth.put("snapshots", snapshots);
        Files.write(new File(dir, "truth.json").toPath(), (Show.text(truth) + "\n").getBytes(StandardCharsets.UTF_8));
    }

    private interface Phases {
        boolean match(int[] phases);
    }

    /** How many checkpoints of these source phases are complete. */
    private static int complete(File base, Phases phases) {
        int n = 0;
        for (Map.Entry<Long, int[]> e : Old.sourcePhases.entrySet()) {
            n += phases.match(e.getValue()) && new File(base, "chk-" + e.getKey() + "/_metadata").exists() ? 1 : 0;
        }
        return n;
    }

    // ---------------------------------------------------------------- verify

    /** Restores the snapshot, probes every key, lets timers and windows fire, compares; says VERIFY-OK, -BAD or -FAIL. */
    private static boolean verify(List<String> columns) {
        String snapshot = columns.get(0);
        Set<String> options = new HashSet<>(columns.subList(2, columns.size()));
        System.out.println("== " + snapshot);
        try {
            List<String> bad = differences(snapshot, columns.get(1), options);
            bad.stream().limit(20).forEach(l -> System.out.println("   " + l));
            System.out.println((bad.isEmpty() ? "VERIFY-OK " : "VERIFY-BAD ") + snapshot + (bad.isEmpty() ? "" : ": " + bad.size() + " differences"));
            return bad.isEmpty();
        } catch (Throwable e) {
            System.out.println("VERIFY-FAIL " + snapshot + ": " + root(e));
            return false;
        }
    }

    private static String root(Throwable t) {
        while (t.getCause() != null && t.getCause() != t) {
            t = t.getCause();
        }
        String s = t.toString(); // a failed job's exception carries the stack traces of its causes as text
        int cause = s.lastIndexOf("Caused by: ");
        return (cause < 0 ? s : s.substring(cause + 11)).split("\n")[0];
    }

    private static List<String> differences(String snapshot, String backend, Set<String> options) throws Exception {
        Old.reset(options, true);
        File tmp = Files.createTempDirectory("interop-old").toFile();
        MiniCluster cluster = cluster(options);
        try {
            JobGraph graph = job(backend, "file://" + tmp, 0, options, false);
            JobGraph.class.getMethod("setSavepointRestoreSettings", SavepointRestoreSettings.class)
                    .invoke(graph, SavepointRestoreSettings.forPath(snapshot));
            cluster.start();
            JobID id = ((JobSubmissionResult) cluster.submitJob(graph).get()).getJobID();
            await("probes", () -> {
                if (String.valueOf(cluster.getJobStatus(id).get()).equals("FAILED")) {
                    throw failure(cluster, id);
                }
                return Old.probes.get() >= Old.KEYS && (!Old.rich || Old.richProbes.get() >= Old.KEYS);
            });
            int last = -1;
            for (int quiet = 0; quiet < 4; Thread.sleep(150)) { // timers and windows fire after the probes
                int n = Old.timersFired.values().stream().mapToInt(Set::size).sum() + Old.windowsFired.values().stream().mapToInt(Map::size).sum();
                quiet = n == last ? quiet + 1 : 0;
                last = n;
            }
            cluster.cancelJob(id).get();
            awaitEnd(cluster, id);
        } finally {
            cluster.close();
            FileUtils.deleteDirectory(tmp);
        }
        int[] phases = new int[Old.PARALLELISM]; // "sub-S@phase-P", from every subtask
        for (Object u : new TreeSet<>((List<?>) Old.operatorFound.get("src-union-0"))) {
            String[] s = u.toString().split("-|@");
            phases[Integer.parseInt(s[1])] = Integer.parseInt(s[3]);
        }
        return Old.differences(phases);
    }

    private static Exception failure(MiniCluster cluster, JobID id) throws Exception {
        Object result = cluster.requestJobResult(id).get();
        Object t = ((Optional<?>) result.getClass().getMethod("getSerializedThrowable").invoke(result)).orElse(null);
        return new IllegalStateException("job failed", (Throwable) t);
    }

    // ---------------------------------------------------------------- Flink, through whatever API this release has

    private static Class<?> find(String name) {
        try {
            return Class.forName(name);
        } catch (ClassNotFoundException e) {
            return null;
        }
    }

    private static JobGraph job(String backend, String uri, int threshold, Set<String> options, boolean checkpoints) throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(Old.PARALLELISM);
        env.setParallelism(Old.PARALLELISM);
        env.setMaxParallelism(Old.MAX_PARALLELISM);
        env.disableOperatorChaining();
        env.getConfig().disableClosureCleaner();
        env.setStreamTimeCharacteristic(TimeCharacteristic.EventTime);
        if (checkpoints) {
            env.enableCheckpointing(600);
            env.getCheckpointConfig().setMinPauseBetweenCheckpoints(400);
            env.getCheckpointConfig().enableExternalizedCheckpoints(CheckpointConfig.ExternalizedCheckpointCleanup.RETAIN_ON_CANCELLATION);
            if (options.contains("unaligned")) {
                CheckpointConfig.class.getMethod("enableUnalignedCheckpoints").invoke(env.getCheckpointConfig());
            }
        }
        boolean heapTimers = options.contains("heaptimers");
        if (find("org.apache.flink.runtime.state.hashmap.HashMapStateBackend") == null) {
            backendUntil112(env, backend, uri, threshold, heapTimers);
        } else {
            backendSince113(env, backend, uri, threshold, heapTimers);
        }
        Old.graph(env);
        return env.getStreamGraph().getJobGraph();
    }

    private static void backendUntil112(StreamExecutionEnvironment env, String backend, String uri, int threshold, boolean heapTimers) throws Exception {
        StateBackend b;
        if (backend.equals("mem")) {
            b = new MemoryStateBackend();
        } else {
            b = threshold < 0 ? new FsStateBackend(new URI(uri)) : new FsStateBackend(new URI(uri), threshold);
            if (backend.startsWith("rocks")) {
                Class<?> rocks = find("org.apache.flink.contrib.streaming.state.RocksDBStateBackend"), ternary = find("org.apache.flink.util.TernaryBoolean");
                b = (StateBackend) rocks.getConstructor(StateBackend.class, ternary)
                        .newInstance(b, ternary.getField(backend.equals("rocks-incr") ? "TRUE" : "FALSE").get(null));
                if (heapTimers) {
                    heapTimers(b);
                }
            }
        }
        StreamExecutionEnvironment.class.getMethod("setStateBackend", StateBackend.class).invoke(env, b);
    }

    private static void backendSince113(StreamExecutionEnvironment env, String backend, String uri, int threshold, boolean heapTimers) throws Exception {
        StateBackend b;
        if (backend.startsWith("rocks")) {
            b = (StateBackend) find("org.apache.flink.contrib.streaming.state.EmbeddedRocksDBStateBackend")
                    .getConstructor(boolean.class).newInstance(backend.equals("rocks-incr"));
            if (heapTimers) {
                heapTimers(b);
            }
        } else {
            b = (StateBackend) find("org.apache.flink.runtime.state.hashmap.HashMapStateBackend").getConstructor().newInstance();
        }
        StreamExecutionEnvironment.class.getMethod("setStateBackend", StateBackend.class).invoke(env, b);
        Object storage;
        if (backend.equals("mem")) {
            storage = find("org.apache.flink.runtime.state.storage.JobManagerCheckpointStorage").getConstructor().newInstance();
        } else {
            Class<?> fs = find("org.apache.flink.runtime.state.storage.FileSystemCheckpointStorage");
            storage = threshold < 0 ? fs.getConstructor(URI.class).newInstance(new URI(uri))
                    : fs.getConstructor(URI.class, int.class).newInstance(new URI(uri), threshold);
        }
        CheckpointConfig.class.getMethod("setCheckpointStorage", find("org.apache.flink.runtime.state.CheckpointStorage"))
                .invoke(env.getCheckpointConfig(), storage);
    }

    /** Where the release has that setter; else the option of the same meaning (see cluster) does it. */
    private static void heapTimers(Object rocks) throws Exception {
        for (Method m : rocks.getClass().getMethods()) {
            if (m.getName().equals("setPriorityQueueStateType")) {
                m.invoke(rocks, m.getParameterTypes()[0].getField("HEAP").get(null));
            }
        }
    }

    private static MiniCluster cluster(Set<String> options) {
        Configuration c = new Configuration();
        c.setString("state.checkpoints.num-retained", "3");
        c.setString("rest.port", "0");
        c.setString("rest.bind-port", "0");
        c.setString("taskmanager.network.numberOfBuffers", "256");
        for (String prefix : Arrays.asList("taskmanager.network.memory", "taskmanager.memory.network")) { // until 1.9, since 1.10
            c.setString(prefix + ".min", "16mb");
            c.setString(prefix + ".max", "16mb");
        }
        c.setString("taskmanager.memory.size", "64m");
        c.setString("taskmanager.memory.managed.size", "64mb");
        if (options.contains("heaptimers")) {
            c.setString("state.backend.rocksdb.timer-service.factory", "HEAP");
        }
        if (options.contains("rockstimers")) {
            c.setString("state.backend.rocksdb.timer-service.factory", "ROCKSDB");
        }
        if (options.contains("unaligned")) {
            c.setString("taskmanager.memory.segment-size", "4kb");
            c.setString("taskmanager.network.memory.floating-buffers-per-gate", "2");
        }
        return new MiniCluster(new MiniClusterConfiguration.Builder()
                .setConfiguration(c).setNumTaskManagers(1).setNumSlotsPerTaskManager(Old.PARALLELISM).build());
    }

    /** Stops the job with a savepoint; since 1.15 the call also takes the format. */
    private static String savepoint(MiniCluster cluster, JobID id, String dir, boolean nativeFormat) throws Exception {
        for (Method m : MiniCluster.class.getMethods()) {
            if (!m.getName().equals("triggerSavepoint")) {
                continue;
            }
            Object future = null;
            if (m.getParameterCount() == 3) {
                future = m.invoke(cluster, id, dir, true);
            } else if (m.getParameterCount() == 4) {
                Object format = m.getParameterTypes()[3].getField(nativeFormat ? "NATIVE" : "CANONICAL").get(null);
                future = m.invoke(cluster, id, dir, true, format);
            }
            if (future != null) {
                return (String) ((CompletableFuture<?>) future).get(60, TimeUnit.SECONDS);
            }
        }
        throw new IllegalStateException("no triggerSavepoint");
    }

    /** A savepoint needs every task running, also those that get no records. */
    private static boolean running(MiniCluster cluster, JobID id) throws Exception {
        for (AccessExecutionVertex v : cluster.getExecutionGraph(id).get().getAllExecutionVertices()) {
            if (v.getExecutionState() != ExecutionState.RUNNING) {
                return false;
            }
        }
        return true;
    }

    private static void await(String what, Callable<Boolean> done) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(120);
        while (!done.call()) {
            if (System.nanoTime() > end) {
                throw new IllegalStateException("timeout: " + what);
            }
            Thread.sleep(10);
        }
    }

    private static void awaitEnd(MiniCluster cluster, JobID id) throws Exception {
        await("end of the job", () -> {
            Object status = cluster.getJobStatus(id).get();
            return (Boolean) status.getClass().getMethod("isGloballyTerminalState").invoke(status);
        });
    }
}
