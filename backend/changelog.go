package backend

import (
	"context"
	"fmt"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/serializer"
)

// openChangelog opens the state of the changelog backend: a base and the changes since.
func openChangelog(_ context.Context, _ Files, _ *metadata.Changelog, _ Options) (*KeyedReader, error) {
	return nil, fmt.Errorf("state of the changelog backend: %w", serializer.ErrUnsupported)
}
