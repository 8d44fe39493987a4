import java.io.ByteArrayOutputStream;
import java.io.ObjectOutputStream;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.checkpoint.CheckpointProperties;
import org.apache.flink.runtime.checkpoint.CheckpointRetentionPolicy;
import org.apache.flink.runtime.checkpoint.CheckpointType;

/** Serializes every kind of checkpoint properties: NAME HEX. README.md says how it was run. */
public class Properties {
    public static void main(String[] args) throws Exception {
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("null", null);
        for (CheckpointRetentionPolicy p : CheckpointRetentionPolicy.values()) {
            all.put("checkpoint/" + p, CheckpointProperties.forCheckpoint(p));
        }
        for (SavepointFormatType t : SavepointFormatType.values()) {
            all.put("savepoint/" + t, CheckpointProperties.forSavepoint(true, t));
            all.put("savepoint-not-forced/" + t, CheckpointProperties.forSavepoint(false, t));
            all.put("suspend/" + t, CheckpointProperties.forSyncSavepoint(true, false, t));
            all.put("terminate/" + t, CheckpointProperties.forSyncSavepoint(true, true, t));
            all.put("unclaimed/" + t, CheckpointProperties.forUnclaimedSnapshot());
        }
        all.put(
                "full/checkpoint",
                new CheckpointProperties(false, CheckpointType.FULL_CHECKPOINT, true, true, true, true, true, false));
        for (Map.Entry<String, Object> e : all.entrySet()) {
            ByteArrayOutputStream b = new ByteArrayOutputStream();
            try (ObjectOutputStream o = new ObjectOutputStream(b)) {
                o.writeObject(e.getValue());
            }
            System.out.println(e.getKey() + " " + HexFormat.of().formatHex(b.toByteArray()));
        }
    }
}
