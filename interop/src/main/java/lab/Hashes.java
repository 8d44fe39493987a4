package lab;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Date;
import java.util.HexFormat;
import java.util.List;
import java.util.Objects;
import java.util.Random;
import java.util.function.Supplier;
import org.apache.flink.api.common.serialization.SerializerConfigImpl;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.core.memory.DataOutputViewStreamWrapper;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;

/**
 * Random objects of classes with every kind of hashCode, as Flink serializes them and Java hashes them. A line is the
 * name of the type, the rules that say what the hashCode methods compute, the snapshot of the serializer, the value,
 * its hash code, and its key groups of 128 and 32768, between tabs; bytes in hex, "-" for the snapshot of the line before.
 */
final class Hashes {
    public enum Color { RED, GREEN, BLUE }

    /** Objects.hash of some fields, in an order of their own. The last field has no length where Flink uses Kryo. */
    public static class ByObjects {
        public String name;
        public long id;
        public Integer boxed;
        public double ignored;
        public List<String> words;

        @Override
        public int hashCode() {
            return Objects.hash(id, name, boxed);
        }
    }

    /** Objects.hash of every type of field. */
    public static class Wide {
        public boolean flag;
        public Boolean maybe;
        public byte tiny;
        public Short small;
        public int number;
        public Long big;
        public float real;
        public Double wide;
        public char letter;
        public String text;
        public BigDecimal price;
        public BigInteger count;
        public Date date;
        public Instant instant;
        public Tuple2<String, Long> pair;

        @Override
        public int hashCode() {
            return Objects.hash(text, flag, maybe, tiny, small, number, big, real, wide, letter, price, count, date, instant, pair);
        }
    }

    /** What Eclipse generates. */
    public static class ByEclipse {
        public long id;
        public boolean flag;
        public double amount;
        public String name;
        public int[] numbers;

        @Override
        public int hashCode() {
            final int prime = 31;
            int result = 1;
            result = prime * result + (int) (id ^ (id >>> 32));
            result = prime * result + (flag ? 1231 : 1237);
            long temp = Double.doubleToLongBits(amount);
            result = prime * result + (int) (temp ^ (temp >>> 32));
            result = prime * result + ((name == null) ? 0 : name.hashCode());
            result = prime * result + Arrays.hashCode(numbers);
            return result;
        }
    }

    /** What IntelliJ IDEA generates without Objects.hash, and Kotlin for a data class. */
    public static class ByIdea {
        public String name;
        public int age;
        public boolean flag;
        public float weight;
        public Long big;
        public String[] tags;
        public Integer[][] table;

        @Override
        public int hashCode() {
            int result = name != null ? name.hashCode() : 0;
            result = 31 * result + age;
            result = 31 * result + (flag ? 1 : 0);
            result = 31 * result + (weight != +0.0f ? Float.floatToIntBits(weight) : 0);
            result = 31 * result + (big != null ? big.hashCode() : 0);
            result = 31 * result + Arrays.hashCode(tags);
            result = 31 * result + Arrays.deepHashCode(table);
            return result;
        }
    }

    public record ByRecord(String name, long id, boolean on, double x, Integer boxed) {}

    /** By Lombok's annotation processor: primitives first, then their boxes, then the rest. */
    @lombok.EqualsAndHashCode
    public static class ByLombok {
        public String name;
        public Boolean maybe;
        public long id;
        public boolean paid;
        public byte[] raw;
        public double price;
        public Long big;
        public float real;
        public char letter;
        public String[] tags;
        public int[][] table;
        public Tuple2<String, Long> pair;
        public ByObjects inner;
        public short small;
    }

    /** The hash code of one field. */
    public static class ByField {
        public String name;
        public int number;

        @Override
        public int hashCode() {
            return Objects.hashCode(name);
        }
    }

    /** Of one field in all. */
    public static class Alone {
        public long id;

        @Override
        public int hashCode() {
            return Long.hashCode(id);
        }
    }

    /** Objects of other classes in it, and an enum by its name. */
    public static class Outer {
        public ByObjects a;
        public ByLombok b;
        public Color color;
        public int n;

        @Override
        public int hashCode() {
            return Objects.hash(n, color == null ? null : color.name(), b, a);
        }
    }

    public static class Base {
        public long id;
        public String name;

        @Override
        public int hashCode() {
            return Objects.hash(name, id);
        }
    }

    public static class Sub extends Base {
        public int more;

        @Override
        public int hashCode() {
            return 31 * Integer.hashCode(more) + Long.hashCode(id);
        }
    }

    // ------------------------------------------------------------------ random values

    private final Random r;
    private final PrintStream out;

    Hashes(long seed, PrintStream out) {
        this.r = new Random(seed);
        this.out = out;
    }

    private <T> T maybe(Supplier<T> value) {
        return r.nextInt(5) == 0 ? null : value.get();
    }

    private String text() {
        String[] some = {"", "a", "key-" + r.nextInt(1000), "\u00dcn\u00efc\u00f6d\u00e9", "\ud83d\ude00", "\ud800", "x".repeat(r.nextInt(300)), "\0"};
        return some[r.nextInt(some.length)];
    }

    private long number() {
        long[] some = {0, 1, -1, r.nextInt(), r.nextLong(), Long.MIN_VALUE, Long.MAX_VALUE, 1L << 32};
        return some[r.nextInt(some.length)];
    }

    private double real() {
        double[] some = {0, -0.0, 1.5, r.nextGaussian(), Double.NaN, Double.NEGATIVE_INFINITY, Double.longBitsToDouble(r.nextLong())};
        return some[r.nextInt(some.length)];
    }

    /** Not -0.0, which IntelliJ IDEA's code takes for 0.0. */
    private float weight() {
        return (float) real() + 0.0f;
    }

    private ByObjects byObjects() {
        ByObjects v = new ByObjects();
        v.name = maybe(this::text);
        v.id = number();
        v.boxed = maybe(() -> (int) number());
        v.ignored = real();
        v.words = maybe(() -> new ArrayList<>(List.of(text(), text())));
        return v;
    }

    private ByObjects withoutWords() {
        ByObjects v = byObjects();
        v.words = null;
        return v;
    }

    private Wide wide() {
        Wide v = new Wide();
        v.flag = r.nextBoolean();
        v.maybe = maybe(r::nextBoolean);
        v.tiny = (byte) number();
        v.small = maybe(() -> (short) number());
        v.number = (int) number();
        v.big = maybe(this::number);
        v.real = (float) real();
        v.wide = maybe(this::real);
        v.letter = (char) number();
        v.text = maybe(this::text);
        v.price = maybe(() -> new BigDecimal(BigInteger.valueOf(number()).pow(1 + r.nextInt(2)), r.nextInt(20) - 10));
        v.count = maybe(() -> BigInteger.valueOf(number()).pow(1 + r.nextInt(3)));
        v.date = maybe(() -> new Date(number() >> 1));
        v.instant = maybe(() -> Instant.ofEpochSecond(number() >> 30, r.nextInt(1_000_000_000)));
        v.pair = maybe(this::pair);
        return v;
    }

    private Tuple2<String, Long> pair() {
        return Tuple2.of(text(), number());
    }

    private ByEclipse byEclipse() {
        ByEclipse v = new ByEclipse();
        v.id = number();
        v.flag = r.nextBoolean();
        v.amount = real();
        v.name = maybe(this::text);
        v.numbers = maybe(() -> r.ints(r.nextInt(4)).toArray());
        return v;
    }

    private ByIdea byIdea() {
        ByIdea v = new ByIdea();
        v.name = maybe(this::text);
        v.age = (int) number();
        v.flag = r.nextBoolean();
        v.weight = weight();
        v.big = maybe(this::number);
        v.tags = maybe(() -> new String[] {text(), maybe(this::text)});
        v.table = maybe(() -> new Integer[][] {{(int) number(), null}, maybe(() -> new Integer[0]), {7}});
        return v;
    }

    private ByRecord byRecord() {
        return new ByRecord(maybe(this::text), number(), r.nextBoolean(), real(), maybe(() -> (int) number()));
    }

    private ByLombok byLombok() {
        ByLombok v = new ByLombok();
        v.name = maybe(this::text);
        v.maybe = maybe(r::nextBoolean);
        v.id = number();
        v.paid = r.nextBoolean();
        v.raw = maybe(() -> text().getBytes(java.nio.charset.StandardCharsets.UTF_16));
        v.price = real();
        v.big = maybe(this::number);
        v.real = (float) real();
        v.letter = (char) number();
        v.tags = maybe(() -> new String[] {text(), maybe(this::text)});
        v.table = maybe(() -> new int[][] {{(int) number(), -1}, {}, maybe(() -> new int[] {5})});
        v.pair = maybe(this::pair);
        v.inner = maybe(this::withoutWords);
        v.small = (short) number();
        return v;
    }

    private ByField byField() {
        ByField v = new ByField();
        v.name = maybe(this::text);
        v.number = (int) number();
        return v;
    }

    private Alone alone() {
        Alone v = new Alone();
        v.id = number();
        return v;
    }

    private Outer outer() {
        Outer v = new Outer();
        v.a = maybe(this::withoutWords);
        v.b = maybe(this::byLombok);
        v.color = maybe(() -> Color.values()[r.nextInt(3)]);
        v.n = (int) number();
        return v;
    }

    private Base base() {
        Base v = r.nextBoolean() ? new Base() : new Sub();
        v.id = number();
        v.name = maybe(this::text);
        if (v instanceof Sub) {
            ((Sub) v).more = (int) number();
        }
        return v;
    }

    // ------------------------------------------------------------------ lines

    private static String hex(byte[] b) {
        return HexFormat.of().formatHex(b);
    }

    private <T> void emit(String name, String rules, TypeInformation<T> type, int n, Supplier<T> value, Class<?>... registered) throws Exception {
        SerializerConfigImpl config = new SerializerConfigImpl();
        for (Class<?> c : registered) {
            config.registerPojoType(c);
        }
        TypeSerializer<T> s = type.createSerializer(config);
        List<String> lines = new ArrayList<>();
        for (int i = 0; i < n; i++) {
            T v = value.get();
            ByteArrayOutputStream b = new ByteArrayOutputStream();
            s.serialize(v, new DataOutputViewStreamWrapper(b));
            lines.add(hex(b.toByteArray()) + "\t" + v.hashCode()
                    + "\t" + KeyGroupRangeAssignment.assignToKeyGroup(v, 128)
                    + "\t" + KeyGroupRangeAssignment.assignToKeyGroup(v, 32768));
        }
        ByteArrayOutputStream snapshot = new ByteArrayOutputStream(); // only now it knows the subclasses
        TypeSerializerSnapshot.writeVersionedSnapshot(new DataOutputViewStreamWrapper(snapshot), s.snapshotConfiguration());
        String shown = hex(snapshot.toByteArray());
        for (String l : lines) {
            out.println(name + "\t" + rules + "\t" + shown + "\t" + l);
            shown = "-";
        }
    }

    private static String rule(Class<?> c, String rule) {
        return c.getName() + "=" + rule;
    }

    void run(int n) throws Exception {
        String objects = rule(ByObjects.class, "objects(id,name,boxed)");
        String lombok = rule(ByLombok.class,
                "lombok(id,paid:boolean,price,real,letter,small,maybe:Boolean,big,name,raw,tags,table,pair,inner)");
        String base = rule(Base.class, "objects(name,id)"), sub = rule(Sub.class, "record(more,id)");
        emit("Objects.hash", objects, TypeInformation.of(ByObjects.class), n, this::byObjects);
        emit("Objects.hash by *", "*=objects(id,name,boxed)", TypeInformation.of(ByObjects.class), n, this::byObjects);
        emit("Objects.hash of all types",
                rule(Wide.class, "objects(text,flag,maybe,tiny,small,number,big,real,wide,letter,price,count,date,instant,pair)"),
                TypeInformation.of(Wide.class), n, this::wide);
        emit("Eclipse", rule(ByEclipse.class, "objects(id,flag,amount,name,numbers:array)"), TypeInformation.of(ByEclipse.class), n, this::byEclipse);
        emit("IntelliJ IDEA", rule(ByIdea.class, "record(name,age,flag:bit,weight,big,tags:array,table:array)"), TypeInformation.of(ByIdea.class), n, this::byIdea);
        emit("record", rule(ByRecord.class, "record(name,id,on,x,boxed)"), TypeInformation.of(ByRecord.class), n, this::byRecord);
        emit("Lombok", lombok + " " + objects, TypeInformation.of(ByLombok.class), n, this::byLombok);
        emit("one field", rule(ByField.class, "field(name)"), TypeInformation.of(ByField.class), n, this::byField);
        emit("the only field", rule(Alone.class, "field"), TypeInformation.of(Alone.class), n, this::alone);
        emit("nested", rule(Outer.class, "objects(n,color:name,b,a)") + " " + lombok + " " + objects, TypeInformation.of(Outer.class), n, this::outer);
        this.<Tuple2<ByObjects, String>>emit("in a tuple", objects, Types.TUPLE(TypeInformation.of(ByObjects.class), Types.STRING), n, () -> Tuple2.of(withoutWords(), text()));
        emit("subclass", base + " " + sub, TypeInformation.of(Base.class), n, this::base);
        emit("registered subclass", base + " " + sub, TypeInformation.of(Base.class), n, this::base, Sub.class);
    }
}
