package tools

import (
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"io"
	"strconv"
	"unicode"
	"unicode/utf8"
	"unsafe"

	"github.com/parquet-go/parquet-go"

	"github.com/drey-state/drey/backend"
)

// Row is an entry as a row of a table. Keys and values are text: a string as
// it is, everything else as its JSON; nil stands for none and for null.
type Row struct {
	Operator   string `parquet:"operator,dict"`
	OperatorID string `parquet:"operator_id,dict"`
	Subtask    int32  `parquet:"subtask"`
	State      string `parquet:"state,dict"`
	// Type of keyed state, or the distribution mode of operator state.
	Type      string  `parquet:"type,dict"`
	KeyGroup  *int32  `parquet:"key_group,optional"`
	Key       *string `parquet:"key,optional"`
	Namespace *string `parquet:"namespace,optional"`
	UserKey   *string `parquet:"user_key,optional"`
	Value     *string `parquet:"value,optional"`
	// LastAccess with time to live, and Timestamp of a timer, in milliseconds since 1970.
	LastAccess *int64 `parquet:"last_access,optional,timestamp(millisecond)"`
	Timestamp  *int64 `parquet:"timestamp,optional,timestamp(millisecond)"`
}

// csvHeader are the columns of [Row] in CSV.
var csvHeader = []string{
	"operator", "operator_id", "subtask", "state", "type", "key_group", "key", "namespace", "user_key", "value", "last_access", "timestamp",
}

// rowEncoder makes rows of entries.
type rowEncoder struct {
	head    Row // what all rows have
	scratch []byte
	opaque  []byte // a copy of the last part of the row that shows bytes, nil if none does
}

func newRowEncoder(u *unit) *rowEncoder {
	return &rowEncoder{head: Row{Operator: operatorLabel(u.op), OperatorID: u.op.ID.String(), Subtask: int32(u.subtask)}}
}

// text is the cell of what append writes as JSON; nil for null. It is valid until the next call.
func (r *rowEncoder) text(failed *error, appendJSON func([]byte) ([]byte, error)) []byte {
	b, err := appendJSON(r.scratch[:0])
	r.scratch = b
	if _, ok := opaqueReason(b); ok {
		r.opaque = bytes.Clone(b)
	}
	if err != nil && *failed == nil {
		*failed = err
	}
	return cellText(b)
}

// cell is text as a string.
func (r *rowEncoder) cell(failed *error, appendJSON func([]byte) ([]byte, error)) *string {
	b := r.text(failed, appendJSON)
	if b == nil {
		return nil
	}
	return new(string(b))
}

// cellText is the text of a JSON value; nil for null.
func cellText(b []byte) []byte {
	switch {
	case string(b) == "null":
		return nil
	case b[0] == '"':
		if bytes.IndexByte(b, '\\') >= 0 {
			var text string
			if json.Unmarshal(b, &text) == nil {
				return []byte(text)
			}
		}
		return b[1 : len(b)-1]
	}
	return b
}

func (r *rowEncoder) keyed(e *backend.Entry) (row Row, err error) {
	s := e.State
	r.opaque = nil
	row = r.head
	row.State, row.Type, row.KeyGroup = s.Meta.Name, string(s.Type), new(int32(e.KeyGroup))
	row.Key = r.cell(&err, e.AppendKeyJSON)
	if !e.Unsplit && !noNamespaces(s) {
		row.Namespace = r.cell(&err, e.AppendNamespaceJSON)
	}
	switch {
	case s.Type == backend.TypeTimers:
		row.Timestamp = new(e.Timestamp)
		return row, err
	case s.Type == backend.TypeMap && !e.Unsplit:
		row.UserKey = r.cell(&err, e.AppendUserKeyJSON)
	}
	if ms, ok := lastAccess(e); ok {
		row.LastAccess = new(ms)
	}
	row.Value = r.cell(&err, valueOf(e, row.LastAccess != nil))
	return row, err
}

// valueOf appends the value of an entry as JSON, without its last access if it has one.
func valueOf(e *backend.Entry, hasAccess bool) func([]byte) ([]byte, error) {
	if !hasAccess {
		return e.AppendValueJSON
	}
	return func(dst []byte) ([]byte, error) {
		dst, err := e.AppendValueJSON(dst)
		return withoutLastAccess(dst), err
	}
}

func (r *rowEncoder) element(e *backend.OperatorEntry) (row Row, err error) {
	r.opaque = nil
	row = r.head
	row.State, row.Type = e.State.Name, e.State.Mode.String()
	if e.Key != nil {
		row.Key = r.cell(&err, e.AppendKeyJSON)
	}
	if k, ok := kafkaElement(e); ok {
		row.Value = new(string(k.appendJSON(nil)))
		return row, nil
	}
	row.Value = r.cell(&err, e.AppendValueJSON)
	return row, err
}

// lastAccess is the time at the start of a single value with time to live.
func lastAccess(e *backend.Entry) (ms int64, ok bool) {
	if !e.State.TTL || e.State.Type == backend.TypeList || e.Null || len(e.Value) < 8 {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(e.Value)), true
}

// withoutLastAccess turns {"value":V,"lastAccess":T} into V.
func withoutLastAccess(b []byte) []byte {
	const start, end = `{"value":`, `,"lastAccess":"`
	if i := bytes.LastIndex(b, []byte(end)); i >= len(start) && bytes.HasPrefix(b, []byte(start)) {
		return b[len(start):i]
	}
	return b
}

// bytes is an estimate of the memory that a row takes.
func (r *Row) bytes() int {
	n := int(unsafe.Sizeof(*r))
	for _, s := range []*string{r.Key, r.Namespace, r.UserKey, r.Value} {
		if s != nil {
			n += len(*s)
		}
	}
	return n
}

// csvSink writes CSV.
type csvSink struct{ w io.Writer }

func (s *csvSink) begin() error {
	w := csv.NewWriter(s.w)
	_ = w.Write(csvHeader) // Flush tells
	w.Flush()
	return w.Error()
}

func (s *csvSink) end() error              { return nil }
func (s *csvSink) encoder(u *unit) encoder { return &csvEncoder{rowEncoder: newRowEncoder(u)} }

func (s *csvSink) write(b *dumpBatch) error {
	_, err := s.w.Write(b.data)
	return err
}

// csvEncoder writes the columns of [Row] as package encoding/csv does, but
// straight from keys and values, without a string for each.
type csvEncoder struct {
	*rowEncoder
	state any    // whose columns first has
	first []byte // columns from operator to type, with the comma behind them
}

// start appends the columns that all entries of a state have.
func (c *csvEncoder) start(dst []byte, state any, name, typ string) []byte {
	if c.state != state {
		c.state, c.first = state, c.first[:0]
		for _, column := range []string{c.head.Operator, c.head.OperatorID, strconv.Itoa(int(c.head.Subtask)), name, typ} {
			c.first = append(appendCSV(c.first, []byte(column)), ',')
		}
	}
	return append(dst, c.first...)
}

func (c *csvEncoder) keyed(b *dumpBatch, e *backend.Entry) {
	s := e.State
	var err error
	c.opaque = nil
	timer := s.Type == backend.TypeTimers
	dst := c.start(b.data, s, s.Meta.Name, string(s.Type))
	dst = append(strconv.AppendInt(dst, int64(e.KeyGroup), 10), ',')
	dst = append(appendCSV(dst, c.text(&err, e.AppendKeyJSON)), ',')
	if !e.Unsplit && !noNamespaces(s) {
		dst = appendCSV(dst, c.text(&err, e.AppendNamespaceJSON))
	}
	dst = append(dst, ',')
	if s.Type == backend.TypeMap && !e.Unsplit {
		dst = appendCSV(dst, c.text(&err, e.AppendUserKeyJSON))
	}
	dst = append(dst, ',')
	ms, hasAccess := lastAccess(e)
	hasAccess = hasAccess && !timer
	if !timer {
		dst = appendCSV(dst, c.text(&err, valueOf(e, hasAccess)))
	}
	dst = append(dst, ',')
	if hasAccess {
		dst = strconv.AppendInt(dst, ms, 10)
	}
	dst = append(dst, ',')
	if timer {
		dst = strconv.AppendInt(dst, e.Timestamp, 10)
	}
	dst = append(dst, '\n')
	b.data = dst
	b.note(err, c.opaque)
}

func (c *csvEncoder) element(b *dumpBatch, e *backend.OperatorEntry) {
	row, err := c.rowEncoder.element(e)
	dst := append(c.start(b.data, e.State, row.State, row.Type), ',') // no key group
	if row.Key != nil {
		dst = appendCSV(dst, []byte(*row.Key))
	}
	dst = append(dst, ",,,"...)
	if row.Value != nil {
		dst = appendCSV(dst, []byte(*row.Value))
	}
	dst = append(dst, ",,\n"...)
	b.data = dst
	b.note(err, c.opaque)
}

// appendCSV appends a field, in quotation marks where package encoding/csv has them.
func appendCSV(dst, field []byte) []byte {
	plain := string(field) != `\.` // which means the end of the data to Postgres
	for _, c := range field {
		if c == ',' || c == '"' || c == '\r' || c == '\n' {
			plain = false
			break
		}
	}
	if first, _ := utf8.DecodeRune(field); plain && (len(field) == 0 || !unicode.IsSpace(first)) {
		return append(dst, field...)
	}
	dst = append(dst, '"')
	for _, c := range field {
		if c == '"' {
			dst = append(dst, '"')
		}
		dst = append(dst, c)
	}
	return append(dst, '"')
}

const (
	// rowGroupRows and rowGroupBytes are when a row group of Parquet is written.
	rowGroupRows  = 1 << 17
	rowGroupBytes = 32 << 20
)

// parquetSink writes Parquet.
type parquetSink struct {
	w     *parquet.GenericWriter[Row]
	rows  int
	bytes int
}

func newParquetSink(w io.Writer) *parquetSink {
	return &parquetSink{w: parquet.NewGenericWriter[Row](w, parquet.Compression(&parquet.Zstd), parquet.CreatedBy("drey", "", ""))}
}

func (s *parquetSink) begin() error            { return nil }
func (s *parquetSink) encoder(u *unit) encoder { return &parquetEncoder{newRowEncoder(u)} }
func (s *parquetSink) end() error              { return s.w.Close() }

func (s *parquetSink) write(b *dumpBatch) error {
	if _, err := s.w.Write(b.rows); err != nil {
		return err
	}
	s.rows += len(b.rows)
	for i := range b.rows {
		s.bytes += b.rows[i].bytes()
	}
	if s.rows < rowGroupRows && s.bytes < rowGroupBytes {
		return nil
	}
	s.rows, s.bytes = 0, 0
	return s.w.Flush()
}

type parquetEncoder struct{ *rowEncoder }

func (p *parquetEncoder) add(b *dumpBatch, row Row) {
	b.rows = append(b.rows, row)
	b.rowBytes += row.bytes()
}

func (p *parquetEncoder) keyed(b *dumpBatch, e *backend.Entry) {
	row, err := p.rowEncoder.keyed(e)
	p.add(b, row)
	b.note(err, p.opaque)
}

func (p *parquetEncoder) element(b *dumpBatch, e *backend.OperatorEntry) {
	row, err := p.rowEncoder.element(e)
	p.add(b, row)
	b.note(err, p.opaque)
}
