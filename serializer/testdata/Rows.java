import java.io.ByteArrayOutputStream;
import java.math.BigDecimal;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.flink.api.common.ExecutionConfig;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.core.memory.DataOutputViewStreamWrapper;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.types.Row;

/** Writes rows as Flink 1.8 to 1.20 serialize and hash them; how to run it: README.md. */
public class Rows {
    static String hex(byte[] b) {
        StringBuilder s = new StringBuilder();
        for (byte x : b) {
            s.append(String.format("%02x", x));
        }
        return s.length() == 0 ? "-" : s.toString();
    }

    static Row row(Object... fields) {
        Row r = new Row(fields.length);
        for (int i = 0; i < fields.length; i++) {
            r.setField(i, fields[i]);
        }
        return r;
    }

    static String version;

    static void emit(String name, TypeInformation<Row> t, Row... rows) throws Exception {
        TypeSerializer<Row> s = t.createSerializer(new ExecutionConfig());
        ByteArrayOutputStream snap = new ByteArrayOutputStream();
        TypeSerializerSnapshot.writeVersionedSnapshot(new DataOutputViewStreamWrapper(snap), s.snapshotConfiguration());
        for (Row v : rows) {
            ByteArrayOutputStream b = new ByteArrayOutputStream();
            s.serialize(v, new DataOutputViewStreamWrapper(b));
            String hash = v.hashCode() + "\t" + KeyGroupRangeAssignment.assignToKeyGroup(v, 128)
                    + "\t" + KeyGroupRangeAssignment.assignToKeyGroup(v, 32768);
            if (name.endsWith("]>") && version.matches("1\\.([89]|10)\\..*")) {
                hash = "-\t-\t-";
            }
            System.out.println(version + " " + name + "\t" + hex(snap.toByteArray()) + "\t" + hex(b.toByteArray()) + "\t" + hash);
        }
    }

    static Row kind(String kind, Row r) throws Exception {
        Class<?> c = Class.forName("org.apache.flink.types.RowKind");
        for (Object k : c.getEnumConstants()) {
            if (k.toString().equals(kind)) {
                Row.class.getMethod("setKind", c).invoke(r, k);
            }
        }
        return r;
    }

    public static void main(String[] args) throws Exception {
        version = args[0];
        Map<String, Long> map = new LinkedHashMap<>();
        map.put("a", 1L);
        map.put("b", null);
        TypeInformation<Row> r2 = Types.ROW(Types.STRING, Types.INT);
        emit("Row<String, Integer>", r2, row("a", 1), row(null, 1), row("a", null), row(null, null));
        if (!version.matches("1\\.([89]|10)\\..*")) {
            for (String k : new String[] {"UPDATE_BEFORE", "UPDATE_AFTER", "DELETE"}) {
                emit("Row<String, Integer>", r2, kind(k, row("a", 1)));
            }
        }
        emit("Row<>", Types.ROW(), row());
        emit("Row<Row<String, Integer>, Long>", Types.ROW(r2, Types.LONG), row(row("x", 2), 3L), row(row(null, 2), null));
        emit("Row<byte[], int[]>", Types.ROW(Types.PRIMITIVE_ARRAY(Types.BYTE), Types.PRIMITIVE_ARRAY(Types.INT)), row(new byte[] {1, -2, 3}, new int[] {4, -5}));
        emit("Row<String[], Long[]>", Types.ROW(Types.OBJECT_ARRAY(Types.STRING), Types.OBJECT_ARRAY(Types.LONG)), row(new String[] {"a", null, ""}, new Long[] {1L, null}));
        emit("Row<List<Long>, Map<String, Long>>", Types.ROW(Types.LIST(Types.LONG), Types.MAP(Types.STRING, Types.LONG)), row(Arrays.asList(1L, 2L), map));
        emit("Row<Tuple2<String, Integer>, BigDecimal>", Types.ROW(Types.TUPLE(Types.STRING, Types.INT), Types.BIG_DEC), row(Tuple2.of("a", 1), new BigDecimal("1.50")));
        emit("Row<Tuple2<String, Row>>", Types.ROW(Types.TUPLE(Types.STRING, Types.ROW(Types.INT))), row(Tuple2.of("a", row(1))));
    }
}
