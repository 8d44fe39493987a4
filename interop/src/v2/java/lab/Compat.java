package lab;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.v2.ListState;
import org.apache.flink.api.common.state.v2.ListStateDescriptor;
import org.apache.flink.api.common.state.v2.MapState;
import org.apache.flink.api.common.state.v2.MapStateDescriptor;
import org.apache.flink.api.common.state.v2.ValueState;
import org.apache.flink.api.common.state.v2.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.source.legacy.RichParallelSourceFunction;
import org.apache.flink.util.Collector;

/** What differs between Flink 1.20 and 2.x. */
final class Compat {
    private Compat() {}

    /** The source base class from before FLIP-27; only its package differs. */
    abstract static class LegacySource<T> extends RichParallelSourceFunction<T> {}

    abstract static class SinkBase<T> implements Sink<T> {}

    static boolean build(StreamExecutionEnvironment env, DataStream<Jobs.Event> src, String part) {
        if (!part.equals("kv-async")) {
            return false;
        }
        src.keyBy(e -> Jobs.longKey(e.k), Types.LONG).enableAsyncState().process(new AsyncFn()).returns(Types.VOID).name(part).uid(part);
        return true;
    }

    /** State v2 of an operator with asynchronous state; at restore it shows what a key holds when its next event comes. */
    static class AsyncFn extends KeyedProcessFunction<Long, Jobs.Event, Void> {
        private transient ValueState<Long> last;
        private transient ListState<Long> events;
        private transient MapState<String, Long> bykind;

        @Override
        public void open(OpenContext ctx) {
            last = getRuntimeContext().getState(new ValueStateDescriptor<>("last", Types.LONG));
            events = getRuntimeContext().getListState(new ListStateDescriptor<>("events", Types.LONG));
            bykind = getRuntimeContext().getMapState(new MapStateDescriptor<>("bykind", Types.STRING, Types.LONG));
        }

        @Override
        public void processElement(Jobs.Event e, Context ctx, Collector<Void> out) {
            long key = ctx.getCurrentKey();
            last.asyncValue().thenAccept(v -> {
                if (Ctl.dumpOnOpen && v != null && Ctl.restored) {
                    Ctl.put(Ctl.dump, "kv-async", "last", "" + key, v);
                    Ctl.put(Ctl.dump, "kv-async", "events", "" + key, Jobs.list(events.get()));
                    java.util.Map<String, Long> m = new java.util.TreeMap<>();
                    bykind.entries().forEach(x -> m.put(x.getKey(), x.getValue()));
                    Ctl.put(Ctl.dump, "kv-async", "bykind", "" + key, m);
                }
                last.asyncUpdate(e.id);
                events.asyncAdd(e.id);
                bykind.asyncPut("kind-" + e.n % 4, e.n);
                ctx.timerService().registerEventTimeTimer(Jobs.FAR_EVENT + e.k);
                Ctl.count("kv-async");
            });
        }

        @Override
        public void onTimer(long ts, OnTimerContext ctx, Collector<Void> out) {
            Ctl.add(Ctl.fired, "kv-async", "_timer_state/event_user-timers", ctx.getCurrentKey().toString(), ts);
            Ctl.add(Ctl.dump, "kv-async", "_timer_state/event_user-timers", ctx.getCurrentKey().toString(), ts);
        }
    }

    static void states(String part, int rounds, Map<String, Map<String, Truth.State>> to) {
        if (!part.equals("kv-async")) {
            return;
        }
        Truth.State last = Truth.add(to, part, "last", "value", "Long", Truth.VOID, "Long");
        Truth.State events = Truth.add(to, part, "events", "list", "Long", Truth.VOID, "Long");
        Truth.State bykind = Truth.add(to, part, "bykind", "map", "Long", Truth.VOID, "String,Long");
        Truth.State timers = Truth.add(to, part, "_timer_state/event_user-timers", "timers", "Long", Truth.VOID, null);
        for (int k = 0; k < Jobs.KEYS; k++) {
            String key = "" + Jobs.longKey(k);
            List<Long> l = new ArrayList<>();
            Map<String, Long> m = new java.util.TreeMap<>();
            for (long n = 0; n < rounds; n++) {
                l.add(n * Jobs.KEYS + k);
                m.put("kind-" + n % 4, n);
            }
            last.entries.put(key, l.get(l.size() - 1));
            events.entries.put(key, l);
            bykind.entries.put(key, m);
            timers.entries.put(key, List.of(Jobs.FAR_EVENT + k));
        }
    }

    static void add(List<Cases.Case> l) {
        // sync state: enforced to be local; async state: the working directory lies under the checkpoint directory by default
        forst(l, "ck-forst-sync", Cases.TINY);
        forst(l, "ck-forst-async-remote", List.of("kv-async"));
        forst(l, "ck-forst-async-local", List.of("kv-async")).conf("state.backend.forst.primary-dir", "local-dir");
        forst(l, "ck-forst-remote-claim", List.of("kv-async"), Bodies.generations("CLAIM", 2, 2)).conf(Cases.RETAINED, "3");
        forst(l, "ck-forst-remote-kill", List.of("kv-async", "chaos"), Bodies::litterKill).kills = true;
        Cases.add(l, "ck-rocksdb-async", List.of("kv-async"), Bodies.checkpoints(2, 3)).backend("rocksdb").conf(Cases.INCR, "true").inline("0b").conf(Cases.RETAINED, "2");
    }

    private static Cases.Case forst(List<Cases.Case> l, String name, List<String> parts) {
        return forst(l, name, parts, Bodies.checkpoints(2, 4));
    }

    private static Cases.Case forst(List<Cases.Case> l, String name, List<String> parts, Bodies.Body body) {
        return Cases.add(l, name, parts, body).backend("forst").conf(Cases.INCR, "true").inline("0b").conf(Cases.RETAINED, "2");
    }
}
