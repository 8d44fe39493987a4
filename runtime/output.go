package runtime

import "slices"

// receiver takes the records of a stream, in the goroutine of the task. What it gives is an error of the job.
type receiver[T any] interface {
	receive(r Record[T]) error
	// advance says that the watermark is now that.
	advance(watermark int64) error
}

// fanout gives all records to several receivers.
type fanout[T any] []receiver[T]

func (f fanout[T]) receive(r Record[T]) error {
	for _, to := range f {
		if err := to.receive(r); err != nil {
			return err
		}
	}
	return nil
}

func (f fanout[T]) advance(watermark int64) error {
	for _, to := range f {
		if err := to.advance(watermark); err != nil {
			return err
		}
	}
	return nil
}

// output makes one receiver of those that an operator has.
func output[T any](outs []any) receiver[T] {
	if len(outs) == 1 {
		return outs[0].(receiver[T])
	}
	f := fanout[T]{}
	for _, o := range outs {
		f = append(f, o.(receiver[T]))
	}
	return f
}

// writer sends the records of a subtask to those of another task.
type writer[T any] struct {
	t       *task
	x       *exchange[T]
	ship    shipping
	route   func(T) (int, error)
	targets []*channel
	open    []*batch[T]
	next    int
	// feedback says that no events are to go through.
	feedback bool
}

// sender is a writer, whatever the type of its records.
type sender interface {
	flush()
	send(it item)
}

func newWriter[T any](t *task, x *exchange[T], ship shipping, route func(int, int) (func(T) (int, error), error), maxParallelism int, targets []*channel) *writer[T] {
	w := &writer[T]{t: t, x: x, ship: ship, targets: targets, open: make([]*batch[T], len(targets)), next: t.subtask % len(targets)}
	w.feedback = slices.ContainsFunc(targets, func(c *channel) bool { return c.edge.feedback })
	if ship == shipHash {
		var err error
		if w.route, err = route(maxParallelism, len(targets)); err != nil {
			w.route = func(T) (int, error) { return 0, err }
		}
	}
	t.senders = append(t.senders, w)
	return w
}

func (w *writer[T]) receive(r Record[T]) error {
	switch w.ship {
	case shipForward:
		return w.add(0, r)
	case shipHash:
		to, err := w.route(r.Value)
		if err != nil {
			return err
		}
		return w.add(to, r)
	case shipRebalance:
		to := w.next
		if w.next++; w.next == len(w.targets) {
			w.next = 0
		}
		return w.add(to, r)
	case shipBroadcast:
		for i := range w.targets {
			if err := w.add(i, r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *writer[T]) add(to int, r Record[T]) error {
	b := w.open[to]
	if b == nil {
		b = w.x.get()
		b.held = false
		w.open[to] = b
	}
	b.records = append(b.records, r)
	if len(b.records) >= w.x.size {
		w.open[to] = nil
		if w.targets[to].push(item{data: b}) > channelOverdraft {
			return w.t.drained(w.targets[to])
		}
	}
	return nil
}

//nolint:unparam // it is a receiver
func (w *writer[T]) advance(watermark int64) error {
	w.flush()
	w.send(item{event: eventWatermark, watermark: watermark})
	return nil
}

// flush sends the batches that are not full.
func (w *writer[T]) flush() {
	for i, b := range w.open {
		if b != nil {
			w.open[i] = nil
			w.targets[i].push(item{data: b})
		}
	}
}

// send sends an event to all targets.
func (w *writer[T]) send(it item) {
	if w.feedback {
		return
	}
	for _, c := range w.targets {
		c.push(it)
	}
}

// port is the input of an operator, whatever the type of its records.
type port interface {
	// run works on the records of a batch from one on, until the task has something else to do, and gives the index of the first
	// that it did not work on.
	run(t *task, data buffer, from int) (int, error)
}

type typedPort[T any] struct{ to receiver[T] }

func (p *typedPort[T]) run(t *task, data buffer, from int) (int, error) {
	records := data.(*batch[T]).records
	for i := from; i < len(records); i++ {
		if t.interrupted() {
			return i, nil
		}
		if err := p.to.receive(records[i]); err != nil {
			return i, err
		}
	}
	return len(records), nil
}
