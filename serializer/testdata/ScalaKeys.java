import java.io.ByteArrayOutputStream;
import java.math.BigDecimal;
import java.util.HexFormat;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.base.*;
import org.apache.flink.api.scala.typeutils.*;
import org.apache.flink.core.memory.DataOutputViewStreamWrapper;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import scala.*;
import scala.util.Either;
import scala.util.Left;
import scala.util.Right;

/** Writes keys of Flink's Scala API as it serializes and hashes them; how to run it: README.md. */
public class ScalaKeys {
    @SafeVarargs
    static <T> void emit(String name, TypeSerializer<T> s, T... values) throws Exception {
        ByteArrayOutputStream snap = new ByteArrayOutputStream();
        TypeSerializerSnapshot.writeVersionedSnapshot(new DataOutputViewStreamWrapper(snap), s.snapshotConfiguration());
        for (T v : values) {
            ByteArrayOutputStream b = new ByteArrayOutputStream();
            s.serialize(v, new DataOutputViewStreamWrapper(b));
            System.out.println("Scala " + name + "\t" + HexFormat.of().formatHex(snap.toByteArray()) + "\t" + HexFormat.of().formatHex(b.toByteArray())
                    + "\t" + v.hashCode() + "\t" + KeyGroupRangeAssignment.assignToKeyGroup(v, 128) + "\t" + KeyGroupRangeAssignment.assignToKeyGroup(v, 32768));
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    static <T extends Product> TypeSerializer<T> tuple(Class<?> c, TypeSerializer<?>... fields) {
        return new ScalaCaseClassSerializer(c, fields);
    }

    public static void main(String[] args) throws Exception {
        TypeSerializer<Tuple2<String, java.lang.Long>> pair = tuple(Tuple2.class, StringSerializer.INSTANCE, LongSerializer.INSTANCE);
        emit("(String, Long)", pair, new Tuple2<>("a", 1L), new Tuple2<>("", -1L), new Tuple2<>("x", 1L << 40), new Tuple2<>("x", java.lang.Long.MIN_VALUE));
        emit("(Int, Short, Byte)", ScalaKeys.<Tuple3<Integer, java.lang.Short, java.lang.Byte>>tuple(Tuple3.class, IntSerializer.INSTANCE, ShortSerializer.INSTANCE, ByteSerializer.INSTANCE),
                new Tuple3<>(7, (short) -7, (byte) 9));
        emit("(Boolean, Char)", ScalaKeys.<Tuple2<java.lang.Boolean, Character>>tuple(Tuple2.class, BooleanSerializer.INSTANCE, CharSerializer.INSTANCE), new Tuple2<>(true, 'x'));
        TypeSerializer<Tuple2<java.lang.Double, java.lang.Float>> reals = tuple(Tuple2.class, DoubleSerializer.INSTANCE, FloatSerializer.INSTANCE);
        emit("(Float, Float)", ScalaKeys.<Tuple2<java.lang.Float, java.lang.Float>>tuple(Tuple2.class, FloatSerializer.INSTANCE, FloatSerializer.INSTANCE), new Tuple2<>(2f, 1.5f));
        emit("(Double, Float)", reals, new Tuple2<>(2.0, 1.5f), new Tuple2<>(-0.0, 3f), new Tuple2<>(1e18, 1e18f), new Tuple2<>(0.1, 0.1f), new Tuple2<>(1.5, java.lang.Float.NaN), new Tuple2<>(1e300, java.lang.Float.POSITIVE_INFINITY));
        emit("(Option[String], Int)", ScalaKeys.<Tuple2<Option<String>, Integer>>tuple(Tuple2.class, new OptionSerializer<>(StringSerializer.INSTANCE), IntSerializer.INSTANCE),
                new Tuple2<>(new Some<>("s"), 1), new Tuple2<>(Option.empty(), 1));
        emit("((String, Long), BigDecimal)", ScalaKeys.<Tuple2<Tuple2<String, java.lang.Long>, BigDecimal>>tuple(Tuple2.class, pair, BigDecSerializer.INSTANCE), new Tuple2<>(new Tuple2<>("a", -1L), new BigDecimal("1.50")));
        emit("Option[Long]", new OptionSerializer<>(LongSerializer.INSTANCE), Option.<java.lang.Long>apply(-1L), Option.<java.lang.Long>empty());
        emit("Either[String, Long]", new EitherSerializer<>(StringSerializer.INSTANCE, LongSerializer.INSTANCE), new Left<>("x"), new Right<>(-5L));
    }
}
