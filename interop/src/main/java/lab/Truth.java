package lab;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.IntUnaryOperator;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.graph.StreamGraph;
import org.apache.flink.streaming.api.graph.StreamGraphHasherV2;
import org.apache.flink.streaming.api.graph.StreamNode;

/** What the states must hold after R rounds, computed without Flink's state classes. */
final class Truth {
    private Truth() {}

    static final String VOID = "VoidNamespace";

    /** uid -> operator description with its states. */
    static Map<String, Object> operators(
            StreamExecutionEnvironment env, Collection<String> parts, int rounds, int firstParallelism, long checkpoint, boolean drained) {
        Map<String, Map<String, State>> states = new TreeMap<>();
        for (String part : parts) {
            states(part, rounds, firstParallelism, env.getParallelism(), checkpoint, states);
        }
        if (drained) { // the final watermark fired all windows and event-time timers
            states.forEach((uid, m) -> m.forEach((name, s) -> {
                if (uid.startsWith("win") || name.startsWith("_timer_state/event_")) {
                    s.entries.clear();
                    s.fired = null;
                }
            }));
        }
        StreamGraph graph = env.getStreamGraph(false);
        Map<Integer, byte[]> ids = new StreamGraphHasherV2().traverseStreamGraphAndGenerateHashes(graph);
        Map<String, Object> out = new TreeMap<>();
        for (StreamNode node : graph.getStreamNodes()) {
            String uid = node.getTransformationUID();
            String name = uid == null ? node.getOperatorName() : uid;
            Map<String, Object> op = new TreeMap<>();
            op.put("operatorId", java.util.HexFormat.of().formatHex(ids.get(node.getId())));
            op.put("uid", uid);
            op.put("name", node.getOperatorName());
            op.put("parallelism", node.getParallelism());
            op.put("maxParallelism", env.getMaxParallelism());
            op.put("states", states.getOrDefault(name, Map.of()));
            out.put(name, op);
        }
        return out;
    }

    /** Public fields: written as JSON. */
    public static final class State {
        public String kind; // value, list, map, reducing, aggregating, timers, operator-list, operator-union, ...
        public String keyType, namespaceType, valueType;
        public boolean ttl;
        public Map<String, Object> entries = new TreeMap<>();
        /** What comes out when the final watermark arrives, where that differs from the entries. */
        public Map<String, Object> fired;

        State(String kind, String keyType, String namespaceType, String valueType) {
            this.kind = kind;
            this.keyType = keyType;
            this.namespaceType = namespaceType;
            this.valueType = valueType;
        }
    }

    static State add(Map<String, Map<String, State>> to, String uid, String name, String kind, String key, String ns, String value) {
        State s = new State(kind, key, ns, value);
        to.computeIfAbsent(uid, u -> new TreeMap<>()).put(name, s);
        return s;
    }

    /** The rounds of key k that still count after the last delete. */
    private static List<Long> live(int k, int rounds) {
        List<Long> l = new ArrayList<>();
        for (long n = 0; n < rounds; n++) {
            if (new Jobs.Event(k, n).isDelete()) {
                l.clear();
            } else {
                l.add(n);
            }
        }
        return l;
    }

    private static long id(int k, long n) {
        return n * Jobs.KEYS + k;
    }

    /**
     * What the operators of a job of the parts kv-long and chaos hold at a checkpoint at which the splits had
     * emitted so many events: uid -> state name -> state.
     */
    static Map<String, Map<String, State>> at(long[] emitted, int parallelism, long checkpoint) {
        Map<String, Map<String, State>> to = new TreeMap<>();
        State splits = add(to, "src", "splits", "operator-list", null, null, "Tuple2<Integer,Long>");
        for (int s = 0; s < Jobs.SPLITS; s++) {
            splits.entries.put("" + s, emitted[s]);
        }
        // A split emits an event of each of its keys in turn.
        kvLong(k -> (int) ((emitted[k % Jobs.SPLITS] + Jobs.KEYS_PER_SPLIT - 1 - k / Jobs.SPLITS) / Jobs.KEYS_PER_SPLIT), to);
        chaos(parallelism, checkpoint, to);
        return to;
    }

    private static void states(String part, int rounds, int firstP, int p, long checkpoint, Map<String, Map<String, State>> to) {
        State splits = add(to, "src", "splits", "operator-list", null, null, "Tuple2<Integer,Long>");
        for (int s = 0; s < Jobs.SPLITS; s++) {
            splits.entries.put("" + s, rounds * Jobs.KEYS_PER_SPLIT);
        }
        switch (part) {
            case "kv-string": kvString(rounds, to); break;
            case "kv-long": kvLong(k -> rounds, to); break;
            case "kv-int": kvInt(rounds, to); break;
            case "kv-list": kvList(rounds, to); break;
            case "kv-types": kvTypes(rounds, to); break;
            case "kv-pojo":
                last(part, "Pojo(PojoKey)", true, k -> new Jobs.PojoKey(k).toString(), rounds, to);
                break;
            case "kv-tuple":
                last(part, "Tuple2<String,Long>", true, k -> Jobs.tupleKey(k).toString(), rounds, to);
                break;
            case "nouid": last(part, "String", false, Jobs::stringKey, rounds, to); break;
            case "win": window(rounds, to); break;
            case "win-session": session(rounds, to); break;
            case "opstate": opstate(rounds, to); break;
            case "flip27": flip27(firstP, p, to); break;
            case "chaos": chaos(p, checkpoint, to); break;
            case "raw":
            case "raw-op": raw(part, rounds, to); break;
            case "skew": skew(p, to); break;
            case "unicode": unicode(rounds, p, to); break;
            case "twopc": twopc(rounds, p, to); break;
            default:
                if (!Dice.states(part, rounds, to)) {
                    Compat.states(part, rounds, to); // or no state
                }
        }
    }

    private static void kvString(int rounds, Map<String, Map<String, State>> to) {
        String u = "kv-string", v = "VoidNamespace";
        State count = add(to, u, "count", "value", "String", v, "Long");
        State label = add(to, u, "label", "value", "String", v, "String");
        State events = add(to, u, "events", "list", "String", v, "Long");
        State bykind = add(to, u, "bykind", "map", "String", v, "String,Long");
        State sum = add(to, u, "sum", "reducing", "String", v, "Long");
        State avg = add(to, u, "avg", "aggregating", "String", v, "acc Tuple2<Long,Long>, shown f0/f1");
        State tv = add(to, u, "ttl-value", "value", "String", v, "Long");
        State tm = add(to, u, "ttl-map", "map", "String", v, "String,Long");
        tv.ttl = tm.ttl = true;
        State profile = add(to, u, "profile", "value", "String", v, "Pojo(Profile)");
        for (int k = 0; k < Jobs.KEYS; k++) {
            List<Long> live = live(k, rounds);
            if (live.isEmpty()) {
                continue;
            }
            String key = Jobs.stringKey(k);
            long lastN = live.get(live.size() - 1), total = 0;
            List<Long> ids = new ArrayList<>();
            Map<String, Long> kinds = new TreeMap<>(), ttl = new TreeMap<>();
            for (long n : live) {
                ids.add(id(k, n));
                total += id(k, n);
                kinds.merge("kind-" + n % 4, id(k, n), Long::sum);
                if (n % 5 == 4) {
                    kinds.remove("kind-" + (n + 1) % 4);
                }
                ttl.put("kind-" + n % 4, n);
            }
            count.entries.put(key, live.size());
            label.entries.put(key, "label-" + k + "-" + lastN);
            events.entries.put(key, ids);
            if (!kinds.isEmpty()) {
                bykind.entries.put(key, kinds);
            }
            sum.entries.put(key, total);
            avg.entries.put(key, total + "/" + live.size());
            tv.entries.put(key, id(k, lastN));
            tm.entries.put(key, ttl);
            profile.entries.put(key, new Jobs.Profile(k, lastN).json());
        }
    }

    private static void kvLong(IntUnaryOperator rounds, Map<String, Map<String, State>> to) {
        String u = "kv-long", v = "VoidNamespace";
        State last = add(to, u, "last", "value", "Long", v, "Long");
        State events = add(to, u, "events", "list", "Long", v, "Long");
        State bykind = add(to, u, "bykind", "map", "Long", v, "String,Long");
        State event = add(to, u, "_timer_state/event_user-timers", "timers", "Long", v, null);
        State proc = add(to, u, "_timer_state/processing_user-timers", "timers", "Long", v, null);
        for (int k = 0; k < Jobs.KEYS; k++) {
            List<Long> ids = new ArrayList<>();
            Map<String, Long> kinds = new TreeMap<>();
            java.util.TreeSet<Long> et = new java.util.TreeSet<>(), pt = new java.util.TreeSet<>();
            for (long n : live(k, rounds.applyAsInt(k))) {
                ids.add(id(k, n));
                kinds.put("kind-" + n % 4, n);
                et.add(Jobs.FAR_EVENT + k * 1000 + n % 3);
                pt.add(Jobs.FAR_PROC + k * 1000 + n % 2);
            }
            if (ids.isEmpty()) {
                continue;
            }
            String key = "" + Jobs.longKey(k);
            last.entries.put(key, ids.get(ids.size() - 1));
            events.entries.put(key, ids);
            bykind.entries.put(key, kinds);
            event.entries.put(key, et);
            proc.entries.put(key, pt);
        }
    }

    private static void kvInt(int rounds, Map<String, Map<String, State>> to) {
        String u = "kv-int";
        State value = add(to, u, "ns-value", "value", "Integer", "String", "Long");
        State event = add(to, u, "_timer_state/event_ns-timers", "timers", "Integer", "String", null);
        State proc = add(to, u, "_timer_state/processing_ns-timers", "timers", "Integer", "String", null);
        for (int k = 0; k < Jobs.KEYS; k++) {
            for (int n = 0; n < rounds; n++) {
                String key = Jobs.intKey(k) + "@" + (n % 2 == 0 ? "ns-a" : "ns-b");
                if (new Jobs.Event(k, n).isDelete()) {
                    value.entries.remove(key); // the timers stay
                    continue;
                }
                value.entries.put(key, id(k, n));
                event.entries.put(key, List.of(Jobs.FAR_EVENT + k));
                proc.entries.put(key, List.of(Jobs.FAR_PROC + k));
            }
        }
    }

    private static void kvList(int rounds, Map<String, Map<String, State>> to) {
        State numbers = add(to, "kv-list", "numbers", "list", "String", "VoidNamespace", "Long");
        State words = add(to, "kv-list", "words", "list", "String", "VoidNamespace", "String");
        for (int k = 0; k < Jobs.KEYS; k++) {
            List<Long> l = new ArrayList<>();
            List<String> w = new ArrayList<>();
            for (long n : live(k, rounds)) {
                for (int i = 0; i < 3; i++) {
                    l.add(id(k, n) * 10 + i);
                }
                w.add("w" + n + "-é");
            }
            if (!l.isEmpty()) {
                numbers.entries.put(Jobs.stringKey(k), l);
                words.entries.put(Jobs.stringKey(k), w);
            }
        }
    }

    private static void kvTypes(int rounds, Map<String, Map<String, State>> to) {
        Jobs.TypesFn.types().forEach((name, type) -> {
            State s = add(to, "kv-types", name, "value", "String", "VoidNamespace", type.toString());
            for (int k = 0; k < 6; k++) {
                s.entries.put(Jobs.stringKey(k), Jobs.TypesFn.json(Jobs.TypesFn.sample(name, k, rounds - 1)));
            }
        });
    }

    private static void last(String uid, String keyType, boolean withMap, java.util.function.IntFunction<String> key, int rounds, Map<String, Map<String, State>> to) {
        State last = add(to, uid, "last", "value", keyType, "VoidNamespace", "Long");
        State bykind = withMap ? add(to, uid, "bykind", "map", keyType, "VoidNamespace", "String,Long") : null;
        for (int k = 0; k < Jobs.KEYS; k++) {
            Map<String, Long> kinds = new TreeMap<>();
            for (long n : live(k, rounds)) {
                kinds.put("kind-" + n % 4, n);
                last.entries.put(key.apply(k), id(k, n));
            }
            if (withMap && !kinds.isEmpty()) {
                bykind.entries.put(key.apply(k), kinds);
            }
        }
    }

    private static void window(int rounds, Map<String, Map<String, State>> to) {
        State s = add(to, "win", "window-contents", "reducing", "String", "TimeWindow", "Tuple2<String,Long>, shown f1");
        State t = add(to, "win", "_timer_state/event_window-timers", "timers", "String", "TimeWindow", null);
        for (int k = 0; k < Jobs.KEYS; k++) {
            for (int n = 0; n < rounds; n++) {
                long ts = new Jobs.Event(k, n).ts, start = ts - ts % 60_000;
                String key = Jobs.stringKey(k) + "@" + start + ".." + (start + 60_000);
                s.entries.merge(key, id(k, n), (a, b) -> (Long) a + (Long) b);
                t.entries.put(key, List.of(start + 59_999));
            }
        }
    }

    private static void session(int rounds, Map<String, Map<String, State>> to) {
        String u = "win-session";
        State s = add(to, u, "window-contents", "aggregating", "String", "TimeWindow", "acc Long");
        s.fired = new TreeMap<>();
        State t = add(to, u, "_timer_state/event_window-timers", "timers", "String", "TimeWindow", null);
        State merging = add(to, u, "merging-window-set", "list", "String", "VoidNamespace",
                "Tuple2<TimeWindow,TimeWindow>: the window and the window under which its contents lie");
        for (int k = 0; k < Jobs.KEYS; k++) {
            List<String> windows = new ArrayList<>();
            for (int n = 0; n < rounds; n += 4) { // four events, 20 s apart, make a session
                int end = Math.min(rounds, n + 4);
                long sum = 0;
                for (int i = n; i < end; i++) {
                    sum += id(k, i);
                }
                long from = new Jobs.Event(k, n).ts, to30 = new Jobs.Event(k, end - 1).ts + 30_000;
                String window = from + ".." + to30, first = from + ".." + (from + 30_000);
                s.entries.put(Jobs.stringKey(k) + "@" + first, sum);
                s.fired.put(Jobs.stringKey(k) + "@" + window, sum);
                t.entries.put(Jobs.stringKey(k) + "@" + window, List.of(to30 - 1));
                windows.add(window + "," + first);
            }
            merging.entries.put(Jobs.stringKey(k), windows);
        }
    }

    private static void opstate(int rounds, Map<String, Map<String, State>> to) {
        State split = add(to, "opstate", "op-split", "operator-list", null, null, "Long");
        State union = add(to, "opstate", "op-union", "operator-union", null, null, "Tuple2<String,Long>, shown f0=f1");
        State bc = add(to, "opstate", "op-broadcast", "operator-broadcast", "String", null, "Long");
        List<Long> ids = new ArrayList<>();
        List<String> pairs = new ArrayList<>();
        for (int n = 0; n < rounds; n++) {
            for (int k = 0; k < Jobs.KEYS; k++) {
                if (k % 4 == 0) {
                    ids.add(id(k, n));
                }
                if (k % 12 == 1) {
                    pairs.add(Jobs.stringKey(k) + "=" + n);
                }
            }
        }
        ids.sort(null);
        pairs.sort(null);
        split.entries.put("", ids);
        union.entries.put("", pairs);
        for (long i = 0; i < 5; i++) {
            bc.entries.put("rule-" + i, i * i);
        }
    }

    /** Splits below the first run's parallelism were taken and read a little, those below p just taken. */
    private static void flip27(int firstP, int p, Map<String, Map<String, State>> to) {
        State reader = add(to, "flip27", "SourceReaderState", "operator-list", null, null, "NumberSequenceSplit (versioned bytes), shown from..to");
        State coord = add(to, "flip27", "(coordinator)", "coordinator", null, null, "remaining splits, shown from..to");
        for (int s = 0; s < Jobs.FLIP27_SPLITS; s++) {
            int from = s * 100, end = from + 99;
            if (s < Math.max(firstP, p)) {
                reader.entries.put("" + (s + 1), from + (s < firstP ? Jobs.FLIP27_EMIT : 0) + ".." + end);
            } else {
                coord.entries.put("" + (s + 1), from + ".." + end);
            }
        }
    }

    private static void chaos(int p, long checkpoint, Map<String, Map<String, State>> to) {
        List<Long> l = new ArrayList<>();
        for (int i = 0; i < p; i++) {
            l.add(checkpoint * 10 + i);
        }
        add(to, "chaos", "chaos", "operator-list", null, null, "Long, 8 bytes big endian, checkpoint id * 10 + subtask").entries.put("", l);
    }

    private static void raw(String part, int rounds, Map<String, Map<String, State>> to) {
        List<String> l = new ArrayList<>();
        Map<Integer, List<String>> groups = new TreeMap<>();
        for (int k = 0; k < Jobs.KEYS; k++) {
            long id = id(k, rounds - 1);
            if (k % 4 != 3) {
                l.add(Jobs.stringKey(k) + "=" + id);
            }
            groups.computeIfAbsent(Extra.group(k), g -> new ArrayList<>()).add(k + "=" + id);
        }
        l.sort(null);
        add(to, part, "(raw operator)", "raw-operator", null, null, "modified UTF-8 string (writeUTF) per partition").entries.put("", l);
        if (part.equals("raw")) {
            State keyed = add(to, part, "(raw keyed)", "raw-keyed", "key group", null, "int n, n times (int k, long id); shown k=id");
            groups.forEach((g, v) -> {
                if (g % 3 != 0) {
                    keyed.entries.put("" + g, v);
                }
            });
        }
    }

    private static void skew(int p, Map<String, Map<String, State>> to) {
        List<String> l = new ArrayList<>();
        for (int i = 0; i < p; i++) {
            for (int n : Extra.SkewFn.SIZES[i]) {
                l.add(Extra.SkewFn.show(Extra.SkewFn.blob(n)));
            }
        }
        l.sort(null);
        add(to, "skew", "blobs", "operator-list", null, null, "byte[], shown length and crc32").entries.put("", l);
    }

    private static void unicode(int rounds, int p, Map<String, Map<String, State>> to) {
        State value = add(to, Extra.UNI_UID, Extra.UNI_VALUE, "value", "String", VOID, "String");
        State list = add(to, Extra.UNI_UID, Extra.UNI_LIST, "list", "String", VOID, "String");
        State map = add(to, Extra.UNI_UID, Extra.UNI_LONG, "map", "String", VOID, "String,Long");
        State timers = add(to, Extra.UNI_UID, "_timer_state/event_user-timers", "timers", "String", VOID, null);
        for (int k = 0; k < Jobs.KEYS; k++) {
            List<String> l = new ArrayList<>();
            Map<String, Long> m = new TreeMap<>();
            for (long n = 0; n < rounds; n++) {
                if (n < 3) {
                    l.add("элемент " + n);
                }
                m.put("键 " + n % 3, id(k, n));
            }
            value.entries.put(Extra.uniKey(k), "wert ü 😀 " + id(k, rounds - 1));
            list.entries.put(Extra.uniKey(k), l);
            map.entries.put(Extra.uniKey(k), m);
            timers.entries.put(Extra.uniKey(k), List.of(Jobs.FAR_EVENT + k));
        }
        List<String> l = new ArrayList<>();
        for (int i = 0; i < p; i++) {
            l.add("строка " + i + " 😀");
        }
        add(to, Extra.UNI_OP, Extra.UNI_OPSTATE, "operator-list", null, null, "String").entries.put("", l);
        add(to, Extra.UNI_OP, Extra.UNI_BC, "operator-broadcast", "String", null, "Long").entries.put("правило 😀", 1);
    }

    private static void twopc(int rounds, int p, Map<String, Map<String, State>> to) {
        List<String> l = new ArrayList<>();
        for (int i = 0; i < p; i++) {
            int events = 0;
            long sum = 0;
            for (int k = 0; k < Jobs.KEYS; k++) {
                if (k % Jobs.SPLITS % p == i) {
                    for (long n = 0; n < rounds; n++) {
                        events++;
                        sum += id(k, n);
                    }
                }
            }
            l.add(Extra.TwoPcWriter.committable(i, events, sum));
        }
        l.sort(null);
        add(to, "Sink Committer: twopc", "streaming_committer_raw_states", "operator-list", null, null,
                "CommittableCollector versioned bytes, shown committables (UTF-8, serializer version 7)").entries.put("", l);
    }

    // ------------------------------------------------------------------ comparison

    /** Whether all windows and event-time timers of the truth have fired. */
    static boolean firedAll(JsonNode operators, JsonNode fired) {
        for (Map.Entry<String, JsonNode> op : fields(operators)) {
            for (Map.Entry<String, JsonNode> st : fields(op.getValue().get("states"))) {
                String uid = op.getKey(), name = st.getKey();
                boolean window = uid.startsWith("win") && name.equals("window-contents");
                JsonNode want = window && st.getValue().hasNonNull("fired") ? st.getValue().get("fired") : st.getValue().get("entries");
                if ((window || name.startsWith("_timer_state/event_") && !uid.startsWith("win"))
                        && fired.path(uid).path(name).size() < want.size()) {
                    return false;
                }
            }
        }
        return true;
    }

    /** Prints PASS or FAIL per state of the truth; returns the number of failures. */
    static int compare(JsonNode operators, JsonNode dump, JsonNode fired) {
        int failures = 0;
        for (Map.Entry<String, JsonNode> op : fields(operators)) {
            for (Map.Entry<String, JsonNode> st : fields(op.getValue().get("states"))) {
                String uid = op.getKey(), name = st.getKey();
                JsonNode want = st.getValue().get("entries");
                boolean window = uid.startsWith("win");
                if (window && !name.equals("window-contents")) {
                    continue; // shown by the windows firing once each, as they should
                }
                JsonNode got = window ? fired.path(uid).path(name) : dump.path(uid).path(name);
                if (window && st.getValue().hasNonNull("fired")) {
                    want = st.getValue().get("fired");
                }
                failures += report(uid, name + (window ? " (fired)" : ""), want, got);
                if (!window && name.startsWith("_timer_state/event_")) {
                    failures += report(uid, name + " (fired)", want, fired.path(uid).path(name));
                }
            }
        }
        return failures;
    }

    private static List<Map.Entry<String, JsonNode>> fields(JsonNode n) {
        List<Map.Entry<String, JsonNode>> l = new ArrayList<>();
        n.fields().forEachRemaining(l::add);
        return l;
    }

    /** How the dump differs from these states. */
    static List<String> differences(Map<String, Map<String, State>> operators, JsonNode dump) throws Exception {
        List<String> all = new ArrayList<>();
        for (Map.Entry<String, JsonNode> op : fields(Main.tree(operators))) {
            for (Map.Entry<String, JsonNode> st : fields(op.getValue())) {
                String uid = op.getKey(), name = st.getKey();
                differences(st.getValue().get("entries"), dump.path(uid).path(name)).forEach(d -> all.add(uid + " / " + name + ": " + d));
            }
        }
        return all;
    }

    private static List<String> differences(JsonNode want, JsonNode got) {
        List<String> diff = new ArrayList<>();
        for (Map.Entry<String, JsonNode> e : fields(want)) {
            if (!e.getValue().equals(got.path(e.getKey()))) {
                diff.add(e.getKey() + ": want " + e.getValue() + ", got " + got.get(e.getKey()));
            }
        }
        for (Map.Entry<String, JsonNode> e : fields(got)) {
            if (!want.has(e.getKey())) {
                diff.add(e.getKey() + ": unexpected " + e.getValue());
            }
        }
        return diff;
    }

    private static int report(String uid, String name, JsonNode want, JsonNode got) {
        List<String> diff = differences(want, got);
        System.out.println((diff.isEmpty() ? "PASS " : "FAIL ") + uid + " / " + name + " (" + want.size() + " entries)");
        diff.stream().limit(5).forEach(d -> System.out.println("     " + d));
        return diff.isEmpty() ? 0 : 1;
    }
}
