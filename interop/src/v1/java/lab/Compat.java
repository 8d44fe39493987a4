package lab;

import java.util.List;
import java.util.Map;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.source.RichParallelSourceFunction;

/** What differs between Flink 1.20 and 2.x. */
final class Compat {
    private Compat() {}

    /** The source base class from before FLIP-27; only its package differs. */
    abstract static class LegacySource<T> extends RichParallelSourceFunction<T> {}

    abstract static class SinkBase<T> implements Sink<T> {
        @Override
        public SinkWriter<T> createWriter(InitContext ctx) {
            throw new UnsupportedOperationException();
        }
    }

    static boolean build(StreamExecutionEnvironment env, DataStream<Jobs.Event> src, String part) {
        return false;
    }

    static void states(String part, int rounds, Map<String, Map<String, Truth.State>> to) {}

    static void add(List<Cases.Case> l) {}
}
