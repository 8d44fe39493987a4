package heap

import (
	"fmt"
	"math"
	"reflect"

	"github.com/drey-state/drey/serializer"
)

// oddOf gives what finds the values of a type that Go compares otherwise than Java: those that hold NaN, which in Go is not equal to
// itself, or negative zero, which is equal to zero. It gives nil for types that hold no floating-point numbers.
func oddOf[T any]() func(T) bool {
	if !floats(reflect.TypeFor[T]()) {
		return nil
	}
	return func(v T) bool { return odd(reflect.ValueOf(v)) }
}

func floats(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return true
	case reflect.Array:
		return floats(t.Elem())
	case reflect.Struct:
		for f := range t.Fields() {
			if floats(f.Type) {
				return true
			}
		}
	}
	return false
}

func odd(v reflect.Value) bool {
	number := func(f float64) bool { return f != f || f == 0 && math.Signbit(f) }
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		return number(v.Float())
	case reflect.Complex64, reflect.Complex128:
		return number(real(v.Complex())) || number(imag(v.Complex()))
	case reflect.Array:
		for i := range v.Len() {
			if odd(v.Index(i)) {
				return true
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if odd(v.Field(i)) {
				return true
			}
		}
	}
	return false
}

func oddError(what string, v any) error {
	return fmt.Errorf("%s %v: NaN and negative zero in keys are only held apart by the backend on Pebble: %w", what, v, serializer.ErrUnsupported)
}
