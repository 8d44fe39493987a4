package lab;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Stream;

/** The files of a case against what its _metadata files name, according to Flink's own reader. */
final class Disk {
    private final File dir;
    private final Path writtenAt;
    private final List<Map<String, Object>> snapshots;
    private final Set<String> referenced = new TreeSet<>(); // this and all below: paths relative to the case
    private final Map<String, Long> orphans = new TreeMap<>();
    private final Set<String> emptyDirs = new TreeSet<>();
    private final Map<String, List<String>> dangling = new TreeMap<>();

    private Disk(File dir, String writtenAt, List<Map<String, Object>> snapshots) {
        this.dir = dir;
        this.writtenAt = Path.of(writtenAt);
        this.snapshots = snapshots;
    }

    /** Examines a case; adds "restorable" and "files" to its snapshots. */
    static Disk of(File dir, String writtenAt, List<Map<String, Object>> snapshots) throws Exception {
        Disk d = new Disk(dir, writtenAt, snapshots);
        for (Map<String, Object> s : snapshots) {
            d.snapshot(s);
        }
        d.files();
        return d;
    }

    private void snapshot(Map<String, Object> s) throws Exception {
        String at = (String) s.get("dir");
        Set<String> relative = new TreeSet<>(), absolute = new TreeSet<>(), segments = new TreeSet<>(), all = new TreeSet<>();
        collect(Meta.json(new File(dir, at + "/_metadata")), at, relative, absolute, segments);
        all.addAll(relative);
        all.addAll(absolute);
        all.addAll(segments);
        List<String> missing = new ArrayList<>();
        all.stream().filter(p -> !new File(dir, p).isFile()).forEach(missing::add);
        if (!missing.isEmpty()) {
            dangling.put(at, missing);
        }
        referenced.addAll(all);
        referenced.add(at + "/_metadata");
        s.put("restorable", missing.isEmpty());
        s.put("files", Map.of("relative", relative.size(), "absolute", absolute.size(), "segment", segments.size(), "missing", missing.size()));
    }

    private void collect(Object o, String at, Set<String> relative, Set<String> absolute, Set<String> segments) {
        if (o instanceof Map) {
            Map<?, ?> m = (Map<?, ?>) o;
            switch (String.valueOf(m.get("@class"))) {
                case "RelativeFileStateHandle": relative.add(at + "/" + m.get("relativePath")); break;
                case "FileStateHandle": absolute.add(local((String) m.get("filePath"), at)); break;
                case "SegmentFileStateHandle": segments.add(local((String) m.get("filePath"), at)); break;
                default:
            }
            m.values().forEach(v -> collect(v, at, relative, absolute, segments));
        } else if (o instanceof Collection) {
            ((Collection<?>) o).forEach(v -> collect(v, at, relative, absolute, segments));
        }
    }

    /** A recorded path as a path relative to the case; objects of S3 lie in s3/BUCKET of the case. */
    private String local(String uri, String at) {
        if (uri.startsWith("${SNAPSHOT}")) {
            return at + uri.substring("${SNAPSHOT}".length());
        }
        String p = uri.startsWith("file:") ? uri.substring(5) : uri.replaceFirst("^s3p?://", writtenAt + "/s3/");
        return writtenAt.relativize(Path.of(p)).toString();
    }

    private void files() throws Exception {
        try (Stream<Path> s = Files.walk(dir.toPath())) {
            for (Path p : (Iterable<Path>) s::iterator) {
                String rel = dir.toPath().relativize(p).toString();
                if (Files.isDirectory(p)) {
                    if (p.toFile().list().length == 0) {
                        emptyDirs.add(rel);
                    }
                } else if (rel.indexOf('/') >= 0 && !referenced.contains(rel) && !rel.equals("s3/listing.json") && !rel.startsWith("sink out/")) {
                    orphans.put(rel, p.toFile().length()); // what lies in the case itself is this program's
                }
            }
        }
    }

    /** Writes orphans.json: for checkpoints always, for savepoints when there is something to say. */
    void write() throws Exception {
        File out = new File(dir, "orphans.json");
        if (!dir.getName().startsWith("ck-") && orphans.isEmpty() && dangling.isEmpty()) {
            out.delete();
            return;
        }
        Set<String> dirs = new TreeSet<>();
        for (String p : orphans.keySet()) {
            String d = p.substring(0, p.lastIndexOf('/'));
            if (!new File(dir, d + "/_metadata").exists() && !d.endsWith("shared") && !d.endsWith("taskowned")) {
                dirs.add(d);
            }
        }
        Map<String, Object> t = new LinkedHashMap<>();
        t.put("note", "paths relative to the case; orphans: files on disk that no retained _metadata names");
        t.put("metadata", snapshots.stream().map(s -> s.get("dir") + "/_metadata").sorted().toArray());
        t.put("referenced", referenced);
        t.put("orphans", orphans);
        t.put("dirsWithoutMetadata", dirs);
        t.put("emptyDirs", emptyDirs);
        t.put("danglingReferences", dangling);
        Main.JSON.writeValue(out, t);
    }

    // ------------------------------------------------------------------ the table of all snapshots

    /** Prints a Markdown table of the snapshots below root/VERSION/CASE, with the handle classes that each _metadata holds. */
    static void index(File root) throws Exception {
        System.out.println("| Flink | case | snapshot | v | id | case bytes (without json) | files | absolute references | handles |");
        System.out.println("|---|---|---|---|---|---|---|---|---|");
        for (File version : sorted(root)) {
            for (File c : sorted(version)) {
                File truth = new File(c, "truth.json");
                if (!truth.exists()) {
                    continue;
                }
                for (var s : Main.JSON.readTree(truth).get("snapshots")) {
                    var meta = Main.JSON.readTree(new File(c, s.get("meta").asText()));
                    Map<String, Integer> handles = new TreeMap<>();
                    count(Main.JSON.convertValue(meta.get("metadata"), Object.class), handles);
                    StringBuilder text = new StringBuilder();
                    handles.forEach((k, n) -> text.append(text.length() == 0 ? "" : ", ").append(k).append(' ').append(n));
                    System.out.println("| " + version.getName() + " | " + c.getName() + " | " + s.get("dir").asText() + " | " + meta.get("version")
                            + " | " + meta.get("metadata").get("checkpointId") + " | " + bytes(c) + " | " + count(new File(c, s.get("dir").asText()))
                            + " | " + (s.path("files").path("absolute").asInt() + s.path("files").path("segment").asInt()) + " | " + text + " |");
                }
            }
        }
    }

    private static void count(Object o, Map<String, Integer> handles) {
        if (o instanceof Map) {
            String c = String.valueOf(((Map<?, ?>) o).get("@class"));
            if (c.matches(".*Handle(Impl)?|.*HandleStreamImpl|FullyFinished.*|FinishedOperator.*")) {
                handles.merge(c, 1, Integer::sum);
            }
            ((Map<?, ?>) o).values().forEach(v -> count(v, handles));
        } else if (o instanceof Collection) {
            ((Collection<?>) o).forEach(v -> count(v, handles));
        }
    }

    private static long bytes(File c) throws Exception {
        try (Stream<Path> s = Files.walk(c.toPath())) {
            return s.filter(p -> Files.isRegularFile(p) && !p.toString().endsWith(".json")).mapToLong(p -> p.toFile().length()).sum();
        }
    }

    private static long count(File snapshot) throws Exception {
        try (Stream<Path> s = Files.walk(snapshot.toPath())) {
            return s.filter(Files::isRegularFile).count();
        }
    }

    static List<File> sorted(File dir) {
        File[] l = dir.listFiles(File::isDirectory);
        return l == null ? List.of() : Stream.of(l).sorted().toList();
    }
}
