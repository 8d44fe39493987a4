package runtime

import (
	"sync"

	"github.com/drey-state/drey/serializer"
)

// channelCapacity is how many batches a channel holds before its sender is to wait. Events, and what a sender has begun, go beyond it.
const channelCapacity = 4

// channelOverdraft is how many a channel holds at most, events apart: one record, or one watermark, may make that many before it is worked off.
const channelOverdraft = 64

// gate is the input of a task: a channel from each subtask of each task before it.
type gate struct {
	t *task

	mu       sync.Mutex
	channels []*channel
	// inputs is how many of the channels, the first ones, have events; the others feed records back.
	inputs int
	next   int
	// announced is the newest barrier that overtakes; the task has not looked at it yet.
	announced *barrier
}

// channel is what one subtask sends to another. Its sender pushes, its receiver takes; g.mu guards what both use.
type channel struct {
	g *gate
	// input is the number of the operator's input, from the index of the sending subtask in it.
	input, from int
	edge        *edge
	port        port
	sender      *task

	queue   []item
	head    int
	batches int
	// full says that the sender waits until there is room.
	full bool
	// blocked says that its barrier has come, and those of others have not.
	blocked bool
	capture *capture

	// Of the receiver alone:
	watermark int64
	ended     bool
}

// push appends an item and gives the number of batches in the channel. Only the goroutine of the sending task calls it.
func (c *channel) push(it item) int {
	g := c.g
	g.mu.Lock()
	if c.head > 0 && c.head == len(c.queue) {
		c.queue, c.head = c.queue[:0], 0
	}
	c.queue = append(c.queue, it)
	if it.data != nil {
		c.batches++
		// The sender of what is fed back may be the one that the receiver waits for.
		if c.batches >= channelCapacity && !c.full && !c.edge.feedback {
			c.full = true
			c.sender.blocked.Add(1)
		}
	}
	attention := false
	if c.capture != nil {
		c.captured(it)
	}
	if b := it.barrier; b != nil && b.unaligned.Load() && (g.announced == nil || g.announced.id < b.id) {
		g.announced, attention = b, true
	}
	batches := c.batches
	g.mu.Unlock()
	if attention {
		g.t.attend()
	}
	g.t.wakeUp()
	return batches
}

// drained waits until a channel has room again, in the midst of a record.
func (t *task) drained(c *channel) error {
	for {
		c.g.mu.Lock()
		full := c.full
		c.g.mu.Unlock()
		if !full {
			return nil
		}
		if t.ctx.Err() != nil {
			return errCanceled
		}
		t.wait(t.backpressured)
	}
}

// take gives the next item of the channels in turn; false if there is none.
func (g *gate) take() (*channel, item, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	crowded := g.returned() >= loopCapacity
	for range g.channels {
		c := g.channels[g.next]
		if g.next++; g.next == len(g.channels) {
			g.next = 0
		}
		if c.blocked || c.head == len(c.queue) {
			continue
		}
		it := c.queue[c.head]
		if crowded && it.data != nil && !c.edge.feedback {
			continue
		}
		c.queue[c.head] = item{}
		c.head++
		if it.data != nil {
			c.batches--
			if c.full && c.batches <= channelCapacity/2 {
				c.full = false
				c.sender.blocked.Add(-1)
				c.sender.wakeUp()
			}
		}
		return c, it, true
	}
	return nil, item{}, false
}

// loopCapacity is how many batches may have been fed back before a loop takes nothing more from its input.
const loopCapacity = 64

// returned counts the batches that were fed back. g.mu is held.
func (g *gate) returned() int {
	n := 0
	for _, c := range g.channels[g.inputs:] {
		n += c.batches
	}
	return n
}

// fedBack counts the batches that were fed back and not taken yet.
func (g *gate) fedBack() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.returned()
}

// block has take pass over a channel, or not any more.
func (g *gate) block(c *channel, blocked bool) {
	g.mu.Lock()
	c.blocked = blocked
	g.mu.Unlock()
}

// unblock has take pass over none.
func (g *gate) unblock() {
	g.mu.Lock()
	for _, c := range g.channels {
		c.blocked = false
	}
	g.mu.Unlock()
}

// announcement gives the barrier that has overtaken, once.
func (g *gate) announcement() *barrier {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.announced
	g.announced = nil
	return b
}

// has says whether a barrier is in one of the channels.
func (g *gate) has(b *barrier) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.channels {
		for _, it := range c.queue[c.head:] {
			if it.barrier == b {
				return true
			}
		}
	}
	return false
}

// capture is the content of a task's channels that a barrier has overtaken.
type capture struct {
	barrier *barrier
	parts   []*capturedChannel
	missing int
	// done is closed when the barrier has come in all channels.
	done chan struct{}
}

type capturedChannel struct {
	input, from int
	items       []item
	first       int // index of the first record of the first item
}

// start begins to capture what is in the channels and what comes until the barrier does. arrived says in which of them the task
// has met the barrier. current is the channel of the batch that the task is working on, of which the records from first on are left.
func (g *gate) start(b *barrier, arrived func(*channel) bool, current *channel, data buffer, first int) *capture {
	k := &capture{barrier: b, done: make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.channels[:g.inputs] {
		if !arrived(c) {
			k.missing++
		}
	}
	if k.missing == 0 {
		close(k.done)
	}
	for _, c := range g.channels[:g.inputs] {
		if arrived(c) {
			continue
		}
		part := &capturedChannel{input: c.input, from: c.from}
		k.parts = append(k.parts, part)
		if c == current && data != nil && first < data.len() {
			data.hold()
			part.items, part.first = append(part.items, item{data: data}), first
		}
		c.capture = k
		for _, it := range c.queue[c.head:] {
			if c.captured(it) {
				break
			}
		}
	}
	return k
}

// captured adds an item to what is captured of the channel; it says that the barrier was it. c.g.mu is held.
func (c *channel) captured(it item) bool {
	k := c.capture
	if it.barrier != nil {
		if it.barrier.id < k.barrier.id {
			return false
		}
		// The barrier, or a later one if its sender didn't take part.
		c.capture = nil
		if k.missing--; k.missing == 0 {
			close(k.done)
		}
		return true
	}
	if it.data != nil {
		it.data.hold()
	}
	for _, part := range k.parts {
		if part.input == c.input && part.from == c.from {
			part.items = append(part.items, it)
		}
	}
	return false
}

// drop ends a capture that nobody waits for.
func (g *gate) drop(k *capture) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.channels {
		if c.capture == k {
			c.capture = nil
		}
	}
}

// encode gives the elements of a channel; nothing if there are none. The capture must be done.
func (p *capturedChannel) encode(out *serializer.Output) ([]byte, error) {
	out.Reset()
	for i, it := range p.items {
		first := 0
		if i == 0 {
			first = p.first
		}
		if it.data != nil {
			it.data.encode(out, first)
		} else {
			encodeEvent(out, it)
		}
	}
	if err := out.Err(); err != nil {
		return nil, err
	}
	return append([]byte(nil), out.Bytes()...), nil
}
