package lab;

import java.io.File;
import java.io.IOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.execution.ExecutionState;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.TimeDomain;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/**
 * The job of road_test.go, written for Flink: it goes on from savepoints of that one, and that one from its savepoints. Uids, names and
 * types of states, times of timers, and lines are the same there.
 */
final class Road implements AutoCloseable {
    static final String PART = "road";

    private static final TypeInformation<Tuple2<String, Long>> CLICK = Types.TUPLE(Types.STRING, Types.LONG);
    private static final int SECOND = 1000;
    private static final long OUT_OF_ORDER = 50;
    /** When timers of processing time are due: long ago, since this program was written, and long after. */
    private static final long PAST = 1_000_000_000_000L, PRESENT = 1_700_000_000_000L, FUTURE = 4_000_000_000_000L;

    // Of the run at hand.
    private static volatile File input, output; // directories
    private static volatile int limit; // the percentage of each file up to which it is read
    private static final AtomicLong lines = new AtomicLong(); // that have come to the sink

    private Run first; // the one with the cluster

    // ------------------------------------------------------------------ the job

    static void build(StreamExecutionEnvironment env) {
        DataStream<Tuple2<String, Long>> clicks = env.addSource(new Clicks(input, limit), "clicks", CLICK).uid("clicks");
        KeyedStream<Tuple2<String, Long>, String> keyed = clicks.keyBy(c -> c.f0, Types.STRING);
        DataStream<String> counted = keyed.process(new Count(), Types.STRING).uid("count");
        DataStream<String> sizes = keyed.window(TumblingEventTimeWindows.of(Duration.ofMillis(SECOND)))
                .aggregate(new Size(), new Result<Long>("window"), Types.LONG, Types.LONG, Types.STRING).uid("windows");
        DataStream<String> newest = keyed.window(TumblingEventTimeWindows.of(Duration.ofMillis(SECOND)))
                .reduce((a, b) -> a.f1 >= b.f1 ? a : b, new Newest(), Types.STRING).uid("newest");
        counted.union(sizes, newest).map(new Sink(output)).returns(Types.STRING).name("sink").uid("sink");
    }

    /** The lines "KEY TIME" of files, whose bytes are counted: runtime.From with runtime.Lines. */
    static class Clicks extends Compat.LegacySource<Tuple2<String, Long>> implements CheckpointedFunction {
        private final File dir;
        private final int limit;
        private transient ListState<Tuple2<String, Long>> state;
        private transient List<Tuple2<String, Long>> mine;
        private volatile boolean running = true;

        Clicks(File dir, int limit) {
            this.dir = dir;
            this.limit = limit;
        }

        @Override
        public void initializeState(FunctionInitializationContext ctx) throws Exception {
            state = ctx.getOperatorStateStore().getUnionListState(new ListStateDescriptor<>("partition-offsets", CLICK));
            Map<String, Long> offsets = new TreeMap<>();
            for (Tuple2<String, Long> o : state.get()) {
                offsets.put(o.f0, o.f1);
            }
            mine = new ArrayList<>();
            File[] files = dir.listFiles();
            Arrays.sort(files);
            int p = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
            for (int i = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask(); i < files.length; i += p) {
                String name = "file://" + files[i];
                mine.add(Tuple2.of(name, offsets.getOrDefault(name, 0L)));
            }
        }

        @Override
        public void snapshotState(FunctionSnapshotContext ctx) throws Exception {
            state.update(mine);
        }

        @Override
        public void run(SourceContext<Tuple2<String, Long>> out) throws Exception {
            List<byte[]> files = new ArrayList<>();
            for (Tuple2<String, Long> m : mine) {
                files.add(Files.readAllBytes(Path.of(URI.create(m.f0))));
            }
            long[] newest = new long[mine.size()];
            Arrays.fill(newest, Long.MIN_VALUE);
            long sent = System.nanoTime();
            for (int i = 0; running; i = (i + 1) % mine.size()) {
                Tuple2<String, Long> at = mine.get(i);
                byte[] data = files.get(i);
                if (at.f1 < (long) data.length * limit / 100) {
                    int end = at.f1.intValue();
                    while (data[end] != '\n') {
                        end++;
                    }
                    String[] words = new String(data, at.f1.intValue(), end - at.f1.intValue(), StandardCharsets.UTF_8).split(" ");
                    Tuple2<String, Long> click = Tuple2.of(words[0], Long.parseLong(words[1]));
                    newest[i] = Math.max(newest[i], click.f1);
                    synchronized (out.getCheckpointLock()) {
                        out.collectWithTimestamp(click, click.f1);
                        at.f1 = end + 1L;
                    }
                }
                if (System.nanoTime() - sent > 200_000_000) { // pipeline.auto-watermark-interval
                    sent = System.nanoTime();
                    long least = Arrays.stream(newest).min().getAsLong();
                    if (least != Long.MIN_VALUE) {
                        synchronized (out.getCheckpointLock()) {
                            out.emitWatermark(new Watermark(least - OUT_OF_ORDER - 1));
                        }
                    }
                }
                Thread.sleep(1);
            }
        }

        @Override
        public void cancel() {
            running = false;
        }
    }

    /** Counts the clicks of a key, all and those of each second, which ends with a timer; some counts set timers of processing time. */
    static class Count extends KeyedProcessFunction<String, Tuple2<String, Long>, String> {
        private transient ValueState<Long> count;
        private transient MapState<Long, Long> seconds;

        @Override
        public void open(OpenContext ctx) {
            count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
            seconds = getRuntimeContext().getMapState(new MapStateDescriptor<>("seconds", Types.LONG, Types.LONG));
        }

        @Override
        public void processElement(Tuple2<String, Long> c, Context ctx, Collector<String> out) throws Exception {
            long n = (count.value() == null ? 0 : count.value()) + 1;
            count.update(n);
            out.collect("count " + c.f0 + " " + n);
            long end = c.f1 - Math.floorMod(c.f1, SECOND) + SECOND;
            Long in = seconds.get(end);
            seconds.put(end, in == null ? 1 : in + 1);
            ctx.timerService().registerEventTimeTimer(end);
            if (n % 3 == 0) {
                ctx.timerService().registerProcessingTimeTimer(new long[] {PAST, PRESENT, FUTURE}[(int) (n / 3 % 3)] + n);
            }
        }

        @Override
        public void onTimer(long timestamp, OnTimerContext ctx, Collector<String> out) throws Exception {
            if (ctx.timeDomain() == TimeDomain.PROCESSING_TIME) {
                out.collect("due " + ctx.getCurrentKey() + " " + timestamp);
                return;
            }
            out.collect("second " + ctx.getCurrentKey() + " " + timestamp + " " + seconds.get(timestamp));
            seconds.remove(timestamp);
        }
    }

    static class Size implements AggregateFunction<Tuple2<String, Long>, Long, Long> {
        @Override
        public Long createAccumulator() {
            return 0L;
        }

        @Override
        public Long add(Tuple2<String, Long> c, Long n) {
            return n + 1;
        }

        @Override
        public Long getResult(Long n) {
            return n;
        }

        @Override
        public Long merge(Long a, Long b) {
            throw new UnsupportedOperationException("windows of a fixed size are never merged");
        }
    }

    static class Result<T> extends ProcessWindowFunction<T, String, String, TimeWindow> {
        private final String word;

        Result(String word) {
            this.word = word;
        }

        Object of(T v) {
            return v;
        }

        @Override
        public void process(String key, Context ctx, Iterable<T> values, Collector<String> out) {
            out.collect(word + " " + key + " " + ctx.window().getStart() + " " + of(values.iterator().next()));
        }
    }

    static class Newest extends Result<Tuple2<String, Long>> {
        Newest() {
            super("newest");
        }

        @Override
        Object of(Tuple2<String, Long> v) {
            return v.f1;
        }
    }

    /** Files that are committed by checkpoints: runtime.Commit with runtime.Files. */
    static class Sink extends RichMapFunction<String, String> implements CheckpointedFunction, CheckpointListener {
        private final File dir;
        private transient ListState<Tuple2<Long, String>> state;
        private transient List<Tuple2<Long, String>> prepared;
        private transient StringBuilder text;

        Sink(File dir) {
            this.dir = dir;
        }

        @Override
        public void initializeState(FunctionInitializationContext ctx) throws Exception {
            state = ctx.getOperatorStateStore().getUnionListState(new ListStateDescriptor<>("prepared-transactions", Types.TUPLE(Types.LONG, Types.STRING)));
            prepared = new ArrayList<>();
            text = new StringBuilder();
            int i = 0;
            for (Tuple2<Long, String> t : state.get()) {
                if (i++ % getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks() == getRuntimeContext().getTaskInfo().getIndexOfThisSubtask()) {
                    commit(t.f1);
                }
            }
        }

        @Override
        public String map(String line) {
            text.append(line).append('\n');
            lines.incrementAndGet();
            return line;
        }

        @Override
        public void snapshotState(FunctionSnapshotContext ctx) throws Exception {
            String name = "part-" + getRuntimeContext().getTaskInfo().getIndexOfThisSubtask() + "-" + UUID.randomUUID();
            Path file = dir.toPath().resolve(".pending").resolve(name);
            Files.createDirectories(file.getParent());
            Files.writeString(file, text);
            text.setLength(0);
            prepared.add(Tuple2.of(ctx.getCheckpointId(), name));
            state.update(prepared);
        }

        @Override
        public void notifyCheckpointComplete(long checkpoint) throws IOException {
            while (!prepared.isEmpty() && prepared.get(0).f0 <= checkpoint) {
                commit(prepared.get(0).f1);
                prepared.remove(0);
            }
        }

        private void commit(String name) throws IOException {
            Path from = dir.toPath().resolve(".pending").resolve(name), to = dir.toPath().resolve(name);
            if (!Files.exists(to)) {
                Files.move(from, to);
            }
        }
    }

    // ------------------------------------------------------------------ the runs

    /** SNAPSHOT OUT INPUT OUTPUT LIMIT LINES K=V...: goes on from the snapshot until so many lines have come, stops with a savepoint below OUT. */
    void run(List<String> l) throws Exception {
        File out = new File(l.get(1));
        input = new File(l.get(2));
        output = new File(l.get(3));
        limit = Integer.parseInt(l.get(4));
        long enough = Long.parseLong(l.get(5));
        lines.set(0);
        Map<String, String> conf = new TreeMap<>();
        conf.put("execution.checkpointing.dir", "file://" + out + "/ckpt");
        for (String word : l.subList(6, l.size())) {
            String[] kv = word.split("=", 2);
            conf.put(kv[0], kv[1]);
        }
        String id = UUID.randomUUID().toString().replace("-", "");
        Run run = new Run(List.of(PART), conf, id, l.get(0), "NO_CLAIM", first == null ? null : first.cluster);
        if (first == null) {
            first = run;
        }
        run.submit();
        Run.await("lines", () -> run.allIn(ExecutionState.RUNNING) && lines.get() >= enough);
        String savepoint = run.stopWithSavepoint(out.getPath(), SavepointFormatType.CANONICAL, false);
        Files.writeString(out.toPath().resolve("savepoint"), savepoint);
    }

    @Override
    public void close() throws Exception {
        if (first != null) {
            first.close();
        }
    }
}
