package lab;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.AggregatingStateDescriptor;
import org.apache.flink.api.common.state.BroadcastState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.OperatorStateStore;
import org.apache.flink.api.common.state.ReducingStateDescriptor;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.DataStream;

/**
 * The operators of the job that old releases run (old/src/Old.java), for a current one: they show what was restored. The
 * parts are named as the operators' uids are.
 */
final class OldStates {
    static final String SOURCE = "uid-src", KEYED = "uid-keyed", RICH = "uid-rich", WINDOW = "uid-window";

    private OldStates() {}

    /** Old.Pojo, which no class in a package can name. */
    static Class<?> pojo() {
        try {
            return Class.forName("Old$Pojo");
        } catch (ClassNotFoundException e) {
            throw new IllegalStateException(e);
        }
    }

    static Map<String, Object> fields(Object pojo) {
        Map<String, Object> m = new TreeMap<>();
        try {
            for (String f : List.of("name", "count", "last")) {
                m.put(f, pojo().getField(f).get(pojo));
            }
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
        return m;
    }

    static boolean build(DataStream<Jobs.Event> src, String part) {
        switch (part) {
            case SOURCE:
                src.map(new Source()).returns(Jobs.Event.class).name(part).uid(part);
                return true;
            case KEYED: case WINDOW:
                src.keyBy(e -> Jobs.stringKey(e.k), Types.STRING).transform(part, Types.VOID, new Keyed(part)).uid(part);
                return true;
            case RICH:
                src.keyBy(e -> (long) e.k, Types.LONG).transform(part, Types.VOID, new Keyed(part)).uid(part);
                return true;
            default:
                return false;
        }
    }

    /** The operator state of what was the source. */
    static class Source extends RichMapFunction<Jobs.Event, Jobs.Event> implements CheckpointedFunction {
        @Override
        public void initializeState(FunctionInitializationContext ctx) throws Exception {
            String index = "" + getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
            OperatorStateStore store = ctx.getOperatorStateStore();
            Circle.show(SOURCE, "src-offsets", index, Circle.Op.list(store.getListState(new ListStateDescriptor<>("src-offsets", Types.LONG))));
            Circle.show(SOURCE, "src-union", index, Circle.Op.list(store.getUnionListState(new ListStateDescriptor<>("src-union", Types.STRING))));
        }

        @Override
        public void snapshotState(FunctionSnapshotContext ctx) {}

        @Override
        public Jobs.Event map(Jobs.Event e) {
            return e;
        }
    }

    static class Keyed extends CircleOperator {
        Keyed(String part) {
            super(part);
        }

        @Override
        String timers() {
            return part.equals(WINDOW) ? "window-timers" : "user-timers";
        }

        @Override
        void describe() {
            switch (part) {
                case KEYED:
                    add(new ValueStateDescriptor<>("total", Types.LONG));
                    add(new ListStateDescriptor<>("history", Types.STRING));
                    add(new MapStateDescriptor<>("by-phase", Types.STRING, Types.LONG));
                    break;
                case RICH:
                    add(new ReducingStateDescriptor<>("rsum", Long::sum, Types.LONG));
                    add(new AggregatingStateDescriptor<>("avg", new Mean(), Types.TUPLE(Types.LONG, Types.LONG)));
                    add(new ValueStateDescriptor<>("ttl-val", Types.LONG));
                    add(new ValueStateDescriptor<>("pojo", TypeInformation.of(pojo())));
                    break;
                default:
                    add(new ReducingStateDescriptor<>("window-contents", (a, b) -> b, Types.TUPLE(Types.STRING, Types.LONG)));
            }
        }

        @Override
        public void initializeState(StateInitializationContext ctx) throws Exception {
            super.initializeState(ctx);
            if (!part.equals(KEYED)) {
                return;
            }
            String index = "" + getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
            OperatorStateStore store = ctx.getOperatorStateStore();
            Circle.show(KEYED, "op-list", index, Circle.Op.list(store.getListState(new ListStateDescriptor<>("op-list", Types.STRING))));
            BroadcastState<String, Long> broadcast = store.getBroadcastState(new MapStateDescriptor<>("bcast", Types.STRING, Types.LONG));
            Map<String, Object> all = new LinkedHashMap<>();
            broadcast.entries().forEach(e -> all.put(e.getKey(), e.getValue()));
            Circle.show(KEYED, "bcast", index, all);
        }
    }
}
