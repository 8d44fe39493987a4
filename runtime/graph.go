package runtime

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/drey-state/drey/backend"
	"github.com/drey-state/drey/keygroup"
	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// Job is a graph of operators. It is built by one goroutine, by the functions of this package that give streams; what is
// wrong with it is told by [Job.Err] and by [Start]. A job can be started any number of times.
type Job struct {
	name  string
	nodes []*node
	byUID map[string]*node
	errs  []error
}

// NewJob makes a job without operators.
func NewJob(name string) *Job { return &Job{name: name, byUID: map[string]*node{}} }

// Name is that of the job.
func (j *Job) Name() string { return j.name }

// Err says what is wrong with the graph, all of it; nil if nothing is.
func (j *Job) Err() error {
	if err := errors.Join(j.errs...); err != nil {
		return err
	}
	if len(j.nodes) == 0 {
		return errors.New("the job has no operators")
	}
	for _, n := range j.nodes {
		if n.loop && !n.closed() {
			return fmt.Errorf("loop %q: nothing is fed back, call CloseWith", n.UID)
		}
	}
	return nil
}

func (j *Job) fail(format string, args ...any) { j.errs = append(j.errs, fmt.Errorf(format, args...)) }

// Op says which operator of the job it is and how it runs; all but UID may be left out.
type Op struct {
	// UID identifies the operator in snapshots (uid of Flink's DataStream), whatever else changes in the job.
	UID string
	// Name is for people; UID if it is "".
	Name string
	// Parallelism is the number of subtasks; 0 means that of the options.
	Parallelism int
	// MaxParallelism is the number of key groups, and the highest parallelism that the state can ever have. 0 means that of the snapshot
	// that the job is restored from, or else that of the options.
	MaxParallelism int
	// NewChain keeps the operator from running in the task of the one before it (startNewChain).
	NewChain bool
}

// node is an operator of the graph.
type node struct {
	Op
	job   *Job
	index int
	id    metadata.OperatorID
	in    []*edge
	out   []*edge
	// make makes the operator of a subtask. outs are the receivers of out, in that order.
	make   func(outs []any) operator
	source bool
	keyed  bool
	// loop says that records are fed back to it, for which it waits so long at the end of its input.
	loop bool
	wait time.Duration
}

// shipping is how records find the subtask that they go to.
type shipping uint8

const (
	// shipForward goes to the subtask of the same index.
	shipForward shipping = iota
	// shipRebalance goes round robin.
	shipRebalance
	// shipHash goes by key group.
	shipHash
	// shipBroadcast goes to all.
	shipBroadcast
)

var shippingNames = [...]string{"FORWARD", "REBALANCE", "HASH", "BROADCAST"}

func (s shipping) String() string { return shippingNames[s] }

// edge is a stream between two operators.
type edge struct {
	from, to *node
	// input is which input of to it is.
	input int
	ship  shipping
	// feedback says that it closes a loop: only records go through it, and it takes any number of them.
	feedback bool
	// writer makes the sending side of a subtask, a receiver.
	writer func(t *task, ship shipping, maxParallelism int, targets []*channel) any
	// port makes the receiving side of what the operator has as receiver.
	port func(receiver any) port
	// decode reads the elements of a channel and gives each that is for the target to add: see restoredChannels.
	decode func(data []byte, maxParallelism, parallelism int, add func(target int, it item)) error
}

// String names the exchange.
func (e *edge) String() string { return fmt.Sprintf("%s -> %s (%s)", e.from.Name, e.to.Name, e.ship) }

// Stream is the records that an operator gives.
type Stream[T any] struct {
	from  *node
	codec serializer.Codec[T]
}

// KeyedStream is a stream whose records go to the subtask that has their key.
type KeyedStream[K comparable, T any] struct {
	stream Stream[T]
	codec  serializer.Codec[K]
	key    func(T) K
	hash   func(K) int32
}

// KeyBy has the records of a stream go by their key. The codec is that of keys in state.
func KeyBy[K comparable, T any](s Stream[T], codec serializer.Codec[K], key func(T) K) KeyedStream[K, T] {
	return KeyedStream[K, T]{stream: s, codec: codec, key: key}
}

// WithHash gives the hashCode of the Java objects that keys stand for, where it doesn't follow from the serializer, as for POJOs.
func (s KeyedStream[K, T]) WithHash(hash func(K) int32) KeyedStream[K, T] {
	s.hash = hash
	return s
}

// add adds an operator.
func (j *Job) add(o Op, makes func(outs []any) operator) *node {
	if o.Name == "" {
		o.Name = o.UID
	}
	n := &node{Op: o, job: j, index: len(j.nodes), id: metadata.UIDHash(o.UID), make: makes}
	switch other := j.byUID[o.UID]; {
	case o.UID == "":
		j.fail("operator %d %q has no uid, so that its state could not be found again", n.index, o.Name)
	case other != nil:
		j.fail("operators %q and %q have the same uid %q", other.Name, o.Name, o.UID)
	case o.Parallelism < 0 || o.MaxParallelism < 0 || o.MaxParallelism > keygroup.UpperBound:
		j.fail("operator %q: parallelism %d, max parallelism %d: they must be from 0 to %d", o.UID, o.Parallelism, o.MaxParallelism, keygroup.UpperBound)
	}
	j.byUID[o.UID] = n
	j.nodes = append(j.nodes, n)
	return n
}

// batchSize is how many records go through a channel at once.
const batchSize = 256

// connect makes a stream an input of an operator; it gives nil if that can't be.
func connect[T any](s Stream[T], to *node, ship shipping, route func(maxParallelism, parallelism int) (func(T) (int, error), error)) *edge {
	if s.from == nil {
		to.job.fail("operator %q: its input is no stream of a job", to.UID)
		return nil
	}
	if s.from.job != to.job {
		to.job.fail("operator %q: its input is of another job", to.UID)
		return nil
	}
	x := newExchange(s.codec, batchSize)
	e := &edge{from: s.from, to: to, input: len(to.in), ship: ship}
	e.writer = func(t *task, ship shipping, maxParallelism int, targets []*channel) any {
		return newWriter(t, x, ship, route, maxParallelism, targets)
	}
	e.port = func(r any) port { return &typedPort[T]{to: r.(receiver[T])} }
	e.decode = func(data []byte, maxParallelism, parallelism int, add func(int, item)) error {
		return decodeChannel(x, route, data, maxParallelism, parallelism, add)
	}
	to.in = append(to.in, e)
	s.from.out = append(s.from.out, e)
	return e
}

// connectKeyed makes a keyed stream an input of an operator.
func connectKeyed[K comparable, T any](s KeyedStream[K, T], to *node) {
	to.keyed = true
	connect(s.stream, to, shipHash, func(maxParallelism, parallelism int) (func(T) (int, error), error) {
		groups, err := backend.NewSubtask(s.codec, keygroup.Range{End: maxParallelism - 1}, maxParallelism, s.hash)
		if err != nil {
			return nil, err
		}
		return func(v T) (int, error) {
			g, err := groups.GroupOf(s.key(v))
			return keygroup.Subtask(g, maxParallelism, parallelism), err
		}, nil
	})
}

// vertex is a chain of operators that run in one task; Flink's JobVertex.
type vertex struct {
	index int
	// nodes are in order of the graph; the first is the head.
	nodes       []*node
	name        string
	parallelism int
	max         int
}

func (v *vertex) head() *node { return v.nodes[0] }

// id is that of the head operator, as in Flink.
func (v *vertex) id() string { return fmt.Sprintf("%x", v.head().id[:]) }

// plan is a job with its parallelism.
type plan struct {
	job      *Job
	vertices []*vertex
	of       map[*node]*vertex
	chained  map[*edge]bool
	ship     map[*edge]shipping // forward between other parallelisms is rebalance
}

// newPlan chains the operators of a job. max gives the max parallelism of an operator that has none of its own, 0 for the default.
func newPlan(j *Job, parallelism, maxParallelism int, restored func(*node) int) (*plan, error) {
	if err := j.Err(); err != nil {
		return nil, err
	}
	p := &plan{job: j, of: map[*node]*vertex{}, chained: map[*edge]bool{}, ship: map[*edge]shipping{}}
	of := func(n *node) int {
		if n.Parallelism > 0 {
			return n.Parallelism
		}
		return parallelism
	}
	for _, n := range j.nodes {
		size := of(n)
		for _, e := range n.in {
			p.ship[e] = e.ship
			if e.ship == shipForward && of(e.from) != size {
				p.ship[e] = shipRebalance
			}
		}
		if len(n.in) == 1 && !n.NewChain && p.ship[n.in[0]] == shipForward {
			if from := n.in[0].from; n.MaxParallelism == 0 || n.MaxParallelism == from.MaxParallelism {
				p.chained[n.in[0]] = true
				v := p.of[from]
				v.nodes, v.name = append(v.nodes, n), v.name+" -> "+n.Name
				p.of[n] = v
				continue
			}
		}
		v := &vertex{index: len(p.vertices), nodes: []*node{n}, name: n.Name, parallelism: size}
		p.vertices = append(p.vertices, v)
		p.of[n] = v
	}
	for _, v := range p.vertices {
		v.max = 0
		for _, n := range v.nodes {
			if m := restored(n); m != 0 {
				if n.MaxParallelism != 0 && n.MaxParallelism != m {
					return nil, fmt.Errorf("operator %q: %w: its state is of max parallelism %d, the job has %d", n.UID, ErrMaxParallelism, m, n.MaxParallelism)
				}
				if v.max != 0 && v.max != m {
					return nil, fmt.Errorf("operator %q: %w: its state is of max parallelism %d, that of an operator in the same chain of %d; set NewChain",
						n.UID, ErrMaxParallelism, m, v.max)
				}
				v.max = m
			}
		}
		for _, n := range v.nodes {
			if v.max == 0 {
				v.max = n.MaxParallelism
			}
		}
		if v.max == 0 {
			v.max = maxParallelism
		}
		if v.max == 0 {
			v.max = keygroup.DefaultMaxParallelism(v.parallelism)
		}
		if v.parallelism < 1 || v.parallelism > v.max {
			return nil, fmt.Errorf("operator %q: %w: parallelism %d, which must be from 1 to the max parallelism of %d", v.head().UID, ErrMaxParallelism, v.parallelism, v.max)
		}
	}
	return p, nil
}

// ErrMaxParallelism says that a job can't run with this parallelism or max parallelism.
var ErrMaxParallelism = errors.New("max parallelism")

// position is that of an operator in its vertex.
func (v *vertex) position(n *node) int { return slices.Index(v.nodes, n) }
