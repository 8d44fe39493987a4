package serializer

// legacyFamily knows the classes of Flink before 1.8.
func legacyFamily(string) (family, bool) { return family{}, false }
