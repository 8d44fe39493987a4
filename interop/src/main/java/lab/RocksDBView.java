package lab;

import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.runtime.state.KeyedStateBackend;
import org.rocksdb.LiveFileMetaData;
import org.rocksdb.RocksDB;

/** The database of a RocksDB backend, whose class is in another package since 2.0. */
final class RocksDBView {
    private RocksDBView() {}

    /** The tables of the database, and the rows in its memory, which came after it was opened; null for other backends. */
    static Object look(KeyedStateBackend<?> backend) throws Exception {
        RocksDB db = null;
        for (Class<?> c = backend.getClass(); c != null && db == null; c = c.getSuperclass()) {
            for (Field f : c.getDeclaredFields()) {
                if (f.getType() == RocksDB.class) {
                    f.setAccessible(true);
                    db = (RocksDB) f.get(backend);
                }
            }
        }
        if (db == null) {
            return null;
        }
        List<Object> tables = new ArrayList<>();
        for (LiveFileMetaData t : db.getLiveFilesMetaData()) {
            tables.add(Map.of(
                    "family", new String(t.columnFamilyName(), StandardCharsets.UTF_8), "name", t.fileName().substring(1), "size", t.size(),
                    "level", t.level(), "entries", t.numEntries(), "largestSequence", t.largestSeqno()));
        }
        Map<String, Object> m = new TreeMap<>();
        m.put("tables", tables);
        m.put("sequence", db.getLatestSequenceNumber());
        return m;
    }
}
