package rest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// decode reads an answer, and demands the fields that are always there, so
// that what isn't of Flink never looks like an answer with nothing in it.
func decode(data []byte, into any) error {
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%w: %w", ErrNotFlink, err)
	}
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		return fmt.Errorf("%w: %w", ErrNotFlink, err)
	}
	if name := missing(tree, reflect.TypeOf(into).Elem()); name != "" {
		return fmt.Errorf("%w: no field %s", ErrNotFlink, strings.TrimPrefix(name, "."))
	}
	return nil
}

var rawMessage = reflect.TypeFor[json.RawMessage]()

// missing names the first field with the tag flink:"always" that v lacks, or
// that is null or an empty text there; "" if it has all.
func missing(v any, t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Struct:
		object, ok := v.(map[string]any)
		if !ok {
			return "."
		}
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Anonymous {
				if name := missing(v, f.Type); name != "" {
					return name
				}
				continue
			}
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			x := object[name]
			if f.Tag.Get("flink") == "always" && (x == nil || x == "") {
				return "." + name
			}
			if x == nil {
				continue
			}
			if inner := missing(x, f.Type); inner != "" {
				return "." + name + inner
			}
		}
	case reflect.Slice:
		list, ok := v.([]any)
		if !ok || t == rawMessage {
			return ""
		}
		for i, x := range list {
			if inner := missing(x, t.Elem()); inner != "" {
				return "[" + strconv.Itoa(i) + "]" + inner
			}
		}
	case reflect.Map:
		object, _ := v.(map[string]any)
		for key, x := range object {
			if inner := missing(x, t.Elem()); inner != "" {
				return "." + key + inner
			}
		}
	}
	return ""
}
