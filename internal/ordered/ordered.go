package ordered

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Depth is how many results a part may be ahead of what was taken of it.
const Depth = 8

// ErrEnough is what emit returns to [Each] to end it without an error.
var ErrEnough = errors.New("enough")

// Each works on parts 0 to n-1, on jobs of them at a time, and hands what
// they send to emit in the order of the parts, in the goroutine of the caller.
// Memory is bounded: a part that is ahead of its turn waits when it has sent
// [Depth] results. An error of work or emit ends everything.
func Each[T any](ctx context.Context, jobs, n int, work func(ctx context.Context, part int, send func(T) error) error, emit func(part int, result T) error) error {
	type stream struct {
		part    int
		results chan T
	}
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	queue := make(chan stream, jobs)
	var mu sync.Mutex
	next := 0
	// claim takes the next part; the queue has them in order as it is filled under the lock.
	claim := func() (stream, bool) {
		mu.Lock()
		defer mu.Unlock()
		if next == n || ctx.Err() != nil {
			return stream{}, false
		}
		s := stream{next, make(chan T, Depth)}
		select {
		case queue <- s:
		case <-ctx.Done():
			return stream{}, false
		}
		next++
		return s, true
	}
	for range min(jobs, n) {
		group.Go(func() error {
			for {
				s, ok := claim()
				if !ok {
					return ctx.Err()
				}
				err := work(ctx, s.part, func(result T) error {
					select {
					case s.results <- result:
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				})
				close(s.results)
				if err != nil {
					return err
				}
			}
		})
	}
	ended := make(chan error, 1)
	go func() {
		ended <- group.Wait()
		close(queue)
	}()
	var failed error
	for s := range queue {
		for result := range s.results {
			if failed != nil {
				continue
			}
			if failed = emit(s.part, result); failed != nil {
				cancel()
			}
		}
	}
	err := <-ended
	switch {
	case errors.Is(failed, ErrEnough):
		return nil
	case failed != nil:
		return failed
	case outer.Err() != nil:
		return outer.Err()
	}
	return err
}
