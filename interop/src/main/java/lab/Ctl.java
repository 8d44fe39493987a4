package lab;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Shared switches and results. MiniCluster runs every task in this JVM, so plain statics connect
 * the driver (gen, verify) with the running operators.
 */
final class Ctl {
    static volatile int rounds; // every split of the event source emits this many rounds, then idles
    static volatile boolean restored; // the current run started from a snapshot
    static volatile boolean dumpOnOpen; // operators record their restored state in open()
    static volatile boolean dumpOnSnapshot; // operators record their state at every snapshot
    static volatile boolean drain; // the event source emits the final watermark
    static volatile long slowMs; // delay per record in the operators (back pressure)
    static volatile int pad; // length of the padding in every event
    static volatile int extra; // split 0 of the event source emits this many events more
    static volatile long seed; // of random content; not reset

    /** Checkpoint id -> what subtask 1 of the part "chaos" does in it: sync, async, hang (half a minute), slow (8.5 s). */
    static final Map<Long, String> plan = new java.util.concurrent.ConcurrentHashMap<>();
    static volatile Path offsets; // the event source notes here what it had emitted at each checkpoint
    static volatile boolean failTask; // kv-long throws at its next record
    static final Map<String, AtomicLong> processed = new TreeMap<>(); // by uid
    /** uid -> state name -> key[@namespace] -> value, as JSON-able objects. */
    static final Map<String, Map<String, Map<String, Object>>> dump = new TreeMap<>();
    static final Map<String, Map<String, Map<String, Object>>> fired = new TreeMap<>(); // after drain

    private Ctl() {}

    static void reset(boolean restoredRun) {
        rounds = 0;
        restored = restoredRun;
        dumpOnOpen = dumpOnSnapshot = drain = false;
        slowMs = 0;
        pad = 0;
        extra = 0;
        plan.clear();
        failTask = false;
        offsets = null;
        synchronized (processed) {
            processed.clear();
        }
        clear(dump);
        clear(fired);
    }

    /** Notes how many events a split had emitted at a checkpoint; the last note counts. */
    static synchronized void note(long checkpoint, int split, long offset) throws IOException {
        Path file = offsets;
        if (file != null) {
            Files.writeString(file, checkpoint + " " + split + " " + offset + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        }
    }

    static void clear(Map<?, ?> m) {
        synchronized (m) {
            m.clear();
        }
    }

    static void count(String uid) {
        synchronized (processed) {
            processed.computeIfAbsent(uid, u -> new AtomicLong()).incrementAndGet();
        }
        if (slowMs > 0 && uid.startsWith("kv-")) {
            try {
                Thread.sleep(slowMs);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
    }

    static long counted(String uid) {
        synchronized (processed) {
            AtomicLong n = processed.get(uid);
            return n == null ? 0 : n.get();
        }
    }

    static void put(Map<String, Map<String, Map<String, Object>>> to, String uid, String state, String key, Object value) {
        synchronized (to) {
            to.computeIfAbsent(uid, u -> new TreeMap<>()).computeIfAbsent(state, s -> new TreeMap<>()).put(key, value);
        }
    }

    /** Adds to a sorted list under the key, for values that arrive one by one from several subtasks. */
    @SuppressWarnings("unchecked")
    static void add(Map<String, Map<String, Map<String, Object>>> to, String uid, String state, String key, Comparable<?> value) {
        synchronized (to) {
            java.util.List<Comparable<Object>> list =
                    (java.util.List<Comparable<Object>>)
                            to.computeIfAbsent(uid, u -> new TreeMap<>())
                                    .computeIfAbsent(state, s -> new TreeMap<>())
                                    .computeIfAbsent(key, k -> new java.util.ArrayList<Comparable<Object>>());
            list.add((Comparable<Object>) value);
            list.sort(null);
        }
    }
}
