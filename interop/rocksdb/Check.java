import java.io.File;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.Checkpoint;
import org.rocksdb.ColumnFamilyDescriptor;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.ColumnFamilyOptions;
import org.rocksdb.CompactRangeOptions;
import org.rocksdb.DBOptions;
import org.rocksdb.FlushOptions;
import org.rocksdb.Options;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksIterator;

/**
 * Works with databases, each a directory DIR that may be changed, as Flink does: opens, reads, merges, deletes, compacts,
 * takes checkpoints (to DIR.checkpoint) and rescales (DIR.half0 and the like). Prints what it read at each stage; exits
 * with an exception where RocksDB answers anything that it should not.
 */
public final class Check {
    private static final byte[] HIGHEST = new byte[1024];

    public static void main(String[] dirs) throws Exception {
        RocksDB.loadLibrary();
        Arrays.fill(HIGHEST, (byte) 0xff);
        for (String dir : dirs) {
            String checkpoint = dir + ".checkpoint";
            try (Db d = new Db(dir)) {
                d.verify(dir);
                d.dump(dir, "opened");
                if (has(d.db, "clipColumnFamily")) {
                    rescale(d, dir);
                }
                for (ColumnFamilyHandle f : d.families) {
                    d.work(f);
                }
                d.dump(dir, "worked");
                for (ColumnFamilyHandle f : d.families) {
                    d.db.compactRange(f, new byte[0], HIGHEST, new CompactRangeOptions()
                            .setBottommostLevelCompaction(CompactRangeOptions.BottommostLevelCompaction.kForce));
                }
                d.dump(dir, "compacted");
                try (Checkpoint c = Checkpoint.create(d.db)) {
                    c.createCheckpoint(checkpoint);
                }
            }
            try (Db d = new Db(dir)) {
                d.dump(dir, "reopened");
            }
            try (Db d = new Db(checkpoint)) {
                d.verify(dir);
                d.dump(dir, "checkpoint");
            }
        }
    }

    /**
     * As Flink 2 does where it rescales by ingestion: of two copies, one is clipped to the lower and one to the upper half of
     * each column family; what is left is exported, and imported to a new database.
     */
    private static void rescale(Db d, String dir) throws Exception {
        List<List<Object>> exported = new ArrayList<>();
        for (int half = 0; half < 2; half++) {
            String copy = dir + ".half" + half;
            try (Checkpoint c = Checkpoint.create(d.db)) {
                c.createCheckpoint(copy);
            }
            try (Db h = new Db(copy); Checkpoint c = Checkpoint.create(h.db)) {
                for (int i = 0; i < h.families.size(); i++) {
                    ColumnFamilyHandle f = h.families.get(i);
                    byte[] middle = h.middle(f);
                    call(h.db, "clipColumnFamily", f, half == 0 ? new byte[0] : middle, half == 0 ? middle : HIGHEST);
                    String to = copy + "-" + i;
                    Object meta = call(c, "exportColumnFamily", f, to);
                    if (half == 0) {
                        exported.add(new ArrayList<>());
                    }
                    if (new File(to).list((x, name) -> name.endsWith(".sst")).length > 0) { // no import without
                        exported.get(i).add(meta);
                    }
                }
            }
        }
        Object options = Class.forName("org.rocksdb.ImportColumnFamilyOptions").getConstructor().newInstance();
        call(options, "setMoveFiles", true);
        try (Db r = new Db(dir + ".rescaled", d.names, exported, options)) {
            r.dump(dir, "rescaled");
        }
    }

    /** A database that is open, with all its column families. */
    private static final class Db implements AutoCloseable {
        final List<ColumnFamilyHandle> families = new ArrayList<>();
        final List<String> names = new ArrayList<>();
        final RocksDB db;

        Db(String dir) throws Exception {
            List<ColumnFamilyDescriptor> all = new ArrayList<>();
            for (byte[] name : RocksDB.listColumnFamilies(new Options(), dir)) {
                all.add(new ColumnFamilyDescriptor(name, options()));
                names.add(new String(name, StandardCharsets.UTF_8));
            }
            db = RocksDB.open(new DBOptions(), dir, all, families);
        }

        /** A new database of what was exported. */
        Db(String dir, List<String> names, List<List<Object>> exported, Object how) throws Exception {
            db = RocksDB.open(new Options().setCreateIfMissing(true), dir);
            for (int i = 0; i < names.size(); i++) {
                String name = names.get(i);
                this.names.add(name.equals("default") ? "imported default" : name);
                ColumnFamilyDescriptor f = new ColumnFamilyDescriptor(this.names.get(i).getBytes(StandardCharsets.UTF_8), options());
                families.add(exported.get(i).isEmpty() ? db.createColumnFamily(f)
                        : (ColumnFamilyHandle) call(db, "createColumnFamilyWithImport", f, how, exported.get(i)));
            }
        }

        /**
         * A key behind the row in the middle that is not a row's, as the key groups' beginnings, by which Flink clips, are
         * none: clipping drops a table that ends with the very key of the bound, also where RocksDB wrote it.
         */
        byte[] middle(ColumnFamilyHandle f) throws Exception {
            List<byte[]> keys = new ArrayList<>();
            try (RocksIterator it = db.newIterator(f)) {
                for (it.seekToFirst(); it.isValid(); it.next()) {
                    keys.add(it.key());
                }
            }
            byte[] k = keys.isEmpty() ? new byte[0] : keys.get(keys.size() / 2);
            byte[] middle = Arrays.copyOf(k, k.length + 1);
            middle[k.length] = 1;
            return middle;
        }

        private static ColumnFamilyOptions options() {
            return new ColumnFamilyOptions().setMergeOperatorName("stringappendtest")
                    .setTableFormatConfig(new BlockBasedTableConfig());
        }

        /** Has RocksDB verify all tables, from 6.20 on. */
        void verify(String dir) throws Exception {
            if (has(db, "verifyChecksum")) {
                call(db, "verifyChecksum");
                System.out.println(dir + "\tverified");
            }
        }

        /** Prints rows and a digest of each family, and finds each of its rows by its key. */
        void dump(String dir, String stage) throws Exception {
            for (int i = 0; i < families.size(); i++) {
                MessageDigest sum = MessageDigest.getInstance("SHA-256");
                int rows = 0;
                ColumnFamilyHandle f = families.get(i);
                try (ReadOptions o = new ReadOptions().setVerifyChecksums(true); RocksIterator it = db.newIterator(f, o)) {
                    for (it.seekToFirst(); it.isValid(); it.next(), rows++) {
                        for (byte[] b : new byte[][] {it.key(), it.value()}) {
                            sum.update(ByteBuffer.allocate(4).putInt(b.length).array());
                            sum.update(b);
                        }
                        want(Arrays.equals(db.get(f, it.key()), it.value()), "get of a row");
                    }
                    it.status();
                }
                System.out.printf("%s\t%s\t%s\t%d\t%032x\n", dir, stage, names.get(i), rows,
                        new java.math.BigInteger(1, Arrays.copyOf(sum.digest(), 16)));
            }
        }

        /** Changes rows from the first on in every way, and back. */
        void work(ColumnFamilyHandle f) throws Exception {
            List<byte[][]> rows = new ArrayList<>();
            try (RocksIterator it = db.newIterator(f)) {
                for (it.seekToFirst(); it.isValid() && rows.size() < 50; it.next()) {
                    rows.add(new byte[][] {it.key(), it.value()});
                }
            }
            if (rows.size() < 4) {
                return;
            }
            byte[] first = rows.get(0)[0], second = rows.get(1)[0], third = rows.get(2)[0], last = rows.get(rows.size() - 1)[0];
            byte[] operand = "operand".getBytes(StandardCharsets.UTF_8);
            db.merge(f, first, operand);
            byte[] merged = Arrays.copyOf(rows.get(0)[1], rows.get(0)[1].length + 1 + operand.length);
            merged[rows.get(0)[1].length] = ',';
            System.arraycopy(operand, 0, merged, merged.length - operand.length, operand.length);
            want(Arrays.equals(db.get(f, first), merged), "merge");
            db.delete(f, second);
            want(db.get(f, second) == null, "delete");
            db.deleteRange(f, third, last);
            want(db.get(f, third) == null && db.get(f, last) != null, "deleteRange");
            db.flush(new FlushOptions().setWaitForFlush(true), f);
            want(Arrays.equals(db.get(f, first), merged) && db.get(f, second) == null && db.get(f, third) == null, "flush");
            for (byte[][] row : rows) {
                db.put(f, row[0], row[1]);
            }
            db.flush(new FlushOptions().setWaitForFlush(true), f);
        }

        @Override
        public void close() {
            families.forEach(ColumnFamilyHandle::close);
            db.close();
        }
    }

    private static void want(boolean ok, String what) {
        if (!ok) {
            throw new IllegalStateException(what + ": another answer");
        }
    }

    /** Says whether this release has a method. */
    private static boolean has(Object o, String name) {
        return Arrays.stream(o.getClass().getMethods()).anyMatch(m -> m.getName().equals(name));
    }

    /** Calls a method that not all releases have. */
    private static Object call(Object o, String name, Object... args) throws Exception {
        for (Method m : o.getClass().getMethods()) {
            if (m.getName().equals(name) && m.getParameterCount() == args.length && takes(m, args)) {
                try {
                    return m.invoke(o, args);
                } catch (InvocationTargetException e) {
                    throw (Exception) e.getCause();
                }
            }
        }
        throw new NoSuchMethodException(name);
    }

    private static boolean takes(Method m, Object[] args) {
        for (int i = 0; i < args.length; i++) {
            Class<?> c = m.getParameterTypes()[i];
            if (!c.isPrimitive() && !c.isInstance(args[i])) {
                return false;
            }
        }
        return true;
    }
}
