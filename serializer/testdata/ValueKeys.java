import java.io.ByteArrayOutputStream;
import java.util.HexFormat;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.java.typeutils.runtime.CopyableValueSerializer;
import org.apache.flink.api.java.typeutils.runtime.ValueSerializer;
import org.apache.flink.core.memory.DataOutputViewStreamWrapper;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.types.*;

/** Writes Flink's own classes of values by the serializers of classes that write themselves; how to run it: README.md. */
public class ValueKeys {
    static String hex(byte[] b) {
        return b.length == 0 ? "-" : HexFormat.of().formatHex(b);
    }

    static <T extends CopyableValue<T>> void emit(T... values) throws Exception {
        Class<T> type = (Class<T>) values[0].getClass();
        for (TypeSerializer<T> s : new TypeSerializer[] {new CopyableValueSerializer<>(type), new ValueSerializer<>(type)}) {
            ByteArrayOutputStream snap = new ByteArrayOutputStream();
            TypeSerializerSnapshot.writeVersionedSnapshot(new DataOutputViewStreamWrapper(snap), s.snapshotConfiguration());
            for (T v : values) {
                ByteArrayOutputStream b = new ByteArrayOutputStream();
                s.serialize(v, new DataOutputViewStreamWrapper(b));
                System.out.println(s.getClass().getSimpleName() + " " + s.getLength() + " " + v + "\t" + hex(snap.toByteArray())
                        + "\t" + hex(b.toByteArray()) + "\t" + v.hashCode()
                        + "\t" + KeyGroupRangeAssignment.assignToKeyGroup(v, 128)
                        + "\t" + KeyGroupRangeAssignment.assignToKeyGroup(v, 32768));
            }
        }
    }

    public static void main(String[] args) throws Exception {
        emit(new StringValue(""), new StringValue("abc"), new StringValue("\u00e9\ud83d\ude00"), new StringValue("z".repeat(200)));
        emit(new LongValue(-5L << 33));
        emit(new IntValue(-5));
        emit(new ShortValue((short) -5));
        emit(new ByteValue((byte) -5));
        emit(new BooleanValue(true), new BooleanValue(false));
        emit(new DoubleValue(-5.5));
        emit(new FloatValue(1.1f));
        emit(new CharValue('x'));
        emit(NullValue.getInstance());
    }
}
