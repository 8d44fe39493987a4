package bench;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.UUID;
import org.apache.flink.core.fs.FileSystem;
import org.apache.flink.core.fs.Path;
import org.apache.flink.runtime.checkpoint.Checkpoints;
import org.apache.flink.runtime.checkpoint.OperatorState;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.runtime.checkpoint.metadata.CheckpointMetadata;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.state.IncrementalKeyedStateHandle.HandleAndLocalPath;
import org.apache.flink.runtime.state.IncrementalRemoteKeyedStateHandle;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.runtime.state.filesystem.FileStateHandle;

/** `_metadata` files: generator, load and store with Flink's own classes. */
final class MetaBench {
    private static final int SUBTASKS = 100;
    private static final int MAX_PARALLELISM = 128;

    private MetaBench() {}

    /** One operator, 100 subtasks, n shared files in all, 4 private files and a meta handle per subtask; seeded, but Flink draws each subtask's state handle id. */
    static void gen(File dir, int n) throws Exception {
        Random r = new Random(n);
        String base = "file:/data/flink/checkpoints/" + id(r).toString().replace("-", "");
        OperatorState op = Compat.operatorState(new OperatorID(r.nextLong(), r.nextLong()), SUBTASKS, MAX_PARALLELISM);
        for (int s = 0; s < SUBTASKS; s++) {
            int count = n / SUBTASKS + (s < n % SUBTASKS ? 1 : 0);
            List<HandleAndLocalPath> shared = new ArrayList<>(count);
            for (int i = 0; i < count; i++) {
                shared.add(HandleAndLocalPath.of(new FileStateHandle(new Path(base + "/shared/" + id(r)), 1 + r.nextInt(67_000_000)), String.format("%06d.sst", i + 8)));
            }
            List<HandleAndLocalPath> priv = new ArrayList<>();
            for (String f : new String[] {"CURRENT", "MANIFEST-000004", "OPTIONS-000007", "IDENTITY"}) {
                priv.add(HandleAndLocalPath.of(new FileStateHandle(new Path(base + "/chk-42/" + id(r)), 1 + r.nextInt(100_000)), f));
            }
            op.putState(s, OperatorSubtaskState.builder().setManagedKeyedState(new IncrementalRemoteKeyedStateHandle(
                    id(r), KeyGroupRangeAssignment.computeKeyGroupRangeForOperatorIndex(MAX_PARALLELISM, SUBTASKS, s), 42L, shared, priv,
                    new FileStateHandle(new Path(base + "/chk-42/" + id(r)), 2000))).build());
        }
        Files.createDirectories(dir.toPath());
        File file = new File(dir, "_metadata");
        try (OutputStream out = new BufferedOutputStream(new FileOutputStream(file), 1 << 16)) {
            Checkpoints.storeCheckpointMetadata(new CheckpointMetadata(42L, List.of(op), List.of()), out);
        }
        Out.print(Out.fields("name", "meta-gen", "handles", n, "path", file, "bytes", file.length()));
    }

    private static UUID id(Random r) {
        return new UUID(r.nextLong(), r.nextLong());
    }

    private static CheckpointMetadata load(InputStream in, File file) throws Exception {
        return Checkpoints.loadCheckpointMetadata(new DataInputStream(in), MetaBench.class.getClassLoader(), "file:" + file.getAbsoluteFile().getParent());
    }

    private static long handles(CheckpointMetadata m) {
        long n = 0;
        for (OperatorState op : m.getOperatorStates()) {
            for (OperatorSubtaskState s : op.getStates()) {
                for (var h : s.getManagedKeyedState()) {
                    if (h instanceof IncrementalRemoteKeyedStateHandle) {
                        n += ((IncrementalRemoteKeyedStateHandle) h).getSharedState().size();
                    }
                }
            }
        }
        return n;
    }

    private interface Opener {
        InputStream open() throws Exception;
    }

    private interface Creator {
        OutputStream create() throws Exception;
    }

    /**
     * Loads and stores each file in three ways: as Flink does it on file: paths (unbuffered), buffered, and in memory; with -Dio=WAY in one of them only, so that
     * the JIT has seen no other.
     */
    static void run(List<File> files, double seconds) throws Exception {
        for (File f : files) {
            byte[] bytes = Files.readAllBytes(f.toPath());
            File copy = File.createTempFile("flink-bench", "_metadata");
            Path path = new Path(f.getAbsoluteFile().toURI());
            Path to = new Path(copy.getAbsoluteFile().toURI());
            long handles = handles(load(new ByteArrayInputStream(bytes), f));
            String[] ways = {"flink", "buffered", "memory"};
            Opener[] in = {
                () -> FileSystem.get(path.toUri()).open(path), // FileStateHandle.openInputStream, as loadAndValidateCheckpoint does
                () -> new BufferedInputStream(new FileInputStream(f), 1 << 16),
                () -> new ByteArrayInputStream(bytes),
            };
            Creator[] out = {
                () -> FileSystem.get(to.toUri()).create(to, FileSystem.WriteMode.OVERWRITE), // as FsCheckpointMetadataOutputStream
                () -> new BufferedOutputStream(new FileOutputStream(copy), 1 << 16),
                () -> new ByteArrayOutputStream(bytes.length),
            };
            for (int w = 0; w < ways.length; w++) {
                if (!wanted(ways[w])) {
                    continue;
                }
                Opener o = in[w];
                Out.Lap[] laps = repeat(seconds, () -> {
                    try (InputStream s = o.open()) {
                        load(s, f);
                    }
                });
                Out.line("meta-load", Out.fields("io", ways[w], "handles", handles), handles, bytes.length, laps);
            }
            if (wanted("buffered")) {
                heap(f, bytes, handles);
            }
            CheckpointMetadata m = load(new ByteArrayInputStream(bytes), f);
            for (int w = 0; w < ways.length; w++) {
                if (!wanted(ways[w])) {
                    continue;
                }
                Creator c = out[w];
                Out.Lap[] laps = repeat(seconds, () -> {
                    try (DataOutputStream s = new DataOutputStream(c.create())) {
                        Checkpoints.storeCheckpointMetadata(m, s);
                    }
                });
                Out.line("meta-store", Out.fields("io", ways[w], "handles", handles), handles, bytes.length, laps);
            }
            if (copy.length() > 0 && !Arrays.equals(bytes, Files.readAllBytes(copy.toPath()))) {
                System.err.println("note: " + f + ": stored bytes differ from the file (another metadata version)");
            }
            copy.delete();
        }
    }

    private static boolean wanted(String way) {
        String io = System.getProperty("io");
        return io == null || io.equals(way);
    }

    /** Live bytes after a load, and the peak of the heap pools (garbage included) during one. */
    private static void heap(File f, byte[] bytes, long handles) throws Exception {
        long before = Out.used();
        Out.resetPeak();
        CheckpointMetadata m = load(new BufferedInputStream(new FileInputStream(f), 1 << 16), f);
        long peak = Out.peak() - before;
        long live = Out.used() - before;
        Out.print(Out.fields("name", "meta-heap", "handles", handles, "mb", Out.round(bytes.length / 1e6), "live_mb", Out.round(live / 1e6), "peak_mb", Out.round(peak / 1e6),
                "live_bytes_per_handle", Math.round((double) live / handles), "check", m.getCheckpointId()));
    }

    /**
     * Warms up for half of the seconds in CPU time of this thread (on a loaded machine wall time says little about the JIT), then as long for laps: 5 at least, 3
     * where one takes seconds. Short ones are batched to 0.2 s or more.
     */
    private static Out.Lap[] repeat(double seconds, Out.Body body) throws Exception {
        double warmed = 0;
        double one = 0;
        for (int i = 0; i < (one > 2 ? 1 : 3) || warmed < seconds / 2; i++) {
            Out.Lap l = Out.time(body);
            one = l.threadCpu;
            warmed += one;
        }
        int batch = (int) Math.max(1, Math.ceil(0.2 / one));
        List<Out.Lap> laps = new ArrayList<>();
        double measured = 0;
        while (laps.size() < (one > 2 ? 3 : 5) || measured < seconds / 2 && laps.size() < 101) {
            Out.Lap l = Out.time(() -> {
                for (int i = 0; i < batch; i++) {
                    body.run();
                }
            });
            measured += l.threadCpu;
            l.wall /= batch;
            l.cpu /= batch;
            l.threadCpu /= batch;
            l.gc /= batch;
            laps.add(l);
        }
        return laps.toArray(new Out.Lap[0]);
    }
}
