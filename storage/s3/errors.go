package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/drey-state/drey/storage"
)

// code is the code that the server gave to an error; "" if it gave none.
func code(err error) string {
	var e smithy.APIError
	if errors.As(err, &e) && !withoutCredentials(err) {
		return e.ErrorCode()
	}
	return ""
}

// response is what S3 answered. An answer of where credentials come from, such as
// the metadata service of a machine, is none.
func response(err error) *smithyhttp.Response {
	var e *smithyhttp.ResponseError
	if errors.As(err, &e) && e.Response != nil && e.Response.Response != nil && e.Response.StatusCode != 0 && !withoutCredentials(err) {
		return e.Response // without a status it stands for no answer
	}
	return nil
}

// status is the HTTP status of an error; 0 if no answer came.
func status(err error) int {
	if r := response(err); r != nil {
		return r.StatusCode
	}
	return 0
}

func responseHeader(err error, name string) string {
	if r := response(err); r != nil {
		return r.Header.Get(name)
	}
	return ""
}

// brokenBody says that the connection ended in the middle of an answer.
func brokenBody(err error) bool {
	var ne net.Error
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.As(err, &ne)
}

// unsupported says that the server does not know what was asked of it.
func unsupported(err error) bool {
	switch code(err) {
	case "NotImplemented", "MethodNotAllowed":
		return true
	}
	s := status(err)
	return s == http.StatusNotImplemented || s == http.StatusMethodNotAllowed
}

// withoutCredentials says that a request was not sent for want of credentials;
// the SDK has only words for it.
func withoutCredentials(err error) bool {
	text := err.Error()
	return strings.Contains(text, "get identity: ") || strings.Contains(text, "failed to retrieve credentials")
}

// serverError is an error that a server answered, in few words.
type serverError struct {
	text  string
	is    error // what it means; may be nil
	cause error // may be nil
}

func (e *serverError) Error() string { return e.text }

func (e *serverError) Unwrap() []error {
	return slices.DeleteFunc([]error{e.is, e.cause}, func(err error) bool { return err == nil })
}

// fail makes of err the error of an operation on uri.
func (f *FS) fail(ctx context.Context, op, uri string, err error) error {
	if err == nil {
		return nil
	}
	var done *fs.PathError
	var explained *serverError
	if errors.As(err, &done) && (errors.As(err, &explained) || !withoutCredentials(err)) {
		return err // another path is in it if a file of credentials is missing
	}
	if cerr := ctx.Err(); cerr != nil {
		return &fs.PathError{Op: op, Path: uri, Err: cerr}
	}
	return &fs.PathError{Op: op, Path: uri, Err: f.explain(uri, err)}
}

// explain says what an error of the SDK means and what to do.
func (f *FS) explain(uri string, err error) error {
	var api smithy.APIError
	var resp = response(err)
	if withoutCredentials(err) {
		// The cause is left out of the chain: a file that it misses, say, is not the object.
		return &serverError{
			text: fmt.Sprintf("no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile (%s): %s", f.who(), err),
			is:   fs.ErrPermission,
		}
	}
	if !errors.As(err, &api) && resp == nil {
		return f.explainNoAnswer(err)
	}
	e := &serverError{cause: err}
	_, bucket, _ := storage.Split(uri)
	what := answer(err, api)
	switch c, s := code(err), status(err); {
	case c == "NoSuchBucket":
		e.is, e.text = fs.ErrNotExist, fmt.Sprintf("bucket %s does not exist at %s", bucket, f.where())
	case c == "InvalidAccessKeyId", c == "SignatureDoesNotMatch", c == "ExpiredToken", c == "InvalidToken",
		c == "AccessDenied", c == "Forbidden", c == "TokenRefreshRequired", strings.HasSuffix(c, "UserNotFound"), s == http.StatusForbidden, s == http.StatusUnauthorized:
		e.is, e.text = fs.ErrPermission, fmt.Sprintf("permission denied: %s; used %s", what, f.who())
		if c == "Forbidden" {
			// A HEAD gets no reason along.
			e.text += "; without the right to list the bucket, AWS also says this of an object that is not there"
		}
	case c == "NoSuchKey", c == "NotFound", s == http.StatusNotFound && c == "":
		e.is, e.text = fs.ErrNotExist, "no such object"
	case s == http.StatusMovedPermanently, c == "PermanentRedirect", c == "AuthorizationHeaderMalformed":
		e.text = fmt.Sprintf("the bucket is in another region than %s: %s; set the region or the endpoint", f.cfg.Region, what)
	case s == http.StatusPreconditionFailed, c == "ConditionalRequestConflict":
		e.is, e.text = fs.ErrExist, "object already exists"
	default:
		e.text = what
	}
	return e
}

// answer is what the server said.
func answer(err error, api smithy.APIError) string {
	var parts []string
	if api != nil {
		parts = append(parts, api.ErrorCode())
		if m := api.ErrorMessage(); m != "" && m != api.ErrorCode() {
			parts = append(parts, m)
		}
	}
	if s := status(err); s != 0 {
		parts = append(parts, fmt.Sprintf("HTTP status %d", s))
	}
	return strings.Join(parts, ", ")
}

// explainNoAnswer is for errors that happened on this side.
func (f *FS) explainNoAnswer(err error) error {
	var dns *net.DNSError
	switch {
	case errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrInvalid),
		errors.Is(err, storage.ErrIsDir), errors.Is(err, storage.ErrScheme), errors.Is(err, storage.ErrChanged),
		errors.Is(err, fs.ErrClosed), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, syscall.ECONNREFUSED), errors.As(err, &dns):
		return fmt.Errorf("%s cannot be reached; check the endpoint: %w", f.where(), err)
	}
	return err
}

// where names the server.
func (f *FS) where() string {
	if f.o.Endpoint != "" {
		return f.o.Endpoint
	}
	return "AWS"
}

// who names the credentials, without a secret.
func (f *FS) who() string {
	if f.o.Profile != "" {
		return fmt.Sprintf("profile %q at %s", f.o.Profile, f.where())
	}
	return fmt.Sprintf("the default credentials (AWS_PROFILE, AWS_ACCESS_KEY_ID) at %s", f.where())
}
