package runtime

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are those of an execution. They are changed by its goroutine, and those of tasks by these.
type metrics struct {
	registerer                           prometheus.Registerer
	all                                  []prometheus.Collector
	completed, failed, restarts          prometheus.Counter
	inProgress, duration, size, fullSize prometheus.Gauge
	late                                 prometheus.CounterFunc
	subtask                              map[string]*prometheus.GaugeVec
	// backpressured and idle are how long tasks waited.
	backpressured, idle *prometheus.CounterVec
}

// subtaskMetrics are those of the last checkpoint for each subtask.
var subtaskMetrics = map[string]struct {
	help string
	of   func(SubtaskStats) float64
}{
	"checkpoint_start_delay_seconds": {"Time from the trigger of the last completed checkpoint until its first barrier came.", func(s SubtaskStats) float64 { return s.StartDelay.Seconds() }},
	"checkpoint_alignment_seconds": {"Time from the first barrier of the last completed checkpoint until the last one, or until it began to overtake.",
		func(s SubtaskStats) float64 { return s.Alignment.Seconds() }},
	"checkpoint_sync_seconds":   {"Time in which the subtask did nothing but take hold of its state for the last completed checkpoint.", func(s SubtaskStats) float64 { return s.Sync.Seconds() }},
	"checkpoint_async_seconds":  {"Time in which state of the last completed checkpoint was written.", func(s SubtaskStats) float64 { return s.Async.Seconds() }},
	"checkpoint_state_bytes":    {"Size of the state in the last completed checkpoint.", func(s SubtaskStats) float64 { return float64(s.StateSize) }},
	"checkpoint_inflight_bytes": {"Size of the records in flight in the last completed checkpoint.", func(s SubtaskStats) float64 { return float64(s.Channels) }},
}

var subtaskLabels = []string{"vertex", "subtask"}

func newMetrics(x *Execution) (*metrics, error) {
	labels := prometheus.Labels{"job_id": x.id, "job_name": x.job.name}
	name := func(n, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "drey", Subsystem: "job", Name: n, Help: help, ConstLabels: labels}
	}
	counter := func(n, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts(name(n, help)))
	}
	gauge := func(n, help string) prometheus.Gauge { return prometheus.NewGauge(prometheus.GaugeOpts(name(n, help))) }
	m := &metrics{
		registerer: x.o.Registerer,
		completed:  counter("checkpoints_completed_total", "Checkpoints that have completed, without savepoints."),
		failed:     counter("checkpoints_failed_total", "Checkpoints that have failed, without savepoints."),
		restarts:   counter("restarts_total", "Restarts after a failure."),
		inProgress: gauge("checkpoints_in_progress", "Checkpoints and savepoints that are under way."),
		duration:   gauge("checkpoint_duration_seconds", "Time from the trigger of the last completed checkpoint to its end."),
		size:       gauge("checkpoint_size_bytes", "Bytes that were written for the last completed checkpoint."),
		fullSize:   gauge("checkpoint_full_size_bytes", "Bytes of all that the last completed checkpoint needs."),
		late: prometheus.NewCounterFunc(prometheus.CounterOpts(name("late_records_dropped_total", "Records that came after their windows had ended.")),
			func() float64 { return float64(x.late.Load()) }),
		subtask: map[string]*prometheus.GaugeVec{},
		backpressured: prometheus.NewCounterVec(prometheus.CounterOpts(name("task_backpressured_seconds_total",
			"Time in which the subtask had records for tasks that took none, up to the last wait that has ended.")), subtaskLabels),
		idle: prometheus.NewCounterVec(prometheus.CounterOpts(name("task_idle_seconds_total", "Time in which the subtask had nothing to do, up to the last wait that has ended.")), subtaskLabels),
	}
	m.all = []prometheus.Collector{m.completed, m.failed, m.restarts, m.inProgress, m.duration, m.size, m.fullSize, m.late, m.backpressured, m.idle}
	for n, s := range subtaskMetrics {
		m.subtask[n] = prometheus.NewGaugeVec(prometheus.GaugeOpts(name(n, s.help)), subtaskLabels)
		m.all = append(m.all, m.subtask[n])
	}
	if m.registerer == nil {
		return m, nil
	}
	for i, c := range m.all {
		if err := m.registerer.Register(c); err != nil {
			for _, c := range m.all[:i] {
				m.registerer.Unregister(c)
			}
			return nil, err
		}
	}
	return m, nil
}

// unregister removes them.
func (m *metrics) unregister() {
	if m.registerer == nil {
		return
	}
	for _, c := range m.all {
		m.registerer.Unregister(c)
	}
}

// of has the waiting of a task counted, if anybody wants to know.
func (m *metrics) of(t *task) {
	if m.registerer != nil {
		labels := []string{t.v.id(), strconv.Itoa(t.subtask)}
		t.backpressured, t.idle = m.backpressured.WithLabelValues(labels...), m.idle.WithLabelValues(labels...)
	}
}

// ended notes a checkpoint that has ended.
func (m *metrics) ended(s CheckpointStats) {
	switch {
	case s.Savepoint:
		return
	case s.Status == CheckpointFailed:
		m.failed.Inc()
		return
	}
	m.completed.Inc()
	m.duration.Set(s.Duration.Seconds())
	m.size.Set(float64(s.CheckpointedSize))
	m.fullSize.Set(float64(s.FullSize))
	for _, t := range s.Subtasks {
		for n, of := range subtaskMetrics {
			m.subtask[n].WithLabelValues(t.Vertex, strconv.Itoa(t.Subtask)).Set(of.of(t))
		}
	}
}
