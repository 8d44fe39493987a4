import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.PrintStream;
import java.io.UTFDataFormatException;
import java.util.HexFormat;
import java.util.Random;

/** Writes what Java makes of strings: java Vectors.java > vectors.txt */
public class Vectors {
    static final PrintStream out = new PrintStream(System.out, false);

    static String units(String s) {
        StringBuilder b = new StringBuilder();
        for (char c : s.toCharArray()) {
            b.append(String.format("%04x", (int) c));
        }
        return b.length() == 0 ? "-" : b.toString();
    }

    static String hex(byte[] b, int from) {
        String s = HexFormat.of().formatHex(b, from, b.length);
        return s.isEmpty() ? "-" : s;
    }

    /** write UNITS ENCODING HASHCODE */
    static void write(String s) throws Exception {
        ByteArrayOutputStream b = new ByteArrayOutputStream();
        new DataOutputStream(b).writeUTF(s);
        out.println("write " + units(s) + " " + hex(b.toByteArray(), 2) + " " + s.hashCode());
    }

    /** read ENCODING UNITS, or read ENCODING malformed */
    static void read(byte[] raw) throws Exception {
        ByteArrayOutputStream b = new ByteArrayOutputStream();
        b.write(raw.length >> 8);
        b.write(raw.length);
        b.write(raw);
        String result;
        try {
            result = units(new DataInputStream(new ByteArrayInputStream(b.toByteArray())).readUTF());
        } catch (UTFDataFormatException | EOFException e) {
            result = "malformed";
        }
        out.println("read " + hex(raw, 0) + " " + result);
    }

    static byte[] bytes(int... v) {
        byte[] b = new byte[v.length];
        for (int i = 0; i < v.length; i++) {
            b[i] = (byte) v[i];
        }
        return b;
    }

    public static void main(String[] args) throws Exception {
        out.println("# By Vectors.java, Java " + System.getProperty("java.version"));
        String[] strings = {
            "", "a", "\0", "a\0b", "\u007f", "\u0080", "é", "\u07ff", "\u0800", "日本", "\ufeff", "\uffff", "😀", "a😀b",
            "\ud800", "\udc00", "\udbff", "\udfff", "\ud800a", "a\udc00", "\udc00\ud800", "\ud800\ud800\udc00", "\ud800\udc00\udc00",
            "\udbff\udfff", "file:/tmp/ü 日本/😀", "0123456\u00e9", "01234567\u00e9", "012345678\u00e9", "a\u0301",
        };
        for (String s : strings) {
            write(s);
        }
        Random r = new Random(1);
        for (int i = 0; i < 150; i++) {
            StringBuilder b = new StringBuilder();
            for (int n = r.nextInt(24); n > 0; n--) {
                switch (r.nextInt(7)) {
                    case 0 -> b.append((char) r.nextInt(0x800));
                    case 1 -> b.append((char) r.nextInt(0x10000));
                    case 2 -> b.append((char) (0xd800 + r.nextInt(0x400)));
                    case 3 -> b.append((char) (0xdc00 + r.nextInt(0x400)));
                    case 4 -> b.appendCodePoint(0x10000 + r.nextInt(0x100000));
                    default -> b.append((char) (32 + r.nextInt(95)));
                }
            }
            write(b.toString());
        }
        for (byte[] raw : new byte[][] {
            bytes(0), bytes('a', 0, 'b'), bytes(0xc0, 0x80), bytes(0xc1, 0x81), bytes(0xe0, 0x80, 0x80), bytes(0xe0, 0x81, 0x81), bytes(0xe0, 0x9f, 0xbf),
            bytes(0xed, 0xa0, 0x80), bytes(0xed, 0xb0, 0x80), bytes(0xed, 0xa0, 0xbd, 0xed, 0xb8, 0x80), bytes(0xf0, 0x9f, 0x98, 0x80),
            bytes(0x80), bytes(0xbf), bytes(0xc2), bytes(0xc2, 'a'), bytes(0xc2, 0xc2), bytes(0xe2, 0x82), bytes(0xe2, 0x82, 'a'), bytes(0xe2, 'a', 0x82),
            bytes(0xf8), bytes(0xff), bytes('a', 0xff), bytes('0', '1', '2', '3', '4', '5', '6', '7', 0xff),
        }) {
            read(raw);
        }
        for (int i = 0; i < 400; i++) {
            byte[] raw = new byte[r.nextInt(10)];
            for (int j = 0; j < raw.length; j++) {
                raw[j] = (byte) switch (r.nextInt(5)) {
                    case 0 -> r.nextInt(0x80);
                    case 1 -> 0xc0 + r.nextInt(0x20);
                    case 2 -> 0xe0 + r.nextInt(0x10);
                    case 3 -> r.nextInt(0x100);
                    default -> 0x80 + r.nextInt(0x40);
                };
            }
            read(raw);
        }
        out.flush();
    }
}
