package interop

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// live is a job of real Flink that goes on while a test looks at its storage.
type live struct {
	url, job string
	dir      string // checkpoints are below dir/ckpt/job, savepoints below dir/sp
	in       io.Writer
	lines    <-chan string
	process  *os.Process
}

// live starts a job in dir; it ends with the test.
func (v flink) live(t *testing.T, dir string, args ...string) *live {
	t.Helper()
	c := exec.CommandContext(t.Context(), "./run.sh", append([]string{string(v), "live", dir}, args...)...)
	c.Env = append(c.Environ(), "TMPDIR="+scratch)
	c.WaitDelay = 5 * time.Second
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		_ = in.Close() // which ends it
		for range lines {
		}
		_ = c.Wait() // t.Context is canceled by now, which may have killed it
	})
	l := &live{dir: dir, in: in, lines: lines, process: c.Process}
	words := strings.Fields(l.line(t))
	if len(words) != 3 || words[0] != "LIVE" {
		t.Fatalf("the job did not start: %q", words)
	}
	l.url, l.job = words[1], words[2]
	return l
}

func (l *live) line(t *testing.T) string {
	t.Helper()
	select {
	case s, ok := <-l.lines:
		if !ok {
			t.Fatal("Flink has gone")
		}
		return s
	case <-time.After(limit):
		t.Fatal("Flink does not answer")
	}
	return ""
}

// do gives a command, and what follows the OK.
func (l *live) do(t *testing.T, command string) string {
	t.Helper()
	if _, err := io.WriteString(l.in, command+"\n"); err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	answer, ok := strings.CutPrefix(l.line(t), "OK")
	if !ok {
		t.Fatalf("%s: %s", command, answer)
	}
	return strings.TrimSpace(answer)
}

// kill ends Flink as a crash does, and waits until it is gone.
func (l *live) kill(t *testing.T) {
	t.Helper()
	if err := l.process.Kill(); err != nil {
		t.Fatal(err)
	}
	for range l.lines {
	}
}
