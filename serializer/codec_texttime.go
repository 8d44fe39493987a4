package serializer

import (
	"strconv"
	"strings"
)

// parseDate reads "2024-02-29"; years outside of 0 to 9999 have a sign.
func parseDate(s string) (Date, bool) {
	sign, digits := int64(1), s
	if rest, ok := strings.CutPrefix(s, "-"); ok {
		sign, digits = -1, rest
	} else if rest, ok := strings.CutPrefix(s, "+"); ok {
		digits = rest
	}
	parts := strings.Split(digits, "-")
	if len(parts) != 3 || len(parts[0]) < 4 || len(parts[1]) != 2 || len(parts[2]) != 2 {
		return Date{}, false
	}
	year, ok1 := number(parts[0], maxYear+1) // an Instant ends a year later
	month, ok2 := number(parts[1], 12)
	day, ok3 := number(parts[2], 31)
	d := Date{Year: int32(sign * year), Month: uint8(month), Day: uint8(day)}
	return d, ok1 && ok2 && ok3 && month >= 1 && day >= 1 && d.Day <= daysIn(d.Year, d.Month)
}

// parseTime reads "12:34", "12:34:56" or "12:34:56.789".
func parseTime(s string) (Time, bool) {
	clock, fraction, fractional := strings.Cut(s, ".")
	parts := strings.Split(clock, ":")
	if len(parts) == 2 && !fractional {
		parts = append(parts, "00")
	}
	if len(parts) != 3 || fractional && (fraction == "" || len(fraction) > 9) {
		return Time{}, false
	}
	var v [3]int64
	for i, p := range parts {
		var ok bool
		if v[i], ok = number(p, 59); !ok || len(p) != 2 {
			return Time{}, false
		}
	}
	nano, ok := number((fraction + "000000000")[:9], 999_999_999)
	t := Time{Hour: uint8(v[0]), Minute: uint8(v[1]), Second: uint8(v[2]), Nano: int32(nano)}
	return t, ok && t.valid()
}

// number reads digits.
func number(s string, most int64) (int64, bool) {
	if s == "" || s[0] == '+' || s[0] == '-' {
		return 0, false
	}
	v, err := strconv.ParseInt(s, 10, 64)
	return v, err == nil && v <= most
}

// parseDateTime reads a date and a time with a T or a space between.
func parseDateTime(s string) (DateTime, bool) {
	date, clock, ok := strings.Cut(s, "T")
	if !ok {
		date, clock, ok = strings.Cut(s, " ")
	}
	d, ok1 := parseDate(date)
	t, ok2 := parseTime(clock)
	return DateTime{d, t}, ok && ok1 && ok2
}

// parseInstant reads a date and time of UTC, which ends with Z.
func parseInstant(s string) (Instant, bool) {
	text, utc := strings.CutSuffix(s, "Z")
	v, ok := parseDateTime(text)
	return v.instant(), ok && utc
}

// instant is the point in time at which it is this date and time in UTC.
func (v DateTime) instant() Instant {
	return Instant{Second: v.Date.day()*86400 + v.Time.nanos()/1_000_000_000, Nano: v.Nano}
}

// day is the number of days since 1970, the inverse of dateOfDay.
func (d Date) day() int64 {
	year, month := int64(d.Year), int64(d.Month)
	if month <= 2 {
		year--
		month += 12
	}
	era, ofEra := floorDiv(year, 400)
	dayOfYear := (153*(month-3)+2)/5 + int64(d.Day) - 1
	return era*146097 + ofEra*365 + ofEra/4 - ofEra/100 + dayOfYear - 719468
}

func dateOfText(v any) (Date, error) {
	s, _ := v.(string)
	if d, ok := parseDate(s); ok {
		return d, nil
	}
	return Date{}, unexpected(`a date such as "2024-02-29"`, v)
}

func timeOfText(v any) (Time, error) {
	s, _ := v.(string)
	if t, ok := parseTime(s); ok {
		return t, nil
	}
	return Time{}, unexpected(`a time such as "12:34:56.789"`, v)
}

func dateTimeOfText(v any) (DateTime, error) {
	s, _ := v.(string)
	if t, ok := parseDateTime(s); ok {
		return t, nil
	}
	return DateTime{}, unexpected(`a date and time such as "2024-02-29T12:34:56.789"`, v)
}

func instantOfText(v any) (Instant, error) {
	s, _ := v.(string)
	if i, ok := parseInstant(s); ok && i.Second >= minSeconds && i.Second <= maxSeconds {
		return i, nil
	}
	return Instant{}, unexpected(`a point in time such as "2023-11-14T22:13:20.060Z"`, v)
}

// localInstantOfText is the point in time at which it is a date and time in UTC.
func localInstantOfText(v any) (Instant, error) {
	t, err := dateTimeOfText(v)
	return t.instant(), err
}

// millisOfText is a point in time in milliseconds.
func millisOfText(v any) (int64, error) {
	i, err := instantOfText(v)
	if err == nil && i.Nano%1_000_000 != 0 {
		err = unexpected("a point in time in milliseconds", v)
	}
	return i.millis(), err
}
