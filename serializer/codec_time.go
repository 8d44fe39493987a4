package serializer

import (
	"fmt"
	"math"
	"time"
)

// ForDate is DateSerializer of java.util.Date. Times between milliseconds are
// rounded down. Time.IsZero stands for null, here and in all codecs of time.Time.
func ForDate() Codec[time.Time] { return forMillis("DateSerializer$DateSerializerSnapshot") }

// ForSQLDate is SqlDateSerializer of java.sql.Date, a point in time in milliseconds like [ForDate].
func ForSQLDate() Codec[time.Time] { return forMillis("SqlDateSerializer$SqlDateSerializerSnapshot") }

// ForSQLTime is SqlTimeSerializer of java.sql.Time, a point in time in milliseconds like [ForDate].
func ForSQLTime() Codec[time.Time] { return forMillis("SqlTimeSerializer$SqlTimeSerializerSnapshot") }

func forMillis(class string) Codec[time.Time] {
	return newCodec(base+class, 8,
		func(out *Output, t time.Time) {
			if t.IsZero() {
				out.I64(math.MinInt64)
				return
			}
			out.I64(t.UnixMilli())
		},
		func(in *Input) time.Time {
			ms := in.I64()
			if ms == math.MinInt64 {
				return time.Time{}
			}
			return time.UnixMilli(ms).UTC()
		})
}

// ForSQLTimestamp is SqlTimestampSerializer of java.sql.Timestamp, a point in time.
func ForSQLTimestamp() Codec[time.Time] {
	return newCodec(base+"SqlTimestampSerializer$SqlTimestampSerializerSnapshot", 12,
		func(out *Output, t time.Time) {
			if t.IsZero() {
				out.I64(math.MinInt64)
				out.I32(0)
				return
			}
			out.I64(t.UnixMilli())
			out.I32(int32(t.Nanosecond()))
		},
		func(in *Input) time.Time { return goTime(readTimestamp(in)) })
}

// ForInstant is InstantSerializer.
func ForInstant() Codec[time.Time] {
	return newCodec(base+"InstantSerializer$InstantSerializerSnapshot", 12,
		func(out *Output, t time.Time) {
			if t.IsZero() {
				out.I64(math.MinInt64)
				out.I32(math.MinInt32)
				return
			}
			out.I64(t.Unix())
			out.I32(int32(t.Nanosecond()))
		},
		func(in *Input) time.Time { return goTime(readInstant(in)) })
}

// goTime converts an Instant, or nil.
func goTime(v any) time.Time {
	i, ok := v.(Instant)
	if !ok {
		return time.Time{}
	}
	return time.Unix(i.Second, int64(i.Nano)).UTC()
}

// ForLocalDate is LocalDateSerializer without null (Flink 1.9 and later). A
// date that does not exist fails, as do those of the next two.
func ForLocalDate() Codec[Date] {
	return newCodec(base+"LocalDateSerializer$LocalDateSerializerSnapshot", 6, writeDate, readDate)
}

// ForLocalTime is LocalTimeSerializer without null.
func ForLocalTime() Codec[Time] {
	return newCodec(base+"LocalTimeSerializer$LocalTimeSerializerSnapshot", 7, writeTime, readTime)
}

// ForLocalDateTime is LocalDateTimeSerializer without null.
func ForLocalDateTime() Codec[DateTime] {
	return newCodec(base+"LocalDateTimeSerializer$LocalDateTimeSerializerSnapshot", 13,
		writeDateTime,
		func(in *Input) DateTime { return DateTime{Date: readDate(in), Time: readTime(in)} })
}

func (d Date) valid() bool {
	return d.Year >= -maxYear && d.Year <= maxYear && d.Month >= 1 && d.Month <= 12 && d.Day >= 1 && d.Day <= daysIn(d.Year, d.Month)
}

func (t Time) valid() bool {
	return t.Hour <= 23 && t.Minute <= 59 && t.Second <= 59 && t.Nano >= 0 && t.Nano <= 999_999_999
}

func writeDate(out *Output, d Date) {
	if !d.valid() {
		out.Fail(fmt.Errorf("no date: year %d, month %d, day %d", d.Year, d.Month, d.Day))
	}
	out.I32(d.Year)
	out.U8(d.Month)
	out.U8(d.Day)
}

func readDate(in *Input) Date {
	off := in.Offset()
	d, ok := in.date()
	if !ok {
		in.FailAt(off, "date", ErrNull)
	}
	return d
}

func writeTime(out *Output, t Time) {
	if !t.valid() {
		out.Fail(fmt.Errorf("no time: %d:%d:%d and %d ns", t.Hour, t.Minute, t.Second, t.Nano))
	}
	out.U8(t.Hour)
	out.U8(t.Minute)
	out.U8(t.Second)
	out.I32(t.Nano)
}

func readTime(in *Input) Time {
	off := in.Offset()
	t, ok := in.time()
	if !ok {
		in.FailAt(off, "time", ErrNull)
	}
	return t
}
