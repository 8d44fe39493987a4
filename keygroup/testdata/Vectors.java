import java.math.BigDecimal;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.UUID;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;

/** Writes hash codes of Java, Flink, Scala and Lombok; how to run it: README.md. */
public class Vectors {
    @lombok.EqualsAndHashCode
    @lombok.AllArgsConstructor
    static class Order {
        String name;
        long id;
        boolean paid;
        Boolean boxed;
        int count;
        double price;
    }

    record Point(String name, long id, boolean on, double x) {}

    static void line(String what, Object args, int hash) {
        int m = KeyGroupRangeAssignment.computeKeyGroupForKeyHash(hash, 32768);
        System.out.println(what + "\t" + args + "\t" + hash + "\t" + m % 128 + "\t" + m);
    }

    static String join(Object... args) {
        StringBuilder b = new StringBuilder();
        for (Object a : args) {
            b.append(b.length() > 0 ? " " : "").append(a instanceof String s && s.isEmpty() ? "\"\"" : a);
        }
        return b.length() == 0 ? "-" : b.toString();
    }

    public static void main(String[] unused) {
        Random r = new Random(1);
        long[] longs = new long[40];
        long[] edges = {0, 1, -1, 42, 255, Integer.MAX_VALUE, Integer.MIN_VALUE, 1L << 31, (1L << 32) - 1, 1L << 32, Long.MAX_VALUE, Long.MIN_VALUE, 999_999_999, 1700000000123L};
        for (int i = 0; i < longs.length; i++) {
            longs[i] = i < edges.length ? edges[i] : r.nextLong() >> r.nextInt(64);
        }
        for (int i = 0; i < longs.length; i++) {
            long a = longs[i], b = longs[longs.length - 1 - i];
            line("long", a, Long.hashCode(a));
            line("uuid", join(a, b), new UUID(a, b).hashCode());
            int nano = (int) Math.floorMod(b, 1_000_000_000L);
            long sec = Math.floorMod(a, 60_000_000_000L) - 30_000_000_000L;
            line("instant", join(sec, nano), Instant.ofEpochSecond(sec, nano).hashCode());
            long ms = sec * 1000 + nano / 1_000_000;
            line("date", ms, new java.util.Date(ms).hashCode());
            line("sqldate", ms, new java.sql.Date(ms).hashCode());
            line("sqltime", ms, new java.sql.Time(ms).hashCode());
            java.sql.Timestamp ts = new java.sql.Timestamp(ms);
            ts.setNanos(nano);
            line("timestamp", ms, ts.hashCode());
            LocalDate d = LocalDate.ofEpochDay(Math.floorMod(a, 4_000_000L) - 2_000_000);
            LocalTime t = LocalTime.ofNanoOfDay(Math.floorMod(b, 86_400_000_000_000L));
            line("localdate", join(d.getYear(), d.getMonthValue(), d.getDayOfMonth()), d.hashCode());
            line("localtime", t.toNanoOfDay(), t.hashCode());
            line("localdatetime", join(d.getYear(), d.getMonthValue(), d.getDayOfMonth(), t.toNanoOfDay()), LocalDateTime.of(d, t).hashCode());
            double x = i % 3 == 0 ? a : i % 3 == 1 ? (double) a / 8 : Double.longBitsToDouble(a);
            line("double", Long.toHexString(Double.doubleToRawLongBits(x)), Double.hashCode(x));
            line("float", Integer.toHexString(Float.floatToRawIntBits((float) x)), Float.hashCode((float) x));
            line("scalalong", a, scala.runtime.Statics.longHash(a));
            line("scaladouble", Long.toHexString(Double.doubleToRawLongBits(x)), scala.runtime.Statics.doubleHash(x));
            line("scalafloat", Integer.toHexString(Float.floatToRawIntBits((float) x)), scala.runtime.Statics.floatHash((float) x));
            byte[] bytes = new byte[i];
            r.nextBytes(bytes);
            line("bytes", i == 0 ? "-" : HexFormat.of().formatHex(bytes), Arrays.hashCode(bytes));
            long[] l = Arrays.copyOf(longs, i);
            Object[] boxed = Arrays.stream(l).boxed().toArray();
            line("longs", join(boxed), Arrays.hashCode(l));
            line("longs", join(boxed), List.of(boxed).hashCode());
            line("longs", join(boxed), Objects.hash(boxed));
            line("set", join(new HashSet<>(List.of(boxed)).toArray()), new HashSet<>(List.of(boxed)).hashCode());
            Map<Long, Long> m = new HashMap<>();
            StringBuilder text = new StringBuilder();
            for (int j = 0; j < i; j++) {
                m.put(longs[j], longs[longs.length - 1 - j]);
            }
            m.forEach((k, v) -> text.append(text.length() > 0 ? " " : "").append(k).append(" ").append(v));
            line("map", text.length() == 0 ? "-" : text, m.hashCode());
            String name = i % 5 == 0 ? "" : "n" + i;
            line("record", join(name, a, b % 2 == 0, Long.toHexString(Double.doubleToRawLongBits(x))), new Point(name, a, b % 2 == 0, x).hashCode());
            Boolean maybe = i % 3 == 0 ? null : Boolean.valueOf(i % 3 == 1);
            line("lombok", join(name, a, b % 2 == 0, maybe, (int) b, Long.toHexString(Double.doubleToRawLongBits(x))), new Order(name, a, b % 2 == 0, maybe, (int) b, x).hashCode());
            line("scala2", join(name, a), new scala.Tuple2<>(name, a).hashCode());
            line("scala3", join((int) b, name, Long.toHexString(Double.doubleToRawLongBits(x))), new scala.Tuple3<>((int) b, name, x).hashCode());
            Row named = Row.withNames(RowKind.fromByteValue((byte) (i % 4)));
            named.setField("name", name);
            named.setField("id", a);
            named.setField("none", null);
            line("namedrow", join(i % 4, name, a), named.hashCode());
        }
    }
}
