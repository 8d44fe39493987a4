package lab;

import java.io.File;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.type.TypeReference;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.SerializationFeature;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.util.FileUtils;

/** The command line; see README.md. */
public final class Main {
    static final ObjectMapper JSON =
            new ObjectMapper()
                    .enable(SerializationFeature.INDENT_OUTPUT)
                    .enable(SerializationFeature.ORDER_MAP_ENTRIES_BY_KEYS);

    private static final String USAGE = String.join("\n",
            "usage: gen OUT [CASE...] | gen-random SEED OUT [CASE...] | list | index ROOT | orphans CASE_DIR...",
            "       verify SNAPSHOT TRUTH [--entry NAME] [--backend hashmap|rocksdb] [--parallelism N] [--claim] [--shared] [--conf K=V]...",
            "       verify-all DIR [CASE...] | verify-many LIST | circle-many LIST | road-many LIST",
            "       live DIR [--idle] [--name NAME] [--parts A,B] [--restore SNAPSHOT [--base ROUNDS] [--claim]] [--conf K=V]...",
            "       load-many LIST | meta FILE | meta-many LIST | meta-all DIR | rewrite FILE OUT | rewrite-many LIST | rewrite-all DIR",
            "       hashes SEED N");

    public static void main(String[] args) throws Exception {
        List<String> a = Arrays.asList(args);
        String command = args.length == 0 ? "" : args[0];
        int n = args.length - 1, rc = 0;
        if (command.equals("gen") && n >= 1) {
            rc = Cases.generate(Cases.all(), new File(args[1]), a.subList(2, a.size()));
        } else if (command.equals("gen-random") && n >= 2) {
            rc = Cases.generate(Dice.cases(Long.parseLong(args[1])), new File(args[2]), a.subList(3, a.size()));
        } else if (command.equals("list") && n == 0) {
            Cases.all().forEach(c -> System.out.println(c.name));
        } else if (command.equals("index") && n == 1) {
            Disk.index(new File(args[1]));
        } else if (command.equals("orphans") && n >= 1) {
            for (String dir : a.subList(1, a.size())) {
                orphans(new File(dir).getAbsoluteFile());
            }
        } else if (command.equals("live") && n >= 1) {
            rc = Live.run(new File(args[1]).getAbsoluteFile(), a.subList(2, a.size()));
        } else if (command.equals("verify") && n >= 2) {
            rc = verify(args[1], new File(args[2]), a.subList(3, a.size()));
        } else if (command.equals("verify-all") && n >= 1) {
            rc = verifyAll(new File(args[1]), a.subList(2, a.size()));
        } else if (command.equals("verify-many") && n == 1) {
            Summary s = new Summary();
            for (List<String> l : lines(args[1])) {
                s.verify(l.get(0), l.get(0), new File(l.get(1)), l.subList(2, l.size()));
            }
            if (first != null) {
                first.close();
            }
            rc = s.print();
        } else if (command.equals("circle-many") && n == 1) {
            rc = Circle.runMany(lines(args[1]));
        } else if (command.equals("road-many") && n == 1) {
            try (Road road = new Road()) {
                rc = many(args[1], road::run);
            }
        } else if (command.equals("load-many") && n == 1) {
            rc = many(args[1], l -> Meta.load(new File(l.get(0))));
        } else if (command.equals("meta") && n == 1) {
            System.out.println(JSON.writeValueAsString(Meta.json(new File(args[1]))));
        } else if (command.equals("meta-many") && n == 1) {
            rc = many(args[1], l -> JSON.writeValue(new File(l.get(1)), Meta.json(new File(l.get(0)))));
        } else if (command.equals("meta-all") && n == 1) {
            for (File truth : truths(new File(args[1]))) {
                for (JsonNode s : JSON.readTree(truth).get("snapshots")) {
                    File c = truth.getParentFile();
                    JSON.writeValue(new File(c, s.get("meta").asText()), Meta.json(new File(c, s.get("dir").asText() + "/_metadata")));
                }
            }
        } else if (command.equals("rewrite") && n == 2) {
            Meta.rewrite(new File(args[1]), new File(args[2]));
        } else if (command.equals("rewrite-many") && n == 1) {
            rc = many(args[1], l -> Meta.rewrite(new File(l.get(0)), new File(l.get(1))));
        } else if (command.equals("hashes") && n == 2) {
            new Hashes(Long.parseLong(args[1]), System.out).run(Integer.parseInt(args[2]));
        } else if (command.equals("rewrite-all") && n == 1) {
            rc = rewriteAll(new File(args[1]));
        } else {
            System.err.println(USAGE);
            rc = 2;
        }
        System.exit(rc); // Flink's threads would keep the JVM
    }

    // ------------------------------------------------------------------ lists of files

    private interface Action {
        void run(List<String> columns) throws Exception;
    }

    /** The lines of a list file, cut at tabs. */
    private static List<List<String>> lines(String list) throws Exception {
        List<List<String>> out = new ArrayList<>();
        for (String l : Files.readAllLines(new File(list).toPath())) {
            if (!l.isEmpty()) {
                out.add(Arrays.asList(l.split("\t")));
            }
        }
        return out;
    }

    /** Says OK or FAIL for every line. */
    private static int many(String list, Action action) throws Exception {
        int failed = 0;
        for (List<String> l : lines(list)) {
            try {
                action.run(l);
                System.out.println("OK " + l.get(0));
            } catch (Throwable e) {
                failed++;
                System.out.println("FAIL " + l.get(0) + ": " + cause(e));
            }
        }
        return failed == 0 ? 0 : 1;
    }

    /** The innermost cause, in one line. */
    static String cause(Throwable e) {
        while (e.getCause() != null) {
            e = e.getCause();
        }
        return e.toString().replace('\n', ' ');
    }

    // ------------------------------------------------------------------ verify

    /** The first run whose cluster is for all verifications that say --shared. */
    private static Run first;

    /** Restores the snapshot with the job it came from and compares what the operators see with the truth. */
    static int verify(String snapshot, File truthFile, List<String> options) throws Exception {
        JsonNode truth = JSON.readTree(truthFile);
        String claim = "NO_CLAIM", name = new File(snapshot).getName();
        Map<String, String> set = new TreeMap<>();
        boolean shared = false;
        for (int i = 0; i < options.size(); i++) {
            switch (options.get(i)) {
                case "--entry": name = options.get(++i); break;
                case "--backend": set.put("state.backend.type", options.get(++i)); break;
                case "--parallelism": set.put("parallelism.default", options.get(++i)); break;
                case "--claim": claim = "CLAIM"; break;
                case "--shared": shared = true; break;
                case "--conf": {
                    String[] kv = options.get(++i).split("=", 2);
                    set.put(kv[0], kv[1]);
                    break;
                }
                default: throw new IllegalArgumentException(USAGE);
            }
        }
        JsonNode entry = snapshotEntry(truth, name);
        File out = Files.createTempDirectory("interop-verify").toFile();
        Map<String, String> conf = new TreeMap<>();
        entry.get("config").fields().forEachRemaining(e -> conf.put(e.getKey(), e.getValue().asText()));
        conf.put("execution.checkpointing.dir", "file://" + out + "/ckpt");
        if (conf.containsKey("state.changelog.dstl.dfs.base-path")) {
            conf.put("state.changelog.dstl.dfs.base-path", "file://" + out + "/dstl");
        }
        conf.putAll(set);
        List<String> parts = Arrays.asList(JSON.convertValue(truth.get("parts"), String[].class));
        boolean inflight = entry.path("inflight").asBoolean();
        boolean async = parts.contains("kv-async"); // shows the state of a key only at its next event
        boolean canonical = !async && !"forst".equals(conf.get("state.backend.type"));
        int failures;
        Run run = !shared ? new Run(parts, conf, "000000000000000000000000000000ff", snapshot, claim)
                : new Run(parts, conf, UUID.randomUUID().toString().replace("-", ""), snapshot, claim, first == null ? null : first.cluster);
        if (shared && first == null) {
            first = run;
        }
        try {
            Ctl.dumpOnOpen = !inflight;
            Ctl.rounds = entry.get("rounds").asInt();
            run.base = Ctl.rounds;
            run.submit();
            if (async) {
                run.advance(Ctl.rounds + 1);
                Run.await("async", () -> Ctl.counted("kv-async") == Jobs.KEYS);
            }
            if (inflight) { // the channel state is replayed; look at the state after that
                Run.quiet("in-flight records", () -> parts.stream().mapToLong(Ctl::counted).sum());
                Ctl.dumpOnSnapshot = true;
            }
            run.savepoint(out.getPath(), canonical ? SavepointFormatType.CANONICAL : SavepointFormatType.NATIVE);
            System.out.println("PASS restored and took a new savepoint");
            Ctl.drain = true;
            JsonNode dump = tree(Ctl.dump);
            // As long as it takes until all has fired that must; then long enough to see what must not.
            Run.awaitAtMost(60, () -> Truth.firedAll(entry.get("operators"), tree(Ctl.fired)));
            Run.quiet("the final watermark", () -> tree(Ctl.fired).toString().length());
            if (async) {
                dump = tree(Ctl.dump);
            }
            failures = Truth.compare(entry.get("operators"), dump, tree(Ctl.fired));
            if (entry.hasNonNull("masterState")) {
                String got = dump.path("(master)").path("lab-master-hook").path("").asText();
                boolean ok = got.equals(entry.get("masterState").asText());
                System.out.println((ok ? "PASS" : "FAIL") + " master state " + got);
                failures += ok ? 0 : 1;
            }
            run.cancel();
        } catch (Throwable e) {
            if (shared) {
                run.abandon();
            }
            throw e;
        } finally {
            if (!shared) {
                run.close();
            }
            FileUtils.deleteDirectory(out);
        }
        System.out.println(failures == 0 ? "PASS" : "FAIL: " + failures + " states");
        return failures == 0 ? 0 : 1;
    }

    /** Verifications one after the other, and their summary. */
    private static final class Summary {
        private final List<String> text = new ArrayList<>();
        private int failed;

        void verify(String name, String snapshot, File truth, List<String> options) {
            System.out.println("== " + name);
            String result;
            long t = System.currentTimeMillis();
            try {
                result = Main.verify(snapshot, truth, options) == 0 ? "" : "states differ from the truth";
            } catch (Throwable e) {
                Throwable root = e;
                while (root.getCause() != null) {
                    root = root.getCause();
                }
                String s = root.toString(); // a failed job's exception carries the stack traces of its causes as text
                int cause = s.lastIndexOf("Caused by: ");
                result = (cause < 0 ? s : s.substring(cause + 11)).lines().findFirst().orElse("");
                System.out.println("FAIL " + result);
            }
            failed += result.isEmpty() ? 0 : 1;
            System.out.println(name + " took " + (System.currentTimeMillis() - t) + " ms");
            text.add(result.isEmpty() ? "PASS " + name : "FAIL " + name + ": " + result);
        }

        void skip(String name, String why) {
            text.add("SKIP " + name + ": " + why);
        }

        int print() {
            text.forEach(l -> System.out.println("SUMMARY " + l));
            return failed == 0 ? 0 : 1;
        }
    }

    /** Verifies every snapshot of every case below the directory. */
    private static int verifyAll(File dir, List<String> only) throws Exception {
        Summary summary = new Summary();
        for (File truth : truths(dir)) {
            File c = truth.getParentFile();
            if (!only.isEmpty() && !only.contains(c.getName())) {
                continue;
            }
            for (JsonNode s : JSON.readTree(truth).get("snapshots")) {
                String snapshot = s.get("dir").asText();
                if (!s.path("restorable").asBoolean(true)) {
                    summary.skip(c.getName() + "/" + snapshot, "files are missing, see orphans.json");
                    continue;
                }
                summary.verify(c.getName() + "/" + snapshot, s.has("uri") ? s.get("uri").asText() : c + "/" + snapshot, truth, List.of());
            }
        }
        return summary.print();
    }

    // ------------------------------------------------------------------ whole directories of cases

    /** Examines the case anew: after a case that was killed, or when files were added or removed. */
    private static void orphans(File dir) throws Exception {
        ObjectNode truth = (ObjectNode) JSON.readTree(new File(dir, "truth.json"));
        List<Map<String, Object>> snapshots = JSON.convertValue(truth.get("snapshots"), new TypeReference<List<Map<String, Object>>>() {});
        Disk.of(dir, truth.get("writtenAt").asText(), snapshots).write();
        truth.set("snapshots", JSON.valueToTree(snapshots));
        JSON.writeValue(new File(dir, "truth.json"), truth);
    }

    /** Says for every _metadata whether Flink's own reader and writer give back the same bytes. */
    private static int rewriteAll(File dir) throws Exception {
        int differing = 0;
        for (File truth : truths(dir)) {
            for (JsonNode s : JSON.readTree(truth).get("snapshots")) {
                File meta = new File(truth.getParentFile(), s.get("dir").asText() + "/_metadata");
                File out = File.createTempFile("interop", "_metadata");
                Meta.rewrite(meta, out);
                long at = Files.mismatch(meta.toPath(), out.toPath());
                System.out.println((at < 0 ? "SAME " : "DIFFERENT at byte " + at + " (" + meta.length() + " -> " + out.length() + " bytes) ") + meta);
                differing += at < 0 ? 0 : 1;
                out.delete();
            }
        }
        return differing == 0 ? 0 : 1;
    }

    private static List<File> truths(File dir) {
        return Disk.sorted(dir).stream().map(c -> new File(c, "truth.json")).filter(File::exists).toList();
    }

    /** The snapshot with that directory (as the truth has it, or its last part), or the only one. */
    static JsonNode snapshotEntry(JsonNode truth, String name) {
        JsonNode list = truth.get("snapshots");
        for (JsonNode s : list) {
            String dir = s.get("dir").asText();
            if (dir.equals(name) || new File(dir).getName().equals(name)) {
                return s;
            }
        }
        if (list.size() == 1) {
            return list.get(0);
        }
        throw new IllegalArgumentException("the truth has no snapshot named " + name);
    }

    static JsonNode tree(Object o) throws Exception {
        synchronized (o) {
            return JSON.readTree(JSON.writeValueAsString(o)); // through text: 5 and 5L become equal
        }
    }
}
