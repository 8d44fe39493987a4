package keygroup

// InstantHash is Instant.hashCode of seconds since 1970 and nanoseconds.
func InstantHash(second int64, nano int32) int32 { return LongHash(second) + 51*nano }

// DateHash is LocalDate.hashCode. java.util.Date and the classes of java.sql
// hash as Long by their milliseconds since 1970.
func DateHash(year int32, month, day uint8) int32 {
	return year&-2048 ^ (year<<11 + int32(month)<<6 + int32(day))
}

// TimeHash is LocalTime.hashCode of the nanoseconds since midnight. The hash
// of a LocalDateTime is its date's hash XOR its time's.
func TimeHash(nanoOfDay int64) int32 { return LongHash(nanoOfDay) }
