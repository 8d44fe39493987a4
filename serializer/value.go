package serializer

import "math/big"

// Values that [Serializer.Read] gives have these types:
//
//	nil                       null, Void
//	bool, int8, int16, int32, int64, float32, float64
//	string                    String, enum constants, CHAR/VARCHAR of Table jobs; a lone
//	                          surrogate of Java stays as its three bytes
//	[]byte                    byte[], BINARY
//	[]bool, []int16, ...      see []any: arrays of primitives but byte[] are []any too
//	Char                      char
//	*big.Int, Decimal         BigInteger, BigDecimal and DECIMAL
//	Date, Time, DateTime, Instant    dates and times of every Java class
//	Window                    TimeWindow and the windows of Table jobs; GlobalWindow and VoidNamespace are Unit
//	Unit                      a value that carries nothing
//	[]any                     List, Set, arrays, Tuple
//	Map                       Map
//	*Record                   POJO, Row, RowData, Avro record, and Flink's own classes
//	Either                    Either
//	TTL                       a value with its last access time
//	Timer                     a timer
//	Opaque                    what cannot be decoded
type (
	// Char is a UTF-16 code unit (java.lang.Character).
	Char uint16

	// Decimal is Unscaled * 10^-Scale (java.math.BigDecimal).
	Decimal struct {
		Unscaled *big.Int
		Scale    int32
	}

	// Date is a day of the proleptic ISO calendar (java.time.LocalDate, DATE).
	Date struct {
		Year       int32
		Month, Day uint8
	}

	// Time is a time of day without zone (java.time.LocalTime, TIME).
	Time struct {
		Hour, Minute, Second uint8
		Nano                 int32
	}

	// DateTime is a date and time without zone (java.time.LocalDateTime, TIMESTAMP).
	DateTime struct {
		Date
		Time
	}

	// Instant is a point in time: Second since 1970-01-01T00:00Z plus Nano (0 to
	// 999,999,999). java.time.Instant, java.util.Date and the classes of
	// java.sql, TIMESTAMP_LTZ.
	Instant struct {
		Second int64
		Nano   int32
	}

	// Window is a time window [Start, End) in milliseconds.
	Window struct{ Start, End int64 }

	// Unit is a value without content; its text names it, such as "GlobalWindow".
	Unit string

	// Map holds the entries of a map in the order of the bytes.
	Map []MapEntry

	// MapEntry is one entry of a [Map].
	MapEntry struct{ Key, Value any }

	// Record is an object with fields.
	Record struct {
		// Class is the class or record name; "" where it says nothing, as for Row and RowData.
		Class string
		// Kind is the row kind, such as "+I"; "" where there is none.
		Kind string
		// Fields in the order of the bytes. Names are empty for Row and RowData without names.
		Fields []Field
		// Subclass says that the object's class is not the one that the serializer is for.
		Subclass bool
		// Cut says that fields are missing because one before them is of unknown length.
		Cut bool
	}

	// Field is a field of a [Record].
	Field struct {
		Name  string
		Value any
	}

	// Either is Flink's Either: Left or not.
	Either struct {
		Left  bool
		Value any
	}

	// TTL is a value of a state with time to live.
	TTL struct {
		// LastAccess in milliseconds since 1970.
		LastAccess int64
		Value      any
	}

	// Timer is a registered timer (TimerHeapInternalTimer).
	Timer struct {
		// Timestamp in milliseconds since 1970.
		Timestamp      int64
		Key, Namespace any
	}

	// Opaque is a value that cannot be decoded.
	Opaque struct {
		// Class is the Java class of the value, or of its serializer.
		Class string
		// Raw are its bytes, up to the end of the frame if its length is unknown. A copy.
		Raw []byte
		// Reason says why.
		Reason string
	}
)
