package lab;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.zip.CRC32;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.BroadcastState;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.core.execution.CheckpointType;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;

/**
 * Jobs whose state a Go program wrote: on restore they show all of it, change some of it, and write it again. What they
 * hold and how it changes stands in circle_test.go, too.
 */
final class Circle {
    static final List<String> PARTS = List.of("go-string", "go-long", "go-tuple", "go-pojo", "go-large", "go-op");

    static volatile boolean change; // after the state was shown

    /** What a restored state is; by uid, state and entry as {@link Ctl#dump}, but an entry must not come twice. */
    private static final Map<String, Map<String, Map<String, Object>>> shown = new TreeMap<>();

    /** Of every subtask of an operator on RocksDB: the tables that its database opened, and how many rows were written since. */
    private static final Map<String, Object> databases = new TreeMap<>();

    private Circle() {}

    static void show(String uid, String state, String entry, Object value) {
        synchronized (shown) {
            Map<String, Object> entries = shown.computeIfAbsent(uid, u -> new TreeMap<>()).computeIfAbsent(state, s -> new TreeMap<>());
            if (entries.putIfAbsent(entry, value) != null) {
                throw new IllegalStateException(uid + ", " + state + ": " + entry + " comes twice");
            }
        }
    }

    /** Counts the entry instead of showing it, and adds up check sums. */
    static void count(String uid, String state, String entry, Object value) throws Exception {
        CRC32 crc = new CRC32();
        crc.update((entry + "=" + Main.JSON.valueToTree(value)).getBytes(StandardCharsets.UTF_8));
        synchronized (shown) {
            Map<String, Object> sums = shown.computeIfAbsent(uid, u -> new TreeMap<>()).computeIfAbsent(state, s -> new TreeMap<>());
            sums.merge("entries", 1L, (a, b) -> (Long) a + (Long) b);
            sums.merge("sum", crc.getValue(), (a, b) -> (Long) a + (Long) b);
        }
    }

    static void database(String task, Object what) {
        synchronized (databases) {
            databases.put(task, what);
        }
    }

    // ------------------------------------------------------------------ keys and namespaces

    static int keys(String part) {
        return part.equals("go-large") ? 40_000 : 150;
    }

    static Object key(String part, int i) {
        switch (part) {
            case "go-string": return i == 0 ? "" : List.of("k", "é", "日本", "😀", "x".repeat(300)).get(i % 5) + i;
            case "go-long": case "go-large": return i * 0x9E3779B97F4A7C15L;
            case "go-tuple": return Tuple2.of("t" + i % 7, (long) i);
            case "go-pojo": return new Jobs.PojoKey(i);
            default: throw new IllegalArgumentException(part);
        }
    }

    private static TypeInformation<?> keyType(String part) {
        switch (part) {
            case "go-string": return Types.STRING;
            case "go-tuple": return Types.TUPLE(Types.STRING, Types.LONG);
            case "go-pojo": return Types.POJO(Jobs.PojoKey.class);
            default: return Types.LONG;
        }
    }

    static List<?> namespaces(String part) {
        switch (part) {
            case OldStates.WINDOW: return List.of(new TimeWindow(0, 1));
            case "go-long": return List.of(new TimeWindow(-5, 0), new TimeWindow(0, 5), new TimeWindow(5, 10));
            case "go-tuple": return List.of("", "n", "né");
            default: return List.of(VoidNamespace.INSTANCE);
        }
    }

    // ------------------------------------------------------------------ operator state

    /** A list that is split, one that all have, and a broadcast map. */
    static class Op extends RichMapFunction<Jobs.Event, Jobs.Event> implements CheckpointedFunction {
        @Override
        public void initializeState(FunctionInitializationContext ctx) throws Exception {
            int index = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
            int parallelism = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
            ListState<String> split = ctx.getOperatorStateStore().getListState(new ListStateDescriptor<>("split", Types.STRING));
            ListState<Long> union = ctx.getOperatorStateStore().getUnionListState(new ListStateDescriptor<>("union", Types.LONG));
            BroadcastState<String, Long> rules =
                    ctx.getOperatorStateStore().getBroadcastState(new MapStateDescriptor<>("rules", Types.STRING, Types.LONG));
            show("go-op", "split", "" + index, Dice.show(list(split)));
            show("go-op", "union", "" + index, Dice.show(list(union)));
            Map<String, Object> all = new TreeMap<>();
            rules.entries().forEach(e -> all.put(e.getKey(), e.getValue()));
            show("go-op", "rules", "" + index, all);
            List<Long> mine = new ArrayList<>();
            for (Long v : union.get()) { // each subtask goes on with its part
                if (Math.floorMod(v, parallelism) == index) {
                    mine.add(v);
                }
            }
            union.update(mine);
            if (change) {
                split.add("flink " + index);
                rules.put("flink", 1L);
                rules.remove("rule 0");
            }
        }

        static <T> List<T> list(ListState<T> state) throws Exception {
            List<T> l = new ArrayList<>();
            state.get().forEach(l::add);
            return l;
        }

        @Override
        public void snapshotState(FunctionSnapshotContext ctx) {}

        @Override
        public Jobs.Event map(Jobs.Event e) {
            return e;
        }
    }

    /** Adds a part to the job; false if it is none of these. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    static boolean build(DataStream<Jobs.Event> src, String part) {
        if (!PARTS.contains(part)) {
            return false;
        }
        if (part.equals("go-op")) {
            src.map(new Op()).returns(Jobs.Event.class).name(part).uid(part);
        } else {
            src.keyBy(e -> key(part, e.k), (TypeInformation) keyType(part)).transform(part, Types.VOID, new CircleOperator(part)).uid(part);
        }
        return true;
    }

    // ------------------------------------------------------------------ the runs

    /**
     * For every line - SNAPSHOT, OUT, then words - restores the snapshot and writes OUT/shown.json. The words: PARTS,
     * change, claim, canonical and native (take a savepoint), checkpoints=N, K=V (settings of the job), again (another
     * job restores the last checkpoint and writes OUT/again/shown.json).
     */
    static int runMany(List<List<String>> lines) throws Exception {
        int failed = 0;
        MiniCluster cluster = null;
        Run first = null;
        try {
            for (List<String> l : lines) {
                try {
                    Run run = prepare(l, cluster);
                    if (cluster == null) {
                        first = run;
                        cluster = run.cluster;
                    }
                    List<String> checkpoints = run(run, l);
                    if (l.contains("again")) {
                        List<String> again = new ArrayList<>(l);
                        again.set(0, checkpoints.get(checkpoints.size() - 1));
                        again.set(1, l.get(1) + "/again");
                        again.removeIf(w -> List.of("again", "change", "claim").contains(w) || w.startsWith("checkpoints="));
                        run(prepare(again, cluster), again);
                    }
                    System.out.println("OK " + l.get(0));
                } catch (Throwable e) {
                    failed++;
                    System.out.println("FAIL " + l.get(0) + ": " + Main.cause(e));
                }
            }
        } finally {
            if (first != null) {
                first.close();
            }
        }
        return failed == 0 ? 0 : 1;
    }

    private static Run prepare(List<String> l, MiniCluster cluster) throws Exception {
        List<String> parts = List.of(l.get(2).split(","));
        Map<String, String> conf = new TreeMap<>();
        conf.put("execution.checkpointing.dir", "file://" + l.get(1) + "/ckpt");
        conf.put("execution.checkpointing.data-inline-threshold", "0b");
        conf.put(Cases.RETAINED, "2"); // of the cluster, and so for all lines that of the first
        conf.put("state.backend.rocksdb.timer-service.factory", "ROCKSDB");
        for (String word : l.subList(3, l.size())) {
            String[] kv = word.split("=", 2);
            if (kv.length == 2 && kv[0].contains(".")) {
                conf.put(kv[0], kv[1]);
            }
        }
        shown.clear();
        databases.clear();
        change = l.contains("change");
        String id = UUID.randomUUID().toString().replace("-", "");
        return new Run(parts, conf, id, l.get(0), l.contains("claim") ? "CLAIM" : "NO_CLAIM", cluster);
    }

    private static List<String> run(Run run, List<String> l) throws Exception {
        File out = new File(l.get(1));
        out.mkdirs();
        run.submit();
        Map<String, Object> result = new TreeMap<>();
        List<String> checkpoints = new ArrayList<>();
        result.put("checkpoints", checkpoints);
        try {
            for (String word : l.subList(3, l.size())) {
                if (word.startsWith("checkpoints=")) {
                    for (int n = Integer.parseInt(word.substring(12)); n > 0; n--) {
                        checkpoints.add(run.checkpoint(out + "/ckpt", CheckpointType.CONFIGURED));
                    }
                } else if (word.equals("canonical")) {
                    result.put("savepoint", run.savepoint(out.getPath(), SavepointFormatType.CANONICAL));
                } else if (word.equals("native")) {
                    result.put("savepoint", run.savepoint(out.getPath(), SavepointFormatType.NATIVE));
                }
            }
        } finally {
            run.cancel();
        }
        result.put("states", shown);
        result.put("databases", databases);
        Files.writeString(new File(out, "shown.json").toPath(), Main.JSON.writeValueAsString(result));
        return checkpoints;
    }
}
