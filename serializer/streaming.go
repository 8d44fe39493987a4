package serializer

func streamingFamily(class string) (family, bool) { return family{}, false }
