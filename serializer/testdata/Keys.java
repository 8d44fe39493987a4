import java.io.ByteArrayOutputStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.base.*;
import org.apache.flink.api.common.typeutils.base.array.*;
import org.apache.flink.api.java.tuple.*;
import org.apache.flink.api.java.typeutils.runtime.*;
import org.apache.flink.core.memory.DataOutputViewStreamWrapper;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.runtime.state.VoidNamespaceSerializer;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.runtime.state.ttl.TtlStateFactory;
import org.apache.flink.runtime.state.ttl.TtlValue;
import org.apache.flink.streaming.api.operators.TimerHeapInternalTimer;
import org.apache.flink.streaming.api.operators.TimerSerializer;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.streaming.api.windowing.windows.GlobalWindow;
import org.apache.flink.table.data.*;
import org.apache.flink.table.data.binary.BinaryRowData;
import org.apache.flink.table.runtime.typeutils.RowDataSerializer;
import org.apache.flink.table.types.logical.*;
import org.apache.flink.types.Either;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

/** Writes keys as real Flink serializes and hashes them; how to run it: README.md. */
public class Keys {
    enum Color { RED, GREEN, BLUE }

    /** A POJO of every kind of field. */
    public static class Event {
        public String name;
        public long count;
        public Integer boxed;
        public Color color;
        public Tuple2<String, Long> pair;

        public Event() {}

        Event(String name, long count, Integer boxed, Color color, Tuple2<String, Long> pair) {
            this.name = name;
            this.count = count;
            this.boxed = boxed;
            this.color = color;
            this.pair = pair;
        }

        @Override
        public int hashCode() {
            return java.util.Objects.hash(name, count);
        }
    }

    static String hex(byte[] b) {
        return b.length == 0 ? "-" : HexFormat.of().formatHex(b);
    }

    /** NAME TAB SNAPSHOT TAB VALUE TAB HASH TAB GROUP128 TAB GROUP32768 */
    @SafeVarargs
    static <T> void emit(String name, TypeSerializer<T> s, T... values) throws Exception {
        ByteArrayOutputStream snap = new ByteArrayOutputStream();
        TypeSerializerSnapshot.writeVersionedSnapshot(new DataOutputViewStreamWrapper(snap), s.snapshotConfiguration());
        for (T v : values) {
            ByteArrayOutputStream b = new ByteArrayOutputStream();
            s.serialize(v, new DataOutputViewStreamWrapper(b));
            String groups = "-\t-\t-";
            if (v != null && !v.getClass().isArray() && !(v instanceof Enum) && !(v instanceof TtlValue)) { // those have no stable hash
                groups = v.hashCode()
                        + "\t" + KeyGroupRangeAssignment.assignToKeyGroup(v, 128)
                        + "\t" + KeyGroupRangeAssignment.assignToKeyGroup(v, 32768);
            }
            System.out.println(name + "\t" + hex(snap.toByteArray()) + "\t" + hex(b.toByteArray()) + "\t" + groups);
        }
    }

    static <T> TypeSerializer<T> of(TypeInformation<T> t) {
        return t.createSerializer(new org.apache.flink.api.common.serialization.SerializerConfigImpl());
    }

    static Row row(RowKind kind, Object... fields) {
        Row r = new Row(kind, fields.length);
        for (int i = 0; i < fields.length; i++) {
            r.setField(i, fields[i]);
        }
        return r;
    }

    static <K, V> Map<K, V> map(K k, V v, K k2, V v2) {
        Map<K, V> m = new LinkedHashMap<>();
        m.put(k, v);
        m.put(k2, v2);
        return m;
    }

    public static void main(String[] args) throws Exception {
        Random r = new Random(1);
        String[] strings = {
            "", "a", "hello", "key-1", "user-4711", "\u00dcn\u00efc\u00f6d\u00e9", "\u65e5\u672c\u8a9e", "\ud83d\ude00",
            "\0", "\u007f\u0080\u07ff\u0800\u3fff\u4000\uffff", "\ud800", "\udc00\ud800", "x".repeat(200)
        };
        emit("String", StringSerializer.INSTANCE, strings);
        long[] longs = {
            0, 1, -1, 42, 4294967296L, 4294967295L, Long.MIN_VALUE, Long.MAX_VALUE, 1234567890123L, r.nextLong(), r.nextLong(), r.nextLong()
        };
        for (long l : longs) {
            emit("Long", LongSerializer.INSTANCE, l);
            emit("Integer", IntSerializer.INSTANCE, (int) l);
            emit("Short", ShortSerializer.INSTANCE, (short) l);
            emit("Byte", ByteSerializer.INSTANCE, (byte) l);
            emit("Character", CharSerializer.INSTANCE, (char) l);
            emit("LongValue", LongValueSerializer.INSTANCE, new org.apache.flink.types.LongValue(l));
            emit("IntValue", IntValueSerializer.INSTANCE, new org.apache.flink.types.IntValue((int) l));
            emit("ShortValue", ShortValueSerializer.INSTANCE, new org.apache.flink.types.ShortValue((short) l));
            emit("ByteValue", ByteValueSerializer.INSTANCE, new org.apache.flink.types.ByteValue((byte) l));
            emit("CharValue", CharValueSerializer.INSTANCE, new org.apache.flink.types.CharValue((char) l));
            if (l != Long.MIN_VALUE) { // which stands for null
                emit("Date", DateSerializer.INSTANCE, new java.util.Date(l));
                emit("sql.Date", SqlDateSerializer.INSTANCE, new java.sql.Date(l));
                emit("sql.Time", SqlTimeSerializer.INSTANCE, new java.sql.Time(l));
            }
            java.sql.Timestamp ts = new java.sql.Timestamp(l % 100_000_000_000_000L);
            emit("sql.Timestamp", SqlTimestampSerializer.INSTANCE, ts);
            ts = new java.sql.Timestamp(l % 100_000_000_000_000L);
            ts.setNanos(987654321);
            emit("sql.Timestamp", SqlTimestampSerializer.INSTANCE, ts);
            emit("BigInteger", BigIntSerializer.INSTANCE, BigInteger.valueOf(l), BigInteger.valueOf(l).pow(3), BigInteger.valueOf(l).negate());
            for (int scale : new int[] {0, 2, -3}) {
                emit("BigDecimal", BigDecSerializer.INSTANCE, new BigDecimal(BigInteger.valueOf(l), scale), new BigDecimal(BigInteger.valueOf(l).pow(2), scale));
            }
        }
        emit("BigInteger", BigIntSerializer.INSTANCE, BigInteger.ZERO, BigInteger.ONE, BigInteger.TWO, BigInteger.TEN, BigInteger.valueOf(128), BigInteger.valueOf(-128), new BigInteger("123456789012345678901234567890"));
        emit("BigDecimal", BigDecSerializer.INSTANCE, new BigDecimal("1.50"), new BigDecimal("1.5"), new BigDecimal("-1E+5"), BigDecimal.ZERO);
        emit("Boolean", BooleanSerializer.INSTANCE, true, false);
        emit("BooleanValue", BooleanValueSerializer.INSTANCE, new org.apache.flink.types.BooleanValue(true), new org.apache.flink.types.BooleanValue(false));
        double[] doubles = {0.0, -0.0, 1.5, 3.14, -1e300, Double.NaN, Double.longBitsToDouble(0xfff8000000000001L), Double.POSITIVE_INFINITY, Double.MIN_VALUE};
        for (double d : doubles) {
            emit("Double", DoubleSerializer.INSTANCE, d);
            emit("Float", FloatSerializer.INSTANCE, (float) d);
            emit("DoubleValue", DoubleValueSerializer.INSTANCE, new org.apache.flink.types.DoubleValue(d));
            emit("FloatValue", FloatValueSerializer.INSTANCE, new org.apache.flink.types.FloatValue((float) d));
        }
        for (String s : strings) {
            emit("StringValue", StringValueSerializer.INSTANCE, new org.apache.flink.types.StringValue(s));
        }
        emit("NullValue", NullValueSerializer.INSTANCE, org.apache.flink.types.NullValue.getInstance());
        emit("Void", VoidSerializer.INSTANCE, (Void) null);
        emit("VoidNamespace", VoidNamespaceSerializer.INSTANCE, VoidNamespace.INSTANCE);
        emit("TimeWindow", new TimeWindow.Serializer(), new TimeWindow(1000, 2000), new TimeWindow(-5, Long.MAX_VALUE));
        emit("GlobalWindow", new GlobalWindow.Serializer(), GlobalWindow.get());
        emit("Instant", InstantSerializer.INSTANCE, Instant.EPOCH, Instant.ofEpochSecond(1700000000L, 123456789), Instant.ofEpochSecond(-1, 999999999), Instant.MAX);
        LocalDate[] dates = {LocalDate.of(2024, 2, 29), LocalDate.of(1970, 1, 1), LocalDate.of(-5, 1, 1), LocalDate.MAX, LocalDate.MIN};
        LocalTime[] times = {LocalTime.MIDNIGHT, LocalTime.of(12, 34, 56, 789000000), LocalTime.MAX};
        emit("LocalDate", LocalDateSerializer.INSTANCE, dates);
        emit("LocalTime", LocalTimeSerializer.INSTANCE, times);
        for (LocalDate d : dates) {
            for (LocalTime t : times) {
                emit("LocalDateTime", LocalDateTimeSerializer.INSTANCE, LocalDateTime.of(d, t));
            }
        }

        TypeSerializer<Tuple2<String, Integer>> t2 = of(Types.TUPLE(Types.STRING, Types.INT));
        emit("Tuple2<String, Integer>", t2, Tuple2.of("a", 1), Tuple2.of("", -1));
        emit("Tuple3<Integer, String, Double>", (TypeSerializer<Tuple3<Integer, String, Double>>) (TypeSerializer) of(Types.TUPLE(Types.INT, Types.STRING, Types.DOUBLE)), Tuple3.of(1, "b", 2.5));
        emit("Tuple1<Long>", (TypeSerializer<Tuple1<Long>>) (TypeSerializer) of(Types.TUPLE(Types.LONG)), Tuple1.of(7L));
        emit("Tuple4<Integer...>", (TypeSerializer<Tuple4<Integer, Integer, Integer, Integer>>) (TypeSerializer) of(Types.TUPLE(Types.INT, Types.INT, Types.INT, Types.INT)), Tuple4.of(1, 2, 3, 4));
        emit("Tuple5", (TypeSerializer<Tuple5<String, Long, Boolean, Short, Byte>>) (TypeSerializer) of(Types.TUPLE(Types.STRING, Types.LONG, Types.BOOLEAN, Types.SHORT, Types.BYTE)), Tuple5.of("q", 7L, true, (short) -3, (byte) 9));
        emit("Tuple2<Tuple2<String, Integer>, Long>", (TypeSerializer<Tuple2<Tuple2<String, Integer>, Long>>) (TypeSerializer) of(Types.TUPLE(Types.TUPLE(Types.STRING, Types.INT), Types.LONG)), Tuple2.of(Tuple2.of("x", 3), 4L));
        emit("Tuple0", Tuple0Serializer.INSTANCE, Tuple0.INSTANCE);
        emit("List<Long>", new ListSerializer<>(LongSerializer.INSTANCE), List.of(), List.of(1L, 2L, 3L), List.of(-1L));
        emit("List<Tuple2<String, Integer>>", new ListSerializer<>(t2), List.of(Tuple2.of("a", 1), Tuple2.of("b", 2)));
        emit("Map<String, Long>", new MapSerializer<>(StringSerializer.INSTANCE, LongSerializer.INSTANCE), Map.of(), map("a", 1L, "b", null), map("", 77L, "k", -9L));
        emit("Set<String>", new SetSerializer<>(StringSerializer.INSTANCE), new LinkedHashSet<>(List.of("a", "", "c")));
        emit("Set<Long> with null", new SetSerializer<>(LongSerializer.INSTANCE), new LinkedHashSet<>(Arrays.asList(1L, null, -1L)));
        emit("Nullable<Integer>, padded", NullableSerializer.wrap(IntSerializer.INSTANCE, true), 1, null);
        emit("Nullable<Integer>", NullableSerializer.wrap(IntSerializer.INSTANCE, false), 1, null);
        emit("List<Nullable<Integer>>", new ListSerializer<>(NullableSerializer.wrap(IntSerializer.INSTANCE, false)), Arrays.asList(1, null, 3));
        TypeSerializer<Either<String, Long>> either = new EitherSerializer<>(StringSerializer.INSTANCE, LongSerializer.INSTANCE);
        emit("Either<String, Long>", either, Either.Left("x"), Either.Right(5L));

        emit("TTL<Long>", new TtlStateFactory.TtlSerializer<>(LongSerializer.INSTANCE, LongSerializer.INSTANCE), new TtlValue<>(77L, 1700000000000L));
        emit("TTL<String>", new TtlStateFactory.TtlSerializer<>(LongSerializer.INSTANCE, StringSerializer.INSTANCE), new TtlValue<>("x", -1L));
        emit("Timer<String, VoidNamespace>", new TimerSerializer<>(StringSerializer.INSTANCE, VoidNamespaceSerializer.INSTANCE),
                new TimerHeapInternalTimer<>(5, "k", VoidNamespace.INSTANCE), new TimerHeapInternalTimer<>(-5, "k", VoidNamespace.INSTANCE));
        emit("Timer<Long, TimeWindow>", new TimerSerializer<>(LongSerializer.INSTANCE, new TimeWindow.Serializer()), new TimerHeapInternalTimer<>(1999, 7L, new TimeWindow(1000, 2000)));
        emit("byte[]", BytePrimitiveArraySerializer.INSTANCE, new byte[0], new byte[] {0, 1, -1});
        emit("boolean[]", BooleanPrimitiveArraySerializer.INSTANCE, new boolean[] {true, false});
        emit("short[]", ShortPrimitiveArraySerializer.INSTANCE, new short[] {1, -1});
        emit("int[]", IntPrimitiveArraySerializer.INSTANCE, new int[] {1, -1});
        emit("long[]", LongPrimitiveArraySerializer.INSTANCE, new long[] {1, -1});
        emit("float[]", FloatPrimitiveArraySerializer.INSTANCE, new float[] {1, -0f});
        emit("double[]", DoublePrimitiveArraySerializer.INSTANCE, new double[] {1, -0.0});
        emit("char[]", CharPrimitiveArraySerializer.INSTANCE, new char[] {'a', '\ud800'});
        emit("String[]", StringArraySerializer.INSTANCE, new String[] {"a", null, ""});
        emit("Long[]", new GenericArraySerializer<>(Long.class, LongSerializer.INSTANCE), new Long[] {1L, null});
        emit("enum", new EnumSerializer<>(Color.class), Color.RED, Color.BLUE);
        emit("POJO", of(Types.POJO(Event.class)), new Event("n", 7, 3, Color.GREEN, Tuple2.of("p", 1L)), new Event(null, -1, null, null, null));

        // Rows as Flink 1.13 and later hash them. Those with arrays show which arrays are hashed by content.
        TypeSerializer<Row> r2 = of(Types.ROW(Types.STRING, Types.INT));
        emit("Row<String, Integer>", r2, Row.of("a", 1), Row.of(null, 1), Row.of("a", null), Row.of(null, null),
                row(RowKind.UPDATE_BEFORE, "a", 1), row(RowKind.UPDATE_AFTER, "a", 1), row(RowKind.DELETE, "a", 1));
        emit("Row<>", of(Types.ROW()), Row.of());
        emit("Row<Row<String, Integer>, Long>", of(Types.ROW(Types.ROW(Types.STRING, Types.INT), Types.LONG)), Row.of(Row.of("x", 2), 3L), Row.of(row(RowKind.DELETE, null, 2), null));
        emit("Row<byte[], int[]>", of(Types.ROW(Types.PRIMITIVE_ARRAY(Types.BYTE), Types.PRIMITIVE_ARRAY(Types.INT))), Row.of(new byte[] {1, -2, 3}, new int[] {4, -5}), Row.of(new byte[0], null));
        emit("Row<arrays>", of(Types.ROW(Types.PRIMITIVE_ARRAY(Types.BOOLEAN), Types.PRIMITIVE_ARRAY(Types.SHORT), Types.PRIMITIVE_ARRAY(Types.LONG),
                        Types.PRIMITIVE_ARRAY(Types.FLOAT), Types.PRIMITIVE_ARRAY(Types.DOUBLE), Types.PRIMITIVE_ARRAY(Types.CHAR))),
                Row.of(new boolean[] {true, false}, new short[] {-1, 2}, new long[] {-1, 1L << 40}, new float[] {1.5f, -0f}, new double[] {3.14, Double.NaN}, new char[] {'x', '\uffff'}));
        emit("Row<String[], Long[]>", of(Types.ROW(Types.OBJECT_ARRAY(Types.STRING), Types.OBJECT_ARRAY(Types.LONG))), Row.of(new String[] {"a", null, ""}, new Long[] {1L, null}));
        emit("Row<List<Long>, Map<String, Long>>", of(Types.ROW(Types.LIST(Types.LONG), Types.MAP(Types.STRING, Types.LONG))), Row.of(new ArrayList<>(List.of(1L, 2L)), map("a", 1L, "b", null)), Row.of(List.of(), Map.of()));
        emit("Row<Tuple2<String, Integer>, BigDecimal>", of(Types.ROW(Types.TUPLE(Types.STRING, Types.INT), Types.BIG_DEC)), Row.of(Tuple2.of("a", 1), new BigDecimal("1.50")));
        emit("Row<Tuple2<String, Row>>", of(Types.ROW(Types.TUPLE(Types.STRING, Types.ROW(Types.INT)))), Row.of(Tuple2.of("a", Row.of(1))));
        emit("Tuple2<Row<Integer>, String>", (TypeSerializer<Tuple2<Row, String>>) (TypeSerializer) of(Types.TUPLE(Types.ROW(Types.INT), Types.STRING)), Tuple2.of(Row.of(5), "z"));
        emit("List<Row<Integer>>", new ListSerializer<>(of(Types.ROW(Types.INT))), List.of(Row.of(5), Row.of((Object) null)));
        emit("Row<Instant, LocalDate, LocalTime, LocalDateTime>", of(Types.ROW(Types.INSTANT, Types.LOCAL_DATE, Types.LOCAL_TIME, Types.LOCAL_DATE_TIME)), Row.of(Instant.ofEpochSecond(5, 6), dates[0], times[1], LocalDateTime.of(dates[0], times[1])));
        emit("Row of 9", of(Types.ROW(Types.INT, Types.INT, Types.INT, Types.INT, Types.INT, Types.INT, Types.INT, Types.INT, Types.INT)), Row.of(1, 2, 3, 4, 5, null, 7, 8, null));
        rowData();
    }

    static void rowData(String name, RowType type, Object... fields) throws Exception {
        RowDataSerializer s = new RowDataSerializer(type);
        emit(name, s, s.toBinaryRow(GenericRowData.of(fields)));
    }

    static void rowData() throws Exception {
        RowType t = RowType.of(VarCharType.STRING_TYPE);
        for (String s : new String[] {"a", "hello", "user-4711", "", "1234567", "12345678", "\u65e5\u672c\u8a9e", "\ud83d\ude00 and more"}) {
            rowData("ROW<STRING>", t, StringData.fromString(s));
        }
        rowData("ROW<STRING>", t, (Object) null);
        rowData("ROW<BIGINT>", RowType.of(new BigIntType()), 42L);
        rowData("ROW<BIGINT>", RowType.of(new BigIntType()), -1L);
        rowData("ROW<INT, STRING>", RowType.of(new IntType(), VarCharType.STRING_TYPE), 7, StringData.fromString("x"));
        rowData("ROW<>", RowType.of());
        rowData("ROW<numbers>", RowType.of(new BooleanType(), new TinyIntType(), new SmallIntType(), new IntType(), new BigIntType(), new FloatType(), new DoubleType()),
                true, (byte) -3, (short) -300, -70000, 1L << 40, 1.5f, -0.0);
        rowData("ROW<numbers>", RowType.of(new BooleanType(), new TinyIntType(), new SmallIntType(), new IntType(), new BigIntType(), new FloatType(), new DoubleType()),
                null, null, null, null, null, null, null);
        rowData("ROW<DECIMAL(10, 2), DECIMAL(30, 5)>", RowType.of(new DecimalType(10, 2), new DecimalType(30, 5)),
                DecimalData.fromBigDecimal(new BigDecimal("-12.50"), 10, 2), DecimalData.fromBigDecimal(new BigDecimal("1234567890123456789.00001"), 30, 5));
        rowData("ROW<DECIMAL(10, 2), DECIMAL(30, 5)>", RowType.of(new DecimalType(10, 2), new DecimalType(30, 5)), null, DecimalData.fromBigDecimal(new BigDecimal("-1.00000"), 30, 5));
        rowData("ROW<TIMESTAMP(3), TIMESTAMP(9)>", RowType.of(new TimestampType(3), new TimestampType(9)),
                TimestampData.fromEpochMillis(1700000000123L), TimestampData.fromEpochMillis(-1, 999999));
        rowData("ROW<TIMESTAMP_LTZ(3), TIMESTAMP_LTZ(6)>", RowType.of(new LocalZonedTimestampType(3), new LocalZonedTimestampType(6)),
                TimestampData.fromEpochMillis(1700000000123L), TimestampData.fromEpochMillis(1700000000123L, 456000));
        rowData("ROW<DATE, TIME>", RowType.of(new DateType(), new TimeType(3)), 19782, 45296789);
        rowData("ROW<CHAR(3), BINARY(2), BYTES>", RowType.of(new CharType(3), new BinaryType(2), new VarBinaryType(VarBinaryType.MAX_LENGTH)),
                StringData.fromString("abc"), new byte[] {1, 2}, new byte[] {0, 1, 2, 3, 4, 5, 6, 7, 8});
    }
}
