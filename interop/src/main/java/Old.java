/** What stands in snapshots of the job in old/src/Old.java by its name. */
public final class Old {
    public static class Pojo {
        public String name;
        public int count;
        public long last;

        public Pojo() {}
    }

    private Old() {}
}
