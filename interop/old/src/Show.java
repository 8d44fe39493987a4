import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.File;
import java.io.FileInputStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.flink.core.fs.Path;
import org.apache.flink.runtime.checkpoint.Checkpoints;
import org.apache.flink.runtime.util.EnvironmentInformation;
import org.apache.flink.util.AbstractID;

/** Loads a _metadata with the loader of this Flink release, and shows its fields as JSON. */
final class Show {
    private Show() {}

    static Object load(File f) throws Exception {
        try (DataInputStream in = new DataInputStream(new BufferedInputStream(new FileInputStream(f)))) {
            ClassLoader loader = Show.class.getClassLoader();
            for (Method m : Checkpoints.class.getMethods()) {
                if (m.getName().equals("loadCheckpointMetadata")) { // since 1.11 it also wants the pointer, for relative files
                    return m.getParameterCount() == 2 ? m.invoke(null, in, loader)
                            : m.invoke(null, in, loader, f.getAbsolutePath());
                }
            }
        } catch (InvocationTargetException e) {
            throw e.getCause() instanceof Exception ? (Exception) e.getCause() : e;
        }
        throw new IllegalStateException("no loadCheckpointMetadata");
    }

    static void write(File f, File out) throws Exception {
        Map<String, Object> top = new LinkedHashMap<>();
        Object m = load(f);
        top.put("loader", EnvironmentInformation.getVersion());
        try (DataInputStream in = new DataInputStream(new FileInputStream(f))) {
            in.readInt();
            top.put("metadataVersion", in.readInt());
        }
        top.put("metadata", fields(m));
        Files.write(out.toPath(), text(top).getBytes(StandardCharsets.UTF_8));
    }

    private static Object fields(Object o) throws Exception {
        if (o == null || o instanceof String || o instanceof Boolean || o instanceof Number) {
            return o;
        } else if (o instanceof byte[]) {
            byte[] b = (byte[]) o;
            Map<String, Object> m = new LinkedHashMap<>();
            m.put("len", b.length);
            m.put("sha256", hex(MessageDigest.getInstance("SHA-256").digest(b)));
            m.put("head", hex(Arrays.copyOf(b, Math.min(b.length, 48))));
            return m;
        } else if (o instanceof long[]) {
            List<Object> l = new ArrayList<>();
            for (long x : (long[]) o) {
                l.add(x);
            }
            return l;
        } else if (o instanceof int[]) {
            List<Object> l = new ArrayList<>();
            for (int x : (int[]) o) {
                l.add(x);
            }
            return l;
        } else if (o instanceof Object[]) {
            return items(Arrays.asList((Object[]) o));
        } else if (o instanceof Enum || o instanceof java.net.URI || o instanceof java.util.UUID || o instanceof Path || o instanceof AbstractID) {
            return o.toString();
        } else if (o instanceof Map) {
            Map<String, Object> m = new TreeMap<>();
            for (Map.Entry<?, ?> e : ((Map<?, ?>) o).entrySet()) {
                m.put(key(e.getKey()), fields(e.getValue()));
            }
            return m;
        } else if (o instanceof Optional) {
            return fields(((Optional<?>) o).orElse(null));
        }
        String name = o.getClass().getName();
        if (o instanceof Collection && !name.startsWith("org.apache.flink")) {
            return items((Collection<?>) o);
        }
        Map<String, Object> m = new LinkedHashMap<>();
        m.put("_class", name.substring(name.lastIndexOf('.') + 1));
        if (!name.startsWith("org.apache.flink")) {
            m.put("str", o.toString());
            return m;
        }
        for (Class<?> c = o.getClass(); c != null && c != Object.class; c = c.getSuperclass()) {
            if (!c.getName().startsWith("org.apache.flink")) {
                if (o instanceof Collection) {
                    m.put("items", items((Collection<?>) o));
                }
                continue;
            }
            for (Field f : c.getDeclaredFields()) {
                if (!Modifier.isStatic(f.getModifiers()) && !Modifier.isTransient(f.getModifiers()) && !f.isSynthetic()) {
                    f.setAccessible(true);
                    m.put(f.getName(), fields(f.get(o)));
                }
            }
        }
        return m;
    }

    private static List<Object> items(Collection<?> c) throws Exception {
        List<Object> l = new ArrayList<>();
        for (Object x : c) {
            l.add(fields(x));
        }
        return l;
    }

    private static String key(Object k) throws Exception {
        if (k != null && k.getClass().getName().endsWith("StateHandleID")) {
            try {
                return (String) k.getClass().getMethod("getKeyString").invoke(k);
            } catch (NoSuchMethodException e) {
                // another release
            }
        }
        return String.valueOf(k);
    }

    private static String hex(byte[] b) {
        StringBuilder s = new StringBuilder();
        for (byte x : b) {
            s.append(String.format("%02x", x));
        }
        return s.toString();
    }

    // ---------------------------------------------------------------- JSON text

    static String text(Object o) {
        StringBuilder b = new StringBuilder();
        text(o, b, "");
        return b.toString();
    }

    private static void text(Object o, StringBuilder b, String indent) {
        if (o instanceof String) {
            quote((String) o, b);
        } else if (o instanceof Map || o instanceof Collection) {
            boolean map = o instanceof Map, first = true;
            Collection<?> items = map ? ((Map<?, ?>) o).entrySet() : (Collection<?>) o;
            boolean flat = flat(map ? ((Map<?, ?>) o).values() : items);
            b.append(map ? '{' : '[');
            for (Object e : items) {
                b.append(first ? "" : flat ? ", " : ",").append(flat ? "" : "\n" + indent + " ");
                first = false;
                if (map) {
                    quote(String.valueOf(((Map.Entry<?, ?>) e).getKey()), b);
                    b.append(": ");
                    text(((Map.Entry<?, ?>) e).getValue(), b, indent + " ");
                } else {
                    text(e, b, indent + " ");
                }
            }
            b.append(flat || first ? "" : "\n" + indent).append(map ? '}' : ']');
        } else {
            b.append(o); // null, numbers, booleans
        }
    }

    private static boolean flat(Collection<?> c) {
        return c.size() <= 130 && c.stream().noneMatch(x -> x instanceof Map || x instanceof Collection);
    }

    private static void quote(String s, StringBuilder b) {
        b.append('"');
        for (char c : s.toCharArray()) {
            if (c == '"' || c == '\\') {
                b.append('\\').append(c);
            } else if (c < 32) {
                b.append(String.format("\\u%04x", (int) c));
            } else {
                b.append(c);
            }
        }
        b.append('"');
    }
}
