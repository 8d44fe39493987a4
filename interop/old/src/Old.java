import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.ReduceFunction;
import org.apache.flink.api.common.state.AggregatingState;
import org.apache.flink.api.common.state.AggregatingStateDescriptor;
import org.apache.flink.api.common.state.BroadcastState;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ReducingState;
import org.apache.flink.api.common.state.ReducingStateDescriptor;
import org.apache.flink.api.common.state.StateTtlConfig;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.BasicTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.typeutils.TupleTypeInfo;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.SinkFunction;
import org.apache.flink.streaming.api.functions.source.RichParallelSourceFunction;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.time.Time;
import org.apache.flink.util.Collector;

/**
 * The job that old Flink releases run, and what its states must hold. One source and one keyed operator with every kind of
 * state that all releases know; "rich" adds an operator with reducing, aggregating, TTL and POJO state and a window.
 * MiniCluster runs the tasks in this JVM, so statics connect the driver with them. The name Old$Pojo stands in snapshots.
 */
public class Old {
    static final int KEYS = 20, PARALLELISM = 2, MAX_PARALLELISM = 128;
    static final long EVENT_TIMER = 4_000_000_000_000L, PROCESSING_TIMER = 4_100_000_000_000L, WINDOWS = 1_700_000_000_000L;

    // ---------------------------------------------------------------- switches and results

    static volatile int target; // the source emits this many phases
    static volatile boolean backPressure; // slow sink and large records, so that checkpoints hold records in flight
    static volatile boolean rich;
    static volatile boolean probe; // restored only to look: the source emits one probe per key, then a late watermark

    static final AtomicInteger processed = new AtomicInteger(), probes = new AtomicInteger(), richProbes = new AtomicInteger();
    /** What probes found: key -> state -> value, of the keyed and of the rich operator. */
    static final Map<String, Map<String, Object>> keyedFound = new ConcurrentHashMap<>(), richFound = new ConcurrentHashMap<>();
    static final Map<String, Map<String, Object>> windowsFired = new ConcurrentHashMap<>();
    static final Map<String, TreeSet<Long>> timersFired = new ConcurrentHashMap<>();
    static final Map<String, Object> operatorFound = new ConcurrentHashMap<>();
    /** By checkpoint: the phase that each source subtask had reached, and that each key had seen (back pressure only). */
    static final Map<Long, int[]> sourcePhases = new ConcurrentHashMap<>();
    static final Map<Long, Map<String, Integer>> keyPhases = new ConcurrentHashMap<>();

    static void reset(Set<String> options, boolean probing) {
        target = 0;
        backPressure = options.contains("unaligned");
        rich = options.contains("rich");
        probe = probing;
        processed.set(0);
        probes.set(0);
        richProbes.set(0);
        for (Map<?, ?> m : Arrays.asList(keyedFound, richFound, windowsFired, timersFired, operatorFound, sourcePhases, keyPhases)) {
            m.clear();
        }
    }

    static String key(int i) {
        return String.format("key-%02d", i);
    }

    static long value(int phase, int i) {
        return phase * 100 + i;
    }

    static <T> List<T> list(Iterable<T> it) {
        List<T> l = new ArrayList<>();
        if (it != null) {
            it.forEach(l::add);
        }
        return l;
    }

    static Map<String, Object> map(Iterable<Map.Entry<String, Long>> it) {
        Map<String, Object> m = new TreeMap<>();
        it.forEach(e -> m.put(e.getKey(), e.getValue()));
        return m;
    }

    // ---------------------------------------------------------------- operators

    public static class Source extends RichParallelSourceFunction<Tuple2<String, Long>> implements CheckpointedFunction {
        private static final long serialVersionUID = 1;
        private volatile boolean running = true;
        private transient ListState<Long> offsets;
        private transient ListState<String> union;
        private int phase;

        @Override
        public void run(SourceContext<Tuple2<String, Long>> ctx) throws Exception {
            int subtask = getRuntimeContext().getIndexOfThisSubtask();
            if (probe) {
                synchronized (ctx.getCheckpointLock()) {
                    for (int i = subtask; i < KEYS; i += PARALLELISM) {
                        ctx.collectWithTimestamp(new Tuple2<>(key(i), -1L), EVENT_TIMER + 5_000_000L);
                    }
                }
                while (running && (probes.get() < KEYS || rich && richProbes.get() < KEYS)) {
                    Thread.sleep(10);
                }
                ctx.emitWatermark(new Watermark(EVENT_TIMER + 100_000L));
            }
            while (running) {
                if (probe || phase >= target) {
                    Thread.sleep(5);
                    continue;
                }
                synchronized (ctx.getCheckpointLock()) {
                    int p = phase + 1;
                    for (int i = subtask; i < KEYS; i += PARALLELISM) {
                        ctx.collectWithTimestamp(new Tuple2<>(key(i), value(p, i)), WINDOWS + p * 10_000L + i);
                    }
                    phase = p;
                }
            }
        }

        @Override
        public void cancel() {
            running = false;
        }

        @Override
        public void snapshotState(FunctionSnapshotContext c) throws Exception {
            int subtask = getRuntimeContext().getIndexOfThisSubtask();
            offsets.clear();
            for (int p = 1; p <= phase; p++) {
                offsets.add((long) (p * 1000 + subtask));
            }
            union.clear();
            union.add("sub-" + subtask + "@phase-" + phase);
            sourcePhases.computeIfAbsent(c.getCheckpointId(), k -> new int[] {-1, -1})[subtask] = phase;
        }

        @Override
        public void initializeState(FunctionInitializationContext c) throws Exception {
            offsets = c.getOperatorStateStore().getListState(new ListStateDescriptor<>("src-offsets", BasicTypeInfo.LONG_TYPE_INFO));
            union = c.getOperatorStateStore().getUnionListState(new ListStateDescriptor<>("src-union", BasicTypeInfo.STRING_TYPE_INFO));
            if (c.isRestored()) {
                int subtask = getRuntimeContext().getIndexOfThisSubtask();
                operatorFound.put("src-offsets-" + subtask, list(offsets.get()));
                operatorFound.put("src-union-" + subtask, list(union.get()));
            }
        }
    }

    public static class StringKey implements KeySelector<Tuple2<String, Long>, String> {
        private static final long serialVersionUID = 1;

        @Override
        public String getKey(Tuple2<String, Long> v) {
            return v.f0;
        }
    }

    public static class LongKey implements KeySelector<Tuple2<String, Long>, Long> {
        private static final long serialVersionUID = 1;

        @Override
        public Long getKey(Tuple2<String, Long> v) {
            return Long.parseLong(v.f0.substring(4));
        }
    }

    public static class Keyed extends KeyedProcessFunction<String, Tuple2<String, Long>, String> implements CheckpointedFunction {
        private static final long serialVersionUID = 1;
        private transient ValueState<Long> total;
        private transient ListState<String> history;
        private transient MapState<String, Long> byPhase;
        private transient BroadcastState<String, Long> broadcast;
        private transient ListState<String> opList;
        private transient Map<String, Integer> seen;

        @Override
        public void open(Configuration c) {
            seen = new HashMap<>();
            total = getRuntimeContext().getState(new ValueStateDescriptor<>("total", BasicTypeInfo.LONG_TYPE_INFO));
            history = getRuntimeContext().getListState(new ListStateDescriptor<>("history", BasicTypeInfo.STRING_TYPE_INFO));
            byPhase = getRuntimeContext()
                    .getMapState(new MapStateDescriptor<>("by-phase", BasicTypeInfo.STRING_TYPE_INFO, BasicTypeInfo.LONG_TYPE_INFO));
        }

        @Override
        public void processElement(Tuple2<String, Long> v, Context ctx, Collector<String> out) throws Exception {
            if (v.f1 < 0) {
                Map<String, Object> m = new LinkedHashMap<>();
                m.put("total", total.value());
                m.put("history", list(history.get()));
                m.put("by-phase", map(byPhase.entries()));
                m.put("subtask", getRuntimeContext().getIndexOfThisSubtask());
                keyedFound.put(v.f0, m);
                probes.incrementAndGet();
                return;
            }
            int i = Integer.parseInt(v.f0.substring(4)), p = (int) (v.f1 / 100);
            if (backPressure) {
                seen.put(v.f0, p);
                char[] pad = new char[600];
                Arrays.fill(pad, (char) ('a' + i));
                for (int k = 0; k < 10; k++) {
                    out.collect(v.f0 + "/" + p + "/" + k + "/" + new String(pad));
                }
            }
            Long t = total.value();
            total.update((t == null ? 0L : t) + v.f1);
            if (!backPressure || p <= 3) { // keeps the state small however long it takes
                history.add("p" + p + "-" + v.f1);
                byPhase.put("phase-" + p, v.f1);
                ctx.timerService().registerEventTimeTimer(EVENT_TIMER + p * 1000 + i);
                if (p == 1) {
                    ctx.timerService().registerProcessingTimeTimer(PROCESSING_TIMER + i);
                }
                if (p == 3 && i % 5 == 0) {
                    history.clear();
                    byPhase.remove("phase-1");
                    ctx.timerService().deleteEventTimeTimer(EVENT_TIMER + 1000 + i);
                }
            }
            processed.incrementAndGet();
        }

        @Override
        public void onTimer(long ts, OnTimerContext ctx, Collector<String> out) {
            timersFired.computeIfAbsent(ctx.getCurrentKey(), k -> new TreeSet<>()).add(ts);
        }

        @Override
        public void snapshotState(FunctionSnapshotContext c) throws Exception {
            int subtask = getRuntimeContext().getIndexOfThisSubtask();
            if (backPressure) {
                keyPhases.computeIfAbsent(c.getCheckpointId(), k -> new ConcurrentHashMap<>()).putAll(seen);
            }
            opList.clear();
            opList.add("keyed-sub-" + subtask);
            opList.add("second-" + subtask);
            broadcast.clear();
            broadcast.put("rule-a", 1L);
            broadcast.put("rule-b", 2L);
        }

        @Override
        public void initializeState(FunctionInitializationContext c) throws Exception {
            opList = c.getOperatorStateStore().getListState(new ListStateDescriptor<>("op-list", BasicTypeInfo.STRING_TYPE_INFO));
            broadcast = c.getOperatorStateStore()
                    .getBroadcastState(new MapStateDescriptor<>("bcast", BasicTypeInfo.STRING_TYPE_INFO, BasicTypeInfo.LONG_TYPE_INFO));
            if (c.isRestored()) {
                int subtask = getRuntimeContext().getIndexOfThisSubtask();
                operatorFound.put("op-list-" + subtask, list(opList.get()));
                operatorFound.put("bcast-" + subtask, map(broadcast.entries()));
            }
        }
    }

    public static class Pojo {
        public String name;
        public int count;
        public long last;

        public Pojo() {}
    }

    public static class Sum implements ReduceFunction<Long> {
        private static final long serialVersionUID = 1;

        @Override
        public Long reduce(Long a, Long b) {
            return a + b;
        }
    }

    public static class SumPairs implements ReduceFunction<Tuple2<String, Long>> {
        private static final long serialVersionUID = 1;

        @Override
        public Tuple2<String, Long> reduce(Tuple2<String, Long> a, Tuple2<String, Long> b) {
            return new Tuple2<>(a.f0, a.f1 + b.f1);
        }
    }

    public static class Average implements AggregateFunction<Long, Tuple2<Long, Long>, Double> {
        private static final long serialVersionUID = 1;

        @Override
        public Tuple2<Long, Long> createAccumulator() {
            return new Tuple2<>(0L, 0L);
        }

        @Override
        public Tuple2<Long, Long> add(Long v, Tuple2<Long, Long> a) {
            return new Tuple2<>(a.f0 + v, a.f1 + 1);
        }

        @Override
        public Double getResult(Tuple2<Long, Long> a) {
            return a.f0 / (double) a.f1;
        }

        @Override
        public Tuple2<Long, Long> merge(Tuple2<Long, Long> a, Tuple2<Long, Long> b) {
            return new Tuple2<>(a.f0 + b.f0, a.f1 + b.f1);
        }
    }

    public static class Rich extends KeyedProcessFunction<Long, Tuple2<String, Long>, String> {
        private static final long serialVersionUID = 1;
        private transient ReducingState<Long> sum;
        private transient AggregatingState<Long, Double> average;
        private transient ValueState<Long> ttl;
        private transient ValueState<Pojo> pojo;

        @Override
        public void open(Configuration c) {
            sum = getRuntimeContext().getReducingState(new ReducingStateDescriptor<>("rsum", new Sum(), BasicTypeInfo.LONG_TYPE_INFO));
            average = getRuntimeContext().getAggregatingState(new AggregatingStateDescriptor<>("avg", new Average(),
                    new TupleTypeInfo<Tuple2<Long, Long>>(BasicTypeInfo.LONG_TYPE_INFO, BasicTypeInfo.LONG_TYPE_INFO)));
            ValueStateDescriptor<Long> d = new ValueStateDescriptor<>("ttl-val", BasicTypeInfo.LONG_TYPE_INFO);
            // far beyond the age of a checked-in snapshot
            d.enableTimeToLive(StateTtlConfig.newBuilder(org.apache.flink.api.common.time.Time.days(36_500)).build());
            ttl = getRuntimeContext().getState(d);
            pojo = getRuntimeContext().getState(new ValueStateDescriptor<>("pojo", TypeInformation.of(Pojo.class)));
        }

        @Override
        public void processElement(Tuple2<String, Long> v, Context ctx, Collector<String> out) throws Exception {
            Pojo p = pojo.value();
            if (v.f1 < 0) {
                Map<String, Object> m = new LinkedHashMap<>();
                m.put("rsum", sum.get());
                m.put("avg", average.get());
                m.put("ttl", ttl.value());
                m.put("pojo", p == null ? null : p.name + "/" + p.count + "/" + p.last);
                richFound.put(v.f0, m);
                richProbes.incrementAndGet();
                return;
            }
            sum.add(v.f1);
            average.add(v.f1);
            ttl.update(v.f1);
            if (p == null) {
                p = new Pojo();
                p.name = "pojo-" + v.f0;
            }
            p.count++;
            p.last = v.f1;
            pojo.update(p);
        }
    }

    public static class Sink implements SinkFunction<String> {
        private static final long serialVersionUID = 1;

        @Override
        public void invoke(String v, Context c) throws Exception {
            if (backPressure && !probe) {
                Thread.sleep(4);
            }
        }
    }

    public static class WindowSink implements SinkFunction<Tuple2<String, Long>> {
        private static final long serialVersionUID = 1;

        @Override
        public void invoke(Tuple2<String, Long> v, Context c) {
            windowsFired.computeIfAbsent(v.f0, k -> new ConcurrentHashMap<>()).put("" + c.timestamp(), v.f1);
        }
    }

    static void graph(StreamExecutionEnvironment env) {
        SingleOutputStreamOperator<Tuple2<String, Long>> src = env.addSource(new Source(), "src",
                new TupleTypeInfo<Tuple2<String, Long>>(BasicTypeInfo.STRING_TYPE_INFO, BasicTypeInfo.LONG_TYPE_INFO)).uid("uid-src");
        src.keyBy(new StringKey(), BasicTypeInfo.STRING_TYPE_INFO).process(new Keyed(), BasicTypeInfo.STRING_TYPE_INFO)
                .name("keyed").uid("uid-keyed").addSink(new Sink()).name("sink").uid("uid-sink");
        if (rich) {
            src.keyBy(new LongKey(), BasicTypeInfo.LONG_TYPE_INFO).process(new Rich(), BasicTypeInfo.STRING_TYPE_INFO)
                    .name("rich").uid("uid-rich").addSink(new Sink()).name("rich-sink").uid("uid-rich-sink");
            src.keyBy(new StringKey(), BasicTypeInfo.STRING_TYPE_INFO).window(TumblingEventTimeWindows.of(Time.seconds(10)))
                    .reduce(new SumPairs()).name("window").uid("uid-window").addSink(new WindowSink()).name("window-sink").uid("uid-window-sink");
        }
    }

    // ---------------------------------------------------------------- truth

    /** What the states hold when the source subtasks have emitted these phases; checkpoint < 0: all records have arrived. */
    static Map<String, Object> truth(String path, long checkpoint, int[] phases) {
        Map<String, Object> t = new LinkedHashMap<>();
        t.put("path", path);
        t.put("checkpointId", checkpoint);
        t.put("sourcePhases", Arrays.asList(phases[0], phases[1]));
        List<Object> keyed = new ArrayList<>(), richKeys = new ArrayList<>(), windows = new ArrayList<>(), operator = new ArrayList<>();
        for (int i = 0; i < KEYS; i++) {
            int emitted = phases[i % PARALLELISM], arrived = emitted;
            if (backPressure && checkpoint >= 0) {
                arrived = keyPhases.getOrDefault(checkpoint, Collections.emptyMap()).getOrDefault(key(i), 0);
            }
            if (arrived > 0) {
                Map<String, Object> k = keyedTruth(i, arrived);
                if (backPressure && checkpoint >= 0) {
                    k.put("processedPhase", arrived);
                    k.put("inFlightFromSource", emitted - arrived);
                }
                keyed.add(k);
            }
            if (rich && emitted > 0) {
                richKeys.add(richTruth(i, emitted));
                windows.add(windowTruth(i, emitted));
            }
        }
        t.put("keyed", keyed);
        if (rich) {
            t.put("rich", richKeys);
            t.put("window", windows);
        }
        for (int s = 0; s < PARALLELISM; s++) {
            Map<String, Object> m = new LinkedHashMap<>();
            List<Object> offsets = new ArrayList<>();
            for (int p = 1; p <= phases[s]; p++) {
                offsets.add((long) (p * 1000 + s));
            }
            m.put("subtask", s);
            m.put("src.src-offsets", offsets);
            m.put("src.src-union", Arrays.asList("sub-" + s + "@phase-" + phases[s]));
            m.put("keyed.op-list", Arrays.asList("keyed-sub-" + s, "second-" + s));
            Map<String, Object> b = new TreeMap<>();
            b.put("rule-a", 1L);
            b.put("rule-b", 2L);
            m.put("keyed.bcast", b);
            operator.add(m);
        }
        t.put("operator", operator);
        return t;
    }

    private static Map<String, Object> place(Object key) {
        Map<String, Object> m = new LinkedHashMap<>();
        int group = KeyGroupRangeAssignment.assignToKeyGroup(key, MAX_PARALLELISM);
        m.put("key", key);
        m.put("keyGroup", group);
        m.put("subtask", KeyGroupRangeAssignment.computeOperatorIndexForKeyGroup(MAX_PARALLELISM, PARALLELISM, group));
        return m;
    }

    private static Map<String, Object> keyedTruth(int i, int phases) {
        Map<String, Object> k = place(key(i)), byPhase = new TreeMap<>();
        long total = 0;
        List<Object> history = new ArrayList<>();
        TreeSet<Long> timers = new TreeSet<>();
        for (int p = 1; p <= phases; p++) {
            total += value(p, i);
            if (backPressure && p > 3) {
                continue;
            }
            history.add("p" + p + "-" + value(p, i));
            byPhase.put("phase-" + p, value(p, i));
            timers.add(EVENT_TIMER + p * 1000 + i);
            if (p == 3 && i % 5 == 0) {
                history.clear();
                byPhase.remove("phase-1");
                timers.remove(EVENT_TIMER + 1000 + i);
            }
        }
        k.put("total", total);
        k.put("history", history);
        k.put("by-phase", byPhase);
        k.put("eventTimers", new ArrayList<Object>(timers));
        k.put("processingTimers", Arrays.asList(PROCESSING_TIMER + i));
        return k;
    }

    private static Map<String, Object> richTruth(int i, int phases) {
        Map<String, Object> m = place((long) i);
        long sum = 0;
        for (int p = 1; p <= phases; p++) {
            sum += value(p, i);
        }
        m.put("rsum", sum);
        m.put("avg.sum", sum);
        m.put("avg.count", (long) phases);
        m.put("ttl-val(without its timestamp)", value(phases, i));
        m.put("pojo.name", "pojo-" + key(i));
        m.put("pojo.count", (long) phases);
        m.put("pojo.last", value(phases, i));
        return m;
    }

    private static Map<String, Object> windowTruth(int i, int phases) {
        Map<String, Object> m = place(key(i));
        List<Object> contents = new ArrayList<>();
        for (int p = 1; p <= phases; p++) {
            Map<String, Object> w = new LinkedHashMap<>();
            long start = WINDOWS + p * 10_000L;
            w.put("start", start);
            w.put("end", start + 10_000L);
            w.put("value.f0", key(i));
            w.put("value.f1", value(p, i));
            w.put("timer", start + 9_999L);
            contents.add(w);
        }
        m.put("window-contents", contents);
        return m;
    }

    /** Compares what the probes found with the truth; the text of every difference. */
    static List<String> differences(int[] phases) {
        List<String> bad = new ArrayList<>();
        Map<String, Object> t = truth("", -1, phases);
        for (Map<String, Object> k : maps(t.get("keyed"))) {
            String key = (String) k.get("key");
            Map<String, Object> want = new LinkedHashMap<>();
            for (String s : Arrays.asList("total", "history", "by-phase", "subtask")) {
                want.put(s, k.get(s));
            }
            differ(bad, "keyed " + key, want, keyedFound.get(key));
            differ(bad, "event timers " + key, k.get("eventTimers"), new ArrayList<>(timersFired.getOrDefault(key, new TreeSet<>())));
        }
        // operator list state may change places between subtasks
        List<Object> offsets = new ArrayList<>(), offsetsFound = new ArrayList<>(), list = new ArrayList<>(), listFound = new ArrayList<>();
        for (Map<String, Object> m : maps(t.get("operator"))) {
            Object s = m.get("subtask");
            differ(bad, "broadcast " + s, m.get("keyed.bcast"), operatorFound.get("bcast-" + s));
            offsets.addAll((List<?>) m.get("src.src-offsets"));
            list.addAll((List<?>) m.get("keyed.op-list"));
            offsetsFound.addAll((List<?>) operatorFound.get("src-offsets-" + s));
            listFound.addAll((List<?>) operatorFound.get("op-list-" + s));
        }
        differ(bad, "src-offsets", sorted(offsets), sorted(offsetsFound));
        differ(bad, "op-list", sorted(list), sorted(listFound));
        if (!rich) {
            return bad;
        }
        for (Map<String, Object> m : maps(t.get("rich"))) {
            String key = key(((Long) m.get("key")).intValue());
            Map<String, Object> want = new LinkedHashMap<>();
            want.put("rsum", m.get("rsum"));
            want.put("avg", (Long) m.get("avg.sum") / (double) (Long) m.get("avg.count"));
            want.put("ttl", m.get("ttl-val(without its timestamp)"));
            want.put("pojo", m.get("pojo.name") + "/" + m.get("pojo.count") + "/" + m.get("pojo.last"));
            differ(bad, "rich " + key, want, richFound.get(key));
        }
        for (Map<String, Object> m : maps(t.get("window"))) {
            Map<String, Object> want = new TreeMap<>();
            for (Map<String, Object> w : maps(m.get("window-contents"))) {
                want.put("" + w.get("timer"), w.get("value.f1"));
            }
            differ(bad, "windows " + m.get("key"), want, new TreeMap<>(windowsFired.getOrDefault(m.get("key"), new HashMap<>())));
        }
        return bad;
    }

    @SuppressWarnings("unchecked")
    private static List<Map<String, Object>> maps(Object o) {
        return (List<Map<String, Object>>) o;
    }

    private static List<Object> sorted(List<Object> l) {
        l.sort((a, b) -> String.valueOf(a).compareTo(String.valueOf(b)));
        return l;
    }

    private static void differ(List<String> bad, String what, Object want, Object got) {
        if (!Show.text(want).equals(Show.text(got))) {
            bad.add(what + ": want " + Show.text(want) + ", got " + Show.text(got));
        }
    }
}
