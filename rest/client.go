package rest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// mostAnswer bounds an answer, in bytes. Statistics take about 600 for each checkpoint of the history.
	mostAnswer = 64 << 20
	// firstPause and longestPause are between the tries of a request while there is no leader.
	firstPause   = 200 * time.Millisecond
	longestPause = 5 * time.Second
)

// Options says how to talk to a cluster. The zero value is ready to use.
type Options struct {
	// HTTP makes the requests; its transport holds certificates, if Flink
	// or a proxy before it asks for them. Nil: http.DefaultClient.
	HTTP *http.Client
	// Token is sent as a bearer token. A user and password may stand in the URL.
	Token string
	// Timeout of one try of a request with its answer; 0: 30 seconds.
	Timeout time.Duration
	// RetryFor is how long a request is tried again while the job managers
	// have no leader; 0: one minute, negative: not at all.
	RetryFor time.Duration
	// Logger is told of each request (debug) and of what is tried again (warn). Nil: nobody.
	Logger *slog.Logger
}

// Client asks one cluster. Several goroutines may use it.
type Client struct {
	base     *url.URL
	http     *http.Client
	token    string
	timeout  time.Duration
	retryFor time.Duration
	log      *slog.Logger
}

// New prepares to ask the cluster at a URL such as
// https://user:password@host:8081/path. It makes no request.
func New(rawURL string, o Options) (*Client, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		// The error of url.Parse quotes the URL, which may hold a password.
		return nil, errors.New("job manager: not a valid URL")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("job manager %s: want http://HOST:PORT or https://HOST:PORT", u.Redacted())
	}
	c := &Client{base: u, http: o.HTTP, token: o.Token, timeout: o.Timeout, retryFor: o.RetryFor, log: o.Logger}
	if c.http == nil {
		c.http = http.DefaultClient
	}
	if c.timeout == 0 {
		c.timeout = 30 * time.Second
	}
	if c.retryFor == 0 {
		c.retryFor = time.Minute
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// URL of the cluster, without a password.
func (c *Client) URL() string { return c.base.Redacted() }

// Jobs asks GET /jobs/overview: the jobs that run and those that Flink remembers.
func (c *Client) Jobs(ctx context.Context) ([]JobOverview, error) {
	var a JobsOverview
	err := c.get(ctx, "jobs/overview", &a)
	return a.Jobs, err
}

// Job asks GET /jobs/:id.
func (c *Client) Job(ctx context.Context, job string) (*Job, error) {
	return ofJob[Job](ctx, c, job, "")
}

// Checkpoints asks GET /jobs/:id/checkpoints. Flink answers from a cache, that is some seconds old.
func (c *Client) Checkpoints(ctx context.Context, job string) (*Checkpoints, error) {
	return ofJob[Checkpoints](ctx, c, job, "/checkpoints")
}

// CheckpointConfig asks GET /jobs/:id/checkpoints/config.
func (c *Client) CheckpointConfig(ctx context.Context, job string) (*CheckpointConfig, error) {
	return ofJob[CheckpointConfig](ctx, c, job, "/checkpoints/config")
}

// Checkpoint asks GET /jobs/:id/checkpoints/details/:n: one that the history has, with its tasks.
func (c *Client) Checkpoint(ctx context.Context, job string, id int64) (*Checkpoint, error) {
	return ofJob[Checkpoint](ctx, c, job, "/checkpoints/details/"+strconv.FormatInt(id, 10))
}

// TaskCheckpoint asks GET /jobs/:id/checkpoints/details/:n/subtasks/:vertex.
func (c *Client) TaskCheckpoint(ctx context.Context, job string, id int64, vertex string) (*TaskCheckpointDetails, error) {
	return ofJob[TaskCheckpointDetails](ctx, c, job, "/checkpoints/details/"+strconv.FormatInt(id, 10)+"/subtasks/"+url.PathEscape(vertex))
}

// Dashboard asks GET /config.
func (c *Client) Dashboard(ctx context.Context) (*Dashboard, error) {
	return answered[Dashboard](ctx, c, "config")
}

// Overview asks GET /overview.
func (c *Client) Overview(ctx context.Context) (*Overview, error) {
	return answered[Overview](ctx, c, "overview")
}

// Settings asks GET /jobmanager/config: the cluster's configuration, without secrets.
func (c *Client) Settings(ctx context.Context) ([]Setting, error) {
	var a []Setting
	err := c.get(ctx, "jobmanager/config", &a)
	return a, err
}

// TriggerSavepoint posts to /jobs/:id/savepoints and gives the id to ask
// Savepoint by: that of the request, or a new one. It is an error of the
// operation, not of this request, if there is no such job.
func (c *Client) TriggerSavepoint(ctx context.Context, job string, r SavepointRequest) (trigger string, err error) {
	if r.TriggerID == "" {
		r.TriggerID = NewTriggerID()
	}
	return c.trigger(ctx, job, "/savepoints", r)
}

// Stop posts to /jobs/:id/stop: a savepoint, with which the job finishes. As TriggerSavepoint.
// A TriggerID that a savepoint of this job had starts nothing.
func (c *Client) Stop(ctx context.Context, job string, r StopRequest) (trigger string, err error) {
	if r.TriggerID == "" {
		r.TriggerID = NewTriggerID()
	}
	return c.trigger(ctx, job, "/stop", r)
}

// Savepoint asks GET /jobs/:id/savepoints/:trigger how far a savepoint or a stop is.
func (c *Client) Savepoint(ctx context.Context, job, trigger string) (*Operation, error) {
	return ofJob[Operation](ctx, c, job, "/savepoints/"+url.PathEscape(trigger))
}

// Cancel asks PATCH /jobs/:id?mode=cancel. It returns when the cancellation
// has begun; to cancel a job that was canceled is no error.
func (c *Client) Cancel(ctx context.Context, job string) error {
	path, err := jobPath(job)
	if err != nil {
		return err
	}
	return c.do(ctx, http.MethodPatch, path, "mode=cancel", nil, nil)
}

// DisposeSavepoint posts to /savepoint-disposal and gives the id to ask Disposal by. Flink deletes
// all that the metadata at the path names, whoever else uses it.
func (c *Client) DisposeSavepoint(ctx context.Context, path string) (trigger string, err error) {
	var t Trigger
	err = c.do(ctx, http.MethodPost, "savepoint-disposal", "", DisposalRequest{Path: path}, &t)
	return t.ID, err
}

// Disposal asks GET /savepoint-disposal/:trigger how far a disposal is.
func (c *Client) Disposal(ctx context.Context, trigger string) (*Operation, error) {
	return answered[Operation](ctx, c, "savepoint-disposal/"+url.PathEscape(trigger))
}

// NewTriggerID makes an id for a request that starts an operation.
func NewTriggerID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// IsID says whether s can be the id of a job, vertex or trigger: 32 hexadecimal digits.
func IsID(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == 32
}

func jobPath(job string) (string, error) {
	if !IsID(job) {
		return "", fmt.Errorf("%q is not the id of a job: want 32 hexadecimal digits", job)
	}
	return "jobs/" + job, nil
}

func (c *Client) trigger(ctx context.Context, job, path string, body any) (string, error) {
	p, err := jobPath(job)
	if err != nil {
		return "", err
	}
	var t Trigger
	err = c.do(ctx, http.MethodPost, p+path, "", body, &t)
	return t.ID, err
}

func ofJob[T any](ctx context.Context, c *Client, job, path string) (*T, error) {
	p, err := jobPath(job)
	if err != nil {
		return nil, err
	}
	return answered[T](ctx, c, p+path)
}

func answered[T any](ctx context.Context, c *Client, path string) (*T, error) {
	a := new(T)
	if err := c.get(ctx, path, a); err != nil {
		return nil, err
	}
	return a, nil
}

func (c *Client) get(ctx context.Context, path string, into any) error {
	return c.do(ctx, http.MethodGet, path, "", nil, into)
}

// do makes a request, again and again while there is no leader, and decodes the answer.
func (c *Client) do(ctx context.Context, method, path, query string, body, into any) error {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return err
		}
	}
	end := time.Now().Add(c.retryFor)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := c.try(ctx, method, path, query, data, into)
		if !again(method, err) || !time.Now().Add(pause).Before(end) {
			return err
		}
		c.log.WarnContext(ctx, "no leader, tried again", "method", method, "path", path, "pause", pause)
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", err, ctx.Err())
		case <-time.After(pause):
		}
	}
}

// again says that the job manager did nothing, for want of a leader.
func again(method string, err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == http.StatusServiceUnavailable &&
		(method == http.MethodGet || strings.Contains(e.Message, "leader election"))
}

// try makes a request once. Redirects, as to the leader, are followed;
// credentials don't go to another host with them.
func (c *Client) try(ctx context.Context, method, path, query string, body []byte, into any) error {
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	u := c.base.JoinPath(path)
	u.RawQuery = query
	r, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/json")
	if body != nil {
		r.Header.Set("Content-Type", "application/json; charset=UTF-8")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	start := time.Now()
	status, data, err := c.exchange(r)
	c.log.DebugContext(ctx, "request", "method", method, "path", path, "status", status, "duration", time.Since(start), "error", err)
	switch {
	case err != nil && ctx.Err() != nil && whole.Err() == nil:
		return fmt.Errorf("%s %s: no answer within %s: %w", method, path, c.timeout, context.DeadlineExceeded)
	case err != nil:
		return err // names method and URL, without password
	case status < 200 || status > 299:
		return newError(method, path, status, data)
	case into == nil:
		return nil
	}
	if err := decode(data, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func (c *Client) exchange(r *http.Request) (int, []byte, error) {
	resp, err := c.http.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer+1))
	if err != nil {
		return resp.StatusCode, nil, fmt.Errorf("%s: %w", r.URL.Path, err)
	}
	if len(data) > mostAnswer {
		return resp.StatusCode, nil, fmt.Errorf("%s: the answer is longer than %d bytes", r.URL.Path, mostAnswer)
	}
	return resp.StatusCode, data, nil
}
