package backend

import (
	"fmt"

	"github.com/drey-state/drey/serializer"
)

// readLegacyKeyedHeader reads a header of keyed state of a version before 6,
// of which only the version was read.
//
//nolint:unparam // no version is understood yet
func readLegacyKeyedHeader(in *serializer.Input, version int32) *KeyedHeader {
	in.Fail("version", fmt.Errorf("header of version %d: %w", version, serializer.ErrUnsupported))
	return nil
}

// readLegacyOperatorHeader reads a header of operator state of a version
// before 5, of which only the version was read.
func readLegacyOperatorHeader(in *serializer.Input, version int32) *OperatorHeader {
	in.Fail("version", fmt.Errorf("header of version %d: %w", version, serializer.ErrUnsupported))
	return nil
}
