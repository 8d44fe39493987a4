package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/drey-state/drey/rest/resttest"
)

// TestInterruptedSavepoint: what goes on in the cluster is told, with what waits for it, and quiet doesn't hide that.
func TestInterruptedSavepoint(t *testing.T) {
	s, err := resttest.New("2.3.0", "running", "canonical")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Put("GET /jobs/"+resttest.Job+"/savepoints/00000000000000000000000000000003", 200, `{"status":{"id":"IN_PROGRESS"},"operation":null}`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			if n := len(s.Requests()); n >= 4 { // it waits
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	var out, errs bytes.Buffer
	code := run(ctx, []string{"savepoint", "-q", "--json", "-m", s.URL, "d0dbe9", "file:///flink/sp"}, &out, &errs)
	var doc failure
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil || code != exitInterrupted || doc.ExitCode != exitInterrupted || doc.Pending == nil || doc.Pending.Job.ID != resttest.Job {
		t.Fatalf("%d, %v: %s", code, err, &out)
	}
	want := "drey: interrupted: savepoint of job " + resttest.Job + " (Flink Streaming Job): it goes on in the cluster: context canceled; `drey savepoint " + resttest.Job + " --trigger " + doc.Pending.Trigger + "` waits for it\n"
	if errs.String() != want {
		t.Errorf("got  %q\nwant %q", &errs, want)
	}

	// And so it does.
	s.Put("GET /jobs/"+resttest.Job+"/savepoints/00000000000000000000000000000003", 200, `{"status":{"id":"COMPLETED"},"operation":{"location":"file:/flink/sp/savepoint-d0dbe9-f02827ff0091"}}`)
	out.Reset()
	if code = run(t.Context(), []string{"savepoint", "-m", s.URL, resttest.Job, "--trigger", doc.Pending.Trigger}, &out, &errs); code != exitDone || !strings.Contains(out.String(), "\nsavepoint: file:/flink/sp/savepoint-d0dbe9-f02827ff0091\n") {
		t.Errorf("%d: %s%s", code, &out, &errs)
	}
}
