package backend

import (
	"fmt"
	"math"

	"github.com/drey-state/drey/serializer"
)

// MaxSize is the most bytes that a key, a value or a list may have in its stored form, which is how many an array of Java holds.
const MaxSize = math.MaxInt32

// CheckMaxSize gives the limit that an option asks for: MaxSize if it is 0. More than that, or less than nothing, is an error.
func CheckMaxSize(n int) (int, error) {
	switch {
	case n == 0:
		return MaxSize, nil
	case n < 0 || n > MaxSize:
		return 0, fmt.Errorf("max size %d: it must be from 1 to %d", n, MaxSize)
	}
	return n, nil
}

// CheckSize says that something is too large; the error, which tells both sizes, unwraps to [ErrTooLarge].
func CheckSize(what string, size, most int) error {
	if size <= most {
		return nil
	}
	return fmt.Errorf("%s of %d bytes, the limit is %d: %w", what, size, most, ErrTooLarge)
}

// mostStates is how many states a header has at most: it counts them in two bytes with a sign.
const mostStates = 1<<15 - 1

// CheckState says why a state can't be one more beside n others: because a header can't tell of it.
func CheckState(m *StateMeta, n int) error {
	if n >= mostStates {
		return fmt.Errorf("more than %d states: %w", mostStates, ErrTooLarge)
	}
	out := serializer.NewOutput(nil)
	m.write(out)
	return out.Err()
}
