package lab;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.state.AggregatingStateDescriptor;
import org.apache.flink.api.common.state.AppendingState;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ReducingStateDescriptor;
import org.apache.flink.api.common.state.State;
import org.apache.flink.api.common.state.StateDescriptor;
import org.apache.flink.api.common.state.StateTtlConfig;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.base.StringSerializer;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.runtime.state.KeyedStateBackend;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.runtime.state.VoidNamespaceSerializer;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.InternalTimer;
import org.apache.flink.streaming.api.operators.InternalTimerService;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.Triggerable;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/** Every kind of keyed state; see {@link Circle}. */
class CircleOperator extends AbstractStreamOperator<Void> implements OneInputStreamOperator<Jobs.Event, Void>, Triggerable<Object, Object> {
    final String part;
    private transient Map<String, StateDescriptor<?, ?>> states;
    private transient InternalTimerService<Object> timers;

    CircleOperator(String part) {
        this.part = part;
    }

    /** Sum and number; the result is the accumulator itself. */
    static final class Mean implements AggregateFunction<Long, Tuple2<Long, Long>, Tuple2<Long, Long>> {
        @Override
        public Tuple2<Long, Long> createAccumulator() {
            return Tuple2.of(0L, 0L);
        }

        @Override
        public Tuple2<Long, Long> add(Long v, Tuple2<Long, Long> acc) {
            return Tuple2.of(acc.f0 + v, acc.f1 + 1);
        }

        @Override
        public Tuple2<Long, Long> getResult(Tuple2<Long, Long> acc) {
            return acc;
        }

        @Override
        public Tuple2<Long, Long> merge(Tuple2<Long, Long> a, Tuple2<Long, Long> b) {
            return Tuple2.of(a.f0 + b.f0, a.f1 + b.f1);
        }
    }

    void add(StateDescriptor<?, ?> d) {
        if (d.getName().startsWith("aged") || d.getName().startsWith("ttl")) {
            d.enableTimeToLive(StateTtlConfig.newBuilder(Duration.ofDays(3650)).build());
        }
        states.put(d.getName(), d);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private TypeSerializer<Object> namespaces() {
        switch (part) {
            case "go-long": case OldStates.WINDOW: return (TypeSerializer) new TimeWindow.Serializer();
            case "go-tuple": return (TypeSerializer) StringSerializer.INSTANCE;
            default: return (TypeSerializer) VoidNamespaceSerializer.INSTANCE;
        }
    }

    @SuppressWarnings("unchecked")
    private <S extends State> S state(String name, Object namespace) throws Exception {
        return getPartitionedState(namespace, namespaces(), (StateDescriptor<S, ?>) states.get(name));
    }

    private boolean large() {
        return part.equals("go-large");
    }

    /** The name of the timers. */
    String timers() {
        return "circle";
    }

    /** Adds the states. */
    void describe() {
        add(new ValueStateDescriptor<>("value", Types.STRING));
        add(new ListStateDescriptor<>("list", Types.STRING));
        add(new MapStateDescriptor<>("map", Types.LONG, Types.STRING));
        if (!large()) {
            add(new ValueStateDescriptor<>("aged value", Types.LONG));
            add(new ListStateDescriptor<>("aged list", Types.LONG));
            add(new MapStateDescriptor<>("aged map", Types.STRING, Types.LONG));
            add(new ReducingStateDescriptor<>("sum", Long::sum, Types.LONG));
            add(new ReducingStateDescriptor<>("aged sum", Long::sum, Types.LONG));
            add(new AggregatingStateDescriptor<>("mean", new Mean(), Types.TUPLE(Types.LONG, Types.LONG)));
            add(new AggregatingStateDescriptor<>("aged mean", new Mean(), Types.TUPLE(Types.LONG, Types.LONG)));
            add(new ValueStateDescriptor<>("profile", Types.POJO(Jobs.Profile.class)));
            add(new ListStateDescriptor<>("decimals", Types.BIG_DEC));
        }
    }

    @Override
    public void open() throws Exception {
        super.open();
        states = new LinkedHashMap<>();
        describe();
        timers = getInternalTimerService(timers(), namespaces(), this);
        Object opened = RocksDBView.look(getKeyedStateBackend());
        if (opened != null) {
            Circle.database(part + "/" + getRuntimeContext().getTaskInfo().getIndexOfThisSubtask(), opened);
        }
        for (String name : states.keySet()) {
            state(name, Circle.namespaces(part).get(0));
        }
        for (String name : states.keySet()) {
            show(name);
        }
        timers.forEachEventTimeTimer((ns, t) -> showTimer("event", ns, t));
        timers.forEachProcessingTimeTimer((ns, t) -> showTimer("processing", ns, t));
        if (Circle.change) {
            change();
        }
    }

    private String entry(Object namespace) {
        String key = Dice.name(getCurrentKey());
        return namespace == VoidNamespace.INSTANCE ? key : key + "@" + Dice.show(namespace);
    }

    private void showTimer(String queue, Object namespace, long timestamp) throws Exception {
        show(queue, entry(namespace) + "!" + timestamp, timestamp);
    }

    private void show(String state, String entry, Object value) throws Exception {
        if (large()) {
            Circle.count(part, state, entry, value);
        } else {
            Circle.show(part, state, entry, value);
        }
    }

    /** Shows all entries of a state, whatever their keys. */
    private void show(String name) throws Exception {
        KeyedStateBackend<Object> backend = getKeyedStateBackend();
        Set<Tuple2<Object, Object>> all = new LinkedHashSet<>();
        try (Stream<Tuple2<Object, Object>> found = backend.getKeysAndNamespaces(name)) {
            found.forEach(t -> all.add(Tuple2.of(t.f0, t.f1)));
        }
        for (Tuple2<Object, Object> at : all) {
            setCurrentKey(at.f0);
            Object value = read(name, at.f1);
            if (value != null) {
                show(name, entry(at.f1), Dice.show(value));
            }
        }
    }

    private Object read(String name, Object namespace) throws Exception {
        State s = state(name, namespace);
        if (s instanceof ValueState) {
            return ((ValueState<?>) s).value();
        } else if (s instanceof MapState) {
            Map<Object, Object> m = new LinkedHashMap<>();
            this.<MapState<Object, Object>>state(name, namespace).entries().forEach(e -> m.put(e.getKey(), e.getValue()));
            return m.isEmpty() ? null : m;
        } else if (s instanceof ListState) {
            List<Object> l = new ArrayList<>();
            Iterable<?> found = ((ListState<?>) s).get();
            if (found != null) {
                found.forEach(l::add);
            }
            return l.isEmpty() ? null : l;
        }
        return ((AppendingState<?, ?>) s).get();
    }

    // ------------------------------------------------------------------ what changes

    private void change() throws Exception {
        int index = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
        int parallelism = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
        int max = getRuntimeContext().getTaskInfo().getMaxNumberOfParallelSubtasks();
        List<?> namespaces = Circle.namespaces(part);
        for (int i = 0; i < Circle.keys(part); i++) {
            Object key = Circle.key(part, i);
            if (KeyGroupRangeAssignment.assignKeyToParallelOperator(key, max, parallelism) != index) {
                continue;
            }
            setCurrentKey(key);
            for (int j = 0; j < namespaces.size(); j++) {
                change(i, j, namespaces.get(j));
            }
        }
    }

    /** What happens to the state of the i-th key in the j-th namespace. */
    private void change(int i, int j, Object ns) throws Exception {
        switch ((i + j) % 4) {
            case 0:
                this.<ValueState<String>>state("value", ns).update("flink " + i + " " + j);
                this.<ListState<String>>state("list", ns).add("flink " + i);
                this.<MapState<Long, String>>state("map", ns).put((long) i, "flink");
                if (large()) {
                    return;
                }
                this.<MapState<Long, String>>state("map", ns).put(-1L, null);
                this.<ValueState<Long>>state("aged value", ns).update((long) i);
                this.<ListState<Long>>state("aged list", ns).addAll(List.of(1L, (long) i));
                this.<MapState<String, Long>>state("aged map", ns).put("flink", (long) i);
                for (String s : List.of("sum", "aged sum", "mean", "aged mean")) {
                    this.<AppendingState<Long, ?>>state(s, ns).add((long) i);
                }
                this.<ValueState<Jobs.Profile>>state("profile", ns).update(new Jobs.Profile(i, j));
                this.<ListState<BigDecimal>>state("decimals", ns).add(new BigDecimal(BigInteger.valueOf(i - 75), j));
                timers.registerEventTimeTimer(ns, Jobs.FAR_EVENT + i);
                timers.registerProcessingTimeTimer(ns, Jobs.FAR_PROC + i);
                break;
            case 1:
                for (String s : states.keySet()) {
                    this.<State>state(s, ns).clear();
                }
                for (int t = 0; t < 3; t++) {
                    timers.deleteEventTimeTimer(ns, Jobs.FAR_EVENT + t);
                    timers.deleteProcessingTimeTimer(ns, Jobs.FAR_PROC + t);
                }
                break;
            case 2:
                this.<ListState<String>>state("list", ns).update(List.of("x", "y"));
                this.<MapState<Long, String>>state("map", ns).remove(1L);
                if (!large()) {
                    this.<MapState<String, Long>>state("aged map", ns).remove("u");
                }
                break;
            default: // stays
        }
    }

    @Override
    public void processElement(StreamRecord<Jobs.Event> r) {}

    @Override
    public void onEventTime(InternalTimer<Object, Object> t) {}

    @Override
    public void onProcessingTime(InternalTimer<Object, Object> t) {}
}
