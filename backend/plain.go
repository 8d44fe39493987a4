package backend

import (
	"fmt"
	"reflect"
)

// Plain refuses types whose values are equal although Go says that they are not: those that hold pointers. what says what
// the values are.
func Plain[T any](what string) error {
	var walk func(t reflect.Type) bool
	walk = func(t reflect.Type) bool {
		switch t.Kind() {
		case reflect.Pointer, reflect.Interface, reflect.Chan, reflect.UnsafePointer:
			return false
		case reflect.Array:
			return walk(t.Elem())
		case reflect.Struct:
			for f := range t.Fields() {
				if !walk(f.Type) {
					return false
				}
			}
		}
		return true
	}
	if t := reflect.TypeFor[T](); !walk(t) {
		return fmt.Errorf("%s: values of %s hold pointers, which Go compares instead of what they point to", what, t)
	}
	return nil
}
