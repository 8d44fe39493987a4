package lab;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.zip.CRC32;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.BroadcastState;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.SimpleTypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.base.TypeSerializerSingleton;
import org.apache.flink.api.connector.sink2.Committer;
import org.apache.flink.api.connector.sink2.CommitterInitContext;
import org.apache.flink.api.connector.sink2.CommittingSinkWriter;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.SupportsCommitter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.core.fs.Path;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.runtime.state.KeyGroupStatePartitionStreamProvider;
import org.apache.flink.runtime.state.KeyedStateCheckpointOutputStream;
import org.apache.flink.runtime.state.OperatorStateCheckpointOutputStream;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StatePartitionStreamProvider;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.filesystem.BucketAssigner;
import org.apache.flink.streaming.api.functions.sink.filesystem.bucketassigners.SimpleVersionedStringSerializer;
import org.apache.flink.streaming.api.functions.sink.filesystem.rollingpolicies.DefaultRollingPolicy;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * Operators that are out of the ordinary: raw state, failures on demand, odd names, very uneven state, sinks with pending
 * transactions. ChaosSerializer's name stands in the snapshots of the part "chaos".
 */
final class Extra {
    private Extra() {}

    static boolean build(StreamExecutionEnvironment env, DataStream<Jobs.Event> src, String part) {
        switch (part) {
            case "chaos":
                src.map(new ChaosFn()).returns(Jobs.Event.class).name(part).uid(part);
                return true;
            case "raw":
                src.keyBy(e -> Jobs.stringKey(e.k), Types.STRING).transform(part, Types.VOID, new RawOperator(true)).uid(part);
                return true;
            case "raw-op": // raw operator state without keys
                src.transform(part, Types.VOID, new RawOperator(false)).uid(part);
                return true;
            case "skew":
                src.map(new SkewFn()).returns(Jobs.Event.class).name(part).uid(part);
                return true;
            case "unicode":
                src.keyBy(e -> uniKey(e.k), Types.STRING).transform(UNI_NAME, Types.VOID, new Jobs.DumpOperator<>(new UniFn())).uid(UNI_UID);
                src.map(new UniOpFn()).returns(Jobs.Event.class).name(UNI_OP).uid(UNI_OP);
                return true;
            case "twopc":
                src.map(e -> e.id).returns(Types.LONG).name("twopc-map").uid("twopc-map").sinkTo(new TwoPcSink()).name(part).uid(part);
                return true;
            case "filesink": {
                String dir = env.getConfiguration().get(ConfigOptions.key("lab.sink.dir").stringType().noDefaultValue());
                src.map(e -> e.k + ";" + e.n).returns(Types.STRING).name("filesink-map").uid("filesink-map")
                        .sinkTo(FileSink.<String>forRowFormat(new Path(dir), new LineEncoder())
                                .withBucketAssigner(new Buckets())
                                .withRollingPolicy(DefaultRollingPolicy.builder().withRolloverInterval(java.time.Duration.ofDays(9))
                                        .withInactivityInterval(java.time.Duration.ofDays(9)).withMaxPartSize(MemorySize.ofMebiBytes(99)).build())
                                .build())
                        .name(part).uid(part);
                return true;
            }
            default:
                return Compat.build(env, src, part);
        }
    }

    /** Operator state that fails or hangs at chosen checkpoints; one element id * 10 + subtask. */
    static class ChaosFn extends RichMapFunction<Jobs.Event, Jobs.Event> implements CheckpointedFunction {
        private transient ListState<Long> state;

        @Override
        public void initializeState(FunctionInitializationContext ctx) throws Exception {
            state = ctx.getOperatorStateStore().getListState(new ListStateDescriptor<>("chaos", new ChaosSerializer()));
            if (ctx.isRestored() && Ctl.dumpOnOpen) {
                for (Long v : state.get()) {
                    Ctl.add(Ctl.dump, "chaos", "chaos", "", v);
                }
            }
        }

        @Override
        public void snapshotState(FunctionSnapshotContext ctx) throws Exception {
            int sub = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
            state.update(List.of(ctx.getCheckpointId() * 10 + sub));
            if (sub == 1 && "sync".equals(Ctl.plan.get(ctx.getCheckpointId()))) {
                Thread.sleep(1000); // the others acknowledge meanwhile
                throw new IOException("sync failure asked for in checkpoint " + ctx.getCheckpointId());
            }
        }

        @Override
        public Jobs.Event map(Jobs.Event e) {
            return e;
        }
    }

    public static final class ChaosSerializer extends TypeSerializerSingleton<Long> {
        @Override public boolean isImmutableType() { return true; }
        @Override public Long createInstance() { return 0L; }
        @Override public Long copy(Long v) { return v; }
        @Override public Long copy(Long v, Long reuse) { return v; }
        @Override public int getLength() { return 8; }

        @Override
        public void serialize(Long v, DataOutputView out) throws IOException {
            String what = v % 10 == 1 ? Ctl.plan.get(v / 10) : null;
            try {
                if ("async".equals(what)) {
                    Thread.sleep(1500); // until the other tasks have sent their acknowledgements
                    throw new IOException("async failure asked for in checkpoint " + v / 10);
                } else if ("hang".equals(what) || "slow".equals(what)) {
                    for (int i = what.equals("slow") ? 2150 : 0; i < 3000 && Ctl.plan.get(v / 10) != null; i++) {
                        Thread.sleep(10);
                    }
                }
            } catch (InterruptedException e) {
                throw new IOException(e);
            }
            out.writeLong(v);
        }

        @Override public Long deserialize(DataInputView in) throws IOException { return in.readLong(); }
        @Override public Long deserialize(Long reuse, DataInputView in) throws IOException { return in.readLong(); }
        @Override public void copy(DataInputView in, DataOutputView out) throws IOException { out.writeLong(in.readLong()); }
        @Override public TypeSerializerSnapshot<Long> snapshotConfiguration() { return new ChaosSnapshot(); }
    }

    public static final class ChaosSnapshot extends SimpleTypeSerializerSnapshot<Long> {
        public ChaosSnapshot() {
            super(ChaosSerializer::new);
        }
    }

    /** Raw operator state: per subtask one partition per distinct key; raw keyed state: only the key groups that saw an event, minus every third. */
    static class RawOperator extends AbstractStreamOperator<Void> implements OneInputStreamOperator<Jobs.Event, Void> {
        private final boolean keyed;
        private transient Map<Integer, Long> last; // k -> id of the last event

        RawOperator(boolean keyed) {
            this.keyed = keyed;
        }

        private String uid() {
            return keyed ? "raw" : "raw-op";
        }

        @Override
        protected boolean isUsingCustomRawKeyedState() {
            return keyed;
        }

        @Override
        public void initializeState(StateInitializationContext ctx) throws Exception {
            super.initializeState(ctx);
            last = new TreeMap<>();
            if (!ctx.isRestored()) {
                return;
            }
            if (keyed) {
                for (KeyGroupStatePartitionStreamProvider p : ctx.getRawKeyedStateInputs()) {
                    DataInputStream in = new DataInputStream(p.getStream());
                    int n = in.readInt();
                    List<String> l = new ArrayList<>();
                    for (int i = 0; i < n; i++) {
                        int k = in.readInt();
                        long id = in.readLong();
                        last.put(k, id);
                        l.add(k + "=" + id);
                    }
                    Ctl.put(Ctl.dump, uid(), "(raw keyed)", "" + p.getKeyGroupId(), l);
                }
            }
            for (StatePartitionStreamProvider p : ctx.getRawOperatorStateInputs()) {
                DataInputStream in = new DataInputStream(p.getStream());
                Ctl.add(Ctl.dump, uid(), "(raw operator)", "", in.readUTF());
            }
        }

        @Override
        public void snapshotState(StateSnapshotContext ctx) throws Exception {
            super.snapshotState(ctx);
            OperatorStateCheckpointOutputStream op = ctx.getRawOperatorStateOutput();
            DataOutputStream o = new DataOutputStream(op);
            for (Map.Entry<Integer, Long> e : last.entrySet()) {
                if (e.getKey() % 4 != 3) {
                    op.startNewPartition();
                    o.writeUTF(Jobs.stringKey(e.getKey()) + "=" + e.getValue());
                }
            }
            o.flush();
            if (!keyed) {
                return;
            }
            Map<Integer, Map<Integer, Long>> groups = new TreeMap<>();
            last.forEach((k, id) -> groups.computeIfAbsent(group(k), g -> new TreeMap<>()).put(k, id));
            KeyedStateCheckpointOutputStream out = ctx.getRawKeyedOperatorStateOutput();
            DataOutputStream d = new DataOutputStream(out);
            for (Map.Entry<Integer, Map<Integer, Long>> g : groups.entrySet()) {
                if (g.getKey() % 3 == 0) {
                    continue;
                }
                out.startNewKeyGroup(g.getKey());
                d.writeInt(g.getValue().size());
                for (Map.Entry<Integer, Long> e : g.getValue().entrySet()) {
                    d.writeInt(e.getKey());
                    d.writeLong(e.getValue());
                }
                d.flush();
            }
        }

        @Override
        public void processElement(StreamRecord<Jobs.Event> r) {
            last.put(r.getValue().k, r.getValue().id);
            Ctl.count(uid());
        }
    }

    static int group(int k) {
        return KeyGroupRangeAssignment.assignToKeyGroup(Jobs.stringKey(k), 128);
    }

    /** List state of very different size per subtask: nothing, 1 byte, 30 KB in 3 elements, 150 KB in one. */
    static class SkewFn extends RichMapFunction<Jobs.Event, Jobs.Event> implements CheckpointedFunction {
        static final int[][] SIZES = {{}, {1}, {10_000, 10_001, 10_002}, {150_000}};

        @Override
        public void initializeState(FunctionInitializationContext ctx) throws Exception {
            ListState<byte[]> blobs = ctx.getOperatorStateStore().getListState(new ListStateDescriptor<>("blobs", org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO));
            if (!ctx.isRestored()) {
                for (int n : SIZES[getRuntimeContext().getTaskInfo().getIndexOfThisSubtask() % 4]) {
                    blobs.add(blob(n));
                }
            } else if (Ctl.dumpOnOpen) {
                for (byte[] b : blobs.get()) {
                    Ctl.add(Ctl.dump, "skew", "blobs", "", show(b));
                }
            }
        }

        static byte[] blob(int n) {
            byte[] b = new byte[n];
            int x = n;
            for (int i = 0; i < n; i++) {
                x = x * 1103515245 + 12345;
                b[i] = (byte) (x >> 16);
            }
            return b;
        }

        static String show(byte[] b) {
            CRC32 c = new CRC32();
            c.update(b);
            return "len " + b.length + " crc32 " + Long.toHexString(c.getValue());
        }

        @Override
        public void snapshotState(FunctionSnapshotContext ctx) {}

        @Override
        public Jobs.Event map(Jobs.Event e) {
            return e;
        }
    }

    static final String UNI_NAME = "имя оператора 日本 😀 %20 100% ü+&/\\:?#", UNI_UID = "uid-日本 😀 % ü", UNI_OP = "операция 🚀 %F0 a+b c";
    static final String UNI_VALUE = "zähler 日本 😀", UNI_LIST = "a/b\\c:d*e?f %20+ü", UNI_LONG = "語".repeat(2000) + "-long";
    static final String UNI_OPSTATE = "список 😀 %00 " + "x".repeat(20_000), UNI_BC = "broadcast 日本\t\"quoted\"";

    static String uniKey(int k) {
        return "ключ 😀 日本/" + k;
    }

    static class UniFn extends Jobs.Fn<String> {
        private transient ValueState<String> value;
        private transient ListState<String> list;
        private transient MapState<String, Long> longName;

        UniFn() {
            super(UNI_UID);
        }

        @Override
        List<String> stateNames() {
            return List.of(UNI_VALUE, UNI_LIST, UNI_LONG);
        }

        @Override
        public void open(OpenContext ctx) {
            value = getRuntimeContext().getState(new ValueStateDescriptor<>(UNI_VALUE, Types.STRING));
            list = getRuntimeContext().getListState(new ListStateDescriptor<>(UNI_LIST, Types.STRING));
            longName = getRuntimeContext().getMapState(new MapStateDescriptor<>(UNI_LONG, Types.STRING, Types.LONG));
        }

        @Override
        void update(Jobs.Event e, Context ctx) throws Exception {
            value.update("wert ü 😀 " + e.id);
            if (e.n < 3) {
                list.add("элемент " + e.n);
            }
            longName.put("键 " + e.n % 3, e.id);
            ctx.timerService().registerEventTimeTimer(Jobs.FAR_EVENT + e.k);
        }

        @Override
        void show(Map<String, Object> out) throws Exception {
            out.put(UNI_VALUE, value.value());
            out.put(UNI_LIST, Jobs.list(list.get()));
            out.put(UNI_LONG, Jobs.map(longName));
        }
    }

    static class UniOpFn extends RichMapFunction<Jobs.Event, Jobs.Event> implements CheckpointedFunction {
        private transient ListState<String> list;

        @Override
        public void initializeState(FunctionInitializationContext ctx) throws Exception {
            list = ctx.getOperatorStateStore().getListState(new ListStateDescriptor<>(UNI_OPSTATE, Types.STRING));
            BroadcastState<String, Long> bc = ctx.getOperatorStateStore().getBroadcastState(new MapStateDescriptor<>(UNI_BC, Types.STRING, Types.LONG));
            if (!ctx.isRestored()) {
                bc.put("правило 😀", 1L);
                list.add("строка " + getRuntimeContext().getTaskInfo().getIndexOfThisSubtask() + " 😀");
            } else if (Ctl.dumpOnOpen) {
                for (String s : list.get()) {
                    Ctl.add(Ctl.dump, UNI_OP, UNI_OPSTATE, "", s);
                }
                for (Map.Entry<String, Long> e : bc.entries()) {
                    Ctl.put(Ctl.dump, UNI_OP, UNI_BC, e.getKey(), e.getValue());
                }
            }
        }

        @Override
        public void snapshotState(FunctionSnapshotContext ctx) {}

        @Override
        public Jobs.Event map(Jobs.Event e) {
            return e;
        }
    }

    /** Two-phase commit: one committable per subtask and checkpoint, held by the committer until the checkpoint completes. */
    static class TwoPcSink extends Compat.SinkBase<Long> implements SupportsCommitter<String> {
        @Override
        public SinkWriter<Long> createWriter(WriterInitContext ctx) {
            return new TwoPcWriter(ctx.getTaskInfo().getIndexOfThisSubtask());
        }

        @Override
        public Committer<String> createCommitter(CommitterInitContext ctx) {
            return new Committer<String>() {
                @Override
                public void commit(Collection<CommitRequest<String>> requests) {
                    requests.forEach(r -> Ctl.add(Ctl.dump, "Sink Committer: twopc", "streaming_committer_raw_states", "", r.getCommittable()));
                }

                @Override
                public void close() {}
            };
        }

        @Override
        public SimpleVersionedSerializer<String> getCommittableSerializer() {
            return new Jobs.HookSerializer();
        }
    }

    static class TwoPcWriter implements CommittingSinkWriter<Long, String> {
        private final int subtask;
        private int events;
        private long sum;

        TwoPcWriter(int subtask) {
            this.subtask = subtask;
        }

        @Override
        public void write(Long v, Context ctx) {
            events++;
            sum += v;
        }

        @Override
        public void flush(boolean endOfInput) {}

        @Override
        public Collection<String> prepareCommit() {
            if (events == 0) {
                return List.of();
            }
            String c = committable(subtask, events, sum);
            events = 0;
            sum = 0;
            return List.of(c);
        }

        static String committable(int subtask, int events, long sum) {
            return "txn subtask=" + subtask + " events=" + events + " sum=" + sum + " file:/data/out ü%20/part-" + subtask + ".pending";
        }

        @Override
        public void close() {}
    }

    static class LineEncoder extends org.apache.flink.api.common.serialization.SimpleStringEncoder<String> {}

    static class Buckets implements BucketAssigner<String, String> {
        @Override
        public String getBucketId(String line, Context ctx) {
            return "bucket-" + line.charAt(0) % 2 + " ü";
        }

        @Override
        public SimpleVersionedSerializer<String> getSerializer() {
            return SimpleVersionedStringSerializer.INSTANCE;
        }
    }
}
