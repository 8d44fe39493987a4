package lab;

import java.io.Serializable;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
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
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.base.StringSerializer;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.api.connector.source.lib.util.IteratorSourceEnumerator;
import org.apache.flink.api.connector.source.lib.util.IteratorSourceReader;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.runtime.checkpoint.MasterTriggerRestoreHook;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.runtime.state.KeyedStateBackend;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.runtime.state.VoidNamespaceSerializer;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.checkpoint.WithMasterCheckpointHook;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.InternalTimer;
import org.apache.flink.streaming.api.operators.InternalTimerService;
import org.apache.flink.streaming.api.operators.KeyedProcessOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.Triggerable;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.api.windowing.assigners.EventTimeSessionWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.types.Either;
import org.apache.flink.types.Row;
import org.apache.flink.util.Collector;

/**
 * The job graph. Every part is a small operator that consumes the one event source; a snapshot's
 * graph is the list of its parts. What each part's state must hold after R rounds is in Truth.
 */
final class Jobs {
    static final int KEYS = 24;
    static final int SPLITS = 6; // source splits; split s emits the events of the keys k with k % 6 == s
    static final int KEYS_PER_SPLIT = KEYS / SPLITS;
    static final long BASE = 1_700_000_040_000L; // event time of round 0, the start of a minute
    static final long FAR_EVENT = 4_102_444_800_000L; // 2100-01-01
    static final long FAR_PROC = 4_133_980_800_000L; // 2101-01-01
    static final int FLIP27_SPLITS = 5, FLIP27_EMIT = 3;

    private Jobs() {}

    // ------------------------------------------------------------------ the events

    /** Event number id = n * KEYS + k: the n-th event of key k. */
    public static class Event {
        public long id;
        public int k;
        public long n;
        public long ts;
        public String pad;

        public Event() {}

        Event(int k, long n) {
            this.k = k;
            this.n = n;
            this.id = n * KEYS + k;
            this.ts = BASE + n * 20_000 + (n / 4) * 60_000;
        }

        boolean isDelete() {
            return k % 8 == 3 && n % 3 == 2;
        }
    }

    static String stringKey(int k) {
        return String.format("key-%02d", k);
    }

    static long longKey(int k) {
        return k * 7919L - 40_000L;
    }

    static int intKey(int k) {
        return k - 5;
    }

    public static class PojoKey {
        public String tenant;
        public int id;

        public PojoKey() {}

        PojoKey(int k) {
            tenant = "t" + k % 3;
            id = k;
        }

        @Override
        public boolean equals(Object o) {
            return o instanceof PojoKey && ((PojoKey) o).id == id && ((PojoKey) o).tenant.equals(tenant);
        }

        @Override
        public int hashCode() {
            return Objects.hash(tenant, id);
        }

        @Override
        public String toString() {
            return tenant + "/" + id;
        }
    }

    static Tuple2<String, Long> tupleKey(int k) {
        return Tuple2.of("g" + k % 4, (long) k);
    }

    public static class Address {
        public String city;
        public int zip;
    }

    public static class Profile {
        public String name;
        public int age;
        public Long score; // null for every third key
        public Address address;

        public Profile() {}

        Profile(int k, long n) {
            name = "name-" + k;
            age = (int) n;
            score = k % 3 == 0 ? null : n * 10;
            address = new Address();
            address.city = "city-é-" + k % 2;
            address.zip = 1000 + k;
        }

        Map<String, Object> json() {
            Map<String, Object> a = new TreeMap<>();
            a.put("city", address.city);
            a.put("zip", address.zip);
            Map<String, Object> m = new TreeMap<>();
            m.put("name", name);
            m.put("age", age);
            m.put("score", score);
            m.put("address", a);
            return m;
        }
    }

    public enum Color {
        RED,
        GREEN,
        BLUE
    }

    // ------------------------------------------------------------------ sources

    /** Replayable source; operator state "splits" is a list of (split, offset). */
    static class EventSource extends Compat.LegacySource<Event> implements CheckpointedFunction {
        private final boolean lastSubtaskFinishes;
        private transient ListState<Tuple2<Integer, Long>> state;
        private transient List<Tuple2<Integer, Long>> mine;
        private volatile boolean running = true;

        EventSource(boolean lastSubtaskFinishes) {
            this.lastSubtaskFinishes = lastSubtaskFinishes;
        }

        @Override
        public void initializeState(FunctionInitializationContext ctx) throws Exception {
            state = ctx.getOperatorStateStore()
                    .getListState(new ListStateDescriptor<>("splits", Types.TUPLE(Types.INT, Types.LONG)));
            mine = new ArrayList<>();
            if (ctx.isRestored()) {
                for (Tuple2<Integer, Long> s : state.get()) {
                    mine.add(s);
                    if (Ctl.dumpOnOpen && !lastSubtaskFinishes) {
                        Ctl.put(Ctl.dump, "src", "splits", "" + s.f0, s.f1);
                    }
                }
            } else {
                int p = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
                for (int s = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask(); s < SPLITS; s += p) {
                    mine.add(Tuple2.of(s, 0L));
                }
            }
        }

        @Override
        public void snapshotState(FunctionSnapshotContext ctx) throws Exception {
            state.update(mine);
            if (Ctl.dumpOnSnapshot && !lastSubtaskFinishes) {
                mine.forEach(s -> Ctl.put(Ctl.dump, "src", "splits", "" + s.f0, s.f1));
            }
            for (Tuple2<Integer, Long> s : mine) {
                Ctl.note(ctx.getCheckpointId(), s.f0, s.f1);
            }
        }

        @Override
        public void run(SourceContext<Event> out) throws Exception {
            int index = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
            int p = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
            if (lastSubtaskFinishes && index == p - 1) {
                return;
            }
            boolean drained = false;
            while (running) {
                boolean idle = true;
                for (Tuple2<Integer, Long> s : mine) {
                    if (s.f1 < (long) Ctl.rounds * KEYS_PER_SPLIT + (s.f0 == 0 ? Ctl.extra : 0)) {
                        idle = false;
                        synchronized (out.getCheckpointLock()) {
                            Event e = new Event(s.f0 + SPLITS * (int) (s.f1 % KEYS_PER_SPLIT), s.f1 / KEYS_PER_SPLIT);
                            e.pad = "x".repeat(Ctl.pad);
                            out.collectWithTimestamp(e, e.ts);
                            s.f1++;
                        }
                        if (!lastSubtaskFinishes) {
                            Ctl.count("src");
                        }
                    }
                }
                if (idle && Ctl.drain && !drained) {
                    drained = true;
                    out.emitWatermark(Watermark.MAX_WATERMARK);
                }
                if (idle) {
                    Thread.sleep(5);
                }
            }
        }

        @Override
        public void cancel() {
            running = false;
        }
    }

    /** The same source with a master hook, so that _metadata holds a master state. */
    static class HookedEventSource extends EventSource implements WithMasterCheckpointHook<String> {
        HookedEventSource() {
            super(false);
        }

        @Override
        public MasterTriggerRestoreHook<String> createMasterTriggerRestoreHook() {
            return new Hook();
        }
    }

    static class Hook implements MasterTriggerRestoreHook<String> {
        @Override
        public String getIdentifier() {
            return "lab-master-hook";
        }

        @Override
        public CompletableFuture<String> triggerCheckpoint(long id, long timestamp, Executor executor) {
            return CompletableFuture.completedFuture("master-state-of-checkpoint-" + id);
        }

        @Override
        public void restoreCheckpoint(long id, String data) {
            Ctl.put(Ctl.dump, "(master)", "lab-master-hook", "", data);
        }

        @Override
        public SimpleVersionedSerializer<String> createCheckpointDataSerializer() {
            return new HookSerializer();
        }
    }

    static class HookSerializer implements SimpleVersionedSerializer<String> {
        @Override
        public int getVersion() {
            return 7;
        }

        @Override
        public byte[] serialize(String s) {
            return s.getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public String deserialize(int version, byte[] bytes) {
            return new String(bytes, StandardCharsets.UTF_8);
        }
    }

    /**
     * FLIP-27 source over the numbers 0..499 in five splits; each reader emits three numbers and then
     * idles, so that readers hold split state and the enumerator (coordinator) the splits left over.
     */
    static class GatedNumberSource extends NumberSequenceSource {
        GatedNumberSource() {
            super(0, 499);
        }

        @Override
        public SourceReader<Long, NumberSequenceSplit> createReader(SourceReaderContext ctx) {
            return new GatedReader(ctx);
        }

        @Override
        public SplitEnumerator<NumberSequenceSplit, Collection<NumberSequenceSplit>> createEnumerator(
                SplitEnumeratorContext<NumberSequenceSplit> ctx) {
            return new IteratorSourceEnumerator<>(ctx, splitNumberRange(0, 499, FLIP27_SPLITS));
        }

        @Override
        public SplitEnumerator<NumberSequenceSplit, Collection<NumberSequenceSplit>> restoreEnumerator(
                SplitEnumeratorContext<NumberSequenceSplit> ctx, Collection<NumberSequenceSplit> splits) {
            splits.forEach(s -> Ctl.put(Ctl.dump, "flip27", "(coordinator)", s.splitId(), s.from() + ".." + s.to()));
            return super.restoreEnumerator(ctx, splits);
        }
    }

    static class GatedReader
            extends IteratorSourceReader<
                    Long, org.apache.flink.util.NumberSequenceIterator, NumberSequenceSource.NumberSequenceSplit> {
        private int left = Ctl.restored ? 0 : FLIP27_EMIT;
        private boolean first = true;

        GatedReader(SourceReaderContext ctx) {
            super(ctx);
        }

        @Override
        public InputStatus pollNext(ReaderOutput<Long> out) {
            if (left == 0) {
                if (currentSplit == null) {
                    tryMoveToNextSplit();
                }
                return InputStatus.NOTHING_AVAILABLE;
            }
            InputStatus status = super.pollNext(out);
            if (status == InputStatus.MORE_AVAILABLE) {
                left--;
            }
            return status;
        }

        @Override
        public CompletableFuture<Void> isAvailable() {
            return left == 0 && currentSplit != null ? new CompletableFuture<>() : super.isAvailable();
        }

        @Override
        public void addSplits(List<NumberSequenceSource.NumberSequenceSplit> splits) {
            if (first && Ctl.restored) { // splits that come from the reader's state
                splits.forEach(s -> Ctl.put(Ctl.dump, "flip27", "SourceReaderState", s.splitId(), s.from() + ".." + s.to()));
            }
            first = false;
            splits.forEach(s -> Ctl.count("flip27-splits"));
            super.addSplits(splits);
        }

        @Override
        public void start() {
            first = false; // splits that come now are from the enumerator
            super.start();
        }
    }

    // ------------------------------------------------------------------ keyed process functions

    /** A process function that can show its state of the current key. */
    abstract static class Fn<K> extends KeyedProcessFunction<K, Event, Void> {
        final String uid;

        Fn(String uid) {
            this.uid = uid;
        }

        abstract List<String> stateNames();

        abstract void show(Map<String, Object> out) throws Exception;

        abstract void update(Event e, Context ctx) throws Exception;

        @Override
        public void processElement(Event e, Context ctx, Collector<Void> out) throws Exception {
            update(e, ctx);
            Ctl.count(uid);
        }

        @Override
        public void onTimer(long ts, OnTimerContext ctx, Collector<Void> out) {
            Ctl.add(Ctl.fired, uid, "_timer_state/event_user-timers", ctx.getCurrentKey().toString(), ts);
        }
    }

    /** KeyedProcessOperator that records the whole keyed state when asked to. */
    static class DumpOperator<K> extends KeyedProcessOperator<K, Event, Void> {
        private final Fn<K> fn;

        DumpOperator(Fn<K> fn) {
            super(fn);
            this.fn = fn;
        }

        @Override
        public void open() throws Exception {
            super.open();
            if (Ctl.dumpOnOpen) {
                dump();
            }
        }

        @Override
        public void snapshotState(StateSnapshotContext ctx) throws Exception {
            super.snapshotState(ctx);
            if (Ctl.dumpOnSnapshot) {
                dump();
            }
        }

        private void dump() throws Exception {
            Fn<K> f = (Fn<K>) userFunction;
            KeyedStateBackend<K> backend = getKeyedStateBackend();
            Set<K> keys = new HashSet<>();
            for (String s : f.stateNames()) {
                backend.getKeys(s, VoidNamespace.INSTANCE).forEach(keys::add);
            }
            for (K key : keys) {
                setCurrentKey(key);
                Map<String, Object> values = new TreeMap<>();
                f.show(values);
                values.forEach((s, v) -> {
                    if (v != null) {
                        Ctl.put(Ctl.dump, f.uid, s, key.toString(), v);
                    }
                });
            }
            InternalTimerService<VoidNamespace> timers =
                    getInternalTimerService("user-timers", VoidNamespaceSerializer.INSTANCE, this);
            timers.forEachEventTimeTimer((ns, ts) ->
                    Ctl.add(Ctl.dump, f.uid, "_timer_state/event_user-timers", getCurrentKey().toString(), ts));
            timers.forEachProcessingTimeTimer((ns, ts) ->
                    Ctl.add(Ctl.dump, f.uid, "_timer_state/processing_user-timers", getCurrentKey().toString(), ts));
        }
    }

    static class Average implements AggregateFunction<Long, Tuple2<Long, Long>, String> {
        @Override
        public Tuple2<Long, Long> createAccumulator() {
            return Tuple2.of(0L, 0L);
        }

        @Override
        public Tuple2<Long, Long> add(Long v, Tuple2<Long, Long> acc) {
            return Tuple2.of(acc.f0 + v, acc.f1 + 1);
        }

        @Override
        public String getResult(Tuple2<Long, Long> acc) {
            return acc.f0 + "/" + acc.f1;
        }

        @Override
        public Tuple2<Long, Long> merge(Tuple2<Long, Long> a, Tuple2<Long, Long> b) {
            return Tuple2.of(a.f0 + b.f0, a.f1 + b.f1);
        }
    }

    private static StateTtlConfig ttl() {
        return StateTtlConfig.newBuilder(Duration.ofDays(36_500)).build();
    }

    /** All kinds of keyed state under String keys. */
    static class StringFn extends Fn<String> {
        private transient ValueState<Long> count;
        private transient ValueState<String> label;
        private transient ListState<Long> events;
        private transient MapState<String, Long> bykind;
        private transient ReducingState<Long> sum;
        private transient AggregatingState<Long, String> avg;
        private transient ValueState<Long> ttlValue;
        private transient MapState<String, Long> ttlMap;
        private transient ValueState<Profile> profile;

        StringFn() {
            super("kv-string");
        }

        @Override
        List<String> stateNames() {
            return List.of("count", "label", "events", "bykind", "sum", "avg", "ttl-value", "ttl-map", "profile");
        }

        @Override
        public void open(OpenContext ctx) {
            count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
            label = getRuntimeContext().getState(new ValueStateDescriptor<>("label", Types.STRING));
            events = getRuntimeContext().getListState(new ListStateDescriptor<>("events", Types.LONG));
            bykind = getRuntimeContext().getMapState(new MapStateDescriptor<>("bykind", Types.STRING, Types.LONG));
            sum = getRuntimeContext().getReducingState(new ReducingStateDescriptor<>("sum", Long::sum, Types.LONG));
            avg = getRuntimeContext().getAggregatingState(
                    new AggregatingStateDescriptor<>("avg", new Average(), Types.TUPLE(Types.LONG, Types.LONG)));
            ValueStateDescriptor<Long> t = new ValueStateDescriptor<>("ttl-value", Types.LONG);
            t.enableTimeToLive(ttl());
            ttlValue = getRuntimeContext().getState(t);
            MapStateDescriptor<String, Long> tm = new MapStateDescriptor<>("ttl-map", Types.STRING, Types.LONG);
            tm.enableTimeToLive(ttl());
            ttlMap = getRuntimeContext().getMapState(tm);
            profile = getRuntimeContext().getState(new ValueStateDescriptor<>("profile", Types.POJO(Profile.class)));
        }

        @Override
        void update(Event e, Context ctx) throws Exception {
            if (e.isDelete()) {
                count.clear();
                label.clear();
                events.clear();
                bykind.clear();
                sum.clear();
                avg.clear();
                ttlValue.clear();
                ttlMap.clear();
                profile.clear();
                return;
            }
            Long c = count.value();
            count.update(c == null ? 1 : c + 1);
            label.update("label-" + e.k + "-" + e.n);
            events.add(e.id);
            String kind = "kind-" + e.n % 4;
            Long b = bykind.get(kind);
            bykind.put(kind, b == null ? e.id : b + e.id);
            if (e.n % 5 == 4) {
                bykind.remove("kind-" + (e.n + 1) % 4);
            }
            sum.add(e.id);
            avg.add(e.id);
            ttlValue.update(e.id);
            ttlMap.put(kind, e.n);
            profile.update(new Profile(e.k, e.n));
        }

        @Override
        void show(Map<String, Object> out) throws Exception {
            out.put("count", count.value());
            out.put("label", label.value());
            out.put("events", list(events.get()));
            out.put("bykind", map(bykind));
            out.put("sum", sum.get());
            out.put("avg", avg.get());
            out.put("ttl-value", ttlValue.value());
            out.put("ttl-map", map(ttlMap));
            out.put("profile", profile.value() == null ? null : profile.value().json());
        }
    }

    static <T> List<T> list(Iterable<T> it) {
        if (it == null) {
            return null;
        }
        List<T> l = new ArrayList<>();
        it.forEach(l::add);
        return l.isEmpty() ? null : l;
    }

    static Map<String, Object> map(MapState<String, Long> state) throws Exception {
        Map<String, Object> m = new TreeMap<>();
        for (Map.Entry<String, Long> e : state.entries()) {
            m.put(e.getKey(), e.getValue());
        }
        return m.isEmpty() ? null : m;
    }

    /** Value, list and map state with event-time and processing-time timers, under Long keys. */
    static class LongFn extends Fn<Long> {
        private transient ValueState<Long> last;
        private transient ListState<Long> events;
        private transient MapState<String, Long> bykind;

        LongFn() {
            super("kv-long");
        }

        @Override
        List<String> stateNames() {
            return List.of("last", "events", "bykind");
        }

        @Override
        public void open(OpenContext ctx) {
            last = getRuntimeContext().getState(new ValueStateDescriptor<>("last", Types.LONG));
            events = getRuntimeContext().getListState(new ListStateDescriptor<>("events", Types.LONG));
            bykind = getRuntimeContext().getMapState(new MapStateDescriptor<>("bykind", Types.STRING, Types.LONG));
        }

        @Override
        void update(Event e, Context ctx) throws Exception {
            if (Ctl.failTask) {
                Ctl.failTask = false;
                throw new RuntimeException("task failure asked for");
            }
            if (e.isDelete()) {
                last.clear();
                events.clear();
                bykind.clear();
                for (long i = 0; i < 3; i++) {
                    ctx.timerService().deleteEventTimeTimer(FAR_EVENT + e.k * 1000 + i);
                    ctx.timerService().deleteProcessingTimeTimer(FAR_PROC + e.k * 1000 + i);
                }
                return;
            }
            last.update(e.id);
            events.add(e.id);
            bykind.put("kind-" + e.n % 4, e.n);
            ctx.timerService().registerEventTimeTimer(FAR_EVENT + e.k * 1000 + e.n % 3);
            ctx.timerService().registerProcessingTimeTimer(FAR_PROC + e.k * 1000 + e.n % 2);
        }

        @Override
        void show(Map<String, Object> out) throws Exception {
            out.put("last", last.value());
            out.put("events", list(events.get()));
            out.put("bykind", map(bykind));
        }
    }

    /** A single ValueState<Long> of the last event id, for the other key types and the operator without uid. */
    static class LastFn<K> extends Fn<K> {
        private final boolean withMap;
        private transient ValueState<Long> last;
        private transient MapState<String, Long> bykind;

        LastFn(String uid, boolean withMap) {
            super(uid);
            this.withMap = withMap;
        }

        @Override
        List<String> stateNames() {
            return withMap ? List.of("last", "bykind") : List.of("last");
        }

        @Override
        public void open(OpenContext ctx) {
            last = getRuntimeContext().getState(new ValueStateDescriptor<>("last", Types.LONG));
            if (withMap) {
                bykind = getRuntimeContext().getMapState(new MapStateDescriptor<>("bykind", Types.STRING, Types.LONG));
            }
        }

        @Override
        void update(Event e, Context ctx) throws Exception {
            if (e.isDelete()) {
                last.clear();
                if (withMap) {
                    bykind.clear();
                }
                return;
            }
            last.update(e.id);
            if (withMap) {
                bykind.put("kind-" + e.n % 4, e.n);
            }
        }

        @Override
        void show(Map<String, Object> out) throws Exception {
            out.put("last", last.value());
            if (withMap) {
                out.put("bykind", map(bykind));
            }
        }
    }

    /** ListState built only by add(): many merge operands per key in RocksDB. */
    static class ListFn extends Fn<String> {
        private transient ListState<Long> numbers;
        private transient ListState<String> words;

        ListFn() {
            super("kv-list");
        }

        @Override
        List<String> stateNames() {
            return List.of("numbers", "words");
        }

        @Override
        public void open(OpenContext ctx) {
            numbers = getRuntimeContext().getListState(new ListStateDescriptor<>("numbers", Types.LONG));
            words = getRuntimeContext().getListState(new ListStateDescriptor<>("words", Types.STRING));
        }

        @Override
        void update(Event e, Context ctx) throws Exception {
            if (e.isDelete()) {
                numbers.clear();
                words.clear();
                return;
            }
            for (int i = 0; i < 3; i++) {
                numbers.add(e.id * 10 + i);
            }
            words.add("w" + e.n + "-é");
        }

        @Override
        void show(Map<String, Object> out) throws Exception {
            out.put("numbers", list(numbers.get()));
            out.put("words", list(words.get()));
        }
    }

    /** One ValueState per type, for the keys k < 6; values by sample(). */
    static class TypesFn extends Fn<String> {
        private transient Map<String, ValueState<Object>> states;

        TypesFn() {
            super("kv-types");
        }

        @SuppressWarnings({"unchecked", "rawtypes"})
        static Map<String, TypeInformation<Object>> types() {
            Map<String, TypeInformation> m = new LinkedHashMap<>();
            m.put("v-boolean", Types.BOOLEAN);
            m.put("v-byte", Types.BYTE);
            m.put("v-short", Types.SHORT);
            m.put("v-int", Types.INT);
            m.put("v-long", Types.LONG);
            m.put("v-float", Types.FLOAT);
            m.put("v-double", Types.DOUBLE);
            m.put("v-char", Types.CHAR);
            m.put("v-string", Types.STRING);
            m.put("v-bigint", Types.BIG_INT);
            m.put("v-bigdec", Types.BIG_DEC);
            m.put("v-instant", Types.INSTANT);
            m.put("v-localdate", Types.LOCAL_DATE);
            m.put("v-localdatetime", Types.LOCAL_DATE_TIME);
            m.put("v-sqltimestamp", Types.SQL_TIMESTAMP);
            m.put("v-bytes", Types.PRIMITIVE_ARRAY(Types.BYTE));
            m.put("v-longs", Types.PRIMITIVE_ARRAY(Types.LONG));
            m.put("v-strings", Types.OBJECT_ARRAY(Types.STRING));
            m.put("v-list", Types.LIST(Types.STRING));
            m.put("v-map", Types.MAP(Types.STRING, Types.INT));
            m.put("v-enum", Types.ENUM(Color.class));
            m.put("v-tuple3", Types.TUPLE(Types.STRING, Types.INT, Types.DOUBLE));
            m.put("v-either", Types.EITHER(Types.STRING, Types.LONG));
            m.put("v-row", Types.ROW_NAMED(new String[] {"a", "b", "c"}, Types.STRING, Types.INT, Types.LONG));
            m.put("v-pojo", Types.POJO(Profile.class));
            m.put("v-kryo", new org.apache.flink.api.java.typeutils.GenericTypeInfo<>(java.util.BitSet.class));
            return (Map<String, TypeInformation<Object>>) (Map) m;
        }

        static Object sample(String state, int k, long n) {
            int i = (int) n * 10 + k;
            int sign = k % 2 == 0 ? 1 : -1;
            switch (state) {
                case "v-boolean": return i % 2 == 0;
                case "v-byte": return (byte) (sign * i);
                case "v-short": return (short) (sign * i * 100);
                case "v-int": return sign * i * 100_000;
                case "v-long": return sign * i * 10_000_000_000L;
                case "v-float": return sign * i / 4f;
                case "v-double": return sign * i / 8d;
                case "v-char": return (char) ('A' + i);
                case "v-string": return k == 0 ? "" : k == 1 ? "é漢😀-" + i : "s" + i;
                case "v-bigint": return BigInteger.TEN.pow(30 + k).multiply(BigInteger.valueOf((long) sign * i));
                case "v-bigdec": return new BigDecimal(BigInteger.valueOf((long) sign * i * 12345), k);
                case "v-instant": return Instant.ofEpochSecond(1_700_000_000L + i, i * 1000L);
                case "v-localdate": return LocalDate.of(2024, 2, 1).plusDays(i);
                case "v-localdatetime": return LocalDateTime.of(2024, 2, 1, 10, 20, 30, i).plusHours(i);
                case "v-sqltimestamp": return new java.sql.Timestamp(1_700_000_000_000L + i);
                case "v-bytes": return new byte[] {(byte) i, 0, (byte) -i};
                case "v-longs": return new long[] {i, -i};
                case "v-strings": return new String[] {"a" + i, k == 2 ? null : "b"};
                case "v-list": return new ArrayList<>(List.of("x", "y" + i));
                case "v-map": {
                    Map<String, Integer> m = new LinkedHashMap<>();
                    m.put("one", i);
                    m.put("two", k == 3 ? null : -i);
                    return m;
                }
                case "v-enum": return Color.values()[i % 3];
                case "v-tuple3": return Tuple3.of("t" + i, i, i / 2d);
                case "v-either": return k % 2 == 0 ? Either.Left("left-" + i) : Either.Right((long) i);
                case "v-row": return Row.of("row-" + i, k == 4 ? null : i, (long) i);
                case "v-pojo": return new Profile(k, n);
                case "v-kryo": {
                    java.util.BitSet b = new java.util.BitSet();
                    b.set(k);
                    b.set(i);
                    return b;
                }
                default: throw new IllegalArgumentException(state);
            }
        }

        static Object json(Object v) {
            if (v instanceof byte[]) {
                return java.util.HexFormat.of().formatHex((byte[]) v);
            } else if (v instanceof long[] || v instanceof Object[] || v instanceof List || v instanceof Map
                    || v instanceof Boolean || v instanceof Number && !(v instanceof BigDecimal) && !(v instanceof BigInteger)) {
                return v;
            } else if (v instanceof Profile) {
                return ((Profile) v).json();
            } else if (v instanceof java.sql.Timestamp) {
                return ((java.sql.Timestamp) v).toInstant().toString();
            } else if (v instanceof Row) {
                Row r = (Row) v;
                List<Object> l = new ArrayList<>();
                for (int f = 0; f < r.getArity(); f++) {
                    l.add(r.getField(f));
                }
                return l;
            }
            return v.toString();
        }

        @Override
        List<String> stateNames() {
            return new ArrayList<>(types().keySet());
        }

        @Override
        public void open(OpenContext ctx) {
            states = new LinkedHashMap<>();
            types().forEach((name, type) ->
                    states.put(name, getRuntimeContext().getState(new ValueStateDescriptor<>(name, type))));
        }

        @Override
        void update(Event e, Context ctx) throws Exception {
            if (e.k < 6) {
                for (Map.Entry<String, ValueState<Object>> s : states.entrySet()) {
                    s.getValue().update(sample(s.getKey(), e.k, e.n));
                }
            }
        }

        @Override
        void show(Map<String, Object> out) throws Exception {
            for (Map.Entry<String, ValueState<Object>> s : states.entrySet()) {
                Object v = s.getValue().value();
                out.put(s.getKey(), v == null ? null : json(v));
            }
        }
    }

    /** Integer keys; value state and timers in the String namespaces ns-a and ns-b. */
    static class NamespaceOperator extends AbstractStreamOperator<Void>
            implements OneInputStreamOperator<Event, Void>, Triggerable<Integer, String> {
        private transient InternalTimerService<String> timers;

        private ValueState<Long> state(String ns) throws Exception {
            return getPartitionedState(ns, StringSerializer.INSTANCE, new ValueStateDescriptor<>("ns-value", Types.LONG));
        }

        @Override
        public void open() throws Exception {
            super.open();
            timers = getInternalTimerService("ns-timers", StringSerializer.INSTANCE, this);
            state("ns-a");
            if (Ctl.dumpOnOpen) {
                dump();
            }
        }

        @Override
        public void snapshotState(StateSnapshotContext ctx) throws Exception {
            super.snapshotState(ctx);
            if (Ctl.dumpOnSnapshot) {
                dump();
            }
        }

        private void dump() throws Exception {
            KeyedStateBackend<Integer> backend = getKeyedStateBackend();
            for (String ns : List.of("ns-a", "ns-b")) {
                for (Integer key : backend.getKeys("ns-value", ns).toArray(Integer[]::new)) {
                    setCurrentKey(key);
                    Ctl.put(Ctl.dump, "kv-int", "ns-value", key + "@" + ns, state(ns).value());
                }
            }
            timers.forEachEventTimeTimer((ns, ts) ->
                    Ctl.add(Ctl.dump, "kv-int", "_timer_state/event_ns-timers", getCurrentKey() + "@" + ns, ts));
            timers.forEachProcessingTimeTimer((ns, ts) ->
                    Ctl.add(Ctl.dump, "kv-int", "_timer_state/processing_ns-timers", getCurrentKey() + "@" + ns, ts));
        }

        @Override
        public void processElement(StreamRecord<Event> r) throws Exception {
            Event e = r.getValue();
            String ns = e.n % 2 == 0 ? "ns-a" : "ns-b";
            if (e.isDelete()) {
                state(ns).clear();
            } else {
                state(ns).update(e.id);
                timers.registerEventTimeTimer(ns, FAR_EVENT + e.k);
                timers.registerProcessingTimeTimer(ns, FAR_PROC + e.k);
            }
            Ctl.count("kv-int");
        }

        @Override
        public void onEventTime(InternalTimer<Integer, String> t) {
            Ctl.add(Ctl.fired, "kv-int", "_timer_state/event_ns-timers", t.getKey() + "@" + t.getNamespace(), t.getTimestamp());
        }

        @Override
        public void onProcessingTime(InternalTimer<Integer, String> t) {}
    }

    // ------------------------------------------------------------------ windows

    static class Fired<T> extends ProcessWindowFunction<T, Void, String, TimeWindow> {
        private final String uid;

        Fired(String uid) {
            this.uid = uid;
        }

        @Override
        public void process(String key, Context ctx, Iterable<T> in, Collector<Void> out) {
            Object v = in.iterator().next();
            Ctl.put(Ctl.fired, uid, "window-contents", key + "@" + ctx.window().getStart() + ".." + ctx.window().getEnd(),
                    v instanceof Tuple2 ? ((Tuple2<?, ?>) v).f1 : v);
        }
    }

    // ------------------------------------------------------------------ operator state

    static class OperatorStateFn extends RichMapFunction<Event, Event> implements CheckpointedFunction {
        private transient ListState<Long> split;
        private transient ListState<Tuple2<String, Long>> union;
        private transient BroadcastState<String, Long> broadcast;

        @Override
        public void initializeState(FunctionInitializationContext ctx) throws Exception {
            split = ctx.getOperatorStateStore().getListState(new ListStateDescriptor<>("op-split", Types.LONG));
            union = ctx.getOperatorStateStore()
                    .getUnionListState(new ListStateDescriptor<>("op-union", Types.TUPLE(Types.STRING, Types.LONG)));
            broadcast = ctx.getOperatorStateStore()
                    .getBroadcastState(new MapStateDescriptor<>("op-broadcast", Types.STRING, Types.LONG));
            if (!ctx.isRestored()) {
                for (long i = 0; i < 5; i++) {
                    broadcast.put("rule-" + i, i * i);
                }
                return;
            }
            if (getRuntimeContext().getTaskInfo().getIndexOfThisSubtask() != 0) {
                union.clear(); // every subtask gets all elements; one keeps them
            }
            if (Ctl.dumpOnOpen) {
                dump();
            }
        }

        private void dump() throws Exception {
            for (Long v : split.get()) {
                Ctl.add(Ctl.dump, "opstate", "op-split", "", v);
            }
            for (Tuple2<String, Long> v : union.get()) {
                Ctl.add(Ctl.dump, "opstate", "op-union", "", v.f0 + "=" + v.f1);
            }
            for (Map.Entry<String, Long> e : broadcast.entries()) {
                Ctl.put(Ctl.dump, "opstate", "op-broadcast", e.getKey(), e.getValue());
            }
        }

        @Override
        public void snapshotState(FunctionSnapshotContext ctx) throws Exception {
            if (Ctl.dumpOnSnapshot) {
                dump();
            }
        }

        @Override
        public Event map(Event e) throws Exception {
            if (e.k % 4 == 0) {
                split.add(e.id);
            }
            if (e.k % 12 == 1) {
                union.add(Tuple2.of(stringKey(e.k), e.n));
            }
            Ctl.count("opstate");
            return e;
        }
    }

    // ------------------------------------------------------------------ the graph

    static void build(StreamExecutionEnvironment env, Collection<String> parts) {
        if (parts.contains(Road.PART)) {
            Road.build(env);
            return;
        }
        DataStream<Event> src =
                env.addSource(parts.contains("masterhook") ? new HookedEventSource() : new EventSource(false), "src", TypeInformation.of(Event.class))
                        .uid("src");
        for (String part : parts) {
            switch (part) {
                case "masterhook":
                    break;
                case "stateless":
                    src.map(e -> e).returns(Event.class).name(part).uid(part);
                    break;
                case "kv-string":
                    keyed(src, e -> stringKey(e.k), Types.STRING, new StringFn());
                    break;
                case "kv-long":
                    keyed(src, e -> longKey(e.k), Types.LONG, new LongFn());
                    break;
                case "kv-int":
                    src.keyBy(e -> intKey(e.k), Types.INT).transform(part, Types.VOID, new NamespaceOperator()).uid(part);
                    break;
                case "kv-pojo":
                    keyed(src, e -> new PojoKey(e.k), Types.POJO(PojoKey.class), new LastFn<>(part, true));
                    break;
                case "kv-tuple":
                    keyed(src, e -> tupleKey(e.k), Types.TUPLE(Types.STRING, Types.LONG), new LastFn<>(part, true));
                    break;
                case "kv-types":
                    keyed(src, e -> stringKey(e.k), Types.STRING, new TypesFn());
                    break;
                case "kv-list":
                    keyed(src, e -> stringKey(e.k), Types.STRING, new ListFn());
                    break;
                case "nouid":
                    src.keyBy(e -> stringKey(e.k), Types.STRING)
                            .transform(part, Types.VOID, new DumpOperator<>(new LastFn<>(part, false)));
                    break;
                case "win":
                    pairs(src, part)
                            .keyBy(t -> t.f0, Types.STRING)
                            .window(TumblingEventTimeWindows.of(Duration.ofMinutes(1)))
                            .reduce((a, b) -> Tuple2.of(a.f0, a.f1 + b.f1), new Fired<Tuple2<String, Long>>(part), Types.VOID)
                            .name(part).uid(part);
                    break;
                case "win-session":
                    pairs(src, part)
                            .keyBy(t -> t.f0, Types.STRING)
                            .window(EventTimeSessionWindows.withGap(Duration.ofSeconds(30)))
                            .aggregate(new SumPairs(), new Fired<Long>(part), Types.LONG, Types.LONG, Types.VOID)
                            .name(part).uid(part);
                    break;
                case "opstate":
                    src.partitionCustom((Integer k, int p) -> k % p, e -> e.k)
                            .map(new OperatorStateFn()).returns(Event.class).name(part).uid(part);
                    break;
                case "flip27":
                    env.fromSource(new GatedNumberSource(), org.apache.flink.api.common.eventtime.WatermarkStrategy.noWatermarks(), part)
                            .uid(part)
                            .map(new Count<Long>("flip27")).returns(Types.LONG).name("flip27-map").uid("flip27-map");
                    break;
                case "fin": // a source and a keyed operator that finish
                    env.fromSource(new NumberSequenceSource(0, 9), org.apache.flink.api.common.eventtime.WatermarkStrategy.noWatermarks(), "fin-src")
                            .uid("fin-src")
                            .map(v -> new Event((int) (long) v, 0)).returns(Event.class).name("fin-map").uid("fin-map")
                            .keyBy(e -> longKey(e.k), Types.LONG)
                            .transform("fin-keyed", Types.VOID, new DumpOperator<>(new LastFn<>("fin-keyed", false)))
                            .uid("fin-keyed");
                    break;
                case "fin-part": // a source whose last subtask finishes
                    env.addSource(new EventSource(true), part, TypeInformation.of(Event.class)).uid(part)
                            .map(e -> e).returns(Event.class).name("fin-part-map").uid("fin-part-map");
                    break;
                default:
                    if (Extra.build(env, src, part) || Dice.build(src, part) || Circle.build(src, part) || OldStates.build(src, part)) {
                        break;
                    }
                    throw new IllegalArgumentException("no such part: " + part);
            }
        }
    }

    private static <K> void keyed(DataStream<Event> src, KeySelector<Event, K> key, TypeInformation<K> type, Fn<K> fn) {
        src.keyBy(key, type).transform(fn.uid, Types.VOID, new DumpOperator<>(fn)).uid(fn.uid);
    }

    private static DataStream<Tuple2<String, Long>> pairs(DataStream<Event> src, String part) {
        return src.map(new ToPair(part))
                .returns(TypeInformation.of(new TypeHint<Tuple2<String, Long>>() {}))
                .name(part + "-map").uid(part + "-map");
    }

    static class ToPair extends RichMapFunction<Event, Tuple2<String, Long>> {
        private final String uid;

        ToPair(String uid) {
            this.uid = uid;
        }

        @Override
        public Tuple2<String, Long> map(Event e) {
            Ctl.count(uid);
            return Tuple2.of(stringKey(e.k), e.id);
        }
    }

    static class SumPairs implements AggregateFunction<Tuple2<String, Long>, Long, Long> {
        @Override
        public Long createAccumulator() {
            return 0L;
        }

        @Override
        public Long add(Tuple2<String, Long> v, Long acc) {
            return acc + v.f1;
        }

        @Override
        public Long getResult(Long acc) {
            return acc;
        }

        @Override
        public Long merge(Long a, Long b) {
            return a + b;
        }
    }

    static class Count<T> extends RichMapFunction<T, T> implements Serializable {
        private final String uid;

        Count(String uid) {
            this.uid = uid;
        }

        @Override
        public T map(T v) {
            Ctl.count(uid);
            return v;
        }
    }
}
