package lab;

import java.util.List;
import java.util.Map;
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
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.runtime.state.VoidNamespaceSerializer;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.InternalTimer;
import org.apache.flink.streaming.api.operators.InternalTimerService;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.Triggerable;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/** Does to Flink's state what {@link Dice#apply} says. */
class DiceOperator extends AbstractStreamOperator<Void>
        implements OneInputStreamOperator<Jobs.Event, Void>, Triggerable<Object, Object>, Dice.Store {
    private final String part;
    private transient List<Dice.Spec> specs;
    private transient Map<Dice.Spec, StateDescriptor<?, ?>> descriptors;
    private transient InternalTimerService<Object> timers;

    DiceOperator(String part) {
        this.part = part;
    }

    /** Collects the numbers as text, and their sum. */
    static final class Mix implements AggregateFunction<Long, Tuple2<String, Long>, Long> {
        @Override
        public Tuple2<String, Long> createAccumulator() {
            return Tuple2.of("", 0L);
        }

        @Override
        public Tuple2<String, Long> add(Long v, Tuple2<String, Long> acc) {
            return Tuple2.of(acc.f0 + v + ";", acc.f1 + v);
        }

        @Override
        public Long getResult(Tuple2<String, Long> acc) {
            return acc.f1;
        }

        @Override
        public Tuple2<String, Long> merge(Tuple2<String, Long> a, Tuple2<String, Long> b) {
            return Tuple2.of(a.f0 + b.f0, a.f1 + b.f1);
        }

        /** The accumulator after one more number, both as the truth shows them. */
        static Object show(Object was, long v) {
            List<?> acc = was == null ? List.of("", 0L) : (List<?>) was;
            return List.of(acc.get(0) + "" + v + ";", (Long) acc.get(1) + v);
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static StateDescriptor<?, ?> descriptor(Dice.Spec s) {
        StateDescriptor<?, ?> d;
        switch (s.kind) {
            case "value": d = new ValueStateDescriptor<>(s.name, s.value.info); break;
            case "list": d = new ListStateDescriptor<>(s.name, s.value.info); break;
            case "map": d = new MapStateDescriptor<>(s.name, s.userKey.info, s.value.info); break;
            case "reducing": d = new ReducingStateDescriptor<>(s.name, Long::sum, Types.LONG); break;
            default: d = new AggregatingStateDescriptor<>(s.name, new Mix(), (TypeInformation) s.value.info);
        }
        if (s.ttl) {
            d.enableTimeToLive(StateTtlConfig.newBuilder(Dice.ttl()).build());
        }
        return d;
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private TypeSerializer<Object> namespaces() {
        return Dice.windows(part) ? (TypeSerializer) new TimeWindow.Serializer() : (TypeSerializer) VoidNamespaceSerializer.INSTANCE;
    }

    @SuppressWarnings("unchecked")
    private <S extends State> S state(Dice.Spec s, Object namespace) throws Exception {
        return getPartitionedState(namespace == null ? VoidNamespace.INSTANCE : namespace, namespaces(), (StateDescriptor<S, ?>) descriptors.get(s));
    }

    @Override
    public void open() throws Exception {
        super.open();
        specs = Dice.specs(part);
        descriptors = new java.util.HashMap<>();
        for (Dice.Spec s : specs) {
            descriptors.put(s, descriptor(s));
            state(s, s.windows ? new TimeWindow(0, 1) : null);
        }
        timers = getInternalTimerService("dice", namespaces(), this);
    }

    @Override
    public void processElement(StreamRecord<Jobs.Event> r) throws Exception {
        Dice.apply(part, specs, r.getValue(), this);
    }

    @Override
    public void set(Dice.Spec s, Object namespace, Object value) throws Exception {
        this.<ValueState<Object>>state(s, namespace).update(value);
    }

    @Override
    public void list(Dice.Spec s, Object namespace, List<Object> values, boolean replace) throws Exception {
        ListState<Object> l = state(s, namespace);
        if (replace) {
            l.update(values);
        } else if (values.size() == 1) {
            l.add(values.get(0));
        } else {
            l.addAll(values);
        }
    }

    @Override
    public void put(Dice.Spec s, Object namespace, Object userKey, Object value) throws Exception {
        this.<MapState<Object, Object>>state(s, namespace).put(userKey, value);
    }

    @Override
    public void remove(Dice.Spec s, Object namespace, Object userKey) throws Exception {
        this.<MapState<Object, Object>>state(s, namespace).remove(userKey);
    }

    @Override
    public void add(Dice.Spec s, Object namespace, long value) throws Exception {
        this.<AppendingState<Long, ?>>state(s, namespace).add(value);
    }

    @Override
    public void clear(Dice.Spec s, Object namespace) throws Exception {
        this.<State>state(s, namespace).clear();
    }

    @Override
    public void timer(Object namespace, boolean eventTime, long timestamp, boolean register) {
        Object ns = namespace == null ? VoidNamespace.INSTANCE : namespace;
        if (eventTime && register) {
            timers.registerEventTimeTimer(ns, timestamp);
        } else if (eventTime) {
            timers.deleteEventTimeTimer(ns, timestamp);
        } else if (register) {
            timers.registerProcessingTimeTimer(ns, timestamp);
        } else {
            timers.deleteProcessingTimeTimer(ns, timestamp);
        }
    }

    @Override
    public void onEventTime(InternalTimer<Object, Object> t) {}

    @Override
    public void onProcessingTime(InternalTimer<Object, Object> t) {}
}
