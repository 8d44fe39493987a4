package backend

import (
	"context"
	"errors"
	"sync"

	"github.com/drey-state/drey/metadata"
)

// errOver is given by a snapshot that has no state any more.
var errOver = errors.New("the snapshot was written or given up before")

// Hold is what a [Snapshot] has on the state of its backend until it is written or given up. It may be used concurrently.
type Hold struct {
	free func()

	mu    sync.Mutex
	over  error                   // what Write gives; nil as long as it can be written
	stop  context.CancelCauseFunc // not nil while it is written
	ended chan struct{}           // closed when it was written
}

// NewHold makes a hold; free lets go of the state, and is called once.
func NewHold(free func()) *Hold { return &Hold{free: free} }

// Write has f write the state, and lets go of it. An error of f after Release or Close says so.
func (h *Hold) Write(ctx context.Context, f func(context.Context) (metadata.Keyed, error)) (metadata.Keyed, error) {
	ctx, err := h.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer h.end()
	k, err := f(ctx)
	if cause := context.Cause(ctx); err != nil && (errors.Is(cause, ErrClosed) || errors.Is(cause, errOver)) {
		err = cause
	}
	return k, err
}

func (h *Hold) begin(ctx context.Context) (context.Context, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over != nil {
		return nil, h.over
	}
	h.over, h.ended = errOver, make(chan struct{})
	ctx, h.stop = context.WithCancelCause(ctx)
	return ctx, nil
}

func (h *Hold) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stop(nil)
	h.stop = nil
	h.free()
	close(h.ended)
}

// Release is that of [Snapshot].
func (h *Hold) Release() { h.giveUp(errOver) }

// Close has Write fail with ErrClosed from now on, and waits for one that is on its way.
func (h *Hold) Close() {
	if ended := h.giveUp(ErrClosed); ended != nil {
		<-ended
	}
}

// giveUp lets go of the state, or has the Write that uses it end soon, and gives what tells when it has.
func (h *Hold) giveUp(why error) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.stop != nil:
		h.stop(why)
		return h.ended
	case h.over == nil:
		h.over = why
		h.free()
	}
	return nil
}
