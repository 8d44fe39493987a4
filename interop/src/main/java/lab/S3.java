package lab;

import java.io.File;
import java.io.InputStream;
import java.nio.file.Files;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.fs.FileStatus;
import org.apache.flink.core.fs.FileSystem;
import org.apache.flink.core.fs.Path;
import org.apache.flink.core.plugin.PluginUtils;

/**
 * Flink's S3 plugin against the server that the environment names: S3_ENDPOINT, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY;
 * S3_BUCKET_PREFIX (fx-) and the name of a case make the name of its bucket, which must exist. run.sh sets FLINK_PLUGINS_DIR.
 */
final class S3 {
    private S3() {}

    static boolean available() {
        return System.getenv("S3_ENDPOINT") != null;
    }

    static String bucket(String caseName) {
        String p = System.getenv("S3_BUCKET_PREFIX");
        return (p != null ? p : "fx-") + caseName;
    }

    /** Adds the settings of the server; they stay out of the truth files, so that those name no machine and no secret. */
    static void configure(Map<String, String> conf) {
        if (available()) {
            conf.put("s3.endpoint", System.getenv("S3_ENDPOINT"));
            conf.put("s3.path.style.access", "true");
            conf.put("s3.access-key", System.getenv("AWS_ACCESS_KEY_ID"));
            conf.put("s3.secret-key", System.getenv("AWS_SECRET_ACCESS_KEY"));
        }
    }

    /** Loads the plugin with these settings (entropy is one of them): before every job. */
    static void initialize(Configuration c) {
        if (available()) {
            FileSystem.initialize(c, PluginUtils.createPluginManagerFromRootFolder(c));
        }
    }

    /**
     * Copies all objects below root + prefix to dir/bucket, and writes dir/listing.json. The plugin decodes the names that it
     * lists (%20 and + become spaces), so names with such characters must be in the prefix.
     */
    static void export(String root, String prefix, File dir, String bucket) throws Exception {
        List<Map<String, Object>> objects = new ArrayList<>();
        export(new Path(root + "/").getFileSystem(), root + prefix + "/", root, new File(dir, bucket), objects);
        dir.mkdirs();
        Main.JSON.writeValue(new File(dir, "listing.json"), Map.of("bucket", bucket, "objects", objects));
    }

    private static void export(FileSystem fs, String at, String root, File dir, List<Map<String, Object>> objects) throws Exception {
        for (FileStatus s : fs.listStatus(new Path(at))) {
            String name = at + s.getPath().getName();
            if (s.isDir()) {
                export(fs, name + "/", root, dir, objects);
                continue;
            }
            String key = name.substring(root.length() + 1);
            byte[] body;
            try (InputStream in = fs.open(new Path(name))) {
                body = in.readAllBytes();
            }
            File f = new File(dir, key);
            f.getParentFile().mkdirs();
            Files.write(f.toPath(), body);
            Map<String, Object> o = new TreeMap<>();
            o.put("key", key);
            o.put("size", body.length);
            o.put("sha256", HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(body)));
            objects.add(o);
        }
    }
}
