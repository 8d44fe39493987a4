package lab;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Function;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.BroadcastState;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.typeinfo.BasicArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.BasicTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.core.execution.CheckpointType;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.types.Either;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

/**
 * State with random content. What happens to it follows from a seed and the events alone: an operator does it to Flink's
 * state (DiceOperator), the model to maps. The truth shows values exactly: see show().
 */
final class Dice {
    private static final int SUB_KEYS = 40; // keys of an operator for every key of the events
    static final List<String> PARTS = List.of("dice-string", "dice-long", "dice-int", "dice-tuple", "dice-pojo", "dice-double", "dice-op");

    private Dice() {}

    static Random random(Object... of) {
        return new Random(Objects.hash(of) * 0x9E3779B97F4A7C15L);
    }

    // ------------------------------------------------------------------ types and values

    /** A type, and random values of it. */
    static final class Type {
        final String name;
        final TypeInformation<Object> info;
        final Function<Random, Object> make;

        @SuppressWarnings({"unchecked", "rawtypes"})
        Type(String name, TypeInformation info, Function<Random, Object> make) {
            this.name = name;
            this.info = info;
            this.make = make;
        }
    }

    private static final Type STRING = new Type("String", Types.STRING, Dice::string), LONG = new Type("Long", Types.LONG, Dice::number),
            INT = new Type("Integer", Types.INT, r -> (int) number(r)), PAIR = new Type("Tuple2<String,Long>", Types.TUPLE(Types.STRING, Types.LONG), r -> Tuple2.of(string(r), number(r)));

    private static final List<Type> TYPES = List.of(
            STRING, LONG, INT, PAIR,
            new Type("Boolean", Types.BOOLEAN, Random::nextBoolean),
            new Type("Byte", Types.BYTE, r -> (byte) number(r)),
            new Type("Short", Types.SHORT, r -> (short) number(r)),
            new Type("Float", Types.FLOAT, r -> r.nextInt(6) == 0 ? List.of(Float.NaN, -0f, Float.NEGATIVE_INFINITY, Float.MIN_VALUE).get(r.nextInt(4)) : Float.intBitsToFloat(r.nextInt())),
            new Type("Double", Types.DOUBLE, r -> r.nextInt(6) == 0 ? List.of(Double.NaN, -0d, Double.POSITIVE_INFINITY, Double.MAX_VALUE).get(r.nextInt(4)) : r.nextGaussian()),
            new Type("Character", Types.CHAR, r -> (char) r.nextInt(65536)),
            new Type("BigInteger", Types.BIG_INT, Dice::bigInteger),
            new Type("BigDecimal", Types.BIG_DEC, r -> new BigDecimal(bigInteger(r), r.nextInt(40) - 10)),
            new Type("Instant", Types.INSTANT, r -> Instant.ofEpochSecond((long) (r.nextGaussian() * 1e11), r.nextInt(1_000_000_000))),
            new Type("LocalDate", Types.LOCAL_DATE, Dice::date),
            new Type("LocalTime", Types.LOCAL_TIME, Dice::time),
            new Type("LocalDateTime", Types.LOCAL_DATE_TIME, r -> LocalDateTime.of(date(r), time(r))),
            new Type("java.util.Date", BasicTypeInfo.DATE_TYPE_INFO, r -> new java.util.Date(millis(r))),
            new Type("java.sql.Date", Types.SQL_DATE, r -> new java.sql.Date(millis(r))),
            new Type("java.sql.Time", Types.SQL_TIME, r -> new java.sql.Time(millis(r))),
            new Type("java.sql.Timestamp", Types.SQL_TIMESTAMP, r -> {
                java.sql.Timestamp t = new java.sql.Timestamp(millis(r));
                t.setNanos(r.nextInt(1_000_000_000));
                return t;
            }),
            new Type("byte[]", Types.PRIMITIVE_ARRAY(Types.BYTE), r -> {
                byte[] b = new byte[size(r)];
                r.nextBytes(b);
                return b;
            }),
            new Type("long[]", Types.PRIMITIVE_ARRAY(Types.LONG), r -> r.longs(r.nextInt(6)).toArray()),
            new Type("int[]", Types.PRIMITIVE_ARRAY(Types.INT), r -> r.ints(r.nextInt(6)).toArray()),
            new Type("double[]", Types.PRIMITIVE_ARRAY(Types.DOUBLE), r -> r.doubles(r.nextInt(6)).toArray()),
            new Type("String[]", BasicArrayTypeInfo.STRING_ARRAY_TYPE_INFO, r -> list(r, Dice::stringOrNull).toArray(String[]::new)),
            new Type("Tuple2[]", Types.OBJECT_ARRAY(PAIR.info), r -> list(r, x -> x.nextInt(4) == 0 ? null : PAIR.make.apply(x)).toArray(Tuple2[]::new)),
            new Type("List<BigDecimal>", Types.LIST(Types.BIG_DEC), r -> list(r, x -> new BigDecimal(bigInteger(x), x.nextInt(9)))),
            new Type("Map<String,Integer>", Types.MAP(Types.STRING, Types.INT), r -> {
                Map<String, Integer> m = new LinkedHashMap<>();
                for (int i = r.nextInt(5); i > 0; i--) {
                    m.put(string(r), r.nextInt(3) == 0 ? null : r.nextInt());
                }
                return m;
            }),
            new Type("Enum(Color)", Types.ENUM(Jobs.Color.class), r -> Jobs.Color.values()[r.nextInt(3)]),
            new Type("Tuple3<String,Integer,Double>", Types.TUPLE(Types.STRING, Types.INT, Types.DOUBLE), r -> Tuple3.of(string(r), r.nextInt(), r.nextDouble())),
            new Type("Either<String,Long>", Types.EITHER(Types.STRING, Types.LONG), r -> r.nextBoolean() ? Either.Left(string(r)) : Either.Right(number(r))),
            new Type("Row(a String, b Integer, c Row(d Long))",
                    Types.ROW_NAMED(new String[] {"a", "b", "c"}, Types.STRING, Types.INT, Types.ROW_NAMED(new String[] {"d"}, Types.LONG)), r -> {
                return Row.ofKind(RowKind.values()[r.nextInt(4)], stringOrNull(r), r.nextBoolean() ? null : r.nextInt(), r.nextBoolean() ? null : Row.of(number(r)));
            }),
            new Type("Pojo(Profile)", Types.POJO(Jobs.Profile.class), Dice::profile));

    /** Types whose serializer writes a null too; a map can hold null values of only these, whatever Flink's documentation says. */
    private static final List<String> NULLABLE = List.of("String", "BigInteger", "BigDecimal", "Instant", "LocalDate", "LocalTime",
            "LocalDateTime", "java.util.Date", "java.sql.Date", "java.sql.Time", "java.sql.Timestamp", "Pojo(Profile)");

    /** Sizes of texts and byte arrays: mostly small, some of more than 64 KiB. */
    private static int size(Random r) {
        return r.nextInt(2000) == 0 ? 60_000 + r.nextInt(20_000) : r.nextInt(20) == 0 ? r.nextInt(300) : r.nextInt(12);
    }

    private static String string(Random r) {
        StringBuilder b = new StringBuilder();
        int n = size(r), plane = r.nextInt(8);
        while (b.length() < n) {
            switch (plane) {
                case 0: b.append((char) r.nextInt(65536)); break; // lone surrogates too
                case 1: b.appendCodePoint(0x1F300 + r.nextInt(500)); break;
                case 2: b.append((char) r.nextInt(300)); break;
                default: b.append((char) (' ' + r.nextInt(95)));
            }
        }
        return b.toString();
    }

    private static String stringOrNull(Random r) {
        return r.nextInt(4) == 0 ? null : string(r);
    }

    private static long number(Random r) {
        return r.nextInt(10) == 0 ? List.of(0L, -1L, Long.MIN_VALUE, Long.MAX_VALUE).get(r.nextInt(4)) : r.nextLong() >> r.nextInt(64);
    }

    private static long millis(Random r) {
        return r.nextLong() >> 20;
    }

    private static BigInteger bigInteger(Random r) {
        BigInteger b = new BigInteger(r.nextInt(200), r);
        return r.nextBoolean() ? b : b.negate();
    }

    private static LocalDate date(Random r) {
        return LocalDate.of(r.nextInt(20_000) - 5_000, 1 + r.nextInt(12), 1 + r.nextInt(28));
    }

    private static LocalTime time(Random r) {
        return LocalTime.of(r.nextInt(24), r.nextInt(60), r.nextInt(60), r.nextInt(1_000_000_000));
    }

    private static Jobs.Profile profile(Random r) {
        Jobs.Profile p = new Jobs.Profile();
        p.name = stringOrNull(r);
        p.age = r.nextInt();
        p.score = r.nextBoolean() ? null : number(r);
        if (r.nextInt(3) > 0) {
            p.address = new Jobs.Address();
            p.address.city = stringOrNull(r);
            p.address.zip = r.nextInt();
        }
        return p;
    }

    private static <T> List<T> list(Random r, Function<Random, T> make) {
        List<T> l = new ArrayList<>();
        for (int i = r.nextInt(5); i > 0; i--) {
            l.add(make.apply(r));
        }
        return l;
    }

    /**
     * A value as the truth shows it. Text stands as it is, unless it holds a colon or half a surrogate pair; what JSON has no type
     * for is text with a colon: utf16:HEX, float:BITS, double:BITS, char:CODE, int:N, decimal:UNSCALED/SCALE, instant:SECOND/NANO,
     * date:Y/M/D, time:H/M/S/NANO, datetime:..., bytes:HEX.
     */
    static Object show(Object v) {
        if (v == null || v instanceof Boolean || v instanceof Byte || v instanceof Short || v instanceof Integer || v instanceof Long) {
            return v;
        } else if (v instanceof String) {
            return text((String) v);
        } else if (v instanceof Float) {
            return "float:" + Integer.toHexString(Float.floatToIntBits((Float) v));
        } else if (v instanceof Double) {
            return "double:" + Long.toHexString(Double.doubleToLongBits((Double) v));
        } else if (v instanceof Character) {
            return "char:" + (int) (Character) v;
        } else if (v instanceof BigInteger) {
            return "int:" + v;
        } else if (v instanceof BigDecimal) {
            return "decimal:" + ((BigDecimal) v).unscaledValue() + "/" + ((BigDecimal) v).scale();
        } else if (v instanceof Instant) {
            return "instant:" + ((Instant) v).getEpochSecond() + "/" + ((Instant) v).getNano();
        } else if (v instanceof java.sql.Timestamp) {
            return show(((java.sql.Timestamp) v).toInstant());
        } else if (v instanceof java.util.Date) {
            return show(Instant.ofEpochMilli(((java.util.Date) v).getTime()));
        } else if (v instanceof LocalDate) {
            LocalDate d = (LocalDate) v;
            return "date:" + d.getYear() + "/" + d.getMonthValue() + "/" + d.getDayOfMonth();
        } else if (v instanceof LocalTime) {
            LocalTime t = (LocalTime) v;
            return "time:" + t.getHour() + "/" + t.getMinute() + "/" + t.getSecond() + "/" + t.getNano();
        } else if (v instanceof LocalDateTime) {
            LocalDateTime t = (LocalDateTime) v;
            return "datetime:" + show(t.toLocalDate()).toString().substring(5) + "/" + show(t.toLocalTime()).toString().substring(5);
        } else if (v instanceof byte[]) {
            return "bytes:" + HexFormat.of().formatHex((byte[]) v);
        } else if (v instanceof Enum) {
            return ((Enum<?>) v).name();
        } else if (v instanceof Either) {
            Either<?, ?> e = (Either<?, ?>) v;
            return Collections.singletonMap(e.isLeft() ? "left" : "right", show(e.isLeft() ? e.left() : e.right()));
        } else if (v instanceof Map) {
            List<Object> l = new ArrayList<>();
            ((Map<?, ?>) v).forEach((k, x) -> l.add(pair(show(k), show(x))));
            return Map.of("map", l);
        } else if (v instanceof Jobs.Profile) {
            Jobs.Profile p = (Jobs.Profile) v;
            return fields("name", p.name, "age", p.age, "score", p.score, "address", p.address);
        } else if (v instanceof Jobs.Address) {
            return fields("city", ((Jobs.Address) v).city, "zip", ((Jobs.Address) v).zip);
        } else if (v instanceof Jobs.PojoKey) {
            return fields("tenant", ((Jobs.PojoKey) v).tenant, "id", ((Jobs.PojoKey) v).id);
        } else if (OldStates.pojo().isInstance(v)) {
            return OldStates.fields(v);
        } else if (v instanceof TimeWindow) {
            return ((TimeWindow) v).getStart() + ".." + ((TimeWindow) v).getEnd();
        }
        List<Object> l = new ArrayList<>();
        if (v instanceof Row) {
            for (int i = 0; i < ((Row) v).getArity(); i++) {
                l.add(show(((Row) v).getField(i)));
            }
            return Map.of("row", ((Row) v).getKind().shortString(), "fields", l);
        } else if (v instanceof Tuple) {
            for (int i = 0; i < ((Tuple) v).getArity(); i++) {
                l.add(show(((Tuple) v).getField(i)));
            }
        } else if (v instanceof List) {
            ((List<?>) v).forEach(e -> l.add(show(e)));
        } else {
            for (int i = 0; i < java.lang.reflect.Array.getLength(v); i++) {
                l.add(show(java.lang.reflect.Array.get(v, i)));
            }
        }
        return l;
    }

    private static List<Object> pair(Object a, Object b) {
        List<Object> l = new ArrayList<>();
        l.add(a);
        l.add(b);
        return l;
    }

    private static Map<String, Object> fields(Object... of) {
        Map<String, Object> m = new TreeMap<>();
        for (int i = 0; i < of.length; i += 2) {
            m.put((String) of[i], show(of[i + 1]));
        }
        return m;
    }

    private static String text(String s) {
        boolean plain = s.indexOf(':') < 0 && s.codePoints().noneMatch(c -> c >= 0xD800 && c < 0xE000);
        if (plain) {
            return s;
        }
        StringBuilder b = new StringBuilder("utf16:");
        s.chars().forEach(c -> b.append(String.format("%04x", c)));
        return b.toString();
    }

    /** A key as the name of a JSON field: text as it is, others as JSON. */
    static String name(Object key) {
        return key instanceof String ? text((String) key) : Main.JSON.valueToTree(show(key)).toString();
    }

    // ------------------------------------------------------------------ keys

    static Object key(String part, int id) {
        switch (part) {
            case "dice-string": return id == 0 ? "" : odd(id) + id;
            case "dice-long": return id * 0x9E3779B97F4A7C15L;
            case "dice-int": return id * 0x9E3779B1;
            case "dice-tuple": return Tuple2.of(odd(id % 7), (long) id);
            case "dice-pojo": return new Jobs.PojoKey(id);
            case "dice-double": return id / -8d;
            default: throw new IllegalArgumentException(part);
        }
    }

    private static String odd(int id) {
        return List.of("", "é", "\0", "日本", "😀", "\ud800", "x".repeat(300)).get(id % 7);
    }

    private static TypeInformation<?> keyType(String part) {
        switch (part) {
            case "dice-string": return Types.STRING;
            case "dice-long": return Types.LONG;
            case "dice-int": return Types.INT;
            case "dice-tuple": return Types.TUPLE(Types.STRING, Types.LONG);
            case "dice-pojo": return Types.POJO(Jobs.PojoKey.class);
            default: return Types.DOUBLE;
        }
    }

    /** The event's key in all parts; of every key of the events there are SUB_KEYS, so that the events of one come in order. */
    private static int id(Jobs.Event e) {
        return e.k + Jobs.KEYS * random(Ctl.seed, "id", e.k, e.n).nextInt(SUB_KEYS);
    }

    // ------------------------------------------------------------------ what happens

    /** A state of a part. */
    static final class Spec {
        final String name, kind;
        final Type userKey, value;
        final boolean ttl;
        final boolean windows; // the namespaces are windows

        Spec(String name, String kind, Type userKey, Type value, boolean ttl, boolean windows) {
            this.name = name;
            this.kind = kind;
            this.userKey = userKey;
            this.value = value;
            this.ttl = ttl;
            this.windows = windows;
        }
    }

    static Duration ttl() {
        return Duration.ofDays(36_500);
    }

    static boolean windows(String part) {
        return part.equals("dice-int");
    }

    /** The states of a part, by the seed. */
    static List<Spec> specs(String part) {
        Random r = random(Ctl.seed, "specs", part);
        List<Type> types = new ArrayList<>(TYPES);
        Collections.shuffle(types, r);
        List<Spec> l = new ArrayList<>();
        List<String> kinds = List.of("value", "value", "value", "value", "value", "list", "list", "map", "map", "reducing", "aggregating");
        for (String kind : kinds) {
            Type userKey = kind.equals("map") ? List.of(STRING, LONG, INT, PAIR).get(r.nextInt(4)) : null;
            Type value = kind.equals("reducing") ? LONG : kind.equals("aggregating") ? PAIR : types.get(l.size());
            l.add(new Spec(kind + " " + l.size() + " é", kind, userKey, value, r.nextInt(4) == 0, windows(part)));
        }
        return l;
    }

    /** Does things to the state of one key. */
    interface Store {
        void set(Spec s, Object namespace, Object value) throws Exception;

        void list(Spec s, Object namespace, List<Object> values, boolean replace) throws Exception;

        void put(Spec s, Object namespace, Object userKey, Object value) throws Exception;

        void remove(Spec s, Object namespace, Object userKey) throws Exception;

        void add(Spec s, Object namespace, long value) throws Exception;

        void clear(Spec s, Object namespace) throws Exception;

        void timer(Object namespace, boolean eventTime, long timestamp, boolean register) throws Exception;
    }

    /** What the event does to the state of its key. */
    static void apply(String part, List<Spec> specs, Jobs.Event e, Store to) throws Exception {
        Random r = random(Ctl.seed, part, e.k, e.n);
        Object namespace = null;
        for (Spec s : specs) {
            if (s.windows) {
                long start = Jobs.BASE + r.nextInt(3) * 60_000;
                namespace = new TimeWindow(start, start + 60_000);
            }
            if (r.nextInt(3) > 0) {
                continue;
            }
            boolean clear = r.nextInt(6) == 0;
            if (clear) {
                to.clear(s, namespace);
                continue;
            }
            switch (s.kind) {
                case "value": to.set(s, namespace, s.value.make.apply(r)); break;
                case "list": to.list(s, namespace, list(r, s.value.make), r.nextInt(4) == 0); break;
                case "map":
                    for (int i = r.nextInt(6); i >= 0; i--) {
                        Object key = s.userKey.make.apply(random(s.name, e.k, r.nextInt(8))); // often one that is there
                        if (r.nextInt(5) == 0) {
                            to.remove(s, namespace, key);
                        } else {
                            to.put(s, namespace, key, r.nextInt(4) == 0 && !s.ttl && NULLABLE.contains(s.value.name) ? null : s.value.make.apply(r));
                        }
                    }
                    break;
                default: to.add(s, namespace, number(r));
            }
        }
        for (int i = r.nextInt(4); i > 0; i--) {
            boolean event = r.nextBoolean();
            to.timer(namespace, event, (event ? Jobs.FAR_EVENT : Jobs.FAR_PROC) + r.nextInt(4), r.nextInt(3) > 0);
        }
    }

    /** The model: what the states of a part hold, as the truth shows it. */
    private static final class Model implements Store {
        final Map<String, Truth.State> states = new TreeMap<>();
        final Map<String, TreeMap<String, List<Object>>> maps = new TreeMap<>(); // entries by entry and user key
        private final Truth.State event, processing;
        String key;

        Model(String part, Map<String, Map<String, Truth.State>> to) {
            String type = keyType(part).toString(), namespace = windows(part) ? "TimeWindow" : Truth.VOID;
            for (Spec s : specs(part)) {
                Truth.State st = Truth.add(to, part, s.name, s.kind, type, namespace, s.userKey == null ? s.value.name : s.userKey.name + "," + s.value.name);
                st.ttl = s.ttl;
                states.put(s.name, st);
            }
            event = Truth.add(to, part, "_timer_state/event_dice", "timers", type, namespace, null);
            processing = Truth.add(to, part, "_timer_state/processing_dice", "timers", type, namespace, null);
        }

        private String entry(Object namespace) {
            return namespace == null ? key : key + "@" + show(namespace);
        }

        private Map<String, Object> of(Spec s) {
            return states.get(s.name).entries;
        }

        @Override
        public void set(Spec s, Object namespace, Object value) {
            of(s).put(entry(namespace), show(value));
        }

        @Override
        @SuppressWarnings("unchecked")
        public void list(Spec s, Object namespace, List<Object> values, boolean replace) {
            if (replace) {
                clear(s, namespace);
            }
            if (!values.isEmpty()) {
                ((List<Object>) of(s).computeIfAbsent(entry(namespace), k -> new ArrayList<>())).addAll((List<Object>) show(values));
            }
        }

        private TreeMap<String, List<Object>> map(Spec s, Object namespace) {
            return maps.computeIfAbsent(s.name + "/" + entry(namespace), k -> new TreeMap<>());
        }

        private void changed(Spec s, Object namespace, TreeMap<String, List<Object>> m) {
            if (m.isEmpty()) {
                of(s).remove(entry(namespace));
            } else {
                of(s).put(entry(namespace), Map.of("map", new ArrayList<>(m.values())));
            }
        }

        @Override
        public void put(Spec s, Object namespace, Object userKey, Object value) {
            TreeMap<String, List<Object>> m = map(s, namespace);
            m.put(name(userKey), pair(show(userKey), show(value)));
            changed(s, namespace, m);
        }

        @Override
        public void remove(Spec s, Object namespace, Object userKey) {
            TreeMap<String, List<Object>> m = map(s, namespace);
            m.remove(name(userKey));
            changed(s, namespace, m);
        }

        @Override
        public void add(Spec s, Object namespace, long value) {
            if (s.kind.equals("reducing")) {
                of(s).merge(entry(namespace), value, (a, b) -> (Long) a + (Long) b);
            } else {
                of(s).compute(entry(namespace), (k, was) -> DiceOperator.Mix.show(was, value));
            }
        }

        @Override
        public void clear(Spec s, Object namespace) {
            of(s).remove(entry(namespace));
            maps.remove(s.name + "/" + entry(namespace));
        }

        @Override
        @SuppressWarnings("unchecked")
        public void timer(Object namespace, boolean eventTime, long timestamp, boolean register) {
            Map<String, Object> entries = (eventTime ? event : processing).entries;
            TreeSet<Long> set = (TreeSet<Long>) entries.computeIfAbsent(entry(namespace), k -> new TreeSet<Long>());
            if (register) {
                set.add(timestamp);
            } else {
                set.remove(timestamp);
            }
            if (set.isEmpty()) {
                entries.remove(entry(namespace));
            }
        }
    }

    // ------------------------------------------------------------------ operator state

    /** List, union list and broadcast state. */
    static class Op extends RichMapFunction<Jobs.Event, Jobs.Event> implements CheckpointedFunction {
        private transient ListState<Object> split, union;

        static List<Type> types() {
            List<Type> types = new ArrayList<>(TYPES);
            Collections.shuffle(types, random(Ctl.seed, "op"));
            return types;
        }

        static Map<Object, Object> rules() {
            Random r = random(Ctl.seed, "rules");
            Map<Object, Object> m = new LinkedHashMap<>();
            for (int i = r.nextInt(30); i > 0; i--) {
                m.put(string(r), types().get(2).make.apply(r));
            }
            return m;
        }

        static Object element(Jobs.Event e, int state) {
            Random r = random(Ctl.seed, "element", e.k, e.n, state);
            return r.nextInt(3) == 0 ? null : types().get(state).make.apply(r);
        }

        @Override
        @SuppressWarnings({"unchecked", "rawtypes"})
        public void initializeState(FunctionInitializationContext ctx) throws Exception {
            List<Type> types = types();
            split = ctx.getOperatorStateStore().getListState(new ListStateDescriptor<>("split", types.get(0).info));
            union = ctx.getOperatorStateStore().getUnionListState(new ListStateDescriptor<>("union", types.get(1).info));
            BroadcastState<Object, Object> rules = ctx.getOperatorStateStore().getBroadcastState(
                    new MapStateDescriptor<>("rules", (TypeInformation) Types.STRING, types.get(2).info));
            rules.putAll(rules());
        }

        @Override
        public void snapshotState(FunctionSnapshotContext ctx) {}

        @Override
        public Jobs.Event map(Jobs.Event e) throws Exception {
            Object a = element(e, 0), b = element(e, 1);
            if (a != null) {
                split.add(a);
            }
            if (b != null) {
                union.add(b);
            }
            return e;
        }
    }

    private static void op(int rounds, Map<String, Map<String, Truth.State>> to) {
        List<Type> types = Op.types();
        List<Object> split = new ArrayList<>(), union = new ArrayList<>();
        events(rounds, e -> {
            Object a = Op.element(e, 0), b = Op.element(e, 1);
            if (a != null) {
                split.add(show(a));
            }
            if (b != null) {
                union.add(show(b));
            }
        });
        Truth.add(to, "dice-op", "split", "operator-list", null, null, types.get(0).name).entries.put("", split);
        Truth.add(to, "dice-op", "union", "operator-union", null, null, types.get(1).name).entries.put("", union);
        Truth.State rules = Truth.add(to, "dice-op", "rules", "operator-broadcast", "String", null, types.get(2).name);
        Op.rules().forEach((k, v) -> rules.entries.put(name(k), show(v)));
    }

    // ------------------------------------------------------------------ the job, its truth, and the cases

    private interface Visit {
        void event(Jobs.Event e) throws Exception;
    }

    private static void events(int rounds, Visit visit) {
        for (int n = 0; n < rounds; n++) {
            for (int k = 0; k < Jobs.KEYS; k++) {
                try {
                    visit.event(new Jobs.Event(k, n));
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
            }
        }
    }

    /** Adds a part to the job; false if it is none of these. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    static boolean build(DataStream<Jobs.Event> src, String part) {
        if (!PARTS.contains(part)) {
            return false;
        }
        if (part.equals("dice-op")) {
            src.partitionCustom((Integer k, int p) -> k % p, e -> e.k).map(new Op()).returns(Jobs.Event.class).name(part).uid(part);
        } else {
            src.keyBy(e -> key(part, id(e)), (TypeInformation) keyType(part)).transform(part, Types.VOID, new DiceOperator(part)).uid(part);
        }
        return true;
    }

    /** The truth of a part; false if it is none of these. */
    static boolean states(String part, int rounds, Map<String, Map<String, Truth.State>> to) {
        if (!PARTS.contains(part)) {
            return false;
        }
        if (part.equals("dice-op")) {
            op(rounds, to);
            return true;
        }
        List<Spec> specs = specs(part);
        Model model = new Model(part, to);
        events(rounds, e -> {
            model.key = name(key(part, id(e)));
            apply(part, specs, e, model);
        });
        return true;
    }

    /** Jobs with all parts on every backend, with settings by the seed. */
    static List<Cases.Case> cases(long seed) {
        Ctl.seed = seed;
        List<Cases.Case> l = new ArrayList<>();
        Random r = random(seed, "cases");
        for (String name : List.of("hashmap", "hashmap-2", "rocksdb", "rocksdb-2", "rocksdb-full")) {
            boolean rocks = name.startsWith("rocksdb");
            int many = rocks ? 32768 : 1000; // on the heap each key group of each state has a table
            int max = List.of(1 + r.nextInt(8), 128, 129 + r.nextInt(400), 1 + r.nextInt(many)).get(r.nextInt(4));
            Cases.Case c = Cases.add(l, "random-" + name, PARTS, rocks ? Dice::rocksdb : Dice::hashmap)
                    .backend(rocks ? "rocksdb" : "hashmap").conf(Cases.INCR, "" + !name.endsWith("full")).conf(Cases.RETAINED, "20")
                    .conf("pipeline.max-parallelism", "" + max).conf("parallelism.default", "" + (1 + r.nextInt(Math.min(4, max))))
                    .conf("execution.checkpointing.snapshot-compression", "" + r.nextBoolean())
                    .conf("state.backend.rocksdb.timer-service.factory", r.nextBoolean() ? "HEAP" : "ROCKSDB")
                    .inline(List.of("0b", "20kb", "1mb").get(r.nextInt(3)));
            c.extra.put("seed", seed);
        }
        Cases.add(l, "one-key", List.of("kv-long", "kv-string", "kv-pojo"), Dice::oneKey).backend("rocksdb").conf(Cases.INCR, "true").conf(Cases.RETAINED, "20");
        return l;
    }

    private static void checkpoint(Cases.Case c, Run run, int rounds) throws Exception {
        run.advance(rounds);
        c.took(run, run.checkpoint(c.ckptDir(), CheckpointType.CONFIGURED), rounds, "checkpoint");
    }

    private static void savepoint(Cases.Case c, Run run, int rounds, SavepointFormatType format) throws Exception {
        run.advance(rounds);
        c.took(run, run.savepoint(c.dir.getPath(), format), rounds, "savepoint --type " + format);
    }

    private static void hashmap(Cases.Case c) throws Exception {
        try (Run run = c.run(1, null, null).submit()) {
            savepoint(c, run, 6, SavepointFormatType.CANONICAL);
            savepoint(c, run, 10, SavepointFormatType.NATIVE);
            checkpoint(c, run, 14);
            run.cancel();
        }
    }

    /** Many checkpoints, so that there are tables of several ages, with merge operands and deletions. */
    private static void rocksdb(Cases.Case c) throws Exception {
        try (Run run = c.run(1, null, null).submit()) {
            for (int rounds : List.of(4, 8, 11, 13, 15)) {
                checkpoint(c, run, rounds);
            }
            savepoint(c, run, 15, SavepointFormatType.CANONICAL);
            boolean lost = c.conf.get("state.backend.rocksdb.timer-service.factory").equals("HEAP"); // see README.md
            savepoint(c, run, 16, lost ? SavepointFormatType.CANONICAL : SavepointFormatType.NATIVE);
            run.cancel();
        }
    }

    /** A savepoint and a checkpoint of the same content, and a checkpoint after one event, which is of the first key. */
    private static void oneKey(Cases.Case c) throws Exception {
        try (Run run = c.run(1, null, null).submit()) {
            checkpoint(c, run, 3);
            checkpoint(c, run, 5);
            savepoint(c, run, 5, SavepointFormatType.CANONICAL);
            long before = Ctl.counted("src");
            Ctl.extra = 1;
            Run.await("one event", () -> Ctl.counted("src") == before + 1);
            String path = run.checkpoint(c.ckptDir(), CheckpointType.CONFIGURED);
            c.extra.put("afterOneEvent", path.substring(c.dir.getPath().length() + 1));
            run.cancel();
        }
    }
}
