package bench;

import java.io.File;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.ColumnFamilyDescriptor;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.ColumnFamilyOptions;
import org.rocksdb.CompressionType;
import org.rocksdb.DBOptions;
import org.rocksdb.FlushOptions;
import org.rocksdb.Options;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksIterator;
import org.rocksdb.StringAppendOperator;
import org.rocksdb.WriteOptions;

/** RocksDB's own iterator over the databases of a checkpoint's subtasks, one directory each. */
final class Rocks {
    private Rocks() {}

    /** A database that is open for reading, with all its column families. */
    private static final class Db implements AutoCloseable {
        final List<ColumnFamilyHandle> families = new ArrayList<>();
        final RocksDB db;

        Db(File dir) throws Exception {
            List<ColumnFamilyDescriptor> all = new ArrayList<>();
            for (byte[] name : RocksDB.listColumnFamilies(new Options(), dir.getPath())) {
                all.add(new ColumnFamilyDescriptor(name, options(null)));
            }
            db = RocksDB.openReadOnly(new DBOptions(), dir.getPath(), all, families);
        }

        @Override
        public void close() {
            families.forEach(ColumnFamilyHandle::close);
            db.close();
        }
    }

    /** As Flink sets them: merge by comma, 4 KiB blocks; and the compression, if it is for writing. */
    private static ColumnFamilyOptions options(CompressionType c) {
        ColumnFamilyOptions o = new ColumnFamilyOptions().setMergeOperator(new StringAppendOperator(','))
                .setTableFormatConfig(new BlockBasedTableConfig().setBlockSize(4096));
        return c == null ? o : o.setCompressionType(c).setBottommostCompressionType(c);
    }

    private static List<File> databases(File dir) {
        File[] list = dir.listFiles(File::isDirectory);
        Arrays.sort(list);
        return List.of(list);
    }

    /** Scans all rows, in laps: key and value as arrays, as Flink takes them, or into a direct buffer each. */
    static void scan(File dir, double seconds) throws Exception {
        RocksDB.loadLibrary();
        long size = 0;
        List<Db> dbs = new ArrayList<>();
        for (File d : databases(dir)) {
            dbs.add(new Db(d));
            for (File table : d.listFiles((x, name) -> name.endsWith(".sst"))) {
                size += table.length();
            }
        }
        for (boolean direct : new boolean[] {false, true}) {
            long[] rows = new long[2];
            List<Out.Lap> laps = new ArrayList<>();
            double warm = 0, measured = 0;
            while (measured < seconds || laps.size() < 3) {
                Out.Lap l = Out.time(() -> {
                    rows[0] = rows[1] = 0;
                    for (Db d : dbs) {
                        for (ColumnFamilyHandle f : d.families) {
                            scan(d.db, f, direct, rows);
                        }
                    }
                });
                if (warm < seconds / 2) {
                    warm += l.cpu;
                    continue;
                }
                measured += l.cpu;
                laps.add(l);
            }
            Out.line("rocks-scan", Out.fields("what", direct ? "direct buffers" : "arrays", "path", dir, "check", rows[1]), rows[0], size, laps.toArray(Out.Lap[]::new));
        }
        dbs.forEach(Db::close);
    }

    private static void scan(RocksDB db, ColumnFamilyHandle f, boolean direct, long[] rows) throws Exception {
        ByteBuffer key = ByteBuffer.allocateDirect(1 << 16), value = ByteBuffer.allocateDirect(1 << 20);
        try (ReadOptions o = new ReadOptions().setFillCache(false); RocksIterator it = db.newIterator(f, o)) {
            for (it.seekToFirst(); it.isValid(); it.next()) {
                rows[0]++;
                if (direct) {
                    key.clear();
                    value.clear();
                    rows[1] += it.key(key) + it.value(value);
                } else {
                    rows[1] += it.key().length + it.value().length;
                }
            }
            it.status();
        }
    }

    /** Writes the databases anew with another compression, compacted as RocksDB does it by itself. */
    static void copy(File from, File to, String compression) throws Exception {
        RocksDB.loadLibrary();
        CompressionType c = CompressionType.valueOf(compression);
        for (File d : databases(from)) {
            File out = new File(to, d.getName());
            out.mkdirs();
            List<ColumnFamilyHandle> handles = new ArrayList<>();
            try (Db src = new Db(d); WriteOptions w = new WriteOptions().setDisableWAL(true); ReadOptions o = new ReadOptions().setFillCache(false)) {
                List<ColumnFamilyDescriptor> all = new ArrayList<>();
                for (ColumnFamilyHandle f : src.families) {
                    all.add(new ColumnFamilyDescriptor(f.getName(), options(c)));
                }
                try (RocksDB dst = RocksDB.open(new DBOptions().setCreateIfMissing(true).setCreateMissingColumnFamilies(true), out.getPath(), all, handles)) {
                    for (int i = 0; i < handles.size(); i++) {
                        try (RocksIterator it = src.db.newIterator(src.families.get(i), o)) {
                            for (it.seekToFirst(); it.isValid(); it.next()) {
                                dst.put(handles.get(i), w, it.key(), it.value());
                            }
                            it.status();
                        }
                    }
                    dst.flush(new FlushOptions().setWaitForFlush(true), handles);
                    handles.forEach(ColumnFamilyHandle::close);
                }
            }
            File[] logs = out.listFiles((x, name) -> name.endsWith(".log")); // empty, as nothing was written ahead
            for (File f : logs) {
                f.delete();
            }
        }
    }
}
