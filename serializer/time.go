package serializer

import (
	"fmt"
	"math"
)

// Limits of java.time: the years of a date, and the seconds of an Instant.
const (
	maxYear    = 999_999_999
	minSeconds = -31_557_014_167_219_200
	maxSeconds = 31_556_889_864_403_199
)

// timeFamily knows the serializers of dates and times.
func timeFamily(class string) (family, bool) {
	switch class {
	case base + "DateSerializer$DateSerializerSnapshot":
		return simple("java.util.Date", orNull(fixed(8, readMillis), millisOfText, (*Output).I64, nullMillis)), true
	case base + "SqlDateSerializer$SqlDateSerializerSnapshot":
		return simple("java.sql.Date", orNull(fixed(8, readMillis), millisOfText, (*Output).I64, nullMillis)), true
	case base + "SqlTimeSerializer$SqlTimeSerializerSnapshot":
		return simple("java.sql.Time", orNull(fixed(8, readMillis), millisOfText, (*Output).I64, nullMillis)), true
	case base + "SqlTimestampSerializer$SqlTimestampSerializerSnapshot":
		return simple("java.sql.Timestamp", orNull(fixed(12, readTimestamp), instantOfText, writeTimestamp, func(out *Output) {
			nullMillis(out)
			out.I32(0)
		})), true
	case base + "InstantSerializer$InstantSerializerSnapshot":
		return simple("Instant", orNull(fixed(12, readInstant), instantOfText, writeInstant, func(out *Output) {
			nullMillis(out)
			out.I32(math.MinInt32)
		})), true
	case base + "LocalDateSerializer$LocalDateSerializerSnapshot":
		return simple("LocalDate", orNull(fixed(6, func(in *Input) any {
			if d, ok := in.date(); ok {
				return d
			}
			return nil
		}), dateOfText, writeDate, writeNullDate)), true
	case base + "LocalTimeSerializer$LocalTimeSerializerSnapshot":
		return simple("LocalTime", orNull(fixed(7, func(in *Input) any {
			if t, ok := in.time(); ok {
				return t
			}
			return nil
		}), timeOfText, writeTime, writeNullTime)), true
	case base + "LocalDateTimeSerializer$LocalDateTimeSerializerSnapshot":
		return simple("LocalDateTime", orNull(fixed(13, readDateTime), dateTimeOfText, writeDateTime, func(out *Output) {
			writeNullDate(out)
			writeNullTime(out)
		})), true
	}
	return family{}, false
}

// orNull has s write what parse makes of a value, or null.
func orNull[T any](s *scalar, parse func(any) (T, error), write func(*Output, T), null func(*Output)) *scalar {
	return s.text(func(out *Output, v any) error {
		if v == nil {
			null(out)
			return nil
		}
		return with(parse, write)(out, v)
	})
}

func nullMillis(out *Output) { out.I64(math.MinInt64) }

func writeNullDate(out *Output) {
	out.I32(math.MinInt32)
	out.U16(0x8000)
}

func writeNullTime(out *Output) {
	out.Raw([]byte{0x80, 0x80, 0})
	out.I32(math.MinInt32)
}

func writeTimestamp(out *Output, v Instant) {
	out.I64(v.millis())
	out.I32(v.Nano)
}

func writeInstant(out *Output, v Instant) {
	out.I64(v.Second)
	out.I32(v.Nano)
}

func writeDateTime(out *Output, v DateTime) {
	writeDate(out, v.Date)
	writeTime(out, v.Time)
}

// millis is the instant of milliseconds since 1970.
func millis(ms int64) Instant {
	sec, rest := floorDiv(ms, 1000)
	return Instant{Second: sec, Nano: int32(rest) * 1_000_000}
}

// floorDiv gives the quotient rounded down and the rest, 0 to d-1.
func floorDiv(n, d int64) (quotient, rest int64) {
	quotient, rest = n/d, n%d
	if rest < 0 {
		return quotient - 1, rest + d
	}
	return quotient, rest
}

func readMillis(in *Input) any {
	ms := in.I64()
	if ms == math.MinInt64 {
		return nil
	}
	return millis(ms)
}

func readTimestamp(in *Input) any {
	off := in.Offset()
	ms, nanos := in.I64(), in.I32()
	switch {
	case ms == math.MinInt64 && nanos == 0:
		return nil
	case ms == math.MinInt64 || nanos < 0 || nanos > 999_999_999:
		in.FailAt(off, "timestamp", fmt.Errorf("%w: %d ms and %d ns", ErrCorrupt, ms, nanos))
		return nil
	}
	at := millis(ms)
	at.Nano = nanos
	return at
}

func readInstant(in *Input) any {
	off := in.Offset()
	sec, nanos := in.I64(), in.I32()
	switch {
	case sec == math.MinInt64 && nanos == math.MinInt32:
		return nil
	case sec < minSeconds || sec > maxSeconds || nanos < 0 || nanos > 999_999_999:
		in.FailAt(off, "instant", fmt.Errorf("%w: %d s and %d ns", ErrCorrupt, sec, nanos))
		return nil
	}
	return Instant{Second: sec, Nano: nanos}
}

// date reads a LocalDate; ok is false for null and after a failure.
func (in *Input) date() (d Date, ok bool) {
	off := in.Offset()
	d = Date{Year: in.I32(), Month: in.U8(), Day: in.U8()}
	if d == (Date{Year: math.MinInt32, Month: 0x80}) || in.err != nil {
		return Date{}, false
	}
	if d.Year < -maxYear || d.Year > maxYear || d.Month < 1 || d.Month > 12 || d.Day < 1 || d.Day > daysIn(d.Year, d.Month) {
		in.FailAt(off, "date", fmt.Errorf("%w: %d-%d-%d", ErrCorrupt, d.Year, d.Month, d.Day))
		return Date{}, false
	}
	return d, true
}

func daysIn(year int32, month uint8) uint8 {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// time reads a LocalTime; ok is false for null and after a failure.
func (in *Input) time() (t Time, ok bool) {
	off := in.Offset()
	t = Time{Hour: in.U8(), Minute: in.U8(), Second: in.U8(), Nano: in.I32()}
	if t == (Time{Hour: 0x80, Minute: 0x80, Nano: math.MinInt32}) || in.err != nil {
		return Time{}, false
	}
	if t.Hour > 23 || t.Minute > 59 || t.Second > 59 || t.Nano < 0 || t.Nano > 999_999_999 {
		in.FailAt(off, "time", fmt.Errorf("%w: %d:%d:%d and %d ns", ErrCorrupt, t.Hour, t.Minute, t.Second, t.Nano))
		return Time{}, false
	}
	return t, true
}

func readDateTime(in *Input) any {
	off := in.Offset()
	d, hasDate := in.date()
	t, hasTime := in.time()
	switch {
	case hasDate && hasTime:
		return DateTime{Date: d, Time: t}
	case hasDate || hasTime:
		in.FailAt(off, "date and time", fmt.Errorf("%w: half of it is null", ErrCorrupt))
	}
	return nil
}

// utc is the date and time at the instant in UTC.
func (i Instant) utc() DateTime {
	days, sec := floorDiv(i.Second, 86400)
	return DateTime{
		Date: dateOfDay(days),
		Time: Time{Hour: uint8(sec / 3600), Minute: uint8(sec / 60 % 60), Second: uint8(sec % 60), Nano: i.Nano},
	}
}

// dateOfDay is the date of a day since 1970. It counts in eras of 400 years
// that begin in March.
func dateOfDay(day int64) Date {
	era, ofEra := floorDiv(day+719468, 146097)
	year := (ofEra - ofEra/1460 + ofEra/36524 - ofEra/146096) / 365
	dayOfYear := ofEra - (365*year + year/4 - year/100)
	month := (5*dayOfYear + 2) / 153
	dayOfMonth := dayOfYear - (153*month+2)/5 + 1
	year += era * 400
	if month += 3; month > 12 {
		month -= 12
		year++
	}
	return Date{Year: int32(year), Month: uint8(month), Day: uint8(dayOfMonth)}
}
