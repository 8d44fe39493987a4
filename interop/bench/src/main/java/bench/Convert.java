package bench;

import java.io.File;
import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.state.StateBackend;
import org.apache.flink.runtime.state.StateBackendLoader;
import org.apache.flink.state.api.OperatorIdentifier;
import org.apache.flink.state.api.OperatorTransformation;
import org.apache.flink.state.api.SavepointReader;
import org.apache.flink.state.api.SavepointWriter;
import org.apache.flink.state.api.StateBootstrapTransformation;
import org.apache.flink.state.api.functions.KeyedStateBootstrapFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;

/** Writes what Jobs.gen wrote anew, with the State Processor API. */
final class Convert {
    private Convert() {}

    static final class Read extends Compat.Reader<Long, Tuple2<Long, Long>> {
        private transient ValueState<Long> value;

        @Override
        void init() {
            value = getRuntimeContext().getState(new ValueStateDescriptor<>("value", Types.LONG));
        }

        @Override
        public void readKey(Long key, Context ctx, Collector<Tuple2<Long, Long>> out) throws Exception {
            out.collect(Tuple2.of(key, value.value()));
        }
    }

    static final class Write extends KeyedStateBootstrapFunction<Long, Tuple2<Long, Long>> {
        private transient ValueState<Long> value;

        @Override
        public void processElement(Tuple2<Long, Long> e, Context ctx) throws Exception {
            if (value == null) {
                value = getRuntimeContext().getState(new ValueStateDescriptor<>("value", Types.LONG));
            }
            value.update(e.f1);
        }
    }

    /** from: the backend that reads; format: canonical, native-heap or native-rocksdb. The line's wall_s is since the JVM's start. */
    static void run(String path, File target, String from, String format, int maxParallelism, File work) throws Exception {
        Configuration reading = Jobs.conf(from, 2, work);
        Configuration writing = Jobs.conf(format.equals("native-rocksdb") ? "rocksdb" : "hashmap", 2, work);
        ClassLoader loader = Convert.class.getClassLoader();
        StateBackend reads = StateBackendLoader.loadStateBackendFromConfig(reading, loader, null);
        StateBackend writes = StateBackendLoader.loadStateBackendFromConfig(writing, loader, null);
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(2, reading);
        env.setRuntimeMode(RuntimeExecutionMode.valueOf(System.getProperty("mode", "BATCH")));
        DataStream<Tuple2<Long, Long>> entries =
                SavepointReader.read(env, path, reads).readKeyedState(OperatorIdentifier.forUid("state"), new Read(), Types.LONG, Types.TUPLE(Types.LONG, Types.LONG));
        var keyed = OperatorTransformation.bootstrapWith(entries).keyBy(e -> e.f0, Types.LONG);
        StateBootstrapTransformation<Tuple2<Long, Long>> transformation = format.equals("canonical") ? keyed.transform(new Write())
                : keyed.transform(Compat.nativeWriter(new Write()));
        SavepointWriter.newSavepoint(env, writes, maxParallelism).withOperator(OperatorIdentifier.forUid("state"), transformation).write("file://" + target.getAbsolutePath());
        Out.Lap l = Out.time(() -> env.execute());
        Out.print(Out.fields("name", "convert", "what", format, "max_parallelism", maxParallelism, "from", from, "mode", System.getProperty("mode", "BATCH"), "mb", Out.round(Jobs.size(target) / 1e6),
                "execute_s", Out.round(l.wall), "wall_s", Out.round(Out.uptime()), "cpu_s", Out.round(Out.processCpu()), "gc_s", Out.round(l.gc), "peak_mb", Out.round(Out.peakResident() / 1e6)));
    }
}
