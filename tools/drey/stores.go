package main

import (
	"context"

	"github.com/drey-state/drey/storage"
)

// s3Options are the options of one S3 store.
type s3Options struct {
	endpoint  string
	pathStyle bool
	profile   string
}

// stores makes the stores that URIs of the command line can name. The store
// of S3 is made when it is first used, as it looks for credentials.
func stores(ctx context.Context, e *env) (storage.FS, error) {
	return storesWith(ctx, e, s3Options{e.s3Endpoint, e.s3PathStyle, e.profile})
}

func storesWith(ctx context.Context, e *env, o s3Options) (storage.FS, error) {
	local := storage.NewLocal(storage.LocalOptions{})
	return storage.Mux{"file": local}, nil
}
